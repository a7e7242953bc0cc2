"""Strict() for counts, shares, amounts and Stan programs of one's own: releases, bounds, references, refusals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma, nbinom, norm

import surveysynth as ss
from surveysynth.models.draws import Draws
from surveysynth.models.stan_strict import Coordinates, clipped_program

STRICT = {"epsilon": 6.0, "m": 3, "population_total": 10_000, "seed": 1}
MODELS = {
    "negative binomial": (ss.NegativeBinomialRegression("visits ~ g + s"), {"bounds": (0, 100)}),
    "Poisson": (ss.PoissonRegression("calls ~ g + s"), {"bounds": (0, 100)}),
    "gamma": (ss.GammaRegression("pay ~ g + s"), {"bounds": (0, 5_000)}),
    "beta": (ss.BetaRegression("share ~ g + s", bounds=(0, 1), weight="public"), {}),
}


def make_frame(n=1000, seed=3):
    rng = np.random.default_rng(seed)
    g, s = rng.integers(0, 3, n), rng.integers(0, 2, n)
    eta = 0.4 + 0.3 * g - 0.4 * s
    share = 1 / (1 + np.exp(1 - eta))
    visits = rng.poisson(rng.gamma(1.5, np.exp(eta) / 1.5))
    return pd.DataFrame({
        "visits": visits, "calls": rng.poisson(np.exp(eta)), "pay": rng.gamma(2.0, 50 * np.exp(eta)),
        "share": rng.beta(5 * share, 5 * (1 - share)), "g": g.astype(str), "s": np.where(s == 1, "m", "f"),
        "wt": 10 * np.exp(rng.normal(0, 0.4, n) - 0.1 * np.log1p(visits)), "even": 10 * np.exp(0.2 * g),
    })  # fmt: skip


def make_design(weights="wt", **how):
    return ss.SurveyDesign(make_frame(**how), weights=weights)


@pytest.fixture(
    scope="module",
    params=["negative binomial", *(pytest.param(n, marks=pytest.mark.slow) for n in ("Poisson", "beta", "gamma"))],
)
def released(request):
    model, bounds = MODELS[request.param]
    return ss.synthesize(make_design(), model, **STRICT, **bounds), model


def test_a_release_is_strict_and_near_the_file(released):
    release, model = released
    (outcome,) = model.outcomes
    assert release.privacy.kind == "strict" and release.privacy.epsilon == 6.0
    assert "a first draw of this file, under an epsilon of its own of" in str(release.privacy)
    table = release.tables(by=["g"], statistic="mean")
    own = ss.estimate(make_design(), outcome, ["g"], "mean")
    apart = (table["estimate"] - own["estimate"]) / table["se"]
    assert np.abs(apart).max() < 4


def test_synthetic_values_are_within_the_bounds_and_weights_within_theirs(released):
    release, model = released
    for data in release.datasets:
        y, w = data.frame[model.outcomes[0]], data.weights / data.weights.mean()
        assert y.min() >= 0 and y.max() <= (1 if model.outcomes[0] == "share" else 5_000)
        assert 0.02 < w.min() and w.max() < 60
        if model.outcomes[0] in ("visits", "calls"):
            assert (y == y.round()).all()


def test_a_release_is_the_reference_of_the_next_one(released, tmp_path):
    release, model = released
    _, bounds = next(found for found in MODELS.values() if found[0] is model)
    release.write(tmp_path / "r")
    later = ss.SurveyDesign(make_frame(seed=4)[["s", *make_frame().columns.drop("s")]], weights="wt")
    again = ss.synthesize(
        later, replace(model, predictors="s + g"), **STRICT, mechanism=ss.Strict(reference=tmp_path / "r")
    )
    assert "a first draw of this file" not in str(again.privacy) and "an earlier release" in str(again.privacy)
    table = again.tables(by=["g"], statistic="mean")
    own = ss.estimate(later, model.outcomes[0], ["g"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / table["se"]).max() < 4
    assert bounds is not None


@pytest.mark.parametrize("name", MODELS)
def test_values_beyond_the_bounds_are_moved_and_decide_nothing(name):
    """What lies beyond is the bound itself: the records are the same."""
    model, bounds = MODELS[name]
    model = model.under_reference()
    if bounds:
        model = model.scored(make_design(), bounds["bounds"], 0.0, 1, None)
    low, high = model.bounds
    records = []
    for value in (high, 7 * high):
        frame = make_frame()
        frame[model.outcomes[0]] = frame[model.outcomes[0]].astype(float)
        frame.loc[3, model.outcomes[0]] = value
        records.append(model.values(model.prepare(ss.SurveyDesign(frame, weights="wt"), "ignore", 10.0)))
    assert np.array_equal(*records) and records[0].max() <= max(high, 1)
    assert low == 0


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (ss.PoissonRegression("visits ~ g", bounds=(0, 99)), {"weights": "even"}, "declare it, PoissonRegression"),
        (ss.BetaRegression("share ~ g", bounds=(0, 1)), {"weights": "even"}, r"declare it, BetaRegression\("),
        (ss.BetaRegression("share ~ g", bounds=(0, 1)), {}, "or declare that they are public"),
        (ss.GammaRegression("pay ~ g"), {"mechanism": ss.Strict()}, "nothing public says where pay lies"),
        (ss.GammaRegression("pay ~ g"), {}, "bounds=\\(lowest, highest\\) of pay"),
        (ss.GammaRegression("pay ~ g"), {"bounds": {"visits": (0, 1)}}, "other columns than the outcome: pay"),
        (ss.PoissonRegression("pay ~ g", bounds=(0, 9)), {}, "is not a count"),
        (ss.PoissonRegression("calls ~ g", bounds=(0, 9)), {"epsilon": 0.3}, "ask for epsilon = "),
        (ss.PoissonRegression("calls ~ g", missing="drop"), {"bounds": (0, 9)}, "fill these records in"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_to_do(model, settings, message):
    settings = dict(settings)
    design = make_design(settings.pop("weights", "wt"))
    with pytest.raises((ss.InputError, ss.ModelError, ss.PrivacyError), match=message):
        ss.synthesize(design, model, **(STRICT | settings))


@pytest.mark.parametrize("bounds", [(-1, 5), (5, 5), "ab"])
def test_bounds_of_counts_are_two_rising_numbers_from_0_on(bounds):
    with pytest.raises(ss.InputError, match="bounds"):
        ss.NegativeBinomialRegression("visits ~ g", bounds=bounds)


@pytest.mark.slow
def test_a_public_weight_is_kept_and_may_vary_within_cells():
    release = ss.synthesize(make_design(), MODELS["beta"][0], **STRICT)
    own = make_frame()["wt"]
    kept = release.datasets[0].weights
    assert np.sort(kept / kept.mean()) == pytest.approx(np.sort(own / own.mean()))
    said = str(release.privacy)
    assert "declared public by the agency" in said and "found so on the file" not in said


def test_a_reference_from_a_public_file_is_in_the_predictors_own_units():
    frame = make_frame()
    age = np.arange(1000) % 60 + 20.0
    frame = frame.assign(age=age, pay=np.random.default_rng(1).gamma(2.0, 50 * np.exp(0.02 * age)))
    model = ss.GammaRegression("pay ~ age", weight="public")
    reference = ss.Reference.from_public(ss.SurveyDesign(frame, weights="wt"), model, source="a census")
    assert reference.columns == ("Intercept", "age", "log(weight)")
    assert reference.values["b"][1] == pytest.approx(0.02, abs=0.005)
    assert float(reference.values["shape"]) == pytest.approx(2.0, abs=0.4)


@pytest.mark.parametrize("weights", [pytest.param("wt", marks=pytest.mark.slow), "even"])
def test_what_a_record_contributes_is_its_clamped_ratio_to_the_reference(weights):
    """As the membership attack takes it: densities of scipy, of the count and of the log weight."""
    how = {} if weights == "wt" else {"weight": "public"}
    model = ss.NegativeBinomialRegression("visits ~ g + s", **how)
    frame = make_frame()
    done = ss.fit(ss.SurveyDesign(frame, weights=weights), model, **STRICT, bounds=(0, 100))
    chosen = np.array([0, 5, int(frame["visits"].argmax())])
    records, reference, b = done.records, done.weighted.reference, done.budget.bound

    def logs(draws):
        mean, phi = np.exp(draws["b"] @ records.x[chosen].T), draws["phi"][:, None]
        y = records.y[chosen]
        count = nbinom.logpmf(y, phi, phi / (phi + mean))
        if weights == "even":
            return count
        of_weight = draws["c"][:, :-1] @ records.x[chosen].T + draws["c"][:, -1:] * np.log1p(y)
        return count + norm.logpdf(records.log_w[chosen], of_weight, draws["sigma"][:, None])

    assert done.weighted.posterior.led and done.weighted.first is not None
    before = np.repeat(logs(reference), done.weighted.posterior.size, axis=0)
    before[0] = logs(done.weighted.first)[0]  # the data sets after the first are measured against that one
    ratio = logs(done.draws) - before
    alpha = done.weighted.alpha[chosen]
    assert done.contributions(chosen) == pytest.approx(np.clip(alpha * ratio, -b, b), abs=1e-8)
    attack = ss.membership_attack(done, seed=1)
    assert attack.records["advantage"].max() <= np.tanh(6.0 / 2)


# ---- a program of one's own

PROGRAM = """
data { int<lower=1> n; int<lower=1> K; matrix[n, K] x; vector<lower=0>[n] y; vector<lower=0>[n] alpha; }
parameters { vector[K] b; real<lower=0> shape; }
model {
  b ~ normal(0, 10);
  shape ~ lognormal(0, 2);
  for (i in 1:n) target += alpha[i] * gamma_lpdf(y[i] | shape, shape / exp(x[i] * b));
}
"""


def data(records, alpha):
    return {"n": records.n, "K": records.x.shape[1], "x": records.x, "y": records.y, "alpha": alpha}


def log_density(records, draws):
    shape = draws["shape"][:, None]
    return gamma.logpdf(records.y, shape, scale=np.exp(draws["b"] @ records.x.T) / shape)


def simulate(public, draw, rng):
    return rng.gamma(draw["shape"], np.exp(public.x @ draw["b"]) / draw["shape"]), None


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("stan") / "pay.stan"
    path.write_text(PROGRAM)
    return path


def own_model(program, **how):
    settings = {"outcome": "pay", "predictors": "g", "measure": "pay, in its own unit", "data": data}
    return ss.StanModel(program, **(settings | {"log_density": log_density, "simulate": simulate} | how))


def guess(model, b=(4.3, 0.3, 0.6)):
    values = {"b": list(b), "shape": 1.5}
    return ss.Reference(model, ("Intercept", "g[T.1]", "g[T.2]"), values, "a guess")


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.0, 0.4])
def test_a_program_of_ones_own_is_measured_against_a_reference(program, off):
    model = own_model(program)
    reference = guess(model, (4.3 + off, 0.3 - off, 0.6))
    release = ss.synthesize(make_design("even"), model, **STRICT, mechanism=ss.Strict(reference=reference))
    assert release.privacy.kind == "strict" and "a guess" in str(release.privacy)
    table = release.tables(by=["g"], statistic="mean")
    own = ss.estimate(make_design("even"), "pay", ["g"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / table["se"]).max() < 4


def clipped(program, frame, B=1.0):
    model = own_model(program)
    records = model.prepare(ss.SurveyDesign(frame, weights="even"), "ignore")
    reference = guess(model)
    return clipped_program(model, records, reference.draws(model, records.public), np.full(records.n, 0.5), B)


def test_nodes_prior_and_starts_of_a_program_are_the_same_whatever_the_outcomes(program):
    frame = make_frame(200)
    first, second = clipped(program, frame), clipped(program, frame.assign(pay=frame["pay"].sample(frac=1).values * 3))
    for name in ("weight", "node_ref", "scale", "centre"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    point = first.centre + 0.1
    assert first.prior()(point)[0] == second.prior()(point)[0]
    assert np.array_equal(first.nodes.y, second.nodes.y)


def test_one_record_moves_the_target_of_a_program_by_no_more_than_is_said(program):
    """Two of its values, a mild and a wild one: the difference of the targets ranges over 4 a B at most."""
    frame = make_frame(100)
    wild = frame.copy()
    wild.loc[5, "pay"] = 1e9
    one, other = (clipped(program, f).function() for f in (frame, wild))
    rng = np.random.default_rng(1)
    points = clipped(program, frame).centre + rng.normal(0, 0.5, (200, 4))
    moved = np.array([one(p)[0] - other(p)[0] for p in points])
    assert 0.1 < np.ptp(moved) <= 4 * 0.5 * 1.0 + 1e-9


def test_the_constant_of_a_program_is_that_of_the_package_own_family(program):
    """C_B at public nodes beside the cells of the gamma family, as they move with the parameters."""
    from surveysynth.models.gamma import GammaFamily
    from surveysynth.models.shared.clipped_fit import NARROW
    from surveysynth.models.shared.clipped_outcome import Outcome, clipped_outcome

    target = clipped(program, make_frame(2000))
    own = clipped_outcome(
        GammaFamily(), GammaFamily(), target.records.X, target.records.row, target.records.y, None,
        Outcome(np.array([4.3, 0.3, 0.6]), np.log(1.5)), target.a, 1.0, NARROW, None, first=False,
    )  # fmt: skip
    at, sd = own.function(), own._sd
    found = []
    for step in np.vstack([np.zeros(4), 3 * np.diag(target.scale), -3 * np.diag(target.scale)]):
        point = target.centre + step
        whitened = np.append(np.linalg.solve(own.Q, step[:3]), step[3])
        draws = target.coordinates.draws(point[None])
        ratio = np.clip(target.model.log_density(target.records, draws) - target.log_ref, -1, 1)[0] @ target.a
        expected = np.exp(np.clip(target.model.log_density(target.nodes, draws) - target.node_ref, -1, 1))[0]
        prior = -0.5 * ((whitened / sd) ** 2).sum()
        found.append((ratio - expected @ target.weight, at(whitened)[0] - prior))
    program_s, package_s = np.array(found).T
    change = (program_s - program_s[0]) - (package_s - package_s[0])
    assert np.abs(change).max() < 0.3  # of a log density that falls by 4.5 there
    assert np.abs(package_s - package_s[0]).max() > 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("simplex[3] p;", "'p' is another one"),
        ("real<lower=K> shape;", "'shape' is another one"),
        ("ordered[2] c; real b;", "'c' is another one"),
    ],
)
def test_parameters_without_free_coordinates_are_refused(tmp_path, text, said):
    path = tmp_path / "x.stan"
    path.write_text(f"data {{ int K; }} parameters {{ {text} }} model {{ }}")
    with pytest.raises(ss.ModelError, match=said):
        Coordinates.of(path, {"p": np.ones(3) / 3, "shape": np.array(1.0), "c": np.ones(2), "b": np.array(0.0)})


def test_free_coordinates_go_there_and_back(tmp_path):
    path = tmp_path / "x.stan"
    path.write_text(
        "data { int K; } transformed data { real z = 1; } parameters { matrix[2, 3] B; // and\n real<lower=0> s;\n"
        "real<lower=-1, upper=2.5> r; array[2] real<upper=3> u; } transformed parameters { real q = s; } model { }"
    )
    values = {
        "B": np.arange(6.0).reshape(2, 3), "s": np.array(0.3), "r": np.array(1.1), "u": np.array([-2.0, 2.9]),
    }  # fmt: skip
    coordinates = Coordinates.of(path, values)
    back = coordinates.draws(coordinates.free(values)[None])
    assert isinstance(back, Draws)
    for name, value in values.items():
        assert back[name][0] == pytest.approx(value)


def test_a_program_of_ones_own_needs_a_reference_and_a_public_weight(program):
    for design, model, message in (
        (make_design("even"), own_model(program), "parameters of your choice"),
        (make_design(), own_model(program, weight="modelled"), "declare that the weight is public"),
    ):
        with pytest.raises((ss.InputError, ss.ModelError), match=message):
            ss.synthesize(design, model, **STRICT, mechanism=ss.Strict())
