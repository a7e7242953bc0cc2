"""Identification risk of synthetic records, marginal and pairwise, and privacy weights computed from it.

Source: Hu, Savitsky & Williams 2022b, sections 2.1 and 3.1; Reiter & Mitra 2009.

:mod:`surveysynth.privacy.neighbourhoods` states the assumptions about an intruder, and defines the measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.columns import codes, listing, numeric
from ..design.discrete import is_label
from ..design.read import read_frame
from ..design.recode import as_text
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..privacy.neighbourhoods import (
    Balls,
    Sizes,
    attribute,
    balls_of,
    ends,
    marginal,
    match,
    matching,
    pairwise,
    sizes,
)
from ..validation import as_list, rows, truth
from .labels import labelled
from .release import Release, read_release

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]
File = pd.DataFrame | SurveyDesign
Files = File | Sequence[File] | Release
Names = str | Sequence[str]

WEIGHT = (
    "known column {0!r} is the survey weight, of which the files have synthetic values: name it in value, with the "
    "numbers that the intruder knows"
)


def identification_risk(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    synthesized: Names = (),
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Compute each record's marginal probability of identification, averaged over the data sets.

    Source: Hu, Savitsky & Williams 2022b, eq. 8.

    This probability, IR_i, is high if the synthetic value of record i is near its true value y_i, and few other
    synthetic values in the same pattern are near y_i.  The ball of a record is the interval of values that are near
    y_i.  IR_i is computed from the confidential file, so it is for the agency only.

    Parameters
    ----------
    original : DataFrame or SurveyDesign
        The confidential file, with n records.
    synthetic : DataFrame, SurveyDesign, a sequence of them, or Release
        Row i of each file is the synthetic version of row i of the original.  Top-coded, rounded or otherwise altered
        data work as well.  The records of a Release are in random order: pass the Release itself, whose internal part
        has the order.  If all known columns are synthesized, a wrong order of rows cannot be detected.
    known : str or list of str
        The columns that the intruder knows in addition to ``value``.  The pattern of a record consists of the synthetic
        records that match its true values in all these columns; with ``[]`` all records are in one pattern.  Known
        columns that were not synthesized must be equal in all files.  In a known column that was synthesized, a
        category (text, a categorical column, an outcome ``C(...)`` of a Release) matches if it equals the true
        category, and a number matches if it is within its radius of the true number.
    value : str or list of str
        The synthesized numeric column that the intruder knows.  With several columns the ball is a box: a record is
        inside if each of its values is near the true value.
    synthesized : str or list of str
        The known columns that were synthesized, if the files are frames or designs.  Convert numeric codes of
        categories to text first.  Leave the argument out for a Release, which knows its synthesized columns.
    radius : float or list of float
        Radius of the ball: a share of |y_i|, or a distance in the unit of y if ``relative`` is False.  A list has one
        radius for each column in ``value``, followed by one for each numeric known column that was synthesized.
    relative : bool
        True if radii are shares of |y_i|.
    floor : float, or as many numbers as in ``radius``
        Smallest radius, in the unit of y.  Without it, a relative ball around 0 contains only the value 0.

    Returns
    -------
    pandas.Series (n,)
        Risks in [0, (M - 1) / M], with the index of the original, where M is the size of the pattern.  The risk is NaN
        for records that the release left out because an outcome was missing or the weight was 0.  A data set
        contributes 0 for a record whose own synthetic record does not match, or for which no record matches.

    Raises
    ------
    InputError
        Columns that do not exist, have missing values or are not numeric; files of different lengths, whose rows cannot
        be paired; a known column that was not synthesized, but differs between the files; a known column that is also
        in ``value``, or is the synthetic weight (whose true value belongs in ``value``); a negative radius; a Release
        made from another file, or without its internal part, which has the order of the records.

    Notes
    -----
    IR_i measures how rare the true value is among records with the same known variables.  IR_i is therefore 0 for a
    pattern of one record, and for a pattern whose synthetic values are all in the ball.  A record that is alone in its
    pattern is nevertheless identified by the known variables.  If known variables were synthesized, look at
    :func:`match_risk`, too: with more known variables fewer records match, and IR_i becomes smaller.

    Sources for patterns of synthesized variables: Reiter & Mitra 2009, for categories; Hornby & Hu 2021, for numbers
    within a radius.  Without synthesized variables the pattern is that of Hu, Savitsky & Williams 2022b, section 2.1.

    Time is O(n log n) for one value.  A box takes one more step for every pair of a record and a synthetic value of the
    same pattern that is in the ball of the first value, at most n M steps: put the most discriminating value first.
    Memory is O(n).

    Examples
    --------
    >>> original = pd.DataFrame({"sex": list("ffffmmmm"), "income": [10, 11, 30, 31, 12, 25, 26, 90]})
    >>> synthetic = original.assign(income=[10, 30, 31, 11, 13, 24, 60, 88])
    >>> ss.identification_risk(original, synthetic, known="sex", value="income")
    0    0.50
    1    0.00
    2    0.50
    3    0.00
    4    0.75
    5    0.75
    6    0.00
    7    0.75
    Name: identification_risk, dtype: float64
    """
    intruder = _Intruder.checked(known, value, synthesized, radius, relative, floor)
    return _averaged(marginal, "identification_risk", original, synthetic, intruder)


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
    """Compute privacy weights from the pairwise identification risk, averaged over the data sets.

    Source: Hu, Savitsky & Williams 2022b, eq. 14, where the weights are alpha~_i.

    The final privacy weights are min(c1 alpha~_i + c2, 1), with constants c1 and c2.  The weights from the marginal
    risk are ``1 - identification_risk(...)`` (Hu, Savitsky & Williams 2022b, eq. 9).

    Parameters
    ----------
    original, synthetic, known, value, radius, relative, floor
        See :func:`identification_risk`.  Known columns must not be synthesized: a pair consists of two records of one
        pattern, and patterns of synthesized columns overlap.

    Returns
    -------
    pandas.Series (n,)
        Weights in [0, 1].  They are NaN for the same records as in :func:`identification_risk`.  A pattern of one
        record has no pairs; the record gets its marginal weight, which is 1.

    Raises
    ------
    InputError
        See :func:`identification_risk`; also, if a known column was synthesized.

    Notes
    -----
    Time and memory are those of :func:`identification_risk`; a direct sum over pairs would take O(M^3).

    Examples
    --------
    >>> original = pd.DataFrame({"sex": list("ffffmmmm"), "income": [10, 11, 30, 31, 12, 25, 26, 90]})
    >>> synthetic = original.assign(income=[10, 30, 31, 11, 13, 24, 60, 88])
    >>> ss.pairwise_weights(original, synthetic, known="sex", value="income").round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.67, 0.67, 1.0, 0.67]
    """
    intruder = _Intruder.checked(known, value, (), radius, relative, floor)
    moving = known_synthesized(synthetic, intruder.known, intruder.synthesized)
    if moving:
        raise InputError(
            f"known column {moving[0]!r} was synthesized, and pairs are defined for known columns that were not: leave "
            "it out, or take identification_risk()"
        )
    return _averaged(pairwise, "pairwise_weight", original, synthetic, intruder)


def attribute_risk(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    synthesized: Names = (),
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Compute, for each record, the share of matching synthetic records whose value is near the true value.

    For record i the share is #{h : y*_h in B_i} / M, averaged over the data sets.  Here y*_h are the values of the M
    synthetic records in the pattern of record i, and B_i is the ball around its true value.  An intruder who knows only
    the pattern, and picks one of its synthetic records at random, comes near the true value with this probability.

    Parameters
    ----------
    original, synthetic, known, value, synthesized, radius, relative, floor
        See :func:`identification_risk`.

    Returns
    -------
    pandas.Series (n,)
        Shares in [0, 1].  They are NaN for the same records as in :func:`identification_risk`.  A data set contributes
        0 for a record whose pattern is empty.

    Raises
    ------
    InputError
        See :func:`identification_risk`.

    Examples
    --------
    >>> original = pd.DataFrame({"sex": list("ffffmmmm"), "income": [10, 11, 30, 31, 12, 25, 26, 90]})
    >>> synthetic = original.assign(income=[10, 30, 31, 11, 13, 24, 60, 88])
    >>> ss.attribute_risk(original, synthetic, known="sex", value="income").round(2).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    """
    intruder = _Intruder.checked(known, value, synthesized, radius, relative, floor)
    return _averaged(attribute, "attribute_risk", original, synthetic, intruder)


def match_risk(
    original: File,
    synthetic: Files,
    *,
    known: Names,
    value: Names,
    synthesized: Names = (),
    radius: Sizes = 0.2,
    relative: bool = True,
    floor: Sizes = 0.0,
) -> pd.Series:
    """Compute the probability that an intruder picks the correct record among the synthetic records that match.

    Source: Reiter & Mitra 2009; Hornby & Hu 2021, for numbers within a radius.

    The probability is T_i / c_i, averaged over the data sets.  c_i is the number of synthetic records that match the
    true known values of record i and are near its true value.  T_i is 1 if the synthetic record of record i is one of
    these c_i records, else 0.  The intruder picks one of the c_i records at random.  The sum of the probabilities over
    all records is the expected match risk.  The share of records with probability 1 in a single data set is the true
    match rate.

    Parameters
    ----------
    original, synthetic, known, value, synthesized, radius, relative, floor
        See :func:`identification_risk`.

    Returns
    -------
    pandas.Series (n,)
        Probabilities in [0, 1].  They are NaN for the same records as in :func:`identification_risk`.  A data set
        contributes 0 for a record whose own synthetic record does not match.

    Raises
    ------
    InputError
        See :func:`identification_risk`.

    Notes
    -----
    The match risk is 1 if only the record's own synthetic record matches.  For such a record
    :func:`identification_risk` is (M_i - 1) / M_i, which is 0 if the record is alone in its pattern.

    Examples
    --------
    >>> original = pd.DataFrame({"sex": list("ffffmmmm"), "income": [10, 11, 30, 31, 12, 25, 26, 90]})
    >>> synthetic = original.assign(income=[10, 30, 31, 11, 13, 24, 60, 88])
    >>> ss.match_risk(original, synthetic, known="sex", value="income").round(2).tolist()
    [0.5, 0.0, 0.5, 0.0, 1.0, 1.0, 0.0, 1.0]
    """
    intruder = _Intruder.checked(known, value, synthesized, radius, relative, floor)
    return _averaged(match, "match_risk", original, synthetic, intruder)


def pattern_sizes(original: File, synthetic: Files, *, known: Names, value: Names, synthesized: Names = (),
                  radius: Sizes = 0.2, relative: bool = True, floor: Sizes = 0.0) -> pd.Series:  # fmt: skip
    """Count the synthetic records that match the known columns of each record, averaged over the data sets.

    Parameters, index and errors are those of :func:`identification_risk`.
    """
    intruder = _Intruder.checked(known, value, synthesized, radius, relative, floor)
    return _averaged(matching, "pattern_size", original, synthetic, intruder)


def ordered_release(folder: Path) -> Release:
    """Read a release from its folder, together with the order of its records from the internal part.

    Raises
    ------
    InputError
        See :func:`surveysynth.read_release`; also, if internal/rows.csv is missing or contradicts the public files.
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


@dataclass(frozen=True)
class _Intruder:
    """What an intruder knows about a record: the arguments of :func:`identification_risk`."""

    known: list[str]
    value: list[str]
    synthesized: list[str]
    radius: Sizes
    relative: bool
    floor: Sizes

    @classmethod
    def checked(
        cls, known: Names, value: Names, synthesized: Names, radius: Sizes, relative: bool, floor: Sizes
    ) -> _Intruder:
        known, value, synthesized = (list(dict.fromkeys(as_list(names))) for names in (known, value, synthesized))
        if not value or set(value) & set(known):
            raise InputError("value must name one column or more that are not in known")
        for name in synthesized:
            if name not in known:
                raise InputError(f"synthesized names {name!r}, which is not in known: it says which of these were")
        return cls(known, value, synthesized, radius, truth(relative, "relative"), floor)

    def ends(self, numbers: list[str], y: Floats) -> tuple[Floats, Floats]:
        """Return, for each true value in ``y``, the lower and the upper limit of the values that match it.

        y has a row for each record, and a column for each name in ``numbers``.  These are the columns ``value``, then
        the synthesized numeric columns that the intruder knows.
        """
        each = "value" if numbers == self.value else f"of {listing(numbers)}"
        radius, floor = (
            sizes(given, name, len(numbers), each) for name, given in (("radius", self.radius), ("floor", self.floor))
        )
        return ends(y, radius, floor, self.relative)


def _averaged(
    measure: Callable[[Balls], Floats], name: str, original: File, synthetic: Files, intruder: _Intruder
) -> pd.Series:
    """Compute a measure of risk for every record of the confidential file, averaged over the data sets."""
    known, value = intruder.known, intruder.value
    moving = known_synthesized(synthetic, intruder.known, intruder.synthesized)
    confidential = _frame(original, "original")
    kept, files = _aligned(confidential, synthetic)
    _check_there(confidential, [*known, *value], "original")
    if isinstance(synthetic, Release):
        named = [name for name in (*known, *synthetic.predictors) if name in confidential and name not in value]
        confidential = confidential.assign(**labelled(confidential, synthetic, named))
    weights = _weights(original, synthetic)
    if weights in moving:
        raise InputError(WEIGHT.format(weights))
    labels = {c: _is_category(c, confidential, files, synthetic) for c in moving}
    numbers = [*value, *(c for c in moving if not labels[c])]
    y = _values(confidential, known, numbers, kept, "original")
    low, high = intruder.ends(numbers, y)
    truth = confidential.iloc[kept]
    fixed = [c for c in known if c not in moving]
    pattern = codes(*(truth[c] for c in fixed)) if fixed else np.zeros(kept.size, dtype=np.intp)
    public = [c for c in synthetic.predictors if c in truth] if isinstance(synthetic, Release) else []
    total = np.zeros(kept.size)
    for number, frame in enumerate(files, 1):
        file = f"synthetic data set {number}"
        _check_there(frame, [*known, *value], file)
        values = _values(frame, known, numbers, np.arange(len(frame)), file)
        _check_same(truth, frame, dict.fromkeys([*fixed, *public]), kept, len(confidential), file, weights)
        true, seen = _both(pattern, truth, frame, [c for c in moving if labels[c]])
        total += measure(balls_of(true, low, high, values, seen=seen, known=len(numbers) - len(value)))
    averaged = np.full(len(confidential), np.nan)
    averaged[kept] = total / len(files)
    return pd.Series(averaged, index=confidential.index, name=name)


def known_synthesized(synthetic: Files, known: list[str], named: list[str]) -> list[str]:
    """List the columns that the intruder knows and that were synthesized.

    A release knows its synthesized columns.  For frames and designs, ``named`` lists the synthesized columns.

    Raises
    ------
    InputError
        ``named`` is not empty, although a release knows its synthesized columns.
    """
    if isinstance(synthetic, Release):
        if named:
            raise InputError("synthesized goes with frames and designs: a Release knows what was synthesized")
        named = [*synthetic.outcomes, *synthetic.derived]
    return [name for name in known if name in named]


def _weights(original: File, synthetic: Files) -> str | None:
    """Return the name of the survey weight in a release, or else in the original file; None if neither is a design."""
    design = synthetic.datasets[0] if isinstance(synthetic, Release) else original
    return design.weights_name if isinstance(design, SurveyDesign) else None


def _is_category(name: str, original: pd.DataFrame, files: list[pd.DataFrame], synthetic: Files) -> bool:
    """Return True if a synthesized column is categorical, so that values match only if they are equal."""
    if isinstance(synthetic, Release) and name in synthetic.categorical:
        return True
    return any(is_label(frame[name]) for frame in (original, *files) if name in frame)


def _both(pattern: Codes, truth: pd.DataFrame, synthetic: pd.DataFrame, categories: list[str]) -> tuple[Codes, Codes]:
    """Code the known values of true and of synthetic records, so that records that agree have equal codes.

    Records with the same code agree in all known columns that are not numbers with a radius.  ``pattern`` has the codes
    by the known columns that were not synthesized.  The returned codes also distinguish the values of ``categories``,
    which are known columns that were synthesized.
    """
    if not categories:
        return pattern, pattern
    joint = (np.concatenate(_comparable(truth[c], synthetic[c])) for c in categories)
    code = codes(np.concatenate([pattern, pattern]), *joint)
    return code[: pattern.size], code[pattern.size :]


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
    """Sort the records of every data set in the order of the confidential file.

    Return the row numbers of the confidential records that have a synthetic version, and the sorted data sets.
    """
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
    weight = release.datasets[0].weights_name
    if weight in original.columns:
        left_out &= original[weight].to_numpy() != 0
    if kept[-1] >= len(original) or left_out.any():
        raise InputError(
            "the original is not the file that this release was made from: it has other records. Pass it as it was "
            "given to synthesize"
        )
    return kept, [data.frame.iloc[np.argsort(at)] for data, at in zip(release.datasets, order, strict=True)]


def _check_there(frame: pd.DataFrame, columns: list[str], file: str) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InputError(f"{file}: there is no column {column!r}; it has {listing(frame.columns)}")


def _values(frame: pd.DataFrame, known: list[str], value: list[str], kept: Codes, file: str) -> Floats:
    """Return the values of the columns named in ``value`` as an array, for the records in ``kept``.

    Raise InputError if one of these records has a missing value in ``known`` or ``value``.
    """
    used = np.zeros(len(frame), dtype=bool)
    used[kept] = True
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
    truth: pd.DataFrame, synthetic: pd.DataFrame, columns: Iterable[str], kept: Codes, n: int, file: str,
    weights: str | None,
) -> None:  # fmt: skip
    """Raise InputError for a column that differs between true and synthetic records.

    ``kept`` has the row numbers of these records in the confidential file of n records.
    """
    for column in columns:
        differs = np.zeros(n, dtype=bool)
        differs[kept] = ~_equal(truth[column], synthetic[column])
        if differs.any() and column == weights:
            raise InputError(WEIGHT.format(column))
        if differs.any():
            raise InputError(
                f"{file}: column {column!r} differs from the original in {rows(differs)}. Row i of both must be the "
                "same record (pass a Release as a whole, for its data sets are permuted, and the original in its "
                "first order), and known columns must be neither synthesized nor recoded, but for those that "
                "synthesized= names"
            )


def _equal(a: pd.Series, b: pd.Series) -> Bools:
    one, other = _comparable(a, b)
    return np.asarray(one == other)


def _comparable(a: pd.Series, b: pd.Series) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values of two columns in comparable form.  Categories become text, as in a published release."""
    if not (is_label(a) or is_label(b)):
        return a.to_numpy(), b.to_numpy()
    return _text(a), _text(b)


def _text(column: pd.Series) -> NDArray[np.object_]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = as_text(pd.Series(column.cat.categories, dtype=object))
        return np.array([*categories, "nan"], dtype=object)[column.cat.codes]
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column.astype(str).to_numpy(dtype=object)
    return as_text(column).fillna("nan").to_numpy(dtype=object)
