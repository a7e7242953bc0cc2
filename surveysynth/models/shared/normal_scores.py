"""Normal scores: a working scale on which last year's outcome was standard normal.

Incomes are not lognormal: their logs have heavy tails, heaps and a top code.  A smooth monotone
map from amounts to normal scores takes that shape out, and the normal model then fits.  The map
must be public or older than the file that is released, and frozen; it then costs no privacy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator, PPoly
from scipy.special import ndtri

from ...design.survey_design import SurveyDesign
from ...errors import InputError, PrivacyError, guarded
from ...expenses import Expense, Fingerprint, id_of, strict
from ...noise import laplace
from ...storage import as_path, whole_file
from ...validation import positive, rows, whole
from .noisy_histogram import BINS, asinh_of, bin_limits, determined, smooth_density
from .score_curve import effective_size, evaluate, mid_distribution, solve
from .transforms import AsinhTransform, IdentityTransform, LogTransform, Transform, as_transform

Floats = NDArray[np.float64]

LOG = LogTransform()
Base = LogTransform | IdentityTransform | AsinhTransform
FORMAT = "surveysynth normal scores, version 1"
DIGITS = 4  # significant digits of a knot's amount
# With 1,000 records and 70 knots three records or more, mostly 20, lie between neighbouring knots, and a
# score near the median has a standard error of 0.04.
LEAST_RECORDS, RECORDS_PER_KNOT = 1000, 14
LEAST_KNOTS = 5
# Outer knots: this share of the file beyond, and this many records at least, so that a knot
# never is a single record's own amount.
OUTER_SHARE, OUTER_RECORDS = 0.001, 5
# W^2 of two files that have nothing to do with each other is below this in 6 of a million pairs
# (Csorgo and Faraway 1996, eq. 1.2), however alike their distributions are.
CLOSER_THAN_CHANCE = 0.01


@dataclass(frozen=True)
class NormalScores:
    """Working scale y~ = Phi^-1(p) where a historical or public file has the share p below y.

    Knots (y_k, p_k) are joined by a monotone cubic (PCHIP) from the base scale u = base(y) to the
    score z = Phi^-1(p), and go on in straight lines beyond the outer knots.

    Parameters
    ----------
    amounts : sequence of float (K,)
        Knots y_k, in the outcome's unit, increasing; at least 5.
    probabilities : sequence of float (K,)
        Shares p_k, increasing, between 0 and 1.
    source : str
        The file or publication that the knots come from; it is published with a release.
    base : transform
        ``surveysynth.LogTransform()``, ``surveysynth.AsinhTransform(scale=)`` for amounts that can be zero or
        negative, or ``surveysynth.IdentityTransform(scale=)``.
    bounds : (float, float), optional
        Public lowest and highest value: what lies beyond is moved to them, on the way there and back.
    covered : bool
        Whether they were made under an epsilon of their own: then they may come from this very file.
    rests_on : tuple of Expense
        What was spent on a confidential file for them: a release of that file that is made with them counts it.

    Raises
    ------
    InputError
        Knots that do not increase or have no image on the base scale, a source without a name,
        another base, bounds that are no two numbers.

    Notes
    -----
    The slope of a tail is that of the chord over the outer one unit of normal score.  Tried on the
    income of the census workers, with 1,000 to 8,850 of them as history: the scores of the others
    had an excess kurtosis of 0.1 to 0.6 on average, never above 2 (log income: 6).  A chord of half
    a unit can fall among the top-coded incomes, and the mean excess beyond the outer knot is
    that of few records; both put some incomes at z = 10 and more.

    A share of equal amounts, such as zeros, stays a point: the scores have an atom there, and
    what is synthesized spreads around it.

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
    covered: bool = False
    rests_on: tuple[Expense, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rests_on", tuple(self.rests_on))
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
        """Knots from a historical or public file, never from the file to release.

        Parameters
        ----------
        values : array (n,)
            The outcome in the historical file, in the unit of the file to come.
        source : str
            What to call that file; published.
        weights : array (n,), optional
            Its survey weights.
        knots : int
            How many quantiles.  They are evenly spaced in arcsin sqrt(p), where a sample quantile
            has the same error everywhere, from p = 0.001, or 5 records, to the same from above.
        base : str or transform
            As for the class, or ``"log"``.

        Raises
        ------
        InputError
            Values or weights that are missing, not numbers or out of the base's range; a file
            that is too small for the number of knots, or has too few different values.

        Notes
        -----
        Quantiles invert the mid-distribution function F(y-) + (F(y) - F(y-)) / 2, interpolated on
        the base scale between different values (Ma, Genton and Parzen 2011), so heaps, weights and
        copies of records need no rule of their own.  They are rounded to 4 significant digits, which keeps
        the digits of a historical record out of the knots; equal ones are one knot; and p is
        the mid-distribution function of the rounded amount.
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

    @staticmethod
    def private(
        design: SurveyDesign, outcome: str, *, bounds: tuple[float, float], epsilon: float, each: int = 1,
        zeros: bool = False, missing: bool = False, rng: np.random.Generator | None = None,
    ) -> PrivateScores:  # fmt: skip
        """Scores of the file itself, from a histogram with Laplace noise: differentially private, at this epsilon.

        ``synthesize`` makes them by itself where it gets ``bounds``.  Epsilon is for blanking one record's value,
        twice that for replacing it; the number of records is public.  Made by hand and given to a model as
        ``transform=``, their epsilon is a part of the release's.

        Parameters
        ----------
        design : SurveyDesign
            The confidential file.
        outcome : str
            A numeric column; missing values are left out.
        bounds : (float, float)
            Public lowest and highest value.  What lies beyond is moved to them; nothing public says how much does.
        epsilon : float
            What the histogram spends, for blanking one record's value.
        each : int
            The largest public number of records of a unit, where epsilon protects units of several records.
        zeros : bool
            Whether zeros are an outcome of their own, and left out.
        missing : bool
            Whether it is confidential how many values are missing.
        rng : numpy.random.Generator, optional
            For tests only: noise that anyone who knows the seed can take off.  Default: OpenDP's.

        Returns
        -------
        PrivateScores
            Normal scores that say what they spent.

        Raises
        ------
        InputError
            Bounds that are not two rising numbers; an epsilon that is not positive; a column that is not numeric.
        PrivacyError
            Too much noise for the number of records, or bounds so wide that nearly everything lies in a few bins.
        """
        epsilon, each = positive(epsilon, "epsilon"), whole(each, "each")
        low, high = public_bounds(bounds, outcome)
        y = design.numeric(outcome)
        y = y[~np.isnan(y) & ~(zeros & (y == 0))]
        n = None if zeros or missing else y.size  # how many are left is confidential
        return scores_of_counts(
            binned(y, (low, high)), n, outcome, (low, high), epsilon, rng, each=each, zeros=zeros, most=design.n,
            file=Fingerprint.of([design.column(outcome)]),
        )

    def forward(self, y: Floats) -> Floats:
        """The normal score of y; NaN where y has no image on the base scale.

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
        """The amount whose score is z.

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
        """Amounts held within the public bounds."""
        return y if self.bounds is None else np.clip(y, *self.bounds)

    def describe(self) -> str:
        """Name, base measure and source, for the report.

        Returns
        -------
        str
            A line.
        """
        return (
            f"normal-score of {self.source} (densities per unit of normal score; {len(self.amounts)} knots, "
            f"cubic on the {_name(self.base)} scale, straight beyond the outer knots)"
        )

    def made_from(self, values: ArrayLike, weights: ArrayLike | None = None) -> bool:
        """Whether these knots come from this very file, or from one that is closer to it than chance allows.

        A file to release must not have made its own knots.  The test is W^2 = n times
        the integral of (F(y_k) - p_k)^2 (Cramer and von Mises), which is 0 for the file itself, in any
        order and with all records repeated; mostly below 0.01 when up to 5% of the records were left
        out or added; and on average 1/6 or more for an independent file of the same
        distribution, below 0.01 in 6 of a million.

        Parameters
        ----------
        values : array (n,)
            The outcome in the file; missing values and values without an image are left out.
        weights : array (n,), optional
            Its weights.  The file is tried with and without them.

        Returns
        -------
        bool
            True where they do.

        Raises
        ------
        InputError
            Values or weights that are not numbers, or differ in length.
        """
        if self.covered:
            return False
        y, w = _columns(values, weights)
        u = self.base.forward(y)
        used = np.isfinite(u) & np.isfinite(w) & (w > 0)
        if not used.any():
            return False
        tried = [np.ones(int(used.sum())), w[used]]
        return any(self._distance(u[used], weight) < CLOSER_THAN_CHANCE for weight in tried)

    def save(self, path: str | Path) -> None:
        """Write to a JSON file of its owner's (mode 0600).

        It may be published, unless the scores rest on what was spent on a confidential file: then it holds that file's
        fingerprint and its key.  A release publishes the knots without these.

        Parameters
        ----------
        path : str or Path
            Of the file.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        base = {"name": _name(self.base)} | vars(self.base)
        said: dict[str, Any] = {"format": FORMAT, "source": self.source, "base": base}
        said |= {"amounts": self.amounts, "probabilities": self.probabilities}
        said |= {} if self.bounds is None else {"bounds": self.bounds}
        if self.covered:
            said["covered"] = True
        if self.rests_on:
            said["rests_on"] = [asdict(expense) for expense in self.rests_on]
        try:
            with whole_file(as_path(path)) as stream:
                stream.write((json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be written ({type(error).__name__})") from None

    @classmethod
    def load(cls, path: str | Path) -> NormalScores:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            Of the file.

        Returns
        -------
        NormalScores
            As they were saved.

        Raises
        ------
        InputError
            No such file; a file of another kind or version; fields that are missing, unknown or
            not what the class takes.
        """
        try:
            said = json.loads(as_path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{str(path)!r} cannot be read as normal scores ({type(error).__name__})") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise InputError(f"{str(path)!r} is not a file of {FORMAT}")
        fields = {"format", "source", "base", "amounts", "probabilities"}
        if not fields <= set(said) <= fields | {"bounds", "covered", "rests_on"}:
            raise InputError(f"{str(path)!r} must have the fields {', '.join(sorted(fields))} and no others")
        base = said["base"]
        if not isinstance(base, dict) or not {"name"} <= set(base) <= {"name", "scale"}:
            raise InputError(f"{str(path)!r}: base must have a name, and a scale unless it is log")
        if not isinstance(base["name"], str):
            raise InputError(f"{str(path)!r}: the name of the base must be a text")
        bounds = said.get("bounds")
        bounds = None if bounds is None else public_bounds(bounds, str(path))
        return NormalScores(
            said["amounts"],
            said["probabilities"],
            said["source"],
            as_transform(**base),
            bounds,
            bool(said.get("covered")),
            _expenses(said.get("rests_on", []), path),
        )

    @cached_property
    def _curve(self) -> PPoly:
        """The map from u to z, with a straight piece at each end, which is extrapolated."""
        u = self.base.forward(np.array(self.amounts))
        z = ndtri(self.probabilities)
        chord = np.diff(z) / np.diff(u)
        slope = np.asarray(PchipInterpolator(u, z).derivative()(u))
        reach = min(1.0, z[-1] - z[0])
        slope[0] = reach / (np.interp(z[0] + reach, z, u) - u[0])
        slope[-1] = reach / (u[-1] - np.interp(z[-1] - reach, z, u))
        tails = slope[[0, -1]]
        # At most twice the chords on either side: then the curve is nowhere flatter than half the
        # flattest chord, and its inverse is as exact as the curve itself.
        slope = np.minimum(slope, 2 * np.minimum(np.append(chord, np.inf), np.insert(chord, 0, np.inf)))
        cubic = CubicHermiteSpline(u, z, slope)
        first, last = u[1] - u[0], u[-1] - u[-2]  # any lengths
        left, right = [0, 0, tails[0], z[0] - tails[0] * first], [0, 0, tails[1], z[-1]]
        return PPoly(np.column_stack([left, cubic.c, right]), np.concatenate([[u[0] - first], u, [u[-1] + last]]))

    def _distance(self, u: Floats, w: Floats) -> float:
        """W^2 between the knots and a file of base-scale values u with weights w."""
        value, F = mid_distribution(u, w)
        p = np.array(self.probabilities)
        gap = np.interp(self.base.forward(np.array(self.amounts)), value, F) - p
        return float(effective_size(w) * np.trapezoid(gap**2, p))


def _expenses(said: Any, path: str | Path) -> tuple[Expense, ...]:
    """What saved scores rest on (InputError: it is damaged)."""

    def made() -> tuple[Expense, ...]:
        found = []
        for each in said:
            file = each["file"] and Fingerprint(each["file"]["key"], tuple(each["file"]["digests"]))
            found.append(Expense(**(each | {"file": file})))
        return tuple(found)

    return guarded(
        made, (TypeError, KeyError, AttributeError, ValueError),
        lambda kind: InputError(f"{str(path)!r}: what the scores rest on is damaged ({kind})"),
    )  # fmt: skip


def public_bounds(bounds: object, outcome: str) -> tuple[float, float]:
    """Lowest and highest value as numbers (InputError)."""
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
    """The values as an array, or an InputError where they are not finite numbers in increasing order."""

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
    """Values and weights as columns of floats, NaN where missing; weights are 1 where none are given."""
    y = _floats(values, "values")
    w = np.ones_like(y) if weights is None else _floats(weights, "weights")
    if y.size != w.size:
        raise InputError(f"values and weights differ in length: {y.size:,} and {w.size:,}")
    return y, w


def _floats(column: ArrayLike, name: str) -> Floats:
    def numbers() -> Floats:
        return pd.Series(np.asarray(column)).to_numpy(dtype=np.float64, na_value=np.nan)

    return guarded(numbers, (TypeError, ValueError), lambda kind: InputError(f"{name} must be a column of numbers"))


@dataclass(frozen=True)
class PrivateScores(NormalScores):
    """Normal scores from a noisy histogram of the file itself; made by :meth:`NormalScores.private`.

    Attributes
    ----------
    counts : tuple of float
        Noisy, one a bin: public.
    n : int
        Records in the histogram: public.
    epsilon : float
        Spent on the histogram.
    each : int
        Largest number of records of a unit.
    zeros : bool
        Whether zeros were left out, as an outcome of their own.
    """

    counts: Sequence[float] = ()
    n: int = 0
    epsilon: float = 0.0
    each: int = 1
    zeros: bool = False

    def redrawn(self, rng: np.random.Generator) -> PrivateScores:
        """Scores as other noise would have made them, were the smooth density the file's own.

        What the noise does to tables is the spread over such scores: post-processing.
        """
        assert self.bounds is not None  # as NormalScores.private sees to
        scale = self.each / self.epsilon
        expected = self.n * smooth_density(np.array(self.counts), self.n, 2 * scale**2)
        noisy = expected + rng.laplace(0, scale, expected.size)
        return _smoothed(noisy, self.n, self.epsilon, self.each, self.zeros, self.bounds, self.source)

    def blanked(self, values: Floats) -> PrivateScores:
        """Scores as the same noise would have made them without some values of the file: for audits."""
        assert self.bounds is not None  # as NormalScores.private sees to
        noisy = np.array(self.counts) - binned(values, self.bounds)
        return _smoothed(noisy, self.n, self.epsilon, self.each, self.zeros, self.bounds, self.source)

    def kept(self) -> NormalScores:
        """The same map for later files, where it costs nothing; a release of this file counts what was spent on it."""
        return NormalScores(
            self.amounts, self.probabilities, self.source, self.base, self.bounds, covered=True, rests_on=self.rests_on
        )


def scores_of_counts(
    counts: Floats, n: int | None, outcome: str, bounds: tuple[float, float], epsilon: float,
    rng: np.random.Generator | None, *, each: int = 1, zeros: bool = False, most: int = 0,
    file: Fingerprint | None = None,
) -> PrivateScores:  # fmt: skip
    """As :meth:`NormalScores.private`, from what :func:`binned` counts of n records, or of up to ``most`` (n None)."""
    noisy, _ = laplace(counts, float(each), epsilon, rng)
    if n is None:
        n = int(np.clip(noisy.sum(), 1, most))
    source = f"a histogram of this file's {outcome} with Laplace noise"
    what = f"normal scores of {outcome}"
    spent = strict(what, epsilon, file, id_of(what, noisy))
    return replace(_smoothed(noisy, n, epsilon, each, zeros, bounds, source), rests_on=(spent,))


def binned(y: Floats, bounds: tuple[float, float]) -> Floats:
    """How many values lie in each of the public bins, those beyond the bounds in the outer ones: (bins,)."""
    u = asinh_of(bounds).forward(np.clip(y, *bounds))
    return np.histogram(u, bin_limits(bounds))[0].astype(np.float64)


def under_other_noise(
    scores: PrivateScores, y: Floats, rng: np.random.Generator, *, zeros: bool = False
) -> Floats:
    """Amounts (n,) as a model on other scores would have them: normal where these are, with least squares between.

    Missing values stay, as zeros do where they are an outcome of their own or stand for no amount (``zeros``).
    """
    other, moved = scores.redrawn(rng), y.astype(np.float64)
    amount = ~np.isnan(y) & ~((scores.zeros or zeros) & (y == 0))
    z, there = scores.forward(y[amount]), other.forward(y[amount])
    z -= z.mean()
    slope = z @ (there - there.mean()) / max(float(z @ z), np.finfo(float).tiny)  # 0 where all amounts are equal
    moved[amount] = other.inverse(there.mean() + slope * z)
    return moved


def _smoothed(
    counts: Floats, n: int, epsilon: float, each: int, zeros: bool, bounds: tuple[float, float], source: str
) -> PrivateScores:
    """Knots at the limits of bins, between the outer shares."""
    noise = 2 * (each / epsilon) ** 2
    share = smooth_density(counts, n, noise)
    F, inner = np.cumsum(share)[:-1], determined(share, n, noise)
    if inner.sum() < LEAST_KNOTS:
        raise PrivacyError(
            f"{source}: epsilon = {epsilon:g} and {n:,} records leave fewer than {LEAST_KNOTS} of the {BINS} bins "
            f"between {bounds[0]:g} and {bounds[1]:g} above the noise: give narrower public bounds, a larger epsilon, "
            "or normal scores of an earlier file"
        )
    amounts = asinh_of(bounds).inverse(bin_limits(bounds)[1:-1][inner])
    return PrivateScores(
        amounts.tolist(), F[inner].tolist(), source, asinh_of(bounds), bounds, True, counts=counts.tolist(), n=n,
        epsilon=epsilon, each=each, zeros=zeros,
    )  # fmt: skip
