"""Write tables as a LaTeX document of long tables, whose headings are repeated on each page."""

from __future__ import annotations

import textwrap
from itertools import groupby

from .arrangement import Arrangement, arranged
from .document import Block, Document, imprint_lines

PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=1.8cm]{geometry}
\usepackage{array,booktabs,longtable}
\setlength{\LTleft}{0pt}\setlength{\LTright}{0pt}\setlength{\LTcapwidth}{\textwidth}\setlength{\tabcolsep}{2pt}
\makeatletter % captions from the left edge of their table on, which longtable sets around its middle
\renewcommand{\LT@makecaption}[3]{\LT@mcol\LT@cols{@{}l@{}}{\hbox to 0pt{%
  \parbox[t]{\LTcapwidth}{\raggedright #1{\textbf{#2:} }\textbf{#3}\endgraf\vskip 4pt}\hss}}}
\makeatother
\usepackage[hidelinks]{hyperref}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}
"""
SHORT, FEW = 12, 5  # rows of a group on one page; rows that are kept together at the ends of a longer group
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def latex(document: Document) -> str:
    """Return a complete LaTeX document, for which pdflatex needs only packages of every LaTeX installation.

    Parameters
    ----------
    document : Document
    """
    words = document.words
    parts = [
        PREAMBLE, rf"\renewcommand{{\tablename}}{{{escaped(words('headings.table'))}}}", r"\begin{document}",
        rf"{{\LARGE\bfseries {escaped(document.title)}\par}}",
    ]  # fmt: skip
    if document.warning:
        parts.append(rf"\textbf{{{escaped(document.warning)}}}")
    parts += [_heading(words("headings.protected")), *map(_paragraph, document.protected)]
    parts += [_table(block, document) for block in document.blocks]
    if document.notes:
        items = [rf"\item[{{[{i}]}}] {escaped(note)}" for i, note in enumerate(document.notes, 1)]
        parts += [_heading(words("headings.notes")), _list(items)]
    for heading, terms in (("symbols", document.legend), ("glossary", words.glossary)):
        if terms:
            items = [rf"\item[{escaped(term)}] {escaped(meaning)}" for term, meaning in terms.items()]
            parts += [_heading(words(f"headings.{heading}")), _list(items)]
    parts += [_heading(words("headings.about")), *map(_paragraph, [document.subtitle, *imprint_lines(document)])]
    technical = [rf"{escaped(line)}\par" for line in document.technical.splitlines()]
    parts += [_heading(words("headings.technical")), "{\\small", *technical, "}", r"\end{document}"]
    return "\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Escape the special characters of LaTeX in a text."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def _heading(text: str) -> str:
    return rf"\section*{{{escaped(text)}}}"


def _paragraph(text: str) -> str:
    return f"{escaped(text)}\n"


def _list(items: list[str]) -> str:
    return "\n".join([r"\begin{description}", *items, r"\end{description}"])


def _table(block: Block, document: Document) -> str:
    """Return a long table over the width of the text, whose caption and headings are repeated on every page."""
    sheet, words = arranged(block, document), document.words
    width = len(sheet.columns) + 1
    title = rf"{escaped(block.title)}. {escaped(document.subtitle)}"
    head = [r"\toprule", *_headings(sheet), r"\midrule"]
    more = rf"\multicolumn{{{width}}}{{r}}{{{escaped(words('headings.continued'))}}} \\"
    return "\n".join(
        [
            r"{\footnotesize", rf"\begin{{longtable}}{{@{{\extracolsep{{\fill}}}}l{'r' * len(sheet.columns)}@{{}}}}",
            rf"\caption{{{title}}}\\", *head, r"\endfirsthead",
            rf"\caption[]{{{title}}}\\", *head, r"\endhead",
            r"\midrule", more, r"\endfoot", r"\bottomrule", r"\endlastfoot",
            *_rows(sheet), r"\end{longtable}}",
        ]
    )  # fmt: skip


def _headings(sheet: Arrangement) -> list[str]:
    """Return the LaTeX lines of a table's headings: categories that span columns, if any, and column headings."""
    words = [r"\shortstack[r]{" + r"\\".join(map(escaped, heading.split())) + "}" for _, heading in sheet.columns]
    lines = textwrap.wrap(sheet.heading, max(map(len, [*sheet.heading.split(), *sheet.rows])))
    over = r"\shortstack[l]{" + r"\\".join(map(escaped, lines)) + "}"
    last = " & ".join([over, *words]) + r" \\"
    if not any(category for category, _ in sheet.spanners):
        return [last]
    above, rules, first = [], [], 2
    for category, across in sheet.spanners:
        above.append(rf"\multicolumn{{{across}}}{{c}}{{{escaped(category)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + across - 1}}}")
        first += across
    return [" & ".join(["", *above]) + r" \\", "".join(rules), last]


def _rows(sheet: Arrangement) -> list[str]:
    """Return the rows of a table.  The label of a group is on a line above the first row of the group.

    A short group is not broken over pages.  In a longer group, the first and the last five rows are kept together.
    """
    lines, room = list[str](), sheet.room
    rows = zip(sheet.groups, sheet.rows, sheet.texts, sheet.marks, strict=True)
    for group, part in ((group, list(part)) for group, part in groupby(rows, lambda row: row[0])):
        if group:
            lines.append(rf"\multicolumn{{{len(room) + 1}}}{{@{{}}l}}{{\textbf{{{escaped(group)}}}}} \\*")
        for after, (_, label, texts, marks) in enumerate(part, 1):
            kept = after < len(part) and (len(part) <= SHORT or after < FEW or after > len(part) - FEW)
            cells = map(_cell, texts, marks, room)
            lines.append(" & ".join([escaped(label), *cells]) + (r" \\*" if kept else r" \\"))
    return lines


def _cell(text: str, mark: str, room: int) -> str:
    """Return a number with its mark.  In a column with marks (``room`` > 0), all cells have space for them."""
    shown = f"$-${escaped(text[1:])}" if text[:1] == "-" else escaped(text)
    return rf"{shown}\makebox[{0.45 * room:g}em][l]{{\,{escaped(mark)}}}" if room else shown
