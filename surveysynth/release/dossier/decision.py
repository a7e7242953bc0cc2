"""The parts of a dossier that a review board acts on: the decision, conspicuous findings, and signatures."""

from __future__ import annotations

from collections.abc import Iterator

from ...privacy.accounting.ledger import Ledger
from ...publication.dossier_page import Block, Grid, Items, Lines, Paragraph, Signatures, listed
from ..comparison import Comparison, quantity
from ..contents import kept_columns
from .balance import balance_line, ledger_fault
from .case import Case, Inside
from .risks import HIGH, Risks

ROLES = "Prepared by", "Owner of the survey data", "Disclosure review board", "Disclosure review board (chair)"
DECISIONS = (
    "Approved: the folder public/ with the checksums listed here may leave the building",
    "Approved on the conditions written below",
    "Not approved",
)
QUESTION = (
    "You decide whether the folder public/ may leave the building. What is in it is protected by the promise below, if "
    "the assumptions at the end hold: please tick them one by one. Everything else in this document is evidence that "
    "helps to judge, and must stay inside."
)


def decision(
    case: Case, comparison: Comparison, risks: Risks | None, ledger: Ledger | None, inside: Inside
) -> tuple[Block, ...]:
    """State the question for the board and facts about the release, and list conspicuous findings."""
    p = case.release.privacy
    lines = [
        ("Release", str(case.folder.absolute())),
        ("Guarantee", p.spent),
        *((f"to {relation}", f"epsilon = {value:g}") for relation, value in p.neighbours.items()),
        ("Synthesized", ", ".join(case.release.outcomes)),
        ("Published as collected", ", ".join(kept_columns(case.release)) or "nothing"),
        ("Ledger", balance_line(ledger)),
        ("Manifest SHA-256", case.seal),
    ]
    found = [
        *_about_the_guarantee(case), *_about_the_ledger(case, ledger), *_about_estimates(comparison),
        *_about_records(risks, inside),
    ]  # fmt: skip
    return (
        Paragraph(QUESTION),
        Grid((), tuple(lines)),
        Paragraph("What stands out:" if found else "Nothing stands out in the checks below.", strong=not found),
        *([listed(found, boxes=True)] if found else []),
    )


def signatures() -> tuple[Block, ...]:
    """Return boxes for the decision, lines for conditions, and space for signatures."""
    return (
        Items(DECISIONS, boxes=True),
        Paragraph("Conditions and remarks:"),
        Lines(4),
        Signatures(ROLES),
    )


def _about_the_guarantee(case: Case) -> Iterator[str]:
    p = case.release.privacy
    if not p.publishable or p.little_left:
        yield f"Publication: {p.publication}"
    if p.kind == "none":
        yield "There is no guarantee: no epsilon bounds what is revealed of a record"
    elif p.kind != "strict":
        yield f"The guarantee is of kind {p.kind}: section 3 says what it is not"
    if "promises little" in case.sentences[0]:
        yield f"Epsilon = {p.epsilon:g} is large: the bound alone promises little (section 3 says how little)"
    if "failed" in p.verdict:
        yield f"Diagnostics: {p.verdict}"


def _about_the_ledger(case: Case, ledger: Ledger | None) -> Iterator[str]:
    if ledger is None and "ledger" in case.release.method:
        yield "No ledger was given with this dossier, although the release was entered in one"
    elif ledger is None:
        yield "The release was not entered in a ledger: nothing adds its epsilon to earlier ones"
    elif fault := ledger_fault(case, ledger):
        yield f"Ledger: {fault}"


def _about_estimates(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each statistic whose intervals miss the file's own estimate too often."""
    for row in comparison.summary.to_dict("records"):
        if row["misses"] > row["most"]:
            yield (
                f"{quantity(row)}: {row['misses']} of {row['cells']} intervals miss the file's own estimate, where "
                f"chance allows {row['most']} (section 6): users would be misled there"
            )


def _about_records(risks: Risks | None, inside: Inside) -> Iterator[str]:
    """Yield sentences on records that may be identified, and on earlier releases of the same fit that were blocked."""
    if risks is None:
        yield "Risks of identification could not be computed: the internal part of the release, or a number, is lacking"
    elif high := int((risks.table["identification"] > HIGH).sum()):
        yield f"{high:,} records have a probability of identification above {HIGH:g} (section 4)"
    if blocked := inside.numbers.get("releases_blocked_by_a_rule_before") or 0:
        yield f"{blocked} releases of this fit were blocked by a rule before: do not publish that"
