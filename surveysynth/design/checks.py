"""Checks of the arguments of SurveyDesign: the columns of each role, and settings of the variance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..choices import LonelyPSU
from ..errors import InputError
from ..sampling import GivenJoint, Joint
from ..validation import one_of, rows
from .columns import Columns, check_columns, listing, names_of, nearest
from .stages import Stage

PPS = Literal["sen_yates_grundy", "horvitz_thompson", "hajek", "brewer", "poisson"]
NEED_JOINT = ("sen_yates_grundy", "horvitz_thompson")
COLUMN_ROLES = (  # arguments that name columns
    "weights", "probs", "strata", "psu", "fpc", "poststrata", "auxiliary", "base_weights", "calibrated_weights",
    "raked_weights", "earlier_calibrations", "replicate_weights",
)  # fmt: skip
VARIANCE_OF: dict[str, PPS] = {  # method of selection to estimator of the variance
    "tille": "sen_yates_grundy",
    "maximum_entropy": "sen_yates_grundy",
    "poisson": "poisson",
    "brewer": "hajek",
    "systematic": "hajek",
    "random_systematic": "hajek",
}
CERTAIN = 1 - 1e-9  # inclusion probabilities from here on are 1 up to rounding
Floats = NDArray[np.float64]


def check_roles(
    frame: pd.DataFrame, single: Mapping[str, str | None], psu_names: Sequence[str], fpc_names: Sequence[str]
) -> dict[str, str]:
    """Return the column of each role.  Raise InputError if columns do not exist or cannot have their roles.

    Roles are those of ``single`` that have a column, and "psu (stage 1)", "fpc (stage 1)", "psu (stage 2)", and so on.

    Parameters
    ----------
    frame : pandas.DataFrame
    single : mapping of str to str or None
        Column, or None, for each of the roles "weights", "probs", "strata", "base_weights" and "calibrated_weights".
    psu_names, fpc_names : sequence of str
        Columns of sampling units and of finite population corrections, one per stage, first stage first.
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame must be a pandas DataFrame, not {type(frame).__name__}")
    if (single["weights"] is None) == (single["probs"] is None):
        raise InputError("give the survey weights or the inclusion probabilities: one of weights=, probs=")
    for role, name in single.items():
        if not isinstance(name, str | None):
            raise InputError(f"{role} must be the name of one column")
    if len(fpc_names) > max(len(psu_names), 1):
        raise InputError(f"fpc names {len(fpc_names)} stages but psu names {len(psu_names)}")
    roles = {role: name for role, name in single.items() if name is not None}
    roles |= {f"psu (stage {i + 1})": name for i, name in enumerate(psu_names)}
    roles |= {f"fpc (stage {i + 1})": name for i, name in enumerate(fpc_names)}
    check_columns(frame, roles)
    return roles


def labels_of(frame: pd.DataFrame, labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headings of columns, with line breaks replaced by blanks.  Empty headings are left out.

    Raise InputError for an unknown column, or if ``labels`` does not map columns to texts.
    """
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for text in labels.values()):
        raise InputError("labels must map columns to headings, which are texts: labels={'income': 'Income a year'}")
    for name in labels:
        if name not in frame.columns:
            near = nearest(name, frame.columns)
            raise InputError(f"labels: there is no column {name!r}{near}; the frame has {listing(frame.columns)}")
    lines = {name: "".join(c if c.isprintable() else " " for c in text).split() for name, text in labels.items()}
    return {name: " ".join(words) for name, words in lines.items() if words}


def replicate_names(given: Columns, columns: Iterable[str], roles: Mapping[str, str]) -> tuple[str, ...]:
    """List the columns of replicate weights, given by their names or by patterns of names.

    The columns that one pattern matches are listed in the order of the file.

    Parameters
    ----------
    given : str or sequence of str
        Names of columns, or regular expressions for whole names: ``"WTREP[0-9]+"``.
    columns : iterable of str
        All columns of the file.
    roles : mapping of role to column
        Other roles.  Their columns are not matched by a pattern.

    Raises
    ------
    InputError
        A named column has another role, or a pattern is invalid.  A name or pattern without a match is not an error
        here: it is returned unchanged.
    """
    there, taken, found = [str(c) for c in columns], set(roles.values()), list[str]()
    for name in names_of(given, "replicate_weights"):
        for role, other in roles.items():
            if name == other:
                raise InputError(
                    f"column {name!r} is given two roles, {role} and replicate_weights; a column has one role"
                )
        try:
            matching = [name] if name in there else [c for c in there if re.fullmatch(name, c) and c not in taken]
        except re.error:
            raise InputError(
                f"replicate_weights: {name!r} is no column and no pattern of names, as 'WTREP[0-9]+' is"
            ) from None
        found += matching or [name]
    return tuple(found)


def check_variance(
    pps: PPS | None, joint: object, replicate_weights: object, scale: float | None, rscales: Sequence[float] | None,
    combined: bool,
) -> None:  # fmt: skip
    """Raise InputError for arguments of :class:`SurveyDesign` that ask for two kinds of variance, or have no effect."""
    if replicate_weights is None and (scale is not None or rscales is not None or combined is not True):
        raise InputError("scale=, rscales= and combined= go with replicate_weights=")
    if pps is not None and replicate_weights is not None:
        raise InputError("pps= and replicate_weights= are two ways to a variance; give one")
    if joint is not None and pps not in NEED_JOINT:
        raise InputError("joint= goes with pps='sen_yates_grundy' or 'horvitz_thompson'")


def margin_names(poststrata: str | Sequence[str | Sequence[str]] | None) -> tuple[tuple[str, ...], ...]:
    """Return one tuple of column names per margin of calibration, from the argument ``poststrata``.

    Raise InputError unless the argument is the name of a column, a list of margins, or None.
    """
    if isinstance(poststrata, str | None):
        return () if poststrata is None else ((poststrata,),)
    if not isinstance(poststrata, Sequence):
        raise InputError("poststrata must be a column name or a list of column names")
    return tuple(names_of(margin, "poststrata") for margin in poststrata)


def role_columns(given: object) -> list[str]:
    """List the columns that one argument of SurveyDesign names.

    The argument is a name, a list of names, a list of margins, or a list of earlier calibrations.
    """
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        return [name for each in given.values() for name in role_columns(each)]
    return [name for each in given for name in role_columns(each)] if isinstance(given, Sequence) else []


def joint_of(given: ArrayLike | tuple[Joint, ...] | None, pi: Floats) -> tuple[Joint, ...]:
    """Return the argument ``joint`` of SurveyDesign as a tuple of :class:`Joint`.

    Each :class:`Joint` has the joint inclusion probabilities of one block of records.  Records of different blocks were
    selected independently.  A matrix is one block.  ``pi`` (n,) has the inclusion probabilities of the records.  Raise
    InputError if the joint inclusion probabilities do not fit the sample.
    """
    if given is None:
        return ()
    if isinstance(given, tuple) and all(isinstance(block, Joint) for block in given):
        if sum(block.positions.size for block in given) != pi.size:
            raise InputError("joint= is of a design with other records")
        return given
    return (GivenJoint.checked(cast("ArrayLike", given), pi),)


def check_pps(pps: PPS, joint: tuple[Joint, ...], stages: tuple[Stage, ...], pi: Floats, lonely_psu: LonelyPSU) -> None:
    """Raise InputError if the variance estimator ``pps`` does not fit the design.

    These estimators are for elements (no clusters, no fpc) that were drawn with inclusion probabilities ``pi`` (n,) of
    at most 1.  Some need joint inclusion probabilities.  Apart from "horvitz_thompson" and "poisson", they cannot
    estimate the variance of a stratum with a single unit that was not certain ("brewer": with a single unit, which was
    not certain), unless ``lonely_psu`` is "remove".
    """
    one_of(pps, get_args(PPS), "pps")
    first = stages[0]
    if first.stratum_of_unit.size < first.unit.size or first.fraction.any():
        raise InputError(f"pps={pps!r} is for samples of elements without fpc: the probabilities are enough")
    if pps in NEED_JOINT and not joint:
        raise InputError(f"pps={pps!r} needs joint=, the joint inclusion probabilities; pps='hajek' does without")
    if (pi > 1 + 1e-9).any():
        raise InputError(
            f"pps={pps!r} treats weights as 1 / pi, and a weight is below 1 in {rows(pi > 1 + 1e-9)}; scale the "
            "weights to the population, or leave pps= out"
        )
    uncertain = np.bincount(first.stratum, pi < CERTAIN, first.sampled.size)
    alone = uncertain == 1 if pps != "brewer" else (uncertain == 1) & (first.sampled == 1)
    lonely = alone[first.stratum]
    if pps not in ("horvitz_thompson", "poisson") and lonely_psu != "remove" and lonely.any():
        raise InputError(
            f"a stratum has only one unit that was not certain, so its variance cannot be estimated: {rows(lonely)}; "
            "merge strata, or choose lonely_psu='remove'"
        )
