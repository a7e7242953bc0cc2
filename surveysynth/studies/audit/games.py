"""Games: make noisy tables of a file with or without a planted record, and compute what an intruder learns from them.

A game is played on one of three sides: the file with the planted record (``in``), the file in which this record is not
counted (``blank``), or the file with a typical value of this record (``replaced``).

The intruder knows all other records and the public numbers, and sees every noisy table.  Cells are intervals of the
outcome or of the weight.  A noisy table has a noisy count (or sum of scores) for each combination of a row, such as a
level of a predictor, and a group of cells.  For the planted record's row and group, let h be the true count without the
record, s the contribution of the record's value, c the noisy count, and unit / epsilon the scale of the Laplace noise.
Here unit is the largest possible contribution of a record, and epsilon is the table's share of the whole epsilon.  Then

    (|c - h| - |c - h - s|) epsilon / unit

is exactly the log likelihood ratio of "the record has this value" over "the record is not counted".  The grouping of
cells may reveal more, if a mechanism does not keep its stated epsilon.  A synthetic file that is drawn from the tables
must not reveal more than the tables.  From a synthetic file the intruder computes two statistics: the share of records
whose outcome is in the cell of the planted record's outcome or in a higher cell, and the same share for the weight.
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
STATED = {"blank": 1.0, "replaced": 2.0}  # stated epsilon between "in" and this side, as a multiple
_KINDS = {"counts": "", "scores": ", scores", "products": ", products"}
FILES = 10  # every tenth game draws a file, which takes as long as a hundred measurements


def noisy_tables(
    file: PlantedFile, side: Side, epsilon: float, games: int, rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Make the noisy tables of a file several times, and compute what an intruder learns from each set of tables.

    ``side`` says whether the planted record is in the file, is not counted, or has a typical value.  ``rng`` draws
    synthetic files; the noise of the tables is never seeded.

    Returns
    -------
    pandas.DataFrame
        One row for each game, that is, for each set of tables.  ``planted_{k}`` is the log likelihood ratio, from table
        k, of "the record has the planted value" over "the record is not counted"; ``typical_{k}`` is the same for the
        typical value.  ``groups_{k}`` is one number that represents the grouping of cells in table k.
        ``files_outcome`` and ``files_weight`` are the shares of a synthetic file's records whose outcome or weight is
        in the planted record's cell or in a higher cell.  A file is drawn in every tenth game; the shares are missing
        in the other games.
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
    """Return the name and the stated epsilon of every noisy table, if all tables together spend ``epsilon``."""
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
    """Return two arrays: the number of the interval (cell) of each record's outcome, and of each survey weight."""
    outcome = Cells.for_outcome(Outcome(bounds=file.bounds)).codes(design.column(file.outcome), file.outcome)
    weight = Cells.for_weights(WEIGHT_BOUNDS, file.mean_weight)
    return outcome, weight.codes_of_numbers(np.asarray(design.weights, dtype=np.float64))


def _read(tables: NoisyTables, cells: tuple[Codes, Codes]) -> list[tuple[NoisyTable, Codes, Codes]]:
    """Return, for each noisy table, the table, the row in which it counts each record, and the cell of each record."""
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
    """Draw a synthetic file, and return its shares of outcomes and of weights in or above the planted record's cell.

    These are the shares of records whose outcome, and whose weight, is in the planted record's cell (``cells`` of
    record ``row``) or in a higher cell.
    """
    fit = fit_measurements(tables, public)
    codes: dict[str, Codes] = {}
    for (name, variable), coefficients in zip(fit.variables.items(), fit.draws(1, rng)[0], strict=True):
        codes[name] = variable.probabilities(coefficients, fit.cells.cell_of_record, codes).draw(rng)
    y, w = codes.values()
    return {"files_outcome": float((y >= cells[0][row]).mean()), "files_weight": float((w >= cells[1][row]).mean())}
