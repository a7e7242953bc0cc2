"""The formats in which tables are published: csv, workbook, page, LaTeX, Markdown, docx."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from ..errors import InputError
from .document import Document
from .latex import latex
from .markdown import markdown
from .page import page
from .workbook import write_workbook

TEXTS = {".html": page, ".tex": latex, ".md": markdown}
ACROSS = (  # A4, with edges of 2 cm
    '<w:sectPr><w:pgSz w:w="16838" w:h="11906" w:orient="landscape"/>'
    '<w:pgMar w:top="1134" w:right="1134" w:bottom="1134" w:left="1134" w:header="709" w:footer="709" w:gutter="0"/>'
    "</w:sectPr>"
)
SMALL = '<w:rPr><w:sz w:val="20"/></w:rPr>'  # 10 points
SUFFIXES = (".csv", ".xlsx", *TEXTS, ".docx")


def check_suffix(path: Path) -> None:
    """Refuse a file whose format is not known, or cannot be made here (InputError)."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"tables are written as {', '.join(SUFFIXES)}: {path.name!r} ends in none of these")
    if path.suffix == ".docx" and shutil.which("pandoc") is None:
        raise InputError("a docx is made by pandoc, which is not installed: apt-get install pandoc, or write an .html")


def write(table: pd.DataFrame, document: Document, path: Path) -> None:
    """Write tables in the format that the file's suffix names.

    Parameters
    ----------
    table : pandas.DataFrame
        What a csv holds: numbers in full precision, under the frame's column names.
    document : Document
        What all other formats hold.
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
        _write_docx(document, path)
    else:
        path.write_text(TEXTS[path.suffix](document), encoding="utf-8")


def _write_docx(document: Document, path: Path) -> None:
    """Write a docx by pandoc, on a page that is wide enough for the numbers of a table."""
    with TemporaryDirectory() as folder:
        like = Path(folder) / "reference.docx"
        _write_reference(like)
        command = ["pandoc", "--from", "markdown", "--to", "docx", "--reference-doc", str(like), "--output", str(path)]
        command += ["--metadata", f"lang={document.words.language}"]
        subprocess.run(command, input=markdown(document).encode(), check=True)


def _write_reference(path: Path) -> None:
    """Write a reference file with pandoc's own styles, on A4 across, and with smaller print in tables and lists."""
    own = subprocess.run(["pandoc", "--print-default-data-file", "reference.docx"], capture_output=True, check=True)
    with zipfile.ZipFile(BytesIO(own.stdout)) as given, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in given.namelist():
            text = given.read(name)
            if name == "word/document.xml":
                text = re.sub(rb"(?s)<w:sectPr\s*/>|<w:sectPr.*?</w:sectPr>", ACROSS.encode(), text)
            elif name == "word/styles.xml":
                text = re.sub(rb'(?s)(w:styleId="Compact">.*?</w:pPr>)', rb"\1" + SMALL.encode(), text, count=1)
            made.writestr(name, text)
