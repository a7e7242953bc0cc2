"""The forms in which tables are published: csv, workbook, page, LaTeX, Markdown, docx."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd

from ..errors import InputError
from .document import Document
from .latex import latex
from .markdown import markdown
from .page import page
from .workbook import write_workbook

TEXTS = {".html": page, ".tex": latex, ".md": markdown}
SUFFIXES = (".csv", ".xlsx", *TEXTS, ".docx")


def check_suffix(path: Path) -> None:
    """Refuse a file whose form is not known, or cannot be made here (InputError)."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"tables are written as {', '.join(SUFFIXES)}: {path.name!r} ends in none of these")
    if path.suffix == ".docx" and shutil.which("pandoc") is None:
        raise InputError("a docx is made by pandoc, which is not installed: apt-get install pandoc, or write an .html")


def write(table: pd.DataFrame, document: Document, path: Path) -> None:
    """Write tables in the form that the file's name says.

    Parameters
    ----------
    table : pandas.DataFrame
        What a csv holds: numbers in full precision, under the frame's column names.
    document : Document
        What all other forms hold.
    path : Path

    Raises
    ------
    InputError
        As :func:`check_suffix`.
    """
    check_suffix(path)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".xlsx":
        write_workbook(document, path)
    elif path.suffix == ".docx":
        text = markdown(document).encode()
        command = ["pandoc", "--from", "markdown", "--to", "docx", "--output", str(path)]
        subprocess.run(command, input=text, check=True)
    else:
        path.write_text(TEXTS[path.suffix](document), encoding="utf-8")
