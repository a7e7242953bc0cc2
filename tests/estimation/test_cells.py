"""Tables from the moments of cells: as samplics has them, in any blocks, without cancellation."""

from __future__ import annotations

from fractions import Fraction

import numba
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth.estimation import cells
from surveysynth.estimation.cells import RecordMoments
from surveysynth.estimation.quantities import Quantity

ASKED = {"outcome": "y", "statistic": ["count", "total", "mean", "ratio"], "denominator": "x"}


def survey(seed, n=400, strata=3):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "h": rng.permutation(np.arange(n) % strata), "sex": rng.choice(["f", "m"], n), "age": rng.integers(0, 4, n),
        "w": rng.gamma(2, 5, n), "y": rng.normal(50, 20, n), "x": rng.gamma(3, 1, n),
    })  # fmt: skip
    return ss.SurveyDesign(frame, weights="w", strata="h" if strata > 1 else None)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(60, 400), strata=st.integers(1, 4))
def test_cells_and_margins_are_those_of_samplics(seed, n, strata):
    """It visits the file once for every domain; cells of a record or two are among them."""
    design = survey(seed, n, strata)
    ours, theirs = (
        ss.estimate(design, by=["sex", "age"], estimator=which, **ASKED) for which in ("onepass", "samplics")
    )
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9, atol=1e-9)


def test_sums_do_not_go_with_the_number_of_threads_nor_much_with_blocks(monkeypatch):
    design = survey(1, 3000)
    whole = ss.estimate(design, by=["sex", "age"], estimator="onepass", **ASKED)
    monkeypatch.setattr(cells, "BLOCK", 100)
    before, tables = numba.get_num_threads(), []
    for threads in (1, min(2, before)):
        numba.set_num_threads(threads)
        tables.append(ss.estimate(design, by=["sex", "age"], estimator="onepass", **ASKED))
    numba.set_num_threads(before)
    pd.testing.assert_frame_equal(*tables, rtol=0, atol=0)
    pd.testing.assert_frame_equal(tables[0], whole, rtol=1e-12, atol=0)


def test_means_that_are_large_beside_their_spread_keep_their_digits():
    """By fractions: sums of squares of w y, and not of w (y - R), would leave 2 digits."""
    rng = np.random.default_rng(2)
    y, w, cell = 1e7 + rng.normal(0, 1, 60), rng.integers(1, 9, 60).astype(float), rng.integers(0, 3, 60)
    design = ss.SurveyDesign(pd.DataFrame({"y": y, "w": w}), weights="w")
    moments = RecordMoments.from_design(design, Quantity("mean", "y", y), cell, 3)
    found = moments.with_variances(np.zeros(3, dtype=np.intp), 1)
    ys, ws = [Fraction(v) for v in y], [Fraction(v) for v in w]
    mean = sum(a * b for a, b in zip(ys, ws, strict=True)) / sum(ws)
    z = [b * (a - mean) / sum(ws) for a, b in zip(ys, ws, strict=True)]
    variance = Fraction(60, 59) * sum(v * v for v in z)
    assert found.estimate[0] == pytest.approx(float(mean), rel=1e-15)
    assert found.variance[0] == pytest.approx(float(variance), rel=1e-7)  # y itself has 9 digits of its spread


def test_records_without_a_value_or_a_domain_count_in_none():
    y, cell = np.array([1.0, np.nan, 3.0, 9.0, 5.0]), np.array([0, 0, 1, -1, 2])
    design = ss.SurveyDesign(pd.DataFrame({"w": np.ones(5)}), weights="w")
    moments = RecordMoments.from_design(design, Quantity("mean", "y", y), cell, 3)
    cell_domain = np.array([0, 0, -1])  # two cells in one domain, the third in none
    assert moments.with_variances(cell_domain, 1).estimate == [2.0]
    assert moments.records(cell_domain, 1) == [2]
    assert moments.degrees_of_freedom(cell_domain, 1) == [1]


@pytest.mark.parametrize("net", [0.0, 1e-6, 1e-3, 1.0])
def test_ratios_whose_denominator_cancels_in_a_cell_are_those_of_samplics(net):
    """Net changes: a cell's own ratio is of any size, and a margin's error has nothing to do with it."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({
        "g": ["a"] * 3 + ["b"] * 300, "w": 12.5, "y": [900.0, 1100, 1300, *rng.normal(1000, 300, 300)],
        "x": [1200.10 + net, -700.05, -500.05, *rng.normal(800, 500, 300)],
    })  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w")
    asked = {"outcome": "y", "by": "g", "statistic": "ratio", "denominator": "x"}
    ours, theirs = (ss.estimate(design, estimator=which, **asked).iloc[1:] for which in ("onepass", "samplics"))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9)
