"""Measures and their summaries, against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surveysynth.studies import measures as evaluate

numbers = st.floats(-1e6, 1e6)
lengths = st.floats(1e-3, 1e6)


def made(method, setting="", delta=np.nan, m=np.nan, **columns):
    keys = {"method": method, "setting": setting, "delta": delta, "m": m, "epsilon": 2 * delta * m}
    return pd.DataFrame(keys | columns)


def test_covers_and_cv_of_one_estimate():
    assert evaluate.cv([-20.0, 0.0], [5.0, 1.0]).tolist()[0] == 0.25
    assert np.isnan(evaluate.cv(0.0, 1.0))
    inside = evaluate.covers([1, 2, 3, np.nan, 3], [3, 3, 4, np.nan, 3], [2, 2, 2.9, 2, 3])
    assert inside.tolist() == [True, True, False, False, True]


def test_an_estimate_that_is_fixed_by_construction_covers_in_spite_of_rounding():
    total = 100_000 * (1 + 1e-14)
    assert evaluate.covers(total, total, 100_000) and not evaluate.covers(100_001, 100_002, 100_000)


def test_overlap_of_equal_half_and_separate_intervals():
    assert evaluate.overlap(0, 2, 0, 2) == 1
    assert evaluate.overlap(0, 2, 1, 3) == 0.5
    assert evaluate.overlap(0, 4, 1, 3) == 0.75  # all of the one, half of the other
    assert evaluate.overlap(0, 1, 2, 4) == pytest.approx(0.5 * (-1 / 1 - 1 / 2))
    assert np.isnan(evaluate.overlap(1, 1, 0, 2))


@given(numbers, lengths, numbers, lengths, st.floats(0.1, 100), numbers)
def test_overlap_is_symmetric_and_free_of_unit_and_origin(low, length, other, width, scale, shift):
    a, b = (low, low + length), (other, other + width)
    value = evaluate.overlap(*a, *b)
    assert value <= 1 + 1e-12
    assert evaluate.overlap(*b, *a) == pytest.approx(value, rel=1e-9)
    moved = evaluate.overlap(*(scale * (np.array([*a, *b]) + shift)))
    assert moved == pytest.approx(value, rel=1e-4, abs=1e-4)


@pytest.fixture
def estimates():
    """Two samples of one domain: confidential, and one private method."""
    domain = {"field": "1", "statistic": "mean", "truth": 100.0}
    confidential = made(
        "confidential", replicate=[1, 2], estimate=[103.0, 96.0], se=[4.0, 3.0], ci_low=[95.0, 90.0],
        ci_high=[111.0, 102.0], **domain,
    )  # fmt: skip
    private = made(
        "fbs", "paper", 1.8, 3, replicate=[1, 2], estimate=[108.0, 94.0], se=[6.0, 8.0], ci_low=[101.0, 78.0],
        ci_high=[115.0, 110.0], **domain,
    )  # fmt: skip
    return pd.concat([confidential, private], ignore_index=True)


def test_summary_of_two_samples_by_hand(estimates):
    table = evaluate.summarize(estimates, ["field"])
    assert table["method"].tolist() == ["confidential", "fbs"]
    fbs = table.iloc[1]
    assert fbs["replicates"] == 2 and fbs["truth"] == 100 and fbs["epsilon"] == pytest.approx(10.8)
    assert fbs["coverage"] == 0.5 and fbs["coverage_se"] == pytest.approx(np.sqrt(0.25 / 2))
    assert fbs["ci_length"] == (14 + 32) / 2
    assert fbs["cv"] == pytest.approx((6 / 108 + 8 / 94) / 2)
    assert fbs["bias"] == 1.0 and fbs["rmse"] == pytest.approx(np.sqrt((64 + 36) / 2))
    assert fbs["rmse_ratio"] == pytest.approx(np.sqrt(100 / 25))  # the sample's squared errors are 9 and 16
    assert fbs["overlap"] == pytest.approx(0.5 * ((10 / 14 + 10 / 16) / 2 + (12 / 32 + 12 / 12) / 2))
    own = table.iloc[0]
    assert own["coverage"] == 1 and own["coverage_se"] == 0 and own["rmse_ratio"] == 1 and own["overlap"] == 1


def test_a_summary_does_not_depend_on_the_order_of_rows(estimates):
    shuffled = estimates.sample(frac=1, random_state=1)
    keys = ["method", "field"]
    tables = [evaluate.summarize(e, ["field"]).sort_values(keys, ignore_index=True) for e in (estimates, shuffled)]
    pd.testing.assert_frame_equal(*tables)
