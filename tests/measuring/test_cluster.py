"""Files that are counted by a Dask cluster: the counts are those of one process, whatever the parts."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import surveysynth as ss
from surveysynth.measuring.counting import Count, Part

FORMULAS = ["job ~ region + sex", "pay ~ region + sex + job + region:job", "rent ~ region"]
OUTCOMES = {
    "job": ss.Outcome(levels=["none", "part", "full"]),
    "pay": ss.Outcome(bounds=(0, 9_000), zeros=True, missing="category", applies="job != 'none'", elsewhere=0),
    "rent": ss.Outcome(bounds=(0, 2_000)),
}
ASKED = {"epsilon": 8, "outcomes": OUTCOMES, "population_total": 9_000, "seed": 5}


def people(n=1_700):
    rng = np.random.default_rng(1)
    job = rng.choice(["none", "part", "full"], n)
    pay = np.where(job == "none", np.nan, np.rint(np.exp(rng.normal(7, 1, n))))
    pay[(job != "none") & (rng.random(n) < 0.1)] = 0
    return pd.DataFrame({
        "region": rng.choice(["a", "b", "c"], n), "sex": rng.choice(["f", "m"], n), "job": job, "pay": pay,
        "rent": rng.uniform(100, 1_500, n), "psu": rng.integers(0, 200, n), "household": np.arange(n) // 3,
        "w": np.exp(rng.normal(1, 0.4, n)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def scheduler():
    distributed = pytest.importorskip("dask.distributed")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("LD_LIBRARY_PATH", raising=False)  # R, where a test has loaded it, puts its libraries first
        cluster = distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same records in 1, 3 and 17 files."""
    place, frame = tmp_path_factory.mktemp("census"), people()
    for parts in (1, 3, 17):
        (place / str(parts)).mkdir()
        for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
            frame.iloc[rows].to_parquet(place / str(parts) / f"{k:02}.parquet")
    return place


def tables(measured):
    return [table for variable in measured.source.tables.variables for table in variable.answers]


@pytest.mark.parametrize("roles", [{}, {"unit": "household"}])
def test_counts_are_those_of_one_process_whatever_the_parts(folder, scheduler, roles):
    """With one seed the noise is the same: every table is, to the count, those of pairs of records among them."""
    given = ASKED | roles
    expected = tables(ss.measure(ss.SurveyDesign(people(), weights="w", psu="psu"), FORMULAS, **given))
    assert any(table.pairs for table in expected) and any(table.by_scores is not None for table in expected)
    for parts in (1, 3, 17):
        design = ss.SurveyDesign.scan(folder / str(parts), weights="w", psu="psu")
        found = tables(ss.measure(design, FORMULAS, scheduler=scheduler, **given))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert (one.by, one.earlier, one.unit) == (other.by, other.earlier, other.unit)
            np.testing.assert_array_equal(one.counts, other.counts)
        assert not {"job", "pay", "rent"} & {*design._scan._read}  # this process has read no outcome


def test_a_release_goes_the_same_way(folder, scheduler):
    design = ss.SurveyDesign.scan(folder / "3", weights="w")
    asked = {"epsilon": 8, "bounds": (0, 2_000), "population_total": 9_000, "m": 4, "seed": 2}
    here, there = (ss.synthesize(design, "rent ~ region", scheduler=at, **asked) for at in (None, scheduler))
    pd.testing.assert_frame_equal(here.tables("region"), there.tables("region"))


def test_what_contradicts_the_schema_is_told_with_the_file_and_without_a_value(folder, scheduler, tmp_path):
    for k in range(2):
        frame = pq.read_table(folder / "3" / f"0{k}.parquet").to_pandas()
        frame.assign(job=["astronaut", *frame["job"][1:]] if k else frame["job"]).to_parquet(tmp_path / f"{k}.parquet")
    design = ss.SurveyDesign.scan(tmp_path, weights="w")
    with pytest.raises(ss.InputError, match=r"^1.parquet: 'job' has levels that were not declared, in 1 row") as told:
        ss.measure(design, FORMULAS, scheduler=scheduler, **ASKED)
    assert "astronaut" not in str(told.value)


def test_what_no_cluster_counts_is_refused_with_what_to_do(folder, scheduler):
    with pytest.raises(ss.InputError, match=r"scheduler= is for designs of files"):
        ss.measure(ss.SurveyDesign(people(), weights="w"), FORMULAS, scheduler=scheduler, **ASKED)
    with pytest.raises(ss.InputError, match="no Dask scheduler answers at 'nowhere'"):
        ss.measure(ss.SurveyDesign.scan(folder / "1", weights="w"), FORMULAS, scheduler="nowhere", **ASKED)
    with pytest.raises(ss.InputError, match="scheduler: only for strict releases"):
        ss.synthesize(
            ss.SurveyDesign.scan(folder / "1", weights="w"), ss.FBS("rent ~ region"), epsilon=9, scheduler=scheduler,
            mechanism=ss.PseudoPosterior(),
        )  # fmt: skip


@pytest.mark.parametrize("cuts", [[], [3], [1, 20, 39]])
def test_parts_add_up_to_the_brute_force_count(cuts):
    """Levels, groups of an earlier variable, scores and their products, by a loop over records."""
    rng, n = np.random.default_rng(3), 40
    level, y, x, parts = (rng.integers(0, k, n) for k in (3, 6, 5, 61))
    groups, before = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    scores, times = rng.integers(-1000, 1000, 6), rng.integers(-1000, 1000, 5)
    expected = np.zeros((9, 3), dtype=int)
    for i in range(n):
        expected[level[i] * 3 + before[x[i]], groups[y[i]]] += parts[i] * scores[y[i]] * times[x[i]]
    what = Count("y", groups, "t", 3, "x", before, scores, times)
    found = np.zeros_like(expected)
    for rows in np.split(np.arange(n), cuts):
        part = Part(None, pd.DataFrame(), {"t": level[rows].astype(np.uint8)}, parts[rows], ())
        part.codes |= {"y": y[rows], "x": x[rows]}
        found += part.count(what)
    np.testing.assert_array_equal(found, expected)
