"""The tabular study: results do not depend on processes or stops, and own files give confidential folders."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from replication.measures import compare_with_paper
from replication.tabular import outputs, own_file
from replication.tabular.__main__ import tabular_command
from replication.tabular.study import Population, repeated_sampling, sdr
from surveysynth.studies import summarize
from tests.conftest import looks_like_a_figure, words_of
from tests.surveys import make_frame

PRINTED = Path(__file__).resolve().parents[3] / "shared" / "paper_tables"
SMALL = {"replicates": 2, "m": (1, 3), "methods": ("fbs", "fbp"), "seed": 4}
WITH_LAPLACE = {"methods": ("fbs", "fbp", "laplace"), "bounds_n": (500,)}


@pytest.fixture(scope="module")
def population():
    return sdr()


@pytest.fixture(scope="module")
def done(population, tmp_path_factory):
    """The estimates of a small finished study, which has all methods, and its folder."""
    out = tmp_path_factory.mktemp("study") / "out"
    return repeated_sampling(population, out=out, **SMALL | WITH_LAPLACE), out


def same(first, second, but=()):
    """Check that estimates are equal to the last bit, except for the methods named in ``but``."""
    tables = [s.estimates[~s.estimates["method"].isin(but)].reset_index(drop=True) for s in (first, second)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_truths_are_the_counts_and_means_of_the_population(population):
    frame, truths = population.frame, population.truths.set_index(["statistic", "field", "gender"])["truth"]
    assert len(truths) == 54
    cells = frame.groupby(["field", "gender"])["salary"]
    for (field, gender), mean in cells.mean().items():
        assert truths["mean", field, gender] == pytest.approx(mean, rel=1e-12)
        assert truths["count", field, gender] == cells.size()[field, gender]
    for field, part in frame.groupby("field"):
        assert truths["mean", field, "all"] == pytest.approx(part["salary"].mean(), rel=1e-12)
    for gender, part in frame.groupby("gender"):
        assert truths["count", "all", gender] == len(part)
    assert truths["count", "all", "all"] == 100_000
    assert truths["mean", "all", "all"] == pytest.approx(frame["salary"].mean(), rel=1e-12)


def test_the_sample_is_systematic_in_the_order_of_the_frame(population):
    """The number of sampled men of a field differs by less than 1 from the sum of men's inclusion probabilities."""
    frame = population.frame
    for seed in range(3):
        sample = population.sample(frame, 1000, seed).frame
        assert len(sample) == 1000
        share = 1000 * frame.groupby("field").size() / len(frame)
        assert (sample.groupby("field").size() - share).abs().max() < 1
        for field, units in frame.groupby("field"):
            n_h = (sample["field"] == field).sum()
            pi = n_h * units["size"] / units["size"].sum()
            drawn = sample[sample["field"] == field]
            pi_drawn = drawn["salary"].map(pd.Series(pi.to_numpy(), units["salary"]))  # no two salaries are equal
            np.testing.assert_allclose(drawn["weight"], 1 / pi_drawn)
            men = (drawn["gender"] == "male").sum()
            assert abs(men - pi[units["gender"] == "male"].sum()) < 1
    assert not population.sample(frame, 1000, 0).frame.equals(population.sample(frame, 1000, 1).frame)


@pytest.mark.skipif(not PRINTED.is_dir(), reason="the printed tables are not here")
def test_truths_are_those_that_the_paper_prints(population):
    for name, statistic, slack in (("4_counts", "count", 0), ("5_means", "mean", 1.0)):
        printed = pd.read_csv(PRINTED / f"tabular_table{name}_repeated_sampling.csv", dtype={"field": str})
        truths = population.truths[population.truths["statistic"] == statistic]
        both = printed.merge(truths, on=["field", "gender"])
        assert len(both) == 24 and (both["truth"] - both["population"]).abs().max() <= slack


@pytest.mark.slow
def test_estimates_are_tidy_and_complete(done, population):
    study, _ = done
    table = study.estimates
    assert list(table) == [
        "replicate", "method", "setting", "delta", "m", "epsilon", "field", "gender", "statistic", "estimate", "se",
        "df", "ci_low", "ci_high", "truth",
    ]  # fmt: skip
    made = table.groupby(["method", "setting"])["m"].agg(lambda m: sorted(m.dropna().unique())).to_dict()
    private = [("fbp", "debias"), ("fbp", "default"), ("fbp", "paper"), ("fbs", "debias"), ("fbs", "paper")]
    noisy = [("laplace", "local"), ("laplace", "strict")]
    assert made == {kind: [1, 3] for kind in (*private, *noisy)} | {("confidential", ""): []}
    sizes = table.groupby(["replicate", "method", "setting", "m"], dropna=False).size()
    assert len(sizes) == 2 * (7 * 2 + 1) and (sizes == 54).all() and study.failures.empty
    assert table["epsilon"].dropna().unique().tolist() == [3.6, 10.8]
    confidential = table[(table["method"] == "confidential") & (table["replicate"] == 1)]
    assert confidential["truth"].tolist() == population.truths["truth"].tolist()


@pytest.mark.slow
def test_a_fit_is_tuned_to_delta_and_its_bounds_are_kept(done):
    bounds = done[0].bounds
    assert list(bounds) == ["replicate", "n", "method", "delta", "unweighted", "weighted", "untuned"]
    assert bounds.groupby(["replicate", "n", "method"]).size().to_dict() == dict.fromkeys(
        [(r, n, method) for r in (1, 2) for n in (500, 1000) for method in ("fbp", "fbs")], 1
    )
    assert bounds["weighted"].between(1.8 * 0.99, 1.8).all() and (bounds["unweighted"] > 5).all()
    assert bounds["untuned"].isna().equals(bounds["n"] == 1000)
    records = done[0].records
    first = bounds[(bounds["replicate"] == 1) & (bounds["n"] == 1000)].set_index("method")
    for method, part in records.groupby("method"):
        assert len(part) == 1000
        assert part["unweighted"].max() == first["unweighted"][method]
        assert part["weighted"].max() == first["weighted"][method]


@pytest.mark.slow
def test_synthesized_weights_scatter_around_the_smoothed_ones(done):
    """The log ratio of synthesized to smoothed weight does not depend on the outcome, and has an sd of 0.25 to 0.5."""
    scatter = done[0].scatter
    kinds = scatter.groupby(["method", "weights"], sort=False).size()
    assert (kinds == 1000).all() and len(kinds) == 6
    for method, name in (("fbs", "paper"), ("fbp", "default")):
        parts = {w: part.reset_index(drop=True) for w, part in scatter[scatter["method"] == method].groupby("weights")}
        raw, smoothed = parts["synthesized weights"], parts[f"smoothed weights ({name})"]
        assert raw["outcome"].equals(smoothed["outcome"])
        ratio = np.log(raw["weight"] / smoothed["weight"])
        slope = np.polyfit(np.log(raw["outcome"]), ratio, 1)[0]
        assert abs(slope) < 4 * ratio.std() / np.log(raw["outcome"]).std() / np.sqrt(1000)
        assert 0.25 < ratio.std() < 0.5  # 0.4 in the population; privacy weights reduce it


@pytest.mark.slow
def test_two_processes_find_what_one_finds(done, population):
    study, _ = done
    same(study, repeated_sampling(population, workers=2, **SMALL), but=["laplace"])


@pytest.mark.slow
def test_a_cluster_finds_the_same(done, population):
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        study = repeated_sampling(population, scheduler=cluster.scheduler_address, **SMALL)
    same(done[0], study, but=["laplace"])


@pytest.mark.slow
def test_a_method_is_not_touched_by_what_else_is_run(done, population):
    """Other methods, delta and m do not change the estimates of FBS at m = 3."""
    alone = repeated_sampling(population, **SMALL | {"methods": ("fbs",), "delta": (1.8, 3.4), "m": (3,)})
    keep = ["fbs", "confidential"]
    tables = []
    for study in (done[0], alone):
        e = study.estimates[study.estimates["method"].isin(keep)]
        tables.append(e[e["m"].isin([3, np.nan]) & e["delta"].isin([1.8, np.nan])].reset_index(drop=True))
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.slow
def test_settings_of_one_fit_share_their_draws(done):
    """FBP weights the records of a cell equally in two settings, so that means of cells are equal."""
    e = done[0].estimates
    e = e[(e["method"] == "fbp") & (e["statistic"] == "mean") & (e["field"] != "all") & (e["gender"] != "all")]
    paper, default, debias = (e[e["setting"] == s]["estimate"].to_numpy() for s in ("paper", "default", "debias"))
    assert len(paper) == 2 * 2 * 16
    np.testing.assert_allclose(paper, default, rtol=1e-12)
    assert np.corrcoef(default, debias)[0, 1] > 0.8 and not np.allclose(default, debias)


def deterministic(out):
    """Return the contents of the files that are determined by the seed of a study."""
    names = ["coverage.csv", "comparison.csv", "better.csv", "bounds.csv", "failures.csv"]
    return {name: (out / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def written(population, tmp_path_factory):
    """A folder with a study without Laplace tables, and the contents of the files."""
    out = tmp_path_factory.mktemp("written") / "out"
    outputs.write(repeated_sampling(population, out=out, **SMALL), out)
    return out, deterministic(out)


@pytest.mark.slow
def test_a_stopped_study_goes_on_and_ends_the_same(written, population, tmp_path):
    out, before = tmp_path / "out", written[1]
    shutil.copytree(written[0], out)
    kept = (out / "replicates" / "00002" / "run.json").stat().st_mtime_ns
    shutil.rmtree(out / "replicates" / "00001")
    (out / "replicates" / ".00001").mkdir()  # killed while it was writing
    outputs.write(repeated_sampling(population, out=out, **SMALL), out)
    assert deterministic(out) == before
    assert (out / "replicates" / "00002" / "run.json").stat().st_mtime_ns == kept
    assert sorted(os.listdir(out / "replicates")) == ["00001", "00002"]


@pytest.mark.slow
def test_more_samples_go_on_from_those_there_are(written, population, tmp_path):
    out, before = tmp_path / "grown", written[1]
    shutil.copytree(written[0], out)
    shutil.rmtree(out / "replicates" / "00002")
    assert repeated_sampling(population, out=out, **SMALL | {"replicates": 1}).estimates["replicate"].max() == 1
    outputs.write(repeated_sampling(population, out=out, **SMALL), out)
    assert deterministic(out) == before


@pytest.mark.slow
def test_without_a_seed_the_folder_keeps_the_one_from_the_system(population, tmp_path):
    settings = SMALL | {"seed": None, "m": (1,), "methods": ("fbs",)}
    first = repeated_sampling(population, out=tmp_path / "a", **settings | {"replicates": 1})
    again = repeated_sampling(population, out=tmp_path / "a", **settings)
    assert again.settings == first.settings and again.estimates["replicate"].max() == 2
    other = repeated_sampling(population, out=tmp_path / "b", **settings | {"replicates": 1})
    assert other.settings["seed"] != first.settings["seed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n": 900}, "n"), ({"m": (1, 5)}, "m"), ({"delta": (1.8, 3.4)}, "delta"), ({"methods": ("fbs",)}, "methods"),
        ({"prior": "paper"}, "prior"), ({"bounds_n": (300,)}, "bounds_n"), ({"seed": 5}, "seed"),
    ],
    ids=str,
)  # fmt: skip
def test_a_folder_of_a_study_with_other_settings_is_refused(change, named, done, population):
    settings = SMALL | WITH_LAPLACE
    with pytest.raises(ss.InputError, match=rf"other settings \({named}\)"):
        repeated_sampling(population, out=done[1], **settings | change)


@pytest.mark.slow
def test_a_folder_of_another_population_is_refused(done, population):
    other = replace(population, frame=population.frame.assign(salary=lambda f: f["salary"] * 1.0001))
    settings = SMALL | WITH_LAPLACE
    with pytest.raises(ss.InputError, match="other settings"):
        repeated_sampling(other, out=done[1], **settings)


@pytest.mark.slow
def test_folders_that_are_no_study_and_damaged_ones_are_refused(done, population, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").touch()
    with pytest.raises(ss.InputError, match="not the folder of a study"):
        repeated_sampling(population, out=tmp_path / "other", **SMALL)
    shutil.copytree(done[1], tmp_path / "copy")
    (tmp_path / "copy" / "replicates" / "00002" / "estimates.parquet").write_bytes(b"")
    settings = SMALL | WITH_LAPLACE
    with pytest.raises(ss.InputError, match="replicate 2 cannot be read"):
        repeated_sampling(population, out=tmp_path / "copy", **settings)
    (tmp_path / "copy" / "settings.json").write_text("{")
    with pytest.raises(ss.InputError, match="is damaged"):
        repeated_sampling(population, out=tmp_path / "copy", **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replicates": 0}, "replicates must be a whole number"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"n": 7}, "n"),
        ({"m": ()}, "m is empty"),
        ({"m": (0,)}, "m must be a whole number"),
        ({"delta": (-1.0,)}, "delta must be a positive number"),
        ({"methods": ("fbs", "mst")}, "methods: mst is not one of fbs, fbp, laplace"),
        ({"prior": "horseshoe"}, "prior='horseshoe' is not one of"),
        ({"bounds_n": (10**9,)}, "n"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_any_work(settings, words, population, tmp_path):
    with pytest.raises(ss.InputError, match=words):
        repeated_sampling(population, out=tmp_path / "out", **SMALL | settings)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ss.InputError, match="is not one of sdr, t4"):
        sdr("uniform")


def constant_in_some_samples(frame, n, seed):
    """Draw a simple random sample.  For odd seeds the outcome is constant."""
    rng = np.random.default_rng(seed)
    drawn = frame.iloc[rng.choice(len(frame), n, replace=False)].reset_index(drop=True)
    if seed % 2:
        drawn["salary"] = 50_000.0
    return ss.SurveyDesign(drawn.assign(weight=len(frame) / n * rng.lognormal(0, 0.3, n)), weights="weight")


def small_population(sample):
    return Population("small", sdr().frame.iloc[::50], "salary", ("gender",), "gender", sample)


@pytest.mark.slow
def test_a_sample_on_which_a_method_fails_is_recorded_with_its_reason(tmp_path):
    population = small_population(constant_in_some_samples)
    settings = {"replicates": 6, "n": 200, "m": (1,), "methods": ("fbs",), "seed": 2}
    study = repeated_sampling(population, out=tmp_path / "out", **settings)
    failed = study.failures
    assert 0 < len(failed) < 6 and set(failed["error"]) == {"ModelError"} and failed["reason"].str.len().min() > 20
    fitted = set(study.estimates.loc[study.estimates["method"] == "fbs", "replicate"])
    assert fitted | set(failed["replicate"]) == set(range(1, 7)) and not fitted & set(failed["replicate"])
    assert set(study.bounds["replicate"]) == fitted
    outputs.write(study, tmp_path / "out")
    text = (tmp_path / "out" / "summary.txt").read_text()
    assert f"ModelError in {len(failed)} of 6 samples" in text
    assert len(pd.read_csv(tmp_path / "out" / "failures.csv")) == len(failed)
    assert not (tmp_path / "out" / "comparison.csv").exists()  # the paper's figures are of another population
    again = repeated_sampling(population, out=tmp_path / "out", **settings)
    pd.testing.assert_frame_equal(again.failures, failed)


calls: list[int] = []


def interrupted_at_the_third(frame, n, seed):
    calls.append(seed)
    if len(calls) == 4:  # the first call only looks whether n can be drawn
        raise KeyboardInterrupt
    return constant_in_some_samples(frame, n, 2 * seed)


@pytest.mark.slow
def test_ctrl_c_leaves_the_finished_samples(tmp_path):
    calls.clear()
    settings = {"replicates": 4, "n": 200, "m": (1,), "methods": ("fbs",), "seed": 2, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        repeated_sampling(small_population(interrupted_at_the_third), **settings)
    assert sorted(os.listdir(tmp_path / "out" / "replicates")) == ["00001", "00002"]
    assert repeated_sampling(small_population(interrupted_at_the_third), **settings).estimates["replicate"].max() == 4
    assert len(calls) == 7  # one look and three samples, then one look and the two that were missing


def test_a_scheduler_that_is_not_there_is_named(population):
    with pytest.raises(ss.InputError, match=r"no Dask scheduler answers at 'nowhere'"):
        repeated_sampling(population, scheduler="nowhere", **SMALL)


@pytest.mark.slow
def test_outputs_are_written_and_say_the_same(done, tmp_path):
    study, _ = done
    files = {path.name for path in outputs.write(study, tmp_path)}
    figures = {
        "rmse_ratio_delta_1.8.png", "lipschitz_delta_1.8.png", "weights.png", "coverage_m_1_delta_1.8.png",
        "coverage_m_3_delta_1.8.png",
    }  # fmt: skip
    tables = {"coverage.csv", "comparison.csv", "better.csv", "bounds.csv", "failures.csv"}
    assert files == figures | tables | {"summary.txt"}
    for name in figures:
        looks_like_a_figure(tmp_path / name)
    comparison = pd.read_csv(tmp_path / "comparison.csv", dtype={"field": str})
    assert len(comparison) == 96 and not comparison.isna().any(axis=None)
    assert comparison.columns.tolist() == [
        "block", "field", "gender", "paper_ci_length", "ci_length", "paper_coverage", "coverage",
    ]  # fmt: skip
    e = study.estimates
    rows = e[(e["method"] == "fbp") & (e["setting"] == "paper") & (e["m"] == 3) & (e["statistic"] == "count")]
    rows = rows[(rows["field"] == "7") & (rows["gender"] == "male")]
    shown = comparison.set_index(["block", "field", "gender"]).loc[("fbp_counts", "7", "male")]
    assert shown["ci_length"] == pytest.approx((rows["ci_high"] - rows["ci_low"]).mean())
    assert shown["coverage"] == ((rows["ci_low"] <= 14_358) & (rows["ci_high"] >= 14_358)).mean()
    coverage = pd.read_csv(tmp_path / "coverage.csv")
    assert len(coverage) == 54 * (7 * 2 + 1)
    better = pd.read_csv(tmp_path / "better.csv")
    known = (better["statistic"] == "count") & better[["field", "gender"]].eq("all").all(axis=1)  # without an error
    assert len(better) == 2 * 2 * 2 * 28 and not better[~known].isna().any(axis=None)
    text = (tmp_path / "summary.txt").read_text()
    for words in ("2 samples", "fbs_counts", "fbp n = 500", "under c1 = 1", "Failures: none", "s a sample"):
        assert words in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t4", "skewed", "heteroskedastic", "two-stage"])
def test_relatives_of_the_population_can_be_studied(kind):
    study = repeated_sampling(sdr(kind), replicates=1, n=800, m=(1,), methods=("fbs",), seed=1)
    assert study.failures.empty and len(study.estimates) == 54 * 3
    assert study.settings["population"] == kind


@pytest.mark.reference
@pytest.mark.skipif(not PRINTED.is_dir(), reason="the printed tables are not here")
def test_the_papers_tables_come_out(population):
    """Mean interval lengths over 100 samples are within 5% of the published lengths, and coverages are near.

    The difference of two coverages of 0.9 over 100 samples each has a standard error of 0.042, and its absolute value
    has a mean of 0.034.  For means by FBP the coverage is higher here than in the paper, by 0.08.
    """
    study = repeated_sampling(population, replicates=100, m=(3,), methods=("fbs", "fbp"), workers=2, seed=1)
    table = compare_with_paper(summarize(study.estimates, population.by))
    for block, part in table.groupby("block"):
        assert (part["ci_length"] / part["paper_ci_length"]).mean() == pytest.approx(1, abs=0.05), block
        difference = (part["coverage"] - part["paper_coverage"]).abs().mean()
        assert difference < (0.1 if block == "fbp_means" else 0.045), block


# one's own file


COMMAND = tabular_command


OWN = {
    "weights": "wt", "strata": "field", "outcome": "income", "predictors": "field + gender", "by": "field,gender",
    "epsilon": "10.8", "m": "3", "seed": "1", "out": "side", "data": "f.csv",
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    make_frame().replace("NA", "n/a.").to_csv(tmp_path / "f.csv", index=False)


@pytest.mark.slow
def test_methods_on_ones_own_file(file, run_cli, tmp_path):
    code, text, complaint = run_cli(*words_of(OWN))
    assert (code, complaint) == (0, "")
    folder = tmp_path / "side"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert text.startswith("NOT FOR PUBLICATION")
    assert (folder / "NOT-FOR-PUBLICATION.txt").read_text().startswith("NOT FOR PUBLICATION")
    assert {p.name for p in folder.iterdir()} == {
        "NOT-FOR-PUBLICATION.txt", "table_counts.csv", "table_means.csv", "rmse.csv", "bounds.csv", "summary.txt",
        "rmse.png", "lipschitz.png", "weights.png",
    }  # fmt: skip
    for figure in folder.glob("*.png"):
        looks_like_a_figure(figure)
    design = ss.SurveyDesign.read("f.csv", weights="wt", strata="field")
    for name, statistic in (("counts", "count"), ("means", "mean")):
        table = pd.read_csv(folder / f"table_{name}.csv", dtype={"field": str})
        columns = [f"{method}_{part}" for method in ("sample", "laplace", "fbs", "fbp") for part in ("estimate", "se")]
        assert table.columns.tolist() == ["field", "gender", *columns]
        known = table[["field", "gender"]].eq("all").all(axis=1)  # a count of all has no standard error
        assert len(table) == 15 and not table[~known].isna().any(axis=None)
        assert table.iloc[:4][["field", "gender"]].to_numpy().tolist() == [
            ["all", "all"], ["all", "f"], ["all", "m"], ["01", "all"],
        ]  # fmt: skip
        outcome = "income" if statistic == "mean" else None
        confidential = ss.estimate(design, outcome, ["field", "gender"], statistic)
        confidential = confidential.merge(table, on=["field", "gender"])
        np.testing.assert_allclose(confidential["sample_estimate"], confidential["estimate"], rtol=1e-9)
        np.testing.assert_allclose(confidential["sample_se"], confidential["se"], rtol=1e-9)
        errors = pd.read_csv(folder / "rmse.csv", dtype={"field": str})
        here = (errors["method"] == "fbs") & (errors["setting"] == "paper") & (errors["statistic"] == statistic)
        both = table.merge(errors[here], on=["field", "gender"])
        by_hand = np.sqrt((both["fbs_estimate"] - both["sample_estimate"]) ** 2 + both["fbs_se"] ** 2)
        np.testing.assert_allclose(both["rmse"], by_hand, rtol=1e-9)
    assert pd.read_csv(folder / "bounds.csv")["weighted"].max() <= 1.8


@pytest.mark.slow
@pytest.mark.skipif(not PRINTED.is_dir(), reason="the printed tables are not here")
def test_tables_are_shaped_as_the_papers(population):
    """Columns and row order are those of Tables 2 and 3 of Hu, Savitsky & Williams (2022a), except for genders."""
    design = population.sample(population.frame, 1000, 1)
    sample = own_file.compare_methods(design, "salary", "field + gender", ["field", "gender"], epsilon=10.8, seed=1)
    for file_name, statistic in (("2_sdr_counts", "count"), ("3_sdr_means", "mean")):
        printed = pd.read_csv(PRINTED / f"tabular_table{file_name}.csv", dtype={"field": str})
        table = own_file.side_by_side(sample, statistic)
        assert table.columns.tolist() == printed.columns.tolist()
        assert table["field"].tolist() == printed["field"].tolist()
        assert table["gender"].eq("all").tolist() == printed["gender"].eq("all").tolist()


def test_a_folder_that_is_there_is_not_touched(file, run_cli, tmp_path):
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / "thesis.txt").write_text("mine")
    code, _, complaint = run_cli(*words_of(OWN))
    assert code == 2 and "'side' exists" in complaint
    assert [p.name for p in (tmp_path / "side").iterdir()] == ["thesis.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "o", "epsilon": "3", "by": "a"}, "--epsilon, --by: only with --data"),
        (OWN | {"replicates": "3", "delta": "1.8"}, "--replicates, --delta: not with --data"),
        ({"out": "o", "data": "f.csv", "weights": "wt"}, "--data needs --outcome, --predictors, --by, --epsilon, too"),
        (OWN | {"m": "1,3"}, "-m is one number"),
        (OWN | {"data": "nothing.csv"}, "there is no file 'nothing.csv'"),
        (OWN | {"by": "hours"}, "by='hours' is not a predictor"),
        (OWN | {"methods": "fbs,gan"}, "methods: gan is not one of fbs, fbp, laplace"),
        (OWN | {"epsilon": "-1"}, "epsilon must be a positive number"),
        (OWN | {"strata": "id"}, "one sampling unit"),
        ({"out": "o", "m": "1,x"}, "numbers were expected"),
        ({"out": "o", "m": "1,2.5"}, "whole numbers were expected"),
        ({"out": "o", "delta": "low"}, "'--delta': numbers were expected"),
        ({"out": "o", "delta": "0"}, "delta must be a positive number"),
        ({"out": "o", "methods": "gan"}, "methods: gan is not one of fbs, fbp, laplace"),
        ({"out": "o", "methods": ","}, "methods is empty"),
        ({"out": "o", "population": "moon"}, "--population"),
        ({"out": "o", "prior": "moon"}, "--prior"),
        ({"out": "o", "replicates": "0"}, "--replicates"),
        ({"replicates": "1"}, "--out"),
    ],
    ids=str,
)
def test_wrong_arguments_leave_with_2_and_a_sentence(options, words, file, run_cli, tmp_path):
    code, _, complaint = run_cli(*words_of(options))
    assert code == 2 and words in " ".join(complaint.replace("│", " ").split()), complaint
    assert not (tmp_path / "o").exists() and not (tmp_path / "side").exists()


@pytest.mark.slow
def test_a_study_from_the_command_line(run_cli, tmp_path):
    settings = {"replicates": "1", "methods": "fbs", "m": "3", "delta": "1.8,3.4", "workers": "1", "seed": "4"}
    settings["out"] = "o"
    code, text, complaint = run_cli(*words_of(settings))
    assert (code, complaint) == (0, "") and "1 samples of n = 1,000" in text and "Written: o" in text
    assert json.loads((tmp_path / "o" / "settings.json").read_text())["delta"] == [1.8, 3.4]
    assert {p.name for p in (tmp_path / "o").glob("*.png")} == {
        f"{kind}_delta_{delta}.png" for kind in ("rmse_ratio", "lipschitz", "coverage_m_3") for delta in ("1.8", "3.4")
    } | {"weights.png"}
    again = run_cli(*words_of(settings | {"n": "500"}))
    assert again[0] == 2 and "other settings (n)" in again[2]
