"""Conversion of designs and releases to R objects, and of R designs to SurveyDesign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.checks import NEED_JOINT
from ..design.replicates.calibrated import CalibratedReplicates
from ..design.replicates.given import GivenReplicates
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from .exchange import Column, decode, encode
from .session import call, in_session, session, vector

if TYPE_CHECKING:
    from ..release.release import Release

Floats = NDArray[np.float64]


@in_session
def to_r(obj: SurveyDesign | pd.DataFrame) -> Any:
    """Convert a design to a design object of R's survey package, or a DataFrame to a data.frame.

    Parameters
    ----------
    obj : SurveyDesign or pandas.DataFrame

    Returns
    -------
    rpy2 object
        The R object.  ``robjects.globalenv["design"] = ss.r.to_r(design)`` gives it a name in R.  A design with
        replicate weights becomes a ``svyrep.design``, which has neither strata nor sampling units.  Joint inclusion
        probabilities become ``ppsmat()``.  Calibrated weights have the standard errors of ``postStratify()``,
        ``calibrate()`` or ``rake()``.  A design object of R has no ``lonely_psu``: set the option ``survey.lonely.psu``
        of the R session to ``design.lonely_psu`` (:func:`evaluate` does so).

    Raises
    ------
    RError
        R, rpy2 or an R package is not installed.
    InputError
        R does not have the type of a column (:func:`surveysynth.r.exchange.encode`), or its survey package does not
        have the variance of the design: ``pps="hajek"``; calibrated weights with ``pps=`` other than "brewer"; some
        calibrated weights are 0.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> in_r = ss.r.to_r(design)
    >>> list(in_r.rclass)
    ['survey.design2', 'survey.design']
    """
    if isinstance(obj, pd.DataFrame):
        return call("decode_frame", _columns(obj))
    if not isinstance(obj, SurveyDesign):
        raise InputError(f"a SurveyDesign or a DataFrame was expected, not {type(obj).__name__}")
    if obj.pps == "hajek":
        raise InputError("R's survey has no Hajek variance (pps='hajek'); joint inclusion probabilities have one there")
    if obj.calibrated and obj.replication is None and not obj.weights.all():
        raise InputError("R's survey has no variance of calibrated weights of which some are 0: estimate here")
    if obj.pps not in (None, "brewer") and obj.calibrated:
        raise InputError("R's survey forgets calibrated weights where it has pps=; give it the one before calibrate()")
    session("survey")
    matrices = {}
    if obj.pps in NEED_JOINT:
        matrices["joint"] = _matrix(_joint(obj))
    if obj.replication is not None and not isinstance(obj.replication, GivenReplicates):  # given ones are columns
        matrices["replicates"] = _matrix(obj.replication.factors(0, obj.replication.R) * obj.multiplicand[:, None])
    return call("as_design", to_r(obj.frame), _roles(obj), **matrices)


@in_session
def from_r(obj: Any) -> SurveyDesign | pd.DataFrame:
    """Convert a design of R's survey package (or srvyr) to a SurveyDesign, or a data.frame to a DataFrame.

    Parameters
    ----------
    obj : rpy2 object
        The value of ``svydesign()``, ``svrepdesign()`` or ``data.frame()``.  A ``svydesign()`` may have strata, several
        stages, fpc and ``pps=``, and may be calibrated by ``postStratify()``, ``calibrate()`` and ``rake()``.

    Returns
    -------
    SurveyDesign or pandas.DataFrame
        Columns keep their names.  If weights or replicate weights are not in a column of the data, columns ``weight``,
        ``replicate_1``, ... are added.  If each sampling unit has one record, the result has no clusters.
        ``lonely_psu`` is the session's option ``survey.lonely.psu``.  If the option is "fail" and the design came from
        Python, ``lonely_psu`` is unchanged.

    Raises
    ------
    RError
        The object is not a design, or it is a design that cannot be converted: two-phase; ``calibrate(stage=)`` within
        clusters; negative weights from ``calibrate()``; calibrated weights with ``pps=`` other than "brewer", or of 0;
        ``pps="brewer"`` with clusters; a subset; strata at a later stage; data in a database.
    InputError
        The object is not from R, a column has a type that Python does not have, or :class:`SurveyDesign` refuses the
        design.

    Examples
    --------
    >>> robjects = ss.r.session("survey")
    >>> ss.r.from_r(robjects.r("library(survey); data(api); svydesign(~dnum, weights = ~pw, data = apiclus1)"))
    SurveyDesign: 183 records, weights 'pw', no strata, 15 PSUs 'dnum'
    """
    if not hasattr(obj, "rclass"):
        raise InputError(f"an R object was expected, as rpy2 has it, not {type(obj).__name__}")
    nothing = session("survey").NULL
    if "data.frame" in obj.rclass:
        return _frame(obj)
    parts = dict(call("design_parts", obj).items())
    roles = _plain(parts["roles"])
    if parts["joint"] is not nothing:
        roles["joint"] = np.array(parts["joint"])
    return SurveyDesign(_frame(parts["frame"]), **roles)


@in_session
def release_to_r(release: Release, *, counts: bool = False) -> Any:
    """Convert the synthetic designs of a release to one R object ``svyimputationList``, for ``with()`` of mitools.

    Combine results by the partial-synthesis rule (:func:`surveysynth.estimation.combining.combine`,
    or ``combine_release()`` of the R package), not by mitools' ``MIcombine``.  ``MIcombine`` is Rubin's rule for
    missing data, which overstates variances of partially synthetic data.

    Parameters
    ----------
    release : Release
    counts : bool
        True to use ``release.count_designs()``, which give standard errors for counts of population units.

    Returns
    -------
    rpy2 object
        A ``svyimputationList``.

    Raises
    ------
    RError, InputError
        For the reasons given in :func:`to_r`.

    Examples
    --------
    With a ``release`` of three data sets:

    >>> len(ss.r.release_to_r(release).rx2("designs"))
    3
    """
    session("survey", "mitools")
    return call(
        "imputation_list", *(to_r(design) for design in (release.count_designs() if counts else release.datasets))
    )


@in_session
def evaluate(expression: str, /, **objects: SurveyDesign | pd.DataFrame) -> Any:
    """Evaluate an R expression on designs and frames: ``evaluate("svymean(~y, d)", d=design)``.

    Parameters
    ----------
    expression : str
        R code.  It is evaluated with R's survey package attached and ``survey.lonely.psu`` set as in the designs.
    **objects
        The designs and frames, under their names in the expression.

    Returns
    -------
    pandas.DataFrame or rpy2 object
        Estimates (any value with ``coef()`` and ``vcov()``) become a frame with columns ``name, estimate, se``.
        A data.frame becomes a DataFrame.  Other values are returned as rpy2 objects.

    Raises
    ------
    RError
        R stopped with an error; the message is that of R.
    InputError
        The designs differ in ``lonely_psu``, which is a single option in R.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> ss.r.evaluate("svymean(~salary, d)", d=design).round()
         name  estimate      se
    0  salary  114629.0  1636.0
    """
    lonely = {obj.lonely_psu for obj in objects.values() if isinstance(obj, SurveyDesign)} or {"fail"}
    if len(lonely) > 1:
        raise InputError("the designs differ in lonely_psu, which is one option in R: evaluate one at a time")
    session("survey")
    value = call("evaluated", expression, lonely.pop(), **{name: to_r(obj) for name, obj in objects.items()})
    return _frame(value) if "data.frame" in value.rclass else value


def _columns(frame: pd.DataFrame) -> Any:
    """Return the encoded columns of a frame as an R list, for the R function ``decode_frame`` of ``r_bridge/R``."""
    robjects = session()
    r_list = robjects.r("list")
    columns = []
    for column in encode(frame):
        meaning = column.meaning()
        if column.levels is not None:
            meaning["levels"] = robjects.StrVector(column.levels)
        columns.append(r_list(**meaning, values=vector(column.values)))
    return r_list(*columns)


def _frame(data: Any) -> pd.DataFrame:
    """Convert an R data.frame to a DataFrame."""
    columns = []
    for r_column in call("encode_frame", data):
        meaning = {name: _plain(value) for name, value in r_column.items() if name not in ("values", "levels")}
        values = dict(r_column.items())["values"]
        numbers = np.array(values.memoryview())  # a copy, because R may move or free its vector
        if meaning["type"] == "integer64":
            numbers = numbers.view("<i8")
        if meaning["type"] in ("character", "factor"):
            meaning["levels"] = list(r_column.rx2("levels"))
        columns.append(Column(**meaning, values=numbers))
    return decode(columns)


def _matrix(values: Floats) -> Any:
    return session().r("matrix")(vector(values.ravel(order="F")), nrow=values.shape[0])


def _roles(design: SurveyDesign) -> Any:
    """Return the design roles (weights, strata, ...) as a named R list, with the settings of replicate weights."""
    roles = {role: value for role, value in design.roles().items() if value is not None}
    replication = design.replication
    if replication is not None:
        roles |= {"scale": replication.scale, "rscales": vector(replication.rscales), "mse": replication.mse}
    if isinstance(replication, CalibratedReplicates):
        roles["degf"] = design.degf
    return _listed(roles)


def _listed(value: Any) -> Any:
    """Convert a dict or a list of lists to an R list, and a list of texts to an R vector."""
    robjects = session()
    if isinstance(value, dict):
        return robjects.r("list")(**{name: _listed(each) for name, each in value.items()})
    if isinstance(value, list):
        return (
            robjects.StrVector(value)
            if all(isinstance(v, str) for v in value)
            else robjects.r("list")(*map(_listed, value))
        )
    return value


def _plain(value: Any) -> Any:
    """Convert an R vector or list to a list, a named R list to a dict, and a vector of one element to this element."""
    if "list" in value.rclass and value.names is not session().NULL:
        return {name: _plain(each) for name, each in value.items()}
    listed = [_plain(each) if hasattr(each, "rclass") else each for each in value]
    return listed[0] if len(listed) == 1 and "list" not in value.rclass else listed


def _joint(design: SurveyDesign) -> Floats:
    """Return the matrix of the records' joint inclusion probabilities.  Strata are sampled independently."""
    joint = np.outer(design.probs, design.probs)
    for block in design.joint:
        joint[np.ix_(block.positions, block.positions)] = block.matrix()
    return joint
