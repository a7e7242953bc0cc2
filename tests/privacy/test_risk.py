"""Risks of records against their definitions, one record at a time."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from surveys import make_design, model

import surveysynth as ss
from surveysynth.privacy.risks.count import CountRisk
from surveysynth.privacy.risks.lipschitz import LipschitzRisk
from surveysynth.privacy.units import Unit
from tests.surveys import PSEUDO

VALUES = arrays.arrays(float, st.integers(2, 40), elements=st.integers(-8, 30).map(float))


def of(risk, *columns, unit=None):
    """The risk of a file with these outcomes."""
    frame = pd.DataFrame({f"y{k}": y for k, y in enumerate(columns)}).assign(w=1.0)
    synthesizer = ss.FBS(list(frame.columns[:-1]), "1", transform=ss.IdentityTransform(scale=1))
    no_fit = lambda: pytest.fail("a count needs no fit")  # noqa: E731
    return risk.compute(ss.SurveyDesign(frame, weights="w"), synthesizer, None, Unit("u", unit), no_fit, None)


@settings(deadline=None, derandomize=True)
@given(y=VALUES, radius=st.sampled_from([0.0, 0.25, 1.0, 3.0]), relative=st.booleans(), floor=st.sampled_from([0, 2]))
def test_count_is_the_share_of_records_outside_the_closed_ball(y, radius, relative, floor):
    expected = []
    for center in y:  # Hu, Savitsky & Williams (2020, Algorithm 3, steps 2 and 3)
        r = max(radius * abs(center) if relative else radius, floor)
        expected.append(sum(abs(other - center) > r for other in y) / len(y))
    np.testing.assert_allclose(of(CountRisk(radius, relative, floor), y), expected, atol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(y=VALUES, seed=st.integers(0, 2**32 - 1))
def test_ball_of_several_outcomes_is_a_box_and_a_unit_is_as_risky_as_its_riskiest_record(y, seed):
    rng = np.random.default_rng(seed)
    x, unit = rng.integers(0, 5, y.size).astype(float), rng.permutation(np.arange(y.size) // 2)
    inside = (np.abs(y[:, None] - y) <= 3) & (np.abs(x[:, None] - x) <= 1)
    expected = 1 - inside.mean(axis=1)
    np.testing.assert_allclose(of(CountRisk((3, 1), relative=False), y, x), expected, atol=1e-12)
    of_units = [expected[unit == u].max() for u in range(unit.max() + 1)]
    np.testing.assert_allclose(of(CountRisk([3, 1], relative=False), y, x, unit=unit), of_units, atol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(y=VALUES, seed=st.integers(0, 2**32 - 1))
def test_count_knows_neither_the_order_of_the_records_nor_the_unit_of_the_outcome(y, seed):
    order = np.random.default_rng(seed).permutation(y.size)
    np.testing.assert_array_equal(of(CountRisk(0.25), y)[order], of(CountRisk(0.25), y[order]))
    np.testing.assert_array_equal(of(CountRisk(0.25), y), of(CountRisk(0.25), 8 * y))


def test_weights_by_counting_are_algorithm_3_and_need_no_further_constants():
    mechanism = ss.PseudoPosterior(map="linear", risk=CountRisk(0.2), c2=0.05)
    np.testing.assert_allclose(mechanism.alpha(np.array([0, 0.4, 0.9, 1]), 0.8, 1.8), [0.85, 0.53, 0.13, 0.05])
    inverse = ss.PseudoPosterior(risk=CountRisk())
    np.testing.assert_allclose(inverse.alpha(np.array([0.1, 0.5, 1]), 0.1, 1.8), [1, 0.36, 0.18])
    assert not mechanism.by_risk and not inverse.by_risk and ss.PseudoPosterior().by_risk


@pytest.mark.parametrize("synthesizer", [model(), ss.FBP("income", "field + gender", prior="flat")], ids=["FBS", "FBP"])
@pytest.mark.parametrize("weight_map", ["linear", "inverse"])
def test_any_risk_goes_with_any_map_and_model(synthesizer, weight_map):
    design = make_design()
    mechanism = ss.PseudoPosterior(map=weight_map, risk=CountRisk(0.2))
    fit = ss.fit(design, synthesizer, epsilon=10.8, m=3, mechanism=mechanism, seed=1)
    y = design.frame["income"].to_numpy()
    outside = (np.abs(y - y[:, None]) > 0.2 * y[:, None]).mean(axis=1)
    np.testing.assert_allclose(fit.risk, outside, atol=1e-12)
    assert 0.99 * 1.8 <= fit.delta <= 1.8 and np.corrcoef(fit.weighted.alpha, outside)[0, 1] < -0.5


def test_weighted_e_cuts_off_by_lipschitz_bounds_whatever_the_risk():
    mechanism = ss.WeightedE(9.0, risk=CountRisk(0.5))
    fit = ss.fit(make_design(), model(), m=3, mechanism=mechanism, seed=1)
    bounds = ss.fit(make_design(), model(), epsilon=9, m=3, seed=1, mechanism=PSEUDO).risk
    cut = (1 - fit.risk) * bounds > 1.5
    assert fit.weighted.invocations == cut.sum() > 0 and (fit.weighted.alpha[cut] == 0).all()


def test_lipschitz_is_what_the_model_says():
    fit = ss.fit(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    assert isinstance(fit.mechanism.risk, LipschitzRisk) and fit.mechanism.risk == ss.LipschitzRisk()
    assert "Lipschitz bound under the model without privacy weights" in str(fit.release().privacy)


@pytest.mark.parametrize(
    ("make", "match"),
    [(lambda: CountRisk(-1), "radius must be a finite number, not negative"),
     (lambda: CountRisk("wide"), "radius must be a finite"),
     (lambda: CountRisk(True), "radius must be a finite"), (lambda: CountRisk(floor=np.nan), "floor must be a finite"),
     (lambda: CountRisk(relative="yes"), "relative must be True or False"),
     (lambda: ss.PseudoPosterior(risk="count"), r"risk must be a measure: surveysynth.LipschitzRisk\(\)"),
     (lambda: ss.PseudoPosterior(risk=CountRisk), "risk must be a measure"),
     (lambda: of(CountRisk((0.1, 0.2)), np.arange(5.0)), "radius has 2 numbers, and the numeric outcomes are 1"),
     (lambda: ss.WeightedE(risk=type("Half", (), {"span": None})()), "risk must be a measure")],
)  # fmt: skip
def test_errors(make, match):
    with pytest.raises(ss.InputError, match=match):
        make()


def test_categories_alone_cannot_be_counted():
    with pytest.raises(ss.InputError, match="CountRisk looks at numeric outcomes, and there are none"):
        frame = pd.DataFrame({"a": list("xyxyxy"), "w": 1.0})
        CountRisk().compute(ss.SurveyDesign(frame, weights="w"), ss.FBS("C(a)", "1"), None, Unit(), lambda: None, None)


# identification


def simulated(measure, frame, files, unit=None):
    """The risk where the model simulates these files, and which of them were taken."""
    taken = []

    def simulations(records, draws, chosen, rng):
        taken.extend(chosen)
        return (SimpleNamespace(outcomes=files[draw]) for draw in chosen)

    fake = SimpleNamespace(outcomes=("y",), numeric=("y",), categorical=(), simulations=simulations)
    posterior = SimpleNamespace(size=len(files), weight=np.full(len(files), 1 / len(files)))
    design = ss.SurveyDesign(frame.assign(w=1.0), weights="w")
    found = measure.compute(design, fake, None, Unit("u", unit), lambda: posterior, np.random.default_rng(1))
    return found, taken


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 25), floor=st.sampled_from([0.0, 2.0]))
def test_identification_by_the_printed_definitions(seed, n, floor):
    """Hu, Savitsky & Williams (2022b, eq. 8, 11 and 14), over all records and all pairs of a pattern."""
    rng = np.random.default_rng(seed)
    values = {"y": rng.integers(-5, 20, n).astype(float), "age": rng.integers(0, 3, n), "sex": rng.integers(0, 2, n)}
    frame = pd.DataFrame(values)
    files = rng.integers(-5, 20, (4, n, 1))
    y, known, pattern = frame["y"].to_numpy(), ["age", "sex"], (10 * frame["age"] + frame["sex"]).to_numpy()
    r = np.maximum(0.25 * np.abs(y), floor)
    marginal, alpha = np.zeros(n), np.zeros(n)
    got, taken = simulated(ss.MarginalRisk(known, 0.25, floor=floor, datasets=3), frame, files)
    pairs, again = simulated(ss.PairwiseRisk(known, 0.25, floor=floor, datasets=3), frame, files)
    assert len(taken) == 3 and taken == again
    for draw in taken:
        away = np.abs(files[draw, :, 0] - y[:, None]) > r[:, None]  # of record i, value h
        for i in range(n):
            same = np.flatnonzero(pattern == pattern[i])
            marginal[i] += (not away[i, i]) * np.mean([away[i, h] for h in same]) / 3
            of_pairs = [
                (not away[i, i]) * (not away[j, j]) * np.mean([away[i, h] and away[j, h] for h in same])
                for j in same
                if j != i
            ]
            alpha[i] += (1 - np.mean(of_pairs) if of_pairs else 1) / 3
    np.testing.assert_allclose(got, marginal, atol=1e-12)
    np.testing.assert_allclose(1 - pairs, alpha, atol=1e-12)
    unit = np.arange(n) // 2
    of_units, _ = simulated(ss.MarginalRisk(known, 0.25, floor=floor, datasets=3), frame, files, unit)
    np.testing.assert_allclose(of_units, [marginal[unit == u].max() for u in range(unit.max() + 1)], atol=1e-12)


@pytest.mark.parametrize(
    "measure", [ss.MarginalRisk(["field"]), ss.PairwiseRisk("field", datasets=5), ss.MarginalRisk([])]
)
def test_identification_goes_through_fit_and_release(measure):
    mechanism = ss.PseudoPosterior(map="linear", risk=measure)
    fit = ss.fit(make_design(), model(), epsilon=10.8, m=3, mechanism=mechanism, seed=1, reweight=1)
    assert ((fit.risk >= 0) & (fit.risk < 1)).all() and fit.risk.max() > 0.1 and fit.delta <= 1.8
    release = fit.release()
    words = "who knows field and its value" if measure.known else "who knows its value"
    assert words in str(release.privacy) and "probability of identification" in str(release.privacy)
    assert measure.name in release.internal["records"]


@pytest.mark.parametrize(
    ("make", "match"),
    [(lambda: ss.MarginalRisk(1), "a name was expected"),
     (lambda: ss.MarginalRisk("field", datasets=0), "datasets must be a"),
     (lambda: ss.PairwiseRisk("field", radius=-1), "radius must be a finite number"),
     (lambda: of_design(ss.MarginalRisk("income")), "'income' is synthesized"),
     (lambda: of_design(ss.MarginalRisk("nothing")), "nothing")],
)  # fmt: skip
def test_errors_of_identification(make, match):
    with pytest.raises(ss.InputError, match=match):
        make()


def of_design(measure):
    return ss.fit(make_design(), model(), epsilon=9, mechanism=ss.PseudoPosterior(map="linear", risk=measure), seed=1)
