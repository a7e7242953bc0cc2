"""What a model is given of a file: what is public, and the confidential records."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

EACH = {"each": True}  # marks fields of records: arrays (n, ...), or objects that can take ``some`` of them


@dataclass(frozen=True, repr=False, kw_only=True)  # a repr would show confidential values
class Public:
    """What a model may use to simulate: nothing of it is confidential.

    Attributes
    ----------
    X : float array (G, K)
        Distinct predictor rows: of the model matrix of the formula.
    row : int array (n,)
        Row of X of each record.
    columns : tuple of str
        Columns of X.
    public_weights : float array (n,) or None
        The survey weights, where they are a function of the predictors.
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
        """Predictors of the records: (n, K)."""
        return self.X[self.row]


@dataclass(frozen=True, repr=False, kw_only=True)
class Records(Public):
    """The confidential file as a model takes it.

    Attributes
    ----------
    y : float array (n,) or (n, d)
        What the model synthesizes, on the scale of its density.
    log_w : float array (n,) or None
        log(w / mean w), to be modelled with y; None where the weights are public.
    """

    y: Floats = field(metadata=EACH)
    log_w: Floats | None = field(default=None, metadata=EACH)

    view: ClassVar[type[Public]] = Public  # what of a subclass is public

    @property
    def public(self) -> Public:
        """What of it is not confidential: all that :meth:`Synthesizer.simulate` gets."""
        kept = {f.name: getattr(self, f.name) for f in fields(self.view)}
        return self.view(**{name: getattr(value, "public", value) for name, value in kept.items()})

    def public_subset(self, records: Codes) -> Public:
        """What is public of some of the records, each any number of times."""
        return self.subset(records).public

    def subset(self, records: Codes) -> Self:
        """Some of the records, or the same in another order; X stays whole."""
        taken = {f.name: _subset(getattr(self, f.name), records) for f in fields(self) if f.metadata.get("each")}
        return replace(self, **taken)


def _subset(value: Any, records: Codes) -> Any:
    if value is None:
        return None
    return value[records] if isinstance(value, np.ndarray) else value.subset(records)
