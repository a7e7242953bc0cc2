"""Convert models and transforms of outcomes to objects that JSON can store, and back.

A policy stores its model in this form.  A policy is made from a historical file for releases of later files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .registry import MODELS
from .scales.normal_scores import NormalScores
from .scales.transforms import AsinhTransform, IdentityTransform, LogTransform

TRANSFORMS = (NormalScores, AsinhTransform, IdentityTransform, LogTransform)
CLASSES: dict[str, type] = {
    kind.__name__: kind for kind in (*(model.kind for model in MODELS.values()), *TRANSFORMS)
}


def as_json(value: Any) -> Any:
    """Convert a model, or a transform of an outcome, to numbers, strings, lists and dicts that JSON can store.

    Fields that are marked as internal are not stored.

    Raises
    ------
    InputError
        The model or transform is an instance of a class outside the package, which :func:`from_json` could not rebuild.
    """
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if CLASSES.get(name) is not type(value):
            raise InputError(f"a {name} cannot be written to a file: {', '.join(CLASSES)} can")
        kept = [f.name for f in fields(value) if f.init and not f.metadata.get("internal")]
        return {"class": name} | {field: as_json(getattr(value, field)) for field in kept}
    if isinstance(value, Mapping):
        return {"items": [[as_json(k), as_json(v)] for k, v in value.items()]}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return [as_json(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def from_json(value: Any) -> Any:
    """Rebuild a model or a transform from the output of :func:`as_json`."""
    if isinstance(value, list):
        return [from_json(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "items" in value:
        return {from_json(k): from_json(v) for k, v in value["items"]}
    arguments = {name: from_json(v) for name, v in value.items() if name != "class"}
    return CLASSES[value["class"]](**arguments)
