"""The door of strict releases: what they need, what they refuse, and what records are fitted under."""

import pytest

import surveysynth as ss
from tests.surveys import PSEUDO, make_frame

ASKED = {"epsilon": 9.0, "population_total": 22_000, "bounds": (0, 1e6)}


def make_design():
    frame = make_frame()
    return ss.SurveyDesign(frame.assign(job=["none", "full"] * (len(frame) // 2)), weights="wt")


@pytest.mark.parametrize(
    ("formula", "settings", "lacking"),
    [
        ("income ~ gender", {}, ["epsilon=", "population_total=", "bounds of 'income'"]),
        ("income ~ gender", {"epsilon": 5, "population_total": 2e4}, ["bounds of 'income'"]),
        ("income ~ gender", {"epsilon": 5, "bounds": (0, 1e6)}, ["population_total="]),
        (["job ~ gender", "income ~ job"], {"epsilon": 5}, ["population_total=", "levels of 'job'", "bounds of 'inc"]),
        (ss.FBS("income ~ gender", weight="public"), {"bounds": (0, 1e6)}, ["epsilon="]),
    ],
)
def test_what_the_default_needs_is_said_at_the_door(formula, settings, lacking):
    with pytest.raises(ss.InputError, match="releases are strict unless mechanism= says otherwise") as refused:
        ss.synthesize(make_design(), formula, **settings)
    said = str(refused.value).split("Or use")[0]
    every = ["epsilon=", "population_total=", "levels of 'job'", "bounds of 'inc"]
    assert [name for name in every if name in said] == [name for name in every if any(name in each for each in lacking)]


@pytest.mark.parametrize(
    "model",
    [
        ss.NegativeBinomialRegression("visits ~ gender"),
        ss.BetaRegression("share ~ gender", bounds=(0, 1)),
        ss.GammaRegression("income ~ gender"),
        ss.MultinomialRegression("job ~ gender"),
        ss.Mixture("income ~ gender"),
        ss.Sequential([ss.FBS("income ~ gender"), ss.FBS("hours ~ income")]),
    ],
)
@pytest.mark.parametrize("mechanism", [None, ss.Strict()])
def test_models_of_records_are_refused_with_what_to_write(model, mechanism):
    with pytest.raises(ss.ModelError, match=r"give the formula, .* and what kind each outcome is") as refused:
        ss.synthesize(make_design(), model, mechanism=mechanism, **ASKED)
    assert "mechanism=PseudoPosterior()" in str(refused.value)


@pytest.mark.parametrize(
    ("model", "settings", "kind", "message"),
    [
        (ss.FBS("income ~ gender", prior="flat"), {}, ss.ModelError, "no other options"),
        (ss.FBS("income ~ gender", transform=ss.AsinhTransform(scale=9)), {}, ss.ModelError, "no other options"),
        (ss.FBP("income + hours ~ gender", prior="flat"), {}, ss.ModelError, "FBP synthesizes one outcome"),
        ("income ~ gender", {"reweight": 1, "debias": True}, ss.InputError, "debias, reweight: only where records are"),
        ("income ~ gender", {"chains": 8}, ss.InputError, "chains: only where records are fitted"),
        ("income ~ gender", {"mechanism": ss.Strict(epsilon=3)}, ss.InputError, "epsilon is given twice"),
        ("income ~ gender", {"outcomes": {"wage": ss.Outcome(bounds=(0, 9))}}, ss.InputError, "name 'wage'"),
        ("income", {}, ss.InputError, "a model, or its formula"),
        (None, {}, ss.InputError, "a model, or its formula"),
    ],
)
def test_what_it_cannot_have_is_refused_with_what_to_do(model, settings, kind, message):
    with pytest.raises(kind, match=message):
        ss.synthesize(make_design(), model, **(ASKED | settings))


def test_epsilon_and_delta_may_stand_in_the_mechanism():
    asked = {name: value for name, value in ASKED.items() if name != "epsilon"}
    release = ss.synthesize(
        make_design(), "income ~ gender", mechanism=ss.Strict(epsilon=4, delta=1e-10), m=4, seed=1, **asked
    )
    assert (release.privacy.epsilon, release.privacy.delta, release.privacy.kind) == (4, 1e-10, "strict")
    for wrong in ({"epsilon": 0}, {"delta": 0}, {"delta": 0.1}, {"delta": "1e-10"}):
        with pytest.raises(ss.InputError):
            ss.Strict(**wrong)


@pytest.mark.parametrize("mechanism", [None, ss.Strict(), ss.Strict(epsilon=4)])
def test_no_records_are_fitted_under_it(mechanism):
    with pytest.raises(ss.InputError, match=r"records are fitted under mechanism=PseudoPosterior\(\)"):
        ss.fit(make_design(), ss.FBS("income ~ gender"), epsilon=5, mechanism=mechanism)


def test_its_cost_is_what_expected_errors_says():
    with pytest.raises(ss.InputError, match=r"expected_errors\(\) predicts their accuracy"):
        ss.privacy_cost(make_design(), ss.FBS("income ~ gender"), mechanism=ss.Strict())


@pytest.mark.parametrize("entry", ["bounds", "outcomes", "population_totals", "importance"])
def test_what_belongs_to_it_is_refused_elsewhere(entry):
    given = {"bounds": (0, 1e6), "outcomes": {"income": ss.Outcome(bounds=(0, 1e6))},
             "population_totals": {"gender": {"f": 1, "m": 1}}, "importance": {"income": 2}}[entry]  # fmt: skip
    with pytest.raises(ss.InputError, match=f"{entry}: only for strict releases"):
        ss.synthesize(make_design(), ss.FBS("income ~ gender"), epsilon=9, mechanism=PSEUDO, **{entry: given})


@pytest.mark.parametrize("option", [{"zeros": True}, {"weight": "curved"}, {"missing": "impute"}])
def test_options_of_records_have_no_others(option):
    with pytest.raises((ss.InputError, TypeError)):
        ss.FBS("income ~ gender", **option)
