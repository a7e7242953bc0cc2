"""Mechanisms through the whole of synthesize: what epsilon is, what it is computed from, and what a policy fixes."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import BSpline

import surveysynth as ss
from surveysynth.models.predictors.model_matrix import predictor_constants
from surveysynth.privacy.budget import Budget
from tests.surveys import PSEUDO

N = 20_000.0
DRAWS = {"chains": 4, "warmup": 500, "draws": 1000}
FAST = DRAWS | {"population_total": N}


def file(n=300, seed=1):
    rng = np.random.default_rng(seed)
    sex, region = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n)
    y = 8 + 0.3 * (sex == "m") + 0.4 * rng.normal(size=n)
    w = np.exp(0.5 * y + 0.3 * rng.normal(size=n))
    return pd.DataFrame({"income": np.exp(y), "sex": sex, "region": region, "w": w})


def design(**changes):
    return ss.SurveyDesign(file(**changes), weights="w")


NORMAL = ss.FBS("income", "sex + region", prior="normal")


@pytest.fixture(scope="module")
def strict():
    return ss.fit(design(), NORMAL, epsilon=9.0, m=3, mechanism=ss.Censored(), seed=1, **FAST)


@pytest.fixture(scope="module")
def policy():
    return ss.Policy.from_historical(
        design(seed=2), NORMAL, epsilon=9.0, m=3, source="survey of 2025", population_total=N, seed=1, **DRAWS
    )


def test_the_public_report_of_a_policy_holds_no_constant_that_was_tuned_on_its_file(policy):
    said = policy.describe()
    numbers = {float(x) for x in re.findall(r"\d+(?:\.\d+)?", said)}
    tuned = (policy.mechanism.c1, policy.delta, policy.mean_alpha)
    assert 2025 in numbers and not {f"{x:.3g}" for x in numbers} & {f"{x:.3g}" for x in tuned}


def test_epsilon_of_a_strict_release_is_the_one_asked_for_whatever_the_file(strict):
    release = strict.release()
    assert (release.privacy.kind, release.privacy.epsilon, strict.delta) == ("strict", 9.0, 1.5)
    assert release.privacy.epsilon_replace_one == 18
    text = str(release.privacy)
    assert "epsilon = 9 (asked for: 9), strict" in text
    assert "replace one record's confidential values: epsilon = 18\n" in text
    assert "Maximum over" not in text and "Monte Carlo stand in for exact draws" in text
    assert "blank one record's confidential values: epsilon = 9\n" in text and "N / n" in text
    assert "add or remove" not in text and "added or removed" not in text
    internal = release.privacy.internal
    assert internal["clamp"] == 1.5 and 0 < internal["invocations"] <= 300
    assert "invocations" not in json.dumps(release.manifest()) and str(internal["invocations"]) not in text


def test_contributions_are_clamped_and_are_those_of_the_records(strict):
    added = strict.contributions(np.arange(300))
    assert np.abs(added).max() == 1.5
    by_hand = strict.synthesizer.log_density(strict.records.subset(np.arange(300)), strict.weighted.posterior)
    np.testing.assert_array_equal(added, np.clip(by_hand, -1.5, 1.5))
    assert (np.abs(by_hand) >= 1.5).any(axis=0).sum() == strict.weighted.invocations


def test_a_release_of_fewer_data_sets_spends_less_and_of_more_is_refused(strict):
    assert strict.release(m=1).privacy.epsilon == 3.0
    with pytest.raises(ss.PrivacyError, match="made for m = 3"):
        strict.release(m=4)


def test_a_record_moves_no_other_record_s_term():
    """Its outcome and weight stand in its own row of the data and nowhere else (n and N are public)."""
    frame = file()
    other = frame.copy()
    other.loc[7, ["income", "w"]] = [1e9, 4000.0]
    a, b = (NORMAL.prepare(ss.SurveyDesign(f, weights="w"), "model", N / 300) for f in (frame, other))
    rest = np.arange(300) != 7
    np.testing.assert_array_equal(a.Y[rest], b.Y[rest])
    np.testing.assert_array_equal(a.X, b.X)
    assert (a.Y[7] != b.Y[7]).all()
    free = [NORMAL.prepare(ss.SurveyDesign(f, weights="w")) for f in (frame, other)]
    assert (free[0].Y[rest, 1] != free[1].Y[rest, 1]).all()  # weights relative to their own mean do move


@pytest.mark.slow
@pytest.mark.parametrize("map", ["inverse", "linear"])
def test_privacy_weights_of_a_policy_depend_on_the_record_alone(map):
    policy = ss.Policy.from_historical(
        design(seed=2), NORMAL, epsilon=9.0, m=3, map=map, source="2025", population_total=N, seed=1, **DRAWS
    )
    frame = file()
    other = frame.copy()
    other.loc[7, ["income", "w"]] = [1e9, 4000.0]
    alpha = []
    for f in (frame, other):
        data = policy.synthesizer.prepare(ss.SurveyDesign(f, weights="w"), "model", N / 300)
        risk = policy.risk(ss.SurveyDesign(f, weights="w"), data)
        alpha.append(policy.mechanism.alpha(risk, policy.mechanism.c1, 1.5, policy.span))
    np.testing.assert_array_equal(np.delete(alpha[0], 7), np.delete(alpha[1], 7))
    assert alpha[1][7] < alpha[0][7]
    assert 0 < alpha[0].min() < alpha[0].max() <= 1


@pytest.mark.slow
def test_release_under_a_policy_is_strict_and_the_policy_survives_its_file(policy, tmp_path):
    path = policy.save(tmp_path / "policy.npz")
    assert os.stat(path).st_mode & 0o777 == 0o600
    again = ss.Policy.load(path)
    assert repr(again) == repr(policy) and again.synthesizer == policy.synthesizer
    release = ss.synthesize(design(), policy=policy, seed=3, **FAST)
    twin = ss.synthesize(design(), policy=again, seed=3, **FAST)
    for one, two in zip(release.datasets, twin.datasets, strict=True):
        pd.testing.assert_frame_equal(one.frame, two.frame)
    assert (release.privacy.kind, release.privacy.epsilon) == ("strict", 9.0)
    assert any("survey of 2025" in line for line in release.privacy.assumptions)
    refused, modes, weight = release.privacy.data_dependent
    assert "modes apart from each other" in modes
    assert "can refuse a file" in refused and "survey weight is a function of public variables" in weight
    # weighted down first, fewer records reach the clamp than with alpha = 1
    unweighted = ss.fit(design(), NORMAL, epsilon=9.0, m=3, mechanism=ss.Censored(), seed=1, **FAST)
    assert release.privacy.internal["invocations"] < unweighted.weighted.invocations / 2
    with pytest.raises(ss.InputError, match="exists"):
        policy.save(path)


def test_a_policy_sets_everything_and_refuses_other_files(policy, tmp_path):
    with pytest.raises(ss.InputError, match=r"epsilon=, m=: the policy sets this"):
        ss.synthesize(design(), policy=policy, epsilon=3, m=2, population_total=N)
    with pytest.raises(ss.InputError, match="a synthesizer: the policy"):
        ss.synthesize(design(), NORMAL, policy=policy, population_total=N)
    frame = file()
    frame.loc[:20, "region"] = "d"
    with pytest.raises(ss.InputError, match=r"new: region d, region\[T.d\]; lacking: none"):
        ss.synthesize(ss.SurveyDesign(frame, weights="w"), policy=policy, population_total=N)
    renamed = file().replace({"region": {"a": "A"}})
    with pytest.raises(ss.InputError, match="new: region A; lacking: region a"):
        ss.synthesize(ss.SurveyDesign(renamed, weights="w"), policy=policy, population_total=N)
    with pytest.raises(ss.InputError, match="made from this very file"):
        shuffled = file(seed=2).sample(frac=1, random_state=1)
        ss.synthesize(ss.SurveyDesign(shuffled, weights="w"), policy=policy, population_total=N)
    with pytest.raises(ss.InputError, match="no function of the predictors, which is not so here"):
        ss.synthesize(ss.SurveyDesign(file().assign(w=60.0), weights="w"), policy=policy, population_total=N)
    with pytest.raises(ss.InputError, match="Policy"):
        ss.synthesize(design(), policy="policy.npz", population_total=N)
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(policy.save(tmp_path / "p.npz").read_bytes()[:-200])
    for path in (damaged, tmp_path / "nothing.npz"):
        with pytest.raises(ss.InputError, match=r"not a policy|not a file"):
            ss.Policy.load(path)


@pytest.mark.parametrize(
    ("changes", "arrays", "match"),
    [
        ({"epsilon": "9"}, {}, r"\(epsilon\)"),
        ({"m": 0, "c1": -1.0}, {}, r"\(m, c1\)"),
        ({"map": "steep"}, {}, r"\(map\)"),
        ({"more": 1}, {}, r"\(more\)"),
        ({"format": "surveysynth policy 2"}, {}, r"\(format\)"),
        ({"synthesizer": {"class": "Path"}}, {}, r"\(KeyError\)"),
        ({}, {"draws_B": np.full((3, 2), np.nan)}, r"\(ValueError\)"),
        ({}, {"draws_B": np.ones((3, 1))}, r"\(ValueError\)"),
        ({}, {"draws_B": np.ones((3, 2), dtype=np.float32)}, r"\(ValueError\)"),
        ({}, {"draws_L": np.ones((3, 2))}, r"\(ValueError\)"),
    ],
    ids=str,
)  # fmt: skip
def test_a_policy_that_was_changed_is_refused_when_it_is_read(changes, arrays, match, tmp_path):
    """And not later, when a release is made under it."""
    policy = ss.Policy(
        synthesizer=NORMAL, epsilon=9.0, m=1, mechanism=ss.Censored(9.0, weighted=True), span=(0.5, 9.0),
        columns=("Intercept",), levels={}, constants={}, public_weights=False, digest=f"{0:032}:{1:064}",
        values={"B": np.ones((3, 2))}, source="2025", delta=2.4, mean_alpha=0.9,
    )  # fmt: skip
    path = policy.save(tmp_path / "policy.npz")
    assert ss.Policy.load(path).values["B"].shape == (3, 2)
    with np.load(path) as stored:
        said, kept = json.loads(str(stored["policy"])), {name: stored[name] for name in stored.files}
    np.savez(path, **kept | {"policy": np.array(json.dumps(said | changes))} | arrays)
    with pytest.raises(ss.InputError, match=f"is not a policy of this version, or is damaged {match}: make it again"):
        ss.Policy.load(path)


@pytest.mark.parametrize(
    "model",
    [
        ss.FBP("income", "region", bands={}),
        ss.FBS(["income"], "region", transform={"income": ss.AsinhTransform(scale=1000.0)}),
        ss.FBS("income", "region", transform=ss.NormalScores(range(100, 28_000, 2000), np.arange(1, 15) / 15, "p")),
        ss.BetaRegression("income", "region", bounds=(0, 1e6)),
        ss.Mixture(
            "income", "region", transform=ss.AsinhTransform(1000.0), zeros=True, components=7, bounds=(-5e3, 1e6)
        ),
        ss.Mixture("income", prior="paper", a_gamma=2.0, least_sd=0.1),
    ],
)
def test_every_model_can_be_kept_in_a_policy(model, tmp_path):
    mechanism, levels = ss.Censored(5.0, weighted=True), {"region": ["a", "b"]}
    policy = ss.Policy(
        synthesizer=model, epsilon=5.0, m=1, mechanism=mechanism, span=(0.5, 9.0), columns=("Intercept",),
        levels=levels, constants={"poly(x, 2)": {"alpha": {0: 1.5, 1: 2.0}, "norms2": [1.0, 0.1]}},
        public_weights=False, digest=f"{0:032}:{1:064}", values={"B": np.ones((3, 2))}, source="2025",
        delta=2.4, mean_alpha=0.9,
    )  # fmt: skip
    again = ss.Policy.load(policy.save(tmp_path / "policy.npz"))
    assert again.synthesizer == model and repr(again.synthesizer) == repr(model)
    assert again.span == (0.5, 9.0) and again.mechanism == policy.mechanism and again.constants == policy.constants
    np.testing.assert_array_equal(again.values["B"], policy.values["B"])


def workers(seed, n=150):
    rng = np.random.default_rng(seed)
    age, tenure = np.round(rng.normal(35 + seed, 10, n)), rng.uniform(0, 30 + seed, n)
    return file(n, seed).assign(age=age, tenure=tenure)


@pytest.mark.slow
def test_a_policy_evaluates_center_and_bs_with_the_values_of_its_historical_file(tmp_path):
    """A record's predictors move its own row and risk, and nobody else's: mean and knots are last year's."""
    past, now = workers(2), workers(9)
    other = now.copy()
    other.loc[7, ["age", "tenure"]] = [90.0, 0.5]
    model = ss.FBS("income", "center(age) + bs(tenure, 5, lower_bound=0, upper_bound=50)", prior="normal")
    few = {"population_total": N / 2, "chains": 2, "warmup": 200, "draws": 100, "seed": 1}
    policy = ss.Policy.from_historical(
        ss.SurveyDesign(past, weights="w"), model, epsilon=9.0, m=1, source="2025", c1=0.7, **few
    )
    policy = ss.Policy.load(policy.save(tmp_path / "policy.npz"))
    before, after = (ss.fit(ss.SurveyDesign(f, weights="w"), policy=policy, **few) for f in (now, other))
    rows = [fit.records.X[fit.records.pattern] for fit in (before, after)]
    rest = np.arange(150) != 7
    np.testing.assert_array_equal(rows[0][rest], rows[1][rest])
    np.testing.assert_array_equal(before.risk[rest], after.risk[rest])
    assert (rows[0][7, 1:3] != rows[1][7, 1:3]).all() and before.risk[7] != after.risk[7]
    np.testing.assert_allclose(rows[0][:, 1], now["age"] - past["age"].mean(), rtol=1e-12)
    inner = np.quantile(past["tenure"], [1 / 3, 2 / 3])  # de Boor's basis by scipy
    splines = BSpline.design_matrix(now["tenure"], np.r_[[0.0] * 4, inner, [50.0] * 4], 3).toarray()
    np.testing.assert_allclose(rows[0][:, 2:], splines[:, 1:], atol=1e-12)
    with pytest.raises(ss.InputError, match=r"not those of the predictors .* make the policy again"):
        ss.fit(ss.SurveyDesign(now, weights="w"), policy=replace(policy, constants={}), **few)
    with pytest.raises(ss.InputError, match=r"beyond its knots bs\(\) has no value"):
        ss.fit(ss.SurveyDesign(now.assign(tenure=51.0), weights="w"), policy=policy, **few)


@pytest.mark.parametrize(
    "model",
    [
        ss.FBP("income", "scale(age)", bands={"age": [30, 50]}),
        ss.BetaRegression("income", "scale(age)", bounds=(0, 1e6)),
        ss.Mixture("income", "scale(age)"),
        ss.NegativeBinomialRegression("visits", "scale(age)"),
    ],
    ids=lambda model: model.name,
)
def test_every_model_takes_the_constants_of_another_file(model):
    past, now = workers(2), workers(9)
    frame = now.assign(w=50.0, visits=np.arange(150) % 7)
    constants = predictor_constants(ss.SurveyDesign(past, weights="w"), model.predictors)
    data = model.prepare(ss.SurveyDesign(frame, weights="w"), "model", 50.0, constants)
    scaled = (now["age"] - past["age"].mean()) / past["age"].std()
    row = data.X[data.row, 1] * getattr(data, "sd", [1, 1])[1] + getattr(data, "mean", [0, 0])[1]
    np.testing.assert_allclose(row, scaled, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "term", ["I(age - age.mean())", "I(age > np.median(age))", "I(age.rank())", "I(center(age) / np.max(age))"]
)
def test_terms_that_look_at_other_records_are_refused_under_a_policy_by_name(term):
    shown = re.escape(term)
    with pytest.raises(ss.InputError, match=rf"own record alone, and {shown} does on others, too: use center\(\)"):
        model = ss.FBS("income", f"sex + poly(tenure, 2) + {term}", prior="normal")
        past = ss.SurveyDesign(workers(2), weights="w")
        ss.Policy.from_historical(past, model, epsilon=9.0, source="2025", population_total=N / 2)


def test_beta_risks_under_a_policy_do_not_depend_on_how_a_file_is_standardized():
    """Coefficients are kept in the predictors' own units: the same record has the same risk in another file."""
    rng = np.random.default_rng(3)

    def survey(n, shift):
        x = rng.normal(shift, 2, n)
        return pd.DataFrame({"y": rng.beta(2, 3, n), "x": np.round(x, 1), "w": 1.0})

    past, now = survey(400, 0.0), survey(300, 5.0)
    model = ss.BetaRegression("y", "x", bounds=(0, 1))
    policy = ss.Policy.from_historical(
        ss.SurveyDesign(past, weights="w"), model, epsilon=5, m=1, source="past", population_total=4000.0, seed=1,
        chains=2, warmup=300, draws=200,
    )  # fmt: skip
    record = pd.DataFrame({"y": [0.4], "x": [1.0], "w": 1.0})
    files = [ss.SurveyDesign(pd.concat([record, f], ignore_index=True), weights="w") for f in (past, now)]
    risks = [policy.risk(file, model.prepare(file))[0] for file in files]
    assert risks[0] == pytest.approx(risks[1], rel=1e-9)


@pytest.mark.slow
def test_a_policy_of_a_mixture_makes_strict_releases_whatever_the_scale_of_the_predictors(tmp_path):
    """Risks under the kept draws are those of the historical file's own densities, also in another file."""
    rng = np.random.default_rng(5)

    def survey(n, shift):
        x = np.round(rng.normal(shift, 2, n), 1)
        wages = np.exp(rng.normal(np.where(rng.random(n) < 0.3, 2.0, 0.0) + 0.1 * (x - shift), 0.4))
        return pd.DataFrame({"y": np.where(rng.random(n) < 0.15, 0.0, wages), "x": x, "w": rng.uniform(40, 80, n)})

    past, now = survey(150, 0.0), survey(120, 5.0)
    model = ss.Mixture("y", "x", zeros=True, components=4, bounds=(0, 1e3))
    few = {"chains": 2, "warmup": 300, "draws": 400, "seed": 1}
    policy = ss.Policy.from_historical(
        ss.SurveyDesign(past, weights="w"), model, epsilon=16, m=1, source="past", population_total=9000.0, c1=0.9,
        **few,
    )  # fmt: skip
    policy = ss.Policy.load(policy.save(tmp_path / "policy.npz"))
    records = pd.DataFrame({"y": [0.0, 1.5, 30.0], "x": [0.5, 1.0, -2.0], "w": 60.0})
    files = [ss.SurveyDesign(pd.concat([records, f], ignore_index=True), weights="w") for f in (past, now)]
    risks = [policy.risk(file, model.prepare(file, mean_weight=60.0))[:3] for file in files]
    np.testing.assert_allclose(risks[0], risks[1], rtol=1e-9)
    draws, log_w = policy.values, 0.0  # the weight is its mean
    expected = []
    for y, x in zip(records["y"], records["x"], strict=True):
        row = np.array([1.0, x])
        odds = draws["zero"] @ row
        mean_w = draws["c"][:, :, :2] @ row
        if y == 0:
            log_p = -np.logaddexp(0, -odds) + stats.norm.logpdf(log_w, mean_w[:, -1], draws["sd_w"][:, -1])
        else:
            of_y = stats.norm.pdf(np.log(y), draws["b"] @ row, draws["sd"])
            of_w = stats.norm.pdf(log_w, mean_w[:, :-1] + draws["c"][:, :-1, 2] * np.log(y), draws["sd_w"][:, :-1])
            log_p = -np.logaddexp(0, odds) + np.log((draws["share"] * of_y * of_w).sum(axis=1))
        expected.append(np.abs(log_p).max())
    np.testing.assert_allclose(risks[0], expected, rtol=1e-9)
    with pytest.raises(ss.InputError, match="no epsilon holds for it, and a policy promises one"):
        ss.Policy.from_historical(
            ss.SurveyDesign(past, weights="w"), replace(model, allocation="posterior"), epsilon=16, source="past",
            population_total=9000.0,
        )  # fmt: skip


def test_weighted_e_cuts_off_and_never_exceeds_epsilon():
    fit = ss.fit(design(), NORMAL, epsilon=7.0, m=2, mechanism=ss.WeightedE(), seed=1, **FAST)
    cut = fit.weighted.alpha == 0
    linear = ss.WeightedE().alpha(fit.risk, 1.0, 1.75)
    np.testing.assert_array_equal(cut, (linear * fit.risk > 1.75) | (linear == 0))
    assert fit.weighted.invocations == (linear * fit.risk > 1.75).sum() > 20
    factor = fit.weighted.alpha[~cut] / linear[~cut]
    np.testing.assert_allclose(factor, factor[0])
    assert 0 < factor[0] < 1 and 0.99 * 1.75 <= fit.delta <= 1.75
    report = fit.release().privacy
    assert report.kind == "asymptotic" and report.epsilon <= 7 and "weight 0" in str(report)


@pytest.mark.slow
def test_censored_with_weights_of_the_file_is_strict_given_alpha_only():
    release = ss.synthesize(design(), NORMAL, epsilon=9.0, mechanism=ss.Censored(weighted=True), seed=1, **FAST)
    assert release.privacy.kind == "strict given alpha"
    assert "computed from this very file" in str(release.privacy)
    said = "privacy weights (map linear of each record's Lipschitz bound"
    assert any(said in line for line in release.privacy.data_dependent)


@pytest.mark.slow
def test_debias_takes_the_clamp_off(strict):
    """Post-processing by public constants; the residual scale, 0.4 in truth, comes back to where it was."""
    release = ss.synthesize(design(), NORMAL, epsilon=9.0, mechanism=ss.Censored(), debias=True, seed=1, **FAST)
    constants = {"covered_by_epsilon": True, "clamp": 1.5}
    assert release.method["debias"] == constants and "the effect of the clamp" in str(release.privacy)
    factor, raw = release.method["variance_factor"], strict.release(m=1).method["variance_factor"]
    assert 1.5 < factor < raw and f"is about {factor:.3g} times the estimated one" in str(release.privacy)
    posterior, every = strict.weighted.posterior, range(0, 4000, 40)
    before = posterior.values["L"][every, 0, 0]
    after = strict.synthesizer.uncensored(strict.records, posterior, every, 1.5).values["L"][:, 0, 0]
    assert before.mean() < 0.85 * 0.4
    assert after.mean() == pytest.approx(0.4, abs=3 * after.std())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"population_total": None}, "needs population_total="),
        ({"unit": "region"}, "clamps record by record"),
        ({"epsilon": None}, "give the privacy budget"),
        ({"mechanism": ss.Censored(9.0)}, "given twice"),
    ],
)
def test_what_the_censored_mechanism_needs(settings, said):
    given = {"epsilon": 9.0, "mechanism": ss.Censored(), "population_total": N} | settings
    with pytest.raises(ss.InputError, match=said):
        ss.synthesize(design(), NORMAL, **({"mechanism": PSEUDO} | given))


@pytest.mark.parametrize("mechanism", [ss.Censored(9.0, weighted=True), ss.WeightedE(9.0, map="inverse")])
def test_debias_needs_constants_that_can_be_published(mechanism):
    with pytest.raises(ss.InputError, match="debias corrects for"):
        ss.synthesize(design(), NORMAL, mechanism=mechanism, population_total=N, debias=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ss.Censored(-1), lambda: ss.Censored(3, weighted="yes"), lambda: ss.Censored(3, map="no"),
        lambda: ss.WeightedE(3, c1=None), lambda: ss.WeightedE(3, c1=0), lambda: ss.WeightedE(3, c2=2),
    ],
)  # fmt: skip
def test_constants_out_of_range(make):
    with pytest.raises(ss.InputError):
        make()


@settings(derandomize=True)
@given(epsilon=st.integers(1, 3000).map(lambda cents: cents / 100), m=st.integers(1, 20))
@example(epsilon=14.37, m=3)
@example(epsilon=6.03, m=3)
def test_m_draws_at_the_clamp_never_exceed_epsilon_by_rounding(epsilon, m):
    bound = Budget(epsilon, m).bound
    assert 2 * bound * m <= epsilon and bound == pytest.approx(epsilon / (2 * m), rel=1e-15)
    assert 2 * np.nextafter(np.nextafter(bound, 9e9), 9e9) * m > epsilon


def test_a_strict_release_accepts_no_failed_chains(strict):
    with pytest.raises(ss.InputError, match="exact draws"):
        strict.release(accept_diagnostics=["rhat"])


@pytest.mark.slow
def test_who_lacks_an_outcome_is_said_without_their_weights_and_policies_leave_them_out(policy):
    frame = file()
    frame.loc[[3, 50], "income"] = np.nan
    model = ss.FBS("income", "sex + region", prior="normal", missing="drop")
    fit = ss.fit(ss.SurveyDesign(frame, weights="w"), model, epsilon=9.0, mechanism=ss.Censored(), seed=1, **FAST)
    said = next(line for line in fit.release().privacy.assumptions if "had no outcome" in line)
    assert "2 of 300 records had" in said and "%" not in said
    past = file(seed=2)
    past.loc[5, "income"] = np.nan
    made = ss.Policy.from_historical(
        ss.SurveyDesign(past, weights="w"), model, epsilon=9.0, source="2025", population_total=N, seed=1, **DRAWS
    )
    assert made.mechanism.c1 == pytest.approx(policy.mechanism.c1, rel=0.3)


def test_draws_of_later_releases_keep_away_from_earlier_ones(strict):
    """What one fit releases, at one time or another, is separated within its chain."""
    fit = replace(strict, used=[], spent=[])
    for _ in range(12):
        fit.release(m=1)
    used = np.sort(fit.used)
    gaps = [np.diff(used[used // 1000 == chain]).min() for chain in range(4) if (used // 1000 == chain).sum() > 1]
    assert min(gaps) >= 1000 // (4 * 12)


def test_the_ledger_is_asked_before_anything_is_drawn(strict, tmp_path):
    ledger = ss.Ledger(tmp_path / "ledger.jsonl", "income survey", cap=10.0, create=True)
    used = list(strict.used)
    strict.release(m=1, ledger=ledger)
    with pytest.raises(ss.PrivacyError, match="cap"):
        strict.release(m=3, ledger=ledger)
    assert ledger.spent == (3, 6) and len(strict.used) == len(used) + 1
    entry = ledger.entries().iloc[0]
    assert entry["kind"] == "strict" and "FBS" in entry["what"]
