"""Strict(): its bound on exact grids, wrong variants, the budget, what it says and what it refuses."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.models.shared import clipped_fit
from surveysynth.models.shared.clipped_fit import NARROW, Density, clipped_target, straight
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms.strict import first_epsilon, refuse_modes, scores_epsilon
from tests.surveys import make_frame

NASTY = np.array([0.0, 1.0, -1.0, 10.0, -10.0, 1e3, 1e6])
SCORES = ss.NormalScores([5_000, 20_000, 40_000, 80_000, 300_000], [0.02, 0.2, 0.5, 0.8, 0.98], "a made-up table")
STRICT = {"epsilon": 9.0, "m": 2, "population_total": 22_000, "mechanism": ss.Strict(), "seed": 1}


def make_design(n=400, seed=3):
    return ss.SurveyDesign(make_frame(n, seed), weights="wt")


def model(**settings):
    return ss.FBS("income ~ gender", transform=SCORES, **settings)


@pytest.fixture(scope="module")
def fitted():
    return ss.fit(make_design(), model(), **STRICT)


@pytest.fixture(scope="module")
def release(fitted):
    return fitted.release()


def with_tempering(target, total):
    """As if C_B counted so many records."""
    return replace(target, parts=(replace(target.parts[0], tempering=np.full(1, total)),))


def normalized(y, a, B, centre=0.0, with_constant=True):
    """Log of the posterior of (mean, log sd) on a grid within the confined set, from the package's target."""
    one, n = np.ones((1, 1)), len(y)
    reference = Density(np.full((1, 1), centre), np.eye(1), **straight(1, 1))
    target = clipped_target(one, np.zeros(n, dtype=np.intp), y[:, None], reference, np.asarray(a), B, NARROW, False)
    if not with_constant:
        target = with_tempering(target, 1e-12)
    at = target.function()
    grid = [np.array([m, d]) for m in np.linspace(-3, 3, 25) for d in np.linspace(-0.45, 0.45, 7)]
    log_p = np.array([at(point)[0] for point in grid])
    return log_p - np.logaddexp.reduce(log_p)


def largest_ratio(files, **how):
    """max over pairs of files of the range of the log ratio of their posteriors' probabilities."""
    posteriors = [normalized(y, **how) for y in files]
    return max(np.abs(p - q).max() for p in posteriors for q in posteriors)


def test_replacing_one_record_moves_no_probability_by_more_than_twice_epsilon():
    """Nearly attained, with values as far apart as they can be."""
    b, B = 0.3, 1.0
    files = [np.append([0.3, -0.5, 0.1, 4.0], value) for value in NASTY]
    found = largest_ratio(files, a=np.full(5, b / B), B=B)
    assert found <= 4 * b
    assert found > 1.5 * b


def test_blanking_one_record_moves_no_probability_by_more_than_epsilon():
    """Its term is left out; C_B, which is public, stays: a record of a = 0 beside the same sum of a."""
    b, B = 0.3, 1.0
    kept, worst = np.array([0.3, -0.5, 0.1, 4.0]), 0.0
    a = np.full(5, b / B)

    def posterior(y, taking_part):
        one = np.ones((1, 1))
        reference = Density(np.zeros((1, 1)), np.eye(1), **straight(1, 1))
        target = clipped_target(one, np.zeros(5, dtype=np.intp), y[:, None], reference, a * taking_part, B, NARROW,
                                False)  # fmt: skip
        at = with_tempering(target, a.sum()).function()
        log_p = np.array([at(np.array([m, d]))[0] for m in np.linspace(-3, 3, 25) for d in np.linspace(-0.45, 0.45, 7)])
        return log_p - np.logaddexp.reduce(log_p)

    blank = posterior(np.append(kept, 0.0), np.array([1, 1, 1, 1, 0.0]))
    for value in NASTY:
        worst = max(worst, np.abs(posterior(np.append(kept, value), np.ones(5)) - blank).max())
    assert worst <= 2 * b
    assert worst > 0.75 * b


def test_wrong_variants_exceed_the_bound():
    """A clamp without tempering; a reference that is fitted on the file, the record among them."""
    b, B = 0.3, 1.0
    files = [np.append([0.3, -0.5, 0.1, 4.0], value) for value in NASTY]
    assert largest_ratio(files, a=np.ones(5), B=B) > 4 * b
    # a reference at the file's mean: its confined set, and all that is released, lies within 3 sd of that
    assert np.ptp([y.mean() for y in files]) > 6


def test_of_units_every_record_counts_by_their_number():
    """A unit of k records with a / k each: all of them replaced at once move no more than one record does."""
    b, B, k = 0.3, 1.0, 3
    a = np.concatenate([np.full(3, b / B), np.full(k, b / B / k)])
    files = [np.concatenate([[0.3, -0.5, 0.1], np.full(k, value)]) for value in NASTY]
    found = largest_ratio(files, a=a, B=B)
    assert 1.5 * b < found <= 4 * b
    single = np.full(6, b / B)  # without the division
    assert largest_ratio(files, a=single, B=B) > 4 * b


def test_a_membership_attack_wins_no_more_than_epsilon_lets_it():
    """By brute force: the posterior without the record, total variation over both."""
    b, B = 0.5, 1.0
    with_it = np.exp(normalized(np.array([0.2, -0.3, 0.4, 9.0]), a=np.full(4, b / B), B=B))
    without = np.exp(normalized(np.array([0.2, -0.3, 0.4]), a=np.full(3, b / B), B=B))
    distance = np.abs(with_it - without).sum() / 2
    # the constant of the record that is left out changes with it here: replacing is what holds, at 4 b
    assert distance <= np.tanh(4 * b / 2)
    assert distance > 0.01


def test_the_parts_of_the_budget_add_up_to_epsilon(release):
    report = release.privacy
    assert (report.kind, report.epsilon, report.epsilon_replace_one) == ("strict", 9.0, 18.0)
    assert report.internal["epsilon_exact"] <= 9.0
    assert report.internal["epsilon_exact"] == pytest.approx(9.0)
    first = first_epsilon(2 * 2 + 3 + 2, 400, Budget(9.0, 2))  # coefficients, covariance, curvature
    assert report.internal["delta"] == pytest.approx((9.0 - first) / 4)
    assert f"{first:.3g}" in str(report)
    assert "blanking any one record's outcome and weight" in report.guarantee
    assert list(report.neighbours) == [f"{what} one record's confidential values" for what in ("blank", "replace")]


def test_a_second_release_from_one_fit_says_the_first_draw_and_a_ledger_counts_it_once(fitted, release, tmp_path):
    before, second = fitted.epsilon_spent, fitted.release(m=1)
    first = sum(epsilon for _, epsilon in fitted.budget.parts)
    leading = 2 * fitted.delta  # the first data set of the first release, against which the others are measured
    assert fitted.draws.led and 0 in fitted.used[:2]
    assert second.privacy.internal["epsilon_exact"] == pytest.approx(first + leading + 2 * fitted.delta, abs=1e-3)
    assert second.privacy.epsilon == pytest.approx(first + leading + 2 * fitted.delta, abs=0.01)
    assert f"epsilon = {second.privacy.epsilon:g} is of all that the files rest on" in str(second.privacy)
    assert fitted.epsilon_spent == pytest.approx(before + 2 * fitted.delta)
    both, alone = (ss.Ledger(tmp_path / name, "survey", create=True) for name in ("both", "alone"))
    for ledger, releases in ((both, (release, second)), (alone, (second,))):
        for each in releases:
            epsilon = each.privacy.epsilon
            ledger.spend(epsilon, 2 * epsilon, kind="strict", what="x", rests_on=each.rests_on)
    assert float(both.spent.blank) == pytest.approx(9 + second.privacy.epsilon - first - leading, abs=1e-3)
    assert float(alone.spent.blank) == second.privacy.epsilon


def test_epsilon_of_the_first_draw_goes_by_parameters_and_records():
    """27 p / n, .25 at least, and no more than 30% of the whole."""
    assert first_epsilon(31, 2000, Budget(5.0, 4)) == pytest.approx(27 * 31 / 2000)
    assert first_epsilon(5, 10_000, Budget(5.0, 4)) == 0.25
    assert first_epsilon(5, 10_000, Budget(5.0, 4), tailed=True) == 0.5
    with pytest.raises(ss.PrivacyError, match=r"31 parameters and 500 records need epsilon = 1.7 .* epsilon = 5.6 or"):
        first_epsilon(31, 500, Budget(5.0, 4))


def test_a_budget_that_leaves_room_for_a_second_mode_is_refused_by_public_numbers():
    """And the epsilon that is named is enough."""
    refuse_modes(Budget(5.0, 4), 2000, 2, 31)
    with pytest.raises(ss.PrivacyError, match="fewer data sets") as refused:
        refuse_modes(Budget(1.0, 3), 400, 2, 31)
    enough = float(re.search(r"ask for epsilon = ([\d.]+)", str(refused.value))[1])
    assert enough > 1
    refuse_modes(Budget(1.05 * enough, 3), 400, 2, 31)


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.33, 1.93), (1.0, 1.45), (3.6, 1.29)])
def test_the_expected_accuracy_is_near_what_was_simulated(epsilon, ratio):
    """One number a record, a reference near the truth, m = 3, 200 samples of 2,000 by an earlier prototype."""
    expected = ss.expected_se(2000, 2, 3 * epsilon, 3, numbers=1, reference=True, scores=False)
    assert expected == pytest.approx(ratio, rel=0.06)


def test_the_expected_accuracy_names_what_would_be_refused():
    assert ss.expected_se(2000, 31, 5) > ss.expected_se(2000, 31, 5, reference=True, scores=False) > 1
    with pytest.raises(ss.PrivacyError, match="need epsilon = "):
        ss.expected_se(2000, 31, 1)
    with pytest.raises(ss.PrivacyError, match="room for more than one mode"):
        ss.expected_se(2000, 31, 0.5, reference=True)


@pytest.mark.parametrize(
    ("synthesizer", "settings", "message"),
    [
        (ss.Mixture("income ~ gender", weight="public"), {}, "give Mixture public bounds="),
        (ss.GammaRegression("income ~ gender"), {}, "nothing public says where income lies"),
        (ss.GammaRegression("income ~ gender", bounds=(1, 9)), {"bounds": (1, 9)}, "bounds are given twice"),
        (model(), {"accept_diagnostics": ["rhat"]}, "leave accept_diagnostics out"),
        (model(), {"reweight": 1}, "re-weighting raises privacy weights"),
        (model(), {"debias": True}, "debias corrects for"),
        (model(), {"population_total": None}, "a strict guarantee needs population_total="),
        (ss.FBS("income ~ gender"), {"mechanism": ss.Strict()}, "public, or an earlier release"),
        (model(), {"bounds": (0, 1e6)}, "leave one of them out"),
        (ss.Mixture("income ~ gender", weight="public"), {"bounds": (0, 1)}, "lower bound of 'income' has no log"),
        (ss.FBS("income ~ gender"), {"bounds": (5, 5), "m": 4}, "lowest below the highest"),
        (ss.FBS("income ~ gender"), {"bounds": {"wage": (0, 5)}, "m": 4}, "the outcome is 'income'"),
    ],
)
def test_what_it_cannot_have_is_refused_with_what_to_do(synthesizer, settings, message):
    frame = make_frame()
    design = ss.SurveyDesign(frame.assign(employed=np.where(frame["hours"] > 40, "yes", "no")), weights="wt")
    with pytest.raises((ss.InputError, ss.ModelError), match=message):
        ss.synthesize(design, synthesizer, **(STRICT | settings))


@pytest.mark.parametrize(
    ("roles", "synthesizer", "message"),
    [
        ({"strata": "field"}, model(), "put the strata into the formula"),
        ({"psu": "school"}, model(zeros=True), "not modelled under Strict"),
        ({"psu": "school"}, ss.FBS("income + C(k) ~ gender", transform=SCORES), "not modelled under Strict"),
    ],
)
def test_effects_that_it_does_not_have_are_refused(roles, synthesizer, message):
    frame = make_frame()
    frame = frame.assign(school=np.arange(len(frame)) // 10, k=frame["id"] % 3 == 0)
    design = ss.SurveyDesign(frame, weights="wt", **roles)
    with pytest.raises(ss.ModelError, match=message):
        ss.synthesize(design, synthesizer, **STRICT)


@pytest.mark.parametrize("option", [{"prior": "reference"}, {"weight": "curved"}, {"zeros": True}])
def test_what_belongs_to_it_is_refused_elsewhere(option):
    with pytest.raises(ss.ModelError, match=r"goe?s? with mechanism=Strict\(\)"):
        ss.synthesize(make_design(), model(**option), epsilon=9, mechanism=ss.PseudoPosterior())


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({}, ["epsilon=", "population_total=", "bounds=(lowest, highest) of income"]),
        ({"epsilon": 5, "population_total": 2e4}, ["bounds=(lowest, highest) of income"]),
        ({"epsilon": 5, "bounds": (0, 1e6)}, ["population_total="]),
    ],
)
def test_what_the_default_needs_is_said_at_the_door(settings, lacking):
    with pytest.raises(ss.InputError, match="releases are strict unless mechanism= says otherwise") as refused:
        ss.synthesize(make_design(), "income ~ gender", **settings)
    said = str(refused.value)
    assert [name for name in ("epsilon=", "population_total=", "bounds=") if name in said.split("Or say")[0]] == [
        name.split("=")[0] + "=" for name in lacking
    ]
    assert all(name in said for name in lacking) and "mechanism=PseudoPosterior()" in said


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [4, 8])
def test_a_rare_level_of_a_predictor_does_not_stop_a_release(epsilon):
    """40 of 8,000 records: their mean has a standard error of its own, and intervals hold those of the file."""
    rng, n = np.random.default_rng(1), 8_000
    region, age = rng.choice(["east", "north", "west"], n, p=[0.5, 0.3, 0.2]).astype(object), rng.integers(1, 4, n)
    e = rng.standard_normal(n)
    pay = np.exp(9 + 0.3 * (region == "east") + 0.1 * age + 0.6 * e)
    w = 25 * np.exp(0.2 * (region == "west") - 0.1 * e + 0.4 * rng.standard_normal(n))
    region[rng.choice(n, 40, replace=False)] = "far"
    design = ss.SurveyDesign(pd.DataFrame({"region": region, "age": age, "pay": pay, "w": w}), weights="w")
    for seed in (1, 2):
        settings = {"bounds": (0, 200_000), "population_total": w.sum(), "m": 4, "seed": seed}
        release = ss.synthesize(design, "pay ~ region + C(age)", epsilon=epsilon, **settings)
        of = {"by": "region", "statistic": "mean"}
        table, own = release.tables(**of), ss.estimate(design, "pay", **of)
        assert (np.abs(table["estimate"] - own["estimate"]) / table["se"]).max() < 4


@pytest.mark.slow
def test_without_a_mechanism_a_fit_is_strict():
    """The parts: scores, first draw, draws."""
    settings = {name: value for name, value in STRICT.items() if name != "mechanism"} | {"population_total": 43_000}
    done = ss.fit(make_design(n=800), "income ~ gender", bounds=(0, 1_000_000), **settings).release()
    assert done.privacy.kind == "strict"
    first = first_epsilon(9, 800, Budget(9.0, 2))
    of_scores = scores_epsilon(Budget(9.0, 2), 800, 1, 2)
    assert done.privacy.internal["delta"] == pytest.approx((9.0 - of_scores - first) / 4)
    y = done.datasets[0].frame["income"]
    assert 0 <= y.min() <= y.max() <= 1_000_000
    mean = (w := done.datasets[0].weights) / w.mean()
    assert 0.04 < mean.min() <= mean.max() < 60  # public limits of weights, before the mean is set to N / n


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ss.FBS, ss.FBP])
def test_zeros_are_an_outcome_of_their_own(kind):
    """Shares of zeros and means of all near the file's; the histogram of scores knows amounts alone."""
    frame, rng = make_frame(1500), np.random.default_rng(1)
    frame.loc[rng.random(1500) < 0.2 + 0.3 * (frame["gender"] == "m"), "income"] = 0.0
    design = ss.SurveyDesign(frame, weights="wt")
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    done = ss.synthesize(design, kind("income ~ gender", prior="flat", zeros=True), **settings)
    here, there = done.tables("gender", statistic="mean"), ss.estimate(design, "income", "gender", "mean")
    assert (np.abs(here["estimate"] - there["estimate"]) < 4 * np.hypot(here["se"], there["se"])).all()

    def shares(frame):
        return frame["income"].eq(0).groupby(frame["gender"]).mean()

    share = shares(frame)
    np.testing.assert_allclose(np.mean([shares(d.frame) for d in done.datasets], axis=0), share, atol=0.1)
    assert sum(done.method["private_scores"]["income"]["counts"]) < 1300
    assert "zeros are an outcome of their own" in str(done.privacy)
    kept = ss.Reference.from_release(done)
    settings = {"epsilon": 5, "m": 2, "population_total": frame["wt"].sum(), "seed": 2}
    again = ss.synthesize(design, kept.synthesizer, mechanism=ss.Strict(reference=kept), **settings)
    assert (again.datasets[0].frame["income"] == 0).mean() == pytest.approx(share.mean(), abs=0.1)


def test_that_the_weight_is_public_is_declared_and_never_found():
    """A weight by gender alone: refused unless it is declared, and then kept."""
    frame = make_frame()
    frame["wt"] = np.where(frame["gender"] == "f", 50.0, 60.0)
    design = ss.SurveyDesign(frame, weights="wt")
    with pytest.raises(ss.ModelError, match=r"declare it, FBS\(\.\.\., weight='public'\)"):
        ss.synthesize(design, model(), **STRICT)
    done = ss.synthesize(design, model(weight="public"), **(STRICT | {"m": 1}))
    assert done.method["weights"] == "public"
    assert "declared public by the agency" in str(done.privacy)
    assert "whether the survey weight is a function of public variables" not in str(done.privacy)
    by_gender = done.datasets[0].frame.groupby("gender")["wt"]
    assert (by_gender.nunique() == 1).all()
    assert by_gender.first()["m"] / by_gender.first()["f"] == pytest.approx(1.2)


def test_what_can_still_refuse_the_file_is_listed(release):
    assert any(said.startswith("what can refuse the file: ") for said in release.privacy.data_dependent)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ss.FBS, ss.FBP])
def test_missing_outcomes_are_imputed_and_their_number_is_not_told(kind):
    """Missing at random given gender, half of the men: means are those of the whole file, all records have amounts."""
    frame, rng = make_frame(2000), np.random.default_rng(2)
    whole = ss.SurveyDesign(frame, weights="wt")
    gaps = frame.assign(income=frame["income"].where(rng.random(2000) > np.where(frame["gender"] == "m", 0.4, 0.1)))
    design = ss.SurveyDesign(gaps, weights="wt")
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    with pytest.raises(ss.InputError, match=r"missing='impute' under Strict\(\)"):
        ss.synthesize(design, kind("income ~ gender", prior="flat"), **settings)
    with pytest.raises(ss.ModelError, match="leaves records out by what is confidential"):
        ss.synthesize(design, kind("income ~ gender", prior="flat", missing="drop"), **settings)
    done = ss.synthesize(design, kind("income ~ gender", prior="flat", missing="impute"), **settings)
    assert all(len(d.frame) == 2000 and d.frame["income"].notna().all() for d in done.datasets)
    here, there = done.tables("gender", statistic="mean"), ss.estimate(whole, "income", "gender", "mean")
    assert (np.abs(here["estimate"] - there["estimate"]) < 4 * np.hypot(here["se"], there["se"])).all()
    assert "missing outcomes are imputed" in str(done.privacy)
    absent = int(gaps["income"].isna().sum())
    assert str(absent) not in json.dumps(done.manifest()).replace(".", " ").split()
    assert str(2000 - absent) not in str(done.privacy)
    with pytest.raises(ss.ModelError, match="go with mechanism=Strict"):
        ss.synthesize(
            design, kind("income ~ gender", prior="flat", missing="impute"), epsilon=9, mechanism=ss.PseudoPosterior()
        )
    with pytest.raises(ss.InputError, match="one numeric outcome"):
        kind("income + hours ~ gender", prior="flat", missing="impute")


def test_scores_of_an_earlier_strict_release_are_no_leak_in_the_same_file():
    """Panel members are in both files; knots that were not made under an epsilon are refused as before."""
    design = make_design(n=1500)
    scores = ss.NormalScores.private(design, "income", bounds=(0, 1_000_000), epsilon=5, rng=np.random.default_rng(1))
    kept = scores.kept()
    assert kept.covered and not kept.made_from(design.numeric("income"))
    open_ = ss.NormalScores.from_historical(design.numeric("income"), source="last year", knots=40)
    assert open_.made_from(design.numeric("income"))
    assert not replace(open_, covered=True).made_from(design.numeric("income"))


@pytest.mark.slow
def test_the_noise_of_scores_is_in_differences_and_regressions(tmp_path):
    """Squared standard errors are larger by the variance over scores under other noise, as in tables."""
    settings = {name: value for name, value in STRICT.items() if name != "mechanism"} | {"population_total": 43_000}
    done = ss.fit(make_design(n=800), "income ~ gender", bounds=(0, 1_000_000), **settings).release()
    without = replace(done, method={k: v for k, v in done.method.items() if k != "private_scores"})
    pairs = [
        (done.differences({"gender": ("m", "f")}), without.differences({"gender": ("m", "f")})),
        (done.regression("income ~ gender").table, without.regression("income ~ gender").table),
    ]
    for noisy, plain in pairs:
        np.testing.assert_allclose(noisy["estimate"], plain["estimate"])
        assert (noisy["se"] > plain["se"]).all()
    gaps = [
        ss.difference(d, "income", between={"gender": ("m", "f")})["estimate"].iloc[0] for d in done.redrawn
    ]  # fmt: skip
    assert pairs[0][0]["se"].iloc[0] ** 2 - pairs[0][1]["se"].iloc[0] ** 2 == pytest.approx(np.var(gaps, ddof=1))


@pytest.mark.slow
def test_psus_have_effects_whose_size_is_paid_for_given_or_that_of_the_reference():
    """Standard errors of the synthetic files carry them."""
    rng = np.random.default_rng(5)
    frame = make_frame(1600)
    frame["school"] = np.arange(1600) // 16
    frame["income"] *= np.exp(0.6 * rng.standard_normal(100))[frame["school"]]
    design = ss.SurveyDesign(frame, weights="wt", psu="school")
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    done = ss.fit(design, "income ~ gender", **settings).release()
    assert "shares of PSUs 0.3" in str(done.privacy)
    one = [ss.estimate(d, "income", statistic="mean")["se"].iloc[0] for d in done.datasets]
    ignored = ss.fit(design, "income ~ gender", clusters="ignore", **settings).release()
    none = [ss.estimate(d, "income", statistic="mean")["se"].iloc[0] for d in ignored.datasets]
    there = ss.estimate(design, "income", statistic="mean")["se"].iloc[0]
    assert np.mean(one) == pytest.approx(there, rel=0.4)
    assert np.mean(none) < 0.8 * np.mean(one)
    kept = ss.Reference.from_release(done)
    assert kept.values["psu"].shape == (2,)
    settings = {"epsilon": 5, "m": 2, "population_total": frame["wt"].sum(), "seed": 2}
    again = ss.synthesize(design, kept.synthesizer, mechanism=ss.Strict(reference=kept), **settings)
    np.testing.assert_array_equal(again.method["reference"]["values"]["psu"], kept.values["psu"])
    assert "shares of PSUs" not in str(again.privacy)
    settings |= {"epsilon": 9.0, "bounds": (0, 1_000_000)}
    given = ss.synthesize(design, "income ~ gender", mechanism=ss.Strict(between_psus=0.2), **settings)
    assert given.method["reference"]["values"]["psu"] == [0.2, 0.2]
    assert "0.2, was given by the agency as public" in str(given.privacy)


@pytest.mark.slow
def test_categories_stand_under_the_same_clamp():
    """Shares near the file's, and means by them."""
    frame, rng = make_frame(1500), np.random.default_rng(1)
    frame["job"] = pd.Categorical(np.where(rng.random(1500) < 0.3 + 0.3 * (frame["gender"] == "m"), "yes", "no"))
    frame.loc[frame["job"] == "no", "income"] *= 0.6
    design = ss.SurveyDesign(frame, weights="wt")
    settings = {"epsilon": 9.0, "bounds": (0, 1_000_000), "population_total": frame["wt"].sum(), "seed": 1}
    done = ss.fit(design, "income + C(job) ~ gender", **settings).release()
    for statistic, outcome, by in (("proportion", "job", "gender"), ("mean", "income", "job")):
        here = done.tables(by, outcome=outcome, statistic=statistic)
        there = ss.estimate(design, outcome, by, statistic)
        assert (np.abs(here["estimate"] - there["estimate"]) < 4 * np.hypot(here["se"], there["se"])).all()
    assert not any("job" in fact for fact in done.privacy.data_dependent)
    with pytest.raises(ss.InputError, match="categories and their cells are not carried"):
        ss.synthesize(design, "income + C(job) ~ gender", epsilon=9, mechanism=ss.Strict(reference=done), m=2,
                      population_total=frame["wt"].sum())  # fmt: skip


def test_a_release_is_the_reference_of_the_next_one(release, tmp_path):
    """From the object and from its folder: the same; people in both files add budgets up, and that is said."""
    folder = release.write(tmp_path / "release")
    references = [ss.Reference.from_release(of) for of in (release, folder, tmp_path / "release")]
    plain = [json.dumps({k: v.tolist() for k, v in r.values.items()}) for r in references]
    assert len(set(plain)) == 1
    mechanism = ss.Strict(reference=references[0])
    done = ss.synthesize(make_design(seed=4), references[0].synthesizer, **(STRICT | {"mechanism": mechanism}))
    assert done.privacy.internal["delta"] == pytest.approx(9.0 / 4)  # no first draw
    assert "an earlier release" in str(done.privacy)
    with pytest.raises(ss.InputError, match="the predictors of the reference"):
        ss.synthesize(make_design(), ss.FBS("income ~ field", transform=SCORES), **(STRICT | {"mechanism": mechanism}))
    with pytest.raises(ss.InputError, match="on the scale"):
        other = ss.NormalScores([1, 2, 3, 4, 5e5], [0.1, 0.2, 0.5, 0.8, 0.9], "another")
        ss.synthesize(make_design(), ss.FBS("income ~ gender", transform=other), **(STRICT | {"mechanism": mechanism}))
    plain = ss.FBS("income ~ gender", prior="flat")
    with pytest.raises(ss.InputError, match="only releases of Strict"):
        ss.Strict(reference=ss.synthesize(make_design(), plain, epsilon=10, mechanism=ss.PseudoPosterior()))


@pytest.mark.slow
def test_a_reference_that_was_published_before_slopes_went_with_predictors_has_none(release):
    earlier = ss.Reference.from_release(release)
    values = {name: value for name, value in earlier.values.items() if name != "slope"}
    references = [replace(earlier, values=values | more) for more in ({}, {"slope": np.zeros((2, 1))})]
    done = [
        ss.synthesize(make_design(seed=4), each.synthesizer, **(STRICT | {"mechanism": ss.Strict(reference=each)}))
        for each in references
    ]
    files = [each.datasets[0].frame["income"] for each in done]
    np.testing.assert_array_equal(*files)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ss.FBS, ss.FBP])
def test_where_the_weights_slope_differs_by_group_means_of_groups_are_right(kind, monkeypatch):
    """Weights rise with the outcome in one group and fall in the other; with one slope for all both means are off."""
    rng, n = np.random.default_rng(8), 6_000

    def off():
        """By how many of its standard errors each group's mean is off, over 3 files."""
        distances = []
        for seed in range(3):
            frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n)})
            z = rng.standard_normal(n)
            frame["income"] = SCORES.inverse(0.3 * (frame["sex"] == "m") + 0.9 * z)
            frame["w"] = np.exp(np.where(frame["sex"] == "m", 0.15, -0.15) * z + 0.4 * rng.standard_normal(n))
            design = ss.SurveyDesign(frame, weights="w")
            own = ss.estimate(design, "income", "sex", "mean")
            done = ss.synthesize(
                design, kind("income ~ sex", transform=SCORES), epsilon=20, m=4, population_total=frame["w"].sum(),
                mechanism=ss.Strict(), seed=seed,
            )  # fmt: skip
            found = done.tables("sex", statistic="mean")
            distances.append(((found["estimate"] - own["estimate"]) / found["se"]).to_numpy()[:2])
        return np.mean(distances, axis=0)

    assert (np.abs(off()) < 4 / 3**0.5).all()
    monkeypatch.setattr(clipped_fit, "SLOPE_SD", 1e-4)
    assert (np.abs(off()) > 4 / 3**0.5).all()


def test_a_public_file_makes_a_reference():
    """Its least-squares fit, about."""
    design = make_design(n=3000)
    found = ss.Reference.from_public(design, model(), source="a public file", population_total=160_000)
    y = SCORES.forward(design.numeric("income"))
    men = design.frame["gender"] == design.frame["gender"].unique()[0]
    gap = abs(found.values["B"][1, 0])
    assert gap == pytest.approx(abs(y[men].mean() - y[~men].mean()), abs=0.02)
