"""Checksums and sizes of the public files of a release, and a check that the files are unchanged.

The check finds accidents: an incomplete copy, a file that a spreadsheet program has saved.  It does not find an
intended change by somebody who edits the manifest, too.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import InputError


def described(file: Path) -> dict[str, Any]:
    """Return the manifest entry of a file: its checksums and, for a table, its size.

    Parameters
    ----------
    file : Path

    Returns
    -------
    dict
        ``records`` and ``columns`` of a csv or parquet file (None if the file cannot be read as a table),
        ``sha256``, and ``md5`` for older versions of R, which cannot compute SHA-256.
    """
    table = dict(zip(("records", "columns"), _size(file), strict=True)) if file.suffix in (".csv", ".parquet") else {}
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        content.seek(0)
        md5 = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return table | {"sha256": sha256, "md5": md5}


def verify(folder: Path, published: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise InputError if files of a release are missing or differ from their manifest entries.

    Parameters
    ----------
    folder : Path
    published : mapping
        File names with their entries in the manifest, which :func:`described` made.

    Raises
    ------
    InputError
        Files are missing, or have other numbers of records or columns, or other content.  The message lists the files.
    """
    faults = [f"{name!r} {fault}" for name, file in published.items() if (fault := _fault(folder / name, file))]
    if faults:
        raise InputError(
            f"the release in {str(folder)!r} is not what was published: {'; '.join(faults)}. Take the files again from "
            "where they were published, and copy them as they are: what another program has opened and saved is not "
            "the file that was published"
        )


def _fault(file: Path, published: Mapping[str, Any]) -> str:
    """Describe how a file differs from the published file.  The text is empty if the two agree."""
    if not file.is_file():
        return "is missing"
    found = described(file)
    sizes = [what for what in ("records", "columns") if found.get(what) != published.get(what)]
    if any(found.get(what) is None for what in sizes):
        return "is cut short or damaged, and cannot be read as a table"
    if sizes:
        return "has " + " and ".join(f"{found[what]:,} {what} instead of {published[what]:,}" for what in sizes)
    return "has other content (its SHA-256 differs)" if found["sha256"] != published["sha256"] else ""


def _size(file: Path) -> tuple[int | None, int | None]:
    """Count the records and columns of a csv or parquet file.  Return (None, None) if it cannot be read."""
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq  # takes long to import, and is not needed for csv

            about = pq.read_metadata(file)
            return about.num_rows, about.num_columns
        with file.open(newline="", encoding="utf-8", errors="replace") as lines:
            rows = csv.reader(lines)
            columns = len(next(rows, []))
            return sum(1 for row in rows if row), columns
    except (OSError, ValueError, csv.Error, pa.ArrowException):
        return None, None
