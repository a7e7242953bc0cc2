"""The part of a dossier about the ledger, which records the epsilon that all releases of a survey have spent.

A dossier is the document that a disclosure review board signs.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR

import pandas as pd

from ...errors import PrivacyError
from ...privacy.accounting.ledger import Ledger
from ...privacy.accounting.sums import shown
from ...publication.dossier_page import Block, Grid, Paragraph
from .case import Case

ENTRIES = 12  # largest number of ledger entries that are shown


def ledger_fault(case: Case, ledger: Ledger) -> str:
    """Return the reason why a ledger does not agree with a release, or an empty text if it does."""
    try:
        ledger.verify({str(case.folder): case.release})
    except PrivacyError as error:
        return str(error)
    return ""


def balance_line(ledger: Ledger | None) -> str:
    """Return a line of text: the epsilon (for blanking) that a survey has spent, and what is left under the cap."""
    if ledger is None:
        return "not known: no ledger was given, so earlier releases about these people are not counted here"
    cap = "no cap" if ledger.cap is None else f"cap {shown(ledger.cap)}, {shown(ledger.left, ROUND_FLOOR)} left"
    return f"{ledger.survey}: spent {shown(ledger.spent.blank)}, {cap}"


def balance(case: Case, ledger: Ledger | None) -> tuple[Block, ...]:
    """Return a table of the last entries of a ledger, and a paragraph that says whether it agrees with the release."""
    if ledger is None:
        return (Paragraph("Ledger: none was given, so what earlier releases of this survey spent is not shown here."),)
    number = (case.release.method.get("ledger") or {}).get("entry")
    rows = tuple(
        (
            f"{row['number']}{' (this release)' if row['number'] == number else ''}",
            str(row["time"])[:16].replace("T", " "), row["what"], row["kind"],
            *("unknown" if pd.isna(row[c]) else f"{row[c]:g}" for c in ("blank", "sum_blank", "sum_replace")),
        )
        for row in ledger.entries().tail(ENTRIES).to_dict("records")
    )  # fmt: skip
    fault = ledger_fault(case, ledger)
    return (
        Grid(
            ("entry", "time", "what", "kind", "epsilon (blanking)", "sum (blanking)", "sum (replacing)"), rows,
            numbers=3,
            title=f"Ledger of {balance_line(ledger)}",
        ),
        Paragraph(
            f"The ledger does not go with this release: {fault}" if fault else
            "The ledger is whole, and holds this release. Epsilons about the same people add up; the cap is on "
            "blanking.",
            strong=bool(fault),
        ),
    )  # fmt: skip
