"""SurveyDesign: a data frame and the roles of its columns in the sampling design."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..choices import LonelyPSU
from ..errors import InputError
from ..sampling import Joint, SampleSize, draw
from ..validation import as_list, check_keywords, check_seed, one_of, several
from .calibration import (
    Bounds,
    Distance,
    KnownTotals,
    Ratio,
    Totals,
    auxiliary_of,
    calibrated,
    margins_of,
    rake,
    title,
    trimmed,
)
from .checks import (
    NEED_JOINT,
    PPS,
    check_pps,
    check_roles,
    check_variance,
    joint_of,
    labels_of,
    margin_names,
    replicate_names,
    role_columns,
)
from .columns import Columns, check_columns, in_usual_floats, listing, names_of, nearest, numeric, positive
from .derived import RowWise, row_wise
from .missing_codes import MissingCodes
from .read import read_labelled
from .replicates.balanced import balanced
from .replicates.base import Replicates
from .replicates.calibrated import calibrated_replicates
from .replicates.given import GivenReplicates
from .replicates.given import given as given_replicates
from .replicates.jackknife import jackknife
from .replicates.preston import preston
from .replicates.rao_wu import rao_wu
from .replicates.successive import successive_differences
from .scan import TEXTS, Scan, Source, mark_of
from .stages import Stage, refuse_lonely, stages_of

MOST_JOINT = 5_000  # records of a stratum whose joint probabilities, a square matrix, are worth having
COLUMN_ROLES = (  # arguments that name columns
    "weights", "probs", "strata", "psu", "fpc", "poststrata", "auxiliary", "base_weights", "calibrated_weights",
    "replicate_weights",
)  # fmt: skip
VARIANCE_OF: dict[str, PPS] = {  # method of selection
    "tille": "sen_yates_grundy",
    "maximum_entropy": "sen_yates_grundy",
    "poisson": "poisson",
    "brewer": "hajek",
    "systematic": "hajek",
    "random_systematic": "hajek",
}
Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class SurveyDesign:
    """A complex-survey file: records, weights and the sampling design.

    The design is immutable and validated once, here.  Weights and inclusion probabilities are
    inverse to each other: give either, read both.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row a respondent.  The index is ignored.
    weights, probs : str
        Column of survey weights (population units represented by a record), or of inclusion
        probabilities in (0, 1].  Exactly one of the two.
    strata : str, optional
        Column of first-stage strata.
    psu : str or list of str, optional
        Columns of sampling units, outermost stage first.  A label counts within its stratum
        (and within its parent unit), so labels may start again in each stratum.
    fpc : str or list of str, optional
        One column a stage: population sizes of the strata (in sampling units), or sampling
        fractions if all values are at most 1, as in R's ``survey``.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        Variance of a stratum with one PSU, as R's ``survey.lonely.psu``.  "fail" refuses such a
        design here; "remove" adds nothing; "adjust" centres the PSU's total at the mean of all
        PSUs; "average" adds the mean variance of the other strata.  A stratum that is sampled
        completely is never lonely.
    poststrata : str, or list of margins, optional
        Column of groups to whose known totals the weights were calibrated; often the strata.
        Standard errors count only the variation within them, as after R's ``postStratify``.
        Several margins were raked; a margin may be several columns, crossed, or none: the whole
        population.  :meth:`calibrate` makes such a design.
    auxiliary : str or list of str, optional
        Columns of numbers to whose totals the weights were also calibrated, as after R's ``calibrate``.
    base_weights : str, optional
        Column of the weights before calibration.
    calibrated_weights : str, optional
        Column of the calibrated weights, if they were trimmed afterwards (:meth:`trim`).
    replicate_weights : str or list of str, optional
        Columns of replicate weights of the file, or patterns of their names: ``"WTREP[0-9]+"`` is every column without
        another role whose whole name matches.  They may be 0 or negative.  Variances are then
        ``scale * sum(rscales * (theta_r - centre)**2)``.  :meth:`replicates` makes replicates for a file without them.
    combined : bool
        Replicate weights are full weights (True), or factors of the weights (False): R's ``combined.weights``.  Columns
        on the other scale are refused, except for weights near 1, where the two cannot be distinguished.
    scale : float, optional
        Default 1 / R, as for BRR and bootstrap weights; Fay's need 1 / (R (1 - rho)^2), JK1 (R - 1) / R, successive
        differences (the American Community Survey's) 4 / R.
    rscales : sequence of float (R,), optional
        Default 1 each; for JKn (n_h - 1) / n_h of the stratum whose unit is left out, with ``scale=1``.
    mse : bool
        Centre at the estimate (True), or at the mean of the replicates (False, R's default).
    pps : {"sen_yates_grundy", "horvitz_thompson", "hajek", "poisson"}, optional
        Variance of an element sample drawn without replacement and with unequal probabilities; default: as if
        drawn with replacement (Hu, Savitsky & Williams 2022a, section 2.3).  The first two need ``joint``; "hajek" is
        an approximation for samples of fixed size, "poisson" is for units that were selected independently.
    joint : float array (n, n), optional
        Joint inclusion probabilities of the records, with inclusion probabilities on the diagonal; or
        ``joint`` of a design with the same records.
    labels : mapping of column to text, optional
        Headings of columns in tables.  They are public: a release publishes those of its columns.

    Attributes
    ----------
    n : int
        Number of records.
    weights, probs : float array (n,)
        Read-only; ``probs = 1 / weights``.  Records of weight 0 count among the units of their stratum and enter no
        estimate, as in R; they are not synthesized.
    degf : int
        Design degrees of freedom: PSUs minus strata, or the rank of replicate weights minus 1, as
        R's ``degf``.
    labels : dict of str to str
        Headings of those columns that have one.
    source : dict, optional
        The ``file`` and the given options of :meth:`read`.  Copies and designs made from this one lack it.

    Raises
    ------
    InputError
        An empty frame; an unknown column; one column in two roles; weights that are missing, non-numeric, non-finite,
        negative, 0 in all records or 0 under ``pps``; missing values in design columns; an fpc that varies within its
        stratum or is smaller than the sample; a lonely PSU; replicate weights, joint probabilities or settings that do
        not fit the file or each other.

    Examples
    --------
    >>> frame = pd.DataFrame({"field": [1, 1, 2, 2], "wt": [10.0, 12.0, 8.0, 9.0]})
    >>> ss.SurveyDesign(frame, weights="wt", strata="field")
    SurveyDesign: 4 records, weights 'wt', 2 strata 'field', no clusters
    """

    weights: NDArray[np.float64]
    _probs: NDArray[np.float64] | None  # if they were given
    weights_name: str | None
    probs_name: str | None
    strata_name: str | None
    psu_names: tuple[str, ...]
    fpc_names: tuple[str, ...]
    lonely_psu: LonelyPSU
    poststrata_names: tuple[tuple[str, ...], ...]
    margins: tuple[Codes, ...]
    auxiliary_names: tuple[str, ...]
    auxiliary: tuple[Floats, ...]
    base_name: str | None
    base_weights: Floats
    calibrated_name: str | None
    calibrated_weights: Floats
    stages: tuple[Stage, ...]
    replication: Replicates | None
    pps: PPS | None
    joint: tuple[Joint, ...]
    _frame: pd.DataFrame
    _labels: dict[str, str]
    _source: dict[str, Any] | None
    _scan: Scan | None  # source of the columns that are not in the frame yet

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
        poststrata: str | Sequence[str | Sequence[str]] | None = None,
        auxiliary: Columns = None,
        base_weights: str | None = None,
        calibrated_weights: str | None = None,
        replicate_weights: str | Sequence[str] | None = None,
        combined: bool = True,
        scale: float | None = None,
        rscales: Sequence[float] | None = None,
        mse: bool = True,
        pps: PPS | None = None,
        joint: ArrayLike | tuple[Joint, ...] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        psu_names, fpc_names, poststrata_names = names_of(psu, "psu"), names_of(fpc, "fpc"), margin_names(poststrata)
        one_of(lonely_psu, get_args(LonelyPSU), "lonely_psu")
        single = {"weights": weights, "probs": probs, "strata": strata, "base_weights": base_weights}
        single["calibrated_weights"] = calibrated_weights
        roles = check_roles(frame, single, psu_names, fpc_names)

        weight_name = cast("str", probs if weights is None else weights)
        or_zero = weights is not None and pps is None
        given = positive(frame[weight_name], weight_name, at_most_one=weights is None, or_zero=or_zero)
        frame = in_usual_floats(frame).reset_index(drop=True)
        stages = stages_of(frame, strata, psu_names, fpc_names)
        if lonely_psu == "fail" and pps is None:
            refuse_lonely(stages, strata, psu_names)
        w = given if weights is not None else 1.0 / given
        further = {"at_most_one": False, "or_zero": or_zero}
        base = w if base_weights is None else positive(frame[base_weights], base_weights, **further)
        met = w if calibrated_weights is None else positive(frame[calibrated_weights], calibrated_weights, **further)
        margins = margins_of(frame, poststrata_names)  # which may also be the strata
        auxiliary_names = names_of(auxiliary, "auxiliary")
        numbers = auxiliary_of(frame, auxiliary_names)
        replication = None
        if replicate_weights is not None:
            names = replicate_names(replicate_weights, frame.columns, roles)
            replication = given_replicates(frame, names, w, scale, rscales, mse, combined)
        check_variance(pps, joint, replicate_weights, scale, rscales, combined)
        known = () if joint is None else joint_of(joint, 1 / base)
        if pps is not None:
            check_pps(pps, known, stages, 1 / base, lonely_psu)
        for array in (w, given, base, met, *margins, *numbers):
            array.flags.writeable = False
        self.__dict__.update(
            _frame=frame,
            _labels=labels_of(frame, labels),
            _source=None,
            _scan=None,
            weights=w,
            _probs=None if probs is None else given,
            weights_name=weights,
            probs_name=probs,
            strata_name=strata,
            psu_names=psu_names,
            fpc_names=fpc_names,
            lonely_psu=lonely_psu,
            poststrata_names=poststrata_names,
            margins=margins,
            auxiliary_names=auxiliary_names,
            auxiliary=numbers,
            base_name=base_weights,
            base_weights=base,
            calibrated_name=calibrated_weights,
            calibrated_weights=met,
            stages=stages,
            replication=replication,
            pps=pps,
            joint=known,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a SurveyDesign cannot be changed; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {"replication": self.replication, "lonely_psu": self.lonely_psu, "pps": self.pps, "joint": self.joint}
        return partial(type(self), **self._checked_roles()), (self.frame,), kept

    def _checked_roles(self) -> dict[str, Any]:
        """Roles and labels for making this design again, without pps= and its checks, which have passed."""
        roles = {role: value for role, value in self.roles().items() if role != "pps"}
        return roles | {"lonely_psu": "remove", "labels": self._labels}

    def _with(self, **changed: Any) -> SurveyDesign:
        """The same design with some attributes replaced."""
        design = type(self).__new__(type(self))
        design.__dict__.update(self.__dict__ | {"_source": None} | changed)
        design.__dict__.pop("degf", None)  # computed once, for this design
        return design

    @property
    def frame(self) -> pd.DataFrame:
        """The records, as a frame of the caller's own (pandas copies on write, so this is cheap).

        A design by :meth:`scan` reads every column for it.
        """
        return self._frame.copy(deep=False) if self._scan is None else self.select(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, a tuple of str in the order of the file."""
        return tuple(self._frame.columns) if self._scan is None else self._scan.names

    @property
    def files(self) -> tuple[Path, ...]:
        """Parquet files of :meth:`scan`; none if the records are in memory."""
        return () if self._scan is None else self._scan.files

    def select(self, names: Iterable[str]) -> pd.DataFrame:
        """Some columns of the records; a design by :meth:`scan` reads no others.

        Parameters
        ----------
        names : iterable of str
            Columns of the file.

        Returns
        -------
        pandas.DataFrame (n, names)
            In the order of ``names``.
        """
        names = names_of([*several(names)], "names")
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            self.column(unknown[0])  # whose error lists the columns
        return self._frame[[*names]] if self._scan is None else self._scan.frame(names)

    @property
    def labels(self) -> dict[str, str]:
        """Headings of columns, a dict of the caller's own."""
        return dict(self._labels)

    @property
    def source(self) -> dict[str, Any] | None:
        """The file and options of :meth:`read`, a dict of the caller's own; None for other designs."""
        return deepcopy(self._source)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        missing_codes: MissingCodes | None = None,
        encoding: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        text: Columns = None,
        na: Columns = None,
        labels: Mapping[str, str] | None = None,
        **roles: Any,
    ) -> SurveyDesign:
        """Read a csv, parquet, Stata, SPSS or SAS file and give its columns their roles.

        Value labels become categories, and variable labels ``labels``.

        Parameters
        ----------
        path : str or Path
            .csv, .csv.gz, .parquet, .dta, .sav, .zsav, .por, .sas7bdat or .xpt
        missing_codes : list of numbers and texts, or mapping of column to such a list, optional
            Codes for missing values, in every column or in those named: 98, or its label "refused".
        encoding : str, optional
            Encoding of texts if the file is not utf-8 (csv) or declares a wrong one (Stata, SPSS, SAS): "cp1252".
        separator : str, optional
            Separator of the columns of a csv file; by default it is found from the first line.
        decimal, thousands : str, optional
            The marks in the numbers of a csv file: "." or ",", and between thousands also " " or "'".  By default they
            are found from all columns; a file whose numbers could be read in two ways is refused.
        text : str or list of str, optional
            Columns of a csv file that are read as texts.  So are columns with leading zeros: "01" and "1" are two
            codes.
        na : str or list of str, optional
            All texts of a csv file that are missing values, besides the empty one.  Default "NA", ".", "null" and the
            like among numbers, and none in columns of texts, where they may be answers; a warning says so.
        labels : mapping of column to text, optional
            Further headings, or replacements of the file's.
        **roles
            As for :class:`SurveyDesign`: ``weights=``, ``strata=``, ...

        Raises
        ------
        InputError
            The file does not exist, is of an unknown kind, in another encoding or unreadable, or fails validation; rows
            of a csv file with more fields than columns; columns of one name; numbers that contradict each other, or
            could be read in two ways; missing codes of an unknown column.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 99, 28, 40], "wt": [30.0, 20.0, 25.0, 25.0]})
        >>> frame.to_csv("survey.csv", index=False)
        >>> design = ss.SurveyDesign.read("survey.csv", weights="wt", missing_codes={"income": [99]})
        >>> design
        SurveyDesign: 4 records, weights 'wt', no strata, no clusters
        >>> design.frame["income"].tolist()
        [21.0, nan, 28.0, 40.0]
        """
        check_keywords(cls.read, roles, cls, without=["frame"])
        missing_codes = list(missing_codes) if isinstance(missing_codes, Iterator) else missing_codes
        frame, found = read_labelled(path, missing_codes, encoding, separator, decimal, thousands, text, na)
        given = {"missing_codes": missing_codes, "encoding": encoding, "separator": separator, "decimal": decimal}
        given |= {"thousands": thousands, "text": None if text is None else as_list(text)}
        given |= {"na": None if na is None else as_list(na)}
        given |= {"labels": dict(labels) if isinstance(labels, Mapping) else None}
        source = {"file": str(path)} | {option: value for option, value in given.items() if value is not None}
        return cls(frame, labels=found | labels_of(frame, labels), **roles)._with(_source=deepcopy(source))

    @classmethod
    def scan(cls, source: Source, *, labels: Mapping[str, str] | None = None, **roles: Any) -> SurveyDesign:
        """A design over parquet files of any size, which reads only the columns in use, block by block.

        Texts become categories of one to four bytes a record; otherwise the result is that of :meth:`read`.

        Parameters
        ----------
        source : str, Path or list of such
            A .parquet file; a folder of them, in the order of their names; or a list of files.
            :func:`surveysynth.convert` converts csv, Stata, SPSS and SAS files.
        labels : mapping of column to text, optional
            Headings of columns, which precede those of the files.
        **roles
            As for :class:`SurveyDesign`: ``weights=``, ``strata=``, ...

        Returns
        -------
        SurveyDesign
            A design of all records of the files, in their order.

        Raises
        ------
        InputError
            As :class:`SurveyDesign`; a file does not exist or is not parquet, or the columns of files differ.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> frame.to_parquet("incomes.parquet")
        >>> ss.SurveyDesign.scan("incomes.parquet", weights="wt").columns
        ('income', 'wt')
        """
        check_keywords(cls.scan, roles, cls, without=["frame"])
        files = Scan(source)
        asked = [name for role, columns in roles.items() if role in COLUMN_ROLES for name in role_columns(columns)]
        if roles.get("replicate_weights") is not None:
            others = {role: name for role, name in roles.items() if isinstance(name, str) and role in COLUMN_ROLES[:-1]}
            patterns = role_columns(roles["replicate_weights"])
            asked = [name for name in asked if name not in patterns]
            roles |= {"replicate_weights": replicate_names(patterns, files.names, others)}
            asked += roles["replicate_weights"]
        there = [name for name in dict.fromkeys(asked) if name in files.names]
        if len(there) < len(set(asked)) or not there or not files.n:  # raises the error
            cls(pd.DataFrame(columns=[*files.names]), **roles)
        named = files.headings | labels_of(pd.DataFrame(columns=[*files.names]), labels)
        return cls(files.frame(there), **roles)._with(_scan=files, _labels=named)

    def labelled(self, labels: Mapping[str, str]) -> SurveyDesign:
        """The design with new headings of columns.

        Parameters
        ----------
        labels : mapping of column to text
            Headings of some columns; other columns keep theirs.

        Returns
        -------
        SurveyDesign
            With the same records, weights and roles.

        Raises
        ------
        InputError
            An unknown column.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> ss.SurveyDesign(frame, weights="wt").labelled({"income": "Income (1,000 dollars)"}).labels
        {'income': 'Income (1,000 dollars)'}
        """
        named = self._labels | labels_of(pd.DataFrame(columns=[*self.columns]), labels)
        return self._with(_labels=named, _source=self._source)

    def assign(self, **functions: RowWise) -> SurveyDesign:
        """The design with new columns, each computed record by record from the others.

        Parameters
        ----------
        **functions
            ``poor=lambda f: f.income < 10_859``: new column and row-wise function of the frame, which may use the new
            columns before it.

        Returns
        -------
        SurveyDesign
            With the same records, weights and roles.

        Raises
        ------
        InputError
            The column exists; an argument is not a function of the frame, stops, does not give one value a record, or
            lets a value depend on other records or their order, as far as a second computation on half of them shows.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").assign(poor=lambda f: f.income < 25)
        >>> ss.estimate(design, "poor", statistic="proportion")[["category", "estimate"]]
          category  estimate
        0    False       0.8
        1     True       0.2
        """
        frame = self.frame
        for name, function in functions.items():
            if name in frame.columns:
                raise InputError(f"the file has a column {name!r} already; give the new one another name")
            frame = frame.assign(**{name: row_wise(frame, function, name)})
        return self._with(_frame=frame, _scan=None)

    def calibrate(self, totals: Totals, distance: Distance = "raking", bounds: Bounds | None = None) -> SurveyDesign:
        """The design with weights calibrated to known totals: post-stratified, raked, or by regression (GREG).

        Standard errors then use residuals of the linearized values from the groups and numbers (R's
        ``postStratify``, ``calibrate``).  Each replicate, if any, is calibrated to the same totals.

        Source: Deville & Sarndal 1992, cases 1, 2, 6 and 7.

        Parameters
        ----------
        totals : mapping of column (or tuple of columns, crossed) to a mapping of category to total, or to a number
            ``{"sex": {"f": 51e6, "m": 49e6}}`` post-stratifies, several columns are raked.  A number is the total of
            a numeric column, ``{"income": 3.1e12}``; that of ``()`` is the size of the population, which totals of
            categories imply.
        distance : {"raking", "linear", "logit"}
            Distance between new and old weights to minimize.  All three give nearly the same standard errors; weights
            stay positive under raking and within bounds under logit, and linear takes one step.
        bounds : (float, float), optional
            The least and the largest ratio of new to old weights, around 1: (0.5, 2).  The logit needs them.

        Returns
        -------
        SurveyDesign
            The weights are in a new column, ``<weights>_calibrated``; the old ones stay, as
            ``base_weights``.

        Raises
        ------
        InputError
            Categories without a total or without a record; totals that are not finite, not positive for categories,
            contradict each other, or cannot be met by positive weights within the bounds; weights that are already
            calibrated.

        Examples
        --------
        >>> frame = pd.DataFrame({"sex": list("ffmm"), "income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").calibrate({"sex": {"f": 60, "m": 40}})
        >>> design
        SurveyDesign: 4 records, weights 'wt_calibrated', no strata, no clusters, weights calibrated to totals of 'sex'
        >>> design.weights
        array([24., 36., 20., 20.])
        """
        if self.calibrated:
            raise InputError("the weights are calibrated already; calibrate the design that they came from")
        ratio, known = Ratio.checked(distance, bounds), KnownTotals.checked(self.frame, totals)
        if distance == "raking" and bounds is None and not known.numbers and self.replication is None:
            w = rake(self.weights, known.margins, known.margin_totals)
        else:
            w = calibrated(self.weights, known.X, known.totals, ratio)
        replication = self.replication
        if replication is not None:
            replication = calibrated_replicates(replication, self.weights, w, known.X, known.totals, ratio)
        column, base = f"{self.weights_name or 'weight'}_calibrated", self.weights_name or "weight"
        taken = {column} if self.weights_name else {column, base}
        if taken & set(self.columns):
            raise InputError(f"the frame has a column {column!r} or {base!r} already, where the weights go: rename it")
        frame = self.frame.assign(**{base: self.weights, column: w})
        roles = self._checked_roles() | {"weights": column, "probs": None, "base_weights": base}
        roles |= {"poststrata": list(known.groups), "auxiliary": list(known.numbers)}
        for role in ("replicate_weights", "combined", "scale", "rscales", "mse"):  # before calibration
            roles.pop(role, None)
        kept = {"lonely_psu": self.lonely_psu, "pps": self.pps, "joint": self.joint, "replication": replication}
        return type(self)(frame, **roles)._with(**kept)

    def trim(self, low: float = 0.0, high: float = np.inf, *, strict: bool = False) -> SurveyDesign:
        """The design with weights truncated to limits, and the excess spread equally over the other weights.

        The sum of the weights stays (R's ``trimWeights``); totals of a calibration are no longer met.
        Bounds of :meth:`calibrate` keep both, and trimmed weights can be calibrated.

        Parameters
        ----------
        low, high : float
            Limits, in population units.
        strict : bool
            Repeat until no weight is outside the limits.

        Returns
        -------
        SurveyDesign
            The weights are in a new column, ``<weights>_trimmed``.

        Raises
        ------
        InputError
            Limits that are not numbers or do not contain the mean weight; a design with replicate weights, weights of 0
            or joint probabilities.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [10.0, 10.0, 20.0, 60.0]})
        >>> ss.SurveyDesign(frame, weights="wt").trim(high=45).weights
        array([15., 15., 25., 45.])
        """
        if self.replication is not None or self.pps is not None:
            raise InputError("weights of a design with replicates or pps= are not trimmed: trim the design before")
        if not self.weights.all():
            raise InputError("weights of which some are 0 are not trimmed: what is cut off would go to these, too")
        if not all(isinstance(limit, (int, float)) and not isinstance(limit, bool) for limit in (low, high)):
            raise InputError("low and high must be numbers")
        if not low < self.weights.mean() < high:
            raise InputError("the mean of the weights must be between low and high, or their sum cannot stay")
        column = f"{self.weights_name or 'weight'}_trimmed"
        if column in self.columns:
            raise InputError(f"the frame has a column {column!r} already, where the weights go: rename it")
        roles = self._checked_roles() | {"weights": column, "probs": None}
        met = self.weights_name or "weight"
        frame = self.frame.assign(**{met: self.weights, column: trimmed(self.weights, low, high, strict)})
        if self.calibrated:
            roles["calibrated_weights"] = met
        return type(self)(frame, **roles)._with(lonely_psu=self.lonely_psu)

    def replicates(
        self,
        method: str = "preston",
        *,
        R: int | None = None,
        rho: float | None = None,
        mse: bool = True,
        seed: int | None = None,
    ) -> SurveyDesign:
        """The design with replicate weights, from which :func:`surveysynth.estimate` then computes variances.

        Parameters
        ----------
        method : {"preston", "rao_wu", "JK1", "JKn", "BRR", "Fay", "successive_differences"}
            Preston's (2009) rescaled bootstrap for any design, fpc and later stages included; Rao & Wu's (1988)
            bootstrap of PSUs with replacement; the jackknife without and with strata; balanced repeated replication of
            two PSUs a stratum, and Fay's method; successive differences of PSUs that were drawn systematically in the
            order of the file (Fay & Train 1995).
        R : int, optional
            Number of replicates of the bootstraps, and the most for successive differences; default 100.  The other
            methods determine it.
        rho : float, optional
            For ``Fay``: weights are multiplied by rho or 2 - rho; default 0.5.
        mse : bool
            Squares are taken around the estimate (True), or around the mean of the replicates (False, R's default);
            those of a bootstrap are then divided by R - 1, not R.
        seed : int, optional
            Seed of the bootstraps; by default replicates come from the operating system's entropy.

        Returns
        -------
        SurveyDesign
            With the same records, weights and roles.

        Raises
        ------
        InputError
            An unknown method; ``R``, ``rho`` or ``seed`` without effect on the method; a method that the design does
            not allow: strata with one PSU, or not two for BRR; a design with replicates, calibrated weights or joint
            probabilities.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").replicates("JK1")
        >>> design
        SurveyDesign: 4 records, weights 'wt', no strata, no clusters, 4 JK1 replicates
        >>> ss.estimate(design, "income")[["estimate", "se", "df"]].round(3)
           estimate     se   df
        0      31.4  3.623  3.0
        """
        one_of(method, ("preston", "rao_wu", "JK1", "JKn", "BRR", "Fay", "successive_differences"), "method")
        if not isinstance(mse, bool):
            raise InputError("mse must be True or False")
        check_seed(seed)
        bootstraps = ("preston", "rao_wu")
        methods = {"R": (*bootstraps, "successive_differences"), "rho": ("Fay",), "seed": bootstraps}
        for name, value in {"R": R, "rho": rho, "seed": seed}.items():
            if value is not None and method not in methods[name]:
                needed = " or ".join(map(repr, methods[name]))
                raise InputError(f"{name}= goes with method={needed}: it has no effect on {method!r}")
        R = 100 if R is None else R
        if self.replication is not None:
            raise InputError("replicates cannot be made of a design with replicate weights")
        if self.calibrated:
            raise InputError(
                "replicates cannot be made of a design with calibrated weights: make them of the design before, and "
                "calibrate that"
            )
        if self.pps is not None:
            raise InputError(f"replicates take PSUs as drawn with equal probabilities, not as pps={self.pps!r} does")
        if method in bootstraps:
            bootstrap = preston if method == "preston" else rao_wu
            made: Replicates = bootstrap(self.stages, R, np.random.default_rng(seed), self.lonely_psu)
        elif method in ("JK1", "JKn"):
            made = jackknife(self.stages, method == "JKn", self.lonely_psu)
        elif method == "successive_differences":
            made = successive_differences(self.stages, R, self.lonely_psu)
        else:
            made = balanced(self.stages, rho=0.0 if method == "BRR" else 0.5 if rho is None else rho)
        return self._with(replication=made if mse else made.around_their_mean())

    @classmethod
    def from_fpc(cls, frame: pd.DataFrame, fpc: str | Sequence[str], **roles: Any) -> SurveyDesign:
        """A design with weights from its fpc, the product of N / n over the stages, as in R without weights.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row a respondent.
        fpc : str or list of str
            One column for each stage of ``psu``, as for :class:`SurveyDesign`; units of the last stage are taken whole.
        **roles
            As for :class:`SurveyDesign`, without ``weights`` and ``probs``.

        Returns
        -------
        SurveyDesign
            A design with a new column ``weight``.

        Raises
        ------
        InputError
            As :class:`SurveyDesign`; an fpc of fewer stages than ``psu``; a frame that has a column ``weight``.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "people": [100, 100, 100, 100]})
        >>> design = ss.SurveyDesign.from_fpc(frame, fpc="people")
        >>> design.weights
        array([25., 25., 25., 25.])
        """
        check_keywords(cls.from_fpc, roles, cls)
        plain = cls._equally_weighted(frame, {"fpc": fpc} | roles)
        if len(plain.fpc_names) < max(len(plain.psu_names), 1):
            raise InputError("weights from the fpc need one fpc column for every stage that psu names")
        fraction = np.prod([stage.fraction[stage.stratum] for stage in plain.stages], axis=0)
        return cls(frame.assign(weight=1 / fraction), weights="weight", fpc=fpc, **roles)

    @classmethod
    def unweighted(cls, frame: pd.DataFrame, **roles: Any) -> SurveyDesign:
        """A design with equal weights of 1, in a new column ``weight``.

        Means and totals then are those of the records, as in R's ``svydesign`` without weights, which warns.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row a respondent.
        **roles
            As for :class:`SurveyDesign`, without ``weights`` and ``probs``.

        Returns
        -------
        SurveyDesign
            A design with a new column ``weight`` of ones.

        Raises
        ------
        InputError
            As :class:`SurveyDesign`; a frame that has a column ``weight``.

        Examples
        --------
        >>> ss.SurveyDesign.unweighted(pd.DataFrame({"income": [21, 34, 28, 40]}))
        SurveyDesign: 4 records, weights 'weight', no strata, no clusters
        """
        check_keywords(cls.unweighted, roles, cls)
        return cls._equally_weighted(frame, roles)

    @classmethod
    def _equally_weighted(cls, frame: pd.DataFrame, roles: Mapping[str, Any]) -> SurveyDesign:
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame must be a pandas DataFrame, not {type(frame).__name__}")
        if {"weights", "probs"} & roles.keys():
            raise InputError("weights are made here; with weights= or probs= use SurveyDesign(...)")
        if "weight" in frame.columns:
            raise InputError("the frame has a column 'weight', where the weights go: rename it, or use it as weights=")
        return cls(frame.assign(weight=1.0), weights="weight", **roles)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        n: SampleSize,
        size: str | None = None,
        strata: str | None = None,
        method: str | None = None,
        lonely_psu: LonelyPSU = "fail",
        seed: int | None = None,
    ) -> SurveyDesign:
        """Draw a sample of elements from a frame: a design that knows its inclusion probabilities.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row a unit of the population.
        n : int, or mapping (or Series) of stratum to int
            Sample size, **of each stratum** if there are strata (:func:`surveysynth.sampling.
            proportional_allocation` divides one sample size among them).
        size : str, optional
            Column of sizes to which inclusion probabilities are proportional.
        strata : str, optional
            Column of strata.
        method : str, optional
            "systematic" (in the order of the frame), "random_systematic", "brewer", "tille",
            "maximum_entropy", "poisson" (the sample size is random), "multinomial" (with
            replacement), "srs" (equal probabilities); default "maximum_entropy" with sizes,
            "srs" without.
        lonely_psu : {"fail", "remove", "adjust", "average"}
            Variance of a stratum with one selected unit, or one that was not certain, as for :class:`SurveyDesign`.
            "fail" refuses such a sample.
        seed : int, optional
            By default the sample comes from the operating system's entropy.

        Returns
        -------
        SurveyDesign
            The selected rows, in the order of the frame, with a column ``weight`` = 1 / pi, and the
            variance for the method: Sen-Yates-Grundy with joint probabilities (tille,
            maximum_entropy), independent units (poisson), Hajek's approximation (brewer, both
            systematic ones, and strata with more than 5,000 selected units), finite population
            correction from a column ``population`` (srs), with replacement (multinomial).

        Raises
        ------
        InputError
            Unknown methods or columns; sizes, sample sizes or strata that allow no sample; a frame with
            a column of those names; a stratum whose variance cannot be estimated.

        Examples
        --------
        >>> farms = pd.DataFrame({"region": list("AAAAABBBB"), "hectares": [3, 5, 8, 2, 9, 40, 25, 30, 60]})
        >>> design = ss.SurveyDesign.from_frame(farms, n={"A": 3, "B": 2}, size="hectares", strata="region", seed=1)
        >>> design
        SurveyDesign: 5 records, weights 'weight', 2 strata 'region', no clusters, sen_yates_grundy variance
        >>> design.frame.round(2)
          region  hectares  weight
        0      A         5    1.80
        1      A         8    1.12
        2      A         9    1.00
        3      B        40    1.94
        4      B        60    1.29
        """
        check_seed(seed)
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame must be a pandas DataFrame, not {type(frame).__name__}")
        check_columns(frame, {role: name for role, name in (("size", size), ("strata", strata)) if name is not None})
        method = ("srs" if size is None else "maximum_entropy") if method is None else method
        drawn = draw(
            None if size is None else numeric(frame[size], size),
            n,
            method,
            np.random.default_rng(seed),
            None if strata is None else frame[strata],
            N=len(frame),
        )
        made = {"weight": 1 / drawn.pi} | ({"population": drawn.population} if method == "srs" else {})
        for name in made:
            if name in frame.columns:
                raise InputError(f"the frame has a column {name!r}, which the sample adds: rename it")
        sample = frame.iloc[drawn.positions].assign(**made)
        pps = VARIANCE_OF.get(method)
        if pps == "sen_yates_grundy" and max(block.positions.size for block in drawn.joint) > MOST_JOINT:
            pps = "hajek"
        fpc = "population" if method == "srs" else None
        joint = drawn.joint if pps in NEED_JOINT else None
        return cls(sample, weights="weight", strata=strata, fpc=fpc, lonely_psu=lonely_psu, pps=pps, joint=joint)

    @property
    def probs(self) -> NDArray[np.float64]:
        """Inclusion probabilities, one over the weights: (n,)."""
        if self._probs is not None:
            return self._probs
        with np.errstate(divide="ignore"):  # for weight 0
            probs = 1.0 / self.weights
        probs.flags.writeable = False
        return probs

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self._frame)

    @cached_property
    def degf(self) -> int:
        """PSUs minus strata, or the rank of the replicate weights minus 1."""
        if self.replication is not None:
            return self.replication.degf(self.weights)
        first = self.stages[0]
        weighted = self.weights > 0
        if weighted.all():
            return int(first.stratum_of_unit.size - first.sampled.size)
        return int(np.unique(first.unit[weighted]).size - np.unique(first.stratum[weighted]).size)

    @property
    def multiplicand(self) -> NDArray[np.float64]:
        """Weights that factors of replicates multiply; 1 for records of weight 0 with replicate weights."""
        return self.weights if self.replication is None else self.replication.multiplicand(self.weights)

    @property
    def entering(self) -> NDArray[np.bool_]:
        """Records with a weight in estimates or their replicates: bool (n,)."""
        return np.asarray(self.multiplicand > 0)

    @property
    def calibrated(self) -> bool:
        """Whether the weights are calibrated to known totals."""
        return bool(self.margins or self.auxiliary)

    @property
    def clustered(self) -> bool:
        """Whether some PSU holds more than one record."""
        return self.stages[0].stratum_of_unit.size < self.n

    @property
    def design_columns(self) -> tuple[str, ...]:
        """Columns of strata, PSUs, fpc, post-strata, auxiliary and base weights, in that order, each once."""
        margins = (name for margin in self.poststrata_names for name in margin)
        known = (*margins, *self.auxiliary_names, self.base_name, self.calibrated_name)
        names = (self.strata_name, *self.psu_names, *self.fpc_names, *known)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def roles(self) -> dict[str, Any]:
        """Keyword arguments that give another frame the same roles.

        They lack joint probabilities, which belong to these records, and labels of columns.

        Returns
        -------
        dict
            Arguments of ``SurveyDesign(frame, **roles)``: "weights", "probs", "strata", "psu", "fpc", "lonely_psu" and
            "poststrata"; others if this design has them.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> ss.SurveyDesign(design.frame.head(200), **design.roles())
        SurveyDesign: 200 records, weights 'weight', 1 strata 'field', no clusters
        """
        margins = [_unwrapped(margin) for margin in self.poststrata_names] or None
        roles: dict[str, Any] = {
            "weights": self.weights_name,
            "probs": self.probs_name,
            "strata": self.strata_name,
            "psu": list(self.psu_names) or None,
            "fpc": list(self.fpc_names) or None,
            "lonely_psu": self.lonely_psu,
            "poststrata": margins[0] if margins and len(margins) == 1 and isinstance(margins[0], str) else margins,
        }
        further: dict[str, Any] = {"auxiliary": list(self.auxiliary_names) or None, "pps": self.pps}
        further |= {"base_weights": self.base_name, "calibrated_weights": self.calibrated_name}
        if isinstance(self.replication, GivenReplicates):
            given = self.replication
            further |= {"replicate_weights": list(given.names), "scale": given.scale, "mse": given.mse}
            further |= {"combined": None if given.combined else False}
            further |= {"rscales": given.rscales.tolist()}
        return roles | {role: value for role, value in further.items() if value is not None}

    def column(self, name: str) -> pd.Series:
        """One column, or an error that lists the columns.

        Parameters
        ----------
        name : str
            A column of the frame.

        Returns
        -------
        pandas.Series (n,)
            Values of the column, as in the frame.

        Raises
        ------
        InputError
            An unknown column.
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
        """A column without records; a design by :meth:`scan` reads none for it.

        Parameters
        ----------
        name : str
            A column of the frame.

        Returns
        -------
        pandas.Series (0,)
            An empty column of the same type.

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
        """Whether the type of a column declares its levels, as categories and True and False do.

        Texts do not, even if :meth:`scan` keeps them as codes: their levels are those that occur in the file.

        Parameters
        ----------
        name : str
            A column of the frame.

        Returns
        -------
        bool
            False for texts and numbers.

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
        """One column as floats, NaN where it is missing.

        Parameters
        ----------
        name : str
            A column of the frame.

        Returns
        -------
        float array (n,)
            Values, NaN where they are missing; not to be written to, as they may be the frame's own.

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
            known = [title(names) for names in (*self.poststrata_names, *self.auxiliary_names)]
            parts.append(f"weights calibrated to totals of {', '.join(known)}")
        if self.replication is not None:
            parts.append(f"{self.replication.R:,} {self.replication.method} replicates")
        if self.pps is not None:
            parts.append(f"{self.pps} variance")
        return "SurveyDesign: " + ", ".join(parts)


def _unwrapped(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)
