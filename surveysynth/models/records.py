"""The data of a model: public data, and confidential records."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

EACH = {"each": True}  # marks fields with an entry for each record: arrays (n, ...), or objects with ``subset``


@dataclass(frozen=True, repr=False, kw_only=True)  # a repr would show confidential values
class Public:
    """Public data, from which a model simulates.

    Attributes
    ----------
    X : float array (G, K)
        Distinct rows of the model matrix of the formula.
    row : int array (n,)
        Row of X of each record.
    columns : tuple of str
        Columns of X.
    public_weights : float array (n,) or None
        The survey weights, if they are public.
    """

    X: Floats
    row: Codes = field(metadata=EACH)
    columns: tuple[str, ...]
    public_weights: Floats | None = field(default=None, metadata=EACH)

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.row)

    @property
    def x(self) -> Floats:
        """Predictors (n, K) of the records."""
        return self.X[self.row]


@dataclass(frozen=True, repr=False, kw_only=True)
class Records(Public):
    """The confidential records of a model, with their public data.

    Attributes
    ----------
    y : float array (n,) or (n, d)
        The outcomes, on the scale of the density.
    log_w : float array (n,) or None
        log(w / mean w), which is modelled together with y; None if the weights are public.
    """

    y: Floats = field(metadata=EACH)
    log_w: Floats | None = field(default=None, metadata=EACH)

    view: ClassVar[type[Public]] = Public  # the public part of a subclass

    @property
    def public(self) -> Public:
        """The public part, from which :meth:`Synthesizer.simulate` draws."""
        kept = {f.name: getattr(self, f.name) for f in fields(self.view)}
        return self.view(**{name: getattr(value, "public", value) for name, value in kept.items()})

    def public_subset(self, records: Codes) -> Public:
        """The public part of selected records; a record may be selected several times."""
        return self.subset(records).public

    def subset(self, records: Codes) -> Self:
        """Selected records, in the given order; X stays complete."""
        taken = {f.name: _subset(getattr(self, f.name), records) for f in fields(self) if f.metadata.get("each")}
        return replace(self, **taken)


def _subset(value: Any, records: Codes) -> Any:
    if value is None:
        return None
    return value[records] if isinstance(value, np.ndarray) else value.subset(records)
