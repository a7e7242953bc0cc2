"""Large files by the calls of any other: the same release, from files as from memory."""

import gc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.measuring import counting
from surveysynth.release import source

TOTAL = 29_501
FORMULAS = ["income ~ division + education"]


@pytest.fixture(scope="module")
def design():
    return ss.datasets.census_sample(3_000, seed=4)


@pytest.fixture(scope="module")
def measured(design):
    return ss.measure(design, FORMULAS, epsilon=5, bounds=(0, 20_000), population_total=TOTAL)


def test_data_sets_that_lie_in_files_are_those_in_memory(measured, monkeypatch, tmp_path):
    memory = measured.release(m=4, seed=1)
    monkeypatch.setattr(source, "IN_MEMORY", 100)
    files = measured.release(m=4, seed=1)
    assert not memory.datasets[0].files and len({*(each.files for each in files.datasets)}) == 4
    table = memory.tables(by="division")
    pd.testing.assert_frame_equal(files.tables(by="division"), table)
    files.write(tmp_path / "release", format="parquet", by="division")
    back = ss.read_release(tmp_path / "release")
    pd.testing.assert_frame_equal(back.tables(by="division"), table)
    place = files.datasets[0].files[0]
    assert place.is_file()
    del files
    gc.collect()
    assert not place.exists()


def test_standard_errors_with_the_noise_of_some_records_are_those_with_that_of_all(measured, monkeypatch):
    """From 1,500 of 3,000 records; fewer make them too large, as records move from cell to cell one by one."""
    release = measured.release(m=4, seed=2)
    every = release.tables(by="education")["se"]
    monkeypatch.setattr(source, "MANY", 2_000)
    monkeypatch.setattr(source, "SOME", 1_500)
    some = replace(release)  # whose data sets of other draws are not made yet
    ratio = (some.tables(by="education")["se"] / every)[every > 0]  # the population total is known
    assert {each.n for each in some._redrawn_for_tables} == {1_500} and {each.n for each in some.redrawn} == {3_000}
    assert ratio.between(0.8, 1.3).all() and 0.95 < ratio.mean() < 1.1


def test_domains_are_those_of_all_records_where_the_variance_is_of_some(measured, monkeypatch):
    """A domain without records among them gets no other domain's variance."""
    monkeypatch.setattr(source, "MANY", 2_000)
    monkeypatch.setattr(source, "SOME", 500)
    release = measured.release(m=4, seed=2)
    release = release.assign(high=lambda f: f["income"] > 15_000)
    table = release.tables(by=["division", "high"], statistic="count")
    assert set(table["high"].astype(str)) == {"True", "False", "all"}
    assert table.loc[table["high"].astype(str) != "True", "se"].notna().all()


def test_records_are_drawn_in_blocks_by_threads_and_seeds(measured, monkeypatch):
    monkeypatch.setattr(source, "MANY", 2_000)
    monkeypatch.setattr(source, "BLOCK", 700)
    one, other = (measured.release(m=4, seed=3) for _ in range(2))
    for a, b in zip(one.datasets, other.datasets, strict=True):
        pd.testing.assert_frame_equal(a.frame, b.frame)
        assert a.weights.sum() == pytest.approx(TOTAL)
        assert sorted(a.frame["division"].astype(str)) == sorted(measured.source.public.frame["division"].astype(str))
    assert not one.datasets[0].frame["income"].equals(one.datasets[1].frame["income"])


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_counts_do_not_hang_on_blocks(monkeypatch, block):
    """By hand, of records that count for parts of one."""
    rng = np.random.default_rng(1)
    level, code, parts = rng.integers(0, 3, 200), rng.integers(0, 5, 200), rng.integers(0, 61, 200)
    groups, scores = np.array([0, 0, 1, 1, 2]), np.array([-1_000, 250, 0, 400, 1_000])
    expected = np.zeros((3, 3), dtype=np.int64)
    for k in range(200):
        expected[level[k], groups[code[k]]] += parts[k] * scores[code[k]]
    monkeypatch.setattr(counting, "BLOCK", block)
    part, whole = (counting.Part(None, pd.DataFrame(), {"t": level}, each, ()) for each in (parts, 1))
    part.codes["y"] = whole.codes["y"] = code
    found = part.count(counting.Count("y", groups, "t", 3, scores=scores))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    assert whole.count(counting.Count("y", groups, "t", 3)).sum() == 200


@pytest.mark.parametrize(
    ("formula", "roles", "more"),
    [
        ("y ~ region + sex", {"strata": "stratum"}, {}),
        ("y ~ region", {"strata": "stratum", "psu": "psu"}, {}),
        ("y ~ region", {}, {"unit": "household"}),
        ("y ~ region + age", {}, {}),
        ("y ~ region", {}, {"weight": "public"}),
        ("y ~ region", {}, {"population_totals": {"region": {"a": 4e4, "b": 4e4, "c": 4e4}}}),
    ],
)
def test_some_records_stand_for_all_in_every_design(monkeypatch, formula, roles, more):
    """Weights that stand for all add up to those of all, and every table has its standard errors."""
    rng, n = np.random.default_rng(5), 1_500
    stratum = rng.integers(0, 4, n)
    frame = pd.DataFrame({
        "region": rng.choice(list("abc"), n), "sex": rng.choice(list("mf"), n), "age": rng.integers(18, 90, n),
        "stratum": stratum, "psu": stratum * 100 + rng.integers(0, 8, n), "household": np.arange(n) // 2,
        "y": np.exp(rng.normal(7, 1, n)).clip(1, 99_000), "w": rng.uniform(50, 110, n),
    })  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w", **roles)
    release = ss.synthesize(design, formula, epsilon=5, m=4, bounds=(0, 1e5), population_total=1.2e5, seed=1, **more)
    monkeypatch.setattr(source, "MANY", 1_000)
    monkeypatch.setattr(source, "SOME", 400)
    some = replace(release)
    table = some.tables(by="region")
    assert table["se"].notna().all() and {each.n for each in some._redrawn_for_tables} == {400}
    for each in some._redrawn_for_tables:
        assert each.weights.sum() == pytest.approx(release.datasets[0].weights.sum(), rel=0.05)


def test_calibrated_weights_are_drawn_anew(measured):
    """The count of a level that weights are not calibrated to varies with the noise of the weights."""
    release = measured.release(m=4, seed=1)
    totals = release.tables("division", statistic="count").iloc[:-1]
    release = release.calibrate({"division": dict(zip(totals["division"], totals["estimate"], strict=True))})
    level = release.datasets[0].frame["education"].iloc[0]
    counts = [each.weights[(each.frame["education"] == level).to_numpy()].sum() for each in release.redrawn]
    assert np.std(counts) > 1
