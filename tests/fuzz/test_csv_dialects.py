"""Csv files in any dialect: what was written is read, or the file is refused; it is never read as something else."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from tests.dialects import frames_and_files, is_read_or_refused
from tests.fuzz.strategies import cases

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@cases(1200)
@given(frames_and_files())
def test_what_was_written_is_read_or_refused(written):
    with tempfile.TemporaryDirectory() as folder:
        is_read_or_refused(Path(folder) / "survey.csv", written)
