"""Releases of files in parts: the same whatever the files and whoever computes, and as those in memory say."""

import gc
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.design.parts import Combinations, Found, Parts
from surveysynth.models.draws import Streams
from surveysynth.models.normal import relative
from surveysynth.models.normal.relative import _places, density_of
from surveysynth.models.shared import public_grid
from surveysynth.models.shared.clipped_fit import NARROW, clipped_target
from surveysynth.models.shared.public_grid import UNITS, Points, on_grid
from surveysynth.models.tempered_chains import MANY, tempered_chains
from surveysynth.privacy.mechanisms import Assessment
from surveysynth.privacy.protected_fit import PseudoLikelihood
from surveysynth.synthesis import data_sets_in_parts, file_in_parts, in_parts
from tests.conftest import Seen, without_r

PART = 1 << 11


ROLES = {"weights": "w", "epsilon": 8, "bounds": (0, 200_000), "population_total": 200_000, "m": 2}
CAPS = [("hours", 5), ("pay", 10)]
SHORT = {"chains": 4, "warmup": 100, "draws": 100, "seed": 1}


@pytest.fixture(scope="module")
def people():
    """8,000 records of two predictors, one of them a number, a skewed outcome, and a weight that goes with both."""
    rng, n = np.random.default_rng(1), 8_000
    region, age = rng.choice(["east", "north", "west"], n, p=[0.5, 0.3, 0.2]), rng.integers(1, 4, n)
    e = rng.standard_normal(n)
    pay = np.exp(9 + 0.3 * (region == "east") + 0.1 * age + 0.6 * e)
    w = 25 * np.exp(0.2 * (region == "west") - 0.1 * e + 0.4 * rng.standard_normal(n))
    return pd.DataFrame({"region": region, "age": age, "pay": pay, "w": w, "other": rng.random(n)})


def in_small_parts(patch):
    """Parts of 2,048 records; tasks of other processes get their size with the file."""
    of = Parts.of.__func__
    patch.setattr(Parts, "of", classmethod(lambda cls, source: replace(of(cls, source), records=PART)))


@pytest.fixture
def small_parts(monkeypatch):
    in_small_parts(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def chains_once():
    """The chains of one target, with the same random numbers, run once: files differ in what comes before and after."""
    made = {}

    def once(target, n, sampler, groups):
        plain, state = replace(sampler, engine=None, rng=None), sampler.rng.bit_generator.state
        key = pickle.dumps((target, n, plain, state, groups))
        if key not in made or n > MANY:  # of more records some are taken for a pilot, by random numbers
            made[key] = tempered_chains(target, n, sampler, groups)
        else:  # which leaves the random numbers as they are after chains
            target.starts(sampler.chains, sampler.rng)
            sampler.rng.spawn(sampler.chains)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative, "tempered_chains", once)
        yield


@pytest.fixture
def no_r(monkeypatch):
    """R, loaded by an earlier test, leaves no libraries to the workers of a cluster."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def split(people, folder, files):
    """The same records in so many files, with other groups of rows."""
    cuts = np.linspace(0, len(people), files + 1).astype(int)
    paths = []
    for k in range(files):
        paths.append(folder / f"{files}-{k:02d}.parquet")
        people.iloc[cuts[k] : cuts[k + 1]].to_parquet(paths[-1], row_group_size=701 * files)
    return paths


def with_jobs(people):
    """Two categories: pay goes with the one, which goes with the region, and nothing with the other."""
    rng = np.random.default_rng(5)
    u = rng.random(len(people))
    job = np.where(u < 0.4 + 0.2 * (people["region"] == "east"), "full", np.where(u < 0.8, "none", "other"))
    pay = people["pay"] * np.where(job == "full", 1.5, 1.0)
    return people.assign(job=job, pay=pay, member=rng.integers(0, 2, len(job)))


LEVELS = {"job": ["full", "none", "other"]}
OTHER, FEW = {"levels": {"other": [1, 2]}}, {"levels": {"few": range(900)}}


JOBS = "pay + C(job) ~ region"


def content(release, by=("region", "age")):
    """Data sets, the rows that they are of, and tables."""
    rows = [pd.DataFrame({"row": np.fromfile(file, np.int64)}) for file in release.rows]
    return [*map(pd.read_parquet, release.files), *rows, release.tables(by=list(by))]


def released(source, formula="pay ~ region + C(age)", zeros=False, **settings):
    model = ss.FBS(formula, zeros=zeros)
    settings = {"levels": LEVELS} | settings if "C(job)" in formula else settings
    return ss.synthesize_in_parts(source, model, **(ROLES | SHORT | settings))


def some_without_pay(people):
    """A quarter of them, more in the east."""
    none = np.random.default_rng(4).random(len(people)) < np.where(people["region"] == "east", 0.3, 0.2)
    return people.assign(pay=np.where(none, 0.0, people["pay"]))


@pytest.fixture(scope="module")
def done(people, tmp_path_factory):
    """One release from one file, in this process."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch)
        release = released(split(people, folder, 1))
        yield release, content(release)


def same(one, other):
    for a, b in zip(one, other, strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.mark.parametrize("files", [pytest.param(3, marks=pytest.mark.slow), 17])
def test_the_same_release_from_any_number_of_files(done, people, tmp_path, small_parts, monkeypatch, files):
    if files == 3:  # chains that run again are the same, too
        monkeypatch.setattr(relative, "tempered_chains", tempered_chains)
    same(content(released(split(people, tmp_path, files))), done[1])


@pytest.mark.slow
def test_the_same_release_by_processes_and_on_a_dask_cluster(done, people, tmp_path, small_parts, no_r):
    distributed = pytest.importorskip("distributed")
    same(content(released(split(people, tmp_path, 3), workers=2)), done[1])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        release = released(split(people, tmp_path, 17), scheduler=cluster.scheduler_address, scratch=tmp_path)
        same(content(release), done[1])


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(done, people, tmp_path, small_parts, no_r):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        killed = subprocess.Popen([
            "bash", "-c",
            f"until compgen -G '{tmp_path}/surveysynth-*/0-1' > /dev/null; do sleep .01; done; "
            f"kill -9 {next(iter(cluster.workers.values())).pid}",
        ])  # fmt: skip
        release = released(split(people, tmp_path, 1), scheduler=cluster.scheduler_address, scratch=tmp_path)
        assert killed.wait(60) == 0
        same(content(release), done[1])


def test_tables_are_those_that_the_written_data_sets_give_samplics(done, tmp_path):
    release, (*_, table) = done
    release.write(tmp_path / "release", by=["region", "age"])
    back = ss.read_release(tmp_path / "release")
    again = back.tables(by=["region", "age"], estimator="samplics")
    assert set(table["statistic"]) == {"count", "mean"}
    for column in ("estimate", "se", "df", "ci_low", "ci_high", "n"):
        np.testing.assert_allclose(again[column].astype(float), table[column].astype(float), rtol=1e-10, err_msg=column)
    total = release.tables(statistic="total", outcome="pay")
    np.testing.assert_allclose(total["estimate"], back.tables(statistic="total", outcome="pay")["estimate"], rtol=1e-12)
    written = pd.read_csv(tmp_path / "release" / "public" / "tables.csv")
    np.testing.assert_allclose(written["estimate"], table["estimate"], rtol=1e-12)
    assert "8,000 records" in (tmp_path / "release" / "public" / "report.txt").read_text()
    assert "8,000 records" in repr(release)


def test_it_is_compared_with_the_files_it_was_made_from_as_in_memory(done, people, tmp_path, small_parts):
    release, files = done[0], split(people, tmp_path, 3)
    found = ss.compare(files, release, by=["region", "age"])
    written = ss.read_release(release.write(tmp_path / "release"))
    there = ss.compare(ss.SurveyDesign(people, weights="w"), written, by=["region", "age"])
    for name in ("cells", "summary", "distributions", "curves", "pmse", "joint"):
        one, other = getattr(found, name), getattr(there, name)
        keys = [c for c in one if one[c].dtype == object or not pd.api.types.is_numeric_dtype(one[c])]
        pd.testing.assert_frame_equal(
            one.sort_values(keys, ignore_index=True), other.sort_values(keys, ignore_index=True), rtol=1e-9,
            check_dtype=False,
        )  # fmt: skip
    assert "of 8,000 records of each file, at random" in str(found)
    with pytest.raises(ss.InputError, match="the files have no column 'pay', which the release has"):
        ss.compare(split(people.drop(columns="pay"), tmp_path, 2), release)
    with pytest.raises(ss.InputError, match="the confidential parquet files by their names"):
        ss.compare(ss.SurveyDesign(people, weights="w"), release)


def test_a_written_release_is_tabulated_and_compared_where_it_lies(done, people, tmp_path, small_parts, monkeypatch):
    release, files = done[0], split(people, tmp_path, 3)
    folder = release.write(tmp_path / "release", by="region")
    monkeypatch.setattr(pd, "read_parquet", None)
    back = ss.scan_release(folder)
    for settings in ({"by": ["region", "age"]}, {"statistic": "total", "by": "region"}):
        pd.testing.assert_frame_equal(back.tables(**settings), release.tables(**settings), rtol=1e-9)
    assert repr(back) == repr(release)
    one, other = (ss.compare(files, each, by="region").cells for each in (back, release))
    pd.testing.assert_frame_equal(one, other, rtol=1e-9)
    with (folder / "public" / "synthetic_2.parquet").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ss.InputError, match=r"synthetic_2\.parquet.* is cut short or damaged"):
        ss.scan_release(folder)


@pytest.mark.slow
def test_releases_of_other_mechanisms_and_designs_are_tabulated_where_they_lie(people, tmp_path, small_parts):
    """Strata, and no predictors but these; what passes know nothing of is refused by name."""
    design, how = ss.SurveyDesign(people.assign(age=people["age"] * 1.0), weights="w", strata="region"), {
        "epsilon": 10, "mechanism": ss.PseudoPosterior(), "population_total": 200_000, "m": 3, "seed": 1,
    }  # fmt: skip
    memory = ss.synthesize(design, ss.FBS("pay ~ age", prior="flat"), **how)
    folder = memory.write(tmp_path / "parquet", format="parquet", by="age")
    for by in ("age", []):
        here, there = ss.scan_release(folder, workers=2).tables(by=by), memory.tables(by=by)
        assert here["statistic"].tolist() == there["statistic"].tolist()
        for column in ("estimate", "se", "df", "ci_low", "ci_high", "n"):
            np.testing.assert_allclose(here[column].astype(float), there[column].astype(float), rtol=1e-9, atol=1e-9)
    with pytest.raises(ss.InputError, match="data sets in csv"):
        ss.scan_release(memory.write(tmp_path / "csv", by="age"))
    derived = memory.assign(poor=lambda frame: frame["pay"] < 5_000).write(tmp_path / "derived", format="parquet")
    with pytest.raises(ss.InputError, match="derived columns, which passes over files know nothing of: read_release"):
        ss.scan_release(derived)


DRAWN = {  # how the sample was drawn: labels of PSUs that strata share, and a stratum of one PSU
    "strata are predictors": {"strata": "region", "psu": "area", "lonely_psu": "adjust"},
    "strata are no predictors": {"strata": "group", "psu": "area", "lonely_psu": "average"},
    "one of them is lonely": {"strata": "region", "psu": "named", "lonely_psu": "remove"},
    "no strata": {"psu": "area"},
    "two stages": {"strata": "group", "psu": ["named", "area"]},
    "a predictor": {"psu": "age"},
    "strata alone": {"strata": "group"},
}


QUICK = "strata are no predictors", "strata alone", "normal effects of PSUs"


def quick_or_slow(cases):
    """Those that are as different as can be in the quick suite."""
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in cases]


@pytest.mark.parametrize("drawn", quick_or_slow(DRAWN))
def test_tables_and_comparisons_are_those_of_memory_however_the_sample_was_drawn(people, tmp_path, small_parts, drawn):
    """Every part has records of most PSUs; labels of strata and PSUs that are no predictors are others in a release."""
    rng, roles = np.random.default_rng(6), DRAWN[drawn]
    people = people.assign(area=rng.integers(0, 12, len(people)), group=rng.choice([2, 3, 5, 7], len(people)))
    people.loc[people["region"] == "west", "area"] = 5
    people["named"] = "area " + people["area"].astype(str)
    design = ss.SurveyDesign(people, weights="w", **roles)
    memory = ss.synthesize(
        design, ss.FBS("pay ~ age + region", prior="flat"), epsilon=10, mechanism=ss.PseudoPosterior(), m=2, seed=1,
        population_total=200_000,
    )  # fmt: skip
    folder = memory.write(tmp_path / "release", format="parquet", by="age")
    back, how = ss.scan_release(folder, workers=2 if drawn == "no strata" else 1), {"statistic": ["count", "mean"]}
    for by in (["age", "region"], []):
        pd.testing.assert_frame_equal(back.tables(by=by, **how), memory.tables(by=by, **how), rtol=1e-9)
    files, by = split(people, tmp_path, 3), ["age", "region"]
    found, there = ss.compare(files, back, by=by), ss.compare(design, memory, by=by)
    pd.testing.assert_frame_equal(found.cells, there.cells, check_dtype=False, rtol=1e-9)


def test_what_of_psus_cannot_be_used_is_refused(people, tmp_path, small_parts, monkeypatch):
    people = people.assign(area=np.arange(len(people)) % 12)
    memory = ss.synthesize(
        ss.SurveyDesign(people, weights="w", strata="region", psu="area"), ss.FBS("pay ~ age", prior="flat"), m=2,
        epsilon=10, mechanism=ss.PseudoPosterior(), population_total=200_000, seed=1,
    )  # fmt: skip
    back = ss.scan_release(memory.write(tmp_path / "release", format="parquet", by="age"))
    missing = people.assign(area=people["area"].where(people.index != 7))
    lonely = people.assign(area=people["area"].where(people["region"] != "west", 1))
    wrong = {
        "no column 'area', which the release has": people.drop(columns="area"),
        r"column 'area' is missing in 1 row \(row numbers 8;": missing,
        "1 of the strata 'region' have one PSU": lonely,
        r"'w' is not positive in 1 row \(row numbers 4;": people.assign(w=people["w"].where(people.index != 3, 0.0)),
    }
    for said, file in wrong.items():
        with pytest.raises(ss.InputError, match=said):
            ss.compare(split(file, tmp_path, 2), back)
    monkeypatch.setattr("surveysynth.estimation.in_parts.MOST_PAIRS", 100)
    with pytest.raises(ss.InputError, match="more than 100 combinations: make tables by fewer"):
        back.tables(by="age", statistic="total")
    monkeypatch.setattr("surveysynth.design.parts.MOST_ROWS", 30)
    with pytest.raises(ss.InputError, match="region, area: more than 30 combinations; take the file into memory"):
        ss.compare(split(people, tmp_path, 1), back)


def test_headings_of_no_column_are_refused_before_the_work(people, tmp_path):
    for labels, said in ((["Pay"], "labels must map columns"), ({"pya": "Pay"}, "no column 'pya' .*'pay'")):
        with pytest.raises(ss.InputError, match=said):
            released(split(people, tmp_path, 1), labels=labels)


STRICT = {
    "normal effects of PSUs": ("pay ~ region", {}),
    "public weights": (ss.FBS("pay ~ region", weight="public"), {"clusters": "ignore"}),
    "a category": (ss.FBS("pay + C(job) ~ region"), {"clusters": "ignore", "levels": LEVELS}),
}


@pytest.mark.parametrize("kind", quick_or_slow(STRICT))
def test_psus_of_a_strict_release_have_the_larger_of_two_errors_as_in_memory(people, tmp_path, small_parts, kind):
    people, (model, more) = with_jobs(people.head(2_500).assign(area=np.arange(2_500) % 40)), STRICT[kind]
    design = ss.SurveyDesign(people, weights="w", psu="area")
    how = {"epsilon": 12, "bounds": (0, 200_000), "population_total": 62_500, "m": 2, "seed": 1, **more}
    memory = ss.fit(design, model, **how).release()
    back = ss.scan_release(memory.write(tmp_path / "release", format="parquet", by="region"))
    of = {"by": "region", "statistic": ["mean", "total"], "outcome": "pay"}
    here, there = (release.tables(**of) for release in (back, memory))
    pd.testing.assert_frame_equal(here, there, rtol=1e-9)
    assert here.attrs["modelled"]


@pytest.mark.slow
def test_a_level_that_no_record_has_leaves_the_errors_of_the_files(people, tmp_path, small_parts):
    levels = ["east", "north", "south", "west"]
    design = ss.SurveyDesign(people.assign(region=pd.Categorical(people["region"], levels)), weights="w")
    how = {"epsilon": 12, "bounds": (0, 200_000), "population_total": 200_000, "m": 2, "seed": 1}
    memory = ss.fit(design, "pay ~ region", **how).release()
    back = ss.scan_release(memory.write(tmp_path / "release", format="parquet", by="region"))
    here, there = (of.tables(by="region", statistic="mean") for of in (back, memory))
    assert ("modelled" in here.attrs) == ("modelled" in there.attrs)
    np.testing.assert_allclose(here["se"].astype(float), there["se"].astype(float), rtol=1e-9)


def test_a_release_that_is_written_again_is_other_files(done, tmp_path):
    folder = done[0].write(tmp_path / "one", by="region")
    again = ss.scan_release(folder).write(tmp_path / "other", by="region")
    one, other = (each / "public" / "synthetic_1.parquet" for each in (folder, again))
    assert one.read_bytes() == other.read_bytes()
    assert one.stat().st_ino != other.stat().st_ino


def test_distributions_are_of_some_records_of_a_large_file(done, people, tmp_path, small_parts, monkeypatch):
    """Within what 2,000 records of 8,000 leave open: a distance of 1.63 / sqrt(2,000), at 1%."""
    release, files = done[0], split(people, tmp_path, 2)
    whole = ss.compare(files, release, by="region")
    monkeypatch.setattr("surveysynth.release.comparison.SOME", 2_000)
    some = ss.compare(files, release, by="region")
    pd.testing.assert_frame_equal(some.cells, whole.cells)
    apart = (some.distributions["largest"] - whole.distributions["largest"]).abs().max()
    assert 0 < apart < 2 * 1.63 / np.sqrt(2_000)
    assert "of 2,000 records of each file" in str(some)


@pytest.mark.slow
def test_zeros_are_an_outcome_of_their_own(people, tmp_path, small_parts):
    """The same however the files are split; as many zeros as the file has; tables as from memory."""
    people = some_without_pay(people)
    settings = {"zeros": True, "warmup": None, "draws": None}  # short chains agree or not as a processor rounds
    release = released(split(people, tmp_path, 1), **settings)
    same(content(released(split(people, tmp_path, 17), **settings)), content(release))
    confidential = ss.SurveyDesign(people, weights="w")
    by = {"by": "region", "statistic": "mean"}
    truth = ss.estimate(confidential, "pay", **by)
    table = release.tables(**by)
    assert (np.abs(table["estimate"] - truth["estimate"]) / table["se"]).max() < 4
    written = ss.read_release(release.write(tmp_path / "release", by="region"))
    again = written.tables(**by)
    for column in ("estimate", "se", "df", "ci_low", "ci_high"):
        np.testing.assert_allclose(again[column].astype(float), table[column].astype(float), rtol=1e-9, err_msg=column)
    none = written.assign(none=lambda frame: (frame["pay"] == 0) * 1.0).tables(outcome="none", **by)
    own = ss.estimate(ss.SurveyDesign(people.assign(none=(people["pay"] == 0) * 1.0), weights="w"), "none", **by)
    assert (np.abs(none["estimate"] - own["estimate"]) / none["se"]).max() < 4
    assert own["estimate"].between(0.15, 0.35).all()


def test_a_scale_that_is_named_as_the_default_one_is_the_default_one(people, tmp_path):
    source, limits = split(people, tmp_path, 1), (0, 200_000)
    for scale in ("log", ss.LogTransform()):
        model = ss.FBS("pay ~ region", transform=scale)
        assert in_parts.check_arguments(source, model, "w", None, limits, None, None)[0].numeric == ("pay",)
    with pytest.raises(ss.InputError, match="transform= is another scale"):
        in_parts.check_arguments(source, replace(model, transform=ss.AsinhTransform(10)), "w", None, limits, None, None)


def test_levels_that_no_record_of_the_first_draw_has_are_known(people, tmp_path, small_parts):
    people = with_jobs(people)
    model = ss.FBS("pay + C(job) + C(member) ~ region")
    source, levels = split(people, tmp_path, 1), {"job": ["full", "none", "other"], "member": [0, 1]}
    roles = file_in_parts.Roles.of(source, model, "w", None, (1, 200_000), levels)
    some = ss.SurveyDesign(people[people["job"] != "other"].iloc[:500].reset_index(drop=True), weights="w")
    records = file_in_parts.prepared(model, some, levels, roles, 25.0)
    assert records.n == 500 and records.categories.K == 6
    plain = model.prepare(some, "ignore", 25.0)
    assert plain.categories.K == 4
    np.testing.assert_array_equal(records.y, plain.y)
    np.testing.assert_array_equal(records.log_w, plain.log_w)
    for of in (records, plain):
        frame = of.categories.public.columns(of.categories.category)
        assert frame["job"].tolist() == some.frame["job"].tolist()
    assert len(records.X) == 6 * 3  # of the regions


@pytest.mark.slow
def test_categories_are_synthesized_beside_an_amount(people, tmp_path, small_parts):
    """The same from any number of files; tables by them, from passes over the files, as from memory."""
    people = with_jobs(people)
    long = {"warmup": 200, "draws": 400, "epsilon": 20}
    release, by = released(split(people, tmp_path, 1), JOBS, **long), ["region", "job"]
    same(content(released(split(people, tmp_path, 17), JOBS, **long), by), content(release, by))
    frame = pd.read_parquet(release.files[0])
    assert list(frame) == ["region", "pay", "job", "w"]
    assert frame["w"].sum() == pytest.approx(200_000, rel=1e-12)
    back = ss.read_release(release.write(tmp_path / "release", by=by))
    for where in (release, ss.scan_release(tmp_path / "release")):
        here = where.tables(by=by)
        there = back.tables(by=by, between="files", statistic=["count", "mean"], outcome="pay")
        for column in ("estimate", "se", "df", "ci_low", "ci_high", "n"):
            np.testing.assert_allclose(
                here[column].astype(float), there[column].astype(float), rtol=1e-9, atol=1e-9, err_msg=column
            )
    assert set(release.tables(by="job")["job"]) == {"full", "none", "other", "all"}
    own = ss.estimate(ss.SurveyDesign(people, weights="w"), "pay", by=["job"], statistic="mean")
    means = release.tables(by=["job"], statistic="mean")
    assert (np.abs(means["estimate"] - own["estimate"]) / means["se"]).max() < 4
    for region, whole in people.groupby("region"):
        share = (frame.loc[frame["region"] == region, "job"] == "full").mean()
        assert share == pytest.approx((whole["job"] == "full").mean(), abs=0.06)
    with pytest.raises(ss.InputError, match="outcome 'job' is a category: its counts are tables by it, by='job'"):
        release.tables(outcome="job")
    rare = people.assign(job=people["job"].where(people.index != 7, "aloft"))  # a level that no data set has
    for file in (people, rare):
        confidential = ss.SurveyDesign(file, weights="w")
        there = ss.compare(confidential, back, by="job", statistic=["count"]).cells.set_index("job")
        here = ss.compare(split(file, tmp_path, 3), release, by="job", statistic="count").cells.set_index("job")
        np.testing.assert_allclose(here["estimate"], there["estimate"].loc[here.index], rtol=1e-9)
        assert ("aloft" in here.index) == (file is rare)


@pytest.mark.slow
@pytest.mark.slow
def test_a_written_release_of_categories_alone_is_tabulated_where_it_lies(people, tmp_path, small_parts):
    """In the order that the file had them in."""
    levels = ["none", "other", "full"]
    frame = with_jobs(people).assign(job=lambda file: pd.Categorical(file["job"], levels, ordered=True))
    memory = ss.synthesize(
        ss.SurveyDesign(frame, weights="w"), ss.FBS("C(job) ~ region", prior="flat"), epsilon=10, m=2, seed=1,
        mechanism=ss.PseudoPosterior(), population_total=200_000,
    )  # fmt: skip
    folder = memory.write(tmp_path / "release", format="parquet", by=["region", "job"])
    back, read = ss.scan_release(folder), ss.read_release(folder)
    here, there = back.tables(by=["region", "job"]), read.tables(by=["region", "job"], statistic="count")
    assert here["job"].astype(str).tolist() == there["job"].astype(str).tolist()
    np.testing.assert_allclose(here["se"].astype(float), there["se"].astype(float), rtol=1e-9, atol=1e-9)
    found = ss.compare(split(frame, tmp_path, 2), back, by="job")
    assert found.cells["job"].tolist() == [*levels, "all"]


@pytest.mark.slow
def test_strata_are_in_the_errors_of_tables(people, tmp_path, small_parts):
    release = released(split(people, tmp_path, 2), strata="age")
    table = release.tables(by=["region", "age"])
    release.write(tmp_path / "release")
    back = ss.read_release(tmp_path / "release")
    assert back.datasets[0].strata_name == "age"
    again = back.tables(by=["region", "age"], estimator="samplics")
    for column in ("estimate", "se", "df", "n"):
        np.testing.assert_allclose(again[column].astype(float), table[column].astype(float), rtol=1e-10, err_msg=column)
    plain = back.tables(by=["region", "age"], estimator="onepass")
    assert np.abs(plain["se"] / table["se"] - 1).max() < 1e-10


def test_a_written_release_is_as_one_from_memory(done, people, tmp_path):
    release, _ = done
    design = ss.SurveyDesign.scan(split(people, tmp_path, 2), weights="w")
    settings = {name: value for name, value in (ROLES | SHORT).items() if name != "weights"}
    memory = ss.synthesize(design, "pay ~ region + C(age)", **settings)
    memory.write(tmp_path / "memory", format="parquet", by="region")
    release.write(tmp_path / "parts", by="region")
    here, there = (sorted(p.name for p in (tmp_path / kind / "public").iterdir()) for kind in ("parts", "memory"))
    assert here == there
    rows = [pd.read_csv(tmp_path / kind / "internal" / "rows.csv") for kind in ("parts", "memory")]
    assert rows[0].shape == rows[1].shape
    assert rows[0]["synthetic_2"].tolist() == np.fromfile(release.rows[1], np.int64).tolist()
    said, also = (ss.read_release(tmp_path / kind).manifest() for kind in ("parts", "memory"))
    assert said.keys() == also.keys()
    alike = "format", "synthesized", "public_predictors", "design", "dtypes", "levels", "epsilon", "kind", "weights"
    for entry in alike:
        assert said[entry] == also[entry], entry
    assert said["assumptions"] == also["assumptions"]
    with pytest.raises(ss.InputError, match="exists"):
        release.write(tmp_path / "parts")


def test_records_are_in_random_order_and_each_is_there_once(done, people):
    release, (*_, first, second, _) = done
    n = len(people)
    for rows, file in ((first, release.files[0]), (second, release.files[1])):
        row = rows["row"].to_numpy()
        assert np.array_equal(np.sort(row), np.arange(n))
        # rank correlations of place and row, of neighbours, and of the two orders have standard errors of n^-1/2
        assert abs(np.corrcoef(row, np.arange(n))[0, 1]) < 4 / n**0.5
        assert abs(np.corrcoef(row[1:], row[:-1])[0, 1]) < 4 / n**0.5
        assert pd.read_parquet(file)["region"].astype(str).tolist() == people["region"].iloc[row].tolist()
    assert abs(np.corrcoef(np.argsort(first["row"]), np.argsort(second["row"]))[0, 1]) < 4 / n**0.5


def test_weights_add_up_to_the_population_and_intervals_hold_its_means(done, people):
    _, (a, b, *_, table) = done
    for frame in (a, b):
        assert frame["w"].sum() == pytest.approx(200_000, rel=1e-12)
    truth = ss.estimate(ss.SurveyDesign(people, weights="w"), "pay", by=["region", "age"])
    means = table[table["statistic"] == "mean"]
    away = (means["estimate"].to_numpy() - truth["estimate"].to_numpy()) / means["se"].to_numpy()
    assert np.abs(away).max() < 4  # 20 means, of which confidential and synthetic errors are independent at most


def test_streams_of_parts_and_data_sets_are_apart():
    values = Streams.of(1).values.integers(0, 2**64, 2, dtype=np.uint64)
    drawn = [data_sets_in_parts._counted(values, k, part).random(1000) for k in range(3) for part in range(3)]
    correlations = np.corrcoef(drawn)[np.triu_indices(9, 1)]
    assert np.abs(correlations).max() < 5 / 1000**0.5
    again = data_sets_in_parts._counted(values, 1, 2).random(1000)
    assert np.array_equal(again, drawn[5])


# ---- points of the grid


@pytest.mark.parametrize("d", [1, 2, 3])
def test_whole_numbers_on_the_grid_are_the_shares_of_the_grid_in_memory(d):
    rng = np.random.default_rng(d)
    v, row = 1.5 * rng.standard_normal((d, 3000)), rng.integers(0, 4, 3000)
    order = np.argsort(row, kind="stable")
    start = np.searchsorted(row[order], np.arange(5))
    points, counts, begins = on_grid(v[:, order], np.ones(3000), start)
    found_row, found, count = Points.of(v, row).records()

    def placed(rows, at, how_many):
        table = pd.DataFrame(np.column_stack([rows, at.round(9)])).assign(count=how_many)
        return table.groupby(list(range(d + 1)))["count"].sum()

    there = placed(np.repeat(np.arange(4), np.diff(begins)), points.T, counts)
    here = placed(found_row, found, count)
    both = pd.concat([here, there], axis=1).fillna(0.0).to_numpy()
    assert np.abs(both[:, 0] - both[:, 1]).max() < 3000 * 2.0**-29  # shares of less than a unit are left out


@pytest.mark.parametrize("d", [1, 2, 3])
def test_points_add_up_to_the_last_bit_however_the_file_is_split(d):
    rng = np.random.default_rng(d)
    v, row = 1.5 * rng.standard_normal((d, 5000)), rng.integers(0, 4, 5000)
    whole = Points.of(v, row)
    for cuts in ([1], [17, 4000], [100, 200, 300]):
        pieces = [Points.of(a, b) for a, b in zip(np.split(v, cuts, axis=1), np.split(row, cuts), strict=True)]
        together = Points.together(pieces)
        for name in ("place", "count", "far_row", "far"):
            assert np.array_equal(getattr(whole, name), getattr(together, name)), name
    nobody = Points.of(np.empty((d, 0)), np.empty(0, dtype=np.intp))
    assert np.array_equal(Points.together([nobody, whole, nobody]).count, whole.count)
    assert whole.count.sum() == UNITS * (5000 - len(whole.far_row))  # so that a record counts as one, and no more


@pytest.mark.parametrize(
    "what", ["amounts", *(pytest.param(what, marks=pytest.mark.slow) for what in ("zeros", "categories"))]
)
def test_the_target_of_points_is_that_of_the_records_on_the_grid(people, tmp_path, small_parts, monkeypatch, what):
    monkeypatch.setattr(public_grid, "MANY", 1000)
    monkeypatch.setattr(public_grid, "POINTS", {1: 100, 2: 300})
    zeros, formula = what == "zeros", JOBS if what == "categories" else "pay ~ region + C(age)"
    people = {"zeros": some_without_pay, "categories": with_jobs}.get(what, lambda frame: frame)(people)
    people = people.sort_values("pay", ignore_index=True)  # parts have no zeros, or nothing else
    kept = {}
    points = in_parts.points_of

    def keep(*given):
        kept["some"], kept["reference"], kept["points"] = given[2], given[-1], points(*given)
        return kept["points"]

    monkeypatch.setattr(in_parts, "points_of", keep)
    monkeypatch.setattr(in_parts.FitInParts, "unfinished", lambda *_: (_ for _ in ()).throw(Seen))
    with pytest.raises(Seen):
        released(split(people, tmp_path, 2), formula, zeros=zeros)
    records, reference = kept["points"], kept["reference"]
    count = records.count
    assert count.sum() == pytest.approx(len(people), rel=1e-12)
    density = density_of(reference)
    # the same records, each by itself, which the grid in memory takes
    whole = kept["some"]  # 8,000 records are all of the file, in its order
    assert whole.n == len(people)
    same_target = [
        clipped_target(
            of.X, of.pattern, of.Y, density, np.full(of.n, 0.5), 1.4, NARROW, True, _places(of), of.zero, count=of.count
        )
        for of in (whole, records)
    ]
    rng = np.random.default_rng(1)
    starts = same_target[0].starts(4, rng)
    values = np.array([[of.function()(start)[0] for of in same_target] for start in starts])
    np.testing.assert_allclose(values[:, 0] - values[0, 0], values[:, 1] - values[0, 1], atol=1e-4)
    if what == "categories":
        assert whole.categories.names == records.categories.names == ("job",)
        assert [levels.tolist() for levels in records.categories.levels] == [["full", "none", "other"]]
    for here, there in zip(same_target[0].parts, same_target[1].parts, strict=True):
        assert here.added == there.added > 0
    assert len(same_target[0].parts) == 1 + zeros


def test_combinations_are_found_in_every_part(people):
    names = ["region", "age"]
    pieces = [people.iloc[a:b].reset_index(drop=True) for a, b in ((0, 7), (7, 5000), (5000, 8000))]
    pieces = [piece.astype({"region": "category"}) for piece in pieces]  # as parts are read
    found = Combinations.together(
        [Found.within(piece, names, first) for piece, first in zip(pieces, (0, 7, 5000), strict=True)], names, {}
    )
    expected = people.groupby(names).size()
    assert found.records.tolist() == expected.tolist()
    code = np.concatenate([found.of(piece) for piece in pieces])
    again = found.frame.take(code).reset_index(drop=True).astype({"region": str})
    pd.testing.assert_frame_equal(again, people[names], check_dtype=False)
    assert people.loc[found.first, names].astype(str).to_numpy().tolist() == found.frame.astype(str).to_numpy().tolist()


# ---- what is refused


def test_rows_of_the_file_are_named_in_whatever_part(people, tmp_path, small_parts):
    for column, value, what in (
        ("region", None, "predictor 'region' is missing in 1 row \\(row numbers 7001;"),
        ("pay", np.nan, "'pay' is missing or infinite in 1 row \\(row numbers 7001;"),
        ("w", -1.0, "'w' is not positive in 1 row \\(row numbers 7001;"),
        ("pay", "n/a", "'pay' is not a number in 1 row \\(row numbers 7001;"),
    ):
        wrong = people.astype({"pay": object}) if value == "n/a" else people.copy()
        wrong.loc[7000, column] = value
        wrong = wrong.astype({"pay": str}) if value == "n/a" else wrong
        with pytest.raises(ss.InputError, match=what) as error:
            released(split(wrong, tmp_path, 2))
        assert "-1.0" not in str(error.value)


@pytest.mark.parametrize(
    ("model", "settings", "what"),
    [
        (ss.FBS("pay ~ region", missing="impute"), {}, "none of them missing"),
        ("pay ~ region", {"bounds": None}, r"Strict\(\) needs bounds="),
        ("pay ~ region", {"mechanism": ss.Strict(epsilon=8)}, "leave it out of the mechanism"),
        ("pay ~ region", {"mechanism": ss.Strict(between_psus=0.1)}, "no reference=, and no PSUs"),
        ("pay ~ region", {"mechanism": ss.PerInstance()}, r"go with Strict\(\) and with PseudoPosterior\(\)"),
        ("pay ~ region", {"mechanism": ss.PseudoPosterior(risk=ss.CountRisk())}, "of Lipschitz risks"),
        (ss.FBS("pay ~ region", zeros=True), {"mechanism": ss.PseudoPosterior()}, "have amounts alone"),
        (ss.FBS("pay ~ region", prior="reference"), {"mechanism": ss.PseudoPosterior()}, "have amounts alone"),
        ("pay ~ region", {"mechanism": ss.PseudoPosterior}, r"mechanism must be surveysynth.Strict\(\)"),
        ("pay ~ region", {"mechanism": "pseudo"}, r"mechanism must be surveysynth.Strict\(\)"),
        (ss.FBS("pay ~ region", transform=ss.AsinhTransform(scale=9)), {}, "transform= is another scale"),
        ("pay ~ region", {"accept_diagnostics": "rhat"}, "a list of names"),
        ("pay ~ region", {"accept_diagnostics": ["information"]}, "leave accept_diagnostics out"),
        (ss.FBS("pay ~ region", weight="public"), {}, "for amounts and categories by FBS"),
        (ss.FBS("pay + C(w2) ~ region"), {}, "no column 'w2'"),
        (ss.FBS("pay + C(other) ~ region"), OTHER, "'other' has more than 1,000 levels"),
        (ss.FBS("pay + C(few) ~ region"), FEW, "'few' has fewer than 5 records a level.* is it an identifier"),
        (ss.FBP("pay ~ region"), {}, "for amounts and categories by FBS"),
        ("pay ~ nowhere", {}, "no column 'nowhere'"),
        ("pay ~ region", {"weights": "nowhere"}, "no column 'nowhere'"),
        ("pay ~ region", {"bounds": {"rent": (0, 1)}}, "bounds= names other columns"),
        ("pay ~ region", {"population_total": 100}, "below the 8,000 records"),
        ("pay ~ region", {"scratch": "nowhere"}, "scratch='nowhere' is not a folder"),
        ("pay ~ day", {}, "'day' is of type"),
        ("pay ~ region", {"scheduler": "tcp://nobody:1"}, "scratch="),
        ("pay ~ region", {"epsilon": -1}, "epsilon"),
        ("pay ~ region", {"strata": "age"}, "put them into the formula"),
    ],
)
def test_what_is_not_for_files_in_parts_is_refused_by_name(people, tmp_path, model, settings, what):
    frame = people.assign(day=pd.Timestamp("2026-01-01").date(), few=np.arange(len(people)) % 900)
    frame = frame.iloc[:4000] if "few" in str(model) else frame
    with pytest.raises(ss.SurveySynthError, match=what):
        ss.synthesize_in_parts(split(frame, tmp_path, 1), model, **(ROLES | SHORT | settings))


def test_other_statistics_are_refused_by_name(done):
    with pytest.raises(ss.InputError, match="read_release"):
        done[0].tables(statistic="quantile")
    with pytest.raises(ss.InputError, match="not a predictor"):
        done[0].tables(by="other")


def test_a_ledger_is_charged_when_the_release_is_written(done, tmp_path):
    release, (small, ledger) = done[0], (ss.Ledger(tmp_path / "l.jsonl", n, cap=c, create=True) for n, c in CAPS)
    with pytest.raises(ss.PrivacyError, match="cap"):
        release.write(tmp_path / "other", ledger=small)
    assert small.entries().empty
    assert not (tmp_path / "other").exists()
    release.write(tmp_path / "release", ledger=ledger)
    assert ledger.entries()["blank"].tolist() == [8]
    with pytest.raises(ss.InputError, match="entered in a ledger"):
        release.write(tmp_path / "again", ledger=ledger)


@pytest.mark.slow
@pytest.mark.parametrize("records", [128, pytest.param(1 << 15, marks=pytest.mark.slow)])
def test_drawn_weights_do_not_hang_on_the_size_of_parts(people, tmp_path, monkeypatch, records):
    """Nor then do standard errors: sums in cells of the predictors are those of all parts."""
    of = Parts.of.__func__
    monkeypatch.setattr(Parts, "of", classmethod(lambda cls, source: replace(of(cls, source), records=records)))
    frame = people.assign(**{f"x{k}": np.random.default_rng(k).random(len(people)) < 0.5 for k in range(4)})
    formula = "pay ~ region + x0 + x1 + x2 + x3"  # 48 cells: 128 records have 3 each
    release = ss.synthesize_in_parts(split(frame, tmp_path, 1), formula, **(ROLES | SHORT))
    log_w = np.log(pd.read_parquet(release.files[0])["w"])
    # the weight's own log variance is .17; a variance of 8,000 normal values has a relative error of .016, and the
    # draw of the parameter one of .05 about; with sums by part a third of what is drawn would be lost
    assert log_w.var() == pytest.approx(np.log(frame["w"]).var(), rel=0.2)


@pytest.mark.slow
def test_a_file_without_predictors_can_be_tabulated_and_written(people, tmp_path, small_parts):
    release = ss.synthesize_in_parts(split(people, tmp_path, 2), "pay ~ 1", **(ROLES | SHORT))
    table = release.tables()
    release.write(tmp_path / "release")
    again = ss.read_release(tmp_path / "release").tables()
    np.testing.assert_allclose(table["estimate"], again["estimate"], rtol=1e-12)
    assert table["n"].tolist() == [8_000, 8_000]


@pytest.mark.slow
def test_three_amounts_lie_on_no_grid(people, tmp_path, small_parts):
    more = np.random.default_rng(2).lognormal(8, 0.5, (2, len(people)))
    frame = people.assign(rent=more[0], food=more[1])
    settings = ROLES | SHORT | {"epsilon": 20}
    release = ss.synthesize_in_parts(split(frame, tmp_path, 2), "pay + rent + food ~ region", **settings)
    table = release.tables(statistic="mean").set_index("outcome")
    truth = ss.estimate(ss.SurveyDesign(frame, weights="w"), ["pay", "rent", "food"]).set_index("outcome")
    assert (np.abs(table["estimate"] - truth["estimate"]) / table["se"]).max() < 4


@pytest.mark.slow
def test_categories_keep_their_order(people, tmp_path, small_parts):
    levels = ["west", "north", "east"]
    frame = people.assign(region=pd.Categorical(people["region"], levels, ordered=True))
    release = ss.synthesize_in_parts(split(frame, tmp_path, 3), "pay ~ region", **(ROLES | SHORT))
    assert release.tables(by="region", statistic="count")["region"].tolist() == [*levels, "all"]
    assert release.manifest()["levels"]["region"] == {"categories": levels, "ordered": True}
    release.write(tmp_path / "release")
    back = ss.read_release(tmp_path / "release")
    assert back.datasets[0].frame["region"].cat.categories.tolist() == levels
    memory = ss.SurveyDesign.scan(split(frame, tmp_path, 3), weights="w")
    assert memory.column("region").cat.categories.tolist() == levels


def test_the_next_release_is_measured_against_it(done, people, tmp_path):
    design = ss.SurveyDesign.scan(split(people, tmp_path, 1), weights="w")
    settings = {name: ROLES[name] for name in ("epsilon", "population_total", "m")}
    later = ss.synthesize(design, "pay ~ region + C(age)", mechanism=ss.Strict(reference=done[0]), **settings, **SHORT)
    assert later.privacy.kind == "strict"
    parts = later.privacy.assumptions
    assert not any("first draw" in said for said in parts)  # which it has no need of


@pytest.mark.slow
def test_a_run_does_not_go_on_with_files_that_have_changed(people, tmp_path, small_parts, monkeypatch):
    (file,) = split(people, tmp_path, 1)

    def full(*given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data_sets_in_parts, "simulate", full)
        with pytest.raises(ss.EngineError, match="resume_in_parts") as error:
            released(file, scratch=tmp_path)
    (folder,) = tmp_path.glob("surveysynth-*")
    assert str(folder) in str(error.value)
    people.replace({"region": {"west": "mars"}}).to_parquet(file)
    with pytest.raises(ss.InputError, match="was changed since"):
        ss.resume_in_parts(folder)
    (folder / in_parts.STATE).unlink()
    with pytest.raises(ss.InputError, match="nothing to go on with"):
        ss.resume_in_parts(folder)


def test_a_worker_logs_nothing_of_the_file(people, tmp_path, small_parts, caplog):
    distributed = pytest.importorskip("distributed")
    wrong = people.copy()
    wrong.loc[7000, "pay"] = np.nan
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        pytest.raises(ss.InputError, match="missing"),
    ):
        released(split(wrong, tmp_path, 1), scheduler=cluster.scheduler_address, scratch=tmp_path)
    for value in (*wrong["pay"].head(3), *wrong["w"].head(3)):
        assert f"{value:.4g}"[:5] not in caplog.text


@pytest.mark.slow
def test_a_run_that_is_killed_publishes_nothing_and_can_go_on(done, people, tmp_path):
    file = split(people, tmp_path, 1)[0]
    program = (
        "import surveysynth as ss; from dataclasses import replace; from surveysynth.design.parts import Parts; "
        f"of = Parts.of.__func__; Parts.of = classmethod(lambda cls, s: replace(of(cls, s), records={PART})); "
        f"r = ss.synthesize_in_parts({str(file)!r}, 'pay ~ region + C(age)', scratch={str(tmp_path)!r}, "
        f"**{ROLES!r}, **{SHORT!r}); r.write({str(tmp_path / 'release')!r})"
    )
    run = subprocess.Popen([sys.executable, "-c", program], env=without_r())
    while not list(tmp_path.glob("surveysynth-*/0-1")):
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (tmp_path / "release").exists()
    (folder,) = tmp_path.glob("surveysynth-*")
    assert oct(folder.stat().st_mode)[-3:] == "700"
    release = ss.resume_in_parts(folder)
    same(content(release), done[1])
    del release
    gc.collect()
    assert not folder.exists()


# ---- under privacy weights


WEIGHTED = {
    "mechanism": ss.PseudoPosterior(), "bounds": None, "accept_diagnostics": ["information"],
    "warmup": 500, "draws": 500,
}  # fmt: skip
FLAT = ss.FBS("pay ~ region + C(age)", prior="flat")


def weighted(source, model=FLAT, **settings):
    return ss.synthesize_in_parts(source, model, **(ROLES | SHORT | WEIGHTED | settings))


@pytest.fixture
def few_records(monkeypatch):
    """The design and records that a fit in parts has in memory are 1,000 of 8,000."""
    monkeypatch.setattr(file_in_parts, "FIRST_RECORDS", 1_000)


@pytest.fixture(scope="module")
def by_weights(people, tmp_path_factory):
    """One release under privacy weights from one file, in this process."""
    folder = tmp_path_factory.mktemp("weighted")
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch)
        patch.setattr(file_in_parts, "FIRST_RECORDS", 1_000)
        release = weighted(split(people, folder, 1), scratch=folder)
        yield release, content(release)


@pytest.mark.parametrize(("files", "workers"), [(17, 1), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_the_same_weighted_release_from_any_files_by_any_workers(
    by_weights, people, tmp_path, small_parts, few_records, files, workers
):
    same(content(weighted(split(people, tmp_path, files), workers=workers)), by_weights[1])


@pytest.mark.slow
def test_the_same_weighted_release_from_a_cluster(by_weights, people, tmp_path, small_parts, few_records, no_r):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        release = weighted(split(people, tmp_path, 3), scheduler=cluster.scheduler_address, scratch=tmp_path)
        same(content(release), by_weights[1])


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        (FLAT, ss.PseudoPosterior()),
        (FLAT, ss.PseudoPosterior("linear", c2=0.1)),
        (FLAT, ss.PseudoPosterior(c1=0.5)),
        (ss.FBS("pay + rent ~ region + C(age)", prior="flat"), ss.PseudoPosterior()),
        pytest.param(replace(FLAT, prior="paper"), ss.PseudoPosterior(c1=0.5), marks=pytest.mark.slow),
    ],
)
def test_weights_risks_and_bounds_are_those_in_memory(
    people, tmp_path, small_parts, few_records, monkeypatch, model, mechanism
):
    """With the same random numbers, to rounding: sums are over parts here, and over all records there."""
    people = people.assign(rent=np.sqrt(people["pay"]) * np.exp(0.3 * np.random.default_rng(3).random(len(people))))
    kept, made = [], in_parts.weighted_by_risk

    def keep(mechanism, budget, pseudo, present, say):
        kept.append((replace(pseudo.sampler, rng=np.random.default_rng(7)), pseudo, mechanism, budget))
        again = replace(pseudo, sampler=replace(pseudo.sampler, rng=np.random.default_rng(7)))
        kept.append(made(mechanism, budget, again, present, say))
        raise Seen

    monkeypatch.setattr(in_parts, "weighted_by_risk", keep)
    with pytest.raises(Seen):
        weighted(split(people, tmp_path, 1), model, mechanism=mechanism, epsilon=16)
    (sampler, pseudo, mechanism, budget), here = kept
    records = model.prepare(ss.SurveyDesign(people, weights="w"))
    there = PseudoLikelihood(model, records, pseudo.unit, sampler)
    risk = Assessment(lambda unweighted: there.lipschitz(unweighted(), np.ones(records.n)), None, np.ones(records.n))
    other = mechanism.fit(there, budget, risk, tolerance=0.01, reweight=0, say=lambda _: None)
    for name in ("risk", "alpha", "bounds", "c1"):
        ours, theirs = getattr(here, name), getattr(other, name)
        if model.prior == "flat":
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        else:  # chains part after some steps
            assert np.median(ours / theirs) == pytest.approx(1, abs=0.05)
    assert 0.1 < here.alpha.mean() < 1 and here.delta <= budget.bound


@pytest.mark.slow
def test_a_weighted_release_says_what_one_in_memory_says(by_weights, people):
    """Every sentence of the report, and means within the noise of two releases."""
    settings = {name: value for name, value in (ROLES | SHORT | WEIGHTED).items() if name != "weights"}
    memory = ss.synthesize(ss.SurveyDesign(people, weights="w"), FLAT, **settings)
    assert str(memory.privacy) == str(by_weights[0].privacy)
    ours, theirs = (each.tables(by="region", statistic="mean") for each in (by_weights[0], memory))
    far = (ours["estimate"] - theirs["estimate"]) / np.hypot(ours["se"], theirs["se"])
    assert (far.abs() < 4).all()


def test_normal_scores_take_a_part_of_epsilon_under_weights_too(people, tmp_path, small_parts):
    release = weighted(split(people, tmp_path, 2), bounds=(0, 200_000))
    assert "normal-score of a histogram of this file's pay with Laplace noise" in str(release.privacy)
    assert release.privacy.epsilon == 8


def test_privacy_weights_that_leave_little_stop_the_release(people, tmp_path, small_parts):
    with pytest.raises(ss.NotFitForRelease, match="less than 30%"):
        weighted(split(people, tmp_path, 2), epsilon=2, accept_diagnostics=(), scratch=tmp_path)
    assert not list(tmp_path.glob("surveysynth-*"))


def test_what_has_no_place_on_the_scale_is_refused(people, tmp_path, small_parts):
    wrong = people.assign(pay=people["pay"].where(np.arange(len(people)) != 7000, -1.0))
    with pytest.raises(ss.InputError, match=r"'pay' has no log in 1 row \(row numbers 7001;.* others;") as error:
        weighted(split(wrong, tmp_path, 2), scratch=tmp_path)
    assert "-1.0" not in str(error.value)
    assert not list(tmp_path.glob("surveysynth-*"))


@pytest.mark.parametrize("cells", [3, 2000])
def test_whether_the_weight_is_kept_is_found_on_all_records(people, tmp_path, small_parts, few_records, cells):
    """2,000 cells of four have one record each among those that are in memory, and one record fits any weight."""
    area = np.arange(len(people)) % cells
    file = people.assign(area=area, w=np.random.default_rng(2).uniform(10, 40, cells)[area])
    with pytest.raises(ss.InputError, match="'w' are a function of the predictors, and are kept"):
        weighted(split(file, tmp_path, 3), ss.FBS("pay ~ area", prior="flat"), scratch=tmp_path)
    assert not list(tmp_path.glob("surveysynth-*"))


def test_a_weight_that_is_a_function_of_the_model_matrix_is_refused_too(people, tmp_path, small_parts, few_records):
    """Every combination of the predictors has one record, and the region alone decides."""
    w = people["region"].map({"east": 20.0, "north": 25.0, "west": 30.0})
    file = people.assign(area=np.arange(len(people)), w=w)
    with pytest.raises(ss.InputError, match="'w' are a function of the predictors, and are kept"):
        weighted(split(file, tmp_path, 3), ss.FBS("pay ~ region + area", prior="flat"), scratch=tmp_path)
    assert not list(tmp_path.glob("surveysynth-*"))


def test_normal_scores_of_the_file_itself_are_refused(people, tmp_path, small_parts, few_records):
    scores = ss.NormalScores.from_historical(people["pay"], source="last year")
    with pytest.raises(ss.InputError, match="not known here that they are not of this one"):
        weighted(split(people, tmp_path, 1), replace(FLAT, transform=scores))


def test_a_weighted_release_that_was_cut_off_is_finished_by_its_own_arguments(
    by_weights, people, tmp_path, small_parts, few_records, monkeypatch
):
    files = split(people, tmp_path, 1)

    def full(*given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data_sets_in_parts, "simulate", full)
        with pytest.raises(ss.EngineError, match="resume_in_parts"):
            weighted(files, scratch=tmp_path)
    (unfinished,) = tmp_path.glob("surveysynth-*")  # and no privacy weights beside it
    asked = ROLES | WEIGHTED | {
        "source": files, "synthesizer": FLAT, "strata": None, "workers": 1, "scheduler": None, "scratch": tmp_path,
        "accept_diagnostics": ("information",),
    }  # fmt: skip
    for other in ({"mechanism": ss.PseudoPosterior("linear")}, {"accept_diagnostics": ()}):
        with pytest.raises(ss.InputError, match="of another plan"):
            in_parts.go_on(unfinished, asked | other)
    same(content(in_parts.go_on(unfinished, asked)), by_weights[1])
