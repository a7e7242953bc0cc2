"""Store data sets in parquet files, if a release is written in this format or is too large for memory."""

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

ROWS = 1 << 20  # number of records in a row group of a parquet file


def in_a_file(design: SurveyDesign) -> SurveyDesign:
    """Return a copy of a design whose data are in a temporary parquet file.  Columns are read when they are needed.

    The file is in the folder of temporary files (``TMPDIR``), and is deleted when the design is deleted.  Raise
    InputError if the file cannot be written.
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
    """Remove a folder, unless this process is a fork of the process ``owner`` that made the folder."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def write_data_set(design: SurveyDesign, file: Path) -> None:
    """Write a data set as a parquet file; if the data set is in a file already, copy that file."""
    if design.files:
        shutil.copyfile(design.files[0], file)
    else:
        _write_parquet(design.frame, file)


def _write_parquet(frame: pd.DataFrame, file: Path) -> None:
    """Write a frame to parquet in groups of rows, so that a large frame is not in memory twice."""
    import pyarrow.parquet as pq  # needs ssl, which some Python installations within R lack

    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, len(frame), ROWS):
            rows = frame.iloc[first : first + ROWS]
            writer.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False))
