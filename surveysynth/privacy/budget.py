"""The privacy budget of a release: the one home of epsilon, m and epsilon / (2 m)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..validation import positive, whole

MOST_DATASETS = 10_000


@dataclass(frozen=True)
class Budget:
    """What a release of m synthetic data sets may spend.

    Parameters
    ----------
    epsilon : float or None
        For the whole release; None where the mechanism's constants decide what is spent.
    m : int
        Number of data sets, each from a draw of its own.

    Raises
    ------
    InputError
        epsilon is no positive number, or m no whole number from 1 on.
    """

    epsilon: float | None
    m: int

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "m", whole(self.m, "m", MOST_DATASETS))

    @property
    def bound(self) -> float:
        """The Lipschitz bound that a draw may have, epsilon / (2 m), such that 2 m times it never exceeds epsilon.

        Without an epsilon it is 1: the inverse map alpha_i = c1 bound / f_i then is about the bound itself.

        Hu, Savitsky & Williams (2022a), section 1.4.1, step 5.
        """
        if self.epsilon is None:
            return 1.0
        bound = self.epsilon / (2 * self.m)
        while self.spent(bound) > self.epsilon:
            bound = math.nextafter(bound, 0)
        return bound

    def spent(self, delta: float) -> float:
        """Epsilon of m draws with a Lipschitz bound: 2 m delta."""
        return 2 * delta * self.m
