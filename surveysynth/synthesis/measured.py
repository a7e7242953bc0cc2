"""The door to strict releases: checks of what is given, and the noisy tables that they are drawn from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.columns import check_cells
from ..design.conditions import columns_of_condition, obeyed
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError, ModelError
from ..estimation.tables import OWN
from ..expenses import Expense, new_id
from ..measuring.bins import Cells, refuse_dates
from ..measuring.earlier_years import aligned_tables
from ..measuring.measure import WEIGHT_BOUNDS, Question, measure_design
from ..measuring.noisy_tables import NoisyTables
from ..measuring.outcome import Outcome
from ..measuring.terms import RightHandSide, Term, columns_of_terms, split_terms, term_names, terms_of
from ..models.base import Synthesizer
from ..models.normal.fbp import FBP
from ..models.normal.fbs import FBS
from ..models.scales.transforms import LogTransform
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..privacy.mechanisms.strict import check_delta
from ..release.measurements import Measurements, entered
from ..release.release import Release
from ..release.source import Source
from ..validation import check_seed, interval_of, one_of, positive, rows
from .all_columns import written_out
from .edits import HELD, check_rules
from .levels import check_levels, levels_by_type, undeclared
from .synthetic_design import NEAR, check_enough, check_public, public_columns, public_frame, roles_of, said_of_ignored

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Weight = Literal["synthesize", "public"]
Totals = Mapping[str, Mapping[Any, float]]
Formulas = str | FBS | FBP | Sequence[str]

NOISES = 6  # standard deviations of noise, which has long tails, beyond which something is told
TRIED = 100  # made-up records on which rules are evaluated beforehand
M = 20  # data sets, where nothing is said
SCHEMA_ENTRIES = (  # not of fits to records
    "outcomes", "population_totals", "weight", "weight_bounds", "importance", "earlier", "bounds", "scheduler",
)  # fmt: skip
TAKEN = {
    *SCHEMA_ENTRIES, "edits", "population_total", "public", "seed", "levels", "mechanism", "clusters", "unit",
}  # fmt: skip
NO_DESIGN = "the first argument is a SurveyDesign: SurveyDesign(frame, weights=...)"
RECORDS = "Records are fitted under mechanism=PseudoPosterior(), whose guarantee is asymptotic, or Censored()"
PLAIN = {"engine": "auto", "clusters": "model", "chains": 4, "tolerance": 0.01}  # what fit() has by default
AGREE = 1e-3  # share by which totals of levels may differ in sum from the population total
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
    """Count a confidential file by public columns, and add noise: the one step that reads its values.

    Source: McKenna, Miklau & Sheldon (2021) for releases from measured tables; the noise is OpenDP's integer Laplace
    or Gaussian mechanism, and the total its own composition.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    formula : str, FBS or FBP, or list of str
        ``"income ~ region + sex"``: one outcome, and public predictors, categories or numbers; ``region:sex`` is a
        table of its own.  FBP gives files expected weights.  A list has a formula for each outcome, in sequence: a
        later one can have earlier outcomes among its predictors, ``["job ~ sex", "income ~ sex + job"]``; the outcomes
        of one formula, ``"job + income ~ sex"``, each depend on those before them.  ``"income ~ ."`` takes all columns
        of ``public=`` and all outcomes before, but those whose tables noise would drown.  The weight depends on all.
    epsilon : float
        What the file spends, on a record (or a unit of several) whose outcome and weight are blanked; twice that for
        one with other values.
    delta : float, optional
        Probability up to which epsilon holds, 1e-10 say: noise is Gaussian then, which is smaller than Laplace noise
        where there are more than about 20 tables, that is for three outcomes or more.
    population_total : float, or mapping of stratum to float
        Public number of population units: weights add up to it, public ones, too, where it is given.
    population_totals : mapping of term to mapping of level to float, optional
        Public totals of the levels of predictors, ``{"region": {"north": 812_000, ...}}``: domain counts are then
        exact.
    bounds : (float, float), or mapping of outcome to such, optional
        Short for ``outcomes={...: Outcome(bounds=...)}``.
    outcomes : mapping of outcome to Outcome, optional
        What is public of the outcome.  A categorical column declares its own levels.
    weight : {"synthesize", "public"}
        Whether weights are confidential.
    weight_bounds : (float, float)
        Public bounds of a weight, in units of the mean weight; weights beyond count as if at the bound.
    clusters : {"model", "ignore"}
        Whether PSUs, and strata that the predictors do not determine, have effects.
    unit : str, optional
        Column of the units that epsilon protects, where these are groups of records: households, say.  Its labels are
        recoded and published.
    public : list of str, optional
        Columns that may be published: others are refused.  ``~ .`` stands for them.
    importance : mapping of outcome to float, optional
        By what the epsilon of an outcome's tables is multiplied, in relation to others: 1 where nothing is said.
    edits : list of str, optional
        Public rules that every synthetic record obeys, conditions on columns of the files: ``"rent <= income"``.
        Answers that break one are drawn again.
    earlier : Measurements or Release, optional
        Those of an earlier year, by the same formulas: the model is fitted to both years, effects of this year being
        those of that year and a drift.  The report's epsilon is that of people who are in both files: the sum.
    scheduler : str, optional
        Address of a Dask cluster, ``"tcp://10.0.0.1:8786"``: its workers read and count the outcomes of a design by
        :meth:`SurveyDesign.scan`, file by file, and see its files where this process does.
    ledger : Ledger, optional
        Charged before anything else is done with the noisy tables.
    seed : int, optional
        For tests: who knows it can take the noise away, so nothing that is made with it may be published.

    Returns
    -------
    Measurements
        From which releases are drawn, as often as one likes.

    Raises
    ------
    InputError
        The file contradicts its schema; a predictor that is missing or is not counted by; no schema, no population
        total, or totals that contradict each other; a rule that names other columns, or none that it is about.
    PrivacyError
        The ledger's cap leaves less than epsilon; nothing was measured.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> measured = ss.measure(design, "salary ~ gender", epsilon=5, population_total=100_000, bounds=(0, 1_000_000))
    >>> measured.table().columns.tolist()
    ['variable', 'by', 'level', 'kind', 'cell', 'count', 'noise_sd']
    """
    epsilon = positive(epsilon, "epsilon")
    check_delta(delta)
    model, asked = in_sequence(written_out(design, formula, public, epsilon, delta, outcomes))
    one_of(weight, get_args(Weight), "weight")
    one_of(clusters, get_args(Clusters), "clusters")
    weight_bounds = interval_of(weight_bounds, "weight_bounds")
    if not 0 <= weight_bounds[0] < 1 < weight_bounds[1]:
        raise InputError("weight_bounds are in mean weights, so 1 lies between them, and none is negative")
    check_seed(seed)
    check_ledger(ledger)
    schema = schema_of(design, model, bounds, outcomes)
    check_unit(design, model.outcomes, unit)
    times = _importance(importance, model.outcomes)
    check_public(design, model, public, unit)
    rules = _rules(design, model, unit, schema, edits)
    design, _, notes = to_synthesize(design)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    like = _public(design, model, seed, unit, weighted=weight == "public")
    _try_rules(like.frame, schema, rules)
    terms = terms_of(like, model.predictors, clusters == "model", unit)
    total, totals = public_totals(design, terms, population_total, population_totals, public_weight=weight == "public")
    if ledger is not None:
        ledger.check(epsilon)
    others = {term.name for term in terms if not term.drawn} - {*term_names(model.predictors)}  # the size of units
    called = {frozenset(term.columns): term.name for term in terms}  # a:b is b:a
    questions = [
        Question(
            name, schema[name], (*(called[frozenset(columns)] for columns in columns_of_terms(of.public)), *others),
            of.earlier, tuple((called[frozenset(columns)], before) for columns, before in of.products),
            times.get(name, 1.0),
        ) for name, of in asked.items()
    ]  # fmt: skip
    noisy = measure_design(
        design, questions, model.predictors, terms, epsilon=epsilon, delta=delta, population_total=total,
        population_totals=totals, weight_bounds=weight_bounds, public_weight=weight == "public", unit=unit,
        scheduler=scheduler, rng=None if seed is None else np.random.default_rng(seed),
    )  # fmt: skip
    if (far := _far(noisy)) is not None:
        warnings.warn(far, stacklevel=2)
    said = _said(noisy, public_columns(design, model, unit), schema, weight_bounds, rules)
    said += [*notes, *(said_of_ignored(design, model) if clusters == "ignore" else [])]
    year = of_an_earlier_year(earlier)
    past = None if year is None else aligned_tables(year.tables, noisy)
    before = () if year is None else (year.expense, *year.spent_before)
    said += [] if year is None else [EARLIER.format(epsilon, sum(each.blank or 0.0 for each in before))]
    what = f"noisy tables of {', '.join(schema)}" + ("" if delta is None else f", delta = {delta:.3g}")
    expense = Expense(what, epsilon, 2 * epsilon if delta is None else noisy.epsilons[1], new_id())
    predictors = tuple(c for c in public_columns(design, model) if c in model.predictor_columns)
    source = Source(
        noisy, _weighted(like, total), predictors, "FBP" if isinstance(model, FBP) else "FBS", epsilon,
        tuple(said), expense, edits=rules, earlier=past, spent_before=before,
        delta_before=0.0 if year is None else year.delta,
        labels=roles_of(design, model.outcomes, like.frame, None)["labels"],
        publishable=seed is None and (year is None or year.publishable),
    )  # fmt: skip
    return Measurements(source if ledger is None else entered(source, ledger))


def _said(
    noisy: NoisyTables, columns: Sequence[str], schema: Mapping[str, Outcome], weight_bounds: tuple[float, float],
    rules: Sequence[str],
) -> list[str]:  # fmt: skip
    """What the report says of columns, units, outcomes, weights and rules that are public."""
    return [
        PUBLIC.format(", ".join(columns)),
        *([] if noisy.unit is None else [UNITS.format(noisy.unit, noisy.most)]),
        *(SCHEMA.format(name, outcome.text) for name, outcome in schema.items()),
        *([] if noisy.weight is None else [WEIGHTS.format(*weight_bounds), "the population total is public"]),
        *([HELD.format("; ".join(rules))] if rules else []),
    ]


def of_an_earlier_year(given: Measurements | Release | None) -> Source | None:
    """What was measured in an earlier year (InputError: no measurements)."""
    if given is None:
        return None
    source = given.source if isinstance(given, Measurements) else getattr(given, "measured", None)
    if source is None:
        raise InputError("earlier= takes measurements, or a release that was drawn from such")
    return source


def _importance(given: Mapping[str, float] | None, outcomes: Sequence[str]) -> dict[str, float]:
    """How much each outcome matters (InputError: other columns, or no positive number)."""
    found = _mapping(given, "importance", "{outcome: number}")
    if others := [name for name in found if name not in outcomes]:
        raise InputError(f"importance= names {', '.join(map(repr, others))}: no outcome of this release")
    return {name: positive(value, f"importance of {name!r}") for name, value in found.items()}


def _rules(
    design: SurveyDesign, model: FBS | FBP, unit: str | None, schema: Mapping[str, Outcome],
    edits: Sequence[str] | str | None,
) -> tuple[str, ...]:  # fmt: skip
    """Edit rules, if they and those of who is asked are conditions on columns that files have (InputError)."""
    known = [*public_columns(design, model, unit)]
    for name, outcome in schema.items():
        check_rules(outcome.applies, known, f"{name}: applies")
        known.append(name)
    return tuple(check_rules(edits, known))


def _try_rules(public: pd.DataFrame, schema: Mapping[str, Outcome], rules: Sequence[str]) -> None:
    """Evaluate all rules on made-up answers, before anything is measured (InputError: texts compared with numbers)."""
    rng = np.random.default_rng(0)
    frame = public.head(TRIED)
    for name, outcome in schema.items():
        cells = Cells.for_outcome(outcome)
        cells.asked(frame)
        frame = frame.assign(**{name: cells.values(rng.integers(0, len(cells), len(frame)), rng).array})
    obeyed(rules, frame)
    for rule in rules:
        if columns_of_condition(rule, "edits").isdisjoint(schema) and (broken := ~obeyed([rule], public)).any():
            raise InputError(
                f"edits: {rule!r} is about public columns alone, which stay as they are, and {rows(broken)} break it"
            )


@dataclass(frozen=True)
class Strictly:
    """The arguments of :func:`measure` beside the design and its epsilon."""

    model: FBS | FBP | list[str]
    settings: dict[str, Any]


def strictly(model: object, given: Mapping[str, Any]) -> Strictly:
    """What to measure for a strict release, from the arguments of ``synthesize``.

    Raises
    ------
    InputError
        Arguments that only fits to records have.
    ModelError
        Another model than FBS and FBP, or one with options that only fits to records have.
    """
    said = {name: value for name, value in given.items() if not (_is_nothing(value) or _is_plain(name, value))}
    mechanism = said.pop("mechanism", None)
    if others := sorted({*said} - TAKEN):
        raise InputError(f"{', '.join(others)}: only where records are fitted. {RECORDS}")
    levels = said.pop("levels", None)
    settings = said | ({} if mechanism is None or mechanism.delta is None else {"delta": mechanism.delta})
    if isinstance(model, str):
        model = [model]
    if isinstance(model, list | tuple) and model and all(isinstance(one, str) for one in model):
        return Strictly([*model], _with_levels(settings, levels, in_sequence(model)[0].outcomes))
    if isinstance(model, list | tuple):
        raise InputError(f"under Strict() a list is one of formulas: ['job ~ sex', 'income ~ sex + job']. {RECORDS}")
    if not isinstance(model, FBS | FBP):
        name = model.name if isinstance(model, Synthesizer) else type(model).__name__
        raise ModelError(
            f"{name} is a model of records, and Strict() counts them: give the formula, 'income ~ region', and what "
            f"kind each outcome is, outcomes={{'income': Outcome(...)}}. {RECORDS}"
        )
    if len(model.outcomes) > 1 and isinstance(model, FBP):
        raise ModelError("FBP synthesizes one outcome under Strict(): give FBS, or the formula")
    bare = type(model)(model.outcome, model.predictors)
    transform = "log" if isinstance(model.transform, LogTransform) else model.transform
    if replace(model, weight=None, transform=transform) != bare:
        raise ModelError(
            f"under Strict() {model.name} has a formula, and weight='public', but no other options: its prior and "
            f"scale are those of noisy tables. {RECORDS}"
        )
    public = {} if model.weight is None else {"weight": "public"}
    return Strictly(bare, _with_levels(settings | public, levels, model.outcomes))


def _with_levels(settings: dict[str, Any], levels: Any, outcomes: Sequence[str]) -> dict[str, Any]:
    """With an Outcome for each list of levels."""
    found = {name: Outcome(levels=own) for name, own in check_levels(levels, outcomes).items()}
    return settings | ({"outcomes": found | dict(settings.get("outcomes", {}))} if found else {})


def refuse_schema(settings: Mapping[str, Any]) -> None:
    """Refuse what only measurements have, where records are fitted (InputError)."""
    given = [name for name in SCHEMA_ENTRIES if not _is_nothing(settings.get(name))]
    if given:
        raise InputError(
            f"{', '.join(given)}: only for strict releases, which are drawn from noisy tables; records are fitted here"
        )


def _is_plain(name: str, value: Any) -> bool:
    return isinstance(value, str | int | float) and PLAIN.get(name) == value


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, int | str | tuple | list) and not value)


def in_sequence(formula: Formulas) -> tuple[FBS | FBP, dict[str, RightHandSide]]:
    """One model of all outcomes, and what each depends on.

    Raises
    ------
    InputError
        Another model; an outcome of two formulas; a product of two earlier outcomes.
    """
    if isinstance(formula, list | tuple) and formula and all(isinstance(one, str) for one in formula):
        models: list[FBS | FBP] = [FBS(one) for one in formula]
    elif isinstance(formula, str | FBS | FBP):
        models = [FBS(formula) if isinstance(formula, str) else formula]
    else:
        raise InputError(
            "a strict release takes a formula, a list of formulas, FBS(...) or FBP(...): the schema says the kind of "
            "outcome"
        )
    found: dict[str, RightHandSide] = {}
    for model in models:
        of = split_terms(model.predictors, found)
        for k, name in enumerate(model.outcomes):
            if name in found:
                raise InputError(f"{name!r} is the outcome of two formulas")
            before = (each for each in model.outcomes[:k] if each not in of.earlier)
            found[name] = replace(of, earlier=(*of.earlier, *before))
    if len(found) == 1:
        return models[0], found
    categories = {name for model in models for name in model.categorical}
    names = [f"`{name}`" if not name.isidentifier() else name for name in found]
    names = [f"C({each})" if name in categories else each for name, each in zip(found, names, strict=True)]
    predictors = " + ".join(dict.fromkeys(of.public for of in found.values() if of.public != "1")) or "1"
    return FBS(f"{' + '.join(names)} ~ {predictors}"), found


def schema_of(
    design: SurveyDesign, model: FBS | FBP, bounds: Bounds | None, outcomes: Mapping[str, Outcome] | None
) -> dict[str, Outcome]:
    """What is declared of each outcome (InputError: nothing, or of other columns)."""
    if not isinstance(design, SurveyDesign):
        raise InputError(NO_DESIGN)
    names, given = model.outcomes, _mapping(outcomes, "outcomes", "{outcome: Outcome(...)}")
    if isinstance(bounds, Mapping):
        given |= {outcome: Outcome(bounds=pair) for outcome, pair in bounds.items()}
    elif bounds is not None:
        left = undeclared(design, [name for name in names if name not in given])
        left = [name for name in left if name not in model.categorical] or left
        numbers = [name for name in left if pd.api.types.is_numeric_dtype(design.typed(name).dtype)] or left
        if not numbers:
            raise InputError("bounds= is for an outcome that is a number and is not declared otherwise: leave it out")
        if len(numbers) > 1:
            raise InputError(
                f"bounds= of {len(numbers)} outcomes: write outcomes={{{numbers[0]!r}: Outcome(bounds=...), ...}}"
            )
        given[numbers[0]] = Outcome(bounds=bounds)
    others = [outcome for outcome in given if outcome not in names]
    if others:
        outcome = "the outcome is" if len(names) == 1 else "the outcomes are"
        raise InputError(
            f"outcomes= and bounds= name {', '.join(map(repr, others))}, and {outcome} {', '.join(map(repr, names))}"
        )
    return {name: _declared(design, name, given) for name in names}


def _declared(design: SurveyDesign, name: str, given: Mapping[str, Outcome]) -> Outcome:
    """What is declared of one outcome: by the caller, or by the type of its column."""
    column = design.typed(name)
    if name in OWN:
        raise InputError(f"{name}: tables have a column of that name; rename it")
    if name in given:
        if not isinstance(given[name], Outcome):
            raise InputError(f"outcomes= gives {name!r} no Outcome: write Outcome(bounds=...) or Outcome(levels=...)")
        return given[name]
    if design.declares_levels(name):
        return Outcome(levels=levels_by_type(design, name))
    refuse_dates(column, name)
    raise InputError(f"say {_how_to_declare(column, name)}")


def _how_to_declare(column: pd.Series, name: str) -> str:
    """What to say of an outcome of which nothing is declared."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return (
            f"the public bounds of {name!r}, bounds=(lowest, highest), from what is known of such amounts and not from "
            "this file"
        )
    return f"the levels of {name!r}, outcomes={{{name!r}: Outcome(levels=[...])}}"


def how_to_declare_all(design: SurveyDesign, outcomes: Sequence[str]) -> list[str]:
    """What to say of those outcomes whose columns do not declare themselves."""
    return [_how_to_declare(design.typed(name), name) for name in undeclared(design, outcomes)]


def check_unit(design: SurveyDesign, outcomes: Sequence[str], unit: str | None) -> None:
    """Refuse what names no column of units (InputError)."""
    if unit is None:
        return
    if not isinstance(unit, str):
        raise InputError("unit must be the name of one column: that of households, say")
    check_cells(design.column(unit), unit)
    if unit in (*outcomes, design.weights_name, design.probs_name):
        raise InputError(f"unit {unit!r} is an outcome or a weight: a unit is a column of labels that stays as it is")


def public_totals(
    design: SurveyDesign, terms: Sequence[Term], total: float | Mapping[Any, float] | None, totals: Totals | None, *,
    public_weight: bool,
) -> tuple[float, dict[str, Floats]]:  # fmt: skip
    """The population total, and those of levels."""
    given = _mapping(totals, "population_totals", "{term: {level: total}}")
    if isinstance(total, Mapping):
        if design.strata_name is None:
            raise InputError("population_total gives totals by stratum, but the design has no strata")
        strata = (design.strata_name,)
        name = next((term.name for term in terms if term.columns == strata), design.strata_name)
        given, total = given | {name: total}, None
    by_name = {term.name: term for term in terms}
    known = {name: _of_levels(by_name, name, each) for name, each in given.items()}
    if public_weight and known:
        raise InputError("totals of levels have no effect where weights are public, which add up to what they do")
    if public_weight:
        return float(design.weights.sum()) if total is None else check_enough(total, design.n), {}
    if total is None and not known:
        raise InputError("say population_total=, the public number of population units, or weight='public'")
    everybody = check_enough(next(iter(known.values())).sum() if total is None else total, design.n)
    apart = [name for name, each in known.items() if abs(each.sum() / everybody - 1) > AGREE]
    if apart:
        raise InputError(f"population_totals of {', '.join(map(repr, apart))} do not add up to the population total")
    return everybody, {name: each * (everybody / each.sum()) for name, each in known.items()}


def _mapping(given: Any, name: str, form: str) -> dict[Any, Any]:
    if not isinstance(given, Mapping | None):
        raise InputError(f"{name} must be a mapping, {form}")
    return dict(given or {})


def _of_levels(terms: Mapping[str, Term], name: str, given: Mapping[Any, float]) -> Floats:
    """Totals in the order of the levels of a term."""
    if name not in terms:
        raise InputError(f"population_totals: {name!r} is no term of the formula ({', '.join(terms) or 'it has none'})")
    if not isinstance(given, Mapping):
        raise InputError(f"population_totals of {name!r} must give one total for each level: {{level: total}}")
    keys = {(tuple(map(str, key)) if isinstance(key, tuple) else (str(key),)): value for key, value in given.items()}
    labels = terms[name].labels
    if set(keys) != set(labels):
        raise InputError(
            f"population_totals of {name!r} must give one total for each of its {len(labels)} levels, by their labels, "
            "and for nothing else"
        )
    return np.array([positive(keys[label], f"population_totals of {name!r}") for label in labels])


def _far(noisy: NoisyTables) -> str | None:
    """A warning where noisy counts of weights contradict the population total, beyond their noise."""
    if noisy.weight is None or noisy.weight.cells.bins is None:
        return None
    histogram, means = noisy.weight.tables[0], noisy.weight.cells.bins.means
    value = np.bincount(histogram.groups, means) / np.bincount(histogram.groups)
    total, sd = value @ histogram.sums[0], np.sqrt(histogram.variance * (value @ value))
    if noisy.unit is not None:  # records of large units count for a part
        all_of = noisy.n / max(histogram.sums.sum(), 1.0)
        total, sd = total * all_of, sd * all_of
    N = noisy.population_total
    if abs(total - N) < NOISES * sd or NEAR <= N / max(total, 1e-9 * N) <= 1 / NEAR:
        return None
    return (
        "population_total is far from what the survey weights add up to, by their noisy counts (more than a third): "
        "are both right? Weights that were scaled to the sample have to be scaled to the population first"
    )


def _public(
    design: SurveyDesign, model: FBS | FBP, seed: int | None, unit: str | None, *, weighted: bool
) -> SurveyDesign:  # fmt: skip
    """The public columns with the design's roles; weights that are not public are all the same until they are drawn."""
    frame = public_frame(design, model, np.random.default_rng(seed), unit)
    roles = roles_of(design, model.outcomes, frame, None)
    weights = design.weights if weighted else np.ones(design.n)
    frame = frame.assign(**{roles["weights"]: weights})
    labels = {name: text for name, text in roles["labels"].items() if name in frame.columns}
    return SurveyDesign(frame, **roles | {"labels": labels})


def _weighted(public: SurveyDesign, total: float) -> SurveyDesign:
    """With weights that add up to the population total."""
    weights = public.weights * (total / public.weights.sum())
    return SurveyDesign(public.frame.assign(**{str(public.weights_name): weights}), **public.roles())
