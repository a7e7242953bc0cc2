"""Noisy tables of a file for strict releases: records are counted by public columns, and noise is added to the counts.

Measurements are such noisy tables, with everything else that is needed to draw synthetic data sets from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import InputError, Obstacles
from ..expenses import Expense, new_id
from ..measuring.earlier_years import aligned_tables
from ..measuring.measure import WEIGHT_BOUNDS, measure_design
from ..measuring.noisy_tables import NoisyTables
from ..measuring.outcome import Outcome
from ..models.normal.fbp import FBP
from ..privacy.accounting.ledger import Ledger
from ..release.measurements import Measurements, entered
from ..release.release import Release
from ..release.source import Source
from .declarations import Bounds, Formulas, Totals, Weight
from .edits import RULES_TEXT
from .strict_request import StrictRequest, check_values, strict_request
from .synthetic_design import NEAR, ignored_groups_text, public_columns, roles_of

Floats = NDArray[np.float64]

NOISES = 6  # a difference is reported if larger than this many standard deviations of the noise, which has long tails
M = 20  # default number of data sets
PUBLIC = (
    "the predictors, the design columns in the files and the number of records of every cell are public; the columns "
    "in the files are: {}"
)
SCHEMA = "what is declared of {!r} is public: {}"
UNITS = (
    "the numbers of records that the units of {!r} have, and where, are public; a unit counts for {} records at most, "
    "and the records of larger ones for a part of one each"
)
EARLIER = (
    "the noisy tables of an earlier year, in measurements.json; epsilon is that of people who are in both files: {:g} "
    "of this year's tables, and {:g} of those"
)
WEIGHTS = "weights lie between {:g} and {:g} times the mean weight N / n, or count as if they did"


def measure(
    design: SurveyDesign,
    formula: Formulas,
    *,
    epsilon: float,
    delta: float | None = None,
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
    edits: Sequence[str] | str | None = None,
    earlier: Measurements | Release | None = None,
    ledger: Ledger | None = None,
    scheduler: str | None = None,
    seed: int | None = None,
) -> Measurements:
    """Make noisy tables: count the records of a confidential file by outcomes and public columns, and add noise.

    Releases are drawn from the noisy tables alone, so this is the only step that reads confidential values.

    Source: McKenna, Miklau & Sheldon (2021) for releases from measured tables.  The noise is OpenDP's integer Laplace
    or Gaussian mechanism, and OpenDP's composition gives the total epsilon.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    formula : str, FBS or FBP, or list of str
        ``"income ~ region + sex"`` has one outcome, and public predictors that are categories or numbers.  Each
        predictor, and each product such as ``region:sex``, has its own table.  A formula alone stands for
        :class:`surveysynth.FBS`; with :class:`surveysynth.FBP` the synthetic weights are expected weights given the
        other columns.  A list has a formula for each outcome, in sequence.  A later formula can have earlier outcomes
        among its predictors: ``["job ~ sex", "income ~ sex + job"]``.  In a formula with several outcomes,
        ``"job + income ~ sex"``, each outcome depends on the outcomes before it.  ``"income ~ ."`` takes all columns of
        ``public=`` and all earlier outcomes as predictors, except columns whose tables would have too much noise.  The
        model of the weight has all predictors and all outcomes.
    epsilon : float
        Privacy budget.  It is for neighbouring files in one of which the outcomes and the weight of one record, or of
        the records of one ``unit``, are blanked.  For files in which these values are replaced by others, twice this
        epsilon holds under Laplace noise; under Gaussian noise the report has the epsilon for replacing.
    delta : float, optional
        The delta of (epsilon, delta)-differential privacy, such as 1e-10.  The noise is then Gaussian, which is smaller
        than Laplace noise if there are more than approximately 20 tables, as for three or more outcomes.
    population_total : float, or mapping of stratum to float
        Public number of population units, to which weights (also public weights) add up.
    population_totals : mapping of term to mapping of level to float, optional
        Public population totals of the levels of predictors, ``{"region": {"north": 812_000, ...}}``.  Estimated counts
        of these domains then equal the totals.  The default is the totals to which the design's weights were
        calibrated, if these are whole numbers.
    bounds : (float, float), or mapping of outcome to such, optional
        Short form of ``outcomes={...: Outcome(bounds=...)}``.
    outcomes : mapping of outcome to Outcome, optional
        Public facts about the outcomes, such as bounds or levels.  The type of a pandas Categorical column declares its
        levels.
    weight : {"synthesize", "public"}
        "synthesize": weights are confidential and are synthesized.  "public": weights are published.
    weight_bounds : (float, float)
        Public bounds of a weight, as multiples of the mean weight.  A weight outside counts as a weight at the bound.
    clusters : {"model", "ignore"}
        "model": PSUs, and strata that the predictors do not determine, have effects in the model.  "ignore": they have
        none.
    unit : str, optional
        Column of the units that epsilon protects, if these are groups of records, such as households.  The column is
        published with other labels.
    public : list of str, optional
        Columns that may be published.  Predictors and design columns are published, so they are refused if they are not
        in this list.  ``~ .`` stands for these columns.
    importance : mapping of outcome to float, optional
        The noisy tables of an outcome get a share of epsilon in proportion to its importance, which is 1 by default.
    edits : list of str, optional
        Public rules that every synthetic record obeys, as conditions on columns of the files: ``"rent <= income"``.
        Synthetic records that break a rule are drawn again.
    earlier : Measurements or Release, optional
        Measurements of an earlier year by the same formulas.  The model is fitted to both years, and this year's
        effects are the effects of the earlier year plus a drift.  The report's epsilon is the sum over both years, for
        people who are in both files.
    ledger : Ledger, optional
        Ledger in which epsilon is entered before the noisy tables are used.
    scheduler : str, optional
        Address of a Dask cluster, ``"tcp://10.0.0.1:8786"``.  The workers read and count the outcomes of a design of
        :meth:`SurveyDesign.scan`, file by file.  The workers must find the files at the same paths as this process.
    seed : int, optional
        Seed for tests.  Whoever knows the seed can remove the noise, so seeded results must not be published.

    Returns
    -------
    Measurements
        Noisy tables, from which any number of releases can be drawn.

    Raises
    ------
    InputError
        The file contradicts the declarations.  A predictor has missing values, or is of a type by which records cannot
        be counted.  A declaration or the population total is missing, or totals contradict each other.  A rule names a
        column that the files do not have.  A rule is about public columns alone, and some records break it: public
        columns cannot be drawn again.
    PrivacyError
        Epsilon would exceed the ledger's cap.  Nothing was measured.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> measured = ss.measure(design, "salary ~ gender", epsilon=5, population_total=100_000, bounds=(0, 1_000_000))
    >>> measured.table().columns.tolist()
    ['variable', 'by', 'level', 'kind', 'cell', 'count', 'noise_sd']
    """
    asked = strict_request(
        design, formula, epsilon=epsilon, delta=delta, population_total=population_total,
        population_totals=population_totals, bounds=bounds, outcomes=outcomes, weight=weight,
        weight_bounds=weight_bounds, clusters=clusters, unit=unit, public=public, importance=importance, edits=edits,
        earlier=earlier, ledger=ledger, seed=seed,
    )  # fmt: skip
    return measured(asked, float(epsilon), scheduler=scheduler, ledger=ledger, seed=seed)


def measured(
    asked: StrictRequest, epsilon: float, *, scheduler: str | None = None, ledger: Ledger | None = None,
    seed: int | None = None,
) -> Measurements:  # fmt: skip
    """Make the noisy tables of :func:`measure` from arguments that were checked."""
    design, model, unit, delta = asked.design, asked.model, asked.unit, asked.delta
    try:
        noisy = measure_design(
            design, asked.questions, model.predictors, asked.terms, epsilon=epsilon, delta=delta,
            population_total=asked.population_total, population_totals=asked.population_totals,
            weight_bounds=asked.weight_bounds, public_weight=asked.public_weight, unit=unit, scheduler=scheduler,
            rng=None if seed is None else np.random.default_rng(seed),
        )  # fmt: skip
    except InputError as error:  # an outcome contradicts its declaration; other outcomes may do so, too
        wrong = Obstacles([error])
        check_values(design, model, asked.schema, wrong)
        wrong.refuse()
        raise
    if (far := _far(noisy)) is not None:
        warnings.warn(far, stacklevel=3)
    notes = _notes(noisy, public_columns(design, model, unit), asked)
    notes += [*asked.notes, *(ignored_groups_text(design, model) if asked.clusters == "ignore" else [])]
    year = asked.year
    past = None if year is None else aligned_tables(year.tables, noisy)
    before = () if year is None else (year.expense, *year.spent_before)
    notes += [] if year is None else [EARLIER.format(epsilon, sum(each.blank or 0.0 for each in before))]
    what = f"noisy tables of {', '.join(asked.schema)}" + ("" if delta is None else f", delta = {delta:.3g}")
    expense = Expense(what, epsilon, 2 * epsilon if delta is None else noisy.epsilons[1], new_id())
    predictors = tuple(c for c in public_columns(design, model) if c in model.predictor_columns)
    source = Source(
        noisy, _weighted(asked.public, asked.population_total), predictors,
        "FBP" if isinstance(model, FBP) else "FBS", epsilon, tuple(notes), expense, edits=asked.rules, earlier=past,
        spent_before=before, delta_before=0.0 if year is None else year.delta,
        labels=roles_of(design, model.outcomes, asked.public.frame, None)["labels"],
        publishable=seed is None and (year is None or year.publishable),
    )  # fmt: skip
    return Measurements(source if ledger is None else entered(source, ledger))


def _notes(noisy: NoisyTables, columns: Sequence[str], asked: StrictRequest) -> list[str]:
    return [
        PUBLIC.format(", ".join(columns)),
        *([] if noisy.unit is None else [UNITS.format(noisy.unit, noisy.most)]),
        *(SCHEMA.format(name, outcome.text) for name, outcome in asked.schema.items()),
        *([] if noisy.weight is None else [WEIGHTS.format(*asked.weight_bounds), "the population total is public"]),
        *([RULES_TEXT.format("; ".join(asked.rules))] if asked.rules else []),
    ]


def _far(noisy: NoisyTables) -> str | None:
    """Return a warning if the declared population total is far from the total that the noisy weights add up to.

    Far means that one total is less than 2/3 of the other, and that noise does not explain this.  Otherwise return
    None.
    """
    if noisy.weight is None or noisy.weight.cells.bins is None:
        return None
    histogram, means = noisy.weight.tables[0], noisy.weight.cells.bins.means
    value = np.bincount(histogram.groups, means) / np.bincount(histogram.groups)
    total, sd = value @ histogram.sums[0], np.sqrt(histogram.variance * (value @ value))
    if noisy.unit is not None:  # a record of a large unit counts as a part of a record
        scale = noisy.n / max(histogram.sums.sum(), 1.0)
        total, sd = total * scale, sd * scale
    N = noisy.population_total
    if abs(total - N) < NOISES * sd or NEAR <= N / max(total, 1e-9 * N) <= 1 / NEAR:
        return None
    return (
        "population_total is far from what the survey weights add up to, by their noisy counts (more than a third): "
        "are both right? Weights that were scaled to the sample have to be scaled to the population first"
    )


def _weighted(public: SurveyDesign, total: float) -> SurveyDesign:
    """Return the public design with weights that add up to the population total."""
    weights = public.weights * (total / public.weights.sum())
    return SurveyDesign(public.frame.assign(**{str(public.weights_name): weights}), **public.roles())
