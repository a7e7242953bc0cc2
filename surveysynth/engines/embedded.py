"""The embedded engine, which runs Stan programs without a C++ compiler, by the package stanli."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import stanli
from numpy.typing import NDArray

from ..errors import EngineError, ModelError, guarded
from .base import ADAPT_DELTA, Samples, diagnose, program_path

SIZES = re.compile(r"variable name=(\w+).*?dims declared=(\([\d,]*\)).*?dims found=(\([\d,]*\))", re.S)


class Embedded:
    """Engine that runs Stan programs in this Python process, with the samplers of CmdStan."""

    name = "stanli"
    version = stanli.__version__

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Draw from the posterior of a Stan program by NUTS; see :class:`surveysynth.engines.base.Engine`.

        Raises
        ------
        EngineError
            The program could not be sampled.  Stan's own message is not repeated, as it may quote the data.
        """

        def sample() -> stanli.Fit:
            model = _model(program_path(program), data)
            return model.sample(chains=chains, warmup=warmup, samples=draws, seed=seed, delta=ADAPT_DELTA, refresh=0)

        def stopped(kind: str) -> EngineError:
            return EngineError(
                f"stanli could not sample the program {program!r}: no finite log density was found. "
                "Is an outcome (nearly) constant, or are there more predictors than the file can carry?"
            )

        fit = guarded(sample, (RuntimeError, ValueError), stopped)
        values = {name: fit.draws(name) for name in fit.variables}
        return Samples(values, diagnose(values, int(fit.divergences.sum())), self.name, self.version)


def _model(path: Path, data: Mapping[str, Any]) -> stanli.Model:
    return stanli.Model(stan_file=str(path), data=dict(data), include_paths=[str(path.parent)])


def check_program(path: Path) -> None:
    """Raise ModelError if a Stan program does not compile.  The error repeats the message of the compiler."""
    try:
        stanli.stan_to_mir(path.read_text(encoding="utf-8"), include_paths=[str(path.parent)])
    except RuntimeError as error:
        message = str(error).replace("'string'", f"'{path.name}'").strip()
        raise ModelError(f"the Stan program {path.name!r} does not compile. {message}") from None


def check_data(path: Path, data: Mapping[str, Any]) -> None:
    """Raise ModelError if data do not fit the declarations of a Stan program.

    The error has only names and sizes from Stan's message, as the rest of that message may quote values.
    """
    try:
        _model(path, data)
    except (RuntimeError, ValueError, TypeError) as error:
        message = str(error)
    else:
        return
    missing, sizes = re.search(r"unknown (?:data variable|int) (\w+)", message), SIZES.search(message)
    if missing:
        why = f"data= has no entry {missing[1]!r}, which the program declares"
    elif sizes:
        why = f"the entry {sizes[1]!r} of data= has the size {sizes[3]}, and the program declares {sizes[2]}"
    else:
        names = [name for name in data if re.search(rf"\b{re.escape(name)}\b", message)]
        why = f"the program does not take the data ({', '.join(names) or 'no entry is named'}): check types and limits"
    raise ModelError(f"{path.name}: {why}") from None


def log_target(path: Path, data: Mapping[str, Any], values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Compute the log density from which a Stan program samples, up to a constant, at several draws of the parameters.

    The density is of the unconstrained parameters, with the Jacobian.  ``values`` has S draws of each parameter,
    (S, ...), on the constrained scale.  The result is (S,).
    """
    model = _model(path, data)
    names = dict.fromkeys(name.split("[")[0].split(".")[0] for name in model.constrained_names)
    size = len(next(iter(values.values())))
    at = ({name: values[name][s].ravel(order="F").tolist() if values[name].ndim > 1 else float(values[name][s])
           for name in names} for s in range(size))  # fmt: skip
    return np.array([model.log_prob_grad(model.unconstrain(point))[0] for point in at])
