"""Expected standard errors of a strict release (from noisy tables), computed by releases of made-up files.

A made-up file has the public columns and the design of the survey.  Its outcomes and weights are random numbers that
agree with the declared bounds and levels, and do not depend on confidential values.  Noisy tables, a release and tables
of estimates are made from the made-up file as they will be from the survey, so that the standard errors include every
step of the release.  This release of a made-up file is called a rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, t

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import Obstacles
from ..estimation.tables import estimate
from ..measuring.bins import FINE, Bins, Cells
from ..measuring.measure import WEIGHT_BOUNDS
from ..measuring.outcome import Outcome
from ..measuring.terms import Term, terms_of
from ..release.contents import check_m
from ..release.measurements import Measurements
from ..release.release import Release
from ..synthesis.all_columns import written_out
from ..synthesis.declarations import Bounds, Formulas, Totals, Weight
from ..synthesis.measured import measure
from ..synthesis.strict_request import StrictRequest, strict_request
from ..validation import as_list

Floats = NDArray[np.float64]

RUNS = 4  # number of made-up files for one outcome; fewer for several outcomes, which give more means per file
CENTRE, SPREAD = 0.6, 0.8  # centre of amounts between the bounds, and their standard deviation, on the log scale
BEYOND, INDEX = 0.05, 2.5  # share of amounts in a Pareto tail, and index of the tail
SHARE = 0.5, 0.2  # centre and standard deviation of shares and similar numbers, as parts of the bounds' distance
COUNT = 0.12, 0.6  # mean count as a share of the upper bound, and standard deviation of the log rate
EFFECT, DESIGN_EFFECT = 0.3, 0.2  # effects of levels of a term, and of strata and PSUs, in standard deviations
SPECIAL = 0.15  # share of each special value
WEIGHT_SPREAD = 0.5  # standard deviation of log weights
BY_CHANCE = 0.01  # probability with which a change of expected errors is called clear although there is none
RAKED = 20  # rounds of raking; the last margin is exact, and the others nearly
WORTH_LITTLE = 3.0  # a table is worth little if its standard error is more than this multiple of the sample's


def expected_errors(
    design: SurveyDesign,
    formula: Formulas,
    *,
    epsilon: float,
    delta: float | None = None,
    by: str | Sequence[str] | None = None,
    population_total: float | Mapping[Any, float] | None = None,
    population_totals: Totals | None = None,
    bounds: Bounds | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    weight: Weight = "synthesize",
    weight_bounds: tuple[float, float] = WEIGHT_BOUNDS,
    clusters: Clusters = "model",
    unit: str | None = None,
    public: Sequence[str] | None = None,
    importance: Mapping[str, float] | None = None,
    m: int = 20,
) -> pd.DataFrame:
    """Predict the standard errors of a strict release from public facts alone.  No epsilon is spent.

    Parameters
    ----------
    design : SurveyDesign
        The file.  Only its public columns, its design and, if they are public, its weights are used.
    formula, epsilon, delta, population_total, population_totals, bounds, outcomes
        See :func:`surveysynth.measure`.
    weight, weight_bounds, clusters, unit, public, importance
        See :func:`surveysynth.measure`.
    by : str or list of str, optional
        Predictors by which tables will be made.
    m : int
        Number of synthetic data sets of the release.

    Returns
    -------
    pandas.DataFrame
        One row for each cell and statistic, with the columns of ``by``, then ``statistic``, ``ratio`` and ``cv``.  The
        cells are the combinations of levels of ``by``, their margins and the total.  ``ratio`` is the standard error in
        the release divided by the standard error in the sample.  ``cv`` is the standard error in the release divided by
        the estimate.  Both come from made-up files.  With several outcomes, the column ``outcome`` is before
        ``statistic``.  With categorical outcomes, the column ``category`` is after it.

    Raises
    ------
    InputError, ModelError
        See :func:`surveysynth.measure`.  One error lists everything that is wrong.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> expected = ss.expected_errors(
    ...     design, "salary ~ gender", epsilon=5, by="gender", population_total=100_000, bounds=(0, 1_000_000)
    ... )
    >>> expected.columns.tolist(), len(expected)
    (['gender', 'statistic', 'ratio', 'cv'], 5)
    """
    found = rehearsals(
        design, formula, by=by, m=m, epsilon=epsilon, delta=delta, population_total=population_total,
        population_totals=population_totals, bounds=bounds, outcomes=outcomes, weight=weight,
        weight_bounds=weight_bounds, clusters=clusters, unit=unit, public=public, importance=importance,
    )  # fmt: skip
    return pooled([rehearsal.cells for rehearsal in found])


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsal:
    """The accuracy of the release of one made-up file.

    Attributes
    ----------
    cells : pandas.DataFrame
        One row for each estimate.  The first columns are the variables of the tables, ``outcome`` if there are several,
        ``statistic``, and ``category`` for categorical outcomes.  Then come ``own``, the squared standard error in the
        made-up file, ``released``, the squared standard error in its release, and ``estimate``, the estimate of the
        release.
    shares : pandas.DataFrame
        One row for each noisy table, with the columns ``variable``, ``by``, ``kind`` and ``share``.  ``share`` is the
        table's share of the privacy budget: of epsilon, or of rho under Gaussian noise.
    """

    cells: pd.DataFrame
    shares: pd.DataFrame


def rehearsals(
    design: SurveyDesign, formula: Formulas, *, by: str | Sequence[str] | None = None, m: int = 20,
    public_term: str | None = None, least: int = 1, **given: Any,
) -> Iterator[Rehearsal]:  # fmt: skip
    """Check the arguments of :func:`expected_errors`, and return an iterator over releases of made-up files.

    Such a release is a rehearsal.  It is made when the iterator reaches it.

    Parameters
    ----------
    design, formula, by, m, **given
        See :func:`expected_errors`.
    public_term : str, optional
        A term of the formula, whose population totals by level are treated as public; each rehearsal uses the totals of
        its made-up file.  The made-up files are the same as without this argument, so that the difference in accuracy
        is due to the totals.
    least : int
        Smallest number of rehearsals.  There are at least 4 for one outcome, and 2 for two outcomes.

    Raises
    ------
    InputError, ModelError
        See :func:`expected_errors`.
    """
    wrong, names = Obstacles(), as_list(by)
    request = wrong.check(strict_request, design, formula, **given)
    wrong.check(check_m, m)
    wrong.refuse()
    assert request is not None
    public, clusters, unit = given.pop("public", None), given.get("clusters", "model"), given.get("unit")
    formula = written_out(design, formula, public, given["epsilon"], given.get("delta"), given.get("outcomes"))
    terms = terms_of(request.design, request.model.predictors, clusters == "model", unit)
    declared = given | {"outcomes": request.schema, "bounds": None}

    def rehearsed(run: int) -> Rehearsal:
        made, more = _made_up(request, terms, run), {}
        if public_term is not None:
            totals = pd.Series(made.weights).groupby(made.column(public_term).to_numpy()).sum().to_dict()
            more["population_totals"] = {**(given.get("population_totals") or {}), public_term: totals}
        measured = measure(made, formula, **(declared | more), seed=run)
        return Rehearsal(_compared(made, measured, names, m, run), _shares(measured))

    return map(rehearsed, range(max(least, RUNS // len(request.schema))))


def pooled(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Combine the accuracy for all made-up files (:attr:`Rehearsal.cells`) into the table of :func:`expected_errors`.

    Variances are averaged over rehearsals before ratios and coefficients of variation are computed.
    """
    keys = [c for c in found[0] if c not in ("own", "released", "estimate")]
    squares = pd.concat(found).groupby(keys, sort=False, observed=True, dropna=False).mean()
    # ratios of mean squares, because the standard error of one small sample is often unusual
    ratio = (squares["released"] / squares["own"]) ** 0.5
    cv = squares["released"] ** 0.5 / squares["estimate"].abs()
    return pd.DataFrame({"ratio": ratio, "cv": cv}).reset_index()


def typical_ratios(errors: pd.DataFrame) -> dict[str, float]:
    """Return, for each statistic, the root mean square of the ratios of standard errors (release divided by file)."""
    squares = (errors["ratio"] ** 2).groupby(errors["statistic"], sort=False).mean() ** 0.5
    return {str(statistic): float(ratio) for statistic, ratio in squares.items()}


def clear_change(before: Sequence[pd.DataFrame], after: Sequence[pd.DataFrame], statistic: str) -> bool:
    """Return True if the standard errors of a statistic differ significantly between two plans of a release.

    ``before`` and ``after`` have the ``cells`` of rehearsals of the two plans; rehearsals at the same position are of
    the same made-up file.  For each file, the mean over cells of log(variance after / variance before) is computed.
    The mean of these numbers over files is compared with 0 by a t test at the 1% level.  Cells with a variance of 0 in
    either plan are left out.  If no cell is left, the result is True if a variance before was positive.  With a single
    file there is no test, and the result is False.
    """
    changes = []
    for first, second in zip(before, after, strict=False):
        pair = [cells.loc[cells["statistic"] == statistic, "released"].to_numpy() for cells in (first, second)]
        some = (pair[0] > 0) & (pair[1] > 0)
        if not some.any():
            return bool((pair[0] > 0).any())
        changes.append(np.log(pair[1][some] / pair[0][some]).mean())
    many = len(changes)
    if many < 2:
        return False
    error = np.std(changes, ddof=1) / many**0.5
    return bool(abs(np.mean(changes)) > t.isf(BY_CHANCE / 2, many - 1) * error)


def _made_up(request: StrictRequest, terms: Sequence[Term], run: int) -> SurveyDesign:
    """Return the survey's design with made-up outcomes and, unless weights are public, made-up weights.

    ``terms`` are the terms whose levels have effects on these, and ``run`` is the seed.
    """
    design, rng = request.design, np.random.default_rng(run)
    frame, columns = design.frame, dict[str, Any]()
    for name, each in request.schema.items():
        asked, values = Cells.for_outcome(each).asked(frame), _values(each, terms, design.n, rng)
        columns[name] = values if asked.all() else values.astype(object).where(asked, each.outside).infer_objects()
        frame = frame.assign(**{name: columns[name].array})
    if not request.public_weight:
        w = np.exp(_shifted(terms, design.n, rng, WEIGHT_SPREAD))
        w = w * (request.population_total / w.sum())
        columns[str(design.weights_name or design.probs_name)] = _raked(w, terms, request.population_totals)
    return SurveyDesign(design.frame.assign(**columns), **design.roles())


def _raked(w: Floats, terms: Sequence[Term], totals: Mapping[str, Floats]) -> Floats:
    """Rake the weights w to public population totals (``totals``), such as totals by region, in 20 rounds."""
    levels = {term.name: term.level for term in terms}
    for name in [*totals] * RAKED:
        level, total = levels[name], totals[name]
        w = w * (total / np.maximum(np.bincount(level, w, len(total)), np.finfo(float).tiny))[level]
    return w


def _shares(measured: Measurements) -> pd.DataFrame:
    """Return each noisy table's share of the privacy budget (:attr:`Rehearsal.shares`)."""
    tables = pd.DataFrame(
        [
            (variable.name, table.by_text, table.kind, table.epsilon)
            for variable in measured.source.tables.variables for table in variable.tables
        ],
        columns=["variable", "by", "kind", "share"],
    )  # fmt: skip
    spent = tables["share"] if measured.source.tables.delta is None else tables["share"] ** 2  # rho = epsilon^2 / 4
    return tables.assign(share=spent / spent.sum())


def _compared(made: SurveyDesign, measured: Measurements, names: list[str], m: int, seed: int) -> pd.DataFrame:
    """Make a release from noisy tables, and return the estimates of the release (:attr:`Rehearsal.cells`).

    ``names`` are the variables of the tables.
    """
    release, found = measured.release(m, seed=seed), []
    for name in release.outcomes:
        cells = _cells(made, release, name, names)
        if len(release.outcomes) > 1:
            cells.insert(len(names), "outcome", name)
        found.append(cells)
    return pd.concat(found)


def _cells(made: SurveyDesign, release: Release, name: str, names: list[str]) -> pd.DataFrame:
    """Return the estimates of the outcome ``name``, with their variances in the release and in the made-up file.

    ``names`` are the variables of the tables.  Estimates without an error in the file, and the total count, are left
    out.
    """
    categorical = name in release.categorical
    statistics = ["proportion"] if categorical else ["count", "mean"]
    released = release.tables(names, outcome=name, statistic=statistics)
    own = estimate(made, name, names, statistics, missing="available")
    keys = [*names, "statistic", *(["category"] if categorical else [])]
    both = own.merge(released, on=keys, suffixes=("", "_released"))
    known = (both["se"] > 0) & ~((both[names] == "all").all(axis=1) & (both["statistic"] == "count"))
    both = both[known]
    return both[keys].assign(
        own=both["se"] ** 2, released=both["se_released"] ** 2, estimate=both["estimate_released"]
    )


def _shifted(terms: Sequence[Term], n: int, rng: np.random.Generator, sd: float) -> Floats:
    """Draw n normal values with random effects of predictors, strata and PSUs, and a standard deviation near ``sd``."""
    z = rng.standard_normal(n)
    for term in terms:
        effect = np.linspace(-1.5, 1.5, term.levels) if term.levels > 1 else np.zeros(1)
        effect = effect * (DESIGN_EFFECT if term.drawn else EFFECT)
        z = z + rng.permutation(effect)[term.level]
    return np.asarray(sd * z, dtype=np.float64)


def _values(schema: Outcome, terms: Sequence[Term], n: int, rng: np.random.Generator) -> pd.Series:
    """Draw n values of an outcome within the declared bounds or levels, with effects of predictors, strata and PSUs."""
    if schema.levels is not None:
        score = _shifted(terms, n, rng, 1.0)
        cuts = np.quantile(score, np.arange(1, len(schema.levels)) / len(schema.levels))
        values = pd.Series(pd.Categorical.from_codes(np.searchsorted(cuts, score), pd.Index([*schema.levels])))
    else:
        values = pd.Series(_numbers(schema, terms, n, rng))
        for value in ((0.0,) if schema.zeros else ()) + tuple(schema.heaps):
            values[rng.random(n) < SPECIAL] = value
    if schema.missing:
        values[rng.random(n) < SPECIAL] = np.nan
    return values


def _numbers(schema: Outcome, terms: Sequence[Term], n: int, rng: np.random.Generator) -> Floats:
    assert schema.bounds is not None
    low, high = schema.bounds
    if schema.whole and low >= 0 and high - low < FINE:  # counts; wider bounds are for amounts in whole units
        rate = COUNT[0] * high * np.exp(_shifted(terms, n, rng, COUNT[1]))
        return np.clip(rng.poisson(rate), low, high).astype(np.float64)
    knee = Bins.for_amounts(low, high).knee
    if np.isinf(knee):
        return np.clip(low + (high - low) * (SHARE[0] + _shifted(terms, n, rng, SHARE[1])), low, high)
    scale = Bins(np.array([low, high]), knee)
    first, last = scale.scaled(scale.edges)
    at = first + CENTRE * (last - first) if low >= 0 else 0.0
    z = _shifted(terms, n, rng, 1.0)
    tail = norm.isf(BEYOND)
    body, beyond = np.minimum(z, tail), np.log(BEYOND / norm.sf(np.maximum(z, tail)))
    return np.clip(scale.back(at + SPREAD * body + beyond / INDEX), low, high)
