"""The part of a dossier on what the agency declared as public: facts about outcomes, weights, totals and columns."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ...design.discrete import is_label, levels_in
from ...measuring.noisy_tables import NoisyTables
from ...privacy.report import SUM_OF_WEIGHTS
from ...publication.dossier_page import Grid
from ..contents import kept_columns
from ..release import Release

CALIBRATED = 1e-6  # relative error with which weights add up to a total
LISTED = 12  # largest number of levels of a public column that are listed


def declared(release: Release, *, sign: bool) -> Grid:
    """Make the table of what the agency declared as public, with the declared values.

    With ``sign``, the last column is empty: there the board writes who confirms the value, and from which source.
    """
    rows = [*_outcomes(release), *_weights(release), *_totals(release), *_columns(release), *_rules(release)]
    return Grid(
        ("declared as public", "value", *(["confirmed by, from which source"] if sign else [])),
        tuple((*row, *([""] if sign else [])) for row in rows), high=sign,
    )  # fmt: skip


def _outcomes(release: Release) -> Iterator[tuple[str, str]]:
    """Yield, for each outcome, its bounds, levels and heaped values; last, the size of a protected unit, if any."""
    if release.measured is None:
        for name in release.categorical:
            yield name, f"levels {', '.join(map(str, levels_in(release.datasets[0].column(name))))}"
        return
    tables = release.measured.tables
    for variable in tables.outcomes:
        yield variable.name, variable.cells.outcome.text
    if tables.unit is not None:
        yield f"size of {tables.unit}", f"at most {tables.most:,} records count; larger ones count in part"


def _weights(release: Release) -> Iterator[tuple[str, str]]:
    """Yield the bounds of weights that are drawn from noisy tables, or the statement that all weights are equal."""
    design, tables = release.datasets[0], None if release.measured is None else release.measured.tables
    if tables is not None and tables.weight is not None:
        yield str(design.weights_name), _bounds_of_weights(tables)
    elif release.method["weights"] == "equal":
        yield "weights", "all equal"


def _bounds_of_weights(tables: NoisyTables) -> str:
    assert tables.weight is not None and tables.weight.cells.outcome.bounds is not None
    bounds, mean = tables.weight.cells.outcome.bounds, tables.population_total / tables.n
    low, high, least, most = (f"{x:.4g}" for x in (*bounds, *(bound / mean for bound in bounds)))
    return f"between {low} and {high} ({least} and {most} mean weights)"


def _totals(release: Release) -> Iterator[tuple[str, str]]:
    """Yield the population total and, if weights are calibrated, the totals of groups and of numeric columns."""
    design = release.datasets[0]
    if SUM_OF_WEIGHTS not in release.privacy.data_dependent:
        yield "population total", number(design.weights.sum())
    for calibration in design.calibrations:
        for names in calibration.poststrata_names:
            sums = pd.Series(design.weights).groupby([design.column(name) for name in names], observed=True).sum()
            groups = [" x ".join(map(str, level if isinstance(level, tuple) else (level,))) for level in sums.index]
            totals = (f"{group} {number(total)}" for group, total in zip(groups, sums, strict=True))
            yield f"totals by {' x '.join(names)}", ", ".join(totals)
        for name, values in zip(calibration.auxiliary_names, calibration.auxiliary, strict=True):
            yield f"total of {name}", number(float(design.weights @ values))


def _columns(release: Release) -> Iterator[tuple[str, str]]:
    """Yield the columns that are published as collected, and the number of records."""
    design, kept = release.datasets[0], kept_columns(release)
    for name in kept:
        yield name, f"as collected, of each record: {_content(design.column(name))}"
    others = [name for name in (design.strata_name, *design.psu_names) if name is not None and name not in kept]
    if others:
        yield ", ".join(others), "which records are together, with recoded labels"
    by = f", and those in each cell of {' x '.join(kept)}" if kept else ""
    yield "records", f"{design.n:,}{by}"


def _rules(release: Release) -> Iterator[tuple[str, str]]:
    """Yield the rules that every synthetic record obeys."""
    if rules := release.method.get("edits"):
        yield "rules of all records", "; ".join(map(str, rules))


def _content(column: pd.Series) -> str:
    if not is_label(column):
        return f"numbers from {number(column.min())} to {number(column.max())}"
    found = levels_in(column)
    return ", ".join(map(str, found)) if len(found) <= LISTED else f"{len(found):,} levels"


def number(x: float) -> str:
    """Return a number as text, rounded to a whole number if the difference is within the calibration error."""
    return f"{x:,.0f}" if abs(x - round(x)) <= CALIBRATED * abs(x) else f"{x:,.12g}"
