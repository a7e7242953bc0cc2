"""Identification risk of synthetic records, marginal and by pairs, and the weights made of it.

Source: Hu, Savitsky & Williams 2022b, sections 2.1 and 3.1.

What an intruder is taken to know and to do, and the measures, are in :mod:`surveysynth.privacy.neighbourhoods`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import codes, listing, numeric
from ..design.discrete import is_label
from ..design.read import read_frame
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..privacy.neighbourhoods import Balls, Sizes, attribute, balls_of, ends, marginal, pairwise, sizes
from ..validation import as_list, rows
from .release import Release, read_release

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]
File = pd.DataFrame | SurveyDesign
Files = File | Sequence[File] | Release
Names = str | Sequence[str]


def identification_risk(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Marginal probability of identification of every record, IR_i, averaged over the data sets.

    Source: Hu, Savitsky & Williams 2022b, eq. 8.

    IR_i is high where a record's synthetic value is near its true one and few others are.  It is
    computed from the confidential file: for the agency only.

    Parameters
    ----------
    original : DataFrame or SurveyDesign
        The confidential file, n records.
    synthetic : DataFrame, SurveyDesign, a sequence of them, or Release
        Row i of each is the synthetic version of row i of the original; top-coded, rounded or
        otherwise altered data work as well.  The data sets of a Release are shuffled: pass the
        Release as a whole, which knows the order as long as it has its internal part.  Without
        known columns a wrong order cannot be detected.
    known : str or list of str
        What the intruder knows: columns that were not synthesized, equal in all files.  A pattern
        is a combination of their values; ``[]`` puts all records in one.
    value : str or list of str
        The synthesized number that the intruder knows.  With several the ball is a box: a record
        is inside when each of its values is.
    radius : float, or one for each value
        Of the ball: a share of the absolute value of y_i, or in the unit of y where not ``relative``.
    relative : bool
    floor : float, or one for each value
        Least radius, in the unit of y; without it a relative ball around 0 is the value 0 alone.

    Returns
    -------
    pandas.Series (n,)
        In [0, (M - 1) / M], with the index of the original; NaN for records that the release left
        out because an outcome was missing.

    Raises
    ------
    InputError
        Columns that are not there, missing or not numbers; files of different lengths; a known
        column that differs; a radius that is negative; a Release without its internal part, or
        of another file.

    Notes
    -----
    A pattern of one record has risk 0, as has any pattern whose synthetic values are all in the
    ball: the measure counts how rare the true value is among records with the same known
    variables, and there are no others.  The known variables alone identify a record that is the
    only one of its pattern.

    Time is O(n log n) for one value.  A box takes, besides, one step for every pair of a record
    and a synthetic value of its pattern that is in the ball of the first value, at most n M: put
    the most discriminating value first.  Memory is O(n).
    """
    return _averaged(marginal, "identification_risk", original, synthetic, known, value, radius, relative, floor)


def pairwise_weights(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Privacy weights alpha~_i from the identification risk of pairs, averaged over the data sets.

    Source: Hu, Savitsky & Williams 2022b, eq. 14.

    They are the weights before scale and shift, min(c1 alpha~_i + c2, 1); those from the marginal
    risk are ``1 - identification_risk(...)`` (Hu, Savitsky & Williams 2022b, eq. 9).

    Parameters
    ----------
    original, synthetic, known, value, radius, relative, floor
        As for :func:`identification_risk`.

    Returns
    -------
    pandas.Series (n,)
        In [0, 1], NaN as for :func:`identification_risk`.  A pattern of one record has no pairs;
        it has its marginal weight, which is 1.

    Raises
    ------
    InputError
        As :func:`identification_risk`.

    Notes
    -----
    Time and memory as for :func:`identification_risk`, not O(M^3) of a sum over pairs.
    """
    return _averaged(pairwise, "pairwise_weight", original, synthetic, known, value, radius, relative, floor)


def attribute_risk(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Chance that a synthetic record of the pattern, picked at random, has a value in the ball around the true one.

    #{h : y*_h in B_i} / M, averaged over the data sets: how near an intruder who knows only the
    pattern of record i comes to its value, whichever synthetic record is its own.

    Parameters
    ----------
    original, synthetic, known, value, radius, relative, floor
        As for :func:`identification_risk`.

    Returns
    -------
    pandas.Series (n,)
        In [0, 1], NaN as for :func:`identification_risk`.

    Raises
    ------
    InputError
        As :func:`identification_risk`.
    """
    return _averaged(attribute, "attribute_risk", original, synthetic, known, value, radius, relative, floor)


def ordered_release(folder: Path) -> Release:
    """A release that was written, with the order of its records, which its internal part knows.

    Raises
    ------
    InputError
        As :func:`surveysynth.read_release`; there is no internal/rows.csv, or it does not go with the public files.
    """
    release, file = read_release(folder), folder / "internal" / "rows.csv"
    if not file.is_file():
        raise InputError(
            f"the release in {str(folder)!r} lacks internal/rows.csv, which says which row of the confidential file a "
            "synthetic record stands for: give the folder with its internal part, as synthesize wrote it"
        )
    order = read_frame(file).to_numpy().T
    whole = order.shape == (release.m, release.datasets[0].n) and order.dtype.kind == "i" and order.min() >= 0
    if not (whole and all(np.array_equal(np.sort(rows), np.unique(order[0])) for rows in order)):
        raise InputError(f"{str(file)!r} does not go with the public files, or is damaged")
    return replace(release, internal={"rows": order})


def _averaged(
    measure: Callable[[Balls], Floats],
    name: str,
    original: File,
    synthetic: Files,
    known: Names,
    value: Names,
    radius: Sizes,
    relative: bool,
    floor: Sizes,
) -> pd.Series:
    """The mean of a measure over the data sets, for every record of the original."""
    known, value = as_list(known), as_list(value)
    if not value or set(value) & set(known):
        raise InputError("value must name one column or more that are not in known")
    radii, floors = sizes(radius, "radius", len(value)), sizes(floor, "floor", len(value))
    confidential = _frame(original, "original")
    kept, files = _aligned(confidential, synthetic)
    y = _values(confidential, known, value, kept, "original")
    low, high = ends(y, radii, floors, relative)
    truth = confidential.iloc[kept]
    pattern = codes(*(truth[c] for c in known)) if known else np.zeros(kept.size, dtype=np.intp)
    public = [c for c in synthetic.predictors if c in truth] if isinstance(synthetic, Release) else []
    total = np.zeros(kept.size)
    for number, frame in enumerate(files, 1):
        file = f"synthetic data set {number}"
        values = _values(frame, known, value, np.arange(len(frame)), file)
        _check_same(truth, frame, dict.fromkeys([*known, *public]), kept, len(confidential), file)
        total += measure(balls_of(pattern, low, high, values))
    averaged = np.full(len(confidential), np.nan)
    averaged[kept] = total / len(files)
    return pd.Series(averaged, index=confidential.index, name=name)


def _frame(file: object, name: str) -> pd.DataFrame:
    frame = file.frame if isinstance(file, SurveyDesign) else file
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{name} must be a DataFrame or a SurveyDesign, not {type(file).__name__}")
    if len(frame) == 0:
        raise InputError(f"{name} is empty")
    if frame.columns.has_duplicates:
        raise InputError(f"{name} has several columns of the same name; rename them")
    return frame


def _aligned(original: pd.DataFrame, synthetic: Files) -> tuple[Codes, list[pd.DataFrame]]:
    """Rows of the original that the synthetic data sets have, and these data sets in the order of those rows."""
    if isinstance(synthetic, Release):
        return _realigned(original, synthetic)
    files = [synthetic] if isinstance(synthetic, (pd.DataFrame, SurveyDesign)) else synthetic
    if not isinstance(files, Sequence) or isinstance(files, str) or not files:
        raise InputError("synthetic must be a DataFrame, a SurveyDesign, a list of them or a Release")
    frames = [_frame(file, f"synthetic data set {number}") for number, file in enumerate(files, 1)]
    for number, frame in enumerate(frames, 1):
        if len(frame) != len(original):
            raise InputError(
                f"synthetic data set {number} has {len(frame):,} records and the original {len(original):,}: row i of "
                "both must be the same record"
            )
    return np.arange(len(original)), frames


def _realigned(original: pd.DataFrame, release: Release) -> tuple[Codes, list[pd.DataFrame]]:
    if "rows" not in release.internal:
        raise InputError(
            "a release that was read from its public files does not say which confidential record a synthetic one "
            "stands for: use the release object of the session that made it (internal/rows.csv holds the rows, from 0)"
        )
    order: Codes = release.internal["rows"]
    kept = np.sort(order[0])
    left_out = np.ones(len(original), dtype=bool)
    left_out[kept[kept < len(original)]] = False
    for outcome in release.outcomes:
        if outcome in original.columns:
            left_out &= original[outcome].notna().to_numpy()
    if kept[-1] >= len(original) or left_out.any():
        raise InputError(
            "the original is not the file that this release was made from: it has other records. Pass it as it was "
            "given to synthesize"
        )
    return kept, [data.frame.iloc[np.argsort(at)] for data, at in zip(release.datasets, order, strict=True)]


def _values(frame: pd.DataFrame, known: list[str], value: list[str], kept: Codes, file: str) -> Floats:
    """The values (rows kept, d), of a file whose columns are all there."""
    used = np.zeros(len(frame), dtype=bool)
    used[kept] = True
    for column in (*known, *value):
        if column not in frame.columns:
            raise InputError(f"{file}: there is no column {column!r}; it has {listing(frame.columns)}")
    for column in known:
        missing = frame[column].isna().to_numpy() & used
        if missing.any():
            raise InputError(
                f"{file}: known column {column!r} is missing in {rows(missing)}; make missing a category, or leave "
                "these records out of all files"
            )
    try:
        y = np.column_stack([numeric(frame[column], column) for column in value])
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    for column, numbers in zip(value, y.T, strict=True):
        bad = ~np.isfinite(numbers) & used
        if bad.any():
            raise InputError(
                f"{file}: column {column!r} is missing or not finite in {rows(bad)}; leave these records out of all "
                "files"
            )
    return y[kept]


def _check_same(
    truth: pd.DataFrame, synthetic: pd.DataFrame, columns: Iterable[str], kept: Codes, n: int, file: str
) -> None:
    """Refuse columns that are not the same in both files, row by row; ``kept`` are their rows of n in the original."""
    for column in columns:
        differs = np.zeros(n, dtype=bool)
        differs[kept] = ~_equal(truth[column], synthetic[column])
        if differs.any():
            raise InputError(
                f"{file}: column {column!r} differs from the original in {rows(differs)}. Row i of both must be the "
                "same record (pass a Release as a whole, for its data sets are permuted, and the original in its "
                "first order), and known columns must be neither synthesized nor recoded"
            )


def _equal(a: pd.Series, b: pd.Series) -> Bools:
    """Whether two columns agree, row by row; categories are compared as text, as which a release publishes them."""
    if not (is_label(a) or is_label(b)):
        return np.asarray(a.to_numpy() == b.to_numpy())
    return np.asarray(_text(a) == _text(b))


def _text(column: pd.Series) -> NDArray[np.object_]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.array([str(label) for label in column.cat.categories], dtype=object)[column.cat.codes]
    return column.astype(str).to_numpy(dtype=object)
