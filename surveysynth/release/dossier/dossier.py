"""Write the dossier of a release, the document that a disclosure review board signs, and its public version.

The dossier is made from the release folder with its internal part, and from the confidential file.  The public version
is made from the public files alone, so it cannot reveal anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from warnings import warn

from ...design.survey_design import SurveyDesign
from ...privacy.accounting.ledger import Ledger
from ...privacy.membership import MembershipAttack
from ...publication.dossier_page import Dossier, Grid, Paragraph, Section, html, pdf
from ...storage import as_path, check_new, private_folder, whole_folder
from ..charging import PUBLIC
from ..comparison import compare
from .balance import balance
from .case import Case, Inside
from .decision import first_page, promise, released, signatures
from .declared import declared
from .evidence import compared, diagnostics
from .published import assumptions, columns, guarantee, suppression, versions
from .risks import Risks, risks_of_records

NAME = "dossier"
CONFIDENTIAL = "CONFIDENTIAL - for the disclosure review board only - computed from the confidential file"
OPEN = "Public - made from the published files alone"
NOTICE = (
    "NOT FOR PUBLICATION. The dossier is computed from the confidential file and names rows of single records. Its "
    "public twin is made by surveysynth dossier --public."
)


def dossier(
    path: str | Path,
    design: SurveyDesign,
    out: str | Path,
    *,
    ledger: Ledger | None = None,
    by: str | Sequence[str] | None = None,
    attack: MembershipAttack | None = None,
    files: Sequence[str | Path] = (),
) -> Path:
    """Write the document that a disclosure review board signs before a release is published.  It is confidential.

    The first page says what is released, about whom, what an intruder can guess, which values were declared as public
    (with space for the names of those who confirm them), the balance of the ledger, and what stands out.  The next
    pages have the guarantee, and the pairs of neighbouring files to which it refers; the risks of identification of
    single records, next to the risks that a guess without the release has; diagnostics; differences between the release
    and the confidential file; suppressed cells; assumptions; versions and checksums.  The last page is for decision and
    signatures.

    Parameters
    ----------
    path : str or Path
        The release folder, with its internal part.
    design : SurveyDesign
        The confidential file, with records in the order in which the release was made.
    out : str or Path
        The folder to make (mode 0700, files 0600).  It has dossier.html, dossier.pdf if WeasyPrint is installed, and
        the whole comparison.
    ledger : Ledger, optional
        The ledger of the survey, which is verified against the release.
    by : str or list of str, optional
        The variables that define the cells in which release and file are compared.  The default is
        :meth:`Release.table_predictors`.
    attack : MembershipAttack, optional
        Result of :func:`surveysynth.membership_attack`.
    files : list of paths, optional
        Further files whose checksums are listed, such as the confidential file and the plan.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        There is no release in the folder, ``out`` exists, or the release was made from another file than ``design``.

    Warns
    -----
    UserWarning
        No PDF was made.  The warning says what to install.

    Examples
    --------
    With a release in a folder, and the confidential file from which the release was made:

    >>> ss.dossier("release", design, "for-the-board", by="gender")  # doctest: +SKIP
    """
    out = as_path(out, "out")
    check_new(out)
    case = Case.read(as_path(path))
    comparison = compare(design, case.release, by)
    risks, inside = Risks.computed(case, design), Inside.read(case.folder)
    with TemporaryDirectory() as scratch:
        sections = [
            Section("What you decide", first_page(case, comparison, risks, ledger, inside)),
            Section("What is published, and why it may be", columns(case), new_page=True),
            Section("The guarantee", (*guarantee(case), *balance(case, ledger))),
            Section("Risks of records", risks_of_records(risks, inside.records, case.release, attack, Path(scratch))),
            Section("Diagnostics of the fit", diagnostics(case, inside)),
            Section("The release compared with the confidential file", compared(comparison, Path(scratch))),
            Section("Suppression and quality", suppression(case)),
            Section("What the guarantee and the accuracy rest on", assumptions(case)),
            Section("Versions and checksums", versions(case, [Path(file) for file in files], sign=True)),
            Section("Decision and signatures", signatures(), new_page=True),
        ]
        made = Dossier(
            f"Disclosure review: {case.title}", _subtitle(), CONFIDENTIAL, f"manifest SHA-256 {case.seal[:16]}",
            True, tuple(sections),
        )  # fmt: skip
        page = html(made)
    with private_folder(out, NOTICE) as staging:
        lacking = _write(page, staging)
        (staging / "comparison").mkdir(0o700)
        comparison.write_into(staging / "comparison")
    if lacking:
        warn(lacking, stacklevel=2)
    return out


def public_dossier(path: str | Path, out: str | Path) -> Path:
    """Write the public version of the dossier, from the public files of a release alone.

    Parameters
    ----------
    path : str or Path
        The release folder, or its published ``public`` folder.
    out : str or Path
        The folder to make, with dossier.html, and with dossier.pdf if WeasyPrint is installed.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        There is no release in the folder, or ``out`` exists.

    Warns
    -----
    UserWarning
        No PDF was made.  The warning says what to install.

    Examples
    --------
    >>> ss.public_dossier("release", "for-the-website")  # doctest: +SKIP
    """
    out = as_path(out, "out")
    check_new(out)
    case = Case.read(as_path(path))
    sections = (
        Section(
            "What is released, and how far it protects",
            (Grid((), released(case)), *promise(case), declared(case.release, sign=False)),
        ),
        Section("What is published, and why it may be", columns(case)),
        Section("The guarantee", guarantee(case)),
        Section("Diagnostics of the fit", (Paragraph(case.release.privacy.verdict),)),
        Section("Suppression and quality", suppression(case)),
        Section("What the guarantee and the accuracy rest on", assumptions(case)),
        Section("Versions and checksums", versions(case, [], sign=False)),
    )
    made = Dossier(
        f"How this release protects: {case.title}", _subtitle(), OPEN, f"manifest SHA-256 {case.seal[:16]}", False,
        sections,
    )  # fmt: skip
    with whole_folder(out, mode=PUBLIC) as staging:
        lacking = _write(html(made), staging)
    if lacking:
        warn(lacking, stacklevel=2)
    return out


def _write(page: str, folder: Path) -> str:
    """Write the html and, if possible, the PDF.  Return the reason why there is no PDF, or an empty text."""
    (folder / f"{NAME}.html").write_text(page, encoding="utf-8")
    return pdf(page, folder / f"{NAME}.pdf")


def _subtitle() -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"This document: {now}."
