"""The privacy budget of a release: epsilon, m and epsilon / (2 m)."""

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
        Budget of the whole release; None if the constants of the mechanism determine epsilon.
    m : int
        Number of data sets, each from its own draw.

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

        It is rounded down where 2 m times the bound would exceed epsilon.  Without an epsilon it is 1, for the inverse
        map alpha_i = c1 bound / f_i.

        Hu, Savitsky & Williams (2022a), section 1.4.1, step 5.
        """
        if self.epsilon is None:
            return 1.0
        bound = self.epsilon / (2 * self.m)
        while self.spent(bound) > self.epsilon:
            bound = math.nextafter(bound, 0)
        return bound

    def spent(self, delta: float) -> float:
        """Epsilon of m draws with Lipschitz bound delta: 2 m delta."""
        return 2 * delta * self.m
