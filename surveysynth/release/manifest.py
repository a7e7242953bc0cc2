"""The manifest of a release: what a reader needs to know about its public files, and the release that it describes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..privacy.report import PrivacyReport

if TYPE_CHECKING:
    from .release import Release

METHOD = (
    "package", "engine", "method", "outcome", "predictors", "prior", "transform", "weights", "effects", "debias",
    "corrected", "variance_factor", "limits", "weight_bound", "mixture",
    "ledger", "reference", "private_scores", "title", "contact", "source", "license", "units", "supersedes", "overlap",
)  # fmt: skip


def manifest_of(release: Release) -> dict[str, Any]:
    """What the manifest says of a release, but for its files: nothing confidential, and no seed."""
    design = release.datasets[0]
    return {
        **release.method,
        "synthesized": list(release.outcomes),
        **({"categorical": list(release.categorical)} if release.categorical else {}),
        "public_predictors": list(release.predictors),
        **release.privacy.public(),
        "design": _without_none(design.roles()),
        **({"count_design": _without_none(release.count_roles)} if release.count_roles else {}),
        **({"labels": design.labels} if design.labels else {}),
        "dtypes": {str(c): str(t) for c, t in design.frame.dtypes.items()},
        "levels": {
            c: _levels(design.frame[c], all_of_them=c in release.categorical)
            for c in (*release.predictors, *release.categorical)
            if isinstance(design.frame[c].dtype, pd.CategoricalDtype)
        },
    }


def fields_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The fields of the release that a manifest describes, but for its data sets."""
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
        mechanism=manifest.get("mechanism", "pseudo posterior"),
    )
    return {
        "privacy": privacy,
        "predictors": tuple(manifest["public_predictors"]),
        "outcomes": tuple(manifest["synthesized"]),
        "method": {name: manifest[name] for name in METHOD if name in manifest},
        "categorical": tuple(manifest.get("categorical", ())),
        "count_roles": manifest.get("count_design"),
    }


def _without_none(roles: dict[str, Any]) -> dict[str, Any]:
    return {role: name for role, name in roles.items() if name is not None}


def _levels(column: pd.Series, *, all_of_them: bool) -> dict[str, Any]:
    """Categories in order; of a predictor, one that no record has stays unknown to the public."""
    used = column.cat if all_of_them else column.cat.remove_unused_categories().cat
    return {"categories": used.categories.tolist(), "ordered": bool(used.ordered)}
