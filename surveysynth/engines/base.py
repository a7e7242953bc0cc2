"""The interface of engines, which run a Stan program and return draws with their diagnostics."""

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
ADAPT_DELTA = 0.95  # short steps, which avoid divergences: one of them refuses the release


@dataclass(frozen=True)
class Diagnostics:
    """Sampler diagnostics of one fit: worst values over all parameters.

    ``exact`` marks independent draws from the posterior, which need no diagnostics.
    """

    divergences: int = 0
    rhat: float = 1.0
    ess_bulk: float = np.inf
    ess_tail: float = np.inf
    exact: bool = False
    rhat_limit: float = RHAT_LIMIT

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the failed checks: divergences, rhat, ess_bulk, ess_tail."""
        checks = {
            "divergences": self.divergences > 0,
            "rhat": not self.rhat <= self.rhat_limit,
            "ess_bulk": not self.ess_bulk >= ESS_LIMIT,
            "ess_tail": not self.ess_tail >= ESS_LIMIT,
        }
        return tuple(name for name, failed in checks.items() if failed)

    def worst(self, other: Diagnostics) -> Diagnostics:
        """Worst diagnostics of two parts of a model that were sampled separately."""
        return Diagnostics(
            self.divergences + other.divergences, float(np.maximum(self.rhat, other.rhat)),
            float(np.minimum(self.ess_bulk, other.ess_bulk)), float(np.minimum(self.ess_tail, other.ess_tail)),
            self.exact and other.exact, max(self.rhat_limit, other.rhat_limit),
        )  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Posterior draws of one program.

    Attributes
    ----------
    values : dict of float arrays (chains, draws, ...)
        One array a parameter, in its declared shape.
    diagnostics : Diagnostics
    engine, version : str
    """

    values: dict[str, NDArray[np.float64]]
    diagnostics: Diagnostics
    engine: str
    version: str


class Engine(Protocol):
    """An engine for the programs of ``stan/``."""

    name: str
    version: str

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Sample a program of ``stan/``, named without ``.stan``, with NUTS."""
        ...


def program_path(program: str) -> Path:
    """Path of a Stan program in an installed package or in ``stan/`` of a checkout; a user's path is kept."""
    if program.endswith(".stan"):
        return Path(program)
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "stan", package.parent / "stan"):
        path = folder / f"{program}.stan"
        if path.is_file():
            return path
    raise EngineError(f"the Stan program {program!r} is not in this installation; reinstall surveysynth")


def diagnose(values: Mapping[str, NDArray[np.float64]], divergences: int) -> Diagnostics:
    """Worst R-hat and effective sample sizes over parameters (Vehtari et al. 2021; Stan's own code).

    Constant entries (the fixed corner of a Cholesky factor) have no R-hat and are left out; an entry
    that is not finite fails every check.
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
