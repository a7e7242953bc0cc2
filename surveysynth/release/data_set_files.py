"""Data sets in parquet files, for releases that are written or too large for memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

import pandas as pd
import pyarrow as pa

from ..design.survey_design import SurveyDesign
from ..errors import InputError

ROWS = 1 << 20  # in a group of a file


def in_a_file(design: SurveyDesign) -> SurveyDesign:
    """The same design over a parquet file, whose columns are read when they are asked for.

    The file lies in the folder of temporary files (``TMPDIR``), and goes with the design (InputError: no room there).
    """
    folder = Path(tempfile.mkdtemp(prefix="surveysynth-"))
    try:
        _write_parquet(design.frame, folder / "synthetic.parquet")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"a data set cannot be written to the folder of temporary files ({error.strerror or error}): make room in "
            f"{str(folder.parent)!r}, or name another folder in TMPDIR"
        ) from None
    scanned = SurveyDesign.scan(folder / "synthetic.parquet", labels=design.labels or None, **design.roles())
    weakref.finalize(scanned._scan, _remove, folder, os.getpid())
    return scanned


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, but not from a process that was forked from its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def write_data_set(design: SurveyDesign, file: Path) -> None:
    """Write a data set; a data set that lies in a file is copied."""
    if design.files:
        shutil.copyfile(design.files[0], file)
    else:
        _write_parquet(design.frame, file)


def _write_parquet(frame: pd.DataFrame, file: Path) -> None:
    """Write a frame in groups of rows, so that there is no second copy of a large one in memory."""
    import pyarrow.parquet as pq  # needs ssl, which some Pythons within R do not have

    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, len(frame), ROWS):
            rows = frame.iloc[first : first + ROWS]
            writer.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False))
