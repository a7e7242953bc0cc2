"""What the mixture makes of a file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..one_outcome import Standardized
from ..records import EACH

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, repr=False, kw_only=True)
class MixtureRecords(Standardized):
    """The records of a mixture; y is 0 for those that are ``zero``.

    Attributes
    ----------
    zero : bool array (n,)
        Whether the outcome is exactly 0 and zeros have a probability of their own.
    """

    zero: NDArray[np.bool_] = field(metadata=EACH)
