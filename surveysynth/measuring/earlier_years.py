"""Noisy tables of an earlier year, which are fitted together with this year's noisy tables.

Both years must have the same outcomes and formulas.  The levels of the earlier tables are renumbered to match this
year's levels.  A release contains the earlier tables and the number of records in each public cell (combination of
public levels) of the earlier year, so that every reader of the release can make the same fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from .noisy_tables import WEIGHT, NoisyTables, Variable, tables_from_json
from .terms import Term, public_cells

NEAR = 1e-6  # largest difference between the edges of the same cell in both years, relative to the last edge


def aligned_tables(earlier: NoisyTables, measured: NoisyTables) -> NoisyTables:
    """Return the tables of an earlier year with this year's numbering of levels, without tables by strata and PSUs.

    Parameters
    ----------
    earlier, measured : NoisyTables
        The tables of the earlier year, and the tables of this year.

    Raises
    ------
    InputError
        The two years cannot be fitted together.  An outcome was not measured in the earlier year, had another formula
        or schema in that year, or is asked of some records only.  Units of several records are protected in one of the
        years.  A predictor is numeric, so that its groups differ between the years.  A level of the earlier year does
        not occur in this year's file.
    """
    if earlier.unit is not None or measured.unit is not None:
        raise InputError("earlier=: units of several records have no fit to two years")
    theirs = {variable.name: variable for variable in earlier.variables}
    found = [_variable(theirs.get(variable.name), variable, earlier, measured) for variable in measured.variables]
    terms = {name: _term(earlier.terms[name], term) for name, term in measured.terms.items() if not term.drawn}
    weight = found.pop() if measured.weight is not None else None
    totals = {name: _totals_by_level(earlier, measured, name) for name in earlier.population_totals}
    return replace(
        earlier, predictors=measured.predictors, outcomes=tuple(found), weight=weight, terms=terms,
        population_totals=totals,
    )  # fmt: skip


def _variable(theirs: Variable | None, ours: Variable, earlier: NoisyTables, measured: NoisyTables) -> Variable:
    """Return ``theirs``, a variable of the earlier year, without tables by strata and PSUs.

    Raise InputError if the variable is missing, or if its formula or schema differs from those of ``ours``, the
    variable of this year.
    """
    name = ours.name
    if theirs is None:
        raise InputError(f"earlier=: {name!r} was not measured in the earlier year")
    if set(theirs.terms) != set(ours.terms) or theirs.parents != ours.parents:
        raise InputError(f"earlier=: {name!r} had another formula in the earlier year")
    units = [tables.population_total / tables.n if name == WEIGHT else 1.0 for tables in (earlier, measured)]
    edges = [
        None if each.cells.bins is None else each.cells.bins.edges / unit
        for each, unit in zip((theirs, ours), units, strict=True)
    ]
    same = len(theirs.cells) == len(ours.cells) and theirs.cells.outcome.special == ours.cells.outcome.special
    if same and edges[0] is not None and edges[1] is not None:
        same = len(edges[0]) == len(edges[1]) and bool(np.abs(edges[0] - edges[1]).max() <= NEAR * edges[1][-1])
    if not same or theirs.cells.outcome.applies != ours.cells.outcome.applies:
        what = "other weight bounds" if name == WEIGHT else "another schema"
        raise InputError(f"earlier=: {name!r} had {what} in the earlier year")
    if ours.cells.outcome.applies is not None:
        raise InputError(f"earlier=: {name!r} is asked of some records, which has no fit to two years")
    return replace(theirs, tables=tuple(t for t in theirs.tables if t.by is None or t.by in ours.terms))


def _term(theirs: Term, ours: Term) -> Term:
    """Return the earlier year's term ``theirs``, with its levels numbered like those of this year's term ``ours``."""
    if ours.score is not None or theirs.score is not None:
        raise InputError(f"earlier=: {ours.name!r} is a number, whose groups are another year's; make categories of it")
    number = {labels: level for level, labels in enumerate(ours.labels)}
    if others := [labels for labels in theirs.labels if labels not in number]:
        raise InputError(f"earlier=: {len(others)} levels of {ours.name!r} are not in this file")
    level = np.array([number[labels] for labels in theirs.labels], dtype=np.intp)[theirs.level]
    return replace(ours, level=level, step=level)


def _totals_by_level(earlier: NoisyTables, measured: NoisyTables, name: str) -> Any:
    """Return the earlier year's population total in each level of the term ``name``, in this year's order of levels.

    A level that did not exist in the earlier year has the total 0.
    """
    number = {labels: level for level, labels in enumerate(measured.terms[name].labels)}
    out = np.zeros(measured.terms[name].levels)
    for labels, total in zip(earlier.terms[name].labels, earlier.population_totals[name], strict=True):
        out[number[labels]] = total
    return out


def as_json(earlier: NoisyTables) -> dict[str, Any]:
    """Return an earlier year's tables, and that year's number of records in each public cell, as a JSON document."""
    steps, _, records = public_cells(earlier.terms.values(), earlier.n)
    names = list(earlier.terms)
    return earlier.as_json() | {"cells": {"levels": dict(zip(names, steps.T.tolist(), strict=True)),
                                          "records": records.tolist()}}  # fmt: skip


def read(document: Mapping[str, Any], measured: NoisyTables) -> NoisyTables:
    """Return the tables of an earlier year from a document that :func:`as_json` made.

    ``measured`` are the tables of this year, which have the terms of both years.
    """
    records = np.array(document["cells"]["records"], dtype=np.intp)
    terms = {}
    for name, steps in document["cells"]["levels"].items():
        level = np.repeat(np.array(steps, dtype=np.intp), records)
        terms[name] = replace(measured.terms[name], level=level, step=level)
    return tables_from_json(terms, document)
