"""Documents of code, run: vignettes, gallery and evidence, each once as long as neither it nor the package changes."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "docs" / "_build" / "run"
SPEAKS = (
    "surveysynth/**/*.py", "surveysynth/**/*.toml", "stan/*.stan", "replication/**/*.py", "benchmarks/*.py",
    "benchmarks/*/*.csv",
)  # fmt: skip


def run(text: str, folder: Path = ROOT) -> NotebookNode:
    """The document with the output of all its cells, run in a folder, and kept for the site."""
    notebook = jupytext.reads(text, fmt="py:percent")
    resources = {"metadata": {"path": str(folder)}}
    with TemporaryDirectory() as sockets:  # files, of which both know the place: no port of the machine is opened
        local = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        NotebookClient(notebook, timeout=None, kernel_name="python3", resources=resources, config=local).execute()
    RUN.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, _kept(text))
    return notebook


def executed(text: str) -> NotebookNode:
    """The document with its output: that of the last run, unless the package has changed since."""
    return nbformat.read(_kept(text), as_version=4) if _kept(text).exists() else run(text)


def said(notebook: NotebookNode) -> str:
    """All that its cells printed, and the text of the tables that they show: a line a row, a space between cells."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return "".join(_text(output) for output in outputs)


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text) if output.name == "stdout" else ""
    shown = output.get("data", {}).get("text/html", "")
    rows = re.findall(r"<(?:tr|caption)\b.*?</(?:tr|caption)>", shown, re.S)
    return "".join(" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) + "\n" for row in rows)


def _kept(text: str) -> Path:
    return RUN / f"{hashlib.sha256(text.encode() + _package()).hexdigest()[:32]}.ipynb"


@cache
def _package() -> bytes:
    files = sorted(path for pattern in SPEAKS for path in ROOT.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).digest()
