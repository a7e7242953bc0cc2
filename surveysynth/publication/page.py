"""Write tables as one html page, which needs no other file and prints on A4."""

from __future__ import annotations

from itertools import groupby

from .arrangement import Arrangement, arranged
from .document import Document

MINUS = "\N{MINUS SIGN}"
SHORT = 12  # rows of a table, or of a group of rows, that is printed on one page: a third of a page
LABEL = 40  # characters on a line of a row's label in print
PRINT, LINE = 9.0, 504.0  # points: largest letters of a printed table, and the width of the text of an A4 page
WIDEST = 150  # characters on a line of a table with a variable across; on paper its letters then have 6 points
LETTER = 0.56  # mean width of a character, as a share of the size of the letters


def page(document: Document) -> str:
    """Return the document as html: title, sentences on protection, tables, notes, symbols, glossary, technical notes.

    Parameters
    ----------
    document : Document
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("surveysynth.publication", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"signed": _signed, "groups": _groups}
    tables = [(block, arranged(block, document, WIDEST)) for block in document.blocks]
    return environment.get_template("page.html.jinja").render(
        document=document, words=document.words, tables=tables, short=SHORT, print_size=_print_size
    )


def _groups(sheet: Arrangement) -> list[tuple[str, list[tuple[str, list[str], list[str]]]]]:
    """Return a pair (label, rows) for each group of rows.  Each row is a triple (label, texts, marks)."""
    rows = zip(sheet.groups, sheet.rows, sheet.texts, sheet.marks, strict=True)
    return [(group, [row[1:] for row in part]) for group, part in groupby(rows, lambda row: row[0])]


def _signed(text: str) -> str:
    """Return the text of a number with a minus sign in place of a hyphen."""
    return text.replace("-", MINUS, 1) if text[:1] == "-" else text


def _print_size(sheet: Arrangement) -> float:
    """Return the size of letters in points, at most 9, with which a table fits on the width of an A4 page."""
    beyond = max(0, max(map(len, sheet.rows)) - LABEL)  # these characters are on further lines
    return round(min(PRINT, LINE / (LETTER * (sheet.width - beyond))), 1)
