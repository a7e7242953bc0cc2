"""Measures and their summaries, against numbers worked out by hand and figures that the paper prints."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surveysynth.studies import measures as evaluate

PRINTED = Path(__file__).resolve().parents[3] / "shared" / "paper_tables"
numbers = st.floats(-1e6, 1e6)
lengths = st.floats(1e-3, 1e6)


def made(method, setting="", delta=np.nan, m=np.nan, **columns):
    keys = {"method": method, "setting": setting, "delta": delta, "m": m, "epsilon": 2 * delta * m}
    return pd.DataFrame(keys | columns)


def test_rmse_covers_and_cv_of_one_estimate():
    assert evaluate.rmse(13.0, 4.0, 10.0) == 5.0
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


def test_rmse_ratios_are_those_of_each_sample(estimates):
    ratios = evaluate.rmse_ratios(estimates, ["field"])
    assert ratios["method"].tolist() == ["fbs", "fbs"]
    np.testing.assert_allclose(ratios["rmse"], [10, 10])  # hypot(8, 6), hypot(6, 8)
    np.testing.assert_allclose(ratios["rmse_ratio"], [10 / 5, 10 / 5])  # hypot(3, 4), hypot(4, 3)


def test_a_summary_does_not_depend_on_the_order_of_rows(estimates):
    shuffled = estimates.sample(frac=1, random_state=1)
    keys = ["method", "field"]
    tables = [evaluate.summarize(e, ["field"]).sort_values(keys, ignore_index=True) for e in (estimates, shuffled)]
    pd.testing.assert_frame_equal(*tables)


def test_settings_side_by_side():
    domains = {"statistic": "count", "truth": 1.0, "replicates": 1, "coverage_se": 0.0, "cv": 0.0, "bias": 0.0}
    parts = []
    for method, setting, shift in (
        ("fbs", "paper", 0), ("fbs", "debias", 1), ("fbp", "paper", 2), ("fbp", "default", 3), ("fbp", "debias", 4),
    ):  # fmt: skip
        values = {"coverage": [0.1 * shift, 0.1 * shift + 0.2], "ci_length": [shift, shift + 4], "rmse": [shift, shift]}
        parts.append(made(method, setting, 1.8, 3, field=["1", "2"], gender="all", **values, **domains))
    noisy = {"field": ["1"], "gender": "all", "coverage": 9, "ci_length": 9, "rmse": 9}
    parts.append(made("laplace", "local", 1.8, 3, **noisy, **domains))
    table = evaluate.compare_settings(pd.concat(parts), ["field", "gender"])
    assert table["method"].tolist() == ["fbp"] * 3 + ["fbs"] * 3
    assert table["field"].tolist() == ["mean", "1", "2"] * 2
    fbp, fbs = table.iloc[0], table.iloc[3]
    assert fbp[["ci_length_paper", "ci_length_default", "ci_length_debias"]].tolist() == [4, 5, 6]
    assert fbs[["ci_length_paper", "ci_length_default", "ci_length_debias"]].tolist() == [2, 2, 3]
    assert table["coverage_debias"].tolist() == pytest.approx([0.5, 0.4, 0.6, 0.2, 0.1, 0.3])


@pytest.mark.skipif(not PRINTED.is_dir(), reason="the printed tables are not here")
def test_the_printed_figures_that_are_shipped_are_those_of_the_paper():
    """All 96 coverages and interval lengths of Tables 4 and 5 (Hu, Savitsky & Williams 2022a), beside a study's."""
    tables = {
        "counts": pd.read_csv(PRINTED / "tabular_table4_counts_repeated_sampling.csv", dtype={"field": str}),
        "means": pd.read_csv(PRINTED / "tabular_table5_means_repeated_sampling.csv", dtype={"field": str}),
    }
    found = {"ci_length": range(24), "coverage": 0.5}
    summary = pd.concat([
        made(method, "paper", 1.8, 3, statistic=name[:-1], **found, **table[["field", "gender"]])
        for name, table in tables.items()
        for method in ("fbs", "fbp")
    ])  # fmt: skip
    shown = evaluate.compare_with_paper(summary)
    assert list(shown) == ["block", "field", "gender", "paper_ci_length", "ci_length", "paper_coverage", "coverage"]
    assert list(dict.fromkeys(shown["block"])) == ["fbs_counts", "fbp_counts", "fbs_means", "fbp_means"]
    for block, part in shown.groupby("block"):
        method, name = block.split("_")
        printed = tables[name]
        assert part[["field", "gender"]].to_numpy().tolist() == printed[["field", "gender"]].to_numpy().tolist()
        assert part["paper_ci_length"].tolist() == printed[f"{method}_ci_length"].tolist()
        assert part["paper_coverage"].tolist() == printed[f"{method}_coverage"].tolist()
        assert part["ci_length"].tolist() == list(range(24))


def test_only_the_papers_setting_stands_beside_its_figures():
    row = {"field": ["1"], "gender": ["all"], "statistic": "count", "ci_length": 7.0, "coverage": 0.9}
    ours = ("debias", 1.8, 3), ("paper", 3.4, 3), ("paper", 1.8, 5)
    others = [made("fbs", *made_by, **row) for made_by in ours]
    assert evaluate.compare_with_paper(pd.concat(others)).empty
    shown = evaluate.compare_with_paper(pd.concat([*others, made("fbs", "paper", 1.8, 3, **row)]))
    assert shown.to_dict("records") == [{
        "block": "fbs_counts", "field": "1", "gender": "all", "paper_ci_length": 3560, "ci_length": 7.0,
        "paper_coverage": 0.84, "coverage": 0.9,
    }]  # fmt: skip
