"""Write tables as a docx, which pandoc makes from Markdown."""

from __future__ import annotations

import re
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from .document import Document
from .markdown import markdown

ACROSS = (  # A4 landscape, with margins of 2 cm
    '<w:sectPr><w:pgSz w:w="16838" w:h="11906" w:orient="landscape"/>'
    '<w:pgMar w:top="1134" w:right="1134" w:bottom="1134" w:left="1134" w:header="709" w:footer="709" w:gutter="0"/>'
    "</w:sectPr>"
)
SMALL = '<w:rPr><w:sz w:val="20"/></w:rPr>'  # 10 points


def write_docx(document: Document, path: Path) -> None:
    """Write a document of tables as docx by pandoc, on A4 landscape pages.

    Parameters
    ----------
    document : Document
    path : Path
    """
    with TemporaryDirectory() as folder:
        like = Path(folder) / "reference.docx"
        _write_reference(like)
        command = ["pandoc", "--from", "markdown", "--to", "docx", "--reference-doc", str(like), "--output", str(path)]
        command += ["--metadata", f"lang={document.words.language}"]
        subprocess.run(command, input=markdown(document).encode(), check=True)


def _write_reference(path: Path) -> None:
    """Write a reference file for pandoc: default styles, A4 landscape, and smaller print in tables and lists."""
    own = subprocess.run(["pandoc", "--print-default-data-file", "reference.docx"], capture_output=True, check=True)
    with zipfile.ZipFile(BytesIO(own.stdout)) as given, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in given.namelist():
            text = given.read(name)
            if name == "word/document.xml":
                text = re.sub(rb"(?s)<w:sectPr\s*/>|<w:sectPr.*?</w:sectPr>", ACROSS.encode(), text)
            elif name == "word/styles.xml":
                text = re.sub(rb'(?s)(w:styleId="Compact">.*?</w:pPr>)', rb"\1" + SMALL.encode(), text, count=1)
            made.writestr(name, text)
