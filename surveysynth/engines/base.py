"""The interface of engines.  An engine runs a Stan program and returns posterior draws with diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import stanli
from numpy.typing import NDArray

from ..errors import EngineError

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
ADAPT_DELTA = 0.95  # short steps cost time, but a single divergence would stop the release


@dataclass(frozen=True)
class Diagnostics:
    """Sampler diagnostics of one fit.

    Attributes
    ----------
    divergences : int
        Number of divergent transitions.
    rhat, ess_bulk, ess_tail : float
        The largest R-hat and the smallest effective sample sizes over all parameters.
    exact : bool
        True if draws are independent draws from the posterior itself, which need no diagnostics.
    rhat_limit : float
        Largest R-hat that passes the check.
    """

    divergences: int = 0
    rhat: float = 1.0
    ess_bulk: float = np.inf
    ess_tail: float = np.inf
    exact: bool = False
    rhat_limit: float = RHAT_LIMIT

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the checks that failed, among divergences, rhat, ess_bulk and ess_tail."""
        checks = {
            "divergences": self.divergences > 0,
            "rhat": not self.rhat <= self.rhat_limit,
            "ess_bulk": not self.ess_bulk >= ESS_LIMIT,
            "ess_tail": not self.ess_tail >= ESS_LIMIT,
        }
        return tuple(name for name, failed in checks.items() if failed)

    def worst(self, other: Diagnostics) -> Diagnostics:
        """Combine the diagnostics of two fits: add the divergences, and take the worse value of each other diagnostic.

        The combined limit of R-hat is the larger one.
        """
        return Diagnostics(
            self.divergences + other.divergences, float(np.maximum(self.rhat, other.rhat)),
            float(np.minimum(self.ess_bulk, other.ess_bulk)), float(np.minimum(self.ess_tail, other.ess_tail)),
            self.exact and other.exact, max(self.rhat_limit, other.rhat_limit),
        )  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Posterior draws of the parameters of one Stan program, with the diagnostics of the sampler.

    Attributes
    ----------
    values : dict of float arrays (chains, draws, ...)
        One array per parameter, where "..." is the shape that the program declares.
    diagnostics : Diagnostics
    engine, version : str
        Name and version of the engine that sampled.
    """

    values: dict[str, NDArray[np.float64]]
    diagnostics: Diagnostics
    engine: str
    version: str


class Engine(Protocol):
    """The interface of an engine, which runs Stan programs."""

    name: str
    version: str

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Draw from the posterior of a Stan program by NUTS.

        ``program`` is a name in ``stan/`` without ``.stan``, or a path that ends in ``.stan``.  ``data`` are the data
        that the program declares, by name.  ``warmup`` and ``draws`` are numbers of iterations of each chain.
        """
        ...


def program_path(program: str) -> Path:
    """Return the path of a Stan program.  Raise EngineError for an unknown name.

    ``program`` is a name in ``stan/`` without ``.stan``, or a path that ends in ``.stan``.
    """
    if program.endswith(".stan"):
        return Path(program)
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "stan", package.parent / "stan"):
        path = folder / f"{program}.stan"
        if path.is_file():
            return path
    raise EngineError(f"the Stan program {program!r} is not in this installation; reinstall surveysynth")


def diagnose(values: Mapping[str, NDArray[np.float64]], divergences: int) -> Diagnostics:
    """Compute the largest R-hat and the smallest effective sample sizes (bulk and tail) over all parameters.

    Source: Vehtari et al. 2021, by Stan's code.

    ``values`` has an array (chains, draws, ...) for each parameter.  Constant elements, such as the fixed corner of a
    Cholesky factor, have no R-hat and are left out.  If an element is not finite, or all elements are constant, R-hat
    and effective sample sizes are NaN.  NaN fails the checks.
    """
    columns = [v.reshape(*v.shape[:2], -1) for v in values.values()]
    flat = np.concatenate(columns, axis=2)
    flat = flat[:, :, flat.min(axis=(0, 1)) != flat.max(axis=(0, 1))]
    if flat.shape[2] == 0 or not np.isfinite(flat).all():
        return Diagnostics(divergences, np.nan, np.nan, np.nan)
    names = [f"v{i}" for i in range(flat.shape[2])]
    stats = np.zeros((*flat.shape[:2], len(stanli.SAMPLER_COLUMNS)))
    summary = stanli.Fit(names, flat, stats, max_depth=0, seed=0).summary()
    return Diagnostics(
        divergences, float(summary.r_hat.max()), float(summary.ess_bulk.min()), float(summary.ess_tail.min())
    )
