"""The pages of a dossier or of its public version: the parts of a page, and output as html and PDF.

A dossier is the document about a release that a disclosure review board signs before the release is published.
"""

from __future__ import annotations

import base64
import importlib.util
import logging
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOW_TO_PDF = (
    "no PDF was made, as WeasyPrint is not installed: pip install 'surveysynth[pdf]', or apt-get install weasyprint. "
    "The html prints on A4 from any browser"
)
TAGGED = "pdf/ua-1"  # ISO 14289-1: headings, lists and tables are tagged for screen readers


@dataclass(frozen=True)
class Grid:
    """A small table.

    Attributes
    ----------
    headings : tuple of str
        Headings of the columns.  If there are none, the cells of the first column are headings.
    rows : tuple of tuples of str
    title : str
    numbers : int
        Number of columns, counted from the right, that are numeric.
    code : bool
        True if the last column is code, such as a checksum.
    high : bool
        True if rows are high enough for handwriting.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    numbers: int = 0
    code: bool = False
    high: bool = False
    kind: str = field(default="grid", init=False)


@dataclass(frozen=True)
class Items:
    """A list of texts.  If ``boxes``, a box to tick is next to each text."""

    items: tuple[str, ...]
    boxes: bool = False
    kind: str = field(default="items", init=False)


@dataclass(frozen=True)
class Guess:
    """Picture of the probability that an intruder guesses right: 50% before the release, at most ``percent`` after it.

    ``percent`` is the bound of :func:`surveysynth.publication.footnotes.most_guessed`.
    """

    percent: str
    kind: str = field(default="guess", init=False)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.  If ``strong``, it has a frame."""

    text: str
    strong: bool = False
    kind: str = field(default="paragraph", init=False)


@dataclass(frozen=True)
class Picture:
    """A figure from a file, with its alternative text."""

    file: Path
    alt: str
    kind: str = field(default="picture", init=False)

    @property
    def source(self) -> str:
        """The picture as a data URL, so that the html page needs no other file."""
        kinds = {".svg": "svg+xml", ".png": "png"}
        return f"data:image/{kinds[self.file.suffix]};base64,{base64.b64encode(self.file.read_bytes()).decode()}"


@dataclass(frozen=True)
class Signatures:
    """A table with a row for the signature of each role."""

    roles: tuple[str, ...]
    kind: str = field(default="signatures", init=False)


@dataclass(frozen=True)
class Lines:
    """Empty lines to write on."""

    number: int
    kind: str = field(default="lines", init=False)


Block = Grid | Guess | Items | Lines | Paragraph | Picture | Signatures


@dataclass(frozen=True)
class Section:
    """A heading with the blocks below it.  With ``new_page``, it starts a new page."""

    heading: str
    blocks: tuple[Block, ...]
    new_page: bool = False


@dataclass(frozen=True)
class Dossier:
    """The sections of a dossier, and the texts on every page.

    Attributes
    ----------
    title, subtitle : str
    banner : str
        Text at the top of every page that says who may see the dossier.
    footer : str
        Text at the bottom of every page that names the release.
    initials : bool
        True if every page has space for initials.
    sections : tuple of Section
    """

    title: str
    subtitle: str
    banner: str
    footer: str
    initials: bool
    sections: tuple[Section, ...]


def listed(items: Sequence[str], **how: object) -> Items:
    """Make a list of texts.  ``how`` has further fields of :class:`Items`."""
    return Items(tuple(items), **how)  # type: ignore[arg-type]


def html(dossier: Dossier) -> str:
    """Return the dossier as one html page, which needs no other file and prints on A4."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("surveysynth.publication", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("dossier.html.jinja").render(dossier=dossier)


def pdf(page: str, path: Path) -> str:
    """Write a page as tagged PDF (PDF/UA-1) by WeasyPrint, if the Python package or Debian's command is installed.

    Parameters
    ----------
    page : str
        The page that :func:`html` returns.
    path : Path

    Returns
    -------
    str
        An empty text if the PDF was written; otherwise the reason, and what to do.
    """
    package, command = importlib.util.find_spec("weasyprint"), shutil.which("weasyprint")
    if package is None and command is None:
        return HOW_TO_PDF
    made = _by_package(page) if package is not None else _by_command(str(command), page)
    if not made.startswith(b"%PDF"):
        return (
            "no PDF was made, as WeasyPrint failed (its system libraries may be missing: apt-get install "
            "libpango-1.0-0 libpangoft2-1.0-0); the html prints on A4 from any browser"
        )
    path.write_bytes(made)
    return ""


def _by_package(page: str) -> bytes:
    """Make the PDF by the Python package WeasyPrint, or return b"" if this fails.

    The package is called in this process.  If Python runs within R, a new process would load R's libraries.
    """
    try:
        import weasyprint

        weasyprint.LOGGER.setLevel(logging.CRITICAL)
        return bytes(weasyprint.HTML(string=page).write_pdf(pdf_variant=TAGGED))
    except Exception:  # a library is missing or is another version, such as R's ssl: the html is still written
        return b""


def _by_command(command: str, page: str) -> bytes:
    asked = [command, "-q", "--pdf-variant", TAGGED, "-", "-"]
    return subprocess.run(asked, input=page.encode(), capture_output=True, check=False).stdout
