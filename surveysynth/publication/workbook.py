"""Tables as a workbook that follows the UK government's standard of accessible spreadsheets."""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from .digits import NUMBERS
from .document import Block, Document, imprint_lines

CREATED = datetime(2000, 1, 1, tzinfo=UTC)  # a fixed time, so that the same tables give the same file
JOINER = "\N{WORD JOINER}"  # separates characters that gptables would read as a note or a link
LABEL, NUMBER, QUALITY, TERM, TEXT = (12, 40), 16, 22, 26, 90  # widths of columns; least and largest for labels
WIDE = 1.25  # width of a digit of the tables, in Excel's unit for columns
LINE = 16  # points
A4 = 9  # Excel's number for this paper size
ABOVE = 2  # number of rows above the headings of a sheet of texts: title and instructions
LEVELS = 3  # largest number of columns that gptables treats as labels
AS_THEY_ARE = {
    "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
    "in_memory": True,  # not in temporary files, which a killed run would leave behind
}  # fmt: skip


def write_workbook(document: Document, path: Path) -> None:
    """Write a workbook with cover, contents, notes, one sheet for each table, technical notes and glossary.

    Numbers are numeric cells, rounded as in print and shown with the same decimals.  A missing number is replaced by a
    symbol, so that no cell is empty.  No cells are merged.

    Parameters
    ----------
    document : Document
    path : Path
    """
    from gptables import Cover, produce_workbook

    words = document.words
    names = [f"{words('headings.table')} {i}" for i, _ in enumerate(document.blocks, 1)]
    tables = {name: _table(block, document) for name, block in zip(names, document.blocks, strict=True)}
    cover = Cover(
        title=_plain(document.title), cover_label=words("headings.cover"), width=TEXT,
        intro=[_plain(text) for text in (document.warning, *document.protected) if text],
        about=[_plain(document.subtitle), *map(_plain, imprint_lines(document))],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No note text provided", category=UserWarning)  # we make the notes
        warnings.simplefilter("ignore", pd.errors.Pandas4Warning)  # meant for the authors of gptables
        book = produce_workbook(
            str(path), _notes(document) | tables | _explanations(document), theme=_theme(), auto_width=False,
            workbook_options=AS_THEY_ARE, cover=cover, contentsheet_label=words("headings.contents"),
            contentsheet_options={
                "column_names": [words("headings.sheet"), words("headings.description")],
                "title": words("headings.contents"), "instructions": words("sheet.one_table"),
            },
        )  # fmt: skip
    _set_cover(book, cover, document)
    _set_sheets_of_texts(book, document)
    for name, block in zip(names, document.blocks, strict=True):
        _set_table(book.get_worksheet_by_name(name), tables[name], block)
    book.set_properties({"title": document.title, "created": CREATED})
    book.close()


def _notes(document: Document) -> dict[str, Any]:
    words = document.words
    if not document.notes:
        return {}
    numbered = [words("sheet.note", number=i) for i, _ in enumerate(document.notes, 1)]
    notes = {words("headings.number"): numbered, words("headings.text"): [*document.notes]}
    return {words("headings.notes"): _texts("notes_table", notes, document)}


def _explanations(document: Document) -> dict[str, Any]:
    words = document.words
    glossary = {words("headings.term"): [*words.glossary], words("headings.meaning"): [*words.glossary.values()]}
    return {
        words("headings.technical"): _texts(
            "technical_table", {words("headings.text"): _technical(document)}, document
        ),
        words("headings.glossary"): _texts("glossary_table", glossary, document),
    }


def _technical(document: Document) -> list[str]:
    return [line for line in document.technical.splitlines() if line.strip()]


def _theme() -> Any:
    """Return the theme of gptables, changed so that texts are at the top of cells."""
    from gptables import gptheme

    theme = deepcopy(gptheme)
    for update in (theme.update_index_1_format, theme.update_index_2_format, theme.update_index_3_format):
        update({"valign": "top"})  # a label is then next to the first line of a text of several lines
    theme.update_data_format({"valign": "top"})
    return theme


def _set_cover(book: Any, cover: Any, document: Document) -> None:
    """Format the cover: headings in the words of the document, and rows high enough for texts of several lines."""
    sheet, row = book.get_worksheet_by_name(cover.cover_label), 1
    heading = book.add_format(book.theme.cover_subtitle_format)
    for name, texts in (("protected", cover.intro), ("about", cover.about)):
        if texts:
            sheet.write(row, 0, document.words(f"headings.{name}"), heading)
            for i, text in enumerate(texts, row + 1):
                sheet.set_row(i, _height(text, TEXT))
            row += len(texts) + 1
    _set_paper(sheet)


def _set_sheets_of_texts(book: Any, document: Document) -> None:
    """Set row heights and column widths of the sheets of contents, notes, glossary and technical notes."""
    words = document.words
    for name, column in (
        ("contents", [*([words("headings.notes")] if document.notes else []), *(b.title for b in document.blocks)]),
        ("notes", document.notes), ("glossary", words.glossary.values()), ("technical", _technical(document)),
    ):  # fmt: skip
        if (sheet := book.get_worksheet_by_name(words(f"headings.{name}"))) is not None:
            _set_texts(sheet, column, terms=name != "technical")


def _set_texts(sheet: Any, texts: Iterable[str], *, terms: bool) -> None:
    """Set row heights and column widths of a sheet of texts.  With ``terms``, the first column has terms or numbers."""
    if terms:
        sheet.set_column(0, 0, TERM)
    sheet.set_column(int(terms), int(terms), TEXT)
    for row, text in enumerate(texts, ABOVE + 1):
        sheet.set_row(row, _height(text, TEXT))
    _set_paper(sheet)


def _set_table(sheet: Any, table: Any, block: Block) -> None:
    """Set column widths and row heights.  Freeze the headings on the screen, and repeat them on printed pages."""
    labels, top = len(block.by) or 1, table.data_range[0]
    columns = [[heading, *(getattr(x, "string", str(x)) for x in table.table[heading])] for heading in table.table]
    widths = [min(max(len(max(texts, key=len)) + 2, LABEL[0]), LABEL[1]) for texts in columns[:labels]]
    for c in (*NUMBERS, "n"):
        widths.append(max(NUMBER, round(WIDE * max(map(len, block.cells[c]))) + 2))
    widths.append(max(QUALITY, max(map(len, columns[-1])) + 2))
    for i, width in enumerate(widths):
        sheet.set_column(i, i, width)
    for row, texts in enumerate(zip(*columns, strict=True), top):
        sheet.set_row(row, max(map(_height, texts, widths)))
    sheet.freeze_panes(top + 1, labels)
    sheet.repeat_rows(top)
    _set_paper(sheet)


def _set_paper(sheet: Any) -> None:
    """Set the paper: A4 landscape, one page wide and as many pages long as needed."""
    sheet.set_paper(A4)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)


def _height(text: str, width: int) -> int:
    return LINE * len(textwrap.wrap(text, width) or [""])


def _texts(name: str, columns: dict[str, list[str]], document: Document) -> Any:
    """Make a sheet of texts, as a table of gptables."""
    from gptables import GPTable

    title = document.words(f"headings.{name.removesuffix('_table')}")
    return GPTable(
        pd.DataFrame({heading: [_text(x) for x in texts] for heading, texts in columns.items()}), table_name=name,
        title=_title(title), instructions=document.words("sheet.one_table"), index_columns={2: 0},
    )  # fmt: skip


def _table(block: Block, document: Document) -> Any:
    """Make a table of gptables from a printed table: labels, numbers, numbers of records, and quality classes."""
    from gptables import GPTable

    words = document.words
    labels = [words("headings.table")] if not block.by else [block.headings[c] for c in block.by]
    texts = (
        block.cells[list(block.by)] if block.by else pd.DataFrame({"all": [words("headings.total")] * len(block.cells)})
    )
    columns = {c: [_text(x) for x in texts.iloc[:, i]] for i, c in enumerate(_different(labels))}
    last = list(columns)[-1]
    marks = ["".join(words("sheet.note", number=n) for n in numbers) for numbers in block.notes]
    columns[last] = [_text(f"{x} {notes}".strip()) for x, notes in zip(texts.iloc[:, -1], marks, strict=True)]
    numbers = [words(f"headings.{c}") for c in (*NUMBERS, "n")]
    for heading, c in zip(numbers, (*NUMBERS, "n"), strict=True):
        places = block.decimals if c != "n" else 0
        columns[heading] = [
            _text(text) if pd.isna(x) else _number(x, places)
            for x, text in zip(block.numbers[c], block.cells[c], strict=True)
        ]
    columns[words("headings.quality")] = [
        _text(f"{word} {mark}".strip() or estimate)  # without an estimate, a symbol
        for word, mark, estimate in zip(block.quality, block.marks, block.cells["estimate"], strict=True)
    ]
    marked = [words("sheet.symbol", mark=mark, meaning=meaning) for mark, meaning in document.legend.items()]
    shown = {"num_format": "#,##0" + ("." + "0" * block.decimals if block.decimals > 0 else ""), "align": "right"}
    whole = {"num_format": "#,##0", "align": "right"}
    index = range(max(len(labels) - LEVELS, 0), len(labels))
    return GPTable(
        pd.DataFrame(columns), table_name=block.name, title=_title(block.title), subtitles=[_plain(document.subtitle)],
        instructions=words("sheet.instructions", notes=words("headings.notes"), glossary=words("headings.glossary"))
        if document.notes else words("sheet.one_table"),
        legend=list(map(_plain, [*_unmarked(block, document), *marked])),
        source=_plain(" ".join(f"{line}." for line in imprint_lines(document))) if document.imprint else None,
        index_columns=dict(zip(range(LEVELS - len(index) + 1, LEVELS + 1), index, strict=True)),
        additional_formatting=[
            {"column": {"columns": numbers[:-1], "format": shown}},
            {"column": {"columns": numbers[-1:], "format": whole}},
            {"column": {"columns": [words("headings.quality")], "format": {"indent": 1}, "include_names": True}},
        ],
    )  # fmt: skip


def _unmarked(block: Block, document: Document) -> list[str]:
    """Return the meanings of those quality classes in a printed table that have no mark."""
    names = [each.name for each in document.symbols.classes if not each.mark]
    return [f"{document.classes[name]}." for name in names if document.words(f"quality.{name}") in block.quality]


def _number(x: float, places: int) -> float:
    return round(x, places) + 0.0


def _different(names: list[str]) -> list[str]:
    """Make headings unique by adding numbers, because a workbook needs different headings."""
    return [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names, 1)]


def _plain(text: str) -> str:
    """Change a text so that gptables does not read a part of it as a note or a link."""
    return text.replace("$$", f"${JOINER}$").replace("](", f"]{JOINER}(")


def _text(text: str) -> Any:
    """Return the text of a cell for gptables, which accepts plain text only if it has a Latin letter or a digit."""
    from gptables.core.gptable import FormatList

    return _plain(text) if re.search("[a-zA-Z0-9]", text) else FormatList([{}, _plain(text)])


def _title(text: str) -> Any:
    """Return the title of a sheet for gptables, which also puts it in a cell of the table of contents."""
    return _plain(text) if re.search("[a-zA-Z0-9]", text) else [{}, _plain(text)]
