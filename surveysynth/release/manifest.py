"""The manifest of a release, a JSON file of public facts about it: read and check it, and make a release from it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..choices import Kind
from ..errors import InputError, guarded
from ..expenses import Expense
from ..privacy.mechanisms import MECHANISMS
from ..privacy.report import PrivacyReport
from ..storage import unsealed

FORMATS = ("csv", "parquet")
WENT = {"strict": "by Markov chains, and has standard errors that need them", "per-instance": "under weights"}
FORMAT = "surveysynth release 1"
Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Epsilon = Annotated[float, Field(gt=0)]


class Said(BaseModel):
    """Base class of the parts of a manifest.  Types are strict: for example, a number must not be written as text."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class PublicFile(Said):
    """Manifest entry of a public file: its checksums and, if it is a table, its numbers of records and columns."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    records: Count | None = None
    columns: Count | None = None


class Levels(Said):
    """Manifest entry of a categorical column: its categories in order, and whether they are ordered."""

    categories: list[str | bool | int | float]
    ordered: bool


class Spent(Said):
    """Manifest entry of epsilon spent on a confidential file, with an id (:class:`surveysynth.expenses.Expense`)."""

    what: Name
    blank: Epsilon | None
    replace: Epsilon | None
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Package(Said):
    """Manifest entry of the version of surveysynth that made the release."""

    surveysynth: str


class Manifest(Said):
    """The entries of a manifest that are checked when it is read.  Models and plans add further entries."""

    model_config = ConfigDict(extra="allow")

    format: Literal["surveysynth release 1"]
    files: dict[str, PublicFile]
    m: Annotated[int, Field(ge=1)]
    kind: Kind
    mechanism: str
    epsilon: Epsilon | None
    epsilon_requested: Epsilon | None
    draws_behind_the_maximum: Count
    diagnostics: str
    assumptions: list[str]
    data_dependent: list[str]
    publication: str
    little_left: bool = False
    rests_on: list[Spent] = []
    unit: str | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    replaced: Epsilon | None = None
    synthesized: Annotated[list[Name], Field(min_length=1)]
    categorical: list[Name] = []
    derived: list[Name] = []
    public_predictors: list[Name]
    design: dict[str, Any]  # arguments of SurveyDesign, which checks them
    count_design: dict[str, Any] | None = None
    labels: dict[str, str] = {}
    dtypes: dict[str, str]
    levels: dict[str, Levels]
    # entries of the method that every release has
    package: Package
    method: str
    weights: str

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Raise ValueError for a manifest that contradicts itself."""
        data = {name for name in self.files if name.startswith("synthetic_")}
        if len(data) != self.m or not any(data == {*synthetic_files(self.m, kind)} for kind in FORMATS):
            raise ValueError(f"m is {self.m}, but the synthetic files are {', '.join(sorted(data)) or 'not listed'}")
        if self.mechanism in WENT:
            raise ValueError(f"it was made by version 0.2 of surveysynth {WENT[self.mechanism]}: read it with that one")
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"the mechanism {self.mechanism!r} is not one of {', '.join(MECHANISMS)}")
        mechanism = MECHANISMS[self.mechanism]
        if self.delta is not None and not mechanism.has_delta:
            raise ValueError(f"delta = {self.delta} does not go with the mechanism {self.mechanism!r}")
        if (self.epsilon is None) != (self.kind == "none"):
            raise ValueError(f"epsilon = {self.epsilon} does not go with the kind {self.kind!r}")
        if self.kind not in ("none", *mechanism.guarantees):
            raise ValueError(f"the kind {self.kind!r} does not go with the mechanism {self.mechanism!r}")
        lacking = {*self.synthesized, *self.public_predictors, *self.derived, *self.levels} - {*self.dtypes}
        if lacking:
            raise ValueError(f"dtypes lacks {', '.join(sorted(lacking))}")
        return self


DERIVED = ("guarantee", "neighbours", "checksum")
RELEASE_ENTRIES = {*Manifest.model_fields, *DERIVED} - {"package", "method", "weights"}


def synthetic_files(m: int, format: str) -> list[str]:
    """Return the names of the synthetic files of a release."""
    return [f"synthetic_{number}.{format}" for number in range(1, m + 1)]


def read_manifest(file: Path) -> dict[str, Any]:
    """Read a manifest, and check its checksum and its entries.

    Raises
    ------
    InputError
        The manifest was changed, is of another version, or has a missing or wrong entry, which the message names.
    """
    text = unsealed(file)
    try:
        Manifest.model_validate_json(text)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}" for fault in error.errors()[:5]]
        raise InputError(f"{str(file)!r} is not the manifest of a release: {'; '.join(faults)}") from None
    manifest: dict[str, Any] = json.loads(text)
    return manifest


def public_folder(path: Path) -> Path:
    """Return the folder ``public`` of a release folder.  Return ``path`` if it has no such folder."""
    return path / "public" if (path / "public").is_dir() else path


def seal_of(path: Path) -> str:
    """Return the SHA-256 in the manifest of a release, by which other files refer to the release.

    Raises
    ------
    InputError
        See :func:`read_manifest`.
    """
    return str(read_manifest(public_folder(path) / "manifest.json")["checksum"]["sha256"])


def types_of(frame: pd.DataFrame, columns: Iterable[str] | None = None, public: Collection[str] = ()) -> dict[str, Any]:
    """Return the manifest entries ``dtypes`` (types of all columns) and ``levels`` (of the categorical columns).

    With ``columns``, levels are returned for these columns only.  For a column in ``public``, levels that no record has
    are left out, so that they are not published.
    """
    found = [c for c in columns or frame if isinstance(frame[c].dtype, pd.CategoricalDtype)]
    return {
        "dtypes": {str(c): str(t) for c, t in frame.dtypes.items()},
        "levels": {c: _levels(frame[c], all_of_them=c not in public) for c in found},
    }


def fields_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Release`` from a manifest, without the data sets and the noisy tables."""
    privacy = PrivacyReport(
        kind=manifest["kind"],
        epsilon=math.inf if manifest["epsilon"] is None else manifest["epsilon"],
        epsilon_requested=manifest["epsilon_requested"],
        m=manifest["m"],
        draws=manifest["draws_behind_the_maximum"],
        verdict=manifest["diagnostics"],
        assumptions=manifest["assumptions"],
        data_dependent=manifest["data_dependent"],
        publishable=not manifest["publication"].startswith("reproducible"),
        little_left=manifest.get("little_left", False),
        unit=manifest.get("unit"),
        mechanism=manifest["mechanism"],
        delta=manifest.get("delta"),
        replaced=manifest.get("replaced"),
    )
    return {
        "privacy": privacy,
        "rests_on": _expenses_of(manifest),
        "predictors": tuple(manifest["public_predictors"]),
        "outcomes": tuple(manifest["synthesized"]),
        "method": {name: value for name, value in manifest.items() if name not in RELEASE_ENTRIES},
        "categorical": tuple(manifest.get("categorical", ())),
        "count_roles": manifest.get("count_design"),
        "derived": dict.fromkeys(manifest.get("derived", ())),
    }


def _expenses_of(manifest: Mapping[str, Any]) -> tuple[Expense, ...]:
    """Return the expenses in a manifest.  For a manifest of an earlier version, make one from its epsilons."""

    def read() -> tuple[Expense, ...]:
        if "rests_on" in manifest:
            return tuple(Expense(**each) for each in manifest["rests_on"])
        epsilons = tuple(dict(manifest["neighbours"]).values())
        blank, replaced = (epsilons[0], epsilons[1] if len(epsilons) > 1 else None) if epsilons else (None, None)
        return (Expense("an earlier release", blank, replaced, id=manifest["checksum"]["sha256"][:32]),)

    wrong = (TypeError, KeyError, ValueError, IndexError)
    return guarded(read, wrong, lambda kind: InputError(f"what the release rests on is damaged ({kind})"))


def without_none(roles: dict[str, Any]) -> dict[str, Any]:
    """Return the design roles without those that are None."""
    return {role: name for role, name in roles.items() if name is not None}


def _levels(column: pd.Series, *, all_of_them: bool) -> dict[str, Any]:
    """Return the manifest entry ``Levels`` of a column, without unused categories unless ``all_of_them``."""
    used = column.cat if all_of_them else column.cat.remove_unused_categories().cat
    return {"categories": used.categories.tolist(), "ordered": bool(used.ordered)}
