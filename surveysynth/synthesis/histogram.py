"""The perturbed histogram: strictly private synthetic values of one bounded outcome.

Source: Hu, Williams & Savitsky 2025, section 2.3; Wasserman & Zhou 2010.

    C_j   number of records, or sum of survey weights (each at most a public bound), with the outcome in bin j
    D_j   = C_j + Laplace noise by OpenDP,   D~_j = max(D_j, 0),   q_j = D~_j / sum D~
    y*_i  uniform within bin b_i,            b_i = j with probability q_j

Bins are intervals between public limits.  Only the D_j are computed from confidential values; everything else is
post-processing.  All m data sets come from one noisy histogram, so epsilon does not grow with m.
"""

from __future__ import annotations

import importlib.metadata
import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .._version import __version__
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError
from ..expenses import Expense
from ..noise import laplace
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.budget import MOST_DATASETS
from ..privacy.mechanisms import PerturbedHistogram
from ..privacy.report import PrivacyReport
from ..release.laplace import finite_outcome
from ..release.release import Release
from ..validation import positive, whole
from .synthetic_design import check_total

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bounds = tuple[float, float]

MOST_BINS = 1_000_000
EQUAL = 1e-9  # weights that differ by less than this share are equal up to rounding

NOT_IN_STANDARD_ERRORS = (
    "the m data sets share the noise of the histogram, and standard errors computed from them leave it out; they also "
    "leave out the survey's design, as the files have no strata, clusters or unequal weights. Intervals are too short "
    "for both reasons, and because values are uniform within bins"
)
REFUSED = (
    "whether there is a release at all: a file is refused if the outcome of a record is missing, infinite or not a "
    "number, or a survey weight missing or not positive{}"
)


def perturbed_histogram(
    design: SurveyDesign,
    outcome: str,
    *,
    epsilon: float,
    bounds: Bounds,
    population_total: float,
    bins: int | Sequence[float] | None = None,
    m: int = 3,
    weight_bound: float | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release m synthetic data sets of one outcome from a noisy histogram, under strict epsilon-differential privacy.

    Source: Hu, Williams & Savitsky 2025, section 2.3.

    A record is in one bin.  If the outcome of a record is blanked, so that the record is not counted, one count changes
    by 1.  Laplace noise of scale 1 / epsilon then gives epsilon-differential privacy.  The number n of records is
    public and fixed.  If the outcome of a record is replaced by another value, two counts change, which spends twice
    epsilon.  The paper's epsilon is for replacing a record.  To get the paper's noise, of scale 2 / epsilon, give half
    of the paper's epsilon here.

    There is no seed, because whoever knows a seed can remove the noise.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    outcome : str
        A numeric column without missing values.  Synthetic values are real numbers, even if the
        outcome has whole numbers.
    epsilon : float
        Epsilon of the whole release, for blanking one record, which is then not counted in the histogram.
    bounds : (float, float)
        Public lowest and highest value, chosen without looking at the file.  Values outside are
        moved to the nearest bound.
    population_total : float
        Public number of population units, to which the equal weights add up.
    bins : int or sequence of float, optional
        Number of bins of equal length, or their public limits in increasing order, of which the first and the last are
        the bounds.  The default is ceil(sqrt(n)) bins.
    m : int
        Number of synthetic data sets, each of n records.
    weight_bound : float, optional
        Public largest survey weight.  If a bound is given, the count of a bin is the sum of min(w_i, weight_bound) over
        its records, so that synthetic values follow the population, and the noise is weight_bound times as large.  A
        bound is required if weights differ, because the values would otherwise follow the sample.
    ledger : Ledger, optional
        Ledger in which epsilon, and twice epsilon for replacing a record, are entered before the release is returned.
        The manifest of the release has the number of this entry and its hash.

    Returns
    -------
    Release
        Data sets with the outcome and a weight, with ``privacy.kind == "strict"``.

    Raises
    ------
    InputError
        ``design`` is not a design.  The outcome is not numeric, has missing or infinite values, or has a role in the
        design.  A number is out of range, or bounds or limits are not in increasing order.  Weights differ and there is
        no ``weight_bound``.
    PrivacyError
        Epsilon would exceed the ledger's cap.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> release = ss.perturbed_histogram(
    ...     design, "salary", epsilon=2, bounds=(0, 1_000_000), population_total=100_000, weight_bound=500
    ... )
    >>> release
    Release: m = 3 synthetic data sets of 1,000 records by Perturbed histogram, outcomes salary, epsilon = 2 (strict)
    >>> release.privacy.kind
    'strict'
    """
    _check(design, outcome, population_total)
    design, _, left_out = to_synthesize(design)
    for note in left_out:
        warnings.warn(note, stacklevel=2)
    epsilon, m = positive(epsilon, "epsilon"), whole(m, "m", MOST_DATASETS)
    limits = _limits(bounds, bins, design.n)
    y, w = finite_outcome(design, outcome), _counted(design, weight_bound)
    check_ledger(ledger)
    if ledger is not None:
        ledger.check(epsilon)
    C = histogram(y, w, limits)
    D, _ = laplace(C, sensitivity(design.n, weight_bound), epsilon)

    rng = np.random.default_rng()
    weights = design.weights_name or ("weight" if outcome != "weight" else "synthetic_weight")
    datasets = [
        SurveyDesign(
            pd.DataFrame({outcome: draw(D, limits, design.n, rng), weights: population_total / design.n}),
            weights=weights,
        )
        for _ in range(m)
    ]
    method = {
        "package": {"surveysynth": __version__},
        "engine": {"name": "opendp", "version": importlib.metadata.version("opendp")},
        "method": "Perturbed histogram",
        "outcome": outcome,
        "predictors": "none",
        "weights": "equal",
        "limits": limits.tolist(),
        "weight_bound": weight_bound,
    }
    report = _report(epsilon, m, limits, weight_bound, left_out)
    spent = Expense("noisy counts", epsilon, 2 * epsilon)
    return Release(tuple(datasets), report, (), (outcome,), method, rests_on=(spent,)).entered(ledger)


def _check(design: SurveyDesign, outcome: str, population_total: float) -> None:
    """Raise InputError unless the arguments are a design, a column that can be synthesized, and one public total."""
    if not isinstance(design, SurveyDesign):
        raise InputError(f"perturbed_histogram needs a SurveyDesign, not {type(design).__name__}")
    if not isinstance(outcome, str):
        raise InputError("outcome must be the name of one column")
    if outcome in (design.weights_name, design.probs_name, *design.design_columns):
        raise InputError(f"{outcome!r} has a role in the design, so it cannot be an outcome")
    if population_total is None or isinstance(population_total, Mapping):
        raise InputError("population_total must be one public number: what the weights add up to")
    check_total(population_total, design)


def _counted(design: SurveyDesign, weight_bound: float | None) -> Floats:
    """Return the number that each record adds to the count of a bin.

    It is min(survey weight, ``weight_bound``) or, if ``weight_bound`` is None, 1.

    Raise InputError if weights differ and there is no ``weight_bound``.
    """
    if weight_bound is not None:
        return np.minimum(design.weights, positive(weight_bound, "weight_bound"))
    if np.ptp(design.weights) > EQUAL * design.weights.max():
        raise InputError(
            "the survey weights are not all equal, so a histogram of records would follow the sample and not the "
            "population; name the public largest weight, weight_bound=, for a histogram of weights"
        )
    return np.ones(design.n)


def histogram(y: Floats, w: Floats, limits: Floats) -> Floats:
    """Return, for each bin, the sum of ``w`` over the records whose ``y`` lies in the bin.

    ``limits`` has the k + 1 limits of the k bins.  Bins are [lower, upper), and the last bin is closed.  A value
    outside all bins counts in the nearest bin.
    """
    bin = np.clip(np.searchsorted(limits, y, side="right") - 1, 0, limits.size - 2)
    return np.bincount(bin, w, limits.size - 1).astype(np.float64)


def sensitivity(n: int, weight_bound: float | None) -> float:
    """Return the largest sum, over all bins, of the absolute changes of the histogram if one more record is counted.

    The change is 1 for counts, which are exact.  A sum of n weights of at most W is computed with a rounding error of
    at most n W gamma, gamma = n u / (1 - n u), u = 2^-53 (Higham 2002, section 4.2).  This error is possible in each
    of the two files, of n and n + 1 records.
    """
    if weight_bound is None:
        return 1.0
    gamma = (n + 1) * 2**-53 / (1 - (n + 1) * 2**-53)
    return weight_bound + 2 * (n + 1) * weight_bound * gamma


def draw(D: Floats, limits: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Draw n values from a noisy histogram D of k bins.

    The probability of a bin is proportional to max(D, 0) or, if this is 0 for all bins, to the length of the bin.
    Values are uniform within bins.
    """
    mass = np.maximum(D, 0.0)
    if not mass.any():
        mass = np.diff(limits)
    mass = mass / mass.max()  # so that the sum does not overflow
    bin = rng.choice(mass.size, n, p=mass / mass.sum())
    low, high = limits[bin], limits[bin + 1]
    return np.clip(low + (high - low) * rng.random(n), low, high)


def _report(
    epsilon: float, m: int, limits: Floats, weight_bound: float | None, left_out: Sequence[str]
) -> PrivacyReport:  # fmt: skip
    k, low, high = limits.size - 1, limits[0], limits[-1]
    by = (
        "all survey weights are equal, and that is public"
        if weight_bound is None
        else f"the largest survey weight, {weight_bound:.15g}, is public: larger ones were lowered to it"
    )
    return PrivacyReport(
        kind="strict", epsilon=epsilon, epsilon_requested=epsilon, m=m, draws=0,
        verdict="There is no sampler: values are drawn from the noisy histogram.",
        assumptions=[
            "the number of records is public and held fixed, and every data set has as many: neighbouring files differ "
            "in whether the values of one record are counted in the histogram",
            f"the bounds, {low:.15g} to {high:.15g}, and the limits of the {k:,} bins are public and were chosen "
            "without looking at the file; values outside the bounds were moved to the nearest",
            by,
            "the population total was given by the agency as public; the weights, all equal, add up to it",
            NOT_IN_STANDARD_ERRORS,
            *left_out,
        ],
        data_dependent=[REFUSED.format("" if weight_bound is not None else "; and if the weights are not all equal")],
        publishable=True,
        mechanism=PerturbedHistogram.name,
    )  # fmt: skip


def _limits(bounds: Bounds, bins: int | Sequence[float] | None, n: int) -> Floats:
    """Return the k + 1 limits of the k bins.  Raise InputError if bounds or bins are not valid."""
    ends = _rising(bounds, "bounds")
    if ends.size != 2:
        raise InputError("bounds must be two numbers, lowest and highest value, chosen without looking at the file")
    low, high = map(float, ends)
    if bins is None or isinstance(bins, (int, np.integer)):
        k = math.ceil(math.sqrt(n)) if bins is None else whole(bins, "bins")
        if k > MOST_BINS:
            raise InputError(f"bins must be at most {MOST_BINS:,}")
        limits = np.linspace(low, high, k + 1)
        if not (np.diff(limits) > 0).all():
            raise InputError("the bounds are so near that the bins have no length: fewer bins, or wider bounds")
        return limits
    limits = _rising(bins, "bins")
    if limits[0] != low or limits[-1] != high:
        raise InputError("the limits in bins= must begin and end with the bounds")
    return limits


def _rising(numbers: ArrayLike, name: str) -> Floats:
    """Return ``numbers`` as an array, if they are two or more finite numbers in increasing order.

    Otherwise raise InputError, and also if the difference of the last and the first number overflows.  ``name`` is the
    name of the argument, for the message.
    """
    try:
        values = np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all() or not (values[1:] > values[:-1]).all():
        raise InputError(f"{name} must be finite numbers, at least two, that rise")
    if not math.isfinite(float(values[-1]) - float(values[0])):
        raise InputError(f"{name} are too far apart: give the outcome in a larger unit")
    return values
