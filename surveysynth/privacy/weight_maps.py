"""Maps from a record's risk f_i to its privacy weight alpha_i in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Span = tuple[float, float] | None
WeightMap = Callable[[Floats, float, float, float, Span], Floats]


def inverse_map(f: Floats, c1: float, c2: float, target: float, span: Span = None) -> Floats:
    """Return the privacy weights of the inverse map, alpha_i = clip(min(1, c1 * target / f_i) + c2, 0, 1).

    Source: Hu, Savitsky & Williams 2022a, section 1.4.1 step 2.

    Parameters
    ----------
    f : float array (n,)
        Lipschitz bounds of the records.  A record whose bound is not finite gets alpha = 0.
    c1, c2 : float
        Scale and shift.
    target : float
        The target for the overall Lipschitz bound, epsilon / (2 m).
    span : pair of float, optional
        Not used.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        alpha = np.clip(np.minimum(1.0, c1 * target / f) + c2, 0.0, 1.0)
    return np.where(np.isfinite(f), alpha, 0.0)


def linear_map(f: Floats, c1: float, c2: float, target: float, span: Span = None) -> Floats:
    """Return the privacy weights of the linear map, alpha_i = clip(c1 (1 - f~_i) + c2, 0, 1), for scaled risks f~_i.

    Source: Hu, Savitsky & Williams 2020, Algorithm 2.

    f~_i = (f_i - min f) / (max f - min f), clipped to [0, 1].  The parameters are those of :func:`inverse_map`, but f
    can be any risk and the target is not used.  ``span`` gives min f and max f if these must not depend on the file.
    """
    finite = np.isfinite(f)
    if not finite.any():
        return np.zeros_like(f)
    low, high = (f[finite].min(), f[finite].max()) if span is None else span
    scaled = np.clip((f - low) / (high - low), 0, 1) if high > low else np.zeros_like(f)
    return np.where(finite, np.clip(c1 * (1 - np.where(finite, scaled, 0.0)) + c2, 0.0, 1.0), 0.0)


MAPS: dict[str, WeightMap] = {"inverse": inverse_map, "linear": linear_map}
