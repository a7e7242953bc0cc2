"""Measures of the papers, compared with numbers computed by hand and with printed numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from replication import measures as evaluate
from tests.evaluate.test_measures import estimates, made

__all__ = ["estimates"]

PRINTED = Path(__file__).resolve().parents[3] / "shared" / "paper_tables"


def test_rmse_of_one_estimate():
    assert evaluate.rmse(13.0, 4.0, 10.0) == 5.0


def test_rmse_ratios_are_those_of_each_sample(estimates):
    ratios = evaluate.rmse_ratios(estimates, ["field"])
    assert ratios["method"].tolist() == ["fbs", "fbs"]
    np.testing.assert_allclose(ratios["rmse"], [10, 10])  # hypot(8, 6), hypot(6, 8)
    np.testing.assert_allclose(ratios["rmse_ratio"], [10 / 5, 10 / 5])  # hypot(3, 4), hypot(4, 3)


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
    """All 96 coverages and interval lengths are those of Tables 4 and 5 (Hu, Savitsky & Williams 2022a)."""
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
