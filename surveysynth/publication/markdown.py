"""Write tables as Markdown with pipe tables, which pandoc and GitHub can read."""

from __future__ import annotations

import re

from .arrangement import arranged
from .document import Block, Document, imprint_lines

WIDTH = 80  # characters on a line in an editor, or in the larger print of a docx


def markdown(document: Document) -> str:
    """Return the document as Markdown: title, sentences on protection, tables, notes, symbols, glossary and report.

    Parameters
    ----------
    document : Document
    """
    words = document.words
    parts = [f"# {escaped(document.title)}"]
    if document.warning:
        parts.append(f"**{escaped(document.warning)}**")
    parts += [f"## {words('headings.protected')}", *map(escaped, document.protected)]
    for number, block in enumerate(document.blocks, 1):
        parts.append(f"## {words('headings.table')} {number}: {escaped(block.title)}")
        parts += [escaped(document.subtitle), _table(block, document)]
    if document.notes:
        parts += [f"## {words('headings.notes')}"]
        parts += [f"{escaped(f'[{i}]')} {escaped(note)}" for i, note in enumerate(document.notes, 1)]
    for heading, terms in (("symbols", document.legend), ("glossary", words.glossary)):
        if terms:
            parts += [
                f"## {words(f'headings.{heading}')}",
                _listed([f"**{escaped(t)}**: {escaped(m)}" for t, m in terms.items()]),
            ]
    about = [escaped(line) for line in (document.subtitle, *imprint_lines(document))]
    parts += [f"## {words('headings.about')}", _listed(about)]
    lines = [_item(line) for line in document.technical.splitlines()]
    return "\n\n".join([*parts, f"## {words('headings.technical')}", "\n".join(lines)]) + "\n"


def escaped(text: str) -> str:
    """Escape the special characters of Markdown in a text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$^@])", r"\\\1", text)


def _item(line: str) -> str:
    """Turn a line of the report into a list item.  A line that is a list item already becomes a subitem."""
    text = line.removeprefix("  - ")
    return f"- {escaped(text)}" if text == line else f"  - {escaped(text)}"


def _listed(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _table(block: Block, document: Document) -> str:
    """Return a printed table as a pipe table.

    It has one line of headings.  If the last variable is across, a heading includes its category.
    """
    sheet = arranged(block, document, WIDTH)
    grouped = any(sheet.groups)
    headings = [*([escaped(sheet.outer)] if grouped else []), escaped(sheet.inner)]
    headings += [escaped(f"{category}: {heading}" if category else heading) for category, heading in sheet.columns]
    left, lines = 1 + grouped, [headings]
    for group, label, texts, marks in zip(sheet.groups, sheet.rows, sheet.texts, sheet.marks, strict=True):
        cells = [escaped(f"{text} {mark}".rstrip()) for text, mark in zip(texts, marks, strict=True)]
        lines.append([*([escaped(group)] if grouped else []), escaped(label), *cells])
    columns = [[*heading.split(), *cells] for heading, *cells in zip(*lines, strict=True)]
    widths = [max(map(len, texts), default=0) + 2 for texts in columns]  # pandoc makes column widths proportional
    rule = [":" + "-" * width if i < left else "-" * width + ":" for i, width in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])
