"""The two-stage study: a known intraclass correlation, and the same samples with and without effects of PSUs."""

import json

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from replication.clusters import study as clusters
from replication.clusters.__main__ import clusters_command
from replication.clusters.study import by_domain, cluster_study, compare_clusters, two_stage
from replication.tabular.study import Population, Study
from tests.conftest import looks_like_a_figure, words_of
from tests.test_datasets import intraclass_correlation

SMALL = {"icc": (0.15,), "replicates": 2, "m": (1, 3), "delta": (3.4,), "seed": 6}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A small study and its folder."""
    out = tmp_path_factory.mktemp("clusters") / "out"
    return cluster_study(out=out, **SMALL), out


@pytest.mark.parametrize("icc", [0.02, 0.05, 0.15])
def test_the_population_has_the_intraclass_correlation(icc):
    population = two_stage(icc, "ignore")
    found, error = intraclass_correlation(population.frame)
    assert found == pytest.approx(icc, abs=3.5 * error) and error < 0.01
    by = population.frame.groupby("psu")["take"]
    units, take = by.size(), by.first()
    assert (by.nunique() == 1).all() and take.min() == 10 and take.max() == 30
    assert (take - units / 5)[units.between(50, 150)].abs().max() <= 0.5
    assert (take[units < 50] == 10).all() and (take[units > 150] == 30).all() and units.between(50, 150).mean() > 0.9


def test_iccs_differ_by_nothing_else():
    """Populations with different intraclass correlations have the same fields, genders, PSUs and PSU sample sizes."""
    low, high = (two_stage(icc, "model").frame for icc in (0.02, 0.15))
    pd.testing.assert_frame_equal(low[["field", "gender", "psu", "take"]], high[["field", "gender", "psu", "take"]])
    assert np.corrcoef(np.log(low["salary"]), np.log(high["salary"]))[0, 1] < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("second_stage", ["pps", "srs"])
def test_samples_have_two_stages(second_stage):
    population = two_stage(0.05, "model", second_stage=second_stage)
    totals = []
    for seed in range(25):
        design = population.sample(population.frame, 2000, seed)
        by = design.frame.groupby("psu")
        assert design.psu_names == ("psu",) and design.strata_name == "field"
        assert (by.size() == by["take"].first()).all() and by.size().between(10, 30).all()
        assert design.frame.groupby("field")["psu"].nunique().min() >= 2
        spread = np.log(design.frame["weight"]).groupby(design.frame["psu"]).std()
        assert (spread < 1e-9).all() if second_stage == "srs" else (spread > 0.2).all()
        totals.append(design.weights.sum())
    assert abs(np.mean(totals) - 1e5) < 3.5 * np.std(totals, ddof=1) / 5 < 3500


@pytest.mark.slow
def test_both_choices_see_the_same_samples(done):
    studies, out = done
    assert list(studies) == [(0.15, "model"), (0.15, "ignore")]
    assert all(study.failures.empty for study in studies.values())
    own = [s.estimates[s.estimates["method"] == "confidential"].reset_index(drop=True) for s in studies.values()]
    pd.testing.assert_frame_equal(*own, check_exact=True)
    fits = [json.loads((out / f"icc_0.15_{choice}" / "settings.json").read_text()) for choice in ("model", "ignore")]
    assert [s.pop("fit") for s in fits] == [{"clusters": "model"}, {"clusters": "ignore"}] and fits[0] == fits[1]


@pytest.mark.slow
def test_the_table_is_that_of_the_domains(done):
    """A row of the table equals averages computed here over all domains except the grand total."""
    studies, _ = done
    table = compare_clusters(studies)
    assert set(table.loc[table["domains"] == "all", "number"]) == {26, 27}
    e = studies[0.15, "model"].estimates
    e = e[e["statistic"] == "count"]
    e = e[(e["field"] != "all") | (e["gender"] != "all")]
    keys = ["replicate", "field", "gender"]
    own = e[e["method"] == "confidential"].set_index(keys)
    fbs = e[(e["setting"] == "paper") & (e["m"] == 3)].set_index(keys).loc[own.index]
    row = table[
        (table["statistic"] == "count") & (table["clusters"] == "model") & (table["setting"] == "paper")
        & (table["m"] == 3) & (table["domains"] == "all")
    ]  # fmt: skip
    row = row.iloc[0]
    se, length = (
        [f.groupby(["field", "gender"])["value"].mean() for f in (own.assign(value=o), fbs.assign(value=f))]
        for o, f in ((own["se"], fbs["se"]), (own["ci_high"] - own["ci_low"], fbs["ci_high"] - fbs["ci_low"]))
    )
    assert row["se_ratio"] == pytest.approx((se[1] / se[0]).mean())
    assert row["length_ratio"] == pytest.approx((length[1] / length[0]).mean())
    covered = (fbs["ci_low"] <= fbs["truth"]) & (fbs["ci_high"] >= fbs["truth"])
    by_replicate = covered.groupby("replicate").mean()
    assert row["coverage"] == pytest.approx(by_replicate.mean())
    assert row["coverage_se"] == pytest.approx(by_replicate.std(ddof=1) / np.sqrt(2))
    confidential = table[table["method"] == "confidential"]
    np.testing.assert_allclose(confidential[["se_ratio", "length_ratio", "rmse_ratio", "expected"]], 1)
    assert len(confidential) == confidential[["icc", "statistic", "domains"]].drop_duplicates().shape[0]


def test_sound_domains_are_those_that_the_confidential_sample_covers():
    """In 100 artificial samples, confidential intervals cover domain 1 always, and domain 2 in 95 samples."""
    rows = []
    for method, setting, m in (("confidential", "", np.nan), ("fbs", "paper", 3.0)):
        for field, misses in (("1", 0), ("2", 5 if method == "confidential" else 10)):
            low = np.where(np.arange(100) < misses, 1.0, -1.0)
            rows.append(pd.DataFrame({
                "replicate": range(100), "method": method, "setting": setting, "delta": 1.8 * m / m, "m": m,
                "epsilon": 3.6 * m, "field": field, "statistic": "mean", "estimate": 0.5, "se": 1.0,
                "ci_low": low, "ci_high": 2.0, "truth": 0.0,
            }))  # fmt: skip
    estimates = pd.concat(rows, ignore_index=True)
    population = Population("p", pd.DataFrame(), "y", ("field",), "field", clusters.sample_srs)
    study = Study(population, {}, 100, estimates, *[pd.DataFrame()] * 4, seconds=1.0)
    table = compare_clusters({(0.1, "model"): study}).set_index(["domains", "method"])
    assert table["number"].to_dict() == {
        ("all", "confidential"): 2, ("all", "fbs"): 2, ("sound", "confidential"): 1, ("sound", "fbs"): 1,
    }  # fmt: skip
    assert table["coverage"].round(9).tolist() == [0.975, 0.95, 0.95, 0.9]
    assert table.loc[("sound", "fbs"), "coverage_se"] == pytest.approx(np.sqrt(0.09 / 99))
    assert table.loc[("all", "fbs"), "expected"] == pytest.approx(np.sqrt(5 / 3))


def test_expected_ratios():
    """Smoothed weights reduce the variance of a mean by a factor exp(-0.16), as in simulated lognormal weights."""
    rng = np.random.default_rng(1)
    y = np.exp(0.4 * rng.standard_normal(400_000))
    smoothed = 1 / y
    weight = smoothed * np.exp(0.4 * rng.standard_normal(y.size))
    u = [np.var(w * (y - np.average(y, weights=w)) / w.mean()) for w in (smoothed, weight)]
    m = pd.Series([1.0, 3.0, np.nan])
    found = clusters._expected(pd.Series(["mean"] * 3), m, public=False)
    assert found[0] == pytest.approx(np.sqrt(u[0] / u[1]), rel=0.02)
    np.testing.assert_allclose(found[1:], [found[0] * np.sqrt(5 / 3), 1])
    assert np.isnan(clusters._expected(pd.Series(["count"] * 3), m, public=False)).tolist() == [True, True, False]
    np.testing.assert_allclose(clusters._expected(pd.Series(["count"] * 3), m, public=True), 1)


@pytest.mark.slow
def test_effects_of_psus_lengthen_what_would_be_too_short(done):
    """For means at an icc of 0.15, PSUs multiply the variance by about three."""
    table = by_domain(done[0])
    rows = table[(table["statistic"] == "mean") & (table["gender"] == "all") & (table["m"] == 1)]
    ratio = rows[rows["setting"] == "debias"].groupby("clusters")["se_ratio"].mean()
    assert ratio["ignore"] < 0.75 and ratio["model"] > 1.4 * ratio["ignore"]


@pytest.mark.slow
def test_weights_of_psus_are_kept():
    """With simple random samples within PSUs, weights are public, and counts equal the confidential counts."""
    studies = cluster_study((0.05,), replicates=1, n=1700, m=(1,), delta=(3.4,), second_stage="srs", seed=1)
    study = studies[0.05, "model"]
    assert study.failures.empty
    e = study.estimates[(study.estimates["statistic"] == "count")].set_index(["field", "gender"])
    own, fbs = (e[e["setting"] == setting] for setting in ("", "paper"))
    scale = 1e5 / own.loc[("all", "all"), "estimate"]
    np.testing.assert_allclose(fbs["estimate"], scale * own["estimate"].loc[fbs.index], rtol=1e-9)
    cells = fbs.index.drop(("all", "all"))  # it has no standard error
    np.testing.assert_allclose(fbs["se"].loc[cells], scale * own["se"].loc[cells], rtol=1e-9)


@pytest.mark.slow
def test_a_folder_keeps_one_seed_for_all(tmp_path):
    settings = {"replicates": 1, "n": 1700, "m": (1,), "delta": (3.4,), "out": tmp_path / "out"}
    first = cluster_study((0.15,), **settings)
    more = cluster_study((0.02, 0.15), **settings)
    assert len({study.settings["seed"] for study in (*first.values(), *more.values())}) == 1
    pd.testing.assert_frame_equal(first[0.15, "model"].estimates, more[0.15, "model"].estimates, check_exact=True)
    with pytest.raises(ss.InputError, match=r"other settings \(n\)"):
        cluster_study((0.15,), **settings | {"n": 1800})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").touch()
    with pytest.raises(ss.InputError, match="not the folder of a study"):
        cluster_study((0.15,), **settings | {"out": tmp_path / "other"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"icc": ()}, "icc is empty"),
        ({"icc": (1.0,)}, "icc must be a number from 0 to below 1"),
        ({"n": 300}, "no sample of n = 300 can be drawn"),
        ({"second_stage": "bernoulli"}, "second_stage='bernoulli' is not one of pps, srs"),
        ({"predictors": "field + salary"}, "an outcome cannot be a predictor"),
        ({"predictors": "field + age"}, "predictors: age is not one of field, gender, take"),
        ({"predictors": "take"}, "name neither field nor gender"),
        ({"replicates": 0}, "replicates must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_any_work(settings, words, tmp_path):
    with pytest.raises(ss.InputError, match=words):
        cluster_study(out=tmp_path / "out", **SMALL | settings)
    assert not (tmp_path / "out").exists()


COMMAND = clusters_command


@pytest.mark.slow
def test_a_study_from_the_command_line(run_cli, tmp_path):
    settings = {"replicates": "1", "icc": "0.15", "n": "1700", "m": "3", "delta": "3.4", "workers": "1", "seed": "4"}
    settings["out"] = "o"
    code, text, complaint = run_cli(*words_of(settings))
    assert (code, complaint) == (0, "") and "1 samples of about n = 1,700" in text and "Written: o" in text
    assert "icc 0.15, means, all domains (27)" in text and "Failures: none" in text
    assert {p.name for p in (tmp_path / "o").iterdir()} == {
        "icc_0.15_model", "icc_0.15_ignore", "clusters.csv", "coverage.csv", "bounds.csv", "failures.csv",
        "summary.txt", "clusters_m_3_delta_3.4.png",
    }  # fmt: skip
    looks_like_a_figure(tmp_path / "o" / "clusters_m_3_delta_3.4.png")
    table = pd.read_csv(tmp_path / "o" / "clusters.csv")
    assert table["epsilon"].dropna().unique().tolist() == [20.4]
    again = run_cli(*words_of(settings | {"n": "1800"}))
    assert again[0] == 2 and "other settings (n)" in again[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "o", "icc": "low"}, "'--icc': numbers were expected"),
        ({"out": "o", "icc": "1.5"}, "icc must be a number from 0 to below 1"),
        ({"out": "o", "m": "2.5"}, "whole numbers were expected"),
        ({"out": "o", "delta": "0"}, "delta must be a positive number"),
        ({"out": "o", "second-stage": "moon"}, "--second-stage"),
        ({"replicates": "1"}, "--out"),
    ],
    ids=str,
)
def test_wrong_arguments_leave_with_2_and_a_sentence(options, words, run_cli, tmp_path):
    code, _, complaint = run_cli(*words_of(options))
    assert code == 2 and words in " ".join(complaint.replace("│", " ").split()), complaint
    assert not (tmp_path / "o").exists()
