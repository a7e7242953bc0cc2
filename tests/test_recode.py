"""Levels that are merged, and missing values that are a level, as pandas would do it by hand."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surveysynth import InputError
from surveysynth.design.recode import recoded

CODES = st.lists(st.sampled_from([0, 1, 2, 7, None]), min_size=1, max_size=12)


@given(CODES, st.sampled_from(["text", "whole", "float", "Int64", "category"]), st.booleans(), st.data())
def test_a_merge_is_a_replacement_of_texts(
    values: list[int | None], kind: str, missing: bool, data: st.DataObject
) -> None:
    """Whatever type a column of codes has, and whichever way the plan writes a code."""
    texts = [None if v is None else str(v) for v in values]
    column = pd.Series(values, name="v", dtype=object)
    if kind in ("text", "category"):
        column = pd.Series(texts, name="v", dtype=object if kind == "text" else "category")
    elif kind in ("float", "Int64") or None in values:
        column = column.astype("Int64" if kind == "Int64" else "float64")
    else:
        column = column.astype(int)
    there = sorted({v for v in values if v is not None})
    together = data.draw(st.sets(st.sampled_from(there)) if there else st.just(set()))
    written = [data.draw(st.sampled_from([v, float(v), str(v)])) for v in sorted(together)]
    found = recoded(column, {"new": written} if written else {}, missing=missing)
    expected = [
        ("missing" if missing else None) if v is None else "new" if v in together else str(v) for v in values
    ]
    assert [None if pd.isna(v) else v for v in found] == expected
    assert isinstance(found.dtype, pd.CategoricalDtype) == (kind == "category")
    assert found.index.equals(column.index) and found.name == "v"


def test_codes_with_leading_zeros_are_other_levels() -> None:
    found = recoded(pd.Series(["01", "1", "2"], name="v"), {"one": ["1"]}, missing=False)
    assert found.tolist() == ["01", "one", "2"]


def test_missing_values_can_be_merged_with_a_level() -> None:
    found = recoded(pd.Series(["a", None, "b"], name="v"), {"none": ["missing", "b"]}, missing=True)
    assert found.tolist() == ["a", "none", "none"]
    with pytest.raises(InputError, match="no level 'missing'"):
        recoded(pd.Series(["a", None], name="v"), {"none": ["missing"]}, missing=False)


def test_a_name_that_is_a_level_already_takes_the_others_in() -> None:
    column = pd.Series(pd.Categorical(["x", "y", "z"], ["z", "y", "x"]), name="v")
    found = recoded(column, {"y": ["x"]}, missing=False)
    assert found.tolist() == ["y", "y", "z"] and found.cat.categories.tolist() == ["z", "y"]
