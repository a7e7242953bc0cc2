"""What to expect of the release that a plan defines, from public facts.

On request, findings from confidential values are added, which only the agency may see.
"""

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

from ..choices import PRINTED
from ..design.discrete import is_label
from ..design.formula import PLAIN, factors_of
from ..design.missing_codes import without_marks
from ..measuring.outcome import Outcome
from ..models.base import Synthesizer
from ..models.predictors.model_matrix import numeric_predictors, predictor_rows
from ..models.sequential import Sequential
from ..privacy.mechanisms import Mechanism
from ..publication.footnotes import protected, unprotected
from ..synthesis.synthetic_design import public_columns
from .arguments import foretold_by, print_of
from .expected_errors import WORTH_LITTLE, pooled
from .inside import look_inside
from .public_facts import PublicFacts
from .settings import Settings
from .strict import epsilon_before, expected_arguments, planned_rehearsals
from .toml_file import key

Floats = NDArray[np.float64]

# A cell with fewer records than FEW gets a warning; with fewer than FEW_CELLS, its interval rests on the model
FEW, FEW_CELLS = 10, 30
NAMED = 5  # number of groups of similar levels that a warning lists
# Whole numbers may be codes if they have at most CODES different values, or more than ONCE times as many as records
CODES, ONCE = 20, 0.9
WIDTH = 80  # characters on a line
NO_FORMULA = "no public formula for this mechanism: check --inside, or surveysynth privacy-cost, looks at the file"
SECONDS = "some seconds; about a minute for a dozen outcomes"
ZEROS = "{} include 0: if many amounts are exactly 0, declare zeros = true in {}; otherwise zeros = false"


@dataclass(frozen=True, repr=False)
class Preview:
    """The expected accuracy of a planned release, with sentences and warnings.  No privacy budget is spent.

    Attributes
    ----------
    sentences : dict of str to list of str
        Sentences on the release, by heading.
    warnings : list of str
        Warnings on the plan, each with what to do.
    expected : pandas.DataFrame
        One row for each cell of the tables, with two columns beside the variables of the cell.  ``records`` is the
        public number of records.  ``se_ratio`` is the expected standard error of means and proportions, divided by the
        standard error in the file itself.  It is NaN for a fit to records.
    inside : list of str
        Findings from the confidential values, for the agency alone.
    """

    sentences: dict[str, list[str]]
    warnings: list[str]
    expected: pd.DataFrame
    inside: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = self.sentences | {"Warnings": self.warnings or ["none"]}
        if self.inside:
            parts["Inside"] = ["for the agency alone: this was computed from confidential values", *self.inside]
        width = max(map(len, parts)) + 2
        out = []
        for heading, lines in parts.items():
            for number, sentence in enumerate(lines):
                first = f"{heading if number == 0 else '':<{width}}"
                out.append(textwrap.fill(
                    sentence, WIDTH, initial_indent=first, subsequent_indent=" " * width, break_on_hyphens=False,
                    break_long_words=False,  # a path stays whole
                ))  # fmt: skip
        return "\n".join(out)

    __repr__ = __str__


def preview(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, folder: Path,
    reasons: Mapping[str, str], *, inside: bool,
) -> Preview:  # fmt: skip
    """Return the preview of a plan's release: sentences, warnings, and the expected accuracy (:meth:`Plan.check`).

    Parameters
    ----------
    settings : Settings
        All entries of the plan.
    facts : PublicFacts
        The file.
    model, mechanism
        The plan's model and mechanism.
    folder : Path
        Folder to which paths in the plan are relative.
    reasons : mapping of str to str
        Reasons for the defaults that were chosen, by "section.entry".
    inside : bool
        True if confidential values are examined as well.
    """
    design = facts.design
    by = foretold_by(settings, design, model)
    tables, before, given = None, 0.0, dict[str, Any]()
    if not mechanism.fits_records:
        before = epsilon_before(settings, folder)
        given = expected_arguments(settings, design)
        tables = pooled([rehearsal.cells for rehearsal in planned_rehearsals(settings, design)])
    ratio = None if tables is None else _typical(tables)
    schema = given.get("outcomes", {})
    cells = facts.cells(by).assign(se_ratio=np.nan if ratio is None else ratio)
    if tables is not None:
        cells = _with_ratios(cells, tables, by)
    sentences = {
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
    seen = look_inside(settings, design, model, mechanism, by, ratio, schema) if inside else []
    return Preview({heading: lines for heading, lines in sentences.items() if lines}, warnings, cells, seen)


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
    """Return a list with one sentence: which predictors the formula takes as numbers, and which as categories."""
    names = [name for name in model.predictor_columns if name not in model.outcomes]
    numbers = numeric_predictors(facts.design, model.predictors, model.outcomes)
    categories = [f"{name} ({(facts.levels(name) > 0).sum():,} levels)" for name in names if name not in numbers]
    parts = [f"numbers: {', '.join(numbers)}"] if numbers else []
    parts += [f"categories: {', '.join(categories)}"] if categories else []
    return [f"predictors that are {'; '.join(parts)}"] if parts else []


def _privacy_text(settings: Settings, mechanism: Mechanism, before: float) -> str:
    p = settings.privacy
    kind = "strict" if p.policy else mechanism.kind.replace("alpha", "the privacy weights")
    asked = f"epsilon = {p.epsilon:g}" if p.epsilon is not None else f"c1 = {p.c1:g}, with the fit's epsilon"
    unit = f"one {p.unit}" if p.unit else "one record"
    by = f", by {p.policy}" if p.policy else ""
    how = p.mechanism if p.mechanism == kind else f"{p.mechanism} ({kind})"
    text = f"{how}, {asked} for {unit}'s confidential values, m = {settings.release.m}{by}"
    text += f", delta = {p.delta:g}" if p.delta is not None else ""
    if before and p.epsilon is not None:
        text += f"; with the earlier year's tables {p.epsilon + before:g} for people who are in both files"
    return text


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
    """Return the root mean square of the ratios of standard errors (release divided by file), except for counts."""
    ratios = tables.loc[tables["statistic"] != "count", "ratio"]
    return float(np.sqrt((ratios**2).mean()))


def _with_ratios(cells: pd.DataFrame, tables: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Add the column ``se_ratio``: the standard error in the release divided by the standard error in the file.

    It is the root mean square of the ratios for the cell's means and proportions.
    """
    rows = tables[tables["statistic"] != "count"]
    if not by:
        return cells.assign(se_ratio=_typical(tables))
    ratios = (rows["ratio"] ** 2).groupby([rows[name].astype(str) for name in by]).mean() ** 0.5
    keys = cells[by].astype(str).set_index(by).index
    return cells.assign(se_ratio=ratios.reindex(keys).to_numpy())


def _accuracy_text(tables: pd.DataFrame) -> list[str]:
    """Return, for each statistic, a sentence on the expected standard errors.

    They are divided by the standard errors of the file, and by the estimates.
    """
    lines = []
    for statistic, rows in tables.groupby("statistic", sort=False):
        ratio, cv = rows["ratio"], rows["cv"]
        cells = "1 cell" if len(rows) == 1 else f"{len(rows)} cells"
        lines.append(
            f"standard errors of {statistic}s {_range(ratio, '.2f')} times the file's own over {cells}, by releases of "
            f"made-up files; about {_range(cv, '.0%')} of the estimate"
        )
    return lines


def _range(values: pd.Series, form: str) -> str:
    least, most = f"{values.min():{form}}", f"{values.max():{form}}"
    return least if least == most else f"{least} to {most}"


def _page_text(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, folder: Path, before: float
) -> list[str]:  # fmt: skip
    """Return the footnotes on privacy for printed tables, and a sentence on table facts missing in the plan.

    ``before`` is the epsilon of earlier years' tables.
    """
    p, (_, words), design = settings.privacy, print_of(settings, model, folder), facts.design
    if p.epsilon is None:
        return []
    weight = [str(design.weights_name)] if settings.model.weight == "public" else []
    kept = list(dict.fromkeys([*model.predictor_columns, *design.fpc_names, *weight]))
    first = protected("strict" if p.policy else mechanism.kind, p.epsilon + before, p.unit, words)
    absent = [name for name in PRINTED if getattr(settings.release, name) is None]
    printed = [f"tables are printed without {', '.join(absent)}: give them in [release]"] if absent else []
    return [first, unprotected([design.labels.get(c, c) for c in kept], facts.n, words), *printed]


def _time_text(settings: Settings) -> str:
    if settings.model.prior == "flat":
        return "some seconds"
    return "Markov chains: some seconds to a minute for FBS and FBP, longer for other models and under a clamp"


def _warnings(
    settings: Settings, facts: PublicFacts, model: Synthesizer, mechanism: Mechanism, cells: pd.DataFrame,
    schema: Mapping[str, Outcome],
) -> list[str]:
    found, p, design = list(facts.left_out), settings.privacy, facts.design
    if worthless := int((cells["se_ratio"] > WORTH_LITTLE).sum()):
        found.append(
            f"{worthless} of {len(cells)} cells have a standard error of more than {WORTH_LITTLE:g} times the file's "
            "own: public totals of levels, fewer terms, coarser levels or a larger epsilon make it smaller"
        )
    few = int((cells["records"] < FEW).sum())
    if few:
        found.append(
            f"{few} of {len(cells)} cells have fewer than {FEW} records: fewer variables in tables.by, merged levels, "
            f"or min_cell = {FEW} in [tables]"
        )
    thin = int((cells["records"] < FEW_CELLS).sum()) - few
    if thin:
        which = f"{thin} more have" if few else f"{thin} of {len(cells)} cells have"
        found.append(f"{which} fewer than {FEW_CELLS} records: their intervals rest on the model")
    found += _predictor_warnings(facts, model)
    rows = predictor_rows(design, model.predictors, None)[0] if not model.categorical else None
    if rows is not None and facts.n < 10 * rows.shape[1]:
        found.append(
            f"{rows.shape[1]} columns of predictors for {facts.n:,} records: fewer predictors, or merged levels"
        )
    found += _zeros_warnings(settings, schema)
    if design.clustered and p.unit is None:
        found.append(
            "epsilon protects single records; if a person or household has several, name its column as unit in "
            "[privacy]"
        )
    if mechanism.kind == "asymptotic":
        found.append("the guarantee is asymptotic, not strict at this number of records; the report says so")
    if p.population_total is None and p.population_totals is None:
        found.append("no population_total: the sum of the survey weights is published, which epsilon does not cover")
    if p.ledger is None:
        found.append(
            "no ledger: nothing adds up what is spent on this survey. surveysynth ledger budget.jsonl --survey NAME "
            "--create makes one; then set ledger = 'budget.jsonl' and survey = 'NAME' in [privacy]"
        )
    return found


def _zeros_warnings(settings: Settings, schema: Mapping[str, Outcome]) -> list[str]:
    """Return a warning for each outcome whose bounds include 0, if the plan does not say how zeros are modelled."""
    if settings.model.zeros is not None:
        return []
    found = [name for name in schema if settings[f"outcomes.{name}.zeros"] is None and not schema[name].whole]
    return [
        ZEROS.format(f"the bounds of {name}", f"[outcomes.{key(name)}]") for name in found
        if (bounds := schema[name].bounds) is not None and bounds[0] <= 0 <= bounds[1]
    ]  # fmt: skip


def _predictor_warnings(facts: PublicFacts, model: Synthesizer) -> list[str]:
    """Return warnings on predictors: identifiers, numbers that look like codes, levels that differ in spelling."""
    found, design = list[str](), facts.design
    names = [name for name in model.predictor_columns if name not in model.outcomes]
    unique = [name for name in names if facts.n > FEW and len(facts.levels(name)) == facts.n]
    if unique:
        found.append(
            f"{', '.join(unique)}: another value in every record, published as it is, by which a record can be "
            "found: leave identifiers out of the formula"
        )
    plain = {f.expr for f in factors_of(model.predictors) if f.eval_method == f.EvalMethod.LOOKUP}
    for name in numeric_predictors(design, model.predictors, model.outcomes):
        values = facts.levels(name).index.to_numpy(dtype=np.float64)
        whole = bool((values % 1 == 0).all())
        few, hardly_repeated = 2 < len(values) <= CODES, FEW < ONCE * facts.n < len(values)
        if name in plain and name not in unique and whole and (few or hardly_repeated):
            quoted = name if PLAIN.fullmatch(name) else f"`{name}`"
            found.append(
                f"{name} is a number with {len(values):,} different values, all whole, and has a slope: if these are "
                f"codes, write C({quoted}) in the formula; I({quoted}) says that they are amounts"
            )
    alike = {name: _alike(facts.levels(name)) for name in names if is_label(design.column(name))}
    for name, groups in alike.items():
        if groups:
            listed = "; ".join(", ".join(map(repr, group)) for group in groups[:NAMED])
            one = {" ".join(group[0].split()): group for group in groups}
            merge = ", ".join(f"{key(to)} = {json.dumps(group, ensure_ascii=False)}" for to, group in one.items())
            found.append(
                f"{name} has levels that differ in blanks, capitals or accents alone: {listed}. To merge them, set "
                f"merge = {{{merge}}} in [columns.{key(name)}]"
            )
    units = [design.strata_name, *design.psu_names]
    blurred = [str(name) for name in units if name and name not in names and _blurred(facts, name)]
    if blurred:
        found.append(
            f"{', '.join(blurred)}: some labels differ in blanks, capitals or accents alone, and count as different "
            "strata or PSUs"
        )
    return found


def _blurred(facts: PublicFacts, name: str) -> bool:
    return is_label(facts.design.column(name)) and bool(_alike(facts.levels(name)))


def _alike(count: pd.Series) -> list[list[str]]:
    """Return groups of levels that differ only in blanks, capitals or accents.

    ``count`` has the number of records at each level.  Within a group, levels have the order of ``count``.
    """
    groups: dict[str, list[str]] = {}
    for level in count.index[count > 0]:
        groups.setdefault(without_marks(str(level)), []).append(str(level))
    return [group for group in groups.values() if len(group) > 1]
