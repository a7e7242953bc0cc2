"""The rules that keep the claims true: one test a rule (those whose models are not here yet come with them)."""

import json

import numpy as np
import pandas as pd
import pytest
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth.privacy.report import public_epsilon
from tests.conftest import decoded
from tests.surveys import PSEUDO


def released(design=None, synthesizer=None, **settings):
    return ss.synthesize(
        design or make_design(),
        synthesizer or model(),
        **({"mechanism": PSEUDO} | {"epsilon": 10.8, "seed": 1} | settings),
    )


@pytest.mark.parametrize("synthesizer", [model(), population_model(), population_model(prior="paper")], ids=repr)
def test_rule_01_a_weight_that_the_predictors_determine_is_kept_and_the_outcome_modelled_alone(synthesizer):
    """Such a weight has no distribution of its own; it is public. A weight that is nearly so is an error."""
    frame = make_frame()
    frame["wt"] = frame["field"].map({"01": 10.0, "02": 20.0, "NA": 30.5, "ökonomie": 7.25})
    fit = ss.fit(
        ss.SurveyDesign(frame, weights="wt", strata="field"), synthesizer, epsilon=10.8, seed=1, mechanism=PSEUDO
    )
    assert fit.records.Y.shape == (400, 1) and fit.weighted.posterior.values["L"].shape[1:] == (1, 1)
    release = fit.release()
    for data in release.datasets:
        expected = data.frame["field"].map({"01": 10.0, "02": 20.0, "NA": 30.5, "ökonomie": 7.25})
        np.testing.assert_allclose(data.weights, expected, rtol=1e-12)
    assert release.count_roles is None  # FBP has nothing to smooth
    assert "only the outcome is modelled" in str(release.privacy)
    frame["wt"] *= 1 + 1e-5 * np.random.default_rng(0).normal(size=400)
    with pytest.raises(ss.ModelError, match="nearly, but not quite"):
        released(ss.SurveyDesign(frame, weights="wt", strata="field"), synthesizer)


@pytest.mark.slow
@pytest.mark.parametrize("synthesizer", [model(), population_model()], ids=lambda s: s.name)
def test_rule_02_standard_errors_carry_the_clusters_or_the_report_says_that_they_do_not(synthesizer):
    """60 PSUs with an intraclass correlation of 0.3: their effects are modelled, or ignored by name."""
    rng = np.random.default_rng(4)
    frame = make_frame(1200).assign(psu=lambda f: rng.permutation(len(f)) % 60)
    frame["income"] *= np.exp(0.33 * rng.standard_normal(60)[frame["psu"]])
    design = ss.SurveyDesign(frame, weights="wt", strata=None, psu="psu")
    confidential = ss.estimate(design, "income").loc[0, "se"]

    def ratio(release):
        return release.tables(statistic="mean").loc[0, "se"] / confidential

    clustered = released(design, synthesizer, m=10, epsilon=40)
    assert 0.8 < ratio(clustered) < 1.5  # about sqrt(1 + 2 / m), and a tenth to either side for 60 PSUs
    assert "PSUs have normal effects" in str(clustered.privacy) and "clusters ignored" not in str(clustered.privacy)
    ignored = released(design, synthesizer, m=10, epsilon=40, clusters="ignore")
    assert ratio(ignored) < 0.6
    assert "clusters ignored" in str(ignored.privacy)


def test_rule_04_densities_do_not_depend_on_a_unit_that_nobody_named():
    """log is free of the unit; identity and asinh need a public scale, and the report names the base measure."""
    frame = make_frame()
    thousands = frame.assign(income=frame["income"] / 1000)

    def fit(data, transform):
        design = ss.SurveyDesign(data, weights="wt", strata="field")
        return ss.fit(design, model(transform=transform), epsilon=30, seed=1, mechanism=PSEUDO)

    for transform, of_thousands in (
        ("log", "log"), (ss.AsinhTransform(scale=5000), ss.AsinhTransform(scale=5)),
        (ss.IdentityTransform(scale=1e4), ss.IdentityTransform(scale=10)),
    ):  # fmt: skip
        np.testing.assert_allclose(fit(frame, transform).risk, fit(thousands, of_thousands).risk, rtol=1e-9)
    other_unit = fit(thousands, ss.IdentityTransform(scale=1e4)).risk
    assert other_unit.max() != pytest.approx(fit(frame, ss.IdentityTransform(scale=1e4)).risk.max(), rel=0.1)
    for name in ("identity", "asinh"):
        with pytest.raises(ss.InputError, match="needs a public scale"):
            model(transform=name)
    for transform, words in (
        (ss.IdentityTransform(scale=1e4), "per 10000 units"),
        (ss.AsinhTransform(scale=5000), "outcome / 5000"),
    ):
        assert words in str(fit(frame, transform).release().privacy)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [model, population_model], ids=["FBS", "FBP"])
def test_rule_05_released_draws_are_apart_and_stand_under_the_maximum(kind):
    """m separate draws, from different chains where possible; Delta's maximum includes them; lags are reported."""
    fit = ss.fit(
        make_design(), kind("field", prior="paper"), epsilon=10.8, m=3, seed=1, warmup=500, draws=1000, mechanism=PSEUDO
    )
    assert fit.weighted.posterior.failures == ()
    release, posterior = fit.release(), fit.weighted.posterior
    assert len(set(posterior.chain[fit.used])) == 3
    densities = fit.synthesizer.log_density(fit.records.subset(np.arange(fit.design.n)), posterior)[fit.used]
    assert (fit.weighted.alpha * np.abs(densities) <= fit.delta * (1 + 1e-12)).all()
    assert release.privacy.draws == posterior.size == 4000
    assert "different chains" in release.privacy.verdict
    more = fit.release(m=7, epsilon=100)
    chains = np.bincount(posterior.chain[fit.used[3:]])
    assert chains.max() - chains.min() == 1
    lag = more.privacy.internal["released_draws_lag_correlation"]
    assert 0 < lag < 0.1 and "lag correlation below 0.1" in more.privacy.verdict


@pytest.mark.parametrize(
    ("exact", "asked", "public"),
    [(10.791, 10.8, 10.8), (10.7853, 10.8, 10.79), (10.7801, 10.785, 10.785), (0.12001, None, 0.13), (5.0, 5.0, 5.0)],
)
def test_rule_06_epsilon_is_printed_rounded_up_and_never_above_the_request(exact, asked, public):
    """Two decimals, upwards, at most what was asked for."""
    assert public_epsilon(exact, asked) == public


@pytest.mark.slow
def test_rule_06_exact_numbers_are_internal_and_diagnostics_a_verdict(tmp_path):
    """No byte of public/ holds the exact epsilon, Delta, c1, or a number of the sampler."""
    design = make_design()
    settings = {"warmup": 500, "draws": 1000, "seed": 1}
    release = ss.synthesize(design, model("field", prior="paper"), epsilon=10.8, **({"mechanism": PSEUDO} | settings))
    path = release.write(tmp_path / "release")
    internal = json.loads((path / "internal" / "privacy.json").read_text())
    assert internal["epsilon_exact"] <= release.privacy.epsilon <= 10.8
    text = "".join(decoded(p) for p in (path / "public").iterdir())
    for name in ("epsilon_exact", "delta", "delta_unweighted", "c1", "rhat", "ess_bulk", "ess_tail", "mean_alpha"):
        assert f"{internal[name]:.6g}" not in text, name
    manifest = json.loads((path / "public" / "manifest.json").read_text())
    assert manifest["epsilon"] == release.privacy.epsilon
    assert manifest["diagnostics"].startswith("Sampler diagnostics passed")


def test_rule_07_a_public_file_holds_the_named_columns_recoded_and_permuted():
    """Synthetic outcome and weight, predictors, design columns; labels recoded, rows permuted, no index."""
    frame = make_frame().assign(stratum=lambda f: f["field"].map(lambda x: f"secret {x}"), psu=lambda f: f["id"] // 4)
    frame.index = frame["id"] + 7
    design = ss.SurveyDesign(frame, weights="wt", strata="stratum", psu="psu")
    release = released(design, model("field + gender"), clusters="ignore")
    order = []
    for data in release.datasets:
        public = data.frame
        assert sorted(public.columns) == ["field", "gender", "income", "psu", "stratum", "wt"]
        assert public.index.equals(pd.RangeIndex(400))
        assert sorted(public["stratum"].unique()) == [1, 2, 3, 4]
        assert sorted(public["psu"].unique()) == list(range(1, 101))
        # one partition into strata and PSUs, under other names
        cells = [["field", "gender"], ["psu"], ["stratum", "psu"]]
        for by in cells:
            assert sorted(public.groupby(by).size()) == sorted(frame.groupby(by).size())
        order.append(public["psu"].tolist())
    assert order[0] != order[1] != order[2] != order[0]
    with pytest.raises(ss.InputError, match="not a predictor"):
        release.tables("stratum")
    with pytest.raises(ss.InputError, match="does not name"):
        released(design, model("field + gender"), clusters="ignore", public=["field", "gender"])


def test_rule_07_files_of_fbp_hold_one_column_more():
    """The smoothed weight of each record, which is synthetic, too; and nothing of the file's own weights."""
    frame = make_frame().assign(post=lambda f: f["gender"])
    design = ss.SurveyDesign(frame, weights="wt", strata="field", poststrata="post")
    release = released(design, population_model("field"))
    for data in release.datasets:
        assert sorted(data.frame.columns) == ["field", "income", "wt", "wt_smoothed"]
        for column in ("wt", "wt_smoothed", "income"):
            assert not set(data.frame[column]) & set(frame["wt"]) and not set(data.frame[column]) & set(frame["income"])


@pytest.mark.parametrize("predictors", ["field + gender", "field + hours"])
def test_rule_08_the_weight_of_an_fbp_file_is_the_mean_smoothed_weight_of_its_cell(predictors):
    """Its outcomes follow the population already: their own smoothed weights would correct them twice.

    A numeric predictor of many values makes no cells: it is banded by public limits, or refused.
    """
    settings = {}
    if predictors == "field + hours":
        with pytest.raises(ss.InputError, match=r"'hours' .* group it by public limits, bands="):
            released(synthesizer=population_model(predictors))
        settings = {"bands": {"hours": [35, 45]}}
    release = released(synthesizer=population_model(predictors, **settings))
    table = release.tables("field", statistic=["count", "mean", "total"])
    files = [ss.estimate(d, "income", "field", ["count", "mean", "total"]) for d in release.datasets]
    np.testing.assert_allclose(np.mean([f["estimate"] for f in files], axis=0), table["estimate"], rtol=1e-10)
    for file in files:
        count, mean, total = (file.loc[file["statistic"] == s, "estimate"] for s in ("count", "mean", "total"))
        np.testing.assert_allclose(total, count.to_numpy() * mean.to_numpy(), rtol=1e-10)
    for data, counted in zip(release.datasets, release.count_designs(), strict=True):
        frame = data.frame.assign(smoothed=counted.weights)
        last = frame["gender"] if predictors == "field + gender" else pd.cut(
            frame["hours"], [0, 35, 45, np.inf], right=False
        )  # fmt: skip
        cells = frame.groupby(["field", last], observed=True)
        np.testing.assert_allclose(frame["wt"], cells["smoothed"].transform("mean"), rtol=1e-12)
        assert frame["wt"].nunique() == cells.ngroups < 400 == frame["smoothed"].nunique()
        if predictors == "field + gender":
            means = ss.estimate(data, "income", ["field", "gender"], "mean").iloc[: cells.ngroups]["estimate"]
            np.testing.assert_allclose(means, cells["income"].mean(), rtol=1e-10)
        else:
            assert "group hours into cells are public: 35, 45" in str(release.privacy)


def test_rule_11_one_data_set_has_no_between_variance_and_says_so():
    """m = 1: the variance is the one data set's own, and every row is flagged."""
    release = released(m=1)
    table, alone = release.tables("field"), ss.estimate(release.datasets[0], "income", "field", ["count", "mean"])
    known = table["flag"].str.contains("calibrated total")
    assert known.sum() == 1 and table.loc[known, "se"].isna().all()
    pd.testing.assert_frame_equal(table[~known].drop(columns="flag"), alone[~known], check_exact=True)
    assert table["flag"].str.contains("no between variance").all()
    assert not released(m=2).tables("field")["flag"].str.contains("no between variance").any()


@pytest.mark.parametrize("settings", [{}, {"population_total": 5e5}], ids=str)
def test_rule_12_the_grand_total_is_calibrated_and_df_stay_within_the_design(settings):
    """The total count is N whatever is drawn: flagged. No t degrees of freedom above the design's."""
    release = released(**settings)
    table = release.tables(["field", "gender"], statistic=["count", "mean", "total"])
    total = (table["field"] == "all") & (table["gender"] == "all") & (table["statistic"] == "count")
    assert (table["flag"].str.contains("calibrated total") == total).all()
    expected = settings.get("population_total", make_frame()["wt"].sum())
    assert table.loc[total, "estimate"].item() == pytest.approx(expected, rel=1e-12)
    assert table["df"].max() <= 396 == make_design().degf
    assert (table["df"] < 396).any()


@pytest.mark.parametrize("kind", [model, population_model], ids=["FBS", "FBP"])
def test_rule_12_every_calibrated_total_is_flagged(kind):
    """Stratum totals that were given have no error of their own, nor has any sum of them; all else has."""
    totals = {"01": 9000, "02": 8000, "NA": 12_000, "ökonomie": 500}
    release = released(synthesizer=kind(), population_total=totals)
    table = release.tables(["field", "gender"], statistic=["count", "mean", "total"])
    known = (table["statistic"] == "count") & (table["gender"] == "all")
    assert (table["flag"].str.contains("public total: fixed by construction, without sampling error") == known).all()
    assert (table.loc[known, "se"] == 0).all() and (table.loc[~known, "se"] > 0).all()
    assert not table["flag"].str.contains("calibrated total").any()
    assert table["df"].max() <= 396


@pytest.mark.parametrize("call", [ss.synthesize, ss.fit, ss.privacy_cost])
def test_rule_13_epsilon_is_given_once(call):
    """To the call or to the mechanism, not to both; c1 likewise."""
    with pytest.raises(ss.InputError, match="epsilon is given twice"):
        call(make_design(), model(), epsilon=5, mechanism=ss.PseudoPosterior(epsilon=5))
    by_mechanism = ss.fit(make_design(), model(), mechanism=ss.PseudoPosterior(epsilon=10.8), seed=1)
    assert by_mechanism.delta == ss.fit(make_design(), model(), epsilon=10.8, seed=1, mechanism=PSEUDO).delta
    with pytest.raises(ss.InputError, match="c1 is given twice"):
        ss.privacy_cost(make_design(), model(), c1=0.5, mechanism=ss.PseudoPosterior(c1=0.5))
