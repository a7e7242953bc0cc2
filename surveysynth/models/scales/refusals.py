"""Errors of outcomes that no model takes: missing values, and constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, ModelError
from ...validation import rows


def missing_outcome(name: str, missing: NDArray[np.bool_]) -> InputError:
    """The error for an outcome that is missing in some records (n,)."""
    return InputError(
        f"outcome {name!r} is missing in {rows(missing)}; fill it in, or say missing='drop' to leave these records out "
        "(the report then says how many)"
    )


def constant_outcome(name: str) -> ModelError:
    """The error for an outcome with a single value."""
    return ModelError(f"{name} is constant: there is nothing to synthesize, and a release would reveal its value")
