"""The data that a model uses: public data, and confidential records.

Letters in shapes are numbers: n of records, d of outcomes, K of columns of the model matrix, and G of distinct rows of
the model matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

EACH = {"each": True}  # marks fields that have an entry for each record: arrays (n, ...), or objects with ``subset``


@dataclass(frozen=True, repr=False, kw_only=True)  # a repr would show confidential values
class Public:
    """Public data of n records, from which a model simulates.

    Attributes
    ----------
    X : float array (G, K)
        Distinct rows of the model matrix of the formula.
    row : int array (n,)
        Position in X of each record's row.
    columns : tuple of str
        Names of the columns of X.
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
        The outcomes, on the scale of the model, such as log income.
    log_w : float array (n,) or None
        log(w / mean w), which is modelled together with y.  If the weights are public, ``log_w`` is None.
    """

    y: Floats = field(metadata=EACH)
    log_w: Floats | None = field(default=None, metadata=EACH)

    view: ClassVar[type[Public]] = Public  # type of the public part

    @property
    def public(self) -> Public:
        """The public part of the records, from which :meth:`Synthesizer.simulate` draws."""
        kept = {f.name: getattr(self, f.name) for f in fields(self.view)}
        return self.view(**{name: getattr(value, "public", value) for name, value in kept.items()})

    def public_subset(self, records: Codes) -> Public:
        """Return the public part of the records at the positions ``records``.  A position may occur several times."""
        return self.subset(records).public

    def subset(self, records: Codes) -> Self:
        """Return the records at the positions ``records``, in this order.  All rows of X are kept."""
        taken = {f.name: _subset(getattr(self, f.name), records) for f in fields(self) if f.metadata.get("each")}
        return replace(self, **taken)


def _subset(value: Any, records: Codes) -> Any:
    if value is None:
        return None
    return value[records] if isinstance(value, np.ndarray) else value.subset(records)
