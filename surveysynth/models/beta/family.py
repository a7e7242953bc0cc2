"""Shares as the strict mechanism takes them: the density's statistics, and public cells between its quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, gammaln, polygamma, psi

from ..shared.clipped_outcome import Natural, cell_limits, inner

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BetaFamily:
    """Beta shares, the logit of the mean linear in the predictors, the shape lambda.

    Attributes
    ----------
    edge : float
        Share of the range that values keep from the bounds.
    """

    edge: float

    @property
    def farthest(self) -> float:
        """Of the logit of a mean."""
        return 15.0

    @property
    def shaped(self) -> bool:
        """Lambda."""
        return True

    @property
    def summed(self) -> bool:
        """A share is continuous."""
        return False

    def statistics(self, y: Floats) -> tuple[Floats, Floats]:
        """log y and log(1 - y)."""
        return np.log(y), np.log1p(-y)

    def size(self, y: Floats) -> Floats:
        """Of no use: the weight is public."""
        raise NotImplementedError

    def natural(self, eta: Floats, log_shape: float) -> Natural:
        """-log B(p, q), p - 1 and q - 1, with p = lambda phi and q = lambda (1 - phi)."""
        lam = np.exp(log_shape)
        p, q = lam * expit(eta), lam * expit(-eta)
        slope = p * expit(-eta)  # of p in eta, and of -q
        by_p, by_q = psi(p), psi(q)
        by_eta = (by_q - by_p) * slope, slope, -slope
        by_shape = lam * psi(lam) - p * by_p - q * by_q, p, q
        return Natural(gammaln(lam) - gammaln(p) - gammaln(q), p - 1, q - 1, by_eta, by_shape)

    def table(self, y: Floats, log_shape: float) -> tuple[Floats, Floats]:
        """Nothing."""
        return np.zeros_like(y), np.zeros_like(y)

    def information(self, eta: Floats, log_shape: float) -> Floats:
        """Of a share about the logit of its mean."""
        p, q = np.exp(log_shape) * expit(eta), np.exp(log_shape) * expit(-eta)
        return np.asarray((polygamma(1, p) + polygamma(1, q)) * (p * expit(-eta)) ** 2)

    def bend(self, eta: Floats) -> Floats:
        """Of a mean whose logit is the linear predictor."""
        return 1 - 2 * expit(eta)

    def nodes(self, eta: Floats, log_shape: float, known: float, *, cells: bool) -> tuple[Floats, Floats]:
        """Limits of cells (G, Q + 1), and their probabilities (G, Q)."""
        u = cell_limits(known)
        lam = np.exp(log_shape)
        y = betaincinv(lam * expit(eta)[:, None], lam * expit(-eta)[:, None], inner(u)[None, :])
        return np.clip(y, self.edge, 1 - self.edge), np.tile(np.diff(u), (len(eta), 1))
