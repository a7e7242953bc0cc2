"""The parts of a dossier on which a disclosure review board acts: the first page, and the page for its decision."""

from __future__ import annotations

from collections.abc import Iterator

from ...privacy.accounting.ledger import Ledger
from ...publication.dossier_page import Block, Grid, Guess, Items, Lines, Paragraph, Signatures, listed
from ...publication.footnotes import most_guessed
from ..comparison import DISTANCE, Comparison
from ..contents import kept_columns
from .balance import balance_line, ledger_fault
from .case import Case, Inside
from .declared import declared, number
from .risks import HIGH, Risks

ROLES = "Prepared by", "Owner of the survey data", "Disclosure review board", "Disclosure review board (chair)"
CHECKS = (
    "Every declared value on page 1 is confirmed by name, from a source other than the confidential file",
    "Every finding on page 1 is answered below",
    "The SHA-256 at the end of public/manifest.json is the one on page 1",
)
DECISIONS = (
    "Approved: the folder public/ with the checksums listed here may leave the building",
    "Approved on the conditions written below",
    "Not approved",
)
MOST_FINDINGS = 2  # of a comparison, on the first page
QUESTION = (
    "You decide whether the folder public/ may be published. The guarantee rests on the values in the table below, "
    "which must be right and public: write who confirms each. You sign on the last page. This document stays inside."
)


def first_page(
    case: Case, comparison: Comparison, risks: Risks | None, ledger: Ledger | None, inside: Inside
) -> tuple[Block, ...]:
    """Make the first page: what is released, about whom, the guarantee, the budget, the declared facts, the findings.

    ``risks`` is None if the risks of identification could not be computed.
    """
    found = [
        *_about_the_guarantee(case), *_about_the_ledger(case, ledger), *_about_records(risks, inside),
        *_about_the_comparison(comparison.findings),
    ]  # fmt: skip
    facts = *released(case), ("budget of these people", balance_line(ledger)), ("manifest SHA-256", case.seal)
    return (
        Paragraph(QUESTION), Grid((), facts), *promise(case), declared(case.release, sign=True),
        Paragraph("What stands out:" if found else "Nothing stands out in this document.", strong=not found),
        *([listed(found)] if found else []),
        *([Paragraph(DISTANCE)] if comparison.distances_stand_out else []),
    )  # fmt: skip


def _about_the_comparison(findings: list[str]) -> Iterator[str]:
    """Yield the first differences between release and file, and then how many more differences there are."""
    yield from (f"{text} (section 6)" for text in findings[:MOST_FINDINGS])
    if (more := len(findings) - MOST_FINDINGS) > 0:
        yield f"further differences that exceed noise: {more} (section 6)"


def released(case: Case) -> tuple[tuple[str, str], ...]:
    """Return pairs (heading, text): what is released, about whom, and under which guarantee."""
    release, p = case.release, case.release.privacy
    design = release.datasets[0]
    weights = " and weights" if str(release.method["weights"]).startswith("synthesized") else ""
    unit = "each record" if p.unit is None else f"all records of one {p.unit}"
    changes = "; ".join(f"to {relation}: {value:g}" for relation, value in p.neighbours.items())
    return (
        ("released", f"{release.m} data sets with synthetic {', '.join(release.outcomes)}{weights}; tables of them"),
        ("as collected", ", ".join(kept_columns(release)) or "nothing"),
        ("about whom", f"{design.n:,} records, weighted to {number(round(design.weights.sum()))}; protected: {unit}"),
        ("guarantee", p.spent), *([("epsilon", changes)] if changes else []),
    )  # fmt: skip


def promise(case: Case) -> tuple[Block, ...]:
    """Return the sentence on who is protected, and how far.

    For a strict guarantee, a bar is added.  It shows the largest probability that an intruder guesses right.
    """
    p = case.release.privacy
    bar = (Guess(most_guessed(p.epsilon)[0]),) if p.kind == "strict" else ()
    return Paragraph(case.sentences[0], strong=True), *bar


def signatures() -> tuple[Block, ...]:
    """Return boxes for checks and for the decision, lines for conditions, and space for signatures."""
    return (
        Paragraph("Before you sign:"),
        Items(CHECKS, boxes=True),
        Paragraph("Decision:"),
        Items(DECISIONS, boxes=True),
        Paragraph("Conditions, answers and remarks:"),
        Lines(6),
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
        yield f"Epsilon = {p.epsilon:g} is large: the bound alone promises little"
    if "failed" in p.verdict:
        yield f"Diagnostics: {p.verdict}"


def _about_the_ledger(case: Case, ledger: Ledger | None) -> Iterator[str]:
    if ledger is None and "ledger" in case.release.method:
        yield "The release was entered in a ledger, which was not given: the budget spent in all is not known here"
    elif ledger is None:
        yield "The release was not entered in a ledger: nothing adds its epsilon to earlier ones"
    elif fault := ledger_fault(case, ledger):
        yield f"Ledger: {fault}"


def _about_records(risks: Risks | None, inside: Inside) -> Iterator[str]:
    """Yield sentences on records that may be identified, and on blocked earlier releases of the same fit."""
    if risks is None:
        yield "Risks of identification could not be computed (section 4)"
    elif high := int((risks.judged["identification"] > HIGH).sum()):
        yield (
            f"{high:,} records have a probability of identification above {HIGH:g}; a guess without the release has it "
            f"for {int((risks.dealt['identification'] > HIGH).sum()):,} (section 4)"
        )
    if blocked := inside.numbers.get("releases_blocked_by_a_rule_before") or 0:
        yield f"{blocked} releases of this fit were blocked by a rule before: do not publish that"
