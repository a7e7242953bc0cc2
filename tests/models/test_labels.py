"""Outcomes that are categories, and design variables that are not public, in FBS and FBP and in their releases."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from surveys import make_frame, model, population_model
from test_clustered import normal_with_effects

import surveysynth as ss
from surveysynth.engines import get_engine
from surveysynth.models.draws import Sampler
from tests.surveys import PSEUDO

DECLARED = {"mechanism": PSEUDO, "levels": {"disabled": [0, 1]}}


def labelled_frame(n=600, seed=7):
    """Employment (ordered categories) depends on gender; disability (0 / 1) lowers income and raises the weight."""
    rng = np.random.default_rng(seed)
    frame = make_frame(n, seed)
    woman = (frame["gender"] == "f").to_numpy()
    at = (rng.random(n) > np.where(woman, 0.5, 0.7)).astype(int) + (rng.random(n) > 0.85)
    frame["employment"] = pd.Categorical.from_codes(at, ["full", "part", "none"], ordered=True)
    frame["disabled"] = (rng.random(n) < 0.2).astype(int)
    frame["income"] *= np.exp(-0.5 * frame["disabled"] - 0.2 * at)
    frame["wt"] *= np.exp(0.3 * frame["disabled"])
    return frame


def labelled(frame=None, **roles):
    return ss.SurveyDesign(labelled_frame() if frame is None else frame, **({"weights": "wt"} | roles))


def both(predictors="gender", make=ss.FBS, **settings):
    return make(["C(employment)", "income", "C(disabled)"], predictors, **({"prior": "flat"} | settings))


def fitted(design, synthesizer, draws=30, seed=1):
    data = synthesizer.prepare(design)
    sampler = Sampler(lambda: get_engine("embedded"), np.random.default_rng(seed), 1, 0, draws)
    return data, synthesizer.fit(data, np.random.default_rng(2).uniform(0.3, 1, design.n), sampler)


@pytest.mark.parametrize("make", [ss.FBS, ss.FBP])
def test_the_density_of_a_record_is_the_share_of_its_category_times_the_normal(make):
    frame = labelled_frame()
    design, synthesizer = labelled(frame), both(make=make)
    data, posterior = fitted(design, synthesizer)
    cell = (frame["gender"] == "m").to_numpy().astype(int)
    k = 2 * frame["employment"].cat.codes.to_numpy() + frame["disabled"].to_numpy()
    Y = np.log(frame[["income", "wt"]].to_numpy() / [1, frame["wt"].mean()])
    X = np.column_stack([np.ones(600), cell, *(frame["employment"] == e for e in ("part", "none")), frame["disabled"]])
    assert data.columns == (
        "Intercept", "gender[T.m]", "C(`employment`)[T.part]", "C(`employment`)[T.none]", "C(`disabled`)[T.1]"
    )  # fmt: skip
    expected = np.empty((posterior.size, 600))
    for s in range(posterior.size):
        v = {name: draws[s] for name, draws in posterior.values.items()}
        expected[s] = v["log_shares"][cell, k] + multivariate_normal(np.zeros(2), v["L"] @ v["L"].T).logpdf(
            Y - X @ v["B"]
        )
    np.testing.assert_allclose(np.exp(posterior.values["log_shares"]).sum(axis=2), 1, rtol=1e-12)
    expected += Y[:, 1] if make is ss.FBP else 0.0
    some = np.random.default_rng(0).permutation(600)[:40]
    np.testing.assert_allclose(
        synthesizer.log_density(data.subset(some), posterior), expected[:, some], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(synthesizer.lipschitz(data, posterior), np.abs(expected).max(axis=0), rtol=1e-9)
    alpha = np.random.default_rng(1).uniform(-1, 1, 600)
    np.testing.assert_allclose(synthesizer.log_likelihood(data, alpha, posterior), expected @ alpha, rtol=1e-9)


def test_synthetic_records_follow_the_shares_and_the_rows_of_their_own_categories():
    design, synthesizer = labelled(labelled_frame(3000)), both()
    data, posterior = fitted(design, synthesizer, draws=2)
    posterior = posterior.subset([0], {"L": 1e-7 * posterior.values["L"][:1]})
    rng, cell = np.random.default_rng(4), (design.frame["gender"] == "m").to_numpy().astype(int)
    shares, seen = np.exp(posterior.values["log_shares"][0]), np.zeros((2, 6))
    for _ in range(40):
        synthetic = next(synthesizer.simulations(data, posterior, [0], rng))
        employment, disabled = synthetic.labels["employment"], synthetic.labels["disabled"].to_numpy()
        at = employment.cat.codes.to_numpy()
        np.add.at(seen, (cell, 2 * at + disabled), 1)
        X = np.column_stack([np.ones(3000), cell, at == 1, at == 2, disabled])
        np.testing.assert_allclose(np.log(synthetic.outcomes[:, 0]), X @ posterior.values["B"][0, :, 0], atol=1e-4)
    expected = shares * seen.sum(axis=1, keepdims=True)
    chi2 = ((seen - expected) ** 2 / expected).sum()
    assert chi2 < 37  # 10 degrees of freedom, 1 in 20,000
    assert employment.dtype == design.frame["employment"].dtype and synthetic.labels["disabled"].dtype == np.int64


@pytest.mark.slow
def test_a_release_has_the_categories_and_tables_by_them(tmp_path):
    frame = labelled_frame(4000)
    design = labelled(frame)
    release = ss.synthesize(
        design, both(), epsilon=30, m=3, seed=1, population_total=frame["wt"].sum(), **DECLARED
    )
    assert [list(d.frame) for d in release.datasets] == [["gender", "employment", "income", "disabled", "wt"]] * 3
    table = release.tables(by="gender")
    assert set(table["statistic"]) == {"count", "mean", "proportion"}
    shares = table[table["statistic"] == "proportion"].groupby(["gender", "outcome"])["estimate"].sum()
    np.testing.assert_allclose(shares, 1, rtol=1e-12)
    confidential = ss.estimate(design, ["employment", "disabled"], "gender", "proportion")
    mine = table[table["statistic"] == "proportion"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        mine[["gender", "outcome", "category"]], confidential[["gender", "outcome", "category"]], check_dtype=False
    )
    apart = (mine["estimate"] - confidential["estimate"]).abs()
    assert (apart < 4 * np.hypot(mine["se"], confidential["se"])).all()
    by_status = release.tables(by=["employment"])
    assert list(by_status["employment"])[:4] == ["full", "part", "none", "all"]  # in the order of the categories
    counts = by_status[by_status["statistic"] == "count"]["estimate"]
    assert counts[:3].sum() == pytest.approx(counts[3]) == pytest.approx(frame["wt"].sum())
    assert set(by_status[by_status["statistic"] == "proportion"]["outcome"]) == {"disabled"}
    back = ss.read_release(release.write(tmp_path / "r"))
    assert back.categorical == ("employment", "disabled") and back.manifest() == release.manifest()
    pd.testing.assert_frame_equal(back.tables(by="employment"), by_status, check_dtype=False)
    assert "6 categories, multinomial within 2 cells" in str(release.privacy)
    assert release.method["corrected"]["what"] == ["the shares of categories"]


def test_a_private_design_variable_may_be_in_the_formula():
    frame = labelled_frame()
    synthesizer = both("gender + C(disabled):gender + employment")
    assert synthesizer.predictor_columns == ("gender",)
    data = synthesizer.prepare(labelled(frame))
    assert len(data.X) == 12 and "gender" not in synthesizer.categorical
    release = ss.synthesize(labelled(frame), synthesizer, epsilon=40, m=2, seed=1, public=["gender"], **DECLARED)
    assert release.predictors == ("gender",)
    with pytest.raises(ss.InputError, match="income: an outcome cannot be a predictor"):
        both("gender + income").prepare(labelled(frame))


@pytest.mark.slow
def test_categories_alone_with_a_public_weight_and_with_a_synthetic_one():
    frame = labelled_frame().assign(one=10.0)
    for weights, columns in (("wt", 1), ("one", 0)):
        for make in (ss.FBS, ss.FBP):
            synthesizer = make("C(disabled)", "field + gender", prior="flat")
            fit = ss.fit(
                labelled(frame, weights=weights), synthesizer, epsilon=20, m=2, seed=1, **DECLARED
            )
            assert fit.records.Y.shape == (600, columns)
            table = fit.release().tables(by="field")
            assert table[table["statistic"] == "proportion"]["estimate"].between(0, 1).all()
            assert set(table["statistic"]) == {"count", "proportion"}


@pytest.mark.slow
def test_data_sets_may_lack_a_rare_category():
    frame = labelled_frame()
    frame["disabled"] = (np.arange(600) % 150 == 0).astype(int)
    synthesizer = ss.FBS(["C(disabled)", "income"], "field", prior="flat")
    release = ss.synthesize(labelled(frame), synthesizer, epsilon=60, m=6, seed=3, **DECLARED)
    rare = [(d.frame["disabled"] == 1).sum() for d in release.datasets]
    table = release.tables(by=["field", "disabled"])
    cells = [d.frame.groupby(["field", "disabled"]).ngroups for d in release.datasets]
    assert min(cells) < max(cells) <= 8, "the case that this test is for"
    counts = table[table["statistic"] == "count"].set_index(["field", "disabled"])
    assert counts.loc[("all", 1), "n"] == min(rare)
    cells = counts[["all" not in pair for pair in counts.index]]
    assert cells["estimate"].sum() == pytest.approx(frame["wt"].sum())


@pytest.mark.slow
def test_shares_and_counts_recover_from_privacy_weights_that_press_on_rare_categories():
    """One record in ten is disabled: it is riskier, and weighted down; over 30 files the mean share is the truth's."""
    truth, shares, raw = 0.1, [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        frame = make_frame(1000, seed).assign(disabled=(rng.random(1000) < truth).astype(int))
        design = labelled(frame)
        fit = ss.fit(
            design,
            ss.FBS(["C(disabled)", "income"], "gender", prior="flat"),
            epsilon=10.8,
            m=3,
            seed=seed,
            **DECLARED,
        )
        raw.append(np.exp(fit.weighted.posterior.values["log_shares"][:, :, 1]).mean())
        shares.append(np.mean([d.frame["disabled"].mean() for d in fit.release().datasets]))
    error = np.std(shares) / np.sqrt(30)
    assert np.mean(raw) < 0.08
    assert abs(np.mean(shares) - truth) < 3.5 * error + 0.004


# ---- doors


def test_missing_categories_are_refused_or_dropped():
    frame = labelled_frame()
    frame.loc[[4, 9], "employment"] = np.nan
    with pytest.raises(ss.InputError, match=r"outcome 'employment' is missing in 2 rows \(row numbers 5, 10;"):
        both().prepare(labelled(frame))
    release = ss.synthesize(labelled(frame), both(missing="drop"), epsilon=40, m=1, seed=1, **DECLARED)
    assert release.datasets[0].n == 598


def test_an_identifier_is_no_category():
    frame = labelled_frame().assign(name=lambda f: "person " + f["id"].astype(str))
    with pytest.raises(ss.InputError, match=r"'name'.*names of categories are published"):
        ss.FBS("C(name)", "gender", prior="flat").prepare(labelled(frame))


def test_a_category_has_no_name_that_tables_need():
    frame = labelled_frame().rename(columns={"disabled": "flag"})
    with pytest.raises(ss.InputError, match="flag: tables have columns of that name"):
        ss.synthesize(
            labelled(frame), ss.FBS("C(flag)", "gender", prior="flat"), epsilon=10, mechanism=PSEUDO,
            levels={"flag": [0, 1]},
        )  # fmt: skip


def test_transforms_are_of_numbers():
    with pytest.raises(ss.InputError, match="numeric outcomes"):
        both(transform={"income": "log", "employment": "log"})
    both(transform={"income": "log"})


@pytest.mark.parametrize("text", ["C(disabled)", " C( disabled )", "C(`disabled`)"])
def test_the_ways_to_write_a_category(text):
    assert ss.FBS(text, "gender", prior="flat").categorical == ("disabled",) == model().categorical or (
        ss.FBS(text, "gender", prior="flat").outcomes == ("disabled",)
    )


@pytest.mark.slow
def test_numbers_of_many_values_make_no_cells_and_the_report_says_so():
    frame = labelled_frame()
    release = ss.synthesize(labelled(frame), both("gender + hours"), epsilon=60, m=1, seed=1, **DECLARED)
    assert "categories do not depend on hours" in str(release.privacy)


def test_population_weights_and_smoothed_ones_agree_on_counts_of_categories():
    release = ss.synthesize(
        labelled(labelled_frame(2000)), both(make=ss.FBP), epsilon=30, m=2, seed=1, **DECLARED
    )
    for data, counts in zip(release.datasets, release.count_designs(), strict=True):
        by = [data.frame["gender"], data.frame["employment"], data.frame["disabled"]]
        ours, theirs = (pd.Series(d.weights).groupby(by, observed=True).sum() for d in (data, counts))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    assert population_model().categorical == ()


def test_statistics_go_to_the_outcomes_that_have_them():
    release = ss.synthesize(labelled(), both(), epsilon=60, m=2, seed=1, **DECLARED)
    shares = release.tables(by="gender", statistic="proportion")
    assert set(shares["outcome"]) == {"employment", "disabled"}
    assert set(release.tables(statistic=["mean", "count"])["outcome"]) == {"income", ""}
    with pytest.raises(ss.InputError, match="not a number"):
        release.tables(outcome="employment", statistic="mean")
    apart = release.differences({"employment": ("full", "none")}, by="gender")
    assert set(apart["outcome"]) == {"income"}
    apart = release.differences({"disabled": (1, 0)}, outcome="employment", statistic="proportion")
    assert apart.groupby("contrast")["estimate"].sum().abs().max() < 1e-12
    with pytest.raises(ss.InputError, match="public= names income"):
        ss.synthesize(labelled(), both(), epsilon=60, public=["gender", "income"], **DECLARED)


@pytest.mark.slow
def test_effects_of_psus_on_numbers_are_integrated_out_and_those_on_categories_given():
    frame = labelled_frame(600).assign(psu=np.arange(600) % 30)
    synthesizer = ss.FBS(["C(disabled)", "income"], "gender", prior="flat")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ss.fit(labelled(frame, psu="psu"), synthesizer, epsilon=40, m=2, seed=1, draws=300, **DECLARED)
    posterior, data = fit.weighted.posterior, fit.records
    assert posterior.integrated and posterior.effects["tilt"].shape == (1200, 30, 2)
    some = posterior.subset([3, 900], {})
    alpha, psu, k = np.random.default_rng(0).uniform(0.2, 1, 600), frame["psu"].to_numpy(), frame["disabled"].to_numpy()
    cell = (frame["gender"] == "m").to_numpy().astype(int)
    ours = synthesizer.lipschitz(data, some, alpha=alpha)
    for i in range(0, 600, 40):
        log_p = []
        for s in range(2):
            everybody = np.flatnonzero(psu == psu[i])
            both_of = [normal_with_effects(data, some, s, e, alpha) for e in (everybody, everybody[everybody != i])]
            odds = np.exp(some.values["log_shares"][s][cell[i]] + some.effects["tilt"][s][psu[i]])
            log_p.append((both_of[0] - both_of[1]) / alpha[i] + np.log(odds[k[i]] / odds.sum()))
        assert ours[i] == pytest.approx(np.abs(log_p).max(), rel=1e-7)
    release = fit.release(accept_diagnostics=["rhat", "ess_bulk", "ess_tail"])
    assert release.method["corrected"]["what"] == ["the spread between PSUs", "the shares of categories"]
    assert "effects on the log odds" in str(release.privacy)
