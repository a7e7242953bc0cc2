"""Write models and transforms as JSON and read them back.

A policy, which is made from a historical file for releases of later files, stores its model in this form.
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
    """Turn a model or a transform into numbers, strings, lists and mappings.  Internal fields are left out.

    Raises
    ------
    InputError
        The class of the object does not belong to the package.
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
