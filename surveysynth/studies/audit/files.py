"""Files with a planted record: a record that is easy to detect, and about which an intruder asks.

- ``x10``, ``x100``: the outcome of the record with the median outcome is multiplied by 10 or 100;
- ``heavy``: the outcome and the survey weight of this record are multiplied by 10;
- ``alone``: the outcome is multiplied by 10, and the record is the only one in its cell of the predictors;
- ``two-modes``: one half of the other records has outcomes from the lowest tenth of the file, the other half from the
  highest tenth.  The two modes are equally large, and the planted record, in the upper mode, decides between them.

Each file also has a version with a typical value instead of the planted value: the outcome and weight that the record
has in the original file or, for two modes, an outcome of the lower mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...choices import Planted
from ...design.formula import formula_columns
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...validation import positive, whole
from ..base import seed_of
from ..coverage.populations import workers as census

Floats = NDArray[np.float64]

ALONE = "alone"  # the column that puts one record in a cell of its own
FACTORS: dict[Planted, float] = {"x10": 10.0, "x100": 100.0, "heavy": 10.0, "alone": 10.0}
HEAVY = 10.0  # factor of the weight of a heavy record
TAIL = 0.1  # share of the file from which each of the two modes is made
FORMULA = "income ~ 1"  # few tables, so that games are fast and each table has a large part of epsilon
FILE = 1  # key of the seed of the sample


@dataclass(frozen=True, eq=False, repr=False)  # a repr would show confidential values
class AuditedFile:
    """A file in which a record can be planted.

    Attributes
    ----------
    name : str
    frame : pandas.DataFrame
    weights : str
        Column of survey weights.
    formula : str
        Formula with one numeric outcome and public predictors.
    bounds : (float, float)
        Public lowest and highest outcome.
    population_total : float
        Public number of population units.
    """

    name: str
    frame: pd.DataFrame
    weights: str
    formula: str
    bounds: tuple[float, float]
    population_total: float

    @property
    def outcome(self) -> str:
        """Name of the outcome."""
        return self.formula.split("~")[0].strip()


@dataclass(frozen=True, eq=False, repr=False)
class PlantedFile:
    """A file with the planted record, and the same file with a typical record in its place.

    Attributes
    ----------
    design : SurveyDesign
        The file with the planted record.
    typical : SurveyDesign
        The file with the typical record.
    row : int
        Row of the planted record, from 0.
    formula, outcome : str
    bounds, population_total
        See :class:`AuditedFile`.
    """

    design: SurveyDesign
    typical: SurveyDesign
    row: int
    formula: str
    outcome: str
    bounds: tuple[float, float]
    population_total: float

    @property
    def mean_weight(self) -> float:
        """The public mean survey weight: the population total divided by the number of records."""
        return self.population_total / self.design.n


def workers(n: int, seed: int) -> AuditedFile:
    """Draw a sample of n workers of the 2000 census, from the demonstration data.

    Raises
    ------
    InputError
        The extra ``demo`` is not installed, or n is not a positive whole number.
    """
    whole(n, "n")
    population = census()
    frame, total = population.sample(n, seed_of(seed, FILE)).frame, float(len(population.frame))
    return AuditedFile("workers", frame, "weight", FORMULA, population.bounds, total)


def own(
    frame: pd.DataFrame, formula: str, *, weights: str, bounds: tuple[float, float], population_total: float
) -> AuditedFile:
    """Prepare an agency's own file for an audit.  The results of this audit are not for publication.

    Raises
    ------
    InputError
        The formula has no outcome, or a column does not exist.  A column is called "alone", which is the name of a
        column that the audit adds.  Some outcomes are missing or not positive, so that ten times an outcome would not
        be larger.  The total is not a positive number.
    """
    total = positive(population_total, "population_total")
    made = AuditedFile("own", frame, weights, formula, bounds, total)
    if "~" not in formula:
        raise InputError("formula names the outcome, too: 'income ~ region'")
    missing = [name for name in (made.outcome, weights, *formula_columns(formula.split("~")[1])) if name not in frame]
    if missing:
        raise InputError(f"{', '.join(missing)}: no such columns in the file")
    if ALONE in frame:
        raise InputError(f"{ALONE!r} is the audit's own column: rename it")
    y = SurveyDesign(frame, weights=weights).numeric(made.outcome)
    if not (y > 0).all():  # also if some are missing
        raise InputError(f"{made.outcome}: all outcomes must be known and positive, so that ten times as much is more")
    return made


def plant(file: AuditedFile, how: Planted) -> PlantedFile:
    """Make the file with a planted record of the given kind, and the same file with a typical record."""
    y = SurveyDesign(file.frame, weights=file.weights).numeric(file.outcome)
    row = int(np.argsort(y, kind="stable")[y.size // 2])
    if how == "two-modes":
        y, planted = two_modes(y, row)
    else:
        planted = FACTORS[how] * float(y[row])
    formula, frame = file.formula, file.frame
    if how == "alone":
        formula, frame = f"{formula} + {ALONE}", frame.assign(**{ALONE: (np.arange(y.size) == row).astype(np.float64)})

    def design(value: float, times: float) -> SurveyDesign:
        here = np.arange(y.size) == row
        weights = np.where(here, times, 1.0) * SurveyDesign(file.frame, weights=file.weights).weights
        columns = {file.outcome: np.where(here, value, y), file.weights: weights}
        return SurveyDesign(frame.assign(**columns), weights=file.weights)

    return PlantedFile(
        design(planted, HEAVY if how == "heavy" else 1.0), design(float(y[row]), 1.0), row, formula, file.outcome,
        file.bounds, file.population_total,
    )  # fmt: skip


def two_modes(y: Floats, row: int) -> tuple[Floats, float]:
    """Return outcomes with two modes, and a value in the upper mode for the planted record.

    ``y`` are the file's outcomes, and ``row`` is the row of the planted record.  In the returned outcomes this record
    has a typical value, which is in the lower mode.  The other records are divided equally between the modes; if n is
    even, the upper mode has one more of them.
    """
    n = y.size
    ordered, size = np.sort(y), max(int(TAIL * n), 1)
    low, high = ordered[:size], ordered[-size:]
    others = np.delete(np.arange(n), row)
    made = np.empty(n)
    made[others] = np.where(np.arange(n - 1) % 2 == 1, np.resize(low, n - 1), np.resize(high, n - 1))
    made[row] = np.median(low)
    return made, float(np.median(high))
