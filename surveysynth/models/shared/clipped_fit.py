"""The target of the strict mechanism for a file: records, whitened predictors, prior and public set.

With the reference's B_ref, Sigma_ref = L_ref L_ref' and whitened predictors W = X Q (W'W / n = I) a record's
coordinates are v = L_ref^-1 (y - B_ref' x) and their means are beta' W: so beta = 0, Lambda = I is the reference.
The prior is public: beta ~ N(0, 4 / rank), lambda flat and delta ~ exp(-g' delta) where eigenvalues of Lambda Lambda'
lie within public limits, and, where the weight is curved, kappa ~ N(kappa_ref, .2^2), eta ~ N(eta_ref, .12^2), and
its slopes s = s_ref + theta' C' W with theta ~ N(0, .3^2 / (rank - 1)), C' W being what of W adds up to 0.

Of a predictor row with few records, whose leverage is far above the mean, the mean beta' W would then have a prior much
wider than 2, and what a few records say is flat beyond the clamp: chains stuck where the row was given up, and 40 of
8,000 records in a level of their own stopped releases at epsilon 4 and 8.  So precision is added in the directions of
such rows until no row's mean has a standard deviation of more than 2, and no row's slope of more than .3, but for some
hundredths, and, beyond MANY_ROWS rows, but for rows that are alike to one of larger leverage.  Chains
start within .15 of such standard deviations: from 2 off one stuck at a place of e^-37 times the probability.

A posterior tempered by a leaves p parameters beside a standard deviation open by 1 / a times as much as the file does.
Integrated out, they make the variance (1 + p / (a n)) times that of the residuals under a flat prior of delta; with
g = (1 - a) p + 2 the posterior mean of the variance of one number is that of the residuals, RSS / (n - p), whatever a
is, where nothing is clamped.  Each parameter counts by the share of its information that the file has.

It is no more than that: what is fitted in units of an outcome's innovation (slopes, curvature) leaves about half of the
inflation with that outcome, and the clamp takes off tails, under which variances come out smaller.  Tried on census
workers beside a reference (epsilon 1, a n = 238), these about cancel: 1.02 to 1.05 times, 1.13 to 1.16 under a flat
prior.  With t errors of 5 degrees of freedom, a reference 1 standard deviation off, B = 1 and a n = 9 p it was .75.

Zeros, where they are an outcome of their own, and categories k, multinomial within public cells, stand in the same
density and under the same clamp.  The log odds of a zero are those of the reference plus W psi, psi ~ N(0, 4); the log
shares of categories are those of the reference plus contrasts ~ N(0, 1), which add up to 0 over the categories of a
cell.  C_B is the expectation over zero or not, and over categories, too: every one of them, by the reference's
probability of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from ...engines.hamiltonian import Target
from .clipped_ratio import Form, clipped_offset, clipped_ratio, extremes, rule
from .public_grid import added_variance, crowded, on_grid

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

# Of the mean of a row of mean leverage around the reference's, in the reference's standard deviations, and of its log
# odds.  The clamp takes all information off what is far: 2 for every coefficient, that is 2 sqrt(rank) for a mean, left
# plateaus where small cells were given up, and at small epsilons chains stuck there.
PRIOR_SD = 2.0
CURVATURE_SD, SPREAD_SD = 0.2, 0.12  # of kappa and eta; free, the density has spikes in which chains stick
# Of the slope in a row of mean leverage.  In eusilc households large ones have low incomes where the head is of working
# age and small ones where not: with one slope for all, means of the old were 7% too high, and of Styria 5%.
SLOPE_SD = 0.3
# Limits of eigenvalues of the covariance over the reference's, a first draw's and the others': from, to, and from where
# the last coordinate is left out.  Its variance given the others can be smaller, as C_B is in closed form there: of
# weights that nearly follow from the predictors it is .06 of the first reference's.
WIDE, NARROW = (0.01, 4.0, 0.1), (0.4, 2.5, 0.4)
WEIGHT_CENTRE, WEIGHT_SD = -0.2, 0.8  # of the log of a weight over the mean weight, before anything is known
SHARES_SD = 1.0  # of contrasts of log shares: with 2, a level of .75% was given up for long, beyond the clamp
MANY_ROWS, NEAR = 256, 1e-3  # beyond so many predictor rows, C_B is that of groups; their mean square, at the least
RECORDS = 1 << 18  # whose coordinates are computed at a time
# Step of the rule for C_B, by the number of coordinates, where the sum of a is STEP_AT.  The rule's error goes with
# less than its square, since the clamp has kinks, and the error of a maximum, in posterior standard deviations, with
# the square root of the sum: tried, it stays below .1 of these.
STEP, STEP_AT, MOST_NODES = {1: 0.4, 2: 0.4, 3: 0.5, 4: 0.8}, 700.0, 5000


@dataclass(frozen=True, repr=False)  # a repr would show draws
class Normal:
    """Parameters of the numbers of some records.

    Attributes
    ----------
    B : float array (K, d)
    L : float array (d, d)
    kappa, eta : float arrays (d - 1,)
        Curvature of the last column given the innovations of the others, in its standard deviations; of its log spread.
    slope : float array (K, d - 1)
        What predictors add to its coefficients of these innovations, in its standard deviations.
    """

    B: Floats
    L: Floats
    kappa: Floats
    eta: Floats
    slope: Floats


def straight(K: int, d: int) -> dict[str, Floats]:
    """No curvature of d numbers, and none that goes with K predictors."""
    none = np.zeros(max(d - 1, 0))
    return {"kappa": none, "eta": none, "slope": np.zeros((K, none.size))}


@dataclass(frozen=True, repr=False)
class Density(Normal):
    """The model's parameters: of a reference, or of one draw.

    Attributes
    ----------
    log_shares : float array (cells, K) or None
        Of categories, where outcomes are categories.
    zero : float array (K,) or None
        Coefficients of the log odds of a zero, where zeros are an outcome of their own.
    B_zero, L_zero : float arrays (K, d - 1), (d - 1, d - 1), or None
        Of the weight of records whose outcome is zero: nothing where it is public, or where zeros stand for missing.
    psu : float array (d,) or None
        Share of each innovation's variance that lies between PSUs, where these have effects; it is not fitted.
    known : float or None
        How many records' worth of information a draw rests on: public.
    """

    log_shares: Floats | None = None
    zero: Floats | None = None
    B_zero: Floats | None = None
    L_zero: Floats | None = None
    psu: Floats | None = None
    known: Floats | None = None

    @property
    def of_zeros(self) -> Normal:
        """Of the numbers of records whose outcome is zero."""
        assert self.B_zero is not None and self.L_zero is not None  # as there are zeros
        return Normal(self.B_zero, self.L_zero, **straight(*self.B_zero.shape))


@dataclass(frozen=True)
class Places:
    """Where a predictor row stands among the categories: its cell and category (G,), and how many categories there are.

    Rows of one public row follow each other, one a category.
    """

    cell: Codes
    category: Codes
    K: int

    @cached_property
    def contrasts(self) -> Floats:
        """Orthonormal contrasts between categories: (K, K - 1)."""
        return contrasts_of(self.K)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Part:
    """The records that hold the same numbers: all, or those whose outcome is zero, or is not, as the kernel takes them.

    ``W`` (rows, r) are the whitened predictor rows, ``slope`` (rows, d - 1) the reference's slopes there, ``varying``
    (r, s) what of W slopes may go with, ``tempering`` (rows,) what C_B of each counts.  ``v`` (d, n) are the records'
    coordinates, in the order of their rows, and ``a`` (n,) their tempering; of very many records, those of the points
    of a public grid, which adds ``added`` to the variance of each coordinate.  ``known`` is about how many records'
    worth of information they have, ``tempered`` the share of it that a record has; both are public.
    """

    reference: Normal
    Q: Floats
    W: Floats
    curved: bool
    slope: Floats
    varying: Floats
    B: float
    limits: tuple[float, float, float]  # of eigenvalues of Lambda Lambda', as ``WIDE``
    v: Floats
    log_ref: Floats
    a: Floats
    start: Codes
    tempering: Floats
    known: float
    tempered: float
    held: tuple[Floats, Floats]  # prior precisions of coefficients (r,) and of what slopes may go with (s,)
    added: float = 0.0

    @property
    def d(self) -> int:
        """Numbers of a record."""
        return len(self.reference.L)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of beta, delta, lambda, kappa, eta, theta."""
        d = self.d
        bent = (d - 1, d - 1, self.varying.shape[1] * (d - 1)) if self.curved else (0, 0, 0)
        return self.W.shape[1] * d, d, d * (d - 1) // 2, *bent

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each of them ends in a point."""
        return tuple(int(end) for end in np.cumsum(self.sizes))

    @cached_property
    def below(self) -> tuple[Codes, Codes]:
        """Places below the diagonal of lambda."""
        return np.tril_indices(self.d, -1)

    @property
    def information(self) -> Floats:
        """Of the file about each parameter, about: public, from n a at the reference."""
        return np.repeat((1, 2, 1, 2, 2, 1), self.sizes) * self.known

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about."""
        return np.asarray((self.information + self.precision) ** -0.5)

    @property
    def shrinkage(self) -> Floats:
        """g of the prior exp(-g' delta): (d,)."""
        if self.d == 0:
            return np.zeros(0)
        seen = self.information / (self.information + self.precision)
        beta, _, _, kappa, _, theta = np.split(seen, np.cumsum(self.sizes)[:-1])
        fitted = beta.reshape(-1, self.d).sum(axis=0) + np.arange(self.d)
        fitted[-1] += kappa.sum() + theta.sum()
        return np.asarray((1 - self.tempered) * fitted + 2)

    @property
    def precision(self) -> Floats:
        """Of the prior around the reference."""
        alike = np.repeat(np.array([np.inf, np.inf, CURVATURE_SD, SPREAD_SD]) ** -2, self.sizes[1:5])
        held, of_slopes = self._held
        return np.concatenate([held, alike, of_slopes])

    @property
    def _held(self) -> tuple[Floats, Floats]:
        """Prior precisions of beta and of theta, which are there where the weight is curved."""
        return np.repeat(self.held[0], self.d), np.repeat(self.held[1], self.d - 1 if self.curved else 0)

    @property
    def centre(self) -> Floats:
        """The reference as a point."""
        bent = [self.reference.kappa, self.reference.eta] if self.curved else []
        return np.concatenate([np.zeros(sum(self.sizes[:3])), *bent, np.zeros(self.sizes[5])])

    @property
    def spread(self) -> Floats:
        """How far from the reference chains start at the most."""
        alike = np.repeat((0.1, 0.1, CURVATURE_SD / 2, SPREAD_SD / 2), self.sizes[1:5])
        held, of_slopes = self._held
        return np.concatenate([0.15 * held**-0.5, alike, of_slopes**-0.5 / 2])

    def split(self, point: Floats) -> tuple[Floats, Form, Floats]:
        """Beta (r, d), the form, and theta (s, d - 1)."""
        d, ends = self.d, self.ends
        lam = np.zeros((d, d))
        lam[self.below] = point[ends[1] : ends[2]]
        form = Form(point[ends[0] : ends[1]], lam, point[ends[2] : ends[3]], point[ends[3] : ends[4]])
        theta = point[ends[4] :].reshape(-1, max(d - 1, 1))
        return point[: ends[0]].reshape(self.W.shape[1], d), form, theta

    def some(self, share: float, rng: np.random.Generator) -> Part:
        """A share of the records, at random, each of which counts for those that are left out; C_B as of all."""
        chosen = np.flatnonzero(rng.random(len(self.a)) < share)
        return replace(
            self, v=np.ascontiguousarray(self.v[:, chosen]), log_ref=self.log_ref[chosen], a=self.a[chosen] / share,
            start=np.searchsorted(chosen, self.start),
        )  # fmt: skip

    def function(self) -> Callable[[Floats, Floats], tuple[float, Floats, Floats]]:
        """From a point and offsets (rows,) to the log target, its gradient, and that of the offsets."""
        if self.d == 0:
            size = np.diff(self.start)
            counts = np.add.reduceat(np.append(self.a, 0.0), self.start[:-1]) * (size > 0)
            return lambda point, offset: clipped_offset(offset, counts, self.tempering, self.B, point)
        (G, _), d = self.W.shape, self.d
        nodes, weights = public_rule(d, self.known)
        g_mu, g_slope, g_offset = np.empty((G, d)), np.empty(self.slope.shape), np.empty(G)
        g, reference = Form.zeros(d, curved=self.curved), Form.zeros(d, curved=self.curved)
        if self.curved:
            reference = reference._replace(kappa=self.reference.kappa, eta=self.reference.eta)
        (low, high, others), lower = self.limits, self.below
        v, centre, precision, shrinkage = self.v, self.centre, self.precision, self.shrinkage
        deltas = slice(self.ends[0], self.ends[1])
        of_slopes = self.W @ self.varying if self.curved else self.slope

        def part(point: Floats, offset: Floats) -> tuple[float, Floats, Floats]:
            beta, form, theta = self.split(point)
            least, largest, without_last = extremes(form)
            if not (low <= least and largest <= high and others <= without_last):
                return -np.inf, point, offset
            value = clipped_ratio(
                self.W @ beta, self.slope + of_slopes @ theta if self.curved else self.slope, offset, form, self.slope,
                reference, self.B, nodes, weights, v, self.log_ref, self.a, self.start, self.tempering,
                g_mu, g_slope, g_offset, g,
            )  # fmt: skip
            away = point - centre
            value -= float(precision @ away**2) / 2 + float(shrinkage @ point[deltas])
            slopes = np.concatenate([
                (self.W.T @ g_mu).ravel(), g.delta, g.lam[lower], g.kappa, g.eta,
                (of_slopes.T @ g_slope).ravel() if self.curved else [],
            ])  # fmt: skip
            slopes -= precision * away
            slopes[deltas] -= shrinkage
            return value, slopes, g_offset

        return part

    def normal(self, point: Floats, added: float = 0.0) -> Normal:
        """A point's parameters in the file's own units, its variances less what is ``added`` to them."""
        beta, form, theta = self.split(point)
        B = self.reference.B + self.Q @ beta @ self.reference.L.T
        root = form.lam + np.diag(np.exp(form.delta))
        if added:
            root = np.linalg.cholesky(root @ root.T - added * np.eye(self.d))
        L = self.reference.L @ root
        if not self.curved:
            return Normal(B, L, **straight(*B.shape))
        own = 1 / root[-1, -1]  # in its own sd; the kernel's are in the reference's
        return Normal(B, L, form.kappa * own, form.eta, (self.reference.slope + self.Q @ self.varying @ theta) * own)


@dataclass(frozen=True, repr=False)
class ClippedTarget:
    """The log target of a file.

    A point holds the parameters of each part, psi, where zeros are an outcome of their own, and contrasts, where
    outcomes are categories.  ``log_odds`` (rows,) are the reference's, ``of_zeros`` their information, about, which is
    public.
    """

    reference: Density
    parts: tuple[Part, ...]
    log_odds: Floats | None = None
    places: Places | None = None
    of_zeros: float = 0.0

    @property
    def Q(self) -> Floats:
        """What whitens predictors."""
        return self.parts[0].Q

    @property
    def W(self) -> Floats:
        """Whitened predictor rows."""
        return self.parts[0].W

    @property
    def n(self) -> int:
        """Records, or points of the grid that they lie on."""
        return sum(len(part.a) for part in self.parts)

    @property
    def tempering(self) -> Floats:
        """What C_B of each row counts, all parts together."""
        return np.asarray(sum(part.tempering for part in self.parts))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where the parameters of each part, psi and contrasts end in a point."""
        psi = 0 if self.log_odds is None else self.W.shape[1]
        shares = self.reference.log_shares
        contrasts = 0 if shares is None else shares.size - len(shares)
        return tuple(int(end) for end in np.cumsum([*(part.centre.size for part in self.parts), psi, contrasts]))

    def split(self, point: Floats) -> tuple[Floats, ...]:
        """The parameters of each part, psi and contrasts."""
        return tuple(point[start:end] for start, end in itertools.pairwise((0, *self.ends)))

    @property
    def _held_odds(self) -> Floats:
        """Prior precisions of psi, where zeros are an outcome of their own."""
        return np.empty(0) if self.log_odds is None else self.parts[0].held[0]

    @property
    def scale(self) -> Floats:
        """Public standard deviations of the parameters, about."""
        return np.concatenate([
            *(part.scale for part in self.parts), (self.of_zeros + self._held_odds) ** -0.5, self._scale_of_contrasts(),
        ])  # fmt: skip

    def _scale_of_contrasts(self) -> Floats:
        """Of a cell whose records count a: from the information a C' (diag p - p p') C, p the reference's shares."""
        reference = self.reference.log_shares
        if reference is None or self.places is None:
            return np.empty(0)
        a, p = np.bincount(self.places.cell, self.tempering, len(reference)), np.exp(reference)
        C, mean = self.places.contrasts, p @ self.places.contrasts
        of_one = (C.T * p[:, None, :]) @ C - mean[:, :, None] * mean[:, None, :]
        precision = a[:, None, None] * of_one + np.eye(C.shape[1]) / SHARES_SD**2
        return np.asarray(np.sqrt(np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2))).ravel()

    def starts(self, chains: int, rng: np.random.Generator) -> list[Floats]:
        """Where chains start: at the reference, and spread around it; nothing of the file decides."""
        *_, psi, contrasts = np.diff([0, *self.ends])
        centre = np.concatenate([*(part.centre for part in self.parts), np.zeros(psi + contrasts)])
        spread = np.concatenate([
            *(part.spread for part in self.parts), 0.15 * self._held_odds**-0.5, np.full(contrasts, 0.3),
        ])  # fmt: skip
        return [centre + spread * rng.uniform(-1, 1, centre.size) * (chain > 0) for chain in range(chains)]

    def some(self, share: float, rng: np.random.Generator) -> ClippedTarget:
        """A share of the records, at random, each of which counts for those that are left out."""
        return replace(self, parts=tuple(part.some(share, rng) for part in self.parts))

    def function(self) -> Target:
        """The log target and its gradient, with memory of its own: one a chain."""
        functions = [part.function() for part in self.parts]
        rows, held_odds = len(self.W), self._held_odds
        measured = None if self.log_odds is None else log_shares_of(self.log_odds)

        def target(point: Floats) -> tuple[float, Floats]:
            *of_parts, psi, contrasts = self.split(point)
            shares = self._log_shares(contrasts)
            offsets, log_p = [self._offset(shares)], None
            if self.log_odds is not None and measured is not None:
                log_p = log_shares_of(self.log_odds + self.W @ psi)
                offsets = [offsets[0] + now - then for now, then in zip(log_p, measured, strict=True)]
            total, gradients, of_offset = 0.0, [], np.zeros(rows)
            for function, own, offset in zip(functions, of_parts, offsets, strict=True):
                value, slopes, g_offset = function(own, offset)
                if not np.isfinite(value):
                    return -np.inf, point
                total += value
                gradients.append(slopes)
                of_offset += g_offset
            if log_p is not None:  # the last offset is that of zeros
                of_odds = g_offset - np.exp(log_p[1]) * of_offset
                gradients.append(self.W.T @ of_odds - psi * held_odds)
            if shares is not None:
                gradients.append(self._of_shares(of_offset, shares) - contrasts / SHARES_SD**2)
            total -= float(held_odds @ psi**2) / 2 + float((contrasts**2).sum()) / (2 * SHARES_SD**2)
            return total, np.concatenate(gradients)

        return target

    def _offset(self, shares: Floats | None) -> Floats:
        """Log of how many times as probable each row's category is as under the reference."""
        if shares is None or self.reference.log_shares is None or self.places is None:
            return np.zeros(len(self.W))
        return np.asarray((shares - self.reference.log_shares)[self.places.cell, self.places.category])

    def _log_shares(self, contrasts: Floats) -> Floats | None:
        """Log shares of categories (cells, K): the reference's plus contrasts, normalized."""
        reference = self.reference.log_shares
        if reference is None or self.places is None:
            return None
        moved = contrasts.reshape(len(reference), -1) @ self.places.contrasts.T
        return np.asarray(log_softmax(reference + moved, axis=1))

    def _of_shares(self, g_offset: Floats, shares: Floats) -> Floats:
        """The gradient of contrasts from that of the offsets."""
        assert self.places is not None
        at = self.places.cell * self.places.K + self.places.category
        direct = np.bincount(at, g_offset, shares.size).reshape(shares.shape)
        of_log = direct - np.exp(shares) * direct.sum(axis=1, keepdims=True)
        return np.asarray(of_log @ self.places.contrasts).ravel()

    def estimate(self, point: Floats) -> Density:
        """What a draw says of the file: a point's parameters, less what a public grid adds to variances."""
        return self.density(point, *(part.added for part in self.parts))

    def density(self, point: Floats, *added: float) -> Density:
        """A point's parameters in the file's own units, variances of each part less what is added to them."""
        *of_parts, psi, contrasts = self.split(point)
        less = added or (0.0,) * len(self.parts)
        numbers, *of_zeros = [part.normal(own, x) for part, own, x in zip(self.parts, of_parts, less, strict=True)]
        density = Density(**vars(numbers), log_shares=self._log_shares(contrasts), psu=self.reference.psu)
        if self.reference.zero is None:
            return density
        zero = self.reference.zero + self.Q @ psi
        return replace(density, zero=zero, B_zero=of_zeros[0].B, L_zero=of_zeros[0].L)


def log_shares_of(log_odds: Floats) -> tuple[Floats, Floats]:
    """Logs of 1 - p and of p, of what has these log odds: to 1e-15, in a quarter of the time that log_expit takes."""
    beside = np.log(1 + np.exp(-np.abs(log_odds)))
    return np.minimum(-log_odds, 0) - beside, np.minimum(log_odds, 0) - beside


def contrasts_of(K: int) -> Floats:
    """Orthonormal contrasts between categories: (K, K - 1)."""
    return np.asarray(np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0][:, 1:])


def alike(W: Floats, tempering: Floats, group: Codes) -> list[Codes]:
    """Groups of rows that C_B takes as one, within those of ``group``: rows of each.

    The group with the largest sum of squares is halved at the median of its widest column, until all are near their
    means or there are MANY_ROWS.  Rows and numbers of records are public.
    """

    def squares(rows: Codes) -> float:
        centre = np.average(W[rows], axis=0, weights=tempering[rows] + 1e-12)
        return float(tempering[rows] @ ((W[rows] - centre) ** 2).sum(axis=1)) if len(rows) > 1 else 0.0

    order = np.argsort(group, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    spread = [squares(rows) for rows in groups]
    while len(groups) < MANY_ROWS and max(spread) > NEAR * tempering.sum() / MANY_ROWS:
        widest = int(np.argmax(spread))
        rows = groups.pop(widest)
        spread.pop(widest)
        column = int(np.argmax(W[rows].var(axis=0)))
        ordered = rows[np.argsort(W[rows, column], kind="stable")]
        for half in (ordered[: len(rows) // 2], ordered[len(rows) // 2 :]):
            groups.append(half)
            spread.append(squares(half))
    return groups


def means_of(groups: Sequence[Codes], X: Floats, tempering: Floats) -> tuple[Floats, Floats]:
    """Predictor rows that C_B is evaluated at instead of those of each group, and what each counts."""
    weight = tempering + 1e-12
    rows = np.array([np.average(X[g], axis=0, weights=weight[g]) for g in groups])
    return rows, np.array([tempering[g].sum() for g in groups])


def few_rows(W: Floats) -> Floats:
    """The different rows of W, or of MANY_ROWS groups of them those of the largest leverage."""
    rows = np.unique(W, axis=0)
    if len(rows) <= MANY_ROWS:
        return rows
    leverage = (rows**2).sum(axis=1)
    groups = alike(rows, np.ones(len(rows)), np.zeros(len(rows), int))
    return np.array([rows[group[np.argmax(leverage[group])]] for group in groups])


def held_rows(W: Floats, sd: float) -> tuple[Floats, Floats]:
    """Rotation V (r, r), and prior precisions (r,) of coefficients of W V: of a row their sum has ``sd``, or less.

    That of a row of mean leverage has it under equal precisions.  Of a row with few records it would have far more, and
    the row could be given up: the clamp takes all information off values that are far, and chains stick there.
    """
    r, held = W.shape[1], sd**-2
    precision = max(r, 1) * held * np.eye(r)
    for _ in range(20 * r):
        variance = ((W @ np.linalg.inv(precision)) * W).sum(axis=1)
        row = int(np.argmax(variance))
        if variance[row] <= 1.05 / held:
            break
        precision += (held - 1 / variance[row]) * np.outer(W[row], W[row])
    values, vectors = np.linalg.eigh(precision)
    return vectors, values


def public_rule(d: int, known: float) -> tuple[Floats, Floats]:
    """Nodes and weights of the rule for C_B, from the number of coordinates and the sum of a alone."""
    step = STEP[d] * min(1.2, (STEP_AT / known) ** 0.3)
    nodes, weights = rule(d - 1, step)
    return (nodes, weights) if len(weights) <= MOST_NODES else rule(d - 1, STEP[d] / 2)


def parameters(rank: int, d: int, *, curved: bool, cells: int = 0, K: int = 1, zeros: int | None = None) -> int:
    """How many there are: coefficients, covariance, curvature; of zeros with so many numbers beside; shares."""
    of_zeros = 0 if zeros is None else rank + parameters(rank, zeros, curved=False)
    return rank * d + d * (d + 1) // 2 + (2 * (d - 1) if curved else 0) + of_zeros + cells * (K - 1)


def whitening(X: Floats, size: Floats) -> Floats:
    """Q (K, r) with W = X Q and W' diag(size) W / sum(size) = I, r the rank of X."""
    values, vectors = np.linalg.eigh((X.T * (size / size.sum())) @ X)
    seen = values > 1e-10 * values[-1]
    return np.asarray(vectors[:, seen] / np.sqrt(values[seen]))


def clipped_target(
    X: Floats, pattern: Codes, Y: Floats, reference: Density, a: Floats, B: float, limits: tuple[float, float, float],
    curved: bool, places: Places | None = None, zero: Bools | None = None, present: Floats | None = None,
    simulated: Floats | None = None, count: Floats | None = None,
) -> ClippedTarget:  # fmt: skip
    """The target of a file.

    Parameters
    ----------
    X : float array (G, K)
        Distinct predictor rows.
    pattern : int array (n,)
        Each record's.
    Y : float array (n, d)
        Working scale; the weight is the last column, unless it is public.
    reference : Density
    a : float array (n,)
        Tempering.
    B : float
    limits : (float, float, float)
        ``WIDE`` or ``NARROW``.
    curved : bool
    places : Places, optional
        Of the rows, where outcomes are categories.
    zero : bool array (n,), optional
        Records whose outcome is zero, where that is an outcome of its own: the first column of Y is not looked at.
    present : float array (n,), optional
        1, or 0 where outcome and weight are blanked: C_B, which is public, counts such a record as before.
    simulated : float array (N, K), optional
        Predictor rows of a simulated file, which whiten X where predictors are confidential.  Then C_B is, too: it goes
        with a record that is blanked, and is each record's own, not that of groups of rows.
    count : float array (n,), optional
        How many records each stands for, where they are the points of a public grid; the tempering of all is one.
    """
    counted = a if present is None else a * present
    known, tempering = of_public_rows(len(X), pattern, a if simulated is None else counted, reference, places, count)
    if count is not None:
        counted = counted * count
    tempered = float(a[0]) if count is not None else tempered_by(a)
    Q = whitening(X, known) if simulated is None else whitening(simulated, np.ones(len(simulated)))
    public_rows = X if simulated is None else np.unique(simulated, axis=0)
    of_prior = few_rows(public_rows @ Q)
    V, held = held_rows(of_prior, PRIOR_SD)
    Q, of_prior = Q @ V, of_prior @ V
    W, G = np.ascontiguousarray(X @ Q), len(X)
    log_odds = None if reference.zero is None else X @ reference.zero
    slope = X @ reference.slope
    C = apart_from_mean(W, known)
    V, held_slopes = held_rows(of_prior @ C, SLOPE_SD) if curved else (np.eye(C.shape[1]), np.ones(C.shape[1]))
    C = np.ascontiguousarray(C @ V)
    if G > MANY_ROWS and simulated is None:  # rows with records, without C_B, then groups of rows with C_B alone
        group = np.zeros(G, dtype=np.intp) if places is None else places.cell * places.K + places.category
        groups = alike(W, tempering, group)

        def with_means(x: Floats) -> Floats:
            return np.concatenate([x, means_of(groups, x, tempering)[0]])

        first = np.array([rows[0] for rows in groups])
        slope, log_odds = with_means(slope), None if log_odds is None else with_means(log_odds)
        means, of_groups = means_of(groups, W, tempering)
        W, tempering = np.concatenate([W, means]), np.concatenate([np.zeros(G), of_groups])
        if places is not None:
            cell, category = (np.concatenate([x, x[first]]) for x in (places.cell, places.category))
            places = Places(cell, category, places.K)

    def part(normal: Normal, here: Bools, columns: slice, share: Floats, about: float, curved: bool) -> Part:
        chosen = np.flatnonzero(here)
        chosen = chosen[np.argsort(pattern[chosen], kind="stable")]
        size = np.bincount(pattern[chosen], minlength=len(W))
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.intp)
        own = slope if curved else np.empty((len(W), 0))
        mean, v, of_records = X @ normal.B, np.empty((len(normal.L), chosen.size)), counted[chosen]
        for first in range(0, chosen.size, RECORDS):
            block = slice(first, first + RECORDS)
            v[:, block] = np.linalg.solve(normal.L, (Y[chosen[block], columns] - mean[pattern[chosen[block]]]).T)
        # whether there is a grid hangs on public numbers alone: which are zeros, or have what predictors, is not
        many = crowded(len(pattern), len(public_rows), len(v))
        if many and count is None:
            v, of_records, start = on_grid(v, of_records, start)
        row = np.repeat(np.arange(len(W)), np.diff(start))
        blocks = [slice(first, first + RECORDS) for first in range(0, row.size, RECORDS)] or [slice(0)]
        log_ref = np.concatenate([_log_density(v[:, at].T, normal, own[row[at]], curved) for at in blocks])
        counts = tempering * share
        added = added_variance(len(v)) if many or count is not None else 0.0
        return Part(
            normal, Q, W, curved, own, C, B, limits, v, log_ref, of_records, start, counts, about, tempered,
            (held, held_slopes), added,
        )  # fmt: skip

    if zero is None or log_odds is None or reference.zero is None:
        about = float(tempering.sum()) if simulated is None else known_of(a, simulated)
        whole = part(reference, pattern >= 0, slice(None), np.ones(len(W)), about, curved)
        return ClippedTarget(reference, (whole,), None, places)
    p = expit(log_odds)
    of_rows, share = (tempering, p) if simulated is None else (_evenly(a, simulated), expit(simulated @ reference.zero))
    some, none, of_odds = (float(of_rows @ x) for x in (1 - share, share, share * (1 - share)))  # all of them public
    amounts = part(reference, ~zero, slice(None), 1 - p, some, curved)
    others = reference.of_zeros
    zeros = part(others, zero, slice(Y.shape[1] - len(others.L), None), p, none, False)
    return ClippedTarget(reference, (amounts, zeros), log_odds, places, of_odds)


def known_of(a: Floats, simulated: Floats | None) -> float:
    """How many records' worth of information there is: the sum of a (n,), or of so much of it as there are rows.

    A simulated file has fewer rows than records where a question does not apply to all; how many it does apply to is
    confidential.
    """
    return float(a.sum()) if simulated is None else float(a.sum()) * len(simulated) / len(a)


def tempered_by(a: Floats) -> float:
    """The mean of a (n,), each as often as it counts: what of the information of a record there is, about."""
    return float(a @ a / a.sum())


def _evenly(a: Floats, rows: Floats) -> Floats:
    """What is known in equal parts for rows: (N,)."""
    return np.full(len(rows), known_of(a, rows) / len(rows))


def apart_from_mean(W: Floats, size: Floats) -> Floats:
    """Orthonormal C (r, r - 1) such that C' W adds up to 0 over the records, for W whitened by the same sizes."""
    mean = size @ W
    return np.ascontiguousarray(np.linalg.qr(mean[:, None], mode="complete")[0][:, 1:])


def _log_density(v: Floats, reference: Normal, slope: Floats, curved: bool) -> Floats:
    """Of coordinates under the reference, up to what the kernel leaves out, too: (n,)."""
    if v.shape[1] == 0:
        return np.zeros(len(v))
    before, last = v[:, :-1], v[:, -1]
    if not curved:
        return np.asarray(-(v**2).sum(axis=1) / 2)
    log_spread = before @ reference.eta
    centre = (before**2 - 1) @ reference.kappa + (slope * before).sum(axis=1)
    return np.asarray(-(before**2).sum(axis=1) / 2 - log_spread - ((last - centre) / np.exp(log_spread)) ** 2 / 2)


def of_public_rows(
    G: int, pattern: Codes, a: Floats, reference: Density, places: Places | None, count: Floats | None = None
) -> tuple[Floats, Floats]:
    """Records and their tempering by predictor row; by categories of a public row, as the reference shares them.

    Who is in which category is confidential: it decides neither the scale of coefficients nor C_B.
    """
    K, share = 1, np.ones(G)
    if places is not None and reference.log_shares is not None:
        K, share = places.K, np.exp(reference.log_shares)[places.cell, places.category]
    if count is None:
        records, tempering = (np.bincount(pattern // K, x, G // K) for x in (np.ones(len(a)), a))
    else:  # whole numbers, which no rounding makes depend on where the records lie
        records = np.rint(np.bincount(pattern // K, count, G // K))
        tempering = records * a[0]
    return np.repeat(records, K) * share, np.repeat(tempering, K) * share
