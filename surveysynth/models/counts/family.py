"""Counts as the strict mechanism takes them: the density's statistics, and the public counts that C_B sums over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, gammainc, gammaln, psi

from ..shared.clipped_outcome import Natural

Floats = NDArray[np.float64]

# Counts up to EXACT are summed one by one; above, those of a bin, a 20th of its counts wide, as its middle: the log
# ratio hardly bends within it.  Above the public bound, where no record is, bins are half as wide as their first count.
# The reference has TAIL of its probability beyond the last one.
EXACT, WIDER, ABOVE, TAIL, MOST = 64, 1.05, 1.5, 1e-7, 2.0**40


@dataclass(frozen=True)
class CountFamily:
    """Negative binomial (``shaped``) or Poisson counts, log mu linear in the predictors, the shape phi.

    ``highest`` is the public bound that counts are held at or below.
    """

    shaped: bool
    highest: float = np.inf

    @property
    def farthest(self) -> float:
        """Of a log mean."""
        return 25.0

    @property
    def summed(self) -> bool:
        """Counts are discrete."""
        return True

    def statistics(self, y: Floats) -> tuple[Floats, Floats]:
        """The count; nothing."""
        return y, np.zeros_like(y)

    def size(self, y: Floats) -> Floats:
        """What the log weight is linear in: log(1 + y)."""
        return np.asarray(np.log1p(y))

    def natural(self, eta: Floats, log_shape: float) -> Natural:
        """-phi r, log mu - r with r = log(1 + mu / phi); -mu and log mu without a shape."""
        nothing = np.zeros_like(eta)
        if not self.shaped:
            mu = np.exp(eta)
            return Natural(-mu, eta, nothing, (-mu, np.ones_like(eta), nothing), None)
        phi = np.exp(log_shape)
        share = expit(eta - log_shape)  # mu / (phi + mu)
        r = np.logaddexp(0.0, eta - log_shape)
        by_eta = -phi * share, 1 - share, nothing
        return Natural(-phi * r, eta - r, nothing, by_eta, (phi * (share - r), share, nothing))

    def table(self, y: Floats, log_shape: float) -> tuple[Floats, Floats]:
        """log Gamma(y + phi) - log Gamma(phi) - y log phi, and its derivative."""
        if not self.shaped:
            return np.zeros_like(y), np.zeros_like(y)
        phi = np.exp(log_shape)
        return gammaln(y + phi) - gammaln(phi) - y * log_shape, phi * (psi(y + phi) - psi(phi)) - y

    def information(self, eta: Floats, log_shape: float) -> Floats:
        """Of a count about log mu: mu phi / (mu + phi)."""
        mu = np.exp(eta)
        return np.asarray(mu * expit(log_shape - eta)) if self.shaped else mu

    def bend(self, eta: Floats) -> Floats:
        """Of a mean whose log is the linear predictor."""
        return np.ones_like(eta)

    def nodes(self, eta: Floats, log_shape: float, known: float, *, cells: bool) -> tuple[Floats, Floats]:
        """Counts, the same in every row, and their probabilities: (G, Q)."""
        starts = np.arange(min(EXACT, np.floor(self.highest) + 1) + 1, dtype=np.float64)
        while self._beyond(eta, log_shape, starts[-1:]).max() > TAIL and starts[-1] < MOST:
            wider = ABOVE if starts[-1] > self.highest else WIDER
            starts = np.append(starts, np.ceil(starts[-1] * wider))
        beyond = self._beyond(eta, log_shape, starts)
        beyond[beyond < TAIL] = 0.0
        beyond[:, -1] = 0.0
        mass = -np.diff(beyond, axis=1)
        middle = (starts[:-1] + starts[1:] - 1) / 2
        return np.tile(middle, (len(eta), 1)), mass

    def _beyond(self, eta: Floats, log_shape: float, count: Floats) -> Floats:
        """P(y >= count) in every row: (G, counts)."""
        eta, count = eta[:, None], count[None, :]
        at_least = np.maximum(count, 1.0)
        if self.shaped:
            phi = np.exp(log_shape)
            tail = betainc(at_least, phi, expit(eta - log_shape))
        else:
            tail = gammainc(at_least, np.exp(eta))
        return np.where(count > 0, tail, 1.0)
