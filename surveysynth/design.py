"""SurveyDesign: a data frame and the roles that its columns play in the sampling design."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import InputError, rows
from .io import read_frame

LonelyPSU = Literal["fail", "remove", "adjust", "average"]
Columns = str | Sequence[str] | None


@dataclass(frozen=True)
class Stage:
    """One stage of sampling, in the codes that variance estimation works with (read-only arrays).

    Attributes
    ----------
    stratum : int array (n,)
        Stratum of each record: the design strata at the first stage, the parent unit later.
    unit : int array (n,)
        Sampling unit of each record, numbered across strata.
    stratum_of_unit : int array (units,)
    sampled : int array (strata,)
        Units in the sample, n_h.
    fraction : float array (strata,)
        Sampling fraction f_h = n_h / N_h; 0 where the design has no fpc.
    """

    stratum: NDArray[np.intp]
    unit: NDArray[np.intp]
    stratum_of_unit: NDArray[np.intp]
    sampled: NDArray[np.intp]
    fraction: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.flags.writeable = False


class SurveyDesign:
    """A complex-survey file: records, weights and how the sample was drawn.

    The design is immutable and is validated once, here.  Weights and inclusion probabilities
    are two views of one thing: give either, read both.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row a respondent.  The index is ignored.
    weights, probs : str
        Column of survey weights (population units a record stands for), or of inclusion
        probabilities in (0, 1].  Exactly one of the two.
    strata : str, optional
        Column of first-stage strata.
    psu : str or list of str, optional
        Columns of sampling units, outermost stage first.  A label counts within its stratum
        (and within its parent unit), so labels that start again in each stratum are right.
    fpc : str or list of str, optional
        One column a stage: population sizes of the strata (in sampling units), or sampling
        fractions when all values are at most 1, as in R's ``survey``.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        What a stratum with one PSU does to a variance, as R's ``survey.lonely.psu``.  "fail"
        refuses such a design here.  A stratum that is sampled completely is never lonely.
    poststrata : str, optional
        Column of groups whose totals of the weights are known from outside the sample (the
        weights were calibrated to them); often the strata.  Standard errors count only what
        varies within them, as after R's ``postStratify``.

    Attributes
    ----------
    n : int
        Records.
    weights, probs : float array (n,)
        Read-only; ``probs = 1 / weights``.
    degf : int
        Design degrees of freedom: PSUs minus strata, as R's ``degf``.

    Raises
    ------
    InputError
        An empty frame; a missing column; one column in two roles; missing, non-numeric,
        non-finite or non-positive weights; missing values in design columns; an fpc that
        varies within its stratum or is smaller than the sample; a lonely PSU.

    Examples
    --------
    >>> frame = pd.DataFrame({"field": [1, 1, 2, 2], "wt": [10.0, 12.0, 8.0, 9.0]})
    >>> SurveyDesign(frame, weights="wt", strata="field")
    SurveyDesign: 4 records, weights 'wt', 2 strata 'field', no clusters
    """

    weights: NDArray[np.float64]
    probs: NDArray[np.float64]
    weights_name: str | None
    probs_name: str | None
    strata_name: str | None
    psu_names: tuple[str, ...]
    fpc_names: tuple[str, ...]
    lonely_psu: LonelyPSU
    poststrata_name: str | None
    poststratum: NDArray[np.intp] | None
    stages: tuple[Stage, ...]
    _frame: pd.DataFrame

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        weights: str | None = None,
        probs: str | None = None,
        strata: str | None = None,
        psu: Columns = None,
        fpc: Columns = None,
        lonely_psu: LonelyPSU = "fail",
        poststrata: str | None = None,
    ) -> None:
        psu_names, fpc_names = _names(psu, "psu"), _names(fpc, "fpc")
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame must be a pandas DataFrame, not {type(frame).__name__}")
        if (weights is None) == (probs is None):
            raise InputError("give the survey weights or the inclusion probabilities: one of weights=, probs=")
        if lonely_psu not in get_args(LonelyPSU):
            raise InputError(f"lonely_psu={lonely_psu!r} is not one of {', '.join(get_args(LonelyPSU))}")
        columns = {"weights": weights, "probs": probs, "strata": strata, "poststrata": poststrata}
        for role, given_name in columns.items():
            if not isinstance(given_name, str | None):
                raise InputError(f"{role} must be the name of one column")
        if len(fpc_names) > max(len(psu_names), 1):
            raise InputError(f"fpc names {len(fpc_names)} stages but psu names {len(psu_names)}")
        roles = {"weights": weights, "probs": probs, "strata": strata}
        roles |= {f"psu (stage {i + 1})": name for i, name in enumerate(psu_names)}
        roles |= {f"fpc (stage {i + 1})": name for i, name in enumerate(fpc_names)}
        _check_columns(frame, {role: name for role, name in roles.items() if name is not None})
        if poststrata is not None:  # which may be the strata, too
            _check_columns(frame, {"poststrata": poststrata})

        weight_name = weights if weights is not None else probs
        assert weight_name is not None
        given = _positive(frame[weight_name], weight_name, at_most_one=weights is None)
        frame = frame.reset_index(drop=True)
        stages = _stages(frame, strata, psu_names, fpc_names)
        if lonely_psu == "fail":
            _refuse_lonely(stages, strata, psu_names)

        w = given if weights is not None else 1.0 / given
        p = 1.0 / given if weights is not None else given.copy()
        poststratum = None if poststrata is None else _codes(frame[poststrata])
        for array in (w, p) if poststratum is None else (w, p, poststratum):
            array.flags.writeable = False
        self.__dict__.update(
            _frame=frame,
            weights=w,
            probs=p,
            weights_name=weights,
            probs_name=probs,
            strata_name=strata,
            psu_names=psu_names,
            fpc_names=fpc_names,
            lonely_psu=lonely_psu,
            poststrata_name=poststrata,
            poststratum=poststratum,
            stages=stages,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self.roles()), (self._frame,)

    @property
    def frame(self) -> pd.DataFrame:
        """The records, as a frame of the caller's own (pandas copies on write, so this is cheap)."""
        return self._frame.copy(deep=False)

    @classmethod
    def read(cls, path: str | Path, **roles: Any) -> SurveyDesign:
        """Read a csv, parquet, Stata, SPSS or SAS file and give its columns their roles.

        Parameters
        ----------
        path : str or Path
            .csv, .csv.gz, .parquet, .dta, .sav, .zsav, .por, .sas7bdat or .xpt
        **roles
            As for :class:`SurveyDesign`: ``weights=``, ``strata=``, ...

        Raises
        ------
        InputError
            The file is missing, of an unknown kind or unreadable, or fails validation.
        """
        return cls(read_frame(path), **roles)

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self._frame)

    @property
    def degf(self) -> int:
        """PSUs minus strata."""
        first = self.stages[0]
        return int(first.stratum_of_unit.size - first.sampled.size)

    @property
    def clustered(self) -> bool:
        """True where some PSU holds more than one record."""
        return self.stages[0].stratum_of_unit.size < self.n

    @property
    def design_columns(self) -> tuple[str, ...]:
        """Strata, PSU, fpc and post-strata columns, in that order, each once."""
        names = (self.strata_name, *self.psu_names, *self.fpc_names, self.poststrata_name)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def roles(self) -> dict[str, Any]:
        """The keyword arguments that give another frame the same roles."""
        return {
            "weights": self.weights_name,
            "probs": self.probs_name,
            "strata": self.strata_name,
            "psu": list(self.psu_names) or None,
            "fpc": list(self.fpc_names) or None,
            "lonely_psu": self.lonely_psu,
            "poststrata": self.poststrata_name,
        }

    def column(self, name: str) -> pd.Series:
        """One column, or a clear error that lists the columns there are."""
        if name not in self._frame.columns:
            raise InputError(f"there is no column {name!r}; the file has {_listing(self._frame.columns)}")
        return self._frame[name]

    def numeric(self, name: str) -> NDArray[np.float64]:
        """One column as floats, NaN where it is missing; InputError where it is not a number."""
        return _numeric(self.column(name), name)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        role, name = ("weights", self.weights_name) if self.weights_name else ("probs", self.probs_name)
        first = self.stages[0]
        parts = [f"{self.n:,} records", f"{role} {name!r}"]
        parts.append(f"{first.sampled.size:,} strata {self.strata_name!r}" if self.strata_name else "no strata")
        parts.append(f"{first.stratum_of_unit.size:,} PSUs {self.psu_names[0]!r}" if self.clustered else "no clusters")
        if self.fpc_names:
            parts.append("fpc " + ", ".join(repr(c) for c in self.fpc_names))
        if self.poststrata_name:
            parts.append(f"weights calibrated to totals of {self.poststrata_name!r}")
        return "SurveyDesign: " + ", ".join(parts)


def _names(columns: Columns, role: str) -> tuple[str, ...]:
    listed = isinstance(columns, Iterable) and not isinstance(columns, str)
    names: tuple[Any, ...] = () if columns is None else tuple(columns) if listed else (columns,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{role} must be a column name or a list of column names")
    return names


def _listing(columns: Sequence[Hashable] | pd.Index, shown: int = 12) -> str:
    names = [str(c) for c in columns]
    return ", ".join(names[:shown]) + (f", ... ({len(names)} columns)" if len(names) > shown else "")


def _check_columns(frame: pd.DataFrame, roles: dict[str, str]) -> None:
    if frame.columns.has_duplicates:
        twice = sorted({str(c) for c in frame.columns[frame.columns.duplicated()]})
        raise InputError(f"the frame has several columns of the same name: {', '.join(twice)}; rename them")
    for role, name in roles.items():
        if name not in frame.columns:
            raise InputError(f"{role}: there is no column {name!r}; the frame has {_listing(frame.columns)}")
    taken: dict[str, str] = {}
    for role, name in roles.items():
        if name in taken:
            raise InputError(f"column {name!r} is given two roles, {taken[name]} and {role}; a column has one role")
        taken[name] = role
    if len(frame) == 0:
        raise InputError("the frame is empty: a design needs at least one record")
    for role, name in roles.items():
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise InputError(
                f"{role} column {name!r} is missing in {rows(missing)}; every record needs it: fill it in or "
                "leave these records out"
            )


def _numeric(column: pd.Series, name: str) -> NDArray[np.float64]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    types = pd.api.types
    number = types.is_numeric_dtype(column.dtype) and column.dtype.kind not in "bc"
    if not (number or types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
        raise InputError(f"column {name!r} is of type {column.dtype}, not a number; convert it first")
    values = pd.to_numeric(column, errors="coerce")
    bad = (values.isna() & column.notna()).to_numpy()
    if bad.any():
        raise InputError(f"column {name!r} is not a number in {rows(bad)}; correct these or declare them missing")
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _positive(column: pd.Series, name: str, *, at_most_one: bool) -> NDArray[np.float64]:
    values = np.array(_numeric(column, name))
    infinite = ~np.isfinite(values)
    if infinite.any():
        raise InputError(f"column {name!r} is not finite in {rows(infinite)}; correct it or leave these records out")
    if (values <= 0).any():
        raise InputError(
            f"column {name!r} is zero or negative in {rows(values <= 0)}; weights and inclusion probabilities are "
            "positive: correct it or leave these records out"
        )
    if at_most_one and (values > 1).any():
        raise InputError(
            f"column {name!r} is above 1 in {rows(values > 1)}; inclusion probabilities are at most 1. "
            "Are these weights? Then pass weights= instead of probs="
        )
    return values


def _codes(*columns: Any) -> NDArray[np.intp]:
    """Number the distinct rows of one or more columns 0, 1, ... in sorted order."""
    code = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        inner, levels = pd.factorize(column, sort=False)
        combined = code * max(len(levels), 1) + inner
        code, _ = pd.factorize(combined, sort=True)
    return code


def _stages(frame: pd.DataFrame, strata: str | None, psu: tuple[str, ...], fpc: tuple[str, ...]) -> tuple[Stage, ...]:
    """Codes, sample sizes and sampling fractions of every stage that variances need.

    Later stages count only where the stage above has an fpc: without one the first stage is
    taken as drawn with replacement, and it carries the whole variance (T 2.3; R's survey).
    """
    n = len(frame)
    fractions = _fpc_are_fractions(frame, fpc)
    stratum = np.zeros(n, dtype=np.intp) if strata is None else _codes(frame[strata])
    stages: list[Stage] = []
    for level in range(max(len(psu), 1)):
        unit = _codes(stratum, frame[psu[level]]) if psu else np.arange(n, dtype=np.intp)
        first_record = np.unique(unit, return_index=True)[1]
        stratum_of_unit = stratum[first_record]
        sampled = np.bincount(stratum_of_unit)
        has_fpc = level < len(fpc)
        fraction = np.zeros(sampled.size)
        if has_fpc:
            fraction = _sampling_fraction(frame[fpc[level]], fpc[level], stratum, sampled, fractions)
        stages.append(Stage(stratum, unit, stratum_of_unit, sampled, fraction))
        if not has_fpc:
            break
        stratum = unit
    return tuple(stages)


def _fpc_are_fractions(frame: pd.DataFrame, fpc: tuple[str, ...]) -> bool:
    if not fpc:
        return False
    values = np.column_stack([_positive(frame[name], name, at_most_one=False) for name in fpc])
    if (values <= 1).all():
        return True
    below = (values < 1).any(axis=1)
    if below.any():
        raise InputError(
            f"fpc columns {', '.join(map(repr, fpc))} mix sampling fractions and population sizes: below 1 in "
            f"{rows(below)}; use fractions (all at most 1) or sizes (all at least 1)"
        )
    return False


def _sampling_fraction(
    column: pd.Series, name: str, stratum: NDArray[np.intp], sampled: NDArray[np.intp], fractions: bool
) -> NDArray[np.float64]:
    values = _numeric(column, name)
    low, high = np.full(sampled.size, np.inf), np.full(sampled.size, -np.inf)
    np.minimum.at(low, stratum, values)
    np.maximum.at(high, stratum, values)
    varies = (high - low > 1e-9 * high)[stratum]
    if varies.any():
        raise InputError(f"fpc column {name!r} varies within its stratum in {rows(varies)}; it is one number a stratum")
    too_small = (low < sampled * (1 - 1e-9))[stratum]
    if not fractions and too_small.any():
        raise InputError(
            f"fpc column {name!r} gives a population smaller than the sample in {rows(too_small)}; "
            "it counts sampling units in the population of the stratum"
        )
    fraction = low if fractions else sampled / low
    return np.where(fraction > 1 - 1e-7, 1.0, fraction)  # R's limit for a complete stratum


def _refuse_lonely(stages: tuple[Stage, ...], strata: str | None, psu: tuple[str, ...]) -> None:
    for level, stage in enumerate(stages):
        lonely = ((stage.sampled == 1) & (stage.fraction < 1))[stage.stratum]
        if lonely.any():
            above = f"a unit of {psu[level - 1]!r}" if level else f"a stratum of {strata!r}" if strata else "the sample"
            raise InputError(
                f"{above} has only one sampling unit at stage {level + 1}, so its variance cannot be estimated: "
                f"{rows(lonely)}; merge strata, or choose lonely_psu='remove', 'adjust' or 'average'"
            )
