"""Informative sizes: of PSUs, and of elements that were drawn with probability proportional to size."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.sampling import inclusion_probabilities, systematic
from tests.surveys import PSEUDO

FILES = 300  # simulated from one fit, of draws at random


def simulated(fit, statistic):
    """A statistic of synthetic files, given outcomes and weights: (FILES,)."""
    posterior, rng = fit.weighted.posterior, np.random.default_rng(1)
    found = []
    for draw in rng.choice(posterior.size, FILES):
        made = next(fit.synthesizer.simulations(fit.records, posterior, [draw], rng))
        found.append(statistic(made.outcomes[:, 0], made.weights))
    return np.array(found)


def mean(y, w):
    return np.average(y, weights=w)


def assert_unbiased(found, expected, share):
    """Within 4 Monte Carlo errors, and a bias of a share of the value that a lognormal model may have."""
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(FILES) + share * expected


# ---- PSUs


@pytest.mark.parametrize("make", [ss.FBS, ss.FBP])
@pytest.mark.parametrize("epsilon", [30, 200])
def test_the_schools_of_large_districts_are_large(r_frame, make, epsilon):
    """R's apiclus1: 15 districts of 1 to 37 schools, and a mean enrolment of 549.7; without sizes 485."""
    frame = r_frame("apiclus1[c('dnum', 'stype', 'enroll', 'pw')]")
    design = ss.SurveyDesign(frame, weights="pw", psu="dnum")
    fit = ss.fit(design, make("enroll", "stype", prior="flat"), epsilon=epsilon, m=2, seed=1, mechanism=PSEUDO)
    assert_unbiased(simulated(fit, mean), mean(frame["enroll"], frame["pw"]), 0.02)


def villages(kept, seed=2, psus=80):
    """Wealth rises with the size of a PSU, and weights fall with it; ``kept``: weights of PSUs, whatever their size."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 40, psus)
    psu = np.repeat(np.arange(psus), size)
    log_size = np.log(size)[psu]
    wealth = np.exp(5 + 0.5 * log_size + 0.2 * rng.standard_normal(psus)[psu] + 0.4 * rng.standard_normal(psu.size))
    weight = np.exp(4 - 0.6 * log_size + 0.2 * rng.standard_normal(psu.size))
    if kept:
        weight = np.exp(4 + 0.3 * rng.standard_normal(psus))[psu]
    return pd.DataFrame({"psu": psu, "sex": rng.choice(["f", "m"], psu.size), "wealth": wealth, "wt": weight})


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False], ids=["weights of PSUs", "weights of records"])
@pytest.mark.parametrize("make", [ss.FBS, ss.FBP])
def test_what_goes_with_the_size_of_psus_stays_in_means_and_totals(make, kept):
    frame = villages(kept)
    design = ss.SurveyDesign(frame, weights="wt", psu="psu")
    fit = ss.fit(design, make("wealth", "sex", prior="flat"), epsilon=40, m=2, seed=1, mechanism=PSEUDO)
    assert (fit.records.public_weights is not None) == kept
    assert_unbiased(simulated(fit, mean), mean(frame["wealth"], frame["wt"]), 0.02)
    sizes = np.bincount(frame["psu"])[frame["psu"]]

    def of_large(y, w):
        return mean(y[sizes > 20], w[sizes > 20])

    assert_unbiased(simulated(fit, of_large), of_large(frame["wealth"].to_numpy(), frame["wt"].to_numpy()), 0.04)


def test_the_slope_of_the_size_needs_psus_of_its_own():
    """Five more than the columns, the intercept among them, that are constant within PSUs."""
    for psus, predictors, there in ((5, "1", False), (6, "1", True), (6, "sex", True), (6, "z", False), (7, "z", True)):
        frame = villages(kept=False, psus=psus).assign(z=lambda f: f["psu"] ** 2 % 5)
        design = ss.SurveyDesign(frame, weights="wt", psu="psu")
        columns = ss.FBS("wealth", predictors, prior="flat").prepare(design).columns
        assert ("log(records of the PSU)" in columns) == there, (psus, predictors)


def test_a_size_that_predictors_determine_is_no_predictor_once_more():
    frame = villages(kept=True)
    size = np.bincount(frame["psu"])[frame["psu"]]
    design = ss.SurveyDesign(frame.assign(wt=1000 / size), weights="wt", psu="psu")
    for make in (ss.FBS, ss.FBP):
        columns = make("wealth", "sex", prior="flat").prepare(design).columns
        assert columns == ("Intercept", "sex[T.m]", "log(weight)")
    named = ss.SurveyDesign(frame.assign(people=size), weights="wt", psu="psu")
    assert "log(records of the PSU)" not in ss.FBS("wealth", "log(people)").prepare(named).columns


# ---- elements


def farms(seed=5, N=6000, n=250):
    """Turnover nearly proportional to the hectares that farms were drawn by, systematically."""
    rng = np.random.default_rng(seed)
    hectares = np.exp(0.9 * rng.standard_normal(N))
    turnover = 50 * hectares * np.exp(0.15 * rng.standard_normal(N))
    pi = inclusion_probabilities(hectares, n)
    assert pi.max() < 1
    drawn = systematic(pi, rng)
    frame = pd.DataFrame({"hectares": hectares, "turnover": turnover}).iloc[drawn].assign(wt=1 / pi[drawn])
    return frame, turnover.sum()


@pytest.mark.parametrize("make", [ss.FBS, ss.FBP])
def test_an_outcome_proportional_to_size_needs_the_size_measure(make):
    frame, total = farms()
    design = ss.SurveyDesign(frame, weights="wt")
    with pytest.raises(ss.ModelError, match=r"'turnover' is nearly proportional to the inclusion .* log\(size\)"):
        make("turnover", "1").prepare(design)
    fit = ss.fit(design, make("turnover", "log(hectares)", prior="flat"), epsilon=100, m=2, seed=1, mechanism=PSEUDO)
    assert fit.records.public_weights is not None
    found = simulated(fit, lambda y, w: (y * w).sum())
    # 0.15 / sqrt(250) is 1% of the sample's own total
    assert_unbiased(found, (frame["turnover"] * frame["wt"]).sum(), 0.02)
    assert abs(found.mean() / total - 1) < 0.05
    assert found.std() < 0.05 * total


def test_other_models_of_the_weight_refuse_it_too():
    frame, _ = farms()
    design = ss.SurveyDesign(frame.assign(cows=lambda f: np.ceil(f["turnover"]) + 20), weights="wt")
    for synthesizer in (ss.Mixture("turnover", "1"), ss.NegativeBinomialRegression("cows", "1")):
        with pytest.raises(ss.ModelError, match="is nearly proportional to the inclusion probability"):
            synthesizer.prepare(design)


def test_votes_are_proportional_to_the_size_of_counties(r_frame):
    """R's election_pps, 40 counties: 64.5 million votes for Bush; the model of outcome and weight made 246 of them."""
    frame = r_frame("election_pps[c('Bush', 'Kerry', 'votes', 'wt')]")
    design = ss.SurveyDesign(frame, weights="wt")
    for votes in ("Bush", "Kerry"):
        with pytest.raises(ss.ModelError, match=f"'{votes}' is nearly proportional to the inclusion probability"):
            ss.FBS(votes, "1").prepare(design)
        fit = ss.fit(design, ss.FBS(votes, "log(votes)", prior="flat"), epsilon=100, m=2, seed=1, mechanism=PSEUDO)
        found = simulated(fit, lambda y, w: (y * w).sum())
        assert_unbiased(found, (frame[votes] * frame["wt"]).sum(), 0.03)
        assert found.std() < 0.12 * found.mean()
    smallest = frame.assign(Bush=frame["Bush"].where(frame["Bush"] > frame["Bush"].min(), 0))  # one zero hides nothing
    frame["Nader"] = r_frame("election_pps['Nader']")["Nader"]
    assert (frame["Nader"] == 0).sum() > 5
    for file, votes in ((smallest, "Bush"), (frame, "Nader")):
        with pytest.raises(ss.ModelError, match="is nearly proportional"):
            ss.FBS(votes, "1", transform=ss.AsinhTransform(scale=100)).prepare(ss.SurveyDesign(file, weights="wt"))


def test_an_outcome_that_does_not_go_with_size_is_not_refused():
    """Selection by an outcome with as much noise as it has spread itself (Hu, Savitsky & Williams 2022a, eq. 11)."""
    rng = np.random.default_rng(3)
    y = np.exp(10 + 0.4 * rng.standard_normal(20_000))
    size = y * np.exp(0.4 * rng.standard_normal(y.size))
    pi = inclusion_probabilities(size, 400)
    drawn = systematic(pi, rng)
    frame = pd.DataFrame({"salary": y[drawn], "wt": 1 / pi[drawn], "debts": rng.choice([0, 1], drawn.size) * y[drawn]})
    frame["gains"] = size[drawn] * rng.choice([-1, 1], drawn.size)
    design = ss.SurveyDesign(frame, weights="wt")
    ss.FBS("salary", "1").prepare(design)
    ss.FBS("debts", "1", transform=ss.AsinhTransform(scale=100)).prepare(design)
    ss.FBS("gains", "1", transform=ss.AsinhTransform(scale=100)).prepare(
        design
    )  # what can be negative goes with no size
