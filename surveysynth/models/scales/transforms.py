"""Working scales of an outcome: the model is normal on the forward scale.

Source: Hu, Savitsky & Williams 2022a, section 2.1, where the scale is the log.

Lipschitz bounds are log densities on the working scale.  Under ``log`` they do not depend on
the unit of the outcome.  Under ``identity`` and ``asinh`` they do, so both transforms need a public scale.
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
    """A monotone map between the outcome and its working scale."""

    def forward(self, y: Floats) -> Floats:
        """Values on the working scale; NaN where y is not defined on this scale."""
        ...

    def inverse(self, z: Floats) -> Floats:
        """Values in the unit of the outcome."""
        ...

    def describe(self) -> str:
        """Name, base measure and unit, for the report."""
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
        """The log of y; NaN where y is not positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y > 0, np.log(y), np.nan)

    def inverse(self, z: Floats) -> Floats:
        """The exponential of z."""
        return np.exp(z)

    def describe(self) -> str:
        """Name, base measure and unit, for the report."""
        return "log (densities per unit of log outcome; the outcome's own unit does not matter)"


@dataclass(frozen=True)
class IdentityTransform:
    """Working scale y~ = y / scale.

    Parameters
    ----------
    scale : float
        A public number, in the outcome's unit; it sets the unit of the densities.

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
        """The ratio y / scale."""
        return y / self.scale

    def inverse(self, z: Floats) -> Floats:
        """The product z * scale."""
        return z * self.scale

    def describe(self) -> str:
        """Name, base measure and unit, for the report."""
        return f"identity (densities per {self.scale:g} units of the outcome)"


@dataclass(frozen=True)
class AsinhTransform:
    """Working scale y~ = asinh(y / scale): logarithmic in both tails, linear near 0, for amounts that can be negative.

    Parameters
    ----------
    scale : float
        A public number, in the outcome's unit: about where the scale turns from linear to logarithmic.

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
        """The value asinh(y / scale)."""
        return np.arcsinh(y / self.scale)

    def inverse(self, z: Floats) -> Floats:
        """The value scale * sinh z."""
        return self.scale * np.sinh(z)

    def describe(self) -> str:
        """Name, base measure and unit, for the report."""
        return f"asinh (densities per unit of asinh(outcome / {self.scale:g}))"


def _check_scale(scale: float) -> None:
    positive(scale, "scale=, which is public and not computed from the file,")


def as_transform(name: str | Transform, scale: float | None = None) -> Transform:
    """A transform from its name: ``log``, or ``identity`` / ``asinh`` with a public ``scale``.

    A transform is returned as it is.

    Raises
    ------
    InputError
        An unknown name, a missing scale, or a scale for log.
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
