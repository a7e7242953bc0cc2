"""The R session that rpy2 runs.  It is started by the first call of a function, not by an import.

The session uses code of the R package in ``r_bridge/R``, which is part of the Python package.  An error of R is raised
as an :class:`RError` with R's message, and a warning of R is a Python warning.
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
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SurveySynthError, guarded

Floats = NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")

HERE = Path(__file__).parent
PACKAGE = HERE.parent
R_PACKAGE = (PACKAGE if (PACKAGE / "r_bridge").is_dir() else PACKAGE.parent) / "r_bridge"  # in a wheel, in a clone
SOURCES = (*(R_PACKAGE / "R" / f"{name}.R" for name in ("exchange", "design", "calibration")), HERE / "r.R")


class RError(SurveySynthError):
    """R or an R package is missing, or R stopped with an error.  The message of R may quote confidential data."""


def in_session(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that rpy2's default conversions are active while it runs, in any thread."""

    @wraps(work)
    def within(*arguments: P.args, **named: P.kwargs) -> T:
        with _start().default_converter.context():
            return work(*arguments, **named)

    return within


@in_session
def session(*packages: str) -> Any:
    """Load R packages and return ``rpy2.robjects``.  R is started if it does not run yet.

    Parameters
    ----------
    *packages : str
        Names of R packages.  They are loaded, but not attached.

    Returns
    -------
    module
        ``rpy2.robjects``.

    Raises
    ------
    RError
        R, rpy2 or an R package is missing.  The message gives the command that installs it.

    Examples
    --------
    >>> robjects = ss.r.session("survey")
    >>> robjects.r("1 + 1")[0]
    2.0
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
        os.environ.setdefault("RPY2_CFFI_MODE", "ABI")  # the mode without compiled code; rpy2 would warn otherwise
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
    """Return an R environment with the R functions of this package."""
    robjects = _start()
    code = robjects.r("new.env")()
    for source in SOURCES:
        robjects.r("sys.source")(str(source), code)
    return code


@in_session
def call(function: str, /, *arguments: Any, **named: Any) -> Any:
    """Call an R function of this package.  Warnings of R become Python warnings.

    Parameters
    ----------
    function : str
        Name of the function.
    *arguments, **named
        Arguments of the function, which rpy2 converts.

    Returns
    -------
    rpy2 object
        The value of the function.

    Raises
    ------
    RError
        R stopped with an error; the message is that of R.

    Examples
    --------
    >>> float(ss.r.call("sampling_probabilities", ss.r.session().FloatVector([1, 3]), 1)[1])
    0.75
    """
    code = _code()
    done = code["attempt"](code[function], *arguments, **named)
    for text in done.rx2("warnings"):
        warnings.warn(f"R: {text}", stacklevel=5)  # points to the caller of a function of this module
    if "error" in done.names:
        raise RError(str(done.rx2("error")[0]).strip())
    return done.rx2("value")


def vector(values: NDArray[Any]) -> Any:
    """Convert an array to an R vector with the same bits.

    4-byte elements become integers, and 8-byte elements doubles, which are also R's ``integer64``.
    """
    robjects = session()
    kind, bits = (robjects.IntVector, "<i4") if values.dtype.itemsize == 4 else (robjects.FloatVector, "<f8")
    same: Any = np.ascontiguousarray(values).view(bits)
    return kind.from_memoryview(memoryview(same)) if values.size else kind([])


@in_session
def inclusion_probabilities(size: ArrayLike, n: int) -> Floats:
    """Compute inclusion probabilities proportional to size by R's ``sampling::inclusionprobabilities``, as a check.

    Parameters
    ----------
    size : array (N,)
        Size of each of N units.
    n : int
        Sample size.

    Returns
    -------
    float array (N,)
        Inclusion probabilities, which add up to n.  They are 1 for units that would otherwise get more than 1.

    Raises
    ------
    RError
        R or its package sampling is not installed, or R stopped with an error.

    Examples
    --------
    >>> ss.r.inclusion_probabilities(np.array([10, 20, 30, 140]), 2)
    array([0.16666667, 0.33333333, 0.5       , 1.        ])
    """
    session("sampling")
    return np.array(call("sampling_probabilities", vector(np.array(size, dtype="<f8")), n))
