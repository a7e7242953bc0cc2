"""Reading survey files: csv, parquet, Stata, SPSS, SAS."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat

from ..errors import InputError, guarded
from ..validation import rows

READERS: dict[str, Callable[..., Any]] = {
    ".dta": pyreadstat.read_dta,
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".por": pyreadstat.read_por,
    ".sas7bdat": pyreadstat.read_sas7bdat,
    ".xpt": pyreadstat.read_xport,
}
CSV = (".csv", ".csv.gz", ".csv.zip", ".csv.bz2", ".csv.xz")


def read_frame(path: str | Path) -> pd.DataFrame:
    """Read a survey file into a data frame.

    A Stata or SPSS column whose every value has a label becomes a categorical of its labels,
    in the order of its codes.  A column with labels for some values only keeps its numbers; where
    such values occur there is a warning, for they may be special codes ("refused") among amounts.
    Declared missing values and empty texts become
    missing.

    Parameters
    ----------
    path : str or Path
        .csv (also .gz, .zip, .bz2, .xz), .parquet, .dta, .sav, .zsav, .por, .sas7bdat, .xpt

    Raises
    ------
    InputError
        No such file, an unknown kind of file, or a file that cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    name = path.name.lower()
    reader = READERS.get(path.suffix.lower())
    if not (name.endswith(CSV) or path.suffix.lower() == ".parquet" or reader):
        raise InputError(
            f"cannot tell what kind of file {path.name!r} is; surveysynth reads {', '.join(CSV[:1])}, .parquet, "
            + ", ".join(READERS)
        )

    def unreadable(kind: str) -> InputError:
        return InputError(f"{path.name!r} could not be read ({kind}); is it a whole file?")

    # the parsers' own messages quote cells of the file
    if name.endswith(CSV):
        return guarded(lambda: pd.read_csv(path, low_memory=False), Exception, unreadable)
    if reader is None:
        return guarded(lambda: pd.read_parquet(path), Exception, unreadable)
    frame, meta = guarded(lambda: reader(str(path)), Exception, unreadable)
    return _with_labels(frame.replace("", np.nan), meta.variable_value_labels)


def _with_labels(frame: pd.DataFrame, labels: dict[str, dict[float | str, str]]) -> pd.DataFrame:
    for column, names in labels.items():
        present = frame[column].dropna().unique()
        # Stata labels its own missing codes too, by letters: they come last
        codes = sorted(names, key=lambda code: (isinstance(code, str), code))
        texts = list(dict.fromkeys(names[code] for code in codes))
        if set(present) <= set(names):
            if len(texts) == len(names):
                frame[column] = pd.Categorical(frame[column].map(names), categories=texts)
        elif (labelled := frame[column].isin(list(names))).any():
            warnings.warn(
                f"column {column!r} has numbers, of which those in {rows(labelled)} carry a value label; if these are "
                "special codes such as 'refused', set them to missing first",
                stacklevel=4,
            )
    return frame
