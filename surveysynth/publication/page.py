"""Write tables as one html page that needs no other file."""

from __future__ import annotations

from html import escape

import pandas as pd

from .arrangement import arranged
from .document import Block, Document

MINUS = "\N{MINUS SIGN}"


def page(document: Document) -> str:
    """Return the document as html: title, protection, tables, notes, symbols, glossary, technical notes.

    Parameters
    ----------
    document : Document
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("surveysynth.publication", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    tables = [_table(block, document) for block in document.blocks]
    return environment.get_template("page.html.jinja").render(document=document, words=document.words, tables=tables)


def _table(block: Block, document: Document) -> str:
    """Return one table with its title as html.  Cells are escaped here, because they contain spans."""
    from great_tables import GT, html

    sheet = arranged(block, document)
    rows = list(zip(sheet.texts, sheet.marks, strict=True))
    columns = {f"c{i}": [_cell(texts[i], marks[i], room) for texts, marks in rows] for i, room in enumerate(sheet.room)}
    frame = pd.DataFrame({"stub": sheet.rows, "group": sheet.groups} | columns)
    grouped = any(sheet.groups)
    gt = GT(frame if grouped else frame.drop(columns="group"), rowname_col="stub", id=block.name,
            groupname_col="group" if grouped else None)  # fmt: skip
    title = f'<span class="title">{escape(block.title)}</span>'
    gt = gt.tab_header(html(title)).opt_align_table_header("left").cols_align("right", list(columns))
    gt = gt.fmt_passthrough(list(columns), escape=False)
    gt = gt.cols_label({f"c{i}": html(escape(heading)) for i, (_, heading) in enumerate(sheet.columns)})
    first = 0
    for category, across in sheet.spanners:
        if category:
            below = [f"c{i}" for i in range(first, first + across)]
            gt = gt.tab_spanner(html(escape(category)), below, id=f"s{first}")
        first += across
    if sheet.heading:
        gt = gt.tab_stubhead(html(escape(sheet.heading)))
    return str(gt.as_raw_html())


def _cell(text: str, mark: str, room: int) -> str:
    shown = escape(text.replace("-", MINUS, 1) if text[:1] == "-" else text)
    if not room:
        return shown
    return f'{shown}<span class="mark" style="min-width:{0.5 * room:g}em">{escape(mark) or "&nbsp;"}</span>'
