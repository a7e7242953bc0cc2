"""Later outcomes under the strict mechanism: counts, shares, amounts with zeros, positive amounts, and categories."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, softmax

import surveysynth as ss
from surveysynth.models.beta.family import BetaFamily
from surveysynth.models.counts.family import CountFamily
from surveysynth.models.draws import Sampler
from surveysynth.models.gamma import GammaFamily
from surveysynth.models.shared.clipped_categories import clipped_categories
from surveysynth.models.shared.clipped_fit import NARROW, Density, clipped_target, straight
from surveysynth.models.shared.clipped_outcome import Outcome, clipped_outcome
from surveysynth.synthesis.parts import bounds_of_scores

SIMULATED = np.array([[1.0, 1.0], [1.0, -1.0]])  # predictor rows whose mean of squares is the identity
NB, POISSON, BETA, GAMMA = CountFamily(True), CountFamily(False), BetaFamily(1e-6), GammaFamily()
ONE = {  # family, the reference's family, reference, truth, extreme values
    "negative binomial": (NB, NB, Outcome(np.array([1.0, 0.1]), np.log(1.5)), ([0.7, 0.4], 2.0), (0, 1e6)),
    "Poisson": (POISSON, NB, Outcome(np.array([1.0, 0.0]), np.log(0.5)), ([0.7, 0.3], None), (0, 1e6)),
    "beta": (BETA, BETA, Outcome(np.array([0.1, -0.1]), np.log(3.0)), ([-0.2, 0.3], 5.0), (1e-6, 1 - 1e-6)),
    "gamma": (GAMMA, GAMMA, Outcome(np.array([0.5, 0.2]), np.log(1.2)), ([0.8, 0.4], 2.0), (1e-6, 1e9)),
}
KINDS = [*ONE, "zeros", "categories"]
SHARES = np.array([[0.3, 0.0, -0.3], [0.0, 0.2, -0.2]])  # the reference's coefficients of log odds


def target_of(kind, x, y, a, B=1.0, present=None, simulated=SIMULATED):
    """The log target of outcomes given a confidential predictor: every record has a row of its own."""
    X, row, a = np.column_stack([np.ones(len(x)), x]), np.arange(len(x)), np.full(len(x), a)
    beside = {"present": present, "simulated": simulated}
    if kind == "categories":
        return clipped_categories(X, row, y.astype(int), SHARES, a, B, **beside)
    if kind == "zeros":
        none = {"B_zero": np.empty((2, 0)), "L_zero": np.empty((0, 0))}
        reference = Density(
            np.array([[0.2], [0.1]]), np.eye(1), **straight(2, 1), zero=np.array([-0.5, 0.2]), **none
        )  # fmt: skip
        zero = y == 0
        Y = np.where(zero, 0.0, np.log(np.where(zero, 1.0, y)))[:, None]
        return clipped_target(X, row, Y, reference, a, B, NARROW, False, zero=zero, **beside)
    family, measured, reference, *_ = ONE[kind]
    return clipped_outcome(family, measured, X, row, y, None, reference, a, B, NARROW, None, first=False, **beside)


def drawn(kind, x, rng):
    """Outcomes as they are in truth."""
    if kind == "categories":
        p = softmax(np.column_stack([np.ones(len(x)), x]) @ TRUE_SHARES, axis=1)
        return (rng.random(len(x))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    if kind == "zeros":
        amount = np.exp(0.5 + 0.3 * x + 0.8 * rng.standard_normal(len(x)))
        return np.where(rng.random(len(x)) < expit(-1 + 0.5 * x), 0.0, amount)
    (b, shape) = ONE[kind][3]
    mean = b[0] + b[1] * x
    if kind == "negative binomial":
        return rng.poisson(np.exp(mean) * rng.gamma(shape, 1 / shape, len(x))).astype(float)
    if kind == "Poisson":
        return rng.poisson(np.exp(mean)).astype(float)
    if kind == "gamma":
        return rng.gamma(shape, np.exp(mean) / shape)
    return np.clip(rng.beta(shape * expit(mean), shape * expit(-mean)), 1e-6, 1 - 1e-6)


TRUE_SHARES = np.array([[0.5, 0.1, -0.6], [0.4, -0.1, -0.3]])


def small_file(kind, a, B, many):
    """Six records, many points to evaluate their log target at, and the outcomes that lie farthest out."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=6)
    y = drawn(kind, x, rng)
    size = len(target_of(kind, x, y, a, B).scale)
    points = rng.choice([0.3, 1.0, 3.0], (many, 1)) * rng.uniform(-1, 1, (many, size))
    if kind == "zeros":
        points[:, 2] = rng.uniform(-0.4, 0.4, many)  # of the log standard deviation, within its limits
    extremes = {"zeros": (0.0, 1e-9, 1e9), "categories": (0, 2)}.get(kind) or ONE[kind][4]
    return x, y, points, extremes


def largest_moves(kind, a, B):
    """How far a record can move the log target between two points: taken out, and replaced, predictor and outcome."""
    x, y, points, extremes = small_file(kind, a, B, 300)
    values = []
    for far in (0.0, 3.0, -8.0, 60.0, -1e4):
        for extreme in extremes:
            moved_x, moved_y = x.copy(), y.copy()
            moved_x[0], moved_y[0] = far, extreme
            at = target_of(kind, moved_x, moved_y, a, B).function()
            values.append([at(point)[0] for point in points])
    out = target_of(kind, x, y, a, B, np.array([0.0, 1, 1, 1, 1, 1])).function()
    blanked, values = np.array([out(point)[0] for point in points]), np.array(values)
    assert np.isfinite(values).all()  # whatever a record is, it does not take the density away
    replaced = max(np.ptp(one - other) for one in values for other in values)
    return np.ptp(values - blanked, axis=1).max(), replaced


@pytest.mark.parametrize("B", [1.0, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_moves_the_log_target_by_no_more_than_two_b_predictors_included(kind, B):
    """With b = 0.25: 2 b taken out, 4 b replaced."""
    b = 0.25
    blanked, replaced = largest_moves(kind, 2 * b / (2 * B + 1), B)
    assert 0.5 * 2 * b < blanked <= 2 * b + 1e-9
    assert replaced <= 4 * b + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_for_public_predictors_exceeds_the_bound(kind):
    """a = b / B, whose C_B is thought to be public."""
    assert largest_moves(kind, 0.25, 1.0)[0] > 2 * 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_scales_and_starts_are_the_same_whatever_a_record_is(kind):
    rng = np.random.default_rng(4)
    x = rng.normal(size=30)
    y = drawn(kind, x, rng)
    found = []
    for extreme in (0.0, 7.0):
        x[3] = extreme
        target = target_of(kind, x, y, 0.3)
        found.append(np.concatenate([target.scale.ravel(), *target.starts(2, np.random.default_rng(1))]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_value(kind):
    rng = np.random.default_rng(5)
    x = rng.normal(size=40)
    target = target_of(kind, x, drawn(kind, x, rng), 0.3)
    at, point = target.function(), target.starts(2, rng)[1]
    numeric = np.array([(at(point + e)[0] - at(point - e)[0]) / 2e-6 for e in 1e-6 * np.eye(point.size)])
    np.testing.assert_allclose(at(point)[1], numeric, rtol=1e-4, atol=1e-4)


def maximum(kind, n, B, seed=2):
    """Parameters at the maximum for a population that is as the truth says, beside the reference."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.standard_t(5, n), -6, 6)
    target = target_of(kind, x, drawn(kind, x, rng), 1.0, B)
    function = target.function()

    def negative(point):
        value, gradient = function(point)
        return -value / n, -gradient / n

    return target, minimize(negative, target.starts(1, rng)[0], jac=True, method="BFGS").x


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_with_confidential_predictors_the_maximum_is_at_the_truth(kind):
    """Beside references that are off: within 4 standard errors, 1.5 times those of maximum likelihood."""
    n = 40_000
    target, point = maximum(kind, n, 1.0)
    se = 4 * 1.5 / n**0.5
    if kind == "categories":
        b = target.coefficients(point)
        np.testing.assert_allclose(b - b.mean(axis=1, keepdims=True), TRUE_SHARES, atol=se * 3**0.5)
        return
    if kind == "zeros":
        found = target.density(point)
        np.testing.assert_allclose(found.B[:, 0], [0.5, 0.3], atol=se * 0.8 * 2**0.5)
        np.testing.assert_allclose(found.zero, [-1, 0.5], atol=se / 0.2**0.5)
        assert found.L[0, 0] == pytest.approx(0.8, abs=se)
        return
    family, _, _, (b, shape), _ = ONE[kind]
    found = target.outcome(point)
    eta = np.array([b[0]])
    information = family.information(eta, np.log(shape or 1.0))[0]
    np.testing.assert_allclose(found.b, b, atol=se / information**0.5)
    if shape is not None:
        assert found.log_shape == pytest.approx(np.log(shape), abs=3 * se)


# ---- the multinomial regression by itself


def make_frame(n=1500, seed=3):
    """Income, activity, children, a share of income that is saved, and rent, which some do not pay."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(["east", "south", "west"], n)})
    z = 0.3 * (frame["region"] == "west") + 0.6 * rng.standard_normal(n)
    frame["income"] = np.exp(10 + z)
    p = softmax(np.column_stack([0.8 + 0.9 * z, np.zeros(n), -0.3 - 0.5 * z]), axis=1)
    frame["activity"] = np.array(["at work", "none", "retired"])[(rng.random(n)[:, None] > p.cumsum(1)[:, :2]).sum(1)]
    frame["children"] = rng.poisson(np.exp(0.2 + 0.3 * z) * rng.gamma(3, 1 / 3, n))
    share = expit(-1 + 0.8 * z)
    frame["saved"] = np.clip(rng.beta(6 * share, 6 * (1 - share)), 1e-6, 1 - 1e-6)
    rent = np.exp(6.5 + 0.4 * z + 0.3 * rng.standard_normal(n))
    frame["rent"] = np.where(rng.random(n) < expit(-0.8 + 0.7 * z), 0.0, rent)
    frame["w"] = 50 * np.exp(-0.2 * z + 0.2 * rng.standard_normal(n))
    return frame


def test_the_density_of_a_category_is_scipys_softmax():
    frame = make_frame(300)
    model = ss.MultinomialRegression("C(activity) ~ region + log(income)", weight="public")
    assert model.outcomes == model.categorical == ("activity",) and model.numeric == ()
    records = model.prepare(ss.SurveyDesign(frame, weights="w"))
    draws = model.fit(records, np.ones(300), Sampler(None, np.random.default_rng(1), 2, 200, 100))
    logs, code = model.log_density(records, draws), np.unique(frame["activity"], return_inverse=True)[1]
    for s in (0, 150):
        expected = np.log(softmax(records.x @ draws["b"][s], axis=1))[np.arange(300), code]
        np.testing.assert_allclose(logs[s], expected, atol=1e-10)


@pytest.mark.slow
def test_the_pseudo_posterior_is_the_weighted_fit_of_statsmodels():
    """Posterior mean and standard deviation of log odds ratios, beside maximum likelihood with records repeated."""
    import statsmodels.api as sm

    frame = make_frame(3000)
    design = ss.SurveyDesign(frame, weights="w")
    model = ss.MultinomialRegression("C(activity) ~ log(income)", weight="public")
    records = model.prepare(design)
    assert records.columns == ("Intercept", "log(income)")
    draws = model.fit(records, np.full(3000, 0.5), Sampler(None, np.random.default_rng(1), 2, 500, 1500))
    assert not draws.failures
    b = model.to_original_scale(records, draws)["b"]
    code = np.unique(frame["activity"], return_inverse=True)[1]
    X = np.column_stack([np.ones(3000), np.log(frame["income"])])
    fitted = sm.MNLogit(code, X).fit(disp=0)
    against = b[:, :, 1:] - b[:, :, :1]
    error = np.asarray(fitted.bse) * 2**0.5  # half of the information
    np.testing.assert_allclose(against.std(axis=0), error, rtol=0.12)
    assert (np.abs(against.mean(axis=0) - np.asarray(fitted.params)) < 0.25 * error).all()
    back = model.from_original_scale(records, replace(draws, values={"b": b}))["b"]
    np.testing.assert_allclose(back, draws["b"], atol=1e-8)


def test_synthetic_categories_have_the_model_shares():
    frame = make_frame(4000)
    model = ss.MultinomialRegression("C(activity) ~ region", weight="public")
    records = model.prepare(ss.SurveyDesign(frame.assign(w=10.0), weights="w"))
    draws = model.fit(records, np.ones(4000), Sampler(None, np.random.default_rng(1), 2, 300, 100))
    one = draws.some([0])
    made = model.simulate(records.public, one, np.random.default_rng(2)).labels["activity"]
    expected = softmax(records.x @ one["b"][0], axis=1).sum(axis=0)
    counted = made.value_counts().reindex(["at work", "none", "retired"]).to_numpy()
    assert stats.chisquare(counted, expected).pvalue > 1e-4
    own = pd.crosstab(frame["region"], frame["activity"], normalize="index")
    there = pd.crosstab(frame["region"], made, normalize="index")
    assert np.abs(own - there).to_numpy().max() < 4 * (2 * 0.25 / 1200) ** 0.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "the survey weights are not a function of the predictors"),
        ({"activity": None}, "outcome 'activity' is missing in 300 rows"),
        ({"activity": "none"}, "activity is constant"),
        ({"activity": np.arange(300)}, "almost as many different values as records"),
    ],
)
def test_what_a_multinomial_regression_cannot_have_is_refused(change, said):
    frame = make_frame(300).assign(**change)
    with pytest.raises(ss.SurveySynthError, match=said):
        ss.MultinomialRegression("activity ~ region").prepare(ss.SurveyDesign(frame, weights="w"))


# ---- whole releases

LATER = [
    ss.MultinomialRegression("C(activity) ~ region + log(income)"),
    ss.NegativeBinomialRegression("children ~ log(income) + activity"),
    ss.FBS("rent ~ region + log(income)", zeros=True),
    ss.BetaRegression("saved ~ log(income)", bounds=(0, 1)),
]
BOUNDS = {"income": (1_000, 1_000_000), "children": (0, 20), "rent": (10, 100_000)}


ACTIVITIES = {"activity": ["at work", "none", "retired"]}


def by_activity(frame):
    """Means of log incomes."""
    return np.log(frame["income"]).groupby(frame["activity"]).mean().to_numpy()


def near(release, design, sd=4.0):
    """Means and shares of the release beside the file's."""
    release_means = [release.tables("region", statistic="mean"), release.tables("activity")]
    for outcome in ("income", "children", "rent", "saved"):
        own = ss.estimate(design, outcome, "region", "mean")
        found = release_means[0][release_means[0]["outcome"] == outcome]
        far = sd * np.hypot(found["se"].to_numpy(), own["se"].to_numpy())
        assert (np.abs(found["estimate"].to_numpy() - own["estimate"].to_numpy()) < far).all(), outcome


@pytest.mark.slow
def test_a_strict_release_of_outcomes_of_five_kinds():
    frame = make_frame(800)
    design = ss.SurveyDesign(frame, weights="w")
    release = ss.synthesize(
        design, ["income ~ region", *LATER], epsilon=80, m=3, seed=7, bounds=BOUNDS, levels=ACTIVITIES,
        population_total=frame["w"].sum(),
    )  # fmt: skip
    assert release.privacy.kind == "strict" and release.privacy.epsilon == 80
    near(release, design)
    for each in release.datasets:
        made = each.frame
        assert set(made["activity"]) == {"at work", "none", "retired"}
        assert (made["children"] == made["children"].round()).all() and made["children"].between(0, 20).all()
        assert made["saved"].between(0, 1).all() and (made.loc[made["rent"] != 0, "rent"] >= 10).all()
    own = frame.groupby("activity")["income"].apply(lambda x: np.log(x).mean())
    there = np.mean(
        [f.frame.groupby("activity")["income"].apply(lambda x: np.log(x).mean()) for f in release.datasets], 0
    )
    np.testing.assert_allclose(there, own, atol=0.2)
    zeros = [(f.frame["rent"] == 0).mean() for f in release.datasets]
    assert np.mean(zeros) == pytest.approx((frame["rent"] == 0).mean(), abs=0.08)
    said = str(release.privacy)
    assert "first draw of activity" in said and "predictors of later models are confidential" in said
    assert "means and standard deviations of the predictors" not in said


def test_one_pair_of_bounds_is_for_the_amounts_of_a_sequence():
    frame = make_frame(300).astype({"activity": "category"})
    models = ["income ~ region", ss.MultinomialRegression("C(activity) ~ income")]
    # the histogram of incomes is what is short of epsilon, not a scale that categories would need
    with pytest.raises(ss.PrivacyError, match="histogram of this file's income"):
        ss.fit(ss.SurveyDesign(frame, weights="w"), models, epsilon=0.05, bounds=(1000, 1e6), population_total=15_000)


@pytest.mark.slow
def test_a_pseudo_posterior_of_categories_and_counts_in_sequence():
    frame = make_frame(1500)
    design = ss.SurveyDesign(frame, weights="w")
    models = [
        ss.FBS("income ~ region", prior="flat"),
        *LATER[:2],
        ss.FBS("rent ~ activity", prior="flat", transform=ss.AsinhTransform(scale=500.0)),
    ]
    release = ss.synthesize(
        design, models, epsilon=80, m=2, mechanism=ss.PseudoPosterior(), seed=7, population_total=frame["w"].sum(),
        levels=ACTIVITIES,
    )
    np.testing.assert_allclose(by_activity(release.datasets[0].frame), by_activity(frame), atol=0.2)
    assert list(release.datasets[0].frame) == ["region", "income", "activity", "children", "rent", "w"]


# ---- in plans


LATER_OF_PLAN = [
    {"formula": "C(activity) ~ region + log(income)", "name": "multinomial"},
    {"formula": "children ~ log(income) + activity", "name": "nb"},
    {"formula": "rent ~ region + log(income)", "zeros": True},
    {"formula": "saved ~ log(income)", "name": "beta"},
]


def plan_of(tmp_path, later=LATER_OF_PLAN, **entries):
    make_frame(1500).to_csv(tmp_path / "file.csv", index=False)
    return ss.Plan.draft(
        tmp_path / "file.csv", formula="income ~ region", later=later, weights="w", epsilon=50,
        population_total=80_000, bounds=BOUNDS | {"saved": (0, 1)}, by=["region"], folder=str(tmp_path / "release"),
        levels=ACTIVITIES,
        **entries,
    )  # fmt: skip


@pytest.mark.slow
def test_a_plan_has_later_models_of_every_kind(tmp_path):
    plan = plan_of(tmp_path)
    text = plan.to_toml()
    assert '{formula = "children ~ log(income) + activity", name = "nb"}' in text
    assert "multinomial of C(activity) ~ region + log(income); nb of children" in " ".join(str(plan).split())
    (tmp_path / "plan.toml").write_text(text)
    again = ss.Plan.read(tmp_path / "plan.toml")
    assert again.settings == plan.settings
    model, mechanism = again._parts()
    assert [each.name for each in model.models] == ["FBS", *(each.name for each in LATER)]
    assert model.models[3].zeros and not model.models[0].zeros and isinstance(mechanism, ss.Strict)
    assert bounds_of_scores(again.settings) == BOUNDS


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ([{"formula": "children ~ region", "name": "mixture"}], "model.later"),
        ([{"formula": "children ~ region", "name": "nb", "zeros": True}], "zeros"),
        ([{"formula": "children + rent ~ region", "name": "nb"}], "write a formula for each"),
        ([{"formula": "w ~ income", "name": "beta"}], "privacy.bounds = {w "),
    ],
)
def test_wrong_later_models_of_a_plan_are_refused(tmp_path, later, said):
    with pytest.raises(ss.InputError, match=said.replace("{", "\\{")):
        plan_of(tmp_path, later=later)
