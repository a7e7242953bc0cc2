"""Conversion of a plan's confidential file to a design, and of a design to entries of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..design.columns import listing, nearest
from ..design.read import LABELLED, read_labelled
from ..design.recode import recoded
from ..design.replicates.given import GivenReplicates
from ..design.scan import Scan
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import REPLICATE_ROLES
from ..errors import InputError
from .sections import Column
from .settings import Settings

READING = "separator", "decimal", "thousands", "text", "na", "encoding", "missing_codes"  # how the file is read
ENTRIES = {  # entries of [survey] by role of the design; "replicate_scale" is distinct from the scale of a model
    role: "replicate_scale" if role == "scale" else role
    for role in ("weights", "probs", "strata", "psu", "fpc", "lonely_psu", *REPLICATE_ROLES)
}


def opened(file: Path, settings: Settings) -> tuple[list[str], dict[str, str], Callable[..., SurveyDesign]]:
    """Return the columns of a file, the labels of columns by name, and a function that makes the design.

    The function takes the roles of columns as arguments, such as ``weights="w"``.  The columns of a parquet file are
    read when they are needed, unless entries of the plan change how the file is read.
    """
    how = {name: getattr(settings.survey, name) for name in READING}
    unweighted, recodes = settings.survey.unweighted, settings.columns
    if (file.is_dir() or file.suffix.lower() == ".parquet") and not any(how.values()):
        scan = Scan(file)
        if not unweighted and not recodes:
            return list(scan.names), scan.headings, partial(SurveyDesign.scan, file)
        frame, labels = scan.frame(scan.names), scan.headings
    else:
        frame, labels = read_labelled(file, **how)
    make = SurveyDesign.unweighted if unweighted else SurveyDesign
    return [str(c) for c in frame.columns], labels, partial(make, _recoded_frame(frame, recodes), labels=labels)


def _recoded_frame(frame: pd.DataFrame, recodes: Mapping[str, Column]) -> pd.DataFrame:
    """Return the frame with the changes to columns that the plan requests.  Raise InputError for an unknown column."""
    for name in recodes:
        if name not in frame.columns:
            raise InputError(
                f"columns.{name}: there is no column {name!r}{nearest(name, frame.columns)}; the file has "
                f"{listing(frame.columns)}"
            )
    made = {
        name: recoded(frame[name], recode.merge or {}, missing=recode.missing == "category")
        for name, recode in recodes.items()
    }
    attrs = {LABELLED: {n: labels for n, labels in frame.attrs.get(LABELLED, {}).items() if n not in made}}
    out = frame.assign(**made)
    out.attrs = frame.attrs | attrs
    return out


def survey_entries(design: SurveyDesign) -> dict[str, Any]:
    """Return the entries of a plan's section [survey] that describe a design, by name.  None means not given."""
    roles = design.roles()
    if isinstance(design.replication, GivenReplicates):
        usual = design.replication.usual
        roles = {role: value for role, value in roles.items() if role not in usual or value != usual[role]}
    entries = {entry: roles.get(role) for role, entry in ENTRIES.items()}
    entries |= {k: v for k, v in (design.source or {}).items() if k != "labels"}
    return entries | ({"lonely_psu": None} if roles["lonely_psu"] == "fail" else {})


def planned_roles(settings: Settings) -> dict[str, Any]:
    """Return the roles that the plan gives to columns, such as ``{"weights": "w"}``, as arguments of a design."""
    roles = {role: getattr(settings.survey, entry) for role, entry in ENTRIES.items()}
    return {role: column for role, column in roles.items() if column is not None}


def is_readable(settings: Settings) -> bool:
    """Return True if the plan names a file and says how it is weighted, so that the file can be read as a design."""
    survey = settings.survey
    return survey.file is not None and survey.weighted
