"""The formats of published tables, for releases, release folders and the command line.

To add a format, write a function and add a line to ``FORMATS``.  The module of a format is imported when it is used.
"""

from __future__ import annotations

import pkgutil
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from .document import Document


@dataclass(frozen=True)
class Format:
    """An output format of tables, with the function that writes it.

    Attributes
    ----------
    writer : str or function
        A function that returns the text of the file, or the name of such a function in this package,
        "module:function".
    to_file : bool
        True if the function writes the file itself.  Its arguments are then the document and the path.
    in_full : bool
        True if the function gets the frame of estimates in place of the document, and writes numbers in full precision,
        without notes.
    in_folder : bool
        True if every release folder has tables in this format.
    across : bool
        True if the format can have the categories of the last variable side by side (``wide=True``).  Otherwise the
        categories of all variables are rows.
    program : str
        The name of a program that must be installed.  It is empty if no program is needed.
    """

    writer: str | Callable[..., Any]
    to_file: bool = False
    in_full: bool = False
    in_folder: bool = False
    across: bool = True
    program: str = ""

    def write(self, table: pd.DataFrame, document: Document, path: Path) -> None:
        """Write tables to a file: the frame of estimates or the document, depending on the format."""
        writer, content = self.writer, table if self.in_full else document
        if isinstance(writer, str):
            writer = pkgutil.resolve_name(f"{__package__}.{writer}")
        if self.to_file:
            writer(content, path)
        else:
            path.write_text(writer(content), encoding="utf-8")


def _csv(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False)


FORMATS: dict[str, Format] = {  # by the ending of a file's name
    ".csv": Format(_csv, to_file=True, in_full=True, in_folder=True, across=False),
    ".xlsx": Format("workbook:write_workbook", to_file=True, in_folder=True, across=False),
    ".html": Format("page:page", in_folder=True),
    ".tex": Format("latex:latex"),
    ".md": Format("markdown:markdown"),
    ".docx": Format("docx:write_docx", to_file=True, program="pandoc"),
}


def wide_endings(before: str = "") -> str:
    """Return the endings of formats that support ``wide=True``, each after ``before``, as in ".html, .tex or .md"."""
    *names, last = (f"{before}{suffix}" for suffix, form in FORMATS.items() if form.across)
    return f"{', '.join(names)} or {last}"


def format_of(path: Path) -> Format:
    """Return the format of tables for the suffix of a file name.

    Raises
    ------
    InputError
        The suffix is unknown, or the program that makes the format, such as pandoc, is not installed.
    """
    found = FORMATS.get(path.suffix)
    if found is None:
        raise InputError(f"tables are written as {', '.join(FORMATS)}: {path.name!r} ends in none of these")
    if found.program and shutil.which(found.program) is None:
        raise InputError(
            f"a {path.suffix[1:]} is made by {found.program}, which is not installed: "
            f"apt-get install {found.program}, or write an .html"
        )
    return found
