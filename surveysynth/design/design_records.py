"""The records of a survey with the roles of the columns: the base class of SurveyDesign.

A role is what a column is in the sampling design, such as weights or strata.  n is the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..choices import LonelyPSU
from ..errors import InputError
from ..sampling import Joint
from ..validation import several
from .calibration import title
from .calibrations import Calibration
from .checks import PPS
from .columns import listing, names_of, nearest, numeric
from .replicates.base import Replicates
from .replicates.given import GivenReplicates
from .scan import TEXTS, Scan, mark_of
from .stages import Stage

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class DesignRecords:
    """The records of a survey and the roles of the columns.  :class:`SurveyDesign` checks and sets the attributes."""

    weights: NDArray[np.float64]
    _probs: NDArray[np.float64] | None  # inclusion probabilities, if they were given
    weights_name: str | None
    probs_name: str | None
    strata_name: str | None
    psu_names: tuple[str, ...]
    fpc_names: tuple[str, ...]
    lonely_psu: LonelyPSU
    calibration: Calibration  # the last one; without margins and numeric columns if the weights are not calibrated
    earlier_calibrations: tuple[Calibration, ...]
    base_weights: Floats  # before all calibrations
    stages: tuple[Stage, ...]
    replication: Replicates | None
    pps: PPS | None
    joint: tuple[Joint, ...]
    _frame: pd.DataFrame
    _labels: dict[str, str]
    _source: dict[str, Any] | None
    _scan: Scan | None  # source of the columns that are not in the frame yet

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {"replication": self.replication, "lonely_psu": self.lonely_psu, "pps": self.pps, "joint": self.joint}
        return partial(type(self), **self._checked_roles()), (self.frame,), kept

    def _checked_roles(self) -> dict[str, Any]:
        """Return arguments with which this design can be made again without repeating checks.

        For this, ``pps`` is left out, and ``lonely_psu`` is "remove".  The caller then sets both attributes.
        """
        roles = {role: value for role, value in self.roles().items() if role != "pps"}
        return roles | {"lonely_psu": "remove", "labels": self._labels}

    def _again(self, frame: pd.DataFrame, **roles: Any) -> Self:
        make: Any = type(self)
        design: Self = make(frame, **roles)
        return design

    def _with(self, **changed: Any) -> Self:
        """Copy the design with some attributes replaced, and without :attr:`source`.  No checks are made."""
        design = type(self).__new__(type(self))
        design.__dict__.update(self.__dict__ | {"_source": None} | changed)
        design.__dict__.pop("degf", None)  # computed once, for this design
        return design

    @property
    def frame(self) -> pd.DataFrame:
        """The records, as a data frame that the caller may change without changing the design.

        If the design was made by :meth:`scan`, all columns are read from the files.  Otherwise this takes no memory,
        since pandas copies a column only when it is changed.
        """
        return self._frame.copy(deep=False) if self._scan is None else self.select(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return tuple(self._frame.columns) if self._scan is None else self._scan.names

    @property
    def files(self) -> tuple[Path, ...]:
        """The parquet files of a design made by :meth:`scan`.  Other designs have none."""
        return () if self._scan is None else self._scan.files

    def select(self, names: Iterable[str]) -> pd.DataFrame:
        """Return some columns of the records.  A design made by :meth:`scan` reads only these columns.

        Parameters
        ----------
        names : iterable of str
            Names of the columns.

        Returns
        -------
        pandas.DataFrame
            All records, with the columns in the order of ``names``.
        """
        names = names_of([*several(names)], "names")
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            self.column(unknown[0])  # raises the error, which lists the columns
        return self._frame[[*names]] if self._scan is None else self._scan.frame(names)

    @property
    def labels(self) -> dict[str, str]:
        """Headings of columns, as a dict that the caller may change."""
        return dict(self._labels)

    @property
    def source(self) -> dict[str, Any] | None:
        """The ``file`` and the options that were given to :meth:`read`, as a dict that the caller may change.

        The value is None if the design was not made by :meth:`read`.
        """
        return deepcopy(self._source)

    @property
    def probs(self) -> NDArray[np.float64]:
        """Inclusion probabilities, 1 / weights: (n,)."""
        if self._probs is not None:
            return self._probs
        with np.errstate(divide="ignore"):  # weights may be 0
            probs = 1.0 / self.weights
        probs.flags.writeable = False
        return probs

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self._frame)

    @cached_property
    def degf(self) -> int:
        """Degrees of freedom: number of PSUs - number of strata, or the rank of the replicate weights - 1.

        Records of weight 0 do not count.
        """
        if self.replication is not None:
            return self.replication.degf(self.weights)
        first = self.stages[0]
        weighted = self.weights > 0
        if weighted.all():
            return int(first.stratum_of_unit.size - first.sampled.size)
        return int(np.unique(first.unit[weighted]).size - np.unique(first.stratum[weighted]).size)

    @property
    def multiplicand(self) -> NDArray[np.float64]:
        """Weights (n,) that are multiplied by the factors of a replicate to give replicate weights.

        They are the weights of the design, but 1 for a record of weight 0 that has another weight in some replicate.
        """
        return self.weights if self.replication is None else self.replication.multiplicand(self.weights)

    @property
    def entering(self) -> NDArray[np.bool_]:
        """True for each record with a nonzero weight or a nonzero replicate weight: (n,)."""
        return np.asarray(self.multiplicand > 0)

    @property
    def calibrated(self) -> bool:
        """True if the weights are calibrated to known totals."""
        return bool(self.calibration.margins or self.calibration.auxiliary)

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """All calibrations of the weights, in their order."""
        return (*self.earlier_calibrations, self.calibration) if self.calibrated else ()

    @property
    def clustered(self) -> bool:
        """True if some PSU has more than one record."""
        return self.stages[0].stratum_of_unit.size < self.n

    @property
    def design_columns(self) -> tuple[str, ...]:
        """Names of the columns of strata, sampling units, fpc and calibrations, without repetition."""
        known = (name for each in (self.calibration, *self.earlier_calibrations) for name in each.columns)
        names = (self.strata_name, *self.psu_names, *self.fpc_names, *known)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def roles(self) -> dict[str, Any]:
        """Return the arguments of SurveyDesign that give the columns of another data frame the same roles.

        ``joint`` is left out, because joint inclusion probabilities are an array for the records of this design only.
        ``labels`` are left out, because they are no roles.

        Returns
        -------
        dict
            Keyword arguments for ``SurveyDesign(frame, **roles)``.  The keys "weights", "probs", "strata", "psu",
            "fpc", "lonely_psu" and "poststrata" always exist, with the value None if the design has no such column.
            Other keys exist only if the design has these arguments.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> ss.SurveyDesign(design.frame.head(200), **design.roles())
        SurveyDesign: 200 records, weights 'weight', 1 strata 'field', no clusters
        """
        known = self.calibration.roles()
        roles: dict[str, Any] = {
            "weights": self.weights_name,
            "probs": self.probs_name,
            "strata": self.strata_name,
            "psu": list(self.psu_names) or None,
            "fpc": list(self.fpc_names) or None,
            "lonely_psu": self.lonely_psu,
            "poststrata": known.pop("poststrata", None),
        }
        further: dict[str, Any] = known | {"pps": self.pps}
        further |= {"earlier_calibrations": [each.roles() for each in self.earlier_calibrations] or None}
        if isinstance(self.replication, GivenReplicates):
            given = self.replication
            further |= {"replicate_weights": list(given.names), "scale": given.scale, "mse": given.mse}
            further |= {"combined": None if given.combined else False}
            further |= {"rscales": given.rscales.tolist()}
        return roles | {role: value for role, value in further.items() if value is not None}

    def column(self, name: str) -> pd.Series:
        """Return one column of the records.

        Parameters
        ----------
        name : str
            Name of a column.

        Returns
        -------
        pandas.Series (n,)
            Values of the column, as in the frame.

        Raises
        ------
        InputError
            An unknown column.  The message lists the columns.
        """
        if not isinstance(name, str):
            raise InputError(f"the name of a column was expected, a text, not {type(name).__name__}")
        self._refuse_unknown(name)
        return self.select([name])[name]

    def _refuse_unknown(self, name: str) -> None:
        if name not in self.columns:
            near = nearest(name, self.columns)
            raise InputError(f"there is no column {name!r}{near}; the file has {listing(self.columns)}")

    def typed(self, name: str) -> pd.Series:
        """Return an empty column that has the type of the column ``name``.

        A design made by :meth:`scan` reads no records for it.

        Parameters
        ----------
        name : str
            Name of a column.

        Returns
        -------
        pandas.Series (0,)
            The empty column.

        Raises
        ------
        InputError
            An unknown column.
        """
        if self._scan is None:
            return self.column(name).head(0)
        self._refuse_unknown(name)
        return self._scan.typed(name)

    def declares_levels(self, name: str) -> bool:
        """Return True if a column is categorical or has truth values, so that its type declares its levels.

        A column of texts declares no levels, even if :meth:`scan` stores it as categories.

        Parameters
        ----------
        name : str
            Name of a column.

        Returns
        -------
        bool
            True for categories and truth values, False for texts and numbers.

        Raises
        ------
        InputError
            An unknown column.
        """
        column = self.typed(name) if self._scan is not None else self.column(name)
        if isinstance(column.dtype, pd.CategoricalDtype):
            marked = self._frame.attrs.get(TEXTS, {}).get(name)
            return marked is None or marked != mark_of(column.cat.categories)
        return pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean"

    def numeric(self, name: str) -> NDArray[np.float64]:
        """Return one column as floats.

        Parameters
        ----------
        name : str
            Name of a column.

        Returns
        -------
        float array (n,)
            Values, NaN where they are missing.  The array may share the memory of the frame, so do not change it.

        Raises
        ------
        InputError
            An unknown column, or one that is not numeric.
        """
        return numeric(self.column(name), name)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        role, name = ("weights", self.weights_name) if self.weights_name else ("probs", self.probs_name)
        first = self.stages[0]
        zero = int((self.weights == 0).sum())
        parts = [f"{self.n:,} records", f"{role} {name!r}{f' ({zero:,} of them 0)' if zero else ''}"]
        parts.append(f"{first.sampled.size:,} strata {self.strata_name!r}" if self.strata_name else "no strata")
        parts.append(f"{first.stratum_of_unit.size:,} PSUs {self.psu_names[0]!r}" if self.clustered else "no clusters")
        if self.fpc_names:
            parts.append("fpc " + ", ".join(repr(c) for c in self.fpc_names))
        if self.calibrated:
            known = dict.fromkeys(
                title(names) for each in self.calibrations for names in (*each.poststrata_names, *each.auxiliary_names)
            )
            parts.append(f"weights calibrated to totals of {', '.join(known)}")
        if self.replication is not None:
            parts.append(f"{self.replication.R:,} {self.replication.method} replicates")
        if self.pps is not None:
            parts.append(f"{self.pps} variance")
        return "SurveyDesign: " + ", ".join(parts)
