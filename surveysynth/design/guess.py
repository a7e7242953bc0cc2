"""Guesses of the columns that are weights, strata, PSUs and replicate weights, for the draft of a plan."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

# Names in survey files: EU-SILC's codes db, rb, pb and hb, names of national surveys, and plain words.
NAMES = {
    "weights": (
        r"(?:.*_)?(?:w|wt|wgt|weights?|pweight|pw|finalwt|finlwt\w*|perwt|hhwt|wt(?:mec|int)\w*|(?:db09|rb05|pb04|hb05)0|pspwght)(?:_.*)?"
    ),
    "strata": r"(?:.*_)?(?:strat(?:um|a)?|db050|sdmvstra|estrato)(?:_.*)?",
    "psu": r"(?:.*_)?(?:psu|upm|cluster|ea|db060|sdmvpsu|secu|segment)(?:_.*)?",
}
LABELS = {
    "weights": r"\bweights?\b",
    "strata": r"\bstrat(?:um|a)\b",
    "psu": r"\b(?:psu|primary sampling unit|cluster)\b",
}
# Names of replicate weights before their number: brr_wt, WTREP, REPWT, PWGTP, RW, btwt, bsw, jkw, W_FSTURWT, ...
REPLICATES = r".*(?:brr|rep|boot|btwt|bsw|jk|fay|wgt|wt|weight).*|(?:.*_)?(?:rw|wr|rakedw)_?"
FEWEST = 8  # replicates are numbered from 0 or 1 to at least this number: fewer columns may be other weights


def guess_roles(columns: Sequence[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Guess the roles of columns in the sampling design, from their names and labels.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns of a file.
    labels : mapping of column to str
        Labels of those columns that have one.

    Returns
    -------
    dict of str to str
        The column of "weights", of "strata" and of "psu", and a regular expression for the names of the columns of
        "replicate_weights".  A role is left out if no column, or more than one, fits.
    """
    numbered = _replicates(columns)
    replicates = {name for names in numbered.values() for name in names.values()}
    columns = [c for c in columns if c not in replicates]
    found: dict[str, str] = {}
    for role, pattern in NAMES.items():
        named = [c for c in columns if re.fullmatch(pattern, c, re.IGNORECASE)]
        labelled = [c for c in columns if re.search(LABELS[role], labels.get(c, ""), re.IGNORECASE)]
        for candidates in (named, labelled):
            if len(candidates) == 1:
                found[role] = candidates[0]
                break
    if len(numbered) == 1:
        ((prefix, names),) = numbered.items()
        found["replicate_weights"] = f"{re.escape(prefix)}{'(?!0+$)' if 0 in names else ''}[0-9]+"
        main = names.get(0) or (prefix if prefix in columns else None)
        if main is not None:
            found.setdefault("weights", main)
    return found


def _replicates(columns: Sequence[str]) -> dict[str, dict[int, str]]:
    """Return the columns that look like replicate weights, such as {"REPWT": {1: "REPWT1", 2: "REPWT2", ...}}."""
    families: dict[str, dict[int, str]] = defaultdict(dict)
    for column in columns:
        match = re.fullmatch(r"(.*?)([0-9]+)", column)
        if match and re.fullmatch(REPLICATES, match[1], re.IGNORECASE):
            families[match[1]][int(match[2])] = column
    return {
        prefix: names for prefix, names in families.items()
        if max(names) >= FEWEST and sorted(names) in ([*range(len(names))], [*range(1, len(names) + 1)])
    }  # fmt: skip
