"""Replicate weights: Preston's rescaled bootstrap, the jackknife, balanced half samples, and weights of a file.

The weight of record i in replicate r is w_i times a factor.  With R's ``scale`` s and ``rscales``
s_r the variance of an estimate is

    s sum_r s_r (theta_r - theta)^2.

Bootstrap (Preston 2009; R's ``type = "mrbbootstrap"``).  In each stratum n* = floor(n / 2) of its n
PSUs are kept, drawn without replacement; in each PSU, n* of its n units; and so on.  At stage k let
f_k be the sampling fraction, delta_k = 1 for a unit that is kept, else 0, and

    lambda_k = sqrt(f_1 ... f_{k-1} n_k* (1 - f_k) / (n_k - n_k*)).

The factor is 1 + sum_k lambda_k (n_k / n_k* delta_k - 1) prod_{j<k} sqrt(n_j / n_j*) delta_j.  With
one stage, n even and f = 0 this is 2 delta, the half sample doubled of T 2.4.  For a total, the
expected squared difference from the estimate is the variance of :mod:`surveysynth.estimation.taylor`
exactly, later stages included; for a mean it is so to first order.  A PSU that is alone in its
stratum and certain (f = 1) is always kept, so that the stages within it have their variance (in R
they lose it).  With several stages a factor may be negative, as in R.

Jackknife.  A replicate leaves one PSU out and gives its weight to the others of its stratum.

Balanced half samples (BRR; Fay's form of it).  Of the two PSUs of each stratum one gets the factor
2 - rho, the other rho.  Strata go by the rows of a Hadamard matrix, so that over the replicates the
products of two strata cancel.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import isqrt
from typing import Any

import numba as nb
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_array

from .columns import check_columns, numeric
from .errors import InputError, positive, rows, whole
from .stages import LonelyPSU, Stage

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Levels = NDArray[np.uint8]
Signs = NDArray[np.int8]

BLOCK = 2_000_000  # numbers in memory at a time, of random ones, factors or given weights: 16 MB
RANK_TOLERANCE = 1e-5  # R's: a replicate adds to the rank where this share of its length is new


@dataclass(frozen=True, eq=False)
class Replicates(ABC):
    """R sets of replicate weights, and how variances come from them.

    Attributes
    ----------
    method : str
        "preston", "JK1", "JKn", "BRR", "Fay" or "given".
    scale : float
    rscales : float array (R,)
        Read-only, as every array here.
    mse : bool
        Squares are around the estimate; else around the mean of the replicates (of those with
        rscales above 0, as in R).
    """

    method: str
    scale: float
    rscales: Floats
    mse: bool

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:  # by way of __init__, so that arrays stay read-only
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def R(self) -> int:
        """Number of replicates."""
        return int(self.rscales.size)

    @abstractmethod
    def factors(self, start: int, stop: int) -> Floats:
        """What the weights are multiplied by in replicates start to stop - 1: (n, stop - start)."""

    @abstractmethod
    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:
        """Sums of the values z by domain, in every replicate.

        Parameters
        ----------
        z : float array (n,)
            Weighted values: w for a count, w y for a total.
        domain : int array (n,)
            Domain of each record, 0 to ``domains - 1``; -1 for a record outside all of them.

        Returns
        -------
        float array (R, domains)
            Exactly 0 where a replicate gives every record of a domain the factor 0.
        """

    @abstractmethod
    def degf(self, weights: Floats) -> int:
        """Degrees of freedom: the rank of the replicate weights less 1, as R's ``degf``.

        Parameters
        ----------
        weights : float array (n,)
            Weights of the design.  Records with 0 do not count: so it is that of a domain.
        """

    def variance(self, theta_r: Floats, theta: Floats) -> Floats:
        """Variances of D estimates from their replicates.

        Parameters
        ----------
        theta_r : float array (R, D)
            NaN where a replicate has no estimate (no record of the domain was kept): it is left
            out, and the sum of the others is scaled up by their share of the rscales.  (R leaves
            it out without scaling.)
        theta : float array (D,)

        Returns
        -------
        float array (D,)
            NaN where no replicate has an estimate.
        """
        exists = ~np.isnan(theta_r)
        squares = np.where(exists, theta_r - self._centre(theta_r, theta), 0.0) ** 2
        return np.asarray(self.scale * (self.rscales @ squares) * self._scaled_up(exists))

    def covariance(self, theta_r: Floats, theta: Floats) -> Floats:
        """Covariance matrix of p estimates from their replicates: (p, p).

        Parameters
        ----------
        theta_r : float array (R, p)
            A replicate counts where all of its estimates exist; else as for :meth:`variance`.
        theta : float array (p,)
        """
        exists = np.asarray(~np.isnan(theta_r).any(axis=1))
        theta_r = theta_r[exists]
        deviation = theta_r - self._centre(theta_r, theta, exists)
        products = deviation.T @ (self.rscales[exists, None] * deviation)
        return np.asarray(self.scale * products * self._scaled_up(exists))

    def _centre(self, theta_r: Floats, theta: Floats, chosen: slice | NDArray[np.bool_] = slice(None)) -> Floats:
        if self.mse:
            return theta
        counted = ~np.isnan(theta_r) & (self.rscales[chosen] > 0)[:, None]
        number = counted.sum(axis=0)
        return np.where(number > 0, np.where(counted, theta_r, 0.0).sum(axis=0) / np.maximum(number, 1), theta)

    def _scaled_up(self, exists: NDArray[np.bool_]) -> Floats:
        """1 / the share of the replicates that exist, by their rscales; NaN where none does."""
        if not self.rscales.any():  # a complete sample: no replicate counts, and none is missed
            return np.where(exists.any(axis=0), 1.0, np.nan)
        there = np.asarray(self.rscales @ exists)
        return np.divide(self.rscales.sum(), there, out=np.full_like(there, np.nan), where=there > 0)


@dataclass(frozen=True, eq=False)
class LevelReplicates(Replicates):
    """Replicates with few different factors: a table of these, and a byte for each unit and replicate.

    Attributes
    ----------
    unit : int array (n,)
        Sampling unit of each record, of the last stage that is replicated.
    level : uint8 array (units, R)
        How many stages kept the unit, counted from the first; in balanced half samples 0 or 1.
    group : int array (units,)
    value : float array (groups, levels)
        In replicate r, unit u has the factor ``value[group[u], level[u, r]]``.
    """

    unit: Codes
    level: Levels
    group: Codes
    value: Floats

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        return self._of_units(slice(None), slice(start, stop))[self.unit]

    def _of_units(self, units: slice | Codes, replicates: slice) -> Floats:
        return np.asarray(self.value[self.group[units, None], self.level[units, replicates]])

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        unit, units = self.unit, len(self.level)
        if units * domains <= z.size:  # units of many records: sum within them first
            z = _sums(z, unit, units, domain, domains)
            unit, domain = np.divmod(np.arange(z.size), domains)
        out = np.zeros((domains, self.R))
        _add_levels(z, domain, unit, self.level, self.group, self.value, out)
        return out.T

    def degf(self, weights: Floats) -> int:  # noqa: D102
        units = np.flatnonzero(np.bincount(self.unit, weights, len(self.level)) > 0)
        if units.size < self.R:
            return _rank(_gram(self._of_units(units, slice(None)).T)) - 1
        gram, rank, step = np.zeros((self.R, self.R)), 0, max(self.R, BLOCK // self.R)
        for start in range(0, units.size, step):
            gram += _gram(self._of_units(units[start : start + step], slice(None)))
            rank = _rank(gram)
            if rank == self.R:  # more units cannot add to it
                break
        return rank - 1


@dataclass(frozen=True, eq=False)
class JackknifeReplicates(Replicates):
    """A replicate for each PSU that can be left out: nothing is stored but the design.

    Attributes
    ----------
    unit : int array (n,)
        PSU of each record.
    stratum_of_unit : int array (units,)
    sampled : int array (strata,)
        PSUs in the sample, n_h.
    left_out : int array (R,)
        PSU that a replicate leaves out.
    """

    unit: Codes
    stratum_of_unit: Codes
    sampled: Codes
    left_out: Codes

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        out = self.left_out[start:stop]
        h = self.stratum_of_unit[out]
        factor = np.where(self.stratum_of_unit[:, None] == h, self._others(h), 1.0)
        factor[out, np.arange(out.size)] = 0.0
        return factor[self.unit]

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        # T - T_h + n_h / (n_h - 1) (T_h - z_c), in this order: 0 where PSU c holds the whole domain
        h = self.stratum_of_unit
        z_c = _sums(z, self.unit, h.size, domain, domains).reshape(h.size, domains)
        T_h = np.asarray(csr_array((np.ones(h.size), (h, np.arange(h.size)))) @ z_c)
        rest = T_h.sum(axis=0) - T_h
        out, h = z_c[self.left_out], h[self.left_out]
        np.subtract(T_h[h], out, out=out)
        out *= self._others(h)[:, None]
        out += rest[h]
        return np.asarray(out)

    def _others(self, h: Codes) -> Floats:
        """Factor of the other PSUs of the stratum."""
        return np.asarray(self.sampled[h] / (self.sampled[h] - 1.0))

    def degf(self, weights: Floats) -> int:  # noqa: D102
        # PSU c of stratum h has the row 1 + n/(n - 1) a_c, where the a_c of h have the sum 0 and no other relation;
        # those of a stratum that is there as a whole add up to n 1: together they have 1 and n - 1 more dimensions
        there = np.bincount(self.unit, weights, self.stratum_of_unit.size) > 0
        whole_strata = int((np.bincount(self.stratum_of_unit, there) == self.sampled).sum())
        return int(there.sum()) - max(whole_strata, 1)


@dataclass(frozen=True, eq=False)
class GivenReplicates(Replicates):
    """Replicate weights that came with the file, column by column.

    Attributes
    ----------
    names : tuple of str (R,)
    columns : tuple of pandas.Series (R,)
        Full weights.  As series they share the memory of the frame, and pandas keeps them as they
        are where that is changed later.
    weights : float array (n,)
        Weights of the design.
    """

    names: tuple[str, ...]
    columns: tuple[pd.Series, ...] = field(repr=False)
    weights: Floats = field(repr=False)

    def factors(self, start: int, stop: int) -> Floats:  # noqa: D102
        return self._block(slice(start, stop), slice(None)).T / self.weights[:, None]

    def _block(self, replicates: slice, records: slice) -> Floats:
        """A part of the columns, each in a row."""
        parts = [column.to_numpy()[records] for column in self.columns[replicates]]
        return np.stack(parts, dtype=np.float64)

    def totals(self, z: Floats, domain: Codes, domains: int) -> Floats:  # noqa: D102
        out, z = np.zeros((self.R, domains)), z / self.weights
        step = max(1, BLOCK // z.size)
        for start in range(0, self.R, step):
            part = slice(start, start + step)
            _add_columns(z, domain, self._block(part, slice(None)), out[part])
        return out

    def degf(self, weights: Floats) -> int:  # noqa: D102
        ratio, gram = weights / self.weights, np.zeros((self.R, self.R))
        step = max(1, BLOCK // self.R)
        for start in range(0, ratio.size, step):
            part = slice(start, start + step)
            gram += _gram((self._block(slice(None), part) * ratio[part]).T)
        return _rank(gram) - 1


def preston(
    stages: tuple[Stage, ...], R: int, rng: np.random.Generator, lonely_psu: LonelyPSU = "fail"
) -> LevelReplicates:
    """Draw R replicates of a design of any number of stages (Preston 2009; T 2.4; R's ``"mrbbootstrap"``).

    Variances divide by R, as T does (R's ``as.svrepdesign`` divides by R - 1).

    Parameters
    ----------
    stages : tuple of Stage
        Of the design.
    R : int
        Replicates.
    rng : numpy.random.Generator
        Nothing that is confidential enters the draw: strata and sampling units only.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        With "remove" a stratum with one unit adds nothing to the variance of its stage; otherwise
        it is refused.

    Raises
    ------
    InputError
        R is no positive whole number; a stratum with one unit, at any stage, that is not sampled
        completely.
    """
    whole(R, "the number of replicates")
    _refuse_lonely(stages, lonely_psu)
    level = np.zeros((stages[0].sampled.size, R), dtype=np.uint8)
    for number, stage in enumerate(stages):
        level = _draw(stage, number, level, rng)
    return LevelReplicates(
        "preston", 1 / R, np.ones(R), True, stages[-1].unit, level, stages[-1].stratum_of_unit, _values(stages)
    )


def _refuse_lonely(stages: tuple[Stage, ...], lonely_psu: LonelyPSU) -> None:
    for number, stage in enumerate(stages):
        lonely = stage.lonely[stage.stratum]
        if lonely.any() and lonely_psu != "remove":
            above, unit = (f"unit of stage {number}", f"unit of stage {number + 1}") if number else ("stratum", "PSU")
            raise InputError(
                f"a {above} has only one {unit}, so replicates cannot show its variance: {rows(lonely)}; merge strata, "
                "declare it sampled completely with an fpc, or choose lonely_psu='remove'"
            )


def _draw(stage: Stage, number: int, above: Levels, rng: np.random.Generator) -> Levels:
    """Levels of the units of one stage: (units, R), from those of the units that they are in."""
    h, R = stage.stratum_of_unit, above.shape[1]
    order, last = np.argsort(h, kind="stable"), np.cumsum(stage.sampled)
    level, wanted = np.empty((h.size, R), dtype=np.uint8), np.empty(R)
    step = max(1, BLOCK // R)
    uniform = np.empty((min(step, h.size), R))
    for start in range(0, h.size, step):
        block = order[start : start + step]
        rng.random(out=uniform[: block.size])
        left = last[h[block]] - np.arange(start, start + block.size)
        _select(uniform, block, h[block], left, stage.sampled, number, above, wanted, level)
    return level


def _values(stages: tuple[Stage, ...]) -> Floats:
    """Factors of the units of each stratum of the last stage: (strata, stages + 1), dropped at once to kept by all."""
    strata = stages[0].sampled.size
    share, root, kept_so_far = np.ones(strata), np.ones(strata), np.ones(strata)
    value = np.empty((strata, 0))
    for number, stage in enumerate(stages):
        if number:  # the units of the stage above are the strata of this one
            of = stages[number - 1].stratum_of_unit
            share, root, kept_so_far, value = share[of], root[of], kept_so_far[of], value[of]
        n, f = stage.sampled, stage.fraction
        kept = np.maximum(n // 2, 1)
        lam = np.sqrt(share * kept * (1 - f) / np.maximum(n - kept, 1))  # alone, a unit is always kept: lam cancels
        dropped = kept_so_far - root * lam
        value = np.column_stack([value, dropped])
        share, kept_so_far = share * f, dropped + root * lam * (n / kept)
        root = root * np.sqrt(n / kept)
    return np.column_stack([value, kept_so_far])


def jackknife(stages: tuple[Stage, ...], stratified: bool, lonely_psu: LonelyPSU = "fail") -> JackknifeReplicates:
    """Leave one PSU out at a time, with R's scales: JK1 without strata, JKn with them.

    The squares of stratum h count (n_h - 1)/n_h (1 - f_h) times.  A PSU that is alone in its
    stratum and certain has no replicate.

    Parameters
    ----------
    stages : tuple of Stage
        Of the design.  As in R, with a warning, stages after the first are left out: the variance
        within PSUs, times f_h.
    stratified : bool
    lonely_psu : {"fail", "remove", "adjust", "average"}
        As for :func:`preston`.

    Raises
    ------
    InputError
        JK1 with strata; a stratum with one PSU that is not sampled completely; no stratum with two.
    """
    _refuse_lonely(stages[:1], lonely_psu)
    first = stages[0]
    n_h, f_h = first.sampled, first.fraction
    if not stratified and n_h.size > 1:
        raise InputError(f"JK1 is for a design without strata, and this one has {n_h.size:,}; choose JKn")
    if len(stages) > 1:
        warnings.warn(
            "the jackknife shows the variance of the first stage of sampling: that of later stages, times the "
            "sampling fractions above them, is left out",
            stacklevel=3,
        )
    left_out = np.flatnonzero((n_h > 1)[first.stratum_of_unit])
    if left_out.size == 0:
        raise InputError("no stratum has two PSUs, so there is none to leave out")
    rscales = ((n_h - 1) / n_h * (1 - f_h))[first.stratum_of_unit[left_out]]
    scale = 1.0
    if not stratified:
        scale, rscales = float(rscales[0]), np.ones(left_out.size)
    return JackknifeReplicates(
        "JKn" if stratified else "JK1", scale, rscales, True, first.unit, first.stratum_of_unit, n_h, left_out
    )


def balanced(stages: tuple[Stage, ...], rho: float = 0.0) -> LevelReplicates:
    """Balanced half samples of two PSUs a stratum: BRR, and Fay's form where rho > 0.

    The number of replicates is the order of a Hadamard matrix that is larger than the number of
    strata, at most a few more.

    Parameters
    ----------
    stages : tuple of Stage
        Of the design.  As in R, with a warning, an fpc is not used: the first stage is taken as
        drawn with replacement, and carries the whole variance.
    rho : float
        From 0 to below 1.

    Raises
    ------
    InputError
        rho is out of range; a stratum with another number of PSUs than two.
    """
    if isinstance(rho, bool) or not isinstance(rho, (int, float, np.number)) or not 0 <= rho < 1:
        raise InputError("rho must be a number from 0 to below 1")
    first = stages[0]
    odd = (first.sampled != 2)[first.stratum]
    if odd.any():
        raise InputError(
            f"balanced half samples need exactly two PSUs in every stratum: not so in {rows(odd)}; merge PSUs or "
            "strata, or choose another kind of replicates"
        )
    if first.fraction.any():
        warnings.warn("balanced half samples take PSUs as drawn with replacement: the fpc is not used", stacklevel=3)
    h = first.stratum_of_unit
    half = hadamard(first.sampled.size + 1)[1:] > 0  # the first row is constant
    second = np.zeros(h.size, dtype=bool)
    second[np.argsort(h, kind="stable")[1::2]] = True
    level = (half[h] != second[:, None]).astype(np.uint8)
    R, value = level.shape[1], np.array([[rho, 2.0 - rho]])
    scale = 1 / (R * (1 - float(rho)) ** 2)
    group = np.zeros(h.size, dtype=np.intp)
    return LevelReplicates("Fay" if rho else "BRR", scale, np.ones(R), True, first.unit, level, group, value)


def hadamard(least: int) -> Signs:
    """The Hadamard matrix of the smallest order from ``least`` on that we can construct; its first row is all 1.

    Orders: q + 1 for a prime q = 3 mod 4, 2 (q + 1) for a prime q = 1 mod 4 (Paley 1933), and twice
    an order (Sylvester 1867).
    """
    order = least
    while (found := _hadamard(order)) is None:
        order += 1
    return found * found[0]


def _hadamard(order: int) -> Signs | None:
    two = np.array([[1, 1], [1, -1]], dtype=np.int8)
    if order <= 2:
        return two[:order, :order]
    if order % 4:
        return None
    if _is_prime(order - 1):
        S = _bordered(order - 1)
        S[0] *= -1
        return S + np.eye(order, dtype=np.int8)
    if order % 8 == 4 and _is_prime(order // 2 - 1):
        C = _bordered(order // 2 - 1)
        return np.kron(C, two) + np.kron(np.eye(order // 2, dtype=np.int8), two * [[1, -1], [-1, 1]]).astype(np.int8)
    smaller = _hadamard(order // 2)
    return None if smaller is None else np.kron(two, smaller)


def _bordered(q: int) -> Signs:
    """Jacobsthal matrix of a prime q, chi(i - j), in a border of 1: (q + 1, q + 1) with 0 on the diagonal."""
    i = np.arange(q)
    chi = np.full(q, -1, dtype=np.int8)
    chi[i * i % q] = 1
    chi[0] = 0
    C = np.ones((q + 1, q + 1), dtype=np.int8)
    C[0, 0] = 0
    C[1:, 1:] = chi[(i[:, None] - i) % q]
    return C


def _is_prime(q: int) -> bool:
    return q > 1 and all(q % d for d in range(2, isqrt(q) + 1))


def given(
    frame: pd.DataFrame,
    names: Sequence[str],
    weights: Floats,
    scale: float | None = None,
    rscales: ArrayLike | None = None,
    mse: bool = True,
) -> GivenReplicates:
    """Replicate weights in columns of the file: full weights, R's ``combined.weights = TRUE``.

    Parameters
    ----------
    frame : pandas.DataFrame
        It is not copied; columns are read one by one.
    names : sequence of str (R,)
        0 is a weight here.
    weights : float array (n,)
        Weights of the design.
    scale : float, optional
        Default 1 / R, that of a bootstrap and of BRR.
    rscales : sequence of float (R,), optional
        Default 1.
    mse : bool
        R's own default is False.

    Raises
    ------
    InputError
        Fewer than two columns, or one twice; a column that is not there, is no number, or is
        missing, infinite or negative somewhere; scales that are not R numbers, finite and not
        negative.
    """
    names = tuple(names)
    if len(names) < 2:
        raise InputError("replicate weights need at least two columns")
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"replicate weights name {', '.join(map(repr, twice))} twice; each column is one replicate")
    check_columns(frame, {f"replicate weights ({i + 1})": name for i, name in enumerate(names)})
    columns = tuple(_weight_column(frame[name], name) for name in names)
    scale = 1 / len(names) if scale is None else positive(scale, "scale")
    if not isinstance(mse, bool):
        raise InputError("mse must be True or False")
    return GivenReplicates("given", scale, _rscales(rscales, len(names)), mse, names, columns, weights)


def _weight_column(column: pd.Series, name: str) -> pd.Series:
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu"
    values = column.to_numpy() if plain else numeric(column, name)
    for bad, what in ((~np.isfinite(values), "not finite"), (values < 0, "negative")):
        if bad.any():
            raise InputError(f"column {name!r} is {what} in {rows(bad)}; a replicate weight is a number from 0 on")
    return column if plain else pd.Series(values)


def _rscales(rscales: ArrayLike | None, R: int) -> Floats:
    if rscales is None:
        return np.ones(R)
    try:
        values = np.array(rscales, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("rscales must be numbers, one a replicate") from None
    if values.shape != (R,):
        raise InputError(f"rscales must be one number for each of the {R:,} replicates")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("rscales must be finite and not negative")
    return values


def _sums(z: Floats, unit: Codes, units: int, domain: Codes, domains: int) -> Floats:
    """Sums of z by unit and domain: (units * domains,)."""
    inside = domain >= 0
    return np.asarray(np.bincount(unit[inside] * domains + domain[inside], z[inside], units * domains), np.float64)


def _gram(block: Floats) -> Floats:
    return np.asarray(block.T @ block)


def _rank(gram: Floats) -> int:
    """Rank of a matrix F from F'F: columns that add more than RANK_TOLERANCE of their length (Cholesky with pivots)."""
    length = np.sqrt(gram.diagonal())
    gram = gram[np.ix_(length > 0, length > 0)] / np.outer(length[length > 0], length[length > 0])
    return int(dpstrf(gram, tol=RANK_TOLERANCE**2)[2]) if gram.size else 0


# loops over replicates are innermost and contiguous, so that they vectorise
@nb.njit(cache=True)
def _select(
    uniform: Floats,
    unit: Codes,
    stratum: Codes,
    left: Codes,
    sampled: Codes,
    number: int,
    above: Levels,
    wanted: Floats,
    level: Levels,
) -> None:
    """Selection sampling (Knuth, vol. 2, 3.4.2 S) in all replicates at once: every choice is as likely.

    Of the ``left`` units of its stratum that come from here on, this one among them, ``wanted[r]``
    are still to be kept.
    """
    R = wanted.size
    for j in range(unit.size):
        if left[j] == sampled[stratum[j]]:
            wanted[:] = max(left[j] // 2, 1)
        x, higher, out = uniform[j], above[stratum[j]], level[unit[j]]
        for r in range(R):
            kept = x[r] * left[j] < wanted[r]
            wanted[r] -= kept
            out[r] = higher[r] + (kept and higher[r] == number)


@nb.njit(cache=True)
def _add_levels(z: Floats, domain: Codes, unit: Codes, level: Levels, group: Codes, value: Floats, out: Floats) -> None:
    """out[d, r] += z_i value[group, level] over the records of domain d."""
    v = np.empty(value.shape[1])
    R = level.shape[1]
    for i in range(z.size):
        if domain[i] >= 0:
            u = unit[i]
            for k in range(v.size):
                v[k] = z[i] * value[group[u], k]
            row, levels = out[domain[i]], level[u]
            for r in range(R):
                row[r] += v[levels[r]]


@nb.njit(cache=True)
def _add_columns(z: Floats, domain: Codes, columns: Floats, out: Floats) -> None:
    """out[r, d] += z_i columns[r, i] over the records of domain d."""
    for r in range(columns.shape[0]):
        for i in range(z.size):
            if domain[i] >= 0:
                out[r, domain[i]] += z[i] * columns[r, i]
