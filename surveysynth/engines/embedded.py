"""The embedded engine: stanli, Stan without a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stanli

from ..errors import EngineError, guarded
from .base import ADAPT_DELTA, Samples, diagnose, program_path


class Embedded:
    """Runs Stan programs in the process, with CmdStan's own samplers."""

    name = "stanli"
    version = stanli.__version__

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Sample with NUTS; see :class:`surveysynth.engines.base.Engine`.

        Raises
        ------
        EngineError
            The sampler stopped.  Stan's own message may quote the data, so it is not repeated.
        """

        def sample() -> stanli.Fit:
            path = program_path(program)
            model = stanli.Model(stan_file=str(path), data=dict(data), include_paths=[str(path.parent)])
            return model.sample(chains=chains, warmup=warmup, samples=draws, seed=seed, delta=ADAPT_DELTA, refresh=0)

        def stopped(kind: str) -> EngineError:
            return EngineError(
                f"stanli could not sample the program {program!r}: no finite log density was found. "
                "Is an outcome (nearly) constant, or are there more predictors than the file can carry?"
            )

        fit = guarded(sample, (RuntimeError, ValueError), stopped)
        values = {name: fit.draws(name) for name in fit.variables}
        return Samples(values, diagnose(values, int(fit.divergences.sum())), self.name, self.version)
