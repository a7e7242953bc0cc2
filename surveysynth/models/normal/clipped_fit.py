"""Draws of (B, Sigma) under the clipped log likelihood ratio, in coordinates in which the reference is standard normal.

    target(t) = prior(t) exp( sum_i a_i [clamp(l_i(t), -B, B) - C_B(t, x_i)] )

With the reference's B_ref, Sigma_ref = L_ref L_ref' and whitened predictors W = X Q, W'W / n = I, a record's
coordinates are v = L_ref^-1 (y - B_ref' x) and their means are beta' W: so beta = 0, Lambda = I is the reference.
The prior is public: beta ~ N(0, 4), lambda and delta flat where the eigenvalues of Lambda Lambda' lie within public
limits, and, where the weight is curved, kappa ~ N(kappa_ref, .2^2), eta ~ N(eta_ref, .12^2).

Categories k, multinomial within public cells, stand in the same density and under the same clamp: their log shares are
those of the reference plus contrasts psi ~ N(0, 4), which add up to 0 over the categories of a cell.  A record's
predictor row is then one of its public row, one for each category, and C_B is the expectation over categories, too:
every one of these rows, by the reference's share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ...engines.hamiltonian import Target
from .clipped_ratio import Form, clipped_ratio, extremes, rule

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

PRIOR_SD = 2.0  # of coefficients of whitened predictors, in the reference's standard deviations
CURVATURE_SD, SPREAD_SD = 0.2, 0.12  # of kappa and eta; free, the density has spikes in which chains stick
MANY_ROWS, NEAR = 256, 1e-3  # beyond so many predictor rows, C_B is that of groups; their mean square, at the least
# Step of the rule for C_B, by the number of coordinates, where the sum of a is STEP_AT.  The rule's error goes with
# less than its square, since the clamp has kinks, and the error of a maximum, in posterior standard deviations, with
# the square root of the sum: tried, it stays below .1 of these.
STEP, STEP_AT, MOST_NODES = {1: 0.4, 2: 0.4, 3: 0.5, 4: 0.8}, 700.0, 5000


@dataclass(frozen=True, repr=False)  # a repr would show draws
class Density:
    """The normal model's parameters: of a reference, or of one draw.

    Attributes
    ----------
    B : float array (K, d)
    L : float array (d, d)
    kappa, eta : float arrays (d - 1,)
        Curvature of the last column given the innovations of the others, in its standard deviations; of its log spread.
    log_shares : float array (cells, K) or None
        Of categories, where outcomes are categories.
    """

    B: Floats
    L: Floats
    kappa: Floats
    eta: Floats
    log_shares: Floats | None = None


@dataclass(frozen=True)
class Places:
    """Where a predictor row stands among the categories: its cell and category (G,), and how many categories there are.

    Rows of one public row follow each other, one a category.
    """

    cell: Codes
    category: Codes
    K: int


@dataclass(frozen=True, repr=False)
class ClippedTarget:
    """The target's ingredients: public ones, and the records in the order of their rows."""

    W: Floats
    Q: Floats
    reference: Density
    curved: bool
    B: float
    limits: tuple[float, float]
    v: Floats
    log_ref: Floats
    a: Floats
    start: Codes
    tempering: Floats  # of each row, for C_B: the sum of a over its records
    places: Places | None = None

    @property
    def d(self) -> int:
        """Number of coordinates of a record."""
        return self.v.shape[1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of beta, delta, lambda, kappa, eta, psi."""
        d, shares = self.d, self.reference.log_shares
        bent = d - 1 if self.curved else 0
        return self.W.shape[1] * d, d, d * (d - 1) // 2, bent, bent, 0 if shares is None else shares.size - len(shares)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each of them ends in a point."""
        return tuple(np.cumsum(self.sizes).tolist())

    @cached_property
    def below(self) -> tuple[Codes, Codes]:
        """Places below the diagonal."""
        return np.tril_indices(self.d, -1)

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about: from n a at the reference."""
        known, shares = self.tempering.sum(), self.sizes[-1]
        prior = (PRIOR_SD, np.inf, np.inf, CURVATURE_SD, SPREAD_SD, PRIOR_SD)
        information = (1, 2, 1, 2, 2, 1 / max(shares, 1))
        return np.concatenate([
            np.full(size, (k * known + 1 / sd**2) ** -0.5)
            for size, k, sd in zip(self.sizes, information, prior, strict=True)
        ])  # fmt: skip

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        beta, delta, lam, kappa, eta, psi = self.sizes
        bent = [self.reference.kappa, self.reference.eta] if self.curved else []
        centre = np.concatenate([np.zeros(beta + delta + lam), *bent, np.zeros(psi)])
        spread = np.concatenate([
            np.full(beta, 0.3 / np.sqrt(self.W.shape[1])), np.full(delta, 0.1), np.full(lam, 0.1),
            np.full(kappa, CURVATURE_SD / 2), np.full(eta, SPREAD_SD / 2), np.full(psi, 0.3),
        ])  # fmt: skip
        return [centre + spread * rng.uniform(-1, 1, centre.size) * (chain > 0) for chain in range(chains)]

    def split(self, point: Floats) -> tuple[Floats, Form]:
        """beta (r, d), and everything else."""
        d, ends = self.d, self.ends
        lam = np.zeros((d, d))
        lam[self.below] = point[ends[1] : ends[2]]
        form = Form(point[ends[0] : ends[1]], lam, point[ends[2] : ends[3]], point[ends[3] : ends[4]])
        return point[: ends[0]].reshape(-1, d), form

    def log_shares(self, point: Floats) -> Floats | None:
        """Log shares of categories (cells, K): the reference's plus psi, normalized."""
        reference = self.reference.log_shares
        if reference is None:
            return None
        psi = point[self.ends[4] :].reshape(len(reference), -1)
        return np.asarray(log_softmax(reference + psi @ self.contrasts.T, axis=1))

    @cached_property
    def contrasts(self) -> Floats:
        """Orthonormal contrasts between categories: (K, K - 1)."""
        assert self.places is not None
        K = self.places.K
        return np.asarray(np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0][:, 1:])

    def function(self) -> Target:
        """The log target and its gradient, with memory of its own: one a chain."""
        (G, _), d = self.W.shape, self.d
        g_mu, g_offset, g = np.empty((G, d)), np.empty(G), Form.zeros(d, curved=self.curved)
        nodes, weights = public_rule(d, float(self.tempering.sum()))
        lower, (low, high), none = self.below, self.limits, np.zeros(G)
        reference = Form.zeros(d, curved=self.curved)
        if self.curved:
            reference = reference._replace(kappa=self.reference.kappa, eta=self.reference.eta)

        def target(point: Floats) -> tuple[float, Floats]:
            beta, form = self.split(point)
            least, largest = extremes(form)
            if not (low <= least and largest <= high):
                return -np.inf, point
            shares = self.log_shares(point)
            offset = none if shares is None else self._offset(shares)
            value = clipped_ratio(
                self.W @ beta, offset, form, reference, self.B, nodes, weights, self.v, self.log_ref, self.a,
                self.start, self.tempering, g_mu, g_offset, g,
            )  # fmt: skip
            kappa, eta = form.kappa - reference.kappa, form.eta - reference.eta
            psi = point[self.ends[4] :]
            value -= float((beta**2).sum() + (psi**2).sum()) / (2 * PRIOR_SD**2)
            value -= float((kappa**2).sum()) / (2 * CURVATURE_SD**2) + float((eta**2).sum()) / (2 * SPREAD_SD**2)
            return value, np.concatenate([
                (self.W.T @ g_mu - beta / PRIOR_SD**2).ravel(), g.delta, g.lam[lower],
                g.kappa - kappa / CURVATURE_SD**2, g.eta - eta / SPREAD_SD**2,
                *([] if shares is None else [self._of_shares(g_offset, shares) - psi / PRIOR_SD**2]),
            ])  # fmt: skip

        return target

    def _offset(self, shares: Floats) -> Floats:
        """Log of how many times as probable each row's category is as under the reference: (G,)."""
        assert self.places is not None and self.reference.log_shares is not None  # as there are shares
        return np.asarray((shares - self.reference.log_shares)[self.places.cell, self.places.category])

    def _of_shares(self, g_offset: Floats, shares: Floats) -> Floats:
        """The gradient of psi from that of the offsets."""
        assert self.places is not None
        at = self.places.cell * self.places.K + self.places.category
        direct = np.bincount(at, g_offset, shares.size).reshape(shares.shape)
        of_log = direct - np.exp(shares) * direct.sum(axis=1, keepdims=True)
        return np.asarray(of_log @ self.contrasts).ravel()

    def density(self, point: Floats) -> Density:
        """A point's parameters in the file's own units."""
        beta, form = self.split(point)
        none = np.zeros(self.d - 1)
        B = self.reference.B + self.Q @ beta @ self.reference.L.T
        L = self.reference.L @ (form.lam + np.diag(np.exp(form.delta)))
        kappa, eta = (form.kappa, form.eta) if self.curved else (none, none)
        return Density(B, L, kappa, eta, self.log_shares(point))


def alike(W: Floats, tempering: Floats) -> tuple[Floats, Floats]:
    """Groups of rows that C_B takes as one: their weighted means (groups, r), and sums of ``tempering``.

    The group with the largest sum of squares is halved at the median of its widest column, until all are near their
    means or there are MANY_ROWS.  Rows and numbers of records are public.
    """
    groups, spread = [np.arange(len(W))], [np.inf]
    while len(groups) < MANY_ROWS and max(spread) > NEAR * tempering.sum() / MANY_ROWS:
        widest = int(np.argmax(spread))
        rows = groups.pop(widest)
        spread.pop(widest)
        column = int(np.argmax(W[rows].var(axis=0)))
        order = rows[np.argsort(W[rows, column], kind="stable")]
        for half in (order[: len(rows) // 2], order[len(rows) // 2 :]):
            centre = np.average(W[half], axis=0, weights=tempering[half] + 1e-12)
            groups.append(half)
            spread.append(float(tempering[half] @ ((W[half] - centre) ** 2).sum(axis=1)) if len(half) > 1 else 0.0)
    centres = np.array([np.average(W[rows], axis=0, weights=tempering[rows] + 1e-12) for rows in groups])
    return centres, np.array([tempering[rows].sum() for rows in groups])


def public_rule(d: int, known: float) -> tuple[Floats, Floats]:
    """Nodes and weights of the rule for C_B, from the number of coordinates and the sum of a alone."""
    step = STEP[d] * min(1.2, (STEP_AT / known) ** 0.3)
    nodes, weights = rule(d - 1, step)
    return (nodes, weights) if len(weights) <= MOST_NODES else rule(d - 1, STEP[d] / 2)


def parameters(rank: int, d: int, curved: bool, cells: int = 0, K: int = 1) -> int:
    """How many there are: coefficients, covariance, curvature, shares."""
    return rank * d + d * (d + 1) // 2 + (2 * (d - 1) if curved else 0) + cells * (K - 1)


def whitening(X: Floats, size: Floats) -> Floats:
    """Q (K, r) with W = X Q and W' diag(size) W / sum(size) = I, r the rank of X."""
    values, vectors = np.linalg.eigh((X.T * (size / size.sum())) @ X)
    seen = values > 1e-10 * values[-1]
    return np.asarray(vectors[:, seen] / np.sqrt(values[seen]))


def clipped_target(
    X: Floats, pattern: Codes, Y: Floats, reference: Density, a: Floats, B: float, limits: tuple[float, float],
    curved: bool, places: Places | None = None,
) -> ClippedTarget:  # fmt: skip
    """The target of a file, from distinct predictor rows (G, K), each record's (n,), and working-scale Y (n, d)."""
    size = np.bincount(pattern, minlength=len(X))
    known, tempering = of_public_rows(len(X), pattern, a, reference, places)
    Q = whitening(X, known)
    order = np.argsort(pattern, kind="stable")
    v = np.ascontiguousarray(np.linalg.solve(reference.L, (Y - (X @ reference.B)[pattern]).T).T[order])
    before, last = v[:, :-1], v[:, -1]
    log_spread = before @ reference.eta * curved
    centre = (before**2 - 1) @ reference.kappa * curved
    log_ref = -(before**2).sum(axis=1) / 2 - log_spread - ((last - centre) / np.exp(log_spread)) ** 2 / 2
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.intp)
    W = np.ascontiguousarray(X @ Q)
    if len(W) > MANY_ROWS and places is None:
        # rows with records and without C_B, then groups of rows with C_B and without records
        centres, of_groups = alike(W, tempering)
        W, tempering = np.vstack([W, centres]), np.concatenate([np.zeros(len(W)), of_groups])
        start = np.concatenate([start, np.full(len(centres), start[-1])])
    return ClippedTarget(
        W, Q, reference, curved, B, limits, v, log_ref, a[order], start, tempering, places,
    )  # fmt: skip


def of_public_rows(
    G: int, pattern: Codes, a: Floats, reference: Density, places: Places | None
) -> tuple[Floats, Floats]:
    """Records and their tempering by predictor row; by categories of a public row, as the reference shares them.

    Who is in which category is confidential: it decides neither the scale of coefficients nor C_B.
    """
    K, share = 1, np.ones(G)
    if places is not None and reference.log_shares is not None:
        K, share = places.K, np.exp(reference.log_shares)[places.cell, places.category]
    records, tempering = (np.bincount(pattern // K, x, G // K) for x in (np.ones(len(a)), a))
    return np.repeat(records, K) * share, np.repeat(tempering, K) * share
