"""Designs and releases for R, and designs from R."""

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
    """A design as an object of R's survey package, or a frame as a data.frame.

    Parameters
    ----------
    obj : SurveyDesign or pandas.DataFrame
        What R is to have.

    Returns
    -------
    R object, as rpy2 has it
        For example ``robjects.globalenv["design"] = ss.r.to_r(design)``.  Replicates become a
        ``svyrep.design``, joint inclusion probabilities ``ppsmat()``, and calibrated weights have the standard errors
        that ``postStratify()``, ``calibrate()`` or ``rake()`` gives them.  ``survey.lonely.psu`` is an option of an
        R session, not of its designs: set it to ``design.lonely_psu`` (:func:`evaluate` does).
        A ``svyrep.design`` has no strata and units.

    Raises
    ------
    RError
        R, rpy2 or an R package is not installed.
    InputError
        A column of a type that R does not have (:func:`surveysynth.r.exchange.encode`), or a
        variance that R's survey does not have (``pps="hajek"``; calibrated weights with ``pps=`` other
        than "brewer", or of which some are 0).

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
    if obj.replication is not None and not isinstance(obj.replication, GivenReplicates):  # they are in the frame
        matrices["replicates"] = _matrix(obj.replication.factors(0, obj.replication.R) * obj.multiplicand[:, None])
    return call("as_design", to_r(obj.frame), _roles(obj), **matrices)


@in_session
def from_r(obj: Any) -> SurveyDesign | pd.DataFrame:
    """A design of R's survey package (or srvyr) as a SurveyDesign, a data.frame as a DataFrame.

    Parameters
    ----------
    obj : R object, as rpy2 has it
        ``svydesign()`` with strata, several stages and fpc, also after ``postStratify()``, ``calibrate()`` and
        ``rake()``, once or several times; with ``pps=``; ``svrepdesign()``; ``data.frame()``.

    Returns
    -------
    SurveyDesign or pandas.DataFrame
        Columns keep their names; what the design has and no column holds is added (``weight``,
        ``replicate_1``, ...).  Units of one record each are no clusters.  ``lonely_psu`` is the
        session's option ``survey.lonely.psu``; where that is "fail", what a design had that came
        from Python.

    Raises
    ------
    RError
        A design that cannot be carried, by name: two-phase, ``calibrate(stage=)`` within clusters, weights that
        ``calibrate()`` made negative, calibrated weights with ``pps=`` other than "brewer" or of 0,
        ``pps="brewer"`` of clusters, a subset, strata at a later stage, data in a database; no design at all.
    InputError
        No R object; a column that Python does not have; a design that does not pass the checks
        of :class:`SurveyDesign`.

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
    """The m synthetic designs as one ``svyimputationList`` of R, on which mitools' ``with()`` works.

    Combine results by the partial-synthesis rule (:func:`surveysynth.estimation.combining.combine`,
    or ``combine_release()`` of the R package), not by mitools' ``MIcombine``: that is Rubin's rule for
    missing data, and overstates these variances.

    Parameters
    ----------
    release : Release
        What R is to have.
    counts : bool
        The designs that give counts of population units their standard errors.

    Returns
    -------
    R object, as rpy2 has it
        ``svyimputationList``.

    Raises
    ------
    RError, InputError
        As :func:`to_r`.

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
        R, with its package survey attached and ``survey.lonely.psu`` as the designs have it.
    **objects
        The names in it.

    Returns
    -------
    pandas.DataFrame or R object
        Estimates (anything with ``coef()`` and ``vcov()``) as columns ``name, estimate, se``, frames as
        frames; all else as rpy2 has it.

    Raises
    ------
    RError
        R stopped; its message.
    InputError
        Designs that differ in ``lonely_psu``, which is one option in R.

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
    """The columns of a frame for R's ``decode_frame``; numbers are handed over in memory."""
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
    """An R data.frame as a frame."""
    columns = []
    for r_column in call("encode_frame", data):
        meaning = {name: _plain(value) for name, value in r_column.items() if name not in ("values", "levels")}
        values = dict(r_column.items())["values"]
        numbers = np.array(values.memoryview())  # a copy: R may move its own
        if meaning["type"] == "integer64":
            numbers = numbers.view("<i8")
        if meaning["type"] in ("character", "factor"):
            meaning["levels"] = list(r_column.rx2("levels"))
        columns.append(Column(**meaning, values=numbers))
    return decode(columns)


def _matrix(values: Floats) -> Any:
    return session().r("matrix")(vector(values.ravel(order="F")), nrow=values.shape[0])


def _roles(design: SurveyDesign) -> Any:
    """The roles as an R list of names, with the settings of replicates."""
    roles = {role: value for role, value in design.roles().items() if value is not None}
    replication = design.replication
    if replication is not None:
        roles |= {"scale": replication.scale, "rscales": vector(replication.rscales), "mse": replication.mse}
    if isinstance(replication, CalibratedReplicates):
        roles["degf"] = design.degf
    return _listed(roles)


def _listed(value: Any) -> Any:
    """Dicts, lists of texts and lists of lists of Python as lists and vectors of R."""
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
    """An R vector or list as a Python list, or dict of names; a vector of one element as that element."""
    if "list" in value.rclass and value.names is not session().NULL:
        return {name: _plain(each) for name, each in value.items()}
    listed = [_plain(each) if hasattr(each, "rclass") else each for each in value]
    return listed[0] if len(listed) == 1 and "list" not in value.rclass else listed


def _joint(design: SurveyDesign) -> Floats:
    """Joint inclusion probabilities of all records; those of different strata are independent."""
    known = np.outer(design.probs, design.probs)
    for block in design.joint:
        known[np.ix_(block.positions, block.positions)] = block.matrix()
    return known
