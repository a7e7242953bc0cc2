"""Normal scores: a working scale on which a historical outcome is standard normal.

The logs of incomes are not normal: the distribution has heavy tails, heaps and a top code.  A smooth monotone map from
amounts to normal scores makes the distribution normal, so that the normal model fits.  The map must come from a public
file or from a file older than the one to release.  Then no privacy budget is spent on the map.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator, PPoly
from scipy.special import ndtri

from ...errors import InputError, guarded
from ...storage import as_path, whole_file
from ...validation import rows
from .score_curve import effective_size, evaluate, mid_distribution, solve
from .transforms import AsinhTransform, IdentityTransform, LogTransform, Transform, as_transform

Floats = NDArray[np.float64]

LOG = LogTransform()
Base = LogTransform | IdentityTransform | AsinhTransform
FORMAT = "surveysynth normal scores, version 1"
DIGITS = 4  # significant digits of a knot's amount
# With 1,000 records and 70 knots, at least 3 and mostly 20 records lie between adjacent knots, and a score near the
# median has a standard error of 0.04.
LEAST_RECORDS, RECORDS_PER_KNOT = 1000, 14
LEAST_KNOTS = 5
# Share and least number of the records beyond each outer knot, so that no knot is the amount of a single record.
OUTER_SHARE, OUTER_RECORDS = 0.001, 5
# W^2 of two independent files is below this limit in 6 of a million pairs, even if both files have the same
# distribution (Csorgo & Faraway 1996, eq. 1.2).
CLOSER_THAN_CHANCE = 0.01


@dataclass(frozen=True)
class NormalScores:
    """Working scale y~ = Phi^-1(p), where p is the share of amounts below y in a historical or public file.

    Phi^-1 is the quantile function of N(0, 1).  The K knots are amounts y_k and shares p_k.  On the base scale
    u = base(y), such as log y, a monotone cubic (PCHIP) joins the points (u_k, z_k), where z_k = Phi^-1(p_k) is the
    normal score.  Beyond the outer knots, the curve is straight.

    Parameters
    ----------
    amounts : sequence of float (K,)
        Amounts y_k of the knots, increasing, in the outcome's unit.  At least 5 knots are needed.
    probabilities : sequence of float (K,)
        Shares p_k, increasing, between 0 and 1.
    source : str
        The file or publication that the knots come from.  Every release with this scale contains this text.
    base : transform
        ``surveysynth.LogTransform()``, ``surveysynth.AsinhTransform(scale=)`` for amounts that can be zero or
        negative, or ``surveysynth.IdentityTransform(scale=)``.
    bounds : (float, float), optional
        Public lowest and highest value.  Both ``forward`` and ``inverse`` clip amounts to these bounds.

    Raises
    ------
    InputError
        The knots do not increase or are not defined on the base scale; the source is empty; the base is another
        transform; or the bounds are not two increasing numbers.

    Notes
    -----
    Beyond an outer knot, the straight line has the mean slope of the curve over the last unit of normal score.  This
    rule was tried on the incomes of workers in a census: scores were made from 1,000 to 8,850 workers, and applied to
    the other workers.  The excess kurtosis of their scores was 0.1 to 0.6 on average and never above 2.  The excess
    kurtosis of their log incomes is 6.

    If many amounts are equal, such as zeros, they all have the same score, and synthetic values spread around it.

    Examples
    --------
    >>> scores = ss.NormalScores(
    ...     amounts=[5_000, 12_000, 20_000, 35_000, 90_000],
    ...     probabilities=[0.05, 0.25, 0.5, 0.75, 0.95],
    ...     source="income distribution of 2023, table 4",
    ... )
    >>> scores.forward(np.array([20_000.0, 90_000.0])).round(3)
    array([0.   , 1.645])
    >>> scores.inverse(np.array([0.0])).round()
    array([20000.])
    """

    amounts: Sequence[float]
    probabilities: Sequence[float]
    source: str
    base: Transform = LOG
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source.strip():
            raise InputError("source must say which historical or public file the normal scores come from")
        _check_base(self.base)
        amounts = _increasing(self.amounts, "amounts")
        probabilities = _increasing(self.probabilities, "probabilities")
        if amounts.size != probabilities.size or amounts.size < LEAST_KNOTS:
            raise InputError(f"amounts and probabilities must be of the same length, {LEAST_KNOTS} or more")
        if not ((probabilities > 0) & (probabilities < 1)).all():
            raise InputError("probabilities must lie between 0 and 1, both excluded")
        _increasing(self.base.forward(amounts).tolist(), f"amounts on the {_name(self.base)} scale")
        bounds = None if self.bounds is None else public_bounds(self.bounds, self.source)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "amounts", tuple(amounts.tolist()))
        object.__setattr__(self, "probabilities", tuple(probabilities.tolist()))

    @classmethod
    def from_historical(
        cls,
        values: ArrayLike,
        *,
        source: str,
        weights: ArrayLike | None = None,
        knots: int = 70,
        base: str | Transform = "log",
    ) -> NormalScores:
        """Make normal scores from a historical or public file.

        Never use the file to release, because its quantiles would be revealed without protection.

        Parameters
        ----------
        values : array (n,)
            The outcome in the historical file, in the unit of the file to release.
        source : str
            Name of the historical file.  Every release with this scale contains this name.
        weights : array (n,), optional
            Survey weights of the historical file.  By default, all weights are 1.
        knots : int
            Number of quantiles.  Their shares p are evenly spaced in arcsin sqrt(p), because the standard error of
            arcsin sqrt(p) is the same for every p.  The lowest p is the larger of 0.001 and 5 / n, where n is the
            effective number of records.  The highest p is 1 minus the lowest.
        base : str or transform
            See the class.  ``"log"`` stands for ``surveysynth.LogTransform()``.

        Returns
        -------
        NormalScores
            Scores without ``bounds``.

        Raises
        ------
        InputError
            Values or weights are missing, are not numbers, or are not defined on the base scale; the file is too small
            for the number of knots; or it has too few different values.

        Notes
        -----
        Quantiles are values of the inverse of the mid-distribution function F(y-) + (F(y) - F(y-)) / 2, interpolated on
        the base scale between different values (Ma, Genton & Parzen 2011).  Therefore heaps, weights and copies of
        records need no special rule.  The quantiles are rounded to 4 significant digits, so that knots do not contain
        all digits of a historical record.  Equal quantiles become one knot.  The share p of a knot is the
        mid-distribution function of the rounded amount.
        """
        scale = as_transform(base)
        _check_base(scale)
        y, w = _columns(values, weights)
        if np.isnan(y).any():
            raise InputError(f"the historical values are missing in {rows(np.isnan(y))}; leave these records out")
        unusable = ~(np.isfinite(w) & (w > 0))
        if unusable.any():
            raise InputError(f"the historical weights are not positive and finite in {rows(unusable)}")
        u = scale.forward(y)
        if not np.isfinite(u).all():
            raise InputError(
                f"the historical values have no {_name(scale)} in {rows(~np.isfinite(u))}; use "
                "base=surveysynth.AsinhTransform(scale=...) for amounts that can be zero or negative"
            )
        if isinstance(knots, bool) or not isinstance(knots, (int, np.integer)) or knots < LEAST_KNOTS:
            raise InputError(f"knots must be a whole number, {LEAST_KNOTS} or more")
        n, needed = effective_size(w), max(LEAST_RECORDS, RECORDS_PER_KNOT * knots)
        if n < needed:
            raise InputError(
                f"{knots} knots need a historical file of {needed:,} records; this one has {y.size:,}"
                + (f", worth {n:,.0f} with these weights" if weights is not None else "")
            )
        outer = np.arcsin(np.sqrt(max(OUTER_SHARE, OUTER_RECORDS / n)))
        p = np.sin(np.linspace(outer, np.pi / 2 - outer, knots)) ** 2
        value, F = mid_distribution(u, w)
        amount = scale.inverse(np.interp(p, F, value))
        rounded = np.unique([float(f"{a:.{DIGITS}g}") for a in amount])
        if min(rounded.size, value.size) < LEAST_KNOTS:
            raise InputError(
                f"the historical values are fewer than {LEAST_KNOTS} different ones: their scale has no shape to learn"
            )
        share = np.interp(scale.forward(rounded), value, F)
        return cls(rounded.tolist(), np.round(share, 6).tolist(), source, scale)

    def forward(self, y: Floats) -> Floats:
        """Compute the normal score of y.  It is NaN where ``base`` is not defined, such as the log of a negative y.

        Parameters
        ----------
        y : float array (n,)
            Amounts, in the outcome's unit.

        Returns
        -------
        float array (n,)
            Normal scores.
        """
        return evaluate(self._curve, self.base.forward(self._within(np.asarray(y, dtype=np.float64))))

    def inverse(self, z: Floats) -> Floats:
        """Compute the amount whose normal score is z.

        Parameters
        ----------
        z : float array (n,)
            Normal scores.

        Returns
        -------
        float array (n,)
            Amounts, in the outcome's unit.
        """
        return self._within(self.base.inverse(solve(self._curve, np.asarray(z, dtype=np.float64))))

    def _within(self, y: Floats) -> Floats:
        return y if self.bounds is None else np.clip(y, *self.bounds)

    def describe(self) -> str:
        """Return the description of the scale for the report.

        Returns
        -------
        str
            One line: the source of the normal scores, the unit of densities, the number of knots and the base scale.
        """
        return (
            f"normal-score of {self.source} (densities per unit of normal score; {len(self.amounts)} knots, "
            f"cubic on the {_name(self.base)} scale, straight beyond the outer knots)"
        )

    def made_from(self, values: ArrayLike, weights: ArrayLike | None = None) -> bool:
        """Test whether the knots were made from the file with these values, or from nearly the same records.

        Such knots must not be used to release the file.  The test statistic is W^2 = n times the integral of
        (F(y_k) - p_k)^2 (Cramer and von Mises), where n is the effective number of records and F the mid-distribution
        function of this file.  If the knots were made from this file, W^2 is 0, in any order of the records and also if
        all records are repeated.  If up to 5% of the records were left out or added, W^2 is mostly below 0.01.  For an
        independent file with the same distribution, W^2 is on average 1/6 or more, and below 0.01 in 6 of a million
        files.

        Parameters
        ----------
        values : array (n,)
            The outcome in the file.  Missing values, and values that are not defined on the base scale, are left out.
        weights : array (n,), optional
            Weights of the file.  With weights, the test is made twice, with and without them.

        Returns
        -------
        bool
            True if W^2 is below 0.01 in one of the tests.

        Raises
        ------
        InputError
            Values or weights are not numbers, or differ in length.
        """
        y, w = _columns(values, weights)
        u = self.base.forward(y)
        used = np.isfinite(u) & np.isfinite(w) & (w > 0)
        if not used.any():
            return False
        tried = [np.ones(int(used.sum())), w[used]]
        return any(self._distance(u[used], weight) < CLOSER_THAN_CHANCE for weight in tried)

    def save(self, path: str | Path) -> None:
        """Write the normal scores to a JSON file that only its owner can read (mode 0600).

        The file has the knots and the other arguments of the class, but no records.  It may be published if the knots
        come from a public file, or if the agency would publish these quantiles of the historical file.

        Parameters
        ----------
        path : str or Path
            Path of the file.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        base = {"name": _name(self.base)} | vars(self.base)
        document: dict[str, Any] = {"format": FORMAT, "source": self.source, "base": base}
        document |= {"amounts": self.amounts, "probabilities": self.probabilities}
        document |= {} if self.bounds is None else {"bounds": self.bounds}
        try:
            with whole_file(as_path(path)) as stream:
                stream.write((json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be written ({type(error).__name__})") from None

    @classmethod
    def load(cls, path: str | Path) -> NormalScores:
        """Read normal scores that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            Path of the file.

        Returns
        -------
        NormalScores
            The saved normal scores.

        Raises
        ------
        InputError
            There is no such file; the file is of another kind or version; or fields are missing, are unknown, or have
            values that the class refuses.
        """
        try:
            document = json.loads(as_path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{str(path)!r} cannot be read as normal scores ({type(error).__name__})") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"{str(path)!r} is not a file of {FORMAT}")
        fields = {"format", "source", "base", "amounts", "probabilities"}
        if not fields <= set(document) <= fields | {"bounds"}:
            raise InputError(f"{str(path)!r} must have the fields {', '.join(sorted(fields))} and no others")
        base = document["base"]
        if not isinstance(base, dict) or not {"name"} <= set(base) <= {"name", "scale"}:
            raise InputError(f"{str(path)!r}: base must have a name, and a scale unless it is log")
        if not isinstance(base["name"], str):
            raise InputError(f"{str(path)!r}: the name of the base must be a text")
        bounds = document.get("bounds")
        bounds = None if bounds is None else public_bounds(bounds, str(path))
        return NormalScores(
            document["amounts"],
            document["probabilities"],
            document["source"],
            as_transform(**base),
            bounds,
        )

    @cached_property
    def _curve(self) -> PPoly:
        """The curve from amounts u on the scale ``base``, such as logs, to normal scores z, with straight ends."""
        u = self.base.forward(np.array(self.amounts))
        z = ndtri(self.probabilities)
        chord = np.diff(z) / np.diff(u)
        slope = np.asarray(PchipInterpolator(u, z).derivative()(u))
        reach = min(1.0, z[-1] - z[0])
        slope[0] = reach / (np.interp(z[0] + reach, z, u) - u[0])
        slope[-1] = reach / (u[-1] - np.interp(z[-1] - reach, z, u))
        tails = slope[[0, -1]]
        # A slope is at most twice the slope of the chords on both sides.  Then the curve is nowhere flatter than half
        # the flattest chord, and the inverse is as exact as the curve itself.
        slope = np.minimum(slope, 2 * np.minimum(np.append(chord, np.inf), np.insert(chord, 0, np.inf)))
        cubic = CubicHermiteSpline(u, z, slope)
        first, last = u[1] - u[0], u[-1] - u[-2]  # lengths of the straight pieces, which have no effect on values
        left, right = [0, 0, tails[0], z[0] - tails[0] * first], [0, 0, tails[1], z[-1]]
        return PPoly(np.column_stack([left, cubic.c, right]), np.concatenate([[u[0] - first], u, [u[-1] + last]]))

    def _distance(self, u: Floats, w: Floats) -> float:
        value, F = mid_distribution(u, w)
        p = np.array(self.probabilities)
        gap = np.interp(self.base.forward(np.array(self.amounts)), value, F) - p
        return float(effective_size(w) * np.trapezoid(gap**2, p))


def public_bounds(bounds: object, outcome: str) -> tuple[float, float]:
    """Return the public bounds of an outcome as two floats (low, high).

    Raise InputError unless they are two finite numbers with low < high.  ``outcome`` is the name in the message.
    """
    message = (
        f"bounds of {outcome!r} are two public numbers, the lowest and the highest value, that are not taken from the "
        "file: bounds=(0, 1_000_000)"
    )
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
        raise InputError(message)
    if any(isinstance(x, bool) or not isinstance(x, int | float | np.number) or not np.isfinite(x) for x in bounds):
        raise InputError(message)
    low, high = float(bounds[0]), float(bounds[1])
    if low >= high:
        raise InputError(message)
    return low, high


def _name(base: Transform) -> str:
    assert isinstance(base, Base)
    return base.name


def _check_base(base: object) -> None:
    if not isinstance(base, Base):
        raise InputError(
            "base must be one of surveysynth.LogTransform(), AsinhTransform(scale=...), IdentityTransform(scale=...)"
        )


def _increasing(values: Sequence[float], name: str) -> Floats:
    """Return ``values`` as an array.  Raise InputError unless they are finite numbers in increasing order."""

    def numbers() -> Floats:
        if any(isinstance(v, (bool, str)) for v in values):
            raise TypeError
        return np.asarray(values, dtype=np.float64)

    mistakes = (TypeError, ValueError, OverflowError)
    a = guarded(numbers, mistakes, lambda kind: InputError(f"{name} must be a list of numbers"))
    if a.ndim != 1 or not np.isfinite(a).all() or not (np.diff(a) > 0).all():
        raise InputError(f"{name} must be finite numbers, each larger than the one before")
    return a


def _columns(values: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return values and weights as arrays (n,), with NaN for missing values.  By default, all weights are 1."""
    y = _floats(values, "values")
    w = np.ones_like(y) if weights is None else _floats(weights, "weights")
    if y.size != w.size:
        raise InputError(f"values and weights differ in length: {y.size:,} and {w.size:,}")
    return y, w


def _floats(column: ArrayLike, name: str) -> Floats:
    def numbers() -> Floats:
        return pd.Series(np.asarray(column)).to_numpy(dtype=np.float64, na_value=np.nan)

    return guarded(numbers, (TypeError, ValueError), lambda kind: InputError(f"{name} must be a column of numbers"))
