"""The privacy budget of a release: epsilon, the number m of data sets, and the Lipschitz bound of each draw."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..validation import positive, whole

MOST_DATASETS = 10_000


@dataclass(frozen=True)
class Budget:
    """The budget of a release of m synthetic data sets.

    Parameters
    ----------
    epsilon : float or None
        Budget of the whole release.  None means that the constants of the mechanism determine epsilon.
    m : int
        Number of data sets.  Each data set is simulated from its own posterior draw.

    Raises
    ------
    InputError
        epsilon is not a positive number, or m is not a whole number from 1 to 10,000.
    """

    epsilon: float | None
    m: int

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "m", whole(self.m, "m", MOST_DATASETS))

    @property
    def bound(self) -> float:
        """The largest permitted Lipschitz bound of a draw, epsilon / (2 m).

        The bound is rounded down if 2 m times the bound would exceed epsilon.  Without an epsilon the bound is 1.  The
        inverse map then has the privacy weights min(1, c1 / f_i), where f_i is the Lipschitz bound of record i.

        Source: Hu, Savitsky & Williams 2022a, section 1.4.1, step 5.
        """
        if self.epsilon is None:
            return 1.0
        bound = self.epsilon / (2 * self.m)
        while self.spent(bound) > self.epsilon:
            bound = math.nextafter(bound, 0)
        return bound

    def spent(self, delta: float) -> float:
        """Return 2 m delta, the epsilon of m draws with Lipschitz bound delta."""
        return 2 * delta * self.m
