"""Quality classes of estimates by coefficient of variation, and the symbols that statistical offices print.

A symbol takes the place of a number.  A mark is printed next to a number, and shows its quality class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError
from ..estimation.quantities import SHARES


@dataclass(frozen=True)
class QualityClass:
    """An interval of coefficients of variation: at least the limit of the previous class, and less than ``below``.

    ``mark`` is the quality mark, such as "E".  ``name`` is the name of the class in the wording file, which has the
    printed texts.
    """

    below: float
    mark: str
    name: str


@dataclass(frozen=True)
class Symbols:
    """The symbols and quality marks that a statistical office prints in tables.

    Attributes
    ----------
    suppressed : str
        Symbol in place of the numbers of a suppressed cell.
    missing : str
        Symbol in place of a number that does not exist, such as the standard error of a domain in one PSU.
    classes : tuple of QualityClass
        The quality classes in increasing order of their limits.  The last class has no limit.  An empty mark is not
        printed.
    withheld : bool
        True if numbers of the last class are replaced by the mark of the class.
    """

    suppressed: str
    missing: str
    classes: tuple[QualityClass, ...]
    withheld: bool = False

    @property
    def worst(self) -> QualityClass:
        """The class of the least reliable estimates."""
        return self.classes[-1]

    def ratings(self, table: pd.DataFrame) -> pd.Series:
        """Return the :class:`QualityClass` of every row of a table of estimates, or None for a row without a class.

        The first of these rules that applies to a row decides:

        1. The cell is suppressed: None.
        2. There are no degrees of freedom, so the error is unknown: the worst class.
        3. There is no standard error: None.
        4. The standard error is 0 but the confidence interval has a length, as for a share of 0 or 1: None.
        5. The standard error is 0, as for a known total: the best class.
        6. The class with the coefficient of variation, the standard error divided by the absolute estimate.  The
           standard error of a share is divided by 1/2 instead, so that a share and its complement have the same class.
        """
        numbers = table.reindex(columns=["estimate", "se", "ci_low", "ci_high", "df"])
        estimate, se, low, high, df = (numbers[c].to_numpy(dtype=float, na_value=np.nan) for c in numbers)
        share = table["statistic"].isin(SHARES).to_numpy() if "statistic" in table else False
        with np.errstate(divide="ignore", invalid="ignore"):
            cv = se / np.where(share, 0.5, np.abs(estimate))
        cv = np.where(se > 0, cv, np.where((se == 0) & ~(low < high), 0.0, np.nan))
        cv = np.where((df == 0) & ~np.isnan(estimate), np.inf, cv)
        limits = [each.below for each in self.classes[:-1]]
        at = np.searchsorted(limits, cv, side="right")
        found = [None if np.isnan(x) else self.classes[i] for x, i in zip(cv, at, strict=True)]
        return pd.Series(found, index=table.index, dtype=object)


NONE = float("inf")
SYMBOLS = {
    # letters of Statistics Canada: E means use with caution, F means too unreliable to be published
    "statcan": Symbols(
        "x",
        "..",
        (
            QualityClass(0.05, "A", "excellent"), QualityClass(0.10, "B", "very_good"),
            QualityClass(0.15, "C", "good"), QualityClass(0.25, "D", "acceptable"),
            QualityClass(0.35, "E", "caution"), QualityClass(NONE, "F", "unpublished"),
        ),
        withheld=True,
    ),
    # shorthand of the UK Government Analysis Function
    "uk": Symbols(
        "[c]",
        "[x]",
        (
            QualityClass(0.05, "", "precise"), QualityClass(0.10, "", "reasonably_precise"),
            QualityClass(0.20, "", "acceptable"), QualityClass(NONE, "[u]", "low_reliability"),
        ),
    ),
}  # fmt: skip


def symbols_of(symbols: str | Mapping[str, Any] | None) -> Symbols:
    """Return a set of symbols: "uk", "statcan" (statistical offices), or "uk" with the changes in a mapping.

    Parameters
    ----------
    symbols : {"uk", "statcan"} or mapping, optional
        By default "uk".  A mapping changes parts of "uk": the symbols ``suppressed`` and ``missing``, the mark
        ``unreliable`` of the least reliable class, and ``limit``, the coefficient of variation from which an estimate
        is in that class.

    Raises
    ------
    InputError
        Unknown names; a symbol that is not a text, or is empty; a limit that is not positive.
    """
    if symbols is None:
        return SYMBOLS["uk"]
    if isinstance(symbols, str):
        if symbols not in SYMBOLS:
            raise InputError(f"symbols={symbols!r} is not one of {', '.join(SYMBOLS)}; or give your own marks by name")
        return SYMBOLS[symbols]
    if not isinstance(symbols, Mapping):
        raise InputError("symbols must be uk, statcan, or your own marks by name: {'suppressed': 'x'}")
    plain, wrong = SYMBOLS["uk"], set(symbols) - {"suppressed", "missing", "unreliable", "limit"}
    if wrong:
        raise InputError(
            f"symbols has {', '.join(sorted(map(repr, wrong)))}; it may have suppressed, missing, unreliable and limit"
        )
    limit = symbols.get("limit", plain.classes[-2].below)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise InputError("the limit of symbols must be a positive coefficient of variation, for example 0.2")
    for name in set(symbols) - {"limit"}:
        if not isinstance(symbols[name], str) or not symbols[name].strip():
            raise InputError(f"the symbol for {name!r} must be a text, for example '[c]'")
    lower = [each for each in plain.classes[:-1] if each.below < limit]
    best = QualityClass(float(limit), "", plain.classes[-2].name)
    worst = QualityClass(NONE, symbols.get("unreliable", plain.worst.mark), plain.worst.name)
    suppressed, missing = symbols.get("suppressed", plain.suppressed), symbols.get("missing", plain.missing)
    return Symbols(suppressed, missing, (*lower, best, worst))
