"""Transforms of an outcome to the working scale, on which the outcome is normal given the predictors.

Source: Hu, Savitsky & Williams 2022a, section 2.1, where the working scale is the log.

Lipschitz bounds are computed from log densities on the working scale.  Under ``log``, they do not depend on the unit of
the outcome.  Under ``identity`` and ``asinh``, they do, so both transforms need a public scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...validation import positive

Floats = NDArray[np.float64]


class Transform(Protocol):
    """An increasing map between the outcome and its working scale."""

    def forward(self, y: Floats) -> Floats:
        """Transform y to the working scale.  The result is NaN where y is not defined on this scale."""
        ...

    def inverse(self, z: Floats) -> Floats:
        """Transform values z on the working scale to the unit of the outcome."""
        ...

    def describe(self) -> str:
        """Return one line for the report: the name of the transform, and the unit in which densities are computed."""
        ...


@dataclass(frozen=True)
class LogTransform:
    """Working scale y~ = log y, for positive outcomes.

    Examples
    --------
    >>> ss.LogTransform().forward(np.array([1.0, 10.0, 100.0])).round(3)
    array([0.   , 2.303, 4.605])
    """

    name: ClassVar[str] = "log"

    def forward(self, y: Floats) -> Floats:
        """Return the log of y, and NaN where y is not positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y > 0, np.log(y), np.nan)

    def inverse(self, z: Floats) -> Floats:
        """Return the exponential of z."""
        return np.exp(z)

    def describe(self) -> str:
        """Return one line for the report: the name of the transform, and the unit in which densities are computed."""
        return "log (densities per unit of log outcome; the outcome's own unit does not matter)"


@dataclass(frozen=True)
class IdentityTransform:
    """Working scale y~ = y / scale.

    Parameters
    ----------
    scale : float
        A public number, in the outcome's unit.  Densities are per ``scale`` units of the outcome.

    Examples
    --------
    >>> ss.IdentityTransform(scale=10).forward(np.array([5.0, 25.0]))
    array([0.5, 2.5])
    """

    scale: float

    name: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    def forward(self, y: Floats) -> Floats:
        """Return y / scale."""
        return y / self.scale

    def inverse(self, z: Floats) -> Floats:
        """Return z * scale."""
        return z * self.scale

    def describe(self) -> str:
        """Return one line for the report: the name of the transform, and the unit in which densities are computed."""
        return f"identity (densities per {self.scale:g} units of the outcome)"


@dataclass(frozen=True)
class AsinhTransform:
    """Working scale y~ = asinh(y / scale), for amounts that can be negative.

    Parameters
    ----------
    scale : float
        A public number, in the outcome's unit.  The working scale is nearly linear for amounts far below ``scale`` in
        absolute value, and nearly logarithmic for amounts far above it.

    Examples
    --------
    >>> ss.AsinhTransform(scale=1000).forward(np.array([-5000.0, 0.0, 5000.0])).round(3)
    array([-2.312,  0.   ,  2.312])
    """

    scale: float

    name: ClassVar[str] = "asinh"

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    def forward(self, y: Floats) -> Floats:
        """Return asinh(y / scale)."""
        return np.arcsinh(y / self.scale)

    def inverse(self, z: Floats) -> Floats:
        """Return scale * sinh z."""
        return self.scale * np.sinh(z)

    def describe(self) -> str:
        """Return one line for the report: the name of the transform, and the unit in which densities are computed."""
        return f"asinh (densities per unit of asinh(outcome / {self.scale:g}))"


def _check_scale(scale: float) -> None:
    positive(scale, "scale=, which is public and not computed from the file,")


def as_transform(name: str | Transform, scale: float | None = None) -> Transform:
    """Return the transform with this name: "log", or "identity" or "asinh" with a public ``scale``.

    If ``name`` is a transform already, return it unchanged.

    Raises
    ------
    InputError
        The name is unknown, the scale is missing, or ``log`` has a scale.
    """
    if not isinstance(name, str):
        if isinstance(name, type) or not hasattr(name, "forward"):
            raise InputError("transform must be a name or a transform such as surveysynth.AsinhTransform(scale=1000)")
        return name
    if name == "log":
        if scale is not None:
            raise InputError("the log transform has no scale")
        return LogTransform()
    if name not in ("identity", "asinh"):
        raise InputError(f"transform={name!r} is not one of log, identity, asinh")
    if scale is None:
        raise InputError(
            f"{name} needs a public scale: densities depend on the unit of the outcome. Write "
            f"surveysynth.{name.capitalize()}Transform(scale=...), with a number that is not computed from the file"
        )
    return IdentityTransform(scale) if name == "identity" else AsinhTransform(scale)
