"""Texts of printed tables: who is protected, what is not protected, the expected error, and footnotes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

import numpy as np
import pandas as pd

from ..estimation.quantities import SHARES
from ..privacy.report import PrivacyReport
from .quality import Symbols
from .wording import Wording

WEAK = 1.0  # percent of wrong guesses below which the protection is weak
CERTAIN = 1e-4  # percent of wrong guesses below which the guess is as good as certain
FLAGS = {  # entries of the column ``flag``, by the names of the notes that put them in plain words
    "one_data_set": re.compile("one data set: no between variance"),
    "public_total": re.compile("public total: .*"),
    "calibrated_total": re.compile("calibrated total: .*"),
    "modelled": re.compile("not counted by these variables together: .*"),
    "cv": re.compile("CV above (?P<limit>.*)"),
}
SUPPRESSED = re.compile("suppressed: fewer than (?P<min_cell>[0-9]+) records, [^;]*")  # gets a symbol, not a note


def most_guessed(epsilon: float) -> tuple[str, bool]:
    """Return the highest probability (percent) of guessing a unit's answers right, and whether the protection is weak.

    The intruder guesses between the true answers of the unit and other answers.  Before the release, the two are
    equally likely.  The probabilities of any release given the two answers differ by a factor of at most e^(2 epsilon).
    By Bayes' theorem, the likelier answers then have a probability of at most 1 / (1 + e^(-2 epsilon)).  This
    probability is returned as the text of a percentage, rounded up, without a percent sign.  The protection is weak
    (True) if less than 1% of the guesses are wrong.

    Parameters
    ----------
    epsilon : float
        Epsilon for blanking: two files are neighbours if one of them lacks the answers of one unit.
    """
    wrong = 100 / (1 + math.exp(min(2 * epsilon, 700.0)))
    if wrong < CERTAIN:
        return "100", True
    decimals = 1 if wrong >= WEAK else 1 - math.floor(math.log10(wrong))
    rounded = Decimal(wrong).quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR)
    return f"{(100 - rounded).normalize():f}", wrong < WEAK


def protected(kind: str, epsilon: float, unit: str | None, words: Wording) -> str:
    """Return the sentence that says which units are protected, with the guarantee and its epsilon.

    ``kind`` is the kind of guarantee ("none" for none).  ``unit`` is the column whose groups of records, such as
    households, are protected, or None if single records are.
    """
    what = words("units.record") if unit is None else words("units.group", column=unit)
    if kind == "none":
        return words("protected.none", unit=what)
    values = {"unit": what, "epsilon": f"{epsilon:g}"}
    if kind == "strict":
        percent, weak = most_guessed(epsilon)
        return words("protected.strict_weak" if weak else "protected.strict", **values, percent=percent)
    return words(f"protected.{kind.replace(' ', '_')}", **values)


def unprotected(columns: Sequence[str], records: int, words: Wording) -> str:
    """Return the sentence on the columns published unchanged, or on the number of records if there are none."""
    if not columns:
        return words("unprotected.nothing", records=f"{records:,}")
    return words("unprotected.columns", columns=listed(columns, words))


def error_to_expect(table: pd.DataFrame, report: PrivacyReport, symbols: Symbols, words: Wording) -> str:
    """Return the sentence on the error to expect in the estimates of a table.

    It has the median coefficient of variation, and the number of estimates in the worst quality class.  If shares are
    flagged for their coefficient of variation but are not in this class, another sentence says why.
    """
    if report.little_left:
        return words("error.little_left")
    estimate, se = (table[c].to_numpy(dtype=float, na_value=np.nan) for c in ("estimate", "se"))
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = (se / np.abs(estimate))[se > 0]
    cv = cv[~np.isnan(cv)]
    if cv.size == 0:
        return words("error.none")
    worst = np.array([found is symbols.worst for found in symbols.ratings(table)])
    percent = math.ceil(100 * np.median(cv))
    rating = words(f"quality.{symbols.worst.name}")
    said = words("error.sound", count=f"{cv.size:,}", percent=percent, unreliable=f"{worst.sum():,}", rating=rating)
    limits = [_limit(flags) for flags in table["flag"][table["statistic"].isin(SHARES).to_numpy() & ~worst]]
    shares = [limit for limit in limits if limit]
    return f"{said} {words('error.small_shares', shares=f'{len(shares):,}', limit=shares[0])}" if shares else said


def _limit(flags: object) -> str:
    """Return the limit in a flag such as "CV above 30%", or an empty text if there is no such flag."""
    found = (FLAGS["cv"].fullmatch(flag) for flag in str(flags).split("; "))
    return next((each["limit"] for each in found if each), "")


def suppressed(table: pd.DataFrame, words: Wording) -> str:
    """Return the reason why cells are suppressed.  The text is empty if no cell is suppressed."""
    found = (SUPPRESSED.search(flags) for flags in table["flag"].astype(object).fillna(""))
    return next((words("symbols.suppressed", **each.groupdict()) for each in found if each), "")


def notes_of(table: pd.DataFrame, report: PrivacyReport, words: Wording) -> list[list[str]]:
    """Return a list of notes for each row: one for each flag, and one if failed diagnostics of the fit were accepted.

    The flag of a suppressed cell gets no note, because the cell has a symbol.
    """
    fragile = [words("notes.fragile")] if "failed" in report.verdict else []
    return [
        [*(_note(flag, words) for flag in flags.split("; ") if flag and not SUPPRESSED.match(flag)), *fragile]
        for flags in table["flag"].astype(object).fillna("")
    ]


def _note(flag: str, words: Wording) -> str:
    for name, pattern in FLAGS.items():
        if found := pattern.fullmatch(flag):
            return words(f"notes.{name}", **found.groupdict())
    return flag


def listed(names: Sequence[str], words: Wording) -> str:
    """Join names as in a sentence: "region, age and sex"."""
    *first, last = names
    return words("titles.and").join([", ".join(first), last]) if first else last
