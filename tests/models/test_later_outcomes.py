"""Multinomial regressions, by themselves and as later models in sequence, beside counts and shares."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, softmax

import surveysynth as ss
from surveysynth.models.draws import Sampler

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
    one = draws.subset([0])
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
    ss.BetaRegression("saved ~ log(income)", bounds=(0, 1)),
]
ACTIVITIES = {"activity": ["at work", "none", "retired"]}


def by_activity(frame):
    """Means of log incomes."""
    return np.log(frame["income"]).groupby(frame["activity"]).mean().to_numpy()


@pytest.mark.slow
def test_a_pseudo_posterior_of_outcomes_of_five_kinds():
    frame = make_frame(1500)
    design = ss.SurveyDesign(frame, weights="w")
    models = [
        ss.FBS("income ~ region", prior="flat"),
        *LATER,
        ss.FBS("rent ~ activity", prior="flat", transform=ss.AsinhTransform(scale=500.0)),
    ]
    release = ss.synthesize(
        design, models, epsilon=80, m=2, mechanism=ss.PseudoPosterior(), seed=7, population_total=frame["w"].sum(),
        levels=ACTIVITIES,
    )
    np.testing.assert_allclose(by_activity(release.datasets[0].frame), by_activity(frame), atol=0.2)
    assert list(release.datasets[0].frame) == ["region", "income", "activity", "children", "saved", "rent", "w"]


# ---- in plans


LATER_OF_PLAN = [
    {"formula": "C(activity) ~ region + log(income)", "name": "multinomial"},
    {"formula": "children ~ log(income) + activity", "name": "nb"},
    {"formula": "saved ~ log(income)", "name": "beta"},
]


def plan_of(tmp_path, later=LATER_OF_PLAN):
    make_frame(1500).to_csv(tmp_path / "file.csv", index=False)
    return ss.Plan.draft(
        tmp_path / "file.csv", formula="income ~ region", later=later, weights="w", epsilon=50,
        population_total=80_000, bounds={"saved": (0, 1)}, by=["region"], folder=str(tmp_path / "release"),
        levels=ACTIVITIES, mechanism="pseudo-posterior",
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
    model, _ = again._parts()
    assert [each.name for each in model.models] == ["FBS", *(each.name for each in LATER)]
    assert model.models[3].bounds == (0, 1)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ([{"formula": "children ~ region", "name": "mixture"}], "model.later"),
        ([{"formula": "children + rent ~ region", "name": "nb"}], "write a formula for each"),
        ([{"formula": "w ~ income", "name": "beta"}], "privacy.bounds = {w "),
    ],
)
def test_wrong_later_models_of_a_plan_are_refused(tmp_path, later, said):
    with pytest.raises(ss.InputError, match=said.replace("{", "\\{")):
        plan_of(tmp_path, later=later)
