"""Calibration of weights to known totals of groups and of numeric variables (Deville & Sarndal 1992).

With weights d before calibration, known totals t of auxiliary variables x (indicators of groups, or numbers) and
ratios g = w / d, the calibrated weights are

    w_i = d_i g(x_i' lambda),    lambda such that    sum_i w_i x_i = t.

Among all weights that meet the totals, these have the smallest distance from d.  The function g follows from the
distance (cases 1, 2, 6 and 7 of the paper):

    linear:   g(u) = 1 + u, the regression estimator (GREG),
    raking:   g(u) = exp(u),
    logit:    g(u) = (L (U - 1) + U (1 - L) exp(a u)) / (U - 1 + (1 - L) exp(a u)),  a = (U - L) / ((1 - L) (U - 1)).

L and U are the bounds of g.  With the linear and the raking distance they are optional, and g is truncated at them.
A margin is a column, or several crossed columns, whose groups have known totals.  Arrays of n records have the shape
(n,), and p is the number of known totals.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from ..errors import InputError
from ..validation import one_of, rows
from .columns import check_columns, codes, names_of, numeric

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Margin = str | tuple[str, ...]
Totals = Mapping[Margin, Mapping[Hashable, float] | float]
Distance = Literal["raking", "linear", "logit"]
Bounds = tuple[float, float]

ROUNDS = 10_000
CLOSE = 1e-12  # relative tolerance of every total
STEPS = 100  # most steps of Newton's method, which takes 4 to 10 if there is a solution
HALVINGS = 30
SINGULAR = 1e-11  # share of the largest eigenvalue below which totals are redundant


@dataclass(frozen=True)
class Ratio:
    """The function g, which gives the ratio of a calibrated weight to the weight before calibration.

    Attributes
    ----------
    distance : {"raking", "linear", "logit"}
        Distance between new and old weights, from which g follows.
    bounds : (float, float)
        Smallest and largest ratio.  They are -inf and inf if there are no bounds.
    """

    distance: Distance
    bounds: Bounds

    @classmethod
    def checked(cls, distance: Distance, bounds: Bounds | None) -> Ratio:
        """Return the ratio function g for a distance and bounds.  Raise InputError for impossible or lacking bounds.

        Possible bounds are 0 <= low < 1 < high, since the ratio 1 (the old weight) must be allowed.
        """
        one_of(distance, get_args(Distance), "distance")
        if bounds is None:
            if distance == "logit":
                raise InputError("distance='logit' needs bounds=(low, high) of the ratio of new to old weights")
            return cls(distance, (-np.inf, np.inf))
        listed = [bounds] if isinstance(bounds, str) or not isinstance(bounds, Sequence) else list(bounds)
        if len(listed) != 2 or not all(isinstance(b, (int, float)) and not isinstance(b, bool) for b in listed):
            raise InputError("bounds must be two numbers, the least and the largest ratio of new to old weights")
        low, high = map(float, listed)
        if not 0 <= low < 1 < high or (distance == "logit" and not np.isfinite(high)):
            raise InputError("bounds must be (low, high) with 0 <= low < 1 < high, for example (0.5, 2)")
        return cls(distance, (low, high))

    def __call__(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the weight ratios g(u) and the derivatives g'(u): two arrays in the shape of u."""
        low, high = self.bounds
        with np.errstate(over="ignore"):
            if self.distance == "logit":
                odds = np.exp((high - low) / ((1 - low) * (high - 1)) * u) * (1 - low) / (high - 1)
                g = high - (high - low) / (1 + odds)
                return g, (g - low) * (high - g) / ((1 - low) * (high - 1))
            g, slope = (np.exp(u), np.exp(u)) if self.distance == "raking" else (1 + u, np.ones_like(u))
        return np.clip(g, low, high), np.where((g > low) & (g < high), slope, 0.0)


def multipliers(d: Floats, X: Any, totals: Floats, ratio: Ratio) -> Floats:
    """Find the Lagrange multipliers with which calibrated weights meet known totals, by Newton's method.

    The calibrated weights are d g(X lambda), where lambda are the multipliers.

    Parameters
    ----------
    d : float array (n,)
        Weights before calibration.  Replicate weights may be 0 or negative.
    X : array or sparse array (n, p)
        Auxiliary variables.
    totals : float array (p,)
        Known totals of the auxiliary variables.
    ratio : Ratio
        The function g.

    Returns
    -------
    float array (p,)
        Lambda.  All entries are NaN if no solution was found.
    """
    size = np.asarray(abs(X).T @ np.abs(d))
    scale = np.where(size > 0, size, 1.0)

    def state(lam: Floats) -> tuple[Floats, Floats]:
        g, slope = ratio(X @ lam)
        return (totals - X.T @ (d * g)) / scale, slope

    lam = np.zeros(totals.size)
    misfit, slope = state(lam)
    for _ in range(STEPS):
        if np.abs(misfit).max() < CLOSE:
            return lam
        hessian = (X * (d * slope)[:, None]).T @ X
        hessian = (hessian if isinstance(hessian, np.ndarray) else hessian.toarray()) / scale / scale[:, None]
        step = np.linalg.pinv(hessian, SINGULAR, hermitian=True) @ misfit / scale
        for _ in range(HALVINGS):
            further, slope = state(lam + step)
            if np.linalg.norm(further) < np.linalg.norm(misfit):  # False for NaN
                break
            step = step / 2
        else:
            break
        lam, misfit = lam + step, further
    return lam if np.abs(misfit).max() < 100 * CLOSE else np.full(totals.size, np.nan)


def calibrated(d: Floats, X: Any, totals: Floats, ratio: Ratio) -> Floats:
    """Compute calibrated weights, (n,).  The arguments are described at :func:`multipliers`.

    Raises
    ------
    InputError
        No weights within the bounds meet the totals, or a weight above 0 would not stay above 0.
    """
    lam = multipliers(d, X, totals, ratio)
    if np.isnan(lam).any():
        bounded = ", or wider bounds" if np.isfinite(ratio.bounds).any() else ""
        raise InputError(
            f"no weights with distance={ratio.distance!r} meet the totals: they may contradict each other, or be far "
            f"from the totals of the sample; check them, or take fewer of them{bounded}"
        )
    w = d * ratio(X @ lam)[0]
    if (w[d > 0] <= 0).any():
        raise InputError(
            f"distance={ratio.distance!r} makes weights zero or negative in {rows((w <= 0) & (d > 0))}; give "
            "bounds=(low, high) with low above 0, or distance='raking'"
        )
    return w


def rake(weights: Floats, margins: Sequence[Codes], totals: Sequence[Floats]) -> Floats:
    """Rake weights to the totals of every margin.  With one margin this is post-stratification.

    Weights are scaled to the totals of one margin after the other, again and again until all totals are met
    (iterative proportional fitting).  The result minimizes the raking distance sum d (g log g - g + 1), with
    g = w / d (Deville & Sarndal 1992, case 2).

    Parameters
    ----------
    weights : float array (n,)
        Weights before raking.
    margins : sequence of int arrays (n,)
        One array per margin: the group of each record, numbered from 0.
    totals : sequence of float arrays (groups,)
        One array per margin: the total of each group.

    Returns
    -------
    float array (n,)
        Weights that meet all totals.

    Raises
    ------
    InputError
        All records of a group have weight 0, or raking has not converged after 10,000 rounds through all margins.
    """
    for margin, total in zip(margins, totals, strict=True):
        empty = np.bincount(margin, weights, total.size) == 0
        if empty.any():
            raise InputError(f"a category with a total has only records of weight 0: {rows(empty[margin])}")
    w = weights.copy()
    for _ in range(ROUNDS):
        for margin, total in zip(margins, totals, strict=True):
            w *= (total / np.bincount(margin, w))[margin]
        off = [np.abs(np.bincount(g, w) / total - 1).max() for g, total in zip(margins, totals, strict=True)]
        if max(off) < CLOSE:
            return w
    raise InputError(
        f"raking did not meet the totals in {ROUNDS:,} rounds: where two margins leave no records in a cell, their "
        "totals may contradict each other; merge categories"
    )


def trimmed(w: Floats, low: float, high: float, strict: bool) -> Floats:
    """Truncate the weights ``w`` to the limits low and high, and spread the excess equally over the other weights.

    If ``strict``, the truncation is repeated until no weight is outside the limits, at most 10,000 times.

    Raises
    ------
    InputError
        All weights are outside the limits, or a trimmed weight is not positive.
    """
    for _ in range(ROUNDS if strict else 1):
        outside = (w < low * (1 - CLOSE)) | (w > high * (1 + CLOSE))
        if not outside.any():
            break
        if outside.all():
            raise InputError("every weight is outside the limits, so none can take what is cut off; set them wider")
        within = np.clip(w, low, high)
        w = within + np.where(outside, 0.0, (w - within).sum() / (~outside).sum())
        if (w <= 0).any():
            raise InputError(f"trimming makes weights zero or negative in {rows(w <= 0)}; set wider limits")
    return w


def known_values(n: int, margins: Sequence[Codes], auxiliary: Sequence[Floats]) -> Any:
    """Return the matrix of the auxiliary variables, whose totals are known.

    Parameters
    ----------
    n : int
        Number of records.
    margins : sequence of int arrays (n,)
        One array per margin: the group of each record, numbered from 0.
    auxiliary : sequence of float arrays (n,)
        Values of the numeric columns.

    Returns
    -------
    sparse array (n, p)
        One indicator (0 or 1) for each group of the first margin, of the second margin, and so on; then the numeric
        columns.
    """
    sizes = [int(margin.max()) + 1 for margin in margins]
    offset = np.cumsum([0, *sizes])
    column = np.concatenate([margin + first for margin, first in zip(margins, offset, strict=False)] or [np.arange(0)])
    row = np.tile(np.arange(n), len(sizes))
    X = csr_array((np.ones(row.size), (row, column)), shape=(n, int(offset[-1])))
    return hstack([X, *(csr_array(values[:, None]) for values in auxiliary)], format="csr") if auxiliary else X


@dataclass(frozen=True, eq=False)
class KnownTotals:
    """Known totals for calibration, and the auxiliary variables that have these totals.

    Attributes
    ----------
    groups : tuple of tuples of str
        One tuple per margin: the names of its columns.
    margins : tuple of int arrays (n,)
        One array per margin: the group of each record, numbered from 0.
    margin_totals : list of float arrays (groups,)
        One array per margin: the total of each group.
    numbers : tuple of str
        Names of the numeric columns with a known total.
    X : sparse array (n, p)
        Auxiliary variables, by :func:`known_values`.
    totals : float array (p,)
        Totals of the columns of X.
    """

    groups: tuple[tuple[str, ...], ...]
    margins: tuple[Codes, ...]
    margin_totals: list[Floats]
    numbers: tuple[str, ...]
    X: Any
    totals: Floats

    @classmethod
    def checked(cls, frame: pd.DataFrame, totals: Totals) -> KnownTotals:
        """Check the argument ``totals`` of :meth:`SurveyDesign.calibrate`, and make an object of this class from it.

        Raise InputError if the totals do not fit the file or each other.
        """
        if not isinstance(totals, Mapping) or not totals:
            raise InputError("totals must map columns to the totals of their categories, or to the total of the column")
        groups: dict[tuple[str, ...], object] = {}
        numbers: dict[str, float] = {}
        for margin, given in totals.items():
            names = names_of(margin, "totals")
            if is_number(given) and len(names) == 1:
                numbers[names[0]] = float(given)
            else:
                groups[names] = {(): given} if is_number(given) and not names else given
        margins = margins_of(frame, [*groups])
        known = [totals_of(frame, *each) for each in zip(groups, margins, groups.values(), strict=True)]
        check_agreement(known)
        known = [total * (known[0].sum() / total.sum()) for total in known]  # makes sums exactly equal
        X = known_values(len(frame), margins, auxiliary_of(frame, [*numbers]))
        every = np.concatenate([*known, np.array([*numbers.values()])])
        return cls(tuple(groups), margins, known, tuple(numbers), X, every)


def auxiliary_of(frame: pd.DataFrame, names: Sequence[str]) -> tuple[Floats, ...]:
    """Return the values (n,) of each named column.  Raise InputError if a value is not a finite number."""
    columns = []
    for name in names:
        check_columns(frame, {"auxiliary": name})
        try:
            columns.append(numeric(frame[name], name))
        except InputError as error:
            raise InputError(f"{error} (the totals of {name!r} must map each category to its total)") from None
        infinite = ~np.isfinite(columns[-1])
        if infinite.any():
            raise InputError(f"column {name!r} is not finite in {rows(infinite)}; correct these to calibrate to it")
    return tuple(columns)


def title(names: str | Sequence[str]) -> str:
    """Return a text that names a margin or a column in a message: ``'sex' x 'age'`` or "the whole population"."""
    names = (names,) if isinstance(names, str) else names
    return " x ".join(map(repr, names)) if names else "the whole population"


def margins_of(frame: pd.DataFrame, names: Sequence[tuple[str, ...]]) -> tuple[Codes, ...]:
    """Return one array (n,) per margin: the group of each record, numbered from 0.

    ``names`` has the columns of each margin, which are crossed.  A margin without columns is the whole population.
    """
    for name in dict.fromkeys(name for margin in names for name in margin):
        check_columns(frame, {"poststrata": name})  # one by one, as a column may be in several margins
    whole = np.zeros(len(frame), dtype=np.intp)
    return tuple(codes(*(frame[name] for name in margin)) if margin else whole for margin in names)


def totals_of(frame: pd.DataFrame, names: tuple[str, ...], margin: Codes, given: object) -> Floats:
    """Return the known totals of the groups of one margin, in the order of the group numbers: (groups,).

    Parameters
    ----------
    frame : pandas.DataFrame
    names : tuple of str
        Columns of the margin.
    margin : int array (n,)
        Group of each record, numbered from 0.
    given : object
        The totals that the user gave: a mapping of category (or tuple of categories) to total.

    Raises
    ------
    InputError
        ``given`` is not a mapping; a group of the file has no total; a total is of a group that no record has; a total
        is not a positive and finite number.
    """
    where = title(names)
    if not isinstance(given, Mapping | pd.Series):
        raise InputError(f"the totals of {where} must map each category to its total, or be one number, of a column")
    first = frame[list(names)].iloc[np.unique(margin, return_index=True)[1]]
    keys = first[names[0]].tolist() if len(names) == 1 else list(first.itertuples(index=False, name=None))
    lacking = np.array([key not in given for key in keys])
    if lacking.any():
        raise InputError(
            f"the totals of {where} lack {lacking.sum():,} of the {len(keys):,} categories of the file: "
            f"{rows(lacking[margin])}"
        )
    if len(given) > len(keys):
        raise InputError(
            f"the totals of {where} have {len(given) - len(keys):,} categories that no record has, so no weights can "
            "meet them; merge categories"
        )
    values = np.array([given[key] for key in keys], dtype=object)
    if not all(is_number(v) and v > 0 for v in values):
        raise InputError(f"the totals of {where} must be positive, finite numbers")
    return values.astype(np.float64)


def is_number(total: object) -> TypeGuard[float]:
    """Return True if a total is one finite number."""
    if isinstance(total, bool) or not isinstance(total, (int, float, np.integer, np.floating)):
        return False
    return bool(np.isfinite(float(total)))


def check_agreement(totals: Sequence[Floats]) -> None:
    """Raise InputError if margins add up to different sizes of the population, so that no weights can meet them all."""
    whole = [float(total.sum()) for total in totals]
    if whole and max(whole) - min(whole) > 1e-8 * max(whole):
        raise InputError(
            f"the totals of the margins add up to different populations: {', '.join(f'{n:,.10g}' for n in whole)}; "
            "scale them to one"
        )
