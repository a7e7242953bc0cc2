"""Which columns of a file are weights, strata and PSUs, by their names and labels alone: a guess for a plan's draft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Names as they stand in survey files: EU-SILC's db/rb/pb/hb codes, the names of national surveys, plain words.
NAMES = {
    "weights": (
        r"(?:.*_)?(?:w|wt|wgt|weights?|pweight|pw|finalwt|finlwt\w*|perwt|hhwt|(?:db09|rb05|pb04|hb05)0|pspwght)(?:_.*)?"
    ),
    "strata": r"(?:.*_)?(?:strat(?:um|a)?|db050|sdmvstra|estrato)(?:_.*)?",
    "psu": r"(?:.*_)?(?:psu|upm|cluster|ea|db060|sdmvpsu|secu|segment)(?:_.*)?",
}
LABELS = {
    "weights": r"\bweights?\b",
    "strata": r"\bstrat(?:um|a)\b",
    "psu": r"\b(?:psu|primary sampling unit|cluster)\b",
}


def guess_roles(columns: Sequence[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Columns by role; a role that no column, or more than one, could have is left out.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns of a file.
    labels : mapping of column to str
        Their labels, as far as they have some.

    Returns
    -------
    dict of str to str
        ``weights``, ``strata``, ``psu``: the column.
    """
    found: dict[str, str] = {}
    for role, pattern in NAMES.items():
        named = [c for c in columns if re.fullmatch(pattern, c, re.IGNORECASE)]
        labelled = [c for c in columns if re.search(LABELS[role], labels.get(c, ""), re.IGNORECASE)]
        for candidates in (named, labelled):
            if len(candidates) == 1:
                found[role] = candidates[0]
                break
    return found
