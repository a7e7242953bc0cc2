"""Models in sequence: one density of a record, synthetic predictors, and what they are refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

import surveysynth as ss
from surveysynth.models.draws import Sampler

FIRST, SECOND = ss.FBS("income ~ region", prior="flat"), ss.FBS("rent ~ region + log(income)", prior="flat")


def make_frame(n=600, seed=1):
    """Income, visits given it, and rent given both; weights go with income and with rent."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(["east", "south", "west"], n)})
    log_income = 10 + 0.3 * (frame["region"] == "west") + 0.6 * rng.standard_normal(n)
    frame["income"] = np.exp(log_income)
    frame["visits"] = rng.poisson(np.exp(0.4 + 0.4 * (log_income - 10)))
    log_rent = 2.5 + 0.4 * log_income + 0.05 * frame["visits"] + 0.3 * rng.standard_normal(n)
    frame["rent"] = np.exp(log_rent)
    frame["w"] = 50 * np.exp(-0.2 * (log_income - 10) - 0.3 * (log_rent - 6.5) + 0.2 * rng.standard_normal(n))
    return frame


def make_design(n=600, seed=1, **roles):
    return ss.SurveyDesign(make_frame(n, seed), weights="w", **roles)


def sampler(draws=200, seed=1):
    return Sampler(None, np.random.default_rng(seed), 1, 0, draws)


@pytest.mark.parametrize("times", [0.6, 1.8])
def test_what_the_weight_is_measured_by_changes_no_outcome(times):
    """The public mean weight, N / n, may be far from the file's: two intercepts take that up, and nothing else."""
    design, model = make_design(), ss.Sequential([FIRST, SECOND])
    records = model.prepare(design, "ignore")
    draw = model.fit(records, np.ones(design.n), sampler()).subset([7])
    other = model.prepare(design, "ignore", times * design.weights.mean())
    first, second = draw["0.B"].copy(), draw["1.B"].copy()
    first[0, 0, 1] -= np.log(times)  # of the log weight
    second[0, 0, 0] += np.log(times) * second[0, -1, 0]  # the last column is the log weight
    moved = draw.subset([0], {**draw.values, "0.B": first, "1.B": second})
    np.testing.assert_allclose(
        model.log_density(other, moved), model.log_density(records, draw), rtol=1e-8
    )  # fmt: skip
    made, again = (
        model.simulate(of.public, values, np.random.default_rng(3)) for of, values in ((records, draw), (other, moved))
    )
    np.testing.assert_allclose(again.outcomes, made.outcomes, rtol=1e-8)


def test_the_density_of_a_record_is_the_product_of_its_models():
    """Against scipy: (log income, log weight) jointly normal, log rent normal given log income and log weight."""
    design, model = make_design(), ss.Sequential([FIRST, SECOND])
    records = model.prepare(design)
    draws = model.fit(records, np.ones(design.n), sampler(5))
    frame, log_w = design.frame, np.log(design.weights / design.weights.mean())
    region = pd.get_dummies(frame["region"]).to_numpy(float)[:, 1:]
    X = np.column_stack([np.ones(design.n), region])
    later = np.column_stack([X, np.log(frame["income"]), log_w])
    found = model.log_density(records, draws)
    for s in range(5):
        B, L = draws["0.B"][s], draws["0.L"][s]
        of_first = [
            multivariate_normal.logpdf(y, x @ B, L @ L.T)
            for y, x in zip(np.column_stack([np.log(frame["income"]), log_w]), X, strict=True)
        ]
        of_second = norm.logpdf(np.log(frame["rent"]), later @ draws["1.B"][s][:, 0], draws["1.L"][s][0, 0])
        np.testing.assert_allclose(found[s], of_first + of_second, rtol=1e-9)


def test_each_model_is_fitted_under_the_same_privacy_weights():
    """Posterior means are those of weighted least squares with the weights of the record."""
    design, model = make_design(), ss.Sequential([FIRST, SECOND])
    alpha = np.random.default_rng(2).uniform(0.2, 1, design.n)
    draws = model.fit(model.prepare(design), alpha, sampler(4000))
    frame, log_w = design.frame, np.log(design.weights / design.weights.mean())
    region = pd.get_dummies(frame["region"]).to_numpy(float)[:, 1:]
    X = np.column_stack([np.ones(design.n), region, np.log(frame["income"]), log_w])
    root = np.sqrt(alpha)[:, None]
    expected = np.linalg.lstsq(root * X, root[:, 0] * np.log(frame["rent"]), rcond=None)[0]
    b = draws["1.B"][:, :, 0]
    assert (np.abs(b.mean(axis=0) - expected) < 5 * b.std(axis=0) / 4000**0.5).all()


def test_it_does_not_matter_how_records_come_in_blocks_or_in_which_order():
    design, model = make_design(), ss.Sequential([FIRST, SECOND])
    records = model.prepare(design)
    draws = model.fit(records, np.ones(design.n), sampler(20))
    whole, chosen = model.log_density(records, draws), np.random.default_rng(3).permutation(design.n)[:50]
    np.testing.assert_allclose(model.log_density(records.subset(chosen), draws), whole[:, chosen])
    np.testing.assert_allclose(model.lipschitz(records, draws), np.abs(whole).max(axis=0))
    turned = model.prepare(ss.SurveyDesign(design.frame.iloc[::-1], weights="w"))
    np.testing.assert_allclose(model.log_density(turned, draws), whole[:, ::-1])


def test_what_is_simulated_from_holds_no_confidential_value():
    design = make_design(60)
    model = ss.Sequential([FIRST, ss.NegativeBinomialRegression("visits ~ region + income"), SECOND])
    records = model.prepare(design)
    public = pickle.dumps(records.public)
    held = [
        value for name in ("income", "rent", "w") for number in design.frame[name]
        for value in (number, np.log(number)) if np.float64(value).tobytes() in public
    ]  # fmt: skip
    assert held == []
    assert np.log(design.frame["income"][7]).tobytes() in pickle.dumps(records)  # so one would have been found


def test_a_release_keeps_what_goes_with_what():
    """At an epsilon that hardly weighs: means by region, and the weighted regression of rent on income."""
    design, model = make_design(4000), ss.Sequential([FIRST, SECOND])
    release = ss.synthesize(
        design, model, epsilon=300, m=8, mechanism=ss.PseudoPosterior(), seed=4, population_total=design.weights.sum(),
        accept_diagnostics=["information"],
    )
    there = release.tables("region", statistic="mean")
    for outcome in model.outcomes:
        own = ss.estimate(design, outcome, "region", "mean")
        found = there[there["outcome"] == outcome]
        far = 4 * np.hypot(found["se"].to_numpy(), own["se"].to_numpy())
        assert (np.abs(found["estimate"].to_numpy() - own["estimate"].to_numpy()) < far).all()

    def slope(frame, weights):
        x, y = np.log(frame["income"]), np.log(frame["rent"])
        return np.cov(x, y, aweights=weights)[0, 1] / np.cov(x, aweights=weights)

    slopes = [slope(each.frame, each.weights) for each in release.datasets]
    assert np.mean(slopes) == pytest.approx(slope(design.frame, design.weights), abs=4 * np.std(slopes) * 1.2)
    assert "each given the outcomes that its formula names" in str(release.privacy)


def test_a_list_is_a_sequence_and_formulas_are_what_the_mechanism_makes_of_them(tmp_path):
    design = make_design(500)
    formulas = ["income ~ region", "rent ~ region + log(income)"]
    release = ss.synthesize(
        design, formulas, epsilon=20, mechanism=ss.PseudoPosterior(), seed=5, population_total=design.weights.sum(),
        accept_diagnostics=["information"],
    )
    assert release.outcomes == ("income", "rent")
    assert release.predictors == ("region",)
    back = ss.read_release(release.write(tmp_path / "release"))
    assert list(back.datasets[0].frame) == ["region", "income", "rent", "w"]
    assert back.method["sequence"] == ["FBS: income ~ region", "FBS: rent ~ region + log(income) + `log(weight)`"]


@pytest.mark.slow
def test_counts_and_amounts_go_together_under_the_pseudo_posterior():
    design = make_design(1500)
    counts = ss.NegativeBinomialRegression("visits ~ region + log(income)")
    model = ss.Sequential([FIRST, counts, ss.FBS("rent ~ region + log(income) + visits", prior="flat")])
    release = ss.synthesize(
        design, model, epsilon=60, m=3, mechanism=ss.PseudoPosterior(), seed=6, population_total=design.weights.sum()
    )
    own, made = design.frame, release.datasets[0].frame
    assert (made["visits"] == made["visits"].round()).all()
    for x, y in [("income", "visits"), ("income", "rent"), ("visits", "rent")]:
        there, here = (np.corrcoef(np.log1p(f[x]), np.log1p(f[y]))[0, 1] for f in (made, own))
        assert there == pytest.approx(here, abs=4 * (2 / 1500) ** 0.5)
    assert "predictors of visits, of which some are confidential" in " ".join(release.privacy.data_dependent)


def test_the_density_of_a_later_model_is_normal_given_the_predictors():
    records = ss.Sequential([FIRST, SECOND]).prepare(make_design(40))
    part = records.others[0]
    draws = SECOND.fit(part, np.ones(40), sampler(3)).subset(range(3))
    mean, sd = draws["B"][:, :, 0] @ part.x[4], draws["L"][:, 0, 0]
    expected = norm.logpdf(part.Y[4, 0], mean, sd)
    np.testing.assert_allclose(SECOND.log_density(part, draws)[:, 4], expected)


@pytest.mark.parametrize(
    ("models", "error", "said"),
    [
        ([FIRST], ss.InputError, "a list of two or more"),
        ("income ~ region", ss.InputError, "a list of two or more"),
        ([FIRST, FIRST], ss.InputError, "income: an outcome of two models"),
        ([SECOND, FIRST], ss.InputError, "FBS of rent is given income, which no earlier model has"),
        ([FIRST, ss.FBP("rent ~ income")], ss.ModelError, "FBP cannot take the weight as given"),
        ([FIRST, ss.FBS("C(job) ~ region")], ss.ModelError, "job: categories of FBS belong to the first model"),
    ],
)
def test_models_that_do_not_go_in_sequence_are_refused(models, error, said):
    with pytest.raises(error, match=said.replace("(", "\\(").replace(")", "\\)")):
        ss.Sequential(models)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mechanism": ss.Censored(), "epsilon": 5}, "Sequential"),
    ],
)
def test_what_it_cannot_have_is_refused_by_name(settings, said):
    frame = make_frame(200).assign(household=np.arange(200) // 2)
    design = ss.SurveyDesign(frame, weights="w")
    with pytest.raises(ss.SurveySynthError, match=said):
        ss.fit(design, ss.Sequential([FIRST, SECOND]), population_total=frame["w"].sum(), **settings)


def test_psus_are_refused_unless_they_are_ignored():
    design = ss.SurveyDesign(make_frame(200).assign(psu=np.arange(200) // 5), weights="w", psu="psu")
    model = ss.Sequential([FIRST, SECOND])
    with pytest.raises(ss.InputError, match="clusters='ignore'"):
        model.prepare(design)
    assert model.prepare(design, "ignore").n == 200


def test_synthetic_predictors_that_have_no_logarithm_are_refused():
    """Counts of 0 under log()."""
    design = make_design(400)
    model = ss.Sequential([
        ss.NegativeBinomialRegression("visits ~ region"), ss.FBS("rent ~ log(visits + 0.0)", prior="flat")
    ])  # fmt: skip
    with pytest.raises(ss.InputError, match="are not finite"):
        model.prepare(design)


# ---- in plans


def plan_of(tmp_path):
    make_frame(1500).to_csv(tmp_path / "file.csv", index=False)
    return ss.Plan.draft(
        tmp_path / "file.csv", formula="income ~ region", later=["rent ~ region + log(income)"], weights="w",
        mechanism="pseudo-posterior", m=2, accept=["information"], epsilon=20, population_total=80_000, by=["region"],
        folder=str(tmp_path / "release"),
    )  # fmt: skip


def test_a_plan_says_the_sequence(tmp_path):
    plan = plan_of(tmp_path)
    assert 'later = ["rent ~ region + log(income)"]' in plan.to_toml()
    assert "in sequence, fbs of income ~ region; rent ~ region + log(income)" in str(plan)
    with pytest.raises(ss.InputError, match="write a formula for each"):
        plan.set(later=["rent + visits ~ region"])
    with pytest.raises(ss.InputError, match=r"further outcomes go with model\.name"):
        plan.set(formula="visits ~ region", name="nb")


def test_a_plan_says_whom_a_question_is_asked(tmp_path):
    plan = plan_of(tmp_path).set(applies={"rent": "income > 22000"}, elsewhere={"rent": 0})
    assert """applies = {rent = "income > 22000"}""" in plan.to_toml()
    for each in plan.release(seed=3).datasets:
        assert (each.frame["rent"].eq(0) == ~(each.frame["income"] > 22_000)).all()
    with pytest.raises(ss.InputError, match=r"edits\.applies, edits\.elsewhere: only with model\.later"):
        plan.set(later=None)


def test_a_plan_makes_the_release_that_the_list_of_models_makes(tmp_path):
    plan = plan_of(tmp_path)
    release = plan.release(seed=3)
    models = [ss.FBS("income ~ region", prior="flat"), ss.FBS("rent ~ region + log(income)", prior="flat")]
    by_hand = ss.synthesize(
        plan.design, models, epsilon=20, m=2, mechanism=ss.PseudoPosterior(), population_total=80_000, seed=3,
        accept_diagnostics=["information"],
    )
    pd.testing.assert_frame_equal(release.datasets[0].frame, by_hand.datasets[0].frame)
    assert {"income", "rent"} < set(plan.compare(release).cells["outcome"])
