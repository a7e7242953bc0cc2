"""What to expect of a plan: from public facts, and, for the agency alone, from a look inside the file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kurtosis, norm, rankdata, skew, spearmanr

from ..design.discrete import is_label
from ..design.formula import PLAIN, factors_of
from ..design.missing_codes import without_marks
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..estimation import estimate
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.predictors.model_matrix import numeric_predictors, predictor_rows
from ..models.scales.transforms import as_transform
from ..models.sequential import Sequential
from ..privacy.mechanisms import Mechanism, RecordMechanism
from ..privacy.mechanisms.base import LEAST_INFORMATION
from ..privacy.units import unit_of
from ..publication.footnotes import protected, unprotected
from ..synthesis.measured import M
from ..synthesis.missing import without_missing
from ..synthesis.synthetic_design import check_total, public_columns, public_mean_weight
from ..validation import as_list
from .arguments import by_of, print_of
from .expected_errors import WORTH_LITTLE, expected_errors
from .privacy_cost import PrivacyCost, privacy_cost
from .public_facts import PublicFacts
from .settings import Settings
from .strict import epsilon_before, expected_arguments
from .toml_file import key

Floats = NDArray[np.float64]

FEW, FEW_CELLS = 10, 30  # records of a cell: estimates are hardly any; intervals rest on the model
NAMED = 5  # levels that a warning names
ATOM, SKEWED, TAILED, RELATED = 0.05, 0.5, 3.0, 3.0  # share of one value; of residuals; t of a rank correlation
CODES, ONCE = 20, 0.9  # whole numbers of so few values, or of so many values a record, may be codes
WIDTH = 112
HINTS = {  # where records are fitted
    "missing": "say missing = 'drop' in [model]",
    "zero": "a strict release keeps them, with zeros = true in [outcomes]",
    "atom": "a scale smooths heaps away; a strict release keeps them, with heaps = [...] in [outcomes]",
    "shape": "normal scores of an earlier file, transform = 'scores.json', or a predictor more may take them away",
}
NO_FORMULA = "no public formula for this mechanism: check --inside, or surveysynth privacy-cost, looks at the file"
SECONDS = "some seconds; about a minute for a dozen outcomes"
ZEROS = "{} include 0: if many amounts are exactly 0, declare zeros = true in {}; else say false"
HINTS_FOR_TABLES = {  # where releases are drawn from noisy tables
    "missing": "say missing = 'category' in [outcomes.{}], or the file is refused",
    "zero": "declare zeros = true in [outcomes.{}]", "atom": "declare them as heaps = [...] in [outcomes.{}]",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Preview:
    """What is to be expected of a release, before anything is spent.

    Attributes
    ----------
    said : dict of str to list of str
        Sentences, by heading.
    warnings : list of str
        What to look at before the release, and what to do about it.
    expected : pandas.DataFrame
        One row a cell of the tables: its ``records`` (public), and ``se_ratio``, the expected standard error of a mean
        over the file's own (NaN where no public formula has it).
    inside : list of str
        What a look at the confidential values says: for the agency alone.
    """

    said: dict[str, list[str]]
    warnings: list[str]
    expected: pd.DataFrame
    inside: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = self.said | {"Warnings": self.warnings or ["none"]}
        if self.inside:
            parts["Inside"] = ["for the agency alone: this was computed from confidential values", *self.inside]
        width = max(map(len, parts)) + 2
        out = []
        for heading, sentences in parts.items():
            for number, sentence in enumerate(sentences):
                first = f"{heading if number == 0 else '':<{width}}"
                out.append(textwrap.fill(
                    sentence, WIDTH, initial_indent=first, subsequent_indent=" " * width, break_on_hyphens=False
                ))  # fmt: skip
        return "\n".join(out)

    __repr__ = __str__


def preview(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, folder: Path,
    reasons: Mapping[str, str], *, inside: bool,
) -> Preview:  # fmt: skip
    """As :meth:`Plan.check` says."""
    design = facts.design
    # what is synthesized is confidential: how many records have each of its levels is not said
    by = [name for name in by_of(settings, model) or [] if name not in model.outcomes]
    tables, before, given = None, 0.0, dict[str, Any]()
    if not mechanism.fits_records:
        before = epsilon_before(settings, folder)
        given = expected_arguments(settings, design)
        tables = expected_errors(design, **given, by=by, m=settings.release.m or M)
    ratio = None if tables is None else _typical(tables)
    schema = given.get("outcomes", {})
    cells = facts.cells(by).assign(se_ratio=np.nan if ratio is None else ratio)
    if tables is not None:
        cells = _with_ratios(cells, tables, by)
    said = {
        "Survey": [str(facts)],
        "Model": [
            _model_text(settings, model) if tables is None else _noisy_tables_text(settings, given),
            *_predictors_text(facts, model),
        ],
        "Privacy": [_privacy_text(settings, mechanism, before)],
        "Public": [_public_text(settings, facts, model)],
        "Chosen": [f"{entry} = {settings[entry]}: {why.removeprefix('chosen. ')}" for entry, why in reasons.items()],
        "Expected": [NO_FORMULA] if tables is None else _accuracy_text(tables),
        "Page": _page_text(settings, facts, model, mechanism, folder, before),
        "Time": [_time_text(settings) if tables is None else SECONDS],
    }
    warnings = _warnings(settings, facts, model, mechanism, cells, schema)
    seen = _look_inside(settings, design, model, mechanism, by, ratio, schema) if inside else []
    return Preview({heading: lines for heading, lines in said.items() if lines}, warnings, cells, seen)


def _model_text(settings: Settings, model: Synthesizer) -> str:
    m = settings.model
    parts = [f"{model.name} of {', '.join(model.outcomes)} ({m.kind}), given {model.predictors}"]
    if isinstance(model, Sequential):
        later = [(each.name, each.formula) for each in settings.model.later_models]
        named = [f"{'' if name == m.name else name + ' of '}{formula}" for name, formula in later]
        parts = [f"in sequence, {m.name} of {'; '.join([str(m.formula), *named])}"]
    parts += [f"scale {m.transform}"] if m.transform else []
    parts += [f"weights {m.weight}"] if m.weight else []
    parts += ["zeros of their own"] if m.zeros else []
    return "; ".join(parts)


def _noisy_tables_text(settings: Settings, given: Mapping[str, Any]) -> str:
    formulas = given["formula"] if isinstance(given["formula"], list) else [settings.model.formula]
    parts = [f"{str(settings.model.name).upper()} from noisy tables: {'; '.join(map(str, formulas))}"]
    parts += [f"{name} is declared as {outcome.text}" for name, outcome in given["outcomes"].items()]
    return "; ".join([*parts, *(["weights public"] if settings.model.weight else [])])


def _predictors_text(facts: PublicFacts, model: Synthesizer) -> list[str]:
    """Which predictors are numbers and which are categories, as the formula takes them."""
    names = [name for name in model.predictor_columns if name not in model.outcomes]
    numbers = numeric_predictors(facts.design, model.predictors, model.outcomes)
    categories = [f"{name} ({(facts.levels(name) > 0).sum():,} levels)" for name in names if name not in numbers]
    parts = [f"numbers: {', '.join(numbers)}"] if numbers else []
    parts += [f"categories: {', '.join(categories)}"] if categories else []
    return [f"predictors that are {'; '.join(parts)}"] if parts else []


def _privacy_text(settings: Settings, mechanism: Mechanism, before: float) -> str:
    p = settings.privacy
    kind = "strict" if p.policy else mechanism.kind.replace("alpha", "the privacy weights")
    asked = f"epsilon = {p.epsilon:g}" if p.epsilon is not None else f"c1 = {p.c1:g}, whose epsilon the fit tells"
    of = f"one {p.unit}" if p.unit else "one record"
    by = f", by {p.policy}" if p.policy else ""
    how = p.mechanism if p.mechanism == kind else f"{p.mechanism} ({kind})"
    said = f"{how}, {asked} for {of}'s confidential values, m = {settings.release.m}{by}"
    said += f", delta = {p.delta:g}" if p.delta is not None else ""
    if before and p.epsilon is not None:
        said += f"; with the earlier year's tables {p.epsilon + before:g} for who is in both files"
    return said


def _public_text(settings: Settings, facts: PublicFacts, model: Synthesizer) -> str:
    design = facts.design
    kept = public_columns(design, model)
    recoded = [c for c in (design.strata_name, *design.psu_names) if c in kept and c not in model.predictor_columns]
    as_is = [c for c in kept if c not in recoded]
    parts = [f"published record by record as they are: {', '.join(as_is) or 'nothing'}"]
    parts += [f"with labels recoded: {', '.join(map(str, recoded))}"] if recoded else []
    parts.append(f"the number of records, {facts.n:,}")
    p = settings.privacy
    if isinstance(p.population_total, dict):
        parts.append("the population totals of the strata")
    elif p.population_total is not None:
        parts.append(f"the population total, {p.population_total:,.15g}")
    parts += [f"the bounds {_text(p.bounds)}"] if p.bounds else []
    parts += [f"population totals of the levels of {', '.join(p.population_totals)}"] if p.population_totals else []
    parts += [f"bounds of a weight, {_text(p.weight_bounds)} mean weights"] if p.weight_bounds else []
    parts += [f"{p.unit}, with other labels"] if p.unit else []
    parts += ["the survey weights"] if settings.model.weight == "public" else []
    return "; ".join(parts)


def _text(bounds: Any) -> str:
    if isinstance(bounds, dict):
        return "; ".join(f"{name} {_text(pair)}" for name, pair in bounds.items())
    return f"{bounds[0]:,.15g} to {bounds[1]:,.15g}"


def _typical(tables: pd.DataFrame) -> float:
    """The root mean square of the ratios of all cells but those of counts."""
    of_outcome = tables.loc[tables["statistic"] != "count", "ratio"]
    return float(np.sqrt((of_outcome**2).mean()))


def _with_ratios(cells: pd.DataFrame, tables: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Cells with the ratio of their mean, or of their shares."""
    of_outcome = tables[tables["statistic"] != "count"]
    if not by:
        return cells.assign(se_ratio=_typical(tables))
    ratios = (of_outcome["ratio"] ** 2).groupby([of_outcome[name].astype(str) for name in by]).mean() ** 0.5
    keys = cells[by].astype(str).set_index(by).index
    return cells.assign(se_ratio=ratios.reindex(keys).to_numpy())


def _accuracy_text(tables: pd.DataFrame) -> list[str]:
    """Ratios of standard errors to the file's own by statistic, and how large they are."""
    said = []
    for statistic, rows in tables.groupby("statistic", sort=False):
        ratio, cv = rows["ratio"], rows["cv"]
        cells = "1 cell" if len(rows) == 1 else f"{len(rows)} cells"
        said.append(
            f"standard errors of {statistic}s {_range(ratio, '.2f')} times the file's own over {cells}, by releases of "
            f"made-up files; about {_range(cv, '.0%')} of the estimate"
        )
    return said


def _range(values: pd.Series, form: str) -> str:
    least, most = f"{values.min():{form}}", f"{values.max():{form}}"
    return least if least == most else f"{least} to {most}"


def _page_text(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, folder: Path, before: float
) -> list[str]:  # fmt: skip
    """What public/tables.html will say first, which is what the agency signs; the third sentence has to wait."""
    p, (_, words), design = settings.privacy, print_of(settings, model, folder), facts.design
    if p.epsilon is None:
        return []
    weight = [str(design.weights_name)] if settings.model.weight == "public" else []
    kept = list(dict.fromkeys([*model.predictor_columns, *design.fpc_names, *weight]))
    said = protected("strict" if p.policy else mechanism.kind, p.epsilon + before, p.unit, words)
    return [said, unprotected([design.labels.get(c, c) for c in kept], facts.n, words)]


def _time_text(settings: Settings) -> str:
    if settings.model.prior == "flat":
        return "some seconds"
    return "Markov chains: some seconds to a minute for FBS and FBP, longer for other models and under a clamp"


def _warnings(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, cells: pd.DataFrame,
    schema: Mapping[str, Outcome],
) -> list[str]:
    """What public facts alone make worth a look."""
    said, p, design = list(facts.left_out), settings.privacy, facts.design
    if worthless := int((cells["se_ratio"] > WORTH_LITTLE).sum()):
        said.append(
            f"{worthless} of {len(cells)} cells have a standard error of more than {WORTH_LITTLE:g} times the file's "
            "own: public totals of levels, fewer terms, coarser levels or a larger epsilon make it smaller"
        )
    few = int((cells["records"] < FEW).sum())
    if few:
        said.append(
            f"{few} of {len(cells)} cells have fewer than {FEW} records: fewer variables in tables.by, merged levels, "
            f"or min_cell = {FEW} in [tables]"
        )
    thin = int((cells["records"] < FEW_CELLS).sum()) - few
    if thin:
        which = f"{thin} more have" if few else f"{thin} of {len(cells)} cells have"
        said.append(f"{which} fewer than {FEW_CELLS} records: their intervals rest on the model")
    said += _predictor_warnings(facts, model)
    rows = predictor_rows(design, model.predictors, None)[0] if not model.categorical else None
    if rows is not None and facts.n < 10 * rows.shape[1]:
        said.append(
            f"{rows.shape[1]} columns of predictors for {facts.n:,} records: fewer predictors, or merged levels"
        )
    said += _zeros_warnings(settings, schema)
    if design.clustered and p.unit is None:
        said.append(
            "epsilon protects single records; where a person or household has several, say which column that is, as "
            "unit in [privacy]"
        )
    if mechanism.kind == "asymptotic":
        said.append("the guarantee is asymptotic, not strict at this number of records; the report says so")
    if p.population_total is None and p.population_totals is None:
        said.append("no population_total: the sum of the survey weights is published, which epsilon does not cover")
    if p.ledger is None:
        said.append(
            "no ledger: nothing adds up what is spent on this survey. surveysynth ledger budget.jsonl --survey NAME "
            "--create makes one; then say ledger = 'budget.jsonl' and survey = 'NAME' in [privacy]"
        )
    return said


def _zeros_warnings(settings: Settings, schema: Mapping[str, Outcome]) -> list[str]:
    """Bounds that include 0, where nothing is said of zeros."""
    if settings.model.zeros is not None:
        return []
    found = [name for name in schema if settings[f"outcomes.{name}.zeros"] is None and not schema[name].whole]
    return [
        ZEROS.format(f"the bounds of {name}", f"[outcomes.{key(name)}]") for name in found
        if (bounds := schema[name].bounds) is not None and bounds[0] <= 0 <= bounds[1]
    ]  # fmt: skip


def _predictor_warnings(facts: PublicFacts, model: Synthesizer) -> list[str]:
    """Numbers that look like codes, predictors that identify records, and levels that differ in blanks alone."""
    said, design = list[str](), facts.design
    names = [name for name in model.predictor_columns if name not in model.outcomes]
    unique = [name for name in names if facts.n > FEW and len(facts.levels(name)) == facts.n]
    if unique:
        said.append(
            f"{', '.join(unique)}: another value in every record, published as it is, so that whoever knows it finds "
            "the record: leave identifiers out of the formula"
        )
    plain = {f.expr for f in factors_of(model.predictors) if f.eval_method == f.EvalMethod.LOOKUP}
    for name in numeric_predictors(design, model.predictors, model.outcomes):
        values = facts.levels(name).index.to_numpy(dtype=np.float64)
        whole = bool((values % 1 == 0).all())
        few, hardly_repeated = 2 < len(values) <= CODES, FEW < ONCE * facts.n < len(values)
        if name in plain and name not in unique and whole and (few or hardly_repeated):
            quoted = name if PLAIN.fullmatch(name) else f"`{name}`"
            said.append(
                f"{name} is a number with {len(values):,} different values, all whole, and has a slope: if these are "
                f"codes, write C({quoted}) in the formula; I({quoted}) says that they are amounts"
            )
    alike = {name: _alike(facts.levels(name)) for name in names if is_label(design.column(name))}
    for name, groups in alike.items():
        if groups:
            listed = "; ".join(", ".join(map(repr, group)) for group in groups[:NAMED])
            one = {" ".join(group[0].split()): group for group in groups}
            merge = ", ".join(f"{key(to)} = {json.dumps(group, ensure_ascii=False)}" for to, group in one.items())
            said.append(
                f"{name} has levels that differ in blanks, capitals or accents alone: {listed}. If they are one, say "
                f"merge = {{{merge}}} in [columns.{key(name)}]"
            )
    units = [design.strata_name, *design.psu_names]
    blurred = [str(name) for name in units if name and name not in names and _blurred(facts, name)]
    if blurred:
        said.append(
            f"{', '.join(blurred)}: some labels differ in blanks, capitals or accents alone, and count as different "
            "strata or PSUs"
        )
    return said


def _blurred(facts: PublicFacts, name: str) -> bool:
    return is_label(facts.design.column(name)) and bool(_alike(facts.levels(name)))


def _alike(count: pd.Series) -> list[list[str]]:
    """Levels that occur and differ in blanks, capitals or accents alone, the most frequent of each group first."""
    groups: dict[str, list[str]] = {}
    for level in count.index[count > 0]:
        groups.setdefault(without_marks(str(level)), []).append(str(level))
    return [group for group in groups.values() if len(group) > 1]


# ---- inside: for the agency alone


def _look_inside(
    settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: Mechanism, by: list[str],
    ratio: float | None, schema: Mapping[str, Outcome],
) -> list[str]:  # fmt: skip
    """Heaps, values beyond the bounds, the shape of residuals, sizes that go with the outcome, expected errors."""
    said, fitted = list[str](), mechanism.fits_records
    if isinstance(mechanism, RecordMechanism):
        said = _refusal(settings, design, model, mechanism)
        if said:
            return said
        said = _information(settings, design, model, mechanism)
    for outcome in model.numeric:
        said += _value_findings(settings, design, outcome, schema.get(outcome), scaled=hasattr(model, "transform"))
        said += _residual_findings(settings, design, model, outcome) if hasattr(model, "transform") and fitted else []
        said += _size_findings(settings, design, outcome)
        said += _cell_findings(design, outcome, by, ratio)
    return said


def _refusal(settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism) -> list[str]:
    """What in the file would stop the release."""
    try:
        file, _, _ = without_missing(design, model)
        total = check_total(settings.privacy.population_total, file)
        mean_weight = public_mean_weight(file, total) if mechanism.clamps else None
        unit = unit_of(file, settings.privacy.unit)
        model.prepare(file, settings.model.clusters or "model", mean_weight, None, unit.by_record)
    except (InputError, ModelError) as error:
        return [f"the release would be refused: {error}"]
    return []


def _information(
    settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism
) -> list[str]:
    """What privacy weights keep: from a fit."""
    privacy = settings.privacy
    if not mechanism.tunes_c1:
        return []
    cost = privacy_cost(
        design, model, epsilon=privacy.epsilon, m=settings.release.m, mechanism=mechanism, unit=privacy.unit,
        clusters=settings.model.clusters or "model", reweight=privacy.reweight or 0,
    )  # fmt: skip
    assert isinstance(cost, PrivacyCost)  # as there is an epsilon or a c1
    ratio = np.sqrt(1 + (1 + 1 / cost.mean_alpha) / cost.m)
    said = f"privacy weights keep {cost.mean_alpha:.0%} of the file's information: standard errors of means about "
    little = "; that is too little, and the release would stop" if cost.mean_alpha < LEAST_INFORMATION else ""
    return [f"{said}{ratio:.2f} times the file's own, biases apart{little}. {cost.verdict}"]


def _value_findings(
    settings: Settings, design: SurveyDesign, outcome: str, declared: Outcome | None, *, scaled: bool
) -> list[str]:  # fmt: skip
    """Values beyond the bounds; of amounts on a working scale missing ones, zeros and heaps, too."""
    y = design.numeric(outcome)
    there, said = y[np.isfinite(y)], list[str]()
    hints = HINTS if declared is None else {name: hint.format(key(outcome)) for name, hint in HINTS_FOR_TABLES.items()}
    missing = settings.model.missing if declared is None else declared.missing or declared.applies
    zeros = settings.model.zeros if declared is None else declared.zeros or declared.whole
    if scaled and there.size < y.size and missing is None:
        said.append(f"{outcome}: {y.size - there.size:,} records have none; {hints['missing']}")
    zero = float(np.mean(there == 0))
    if scaled and zero > ATOM and not zeros:
        said.append(f"{outcome}: {zero:.0%} are exactly 0; {hints['zero']}")
    amounts = there[there != 0]
    if declared is not None:
        amounts = amounts[~np.isin(amounts, declared.heaps)]
    most = pd.Series(amounts).value_counts(normalize=True)
    whole = declared is not None and declared.whole  # whose values are cells of their own
    if scaled and most.size and most.iloc[0] > ATOM and not whole:
        heaps = int((most > ATOM).sum())
        said.append(f"{outcome}: {heaps} single value(s) hold {most[most > ATOM].sum():.0%}; {hints['atom']}")
    if declared is not None and declared.bounds is not None:
        beyond = np.mean((there < declared.bounds[0]) | (there > declared.bounds[1]))
        if beyond > 0:
            said.append(
                f"{outcome}: {beyond:.2%} lie beyond the bounds and are moved to them; wider bounds would keep them"
            )
    return said


def _residual_findings(settings: Settings, design: SurveyDesign, model: Synthesizer, outcome: str) -> list[str]:
    """Skewness and kurtosis of what the predictors leave on the working scale."""
    y = design.numeric(outcome)
    keep = np.isfinite(y) & ((y != 0) | (not settings.model.zeros))
    if settings.model.transform is None:
        z = norm.ppf((rankdata(y[keep]) - 0.5) / keep.sum())
    else:
        with np.errstate(all="ignore"):
            scores = str(settings.model.transform).endswith(".json")
            z = norm.ppf((rankdata(y[keep]) - 0.5) / keep.sum()) if scores else as_transform(
                str(settings.model.transform), settings.model.scale
            ).forward(y[keep])  # fmt: skip
    if model.categorical or not np.isfinite(z).all():
        return []
    X, row, _ = predictor_rows(design, model.predictors, None)
    X = X[row[keep]]
    residual = z - X @ np.linalg.lstsq(X, z, rcond=None)[0]
    left = float(1 - residual.var() / z.var())
    said = [f"{outcome}: the predictors explain {left:.0%} of its variance on the working scale"]
    if abs(skew(residual)) > SKEWED or kurtosis(residual) > TAILED:
        said.append(
            f"{outcome}: residuals on that scale have skewness {skew(residual):.1f} and excess kurtosis "
            f"{kurtosis(residual):.1f}, where the model has 0 and 0; {HINTS['shape']}"
        )
    return said


def _size_findings(settings: Settings, design: SurveyDesign, outcome: str) -> list[str]:
    """Whether the sizes of PSUs, and of units, go with the outcome: rank correlation over groups."""
    said, y = list[str](), design.numeric(outcome)
    groups = {"PSUs": list(design.psu_names[:1]), "units": as_list(settings.privacy.unit)}
    for what, columns in groups.items():
        if not columns or (what == "PSUs" and not design.clustered):
            continue
        unit = design.select(columns).groupby(columns, sort=False).ngroup()
        of = pd.DataFrame({"y": y, "unit": unit}).groupby("unit")["y"]
        size, mean = of.size().to_numpy(), of.mean().to_numpy()
        if len(np.unique(size)) < 2 or len(size) < FEW:
            continue
        r = float(spearmanr(size, mean, nan_policy="omit").statistic)
        t = abs(r) * np.sqrt(max(len(size) - 2, 1) / max(1 - r**2, 1e-12))
        if t > RELATED:
            said.append(
                f"{outcome}: it goes with the size of {what} (rank correlation {r:.2f} over {len(size):,}), which the "
                "model takes in as a predictor; a public size in the formula is better"
            )
    return said


def _cell_findings(design: SurveyDesign, outcome: str, by: list[str], ratio: float | None) -> list[str]:
    """Expected coefficients of variation: the file's own times the ratio."""
    if ratio is None or np.isnan(design.numeric(outcome)).any():
        return []
    table = estimate(design, outcome, by, "mean")
    cv = (table["se"] / table["estimate"].abs() * ratio).to_numpy()
    cv = cv[np.isfinite(cv)]
    if not cv.size:
        return []
    return [
        f"{outcome}: expected coefficients of variation of its means {cv.min():.1%} to {cv.max():.1%} over "
        f"{len(cv)} cells; above 15% in {int((cv > 0.15).sum())}"
    ]
