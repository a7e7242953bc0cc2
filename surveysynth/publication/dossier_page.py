"""A document to sign, or its public twin: paragraphs, grids, boxes and signatures, as html and PDF."""

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


@dataclass(frozen=True)
class Grid:
    """A small table.

    Attributes
    ----------
    headings : tuple of str
        Without any the first column is a heading itself.
    rows : tuple of tuples of str
    title : str
    numbers : int
        Last columns that are numbers.
    code : bool
        Whether the last column is code, such as a checksum.
    high : bool
        Whether rows have room for handwriting.
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
    """A list; with ``boxes`` to tick, and with ``room`` for a reason in handwriting."""

    items: tuple[str, ...]
    boxes: bool = False
    room: str = ""
    kind: str = field(default="items", init=False)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``strong`` in a frame."""

    text: str
    strong: bool = False
    kind: str = field(default="paragraph", init=False)


@dataclass(frozen=True)
class Picture:
    """A figure from a file, and its text for those who do not see it."""

    file: Path
    alt: str
    kind: str = field(default="picture", init=False)

    @property
    def source(self) -> str:
        """The picture as a data address, which needs no other file."""
        kinds = {".svg": "svg+xml", ".png": "png"}
        return f"data:image/{kinds[self.file.suffix]};base64,{base64.b64encode(self.file.read_bytes()).decode()}"


@dataclass(frozen=True)
class Signatures:
    """A row to sign for each role."""

    roles: tuple[str, ...]
    kind: str = field(default="signatures", init=False)


@dataclass(frozen=True)
class Lines:
    """Empty lines to write on."""

    number: int
    kind: str = field(default="lines", init=False)


Block = Grid | Items | Lines | Paragraph | Picture | Signatures


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, on a new page if asked for."""

    heading: str
    blocks: tuple[Block, ...]
    new_page: bool = False


@dataclass(frozen=True)
class Dossier:
    """All sections of a dossier, and the texts on every page.

    Attributes
    ----------
    title, subtitle : str
    banner : str
        Across the top of every page: who may see it.
    footer : str
        At the foot of every page: which release it is about.
    initials : bool
        Whether every page has room for initials.
    sections : tuple of Section
    """

    title: str
    subtitle: str
    banner: str
    footer: str
    initials: bool
    sections: tuple[Section, ...]


def listed(items: Sequence[str], **how: object) -> Items:
    """A list of texts."""
    return Items(tuple(items), **how)  # type: ignore[arg-type]


def html(dossier: Dossier) -> str:
    """The page, which needs no other file and prints on A4."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("surveysynth.publication", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("dossier.html.jinja").render(dossier=dossier)


def pdf(page: str, path: Path) -> str:
    """Write the page as PDF by WeasyPrint, if it is here: the Python package or Debian's command.

    Parameters
    ----------
    page : str
        From :func:`html`.
    path : Path

    Returns
    -------
    str
        Empty, or why there is no PDF and what to do.
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
    """The PDF, made in this process: in one with R, another Python would find R's libraries in place of its own."""
    try:
        import weasyprint

        weasyprint.LOGGER.setLevel(logging.CRITICAL)
        return bytes(weasyprint.HTML(string=page).write_pdf())
    except Exception:  # a library is missing, or is another's, as R's ssl: the html is still written
        return b""


def _by_command(command: str, page: str) -> bytes:
    """The PDF by Debian's command."""
    done = subprocess.run([command, "-q", "-", "-"], input=page.encode(), capture_output=True, check=False)
    return done.stdout
