"""Games of noisy tables: a file is measured with or without the planted record, and an intruder reads every table.

There are three sides: the file with the planted record (``in``); the file with blanked values of this record, which are
not counted (``blank``); and the file with a typical value of this record (``replaced``).  Every game measures the file
again.

The intruder knows all other records and the public numbers, and sees every noisy table with its groups of cells.  Let h
be the true count of a cell without the record, s what the record's value adds to it, unit / epsilon the scale of the
noise, and c the noisy count.  Then

    (|c - h| - |c - h - s|) epsilon / unit

is exactly the log likelihood ratio of "the record has this value" over "the record is blanked".  If a mechanism does
not do what it states, the edges and the number of the groups may reveal more.  Files that are drawn from the tables
must not reveal more than the tables.  As statistics from a file, a game stores the shares of the file's records at or
above the planted record's cells of the outcome and of the weight.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...design.survey_design import SurveyDesign
from ...measuring.bins import Cells
from ...measuring.joint_fit import fit_measurements
from ...measuring.measure import WEIGHT_BOUNDS, Question, measure_design
from ...measuring.noisy_tables import NoisyTable, NoisyTables
from ...measuring.outcome import Outcome
from ...measuring.terms import terms_of
from .files import PlantedFile

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Side = Literal["in", "blank", "replaced"]

SIDES: tuple[Side, ...] = get_args(Side)
STATED = {"blank": 1.0, "replaced": 2.0}  # stated multiple of epsilon for the other side of a pair
_KINDS = {"counts": "", "scores": ", scores", "products": ", products"}
FILES = 10  # every tenth game draws a file, which takes as long as a hundred measurements


def noisy_tables(
    file: PlantedFile, side: Side, epsilon: float, games: int, rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Play games on one side of a file, with the noise of releases; the generator is for drawn files.

    Returns
    -------
    pandas.DataFrame
        One row per game: ``planted_{k}`` and ``typical_{k}``, the evidence for either value of the record in table k;
        ``groups_{k}``, the edges of its groups as one number; ``files_outcome`` and ``files_weight``, shares of the
        records of a file in the planted record's cells, missing if no file was drawn.
    """
    design = file.typical if side == "replaced" else file.design
    row, others = file.row, np.arange(design.n) != file.row
    known = {"planted": _cells(file, file.design), "typical": _cells(file, file.typical)}
    found = []
    for game in range(games):
        tables = _measured(file, design, epsilon, blank=row if side == "blank" else None)
        game_row: dict[str, Any] = {}
        for value, own in known.items():
            for k, (table, level, code) in enumerate(_read(tables, own)):
                game_row[f"{value}_{k}"] = _evidence(table, level, code, own[0], row, others)
                game_row[f"groups_{k}"] = float(table.groups @ np.arange(1, len(table.groups) + 1))
        if game % FILES == 0:
            game_row |= _file_shares(tables, file.design.frame.drop(columns=file.outcome), known["planted"], row, rng)
        found.append(game_row)
    return pd.DataFrame(found)


def stated(file: PlantedFile, epsilon: float) -> list[tuple[str, float]]:
    """The name and the epsilon of every table."""
    tables = _measured(file, file.typical, epsilon)
    return [
        (variable.name + (f" by {by}" if (by := table.by or table.earlier) else "") + _KINDS[table.kind], table.epsilon)
        for variable in tables.variables for table in variable.tables
    ]  # fmt: skip


def _measured(file: PlantedFile, design: SurveyDesign, epsilon: float, blank: int | None = None) -> NoisyTables:
    predictors = file.formula.split("~")[1].strip()
    terms = terms_of(design, predictors)
    return measure_design(
        design, [Question(file.outcome, Outcome(bounds=file.bounds), tuple(term.name for term in terms))], predictors,
        terms, epsilon=epsilon, population_total=file.population_total, blank=blank,
    )  # fmt: skip


def _cells(file: PlantedFile, design: SurveyDesign) -> tuple[Codes, Codes]:
    """Cells of outcome and weight of every record (n,), (n,)."""
    outcome = Cells.for_outcome(Outcome(bounds=file.bounds)).codes(design.column(file.outcome), file.outcome)
    weight = Cells.for_weights(WEIGHT_BOUNDS, file.mean_weight)
    return outcome, weight.codes_of_numbers(np.asarray(design.weights, dtype=np.float64))


def _read(tables: NoisyTables, cells: tuple[Codes, Codes]) -> list[tuple[NoisyTable, Codes, Codes]]:
    """Every table, with the level and the cell of each record in it."""
    found = []
    for variable, code in zip(tables.variables, cells, strict=True):
        for table in variable.tables:
            level = np.zeros(len(code), dtype=np.intp) if table.by is None else tables.terms[table.by].level
            if table.by_groups is not None:
                level = level * (int(table.by_groups.max()) + 1) + table.by_groups[cells[0]]
            found.append((table, level, code))
    return found


def _evidence(
    table: NoisyTable, level: Codes, code: Codes, outcome: Codes, row: int, others: NDArray[np.bool_]
) -> float:  # fmt: skip
    adds = np.ones(len(code)) if table.scores is None else table.scores[code]
    if table.by_scores is not None:
        adds = adds * table.by_scores[outcome]
    group = table.groups[code]
    same = others & (level == level[row]) & (group == group[row])
    noise = table.counts[level[row], group[row]] - adds[same].sum()
    return float((abs(noise) - abs(noise - adds[row])) * table.epsilon / table.unit)


def _file_shares(
    tables: NoisyTables, public: pd.DataFrame, cells: tuple[Codes, Codes], row: int, rng: np.random.Generator
) -> dict[str, float]:  # fmt: skip
    """Draw one file.  Return its share of records in the planted record's outcome cell or higher; also of weights."""
    fit = fit_measurements(tables, public)
    codes: dict[str, Codes] = {}
    for (name, variable), coefficients in zip(fit.variables.items(), fit.draws(1, rng)[0], strict=True):
        codes[name] = variable.probabilities(coefficients, fit.cells.cell_of_record, codes).draw(rng)
    y, w = codes.values()
    return {"files_outcome": float((y >= cells[0][row]).mean()), "files_weight": float((w >= cells[1][row]).mean())}
