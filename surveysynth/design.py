"""SurveyDesign: a data frame and the roles that its columns play in the sampling design."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .columns import Columns, check_columns, codes, listing, names_of, numeric, positive
from .errors import InputError
from .io import read_frame
from .stages import LonelyPSU, Stage, refuse_lonely, stages_of


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
        psu_names, fpc_names = names_of(psu, "psu"), names_of(fpc, "fpc")
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
        check_columns(frame, {role: name for role, name in roles.items() if name is not None})
        if poststrata is not None:  # which may be the strata, too
            check_columns(frame, {"poststrata": poststrata})

        weight_name = weights if weights is not None else probs
        assert weight_name is not None
        given = positive(frame[weight_name], weight_name, at_most_one=weights is None)
        frame = frame.reset_index(drop=True)
        stages = stages_of(frame, strata, psu_names, fpc_names)
        if lonely_psu == "fail":
            refuse_lonely(stages, strata, psu_names)

        w = given if weights is not None else 1.0 / given
        p = 1.0 / given if weights is not None else given.copy()
        poststratum = None if poststrata is None else codes(frame[poststrata])
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
            raise InputError(f"there is no column {name!r}; the file has {listing(self._frame.columns)}")
        return self._frame[name]

    def numeric(self, name: str) -> NDArray[np.float64]:
        """One column as floats, NaN where it is missing; InputError where it is not a number."""
        return numeric(self.column(name), name)

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
