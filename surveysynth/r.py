"""Designs, releases and checks in R: the bridge by rpy2 (``pip install 'surveysynth[r]'``).

    ss.r.to_r(design)              survey.design or svyrep.design, as R's survey package has it
    ss.r.from_r(obj)               and back
    ss.r.release_to_r(release)     the synthetic designs as one object, as mitools has them
    ss.r.evaluate("svymean(~zinc, design)", design=design)        any number, checked in one line
    ss.estimate(design, "zinc", by="race", estimator="survey")    any table, computed by R

R is started by the first call, never by an import.  The R code is that of the R package
(``r_bridge/R``), which is shipped with this one, so both go the same way.  An error of R is an
:class:`RError` with R's message, its warnings are Python warnings.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .design import NEED_JOINT, SurveyDesign
from .errors import InputError, SurveySynthError, guarded
from .exchange import Column, decode, encode
from .replicates import GivenReplicates

if TYPE_CHECKING:
    from .release import Release

Floats = NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")

HERE = Path(__file__).parent
R_PACKAGE = HERE / "r_bridge" if (HERE / "r_bridge").is_dir() else HERE.parent / "r_bridge"  # of a wheel, of a clone
SOURCES = (R_PACKAGE / "R" / "exchange.R", R_PACKAGE / "R" / "design.R", HERE / "r.R")


class RError(SurveySynthError):
    """R is not there, a package of it is not, or it stopped; R's own message may quote what it was given."""


def in_session(work: Callable[P, T]) -> Callable[P, T]:
    """The function with rpy2's own conversions, in whatever thread and whatever conversions its caller has set."""

    @wraps(work)
    def within(*arguments: P.args, **named: P.kwargs) -> T:
        with _start().default_converter.context():
            return work(*arguments, **named)

    return within


@in_session
def to_r(obj: SurveyDesign | pd.DataFrame) -> Any:
    """A design as an object of R's survey package, or a frame as a data.frame.

    Parameters
    ----------
    obj : SurveyDesign or pandas.DataFrame

    Returns
    -------
    R object, as rpy2 has it
        For example ``robjects.globalenv["design"] = ss.r.to_r(design)``.  Replicates become a
        ``svyrep.design``, joint inclusion probabilities ``ppsmat()``, known totals
        ``postStratify()`` or raking by ``calibrate()``.  ``survey.lonely.psu`` is an option of an
        R session, not of its designs: set it to ``design.lonely_psu`` (:func:`evaluate` does).
        A ``svyrep.design`` has no strata and units.

    Raises
    ------
    RError
        R, rpy2 or an R package is not installed.
    InputError
        A column of a type that R does not have (:func:`surveysynth.exchange.encode`), or a
        variance that R's survey does not have (``pps="hajek"``; calibrated weights with ``pps=``).
    """
    if isinstance(obj, pd.DataFrame):
        return call("decode_frame", _columns(obj))
    if not isinstance(obj, SurveyDesign):
        raise InputError(f"a SurveyDesign or a DataFrame was expected, not {type(obj).__name__}")
    if obj.pps == "hajek":
        raise InputError("R's survey has no Hajek variance (pps='hajek'); joint inclusion probabilities have one there")
    if obj.pps is not None and obj.margins:
        raise InputError("R's survey forgets calibrated weights where it has pps=; give it the one before calibrate()")
    session("survey")
    matrices = {}
    if obj.pps in NEED_JOINT:
        matrices["joint"] = _matrix(_joint(obj))
    if obj.replication is not None and not isinstance(obj.replication, GivenReplicates):  # they are in the frame
        matrices["replicates"] = _matrix(obj.replication.factors(0, obj.replication.R) * obj.weights[:, None])
    return call("as_design", to_r(obj.frame), _roles(obj), **matrices)


@in_session
def from_r(obj: Any) -> SurveyDesign | pd.DataFrame:
    """A design of R's survey package (or srvyr) as a SurveyDesign, a data.frame as a DataFrame.

    Parameters
    ----------
    obj : R object, as rpy2 has it
        ``svydesign()`` with strata, several stages and fpc, after ``postStratify()`` too;
        ``svydesign(pps=ppsmat())``, ``poisson_sampling()``; ``svrepdesign()``; ``data.frame()``.

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
        A design that cannot be carried, by name: two-phase, ``calibrate()``, ``rake()``,
        ``pps="brewer"``, a subset, strata at a later stage, data in a database; no design at all.
    InputError
        No R object; a column that Python does not have; a design that does not pass the checks
        of :class:`SurveyDesign`.
    """
    if not hasattr(obj, "rclass"):
        raise InputError(f"an R object was expected, as rpy2 has it, not {type(obj).__name__}")
    nothing = session("survey").NULL
    if "data.frame" in obj.rclass:
        return _frame(obj)
    parts = dict(call("design_parts", obj).items())
    roles = {name: _plain(value) for name, value in parts["roles"].items()}
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
    counts : bool
        The designs that give counts of population units their standard errors.

    Raises
    ------
    RError, InputError
        As :func:`to_r`.
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
    """
    lonely = {obj.lonely_psu for obj in objects.values() if isinstance(obj, SurveyDesign)} or {"fail"}
    if len(lonely) > 1:
        raise InputError("the designs differ in lonely_psu, which is one option in R: evaluate one at a time")
    session("survey")
    value = call("evaluated", expression, lonely.pop(), **{name: to_r(obj) for name, obj in objects.items()})
    return _frame(value) if "data.frame" in value.rclass else value


@in_session
def inclusion_probabilities(size: ArrayLike, n: int) -> Floats:
    """Inclusion probabilities (N,) by R's ``sampling::inclusionprobabilities``, to check ours against.

    Raises
    ------
    RError
        R or its package sampling is not installed, or it stopped.
    """
    session("sampling")
    return np.array(call("sampling_probabilities", vector(np.array(size, dtype="<f8")), n))


@in_session
def session(*packages: str) -> Any:
    """``rpy2.robjects`` of an R session that has some packages; R is started where it was not.

    Raises
    ------
    RError
        What is missing, and the command that installs it.
    """
    robjects = _start()
    for package in packages:
        if not robjects.r("requireNamespace")(package, quietly=True)[0]:
            raise RError(
                f'the R package {package!r} is not installed: install.packages("{package}") in R, or on Debian '
                f"apt-get install r-cran-{package}"
            )
    return robjects


@cache
def _start() -> Any:
    if importlib.util.find_spec("rpy2") is None:
        raise RError("rpy2 is not installed: pip install 'surveysynth[r]'")
    if shutil.which("R") is None and "R_HOME" not in os.environ:
        raise RError("R is not installed: apt-get install r-base-core r-cran-survey, or see https://cran.r-project.org")
    if importlib.util.find_spec("_rinterface_cffi_api") is None:
        os.environ.setdefault("RPY2_CFFI_MODE", "ABI")  # rpy2 without its compiled part, and without complaints
    robjects = guarded(
        lambda: importlib.import_module("rpy2.robjects"),
        Exception,
        lambda kind: RError(f"rpy2 could not start R ({kind}); `python -m rpy2.situation` tells what it found"),
    )
    # names and labels are UTF-8, whatever the language of the machine
    robjects.r('if (!l10n_info()$"UTF-8") invisible(Sys.setlocale("LC_CTYPE", "C.UTF-8"))')
    return robjects


@cache
def _code() -> Any:
    """The R code of this package, in an environment of its own."""
    robjects = _start()
    code = robjects.r("new.env")()
    for source in SOURCES:
        robjects.r("sys.source")(str(source), code)
    return code


@in_session
def call(function: str, /, *arguments: Any, **named: Any) -> Any:
    """One of our R functions; where R stops, RError has its message, and where it warns, so do we."""
    code = _code()
    done = code["attempt"](code[function], *arguments, **named)
    for text in done.rx2("warnings"):
        warnings.warn(f"R: {text}", stacklevel=5)  # of who called a function of this module
    if "error" in done.names:
        raise RError(str(done.rx2("error")[0]).strip())
    return done.rx2("value")


def _columns(frame: pd.DataFrame) -> Any:
    """The columns of a frame as R's ``decode_frame`` takes them, numbers by memory."""
    robjects = session()
    r_list = robjects.r("list")
    columns = []
    for column in encode(frame):
        said = column.meaning()
        if column.levels is not None:
            said["levels"] = robjects.StrVector(column.levels)
        columns.append(r_list(**said, values=vector(column.values)))
    return r_list(*columns)


def _frame(data: Any) -> pd.DataFrame:
    """The frame of an R data.frame."""
    columns = []
    for r_column in call("encode_frame", data):
        said = {name: _plain(value) for name, value in r_column.items() if name not in ("values", "levels")}
        values = dict(r_column.items())["values"]
        numbers = np.array(values.memoryview())  # a copy: R may move its own
        if said["type"] == "integer64":
            numbers = numbers.view("<i8")
        if said["type"] in ("character", "factor"):
            said["levels"] = list(r_column.rx2("levels"))
        columns.append(Column(**said, values=numbers))
    return decode(columns)


def vector(values: NDArray[Any]) -> Any:
    """An R vector of the same bits: integers of 4 bytes, doubles, or 8 bytes that are integers to R's bit64."""
    robjects = session()
    kind, bits = (robjects.IntVector, "<i4") if values.dtype.itemsize == 4 else (robjects.FloatVector, "<f8")
    same: Any = np.ascontiguousarray(values).view(bits)
    return kind.from_memoryview(memoryview(same)) if values.size else kind([])


def _matrix(values: Floats) -> Any:
    return session().r("matrix")(vector(values.ravel(order="F")), nrow=values.shape[0])


def _roles(design: SurveyDesign) -> Any:
    """The roles as an R list: names, but for what says how replicates count."""
    roles = {role: value for role, value in design.roles().items() if value is not None}
    replication = design.replication
    if replication is not None:
        roles |= {"scale": replication.scale, "rscales": vector(replication.rscales), "mse": replication.mse}
    return _listed(roles | ({"poststrata": list(map(list, design.poststrata_names))} if design.margins else {}))


def _listed(value: Any) -> Any:
    """Python's dicts, lists of texts and lists of lists as R has them."""
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
    """An R vector as a Python list, one that has a single element as that, R's lists as lists."""
    listed = [_plain(each) if hasattr(each, "rclass") else each for each in value]
    return listed[0] if len(listed) == 1 and "list" not in value.rclass else listed


def _joint(design: SurveyDesign) -> Floats:
    """Joint inclusion probabilities of all records; those of different strata are independent."""
    known = np.outer(design.probs, design.probs)
    for block in design.joint:
        known[np.ix_(block.positions, block.positions)] = block.matrix()
    return known
