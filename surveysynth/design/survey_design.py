"""SurveyDesign: a data frame of records, and the roles of its columns in the sampling design, such as weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..choices import LonelyPSU
from ..errors import InputError
from ..sampling import Joint, SampleSize, draw
from ..validation import as_list, check_keywords, check_seed, one_of
from .adjustments import AdjustableDesign
from .calibrations import Calibration, earlier_ones
from .checks import (
    COLUMN_ROLES,
    NEED_JOINT,
    PPS,
    VARIANCE_OF,
    check_pps,
    check_roles,
    check_variance,
    joint_of,
    labels_of,
    replicate_names,
    role_columns,
)
from .columns import Columns, check_columns, in_usual_floats, names_of, numeric, positive
from .missing_codes import MissingCodes
from .read import read_labelled
from .replicates.given import given as given_replicates
from .scan import Scan, Source
from .stages import refuse_lonely, stages_of

MOST_JOINT = 5_000  # largest number of records in a stratum for which joint inclusion probabilities are used


class SurveyDesign(AdjustableDesign):
    """A complex-survey file: records, weights and the sampling design.

    A design is checked when it is made, and cannot be changed afterwards.  Inclusion probabilities are 1 / weights, so
    either weights or probabilities are given.  n is the number of records, and R the number of replicate weights.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per respondent (record).  The index is ignored.
    weights, probs : str
        ``weights``: column of survey weights (number of population units that a record represents).  ``probs``: column
        of inclusion probabilities in (0, 1].  Exactly one of the two must be given.
    strata : str, optional
        Column of first-stage strata.
    psu : str or list of str, optional
        Columns of sampling units, one per stage, first stage (PSUs) first.  The same label in two strata, or in two
        units of the stage before, means two units.
    fpc : str or list of str, optional
        Columns of finite population corrections, one per stage, first stage first.  A column has either the number of
        sampling units in the population of the stratum or, if all values are at most 1, the sampling fraction, as in
        R's ``survey``.
    lonely_psu : {"fail", "remove", "adjust", "average"}
        Variance of a stratum with one PSU, as R's option ``survey.lonely.psu``.  "fail" refuses such a design when it
        is made.  Under "remove" the stratum adds nothing to the variance.  Under "adjust" the total of the PSU is
        centred at the mean over the PSUs of all strata.  Under "average" the stratum adds the mean variance of the
        other strata.  The argument has no effect on strata that are sampled completely.
    poststrata : str, or list of margins, optional
        Column of groups to whose known totals the weights were calibrated (often the strata), or a list of several
        margins, to which the weights were raked.  A margin is one column, or a list of columns, which are crossed.  A
        margin without columns is the whole population.  Standard errors count only the variation within these groups,
        as after R's ``postStratify``.  :meth:`calibrate` makes a design with this argument.
    auxiliary : str or list of str, optional
        Numeric columns to whose totals the weights were also calibrated, as after R's ``calibrate``.
    base_weights : str, optional
        Column of the weights before calibration.
    calibrated_weights : str, optional
        Column of the calibrated weights, if they were trimmed afterwards (:meth:`trim`), so that ``weights`` names
        others.
    raked_weights : str or list of str, optional
        Columns of the weights between the margins of raking: one column for each margin of ``poststrata`` but the last,
        with the weights after this margin.  Give them if R's ``rake`` made the weights, to get the variance of
        ``rake``.
    earlier_calibrations : list of mappings, optional
        Calibrations before the one that ``poststrata`` and ``auxiliary`` describe, in their order.  Each is a mapping
        with ``base_weights``, and with ``poststrata``, ``auxiliary``, ``calibrated_weights`` and ``raked_weights`` if
        it has any.
    replicate_weights : str or list of str, optional
        Columns of replicate weights, or patterns of their names.  ``"WTREP[0-9]+"`` means every column whose whole name
        matches and that has no other role.  Replicate weights may be 0 or negative.  Variances are then
        ``scale * sum(rscales * (theta_r - centre)**2)``, where theta_r is the estimate with replicate weights r.
        For a file without replicate weights, :meth:`replicates` makes some.
    combined : bool
        True if the columns of replicate weights have full weights.  False if they have factors, by which the weights
        are multiplied (R's ``combined.weights``).  A wrong value is detected and refused, unless the weights are near
        1, so that full weights and factors look alike.
    scale : float, optional
        Default 1 / R, which is right for BRR and bootstrap weights.  Fay's method needs 1 / (R (1 - rho)^2), JK1 needs
        (R - 1) / R, and successive differences (as in the American Community Survey) need 4 / R.
    rscales : sequence of float (R,), optional
        Default 1 for each replicate.  JKn needs ``scale=1`` and, for each replicate, (n_h - 1) / n_h, where n_h is the
        number of PSUs in the stratum from which the replicate leaves one out.
    mse : bool
        True if ``centre`` is the estimate; False (R's default) if it is the mean of the replicates.
    pps : {"sen_yates_grundy", "horvitz_thompson", "hajek", "brewer", "poisson"}, optional
        Variance estimator for elements that were drawn without replacement and with unequal probabilities.  By default
        variances are computed as if elements had been drawn with replacement (Hu, Savitsky & Williams 2022a, section
        2.3).
        "sen_yates_grundy" and "horvitz_thompson" need ``joint``.  "hajek" and "brewer" (R's ``pps = "brewer"``) are
        approximations for samples of fixed size.  "poisson" is for elements that were selected independently.
    joint : float array (n, n), optional
        Joint inclusion probabilities of the records, with inclusion probabilities on the diagonal.  The attribute
        ``joint`` of another design with the same records is allowed, too.
    labels : mapping of column to text, optional
        Headings of columns in tables.  A release publishes the headings of its columns, so they must not be
        confidential.

    Attributes
    ----------
    n : int
        Number of records.
    weights, probs : float array (n,)
        Weights, and inclusion probabilities 1 / weights, as read-only arrays.  Records of weight 0 count among the
        units of their stratum but not in estimates, as in R, and synthetic data do not represent them.
    degf : int
        Design degrees of freedom, as R's ``degf``: (number of PSUs) - (number of strata), or (rank of the replicate
        weights) - 1.
    labels : dict of str to str
        Headings of those columns that have one.
    source : dict, optional
        The ``file`` and the options that were given to :meth:`read`.  It is None for a design that :meth:`read` did not
        make, and for a copy that a method other than :meth:`labelled` made.

    Raises
    ------
    InputError
        The frame is empty; a column is unknown or has two roles; weights are missing, not numeric, infinite, negative,
        0 in all records, or 0 in some records under ``pps``; a column of the design has missing values; an fpc varies
        within its stratum or is smaller than the sample; a stratum has one PSU (if ``lonely_psu`` is "fail"); replicate
        weights, joint inclusion probabilities or other arguments do not fit the file or each other.

    Examples
    --------
    >>> frame = pd.DataFrame({"field": [1, 1, 2, 2], "wt": [10.0, 12.0, 8.0, 9.0]})
    >>> ss.SurveyDesign(frame, weights="wt", strata="field")
    SurveyDesign: 4 records, weights 'wt', 2 strata 'field', no clusters
    """

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
        raked_weights: Columns = None,
        earlier_calibrations: Sequence[Mapping[str, Any]] | None = None,
        replicate_weights: str | Sequence[str] | None = None,
        combined: bool = True,
        scale: float | None = None,
        rscales: Sequence[float] | None = None,
        mse: bool = True,
        pps: PPS | None = None,
        joint: ArrayLike | tuple[Joint, ...] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        psu_names, fpc_names = names_of(psu, "psu"), names_of(fpc, "fpc")
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
        totals = {"poststrata": poststrata, "auxiliary": auxiliary, "raked_weights": raked_weights}
        totals |= {"base_weights": base_weights, "calibrated_weights": calibrated_weights}
        last = Calibration.checked(frame, totals, w, or_zero=or_zero)
        earlier = earlier_ones(frame, earlier_calibrations, last, or_zero=or_zero)
        base = (earlier[0] if earlier else last).before
        replication = None
        if replicate_weights is not None:
            names = replicate_names(replicate_weights, frame.columns, roles)
            replication = given_replicates(frame, names, w, scale, rscales, mse, combined)
        check_variance(pps, joint, replicate_weights, scale, rscales, combined)
        known = () if joint is None else joint_of(joint, 1 / base)
        if pps is not None:
            check_pps(pps, known, stages, 1 / base, lonely_psu)
        for array in (w, given):
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
            calibration=last,
            earlier_calibrations=earlier,
            base_weights=base,
            stages=stages,
            replication=replication,
            pps=pps,
            joint=known,
        )

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
        """Make a design from a csv, parquet, Stata, SPSS or SAS file.

        Value labels become categories.  Variable labels become ``labels``.

        Parameters
        ----------
        path : str or Path
            .csv, .csv.gz, .parquet, .dta, .sav, .zsav, .por, .sas7bdat or .xpt
        missing_codes : list of numbers and texts, or mapping of column to such a list, optional
            Codes for missing values: a list for every column, or a mapping for the named columns.  A code with a label
            is given as the code or as the label: 98 or "refused".
        encoding : str, optional
            Encoding of texts, such as "cp1252", if a csv file is not utf-8, or if a Stata, SPSS or SAS file declares a
            wrong encoding.
        separator : str, optional
            Separator of the columns of a csv file.  By default it is found from the first line.
        decimal, thousands : str, optional
            The decimal mark ("." or ",") and the mark between thousands (".", ",", " " or "'") in the numbers of a csv
            file.  By default they are found from all columns.  A file whose numbers could be read in two ways is
            refused.
        text : str or list of str, optional
            Columns of a csv file that are read as texts.  Columns with leading zeros always are, since "01" and "1" are
            two codes.
        na : str or list of str, optional
            All texts of a csv file that mean a missing value, besides the empty text.  By default "NA", ".", "null" and
            similar texts are missing values in columns of numbers.  In columns of texts they may be answers ("NA" can
            be Namibia), so they are kept, and a warning is given.
        labels : mapping of column to text, optional
            Headings of columns, which replace the headings in the file.
        **roles
            See :class:`SurveyDesign`: ``weights=``, ``strata=``, ...

        Returns
        -------
        SurveyDesign
            A design of all records of the file.

        Raises
        ------
        InputError
            The file does not exist, is of an unknown kind, is in another encoding, cannot be read, or makes no valid
            :class:`SurveyDesign`; a record of a csv file has more fields than there are columns; several columns have
            the same name; the decimal or thousands marks of numbers contradict each other, or could be read in two
            ways; missing codes are given for an unknown column.

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
        """Make a design from parquet files of any size.  A column is read when it is first used.

        Texts become categories of one to four bytes per record.  Otherwise the design is the same as the one that
        :meth:`read` makes.

        Parameters
        ----------
        source : str, Path or list of such
            A .parquet file, a list of files, or a folder, whose files are read in the order of their names.
            :func:`surveysynth.convert` converts csv, Stata, SPSS and SAS files.
        labels : mapping of column to text, optional
            Headings of columns, which replace the headings in the files.
        **roles
            See :class:`SurveyDesign`: ``weights=``, ``strata=``, ...

        Returns
        -------
        SurveyDesign
            A design of all records, in the order of the files.

        Raises
        ------
        InputError
            The records make no valid :class:`SurveyDesign`; a file does not exist or is not parquet; the files differ
            in their columns or in the types of columns.

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

    @classmethod
    def from_fpc(cls, frame: pd.DataFrame, fpc: str | Sequence[str], **roles: Any) -> SurveyDesign:
        """Make a design with weights that are computed from the fpc, as R does for a design without weights.

        The weight of a record is the product of N / n over the stages, where N and n are the numbers of sampling units
        in the population and in the sample of the stratum.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per respondent.
        fpc : str or list of str
            One column for each stage of ``psu``, as for :class:`SurveyDesign`.  All elements of a unit of the last
            stage must be in the file, since the weights assume that there is no further sampling.
        **roles
            See :class:`SurveyDesign`, without ``weights`` and ``probs``.

        Returns
        -------
        SurveyDesign
            A design with a new column ``weight``.

        Raises
        ------
        InputError
            The records make no valid :class:`SurveyDesign`; the fpc has fewer stages than ``psu``; ``weights`` or
            ``probs`` is given; the frame has a column ``weight``.

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
        """Make a design in which all weights are 1, as R's ``svydesign`` does (with a warning) if it gets no weights.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per respondent.
        **roles
            See :class:`SurveyDesign`, without ``weights`` and ``probs``.

        Returns
        -------
        SurveyDesign
            A design with a new column ``weight`` of ones.

        Raises
        ------
        InputError
            The records make no valid :class:`SurveyDesign`; ``weights`` or ``probs`` is given; the frame has a column
            ``weight``.

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
        """Draw a sample of elements from a sampling frame, and make a design of the sample.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per unit of the population.
        n : int, or mapping (or Series) of stratum to int
            Sample size.  If there are strata, it is the sample size **of each stratum**
            (:func:`surveysynth.sampling.proportional_allocation` divides a sample size among strata).
        size : str, optional
            Column of sizes to which inclusion probabilities are proportional.
        strata : str, optional
            Column of strata.
        method : str, optional
            "systematic" (in the order of the frame), "random_systematic", "brewer", "tille", "maximum_entropy",
            "poisson" (the sample size is random), "multinomial" (with replacement) or "srs" (equal probabilities).  The
            default is "maximum_entropy" with sizes, and "srs" without.
        lonely_psu : {"fail", "remove", "adjust", "average"}
            Variance of a stratum with one selected unit (apart from units selected with certainty), as for
            :class:`SurveyDesign`.  "fail" refuses such a sample.
        seed : int, optional
            Seed of the selection.  By default it comes from the operating system's entropy.

        Returns
        -------
        SurveyDesign
            The selected units, in the order of the frame, with a new column ``weight`` = 1 / pi, where pi is the
            inclusion probability ("multinomial": the expected number of draws).  The variance estimator of the design
            depends on the method:

            - "tille" and "maximum_entropy": Sen-Yates-Grundy, with joint inclusion probabilities; but Hajek's
              approximation if more than 5,000 units were selected in a stratum;
            - "brewer", "systematic" and "random_systematic": Hajek's approximation;
            - "poisson": the variance for units that were selected independently;
            - "multinomial": the variance for units that were drawn with replacement;
            - "srs": with a finite population correction, from a new column ``population``.

        Raises
        ------
        InputError
            The method or a column is unknown; no sample can be drawn with these sizes, sample sizes or strata; the
            frame has a column ``weight`` or, with "srs", ``population`` already; the variance of a stratum cannot be
            estimated.

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
