"""Errors for outcomes that every model refuses: outcomes with missing values, and constant outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, ModelError
from ...validation import rows


def missing_outcome(name: str, missing: NDArray[np.bool_]) -> InputError:
    """Make the error for an outcome with missing values.  ``missing`` (n,) marks the records."""
    return InputError(
        f"outcome {name!r} is missing in {rows(missing)}; fill it in, or say missing='drop' to leave these records out "
        "(the report then says how many)"
    )


def constant_outcome(name: str) -> ModelError:
    """Make the error for an outcome with a single value."""
    return ModelError(f"{name} is constant: there is nothing to synthesize, and a release would reveal its value")
