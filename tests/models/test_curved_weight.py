"""A weight that is quadratic in the outcome, beside privacy weights: densities, exact draws, and what it is for."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import surveysynth as ss
from surveysynth.models.draws import Sampler
from surveysynth.models.normal import curved_weight

MODEL = ss.FBS("pay ~ sex", prior="flat", weight="curved")


def file(n=400, seed=1, bend=0.3):
    """Log weights with a quadratic in log pay, and log pay by sex."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n)})
    z = 0.3 * (frame["sex"] == "m") + 0.6 * rng.standard_normal(n)
    frame["pay"] = np.exp(z)
    frame["w"] = np.exp(0.2 * (frame["sex"] == "m") - 0.3 * z + bend * z**2 + 0.4 * rng.standard_normal(n))
    return ss.SurveyDesign(frame, weights="w")


def sampler(size=2000, seed=2):
    return Sampler(lambda: pytest.fail("no engine is needed"), np.random.default_rng(seed), 4, 0, size // 4)


@pytest.fixture(scope="module")
def fitted():
    records = MODEL.prepare(file())
    return records, MODEL.fit(records, np.random.default_rng(3).uniform(0.2, 1, records.n), sampler(40))


def by_hand(records, draws):
    """log p(z | x) + log p(log w | x, z), record by record, from the model's formula: (S, n)."""
    z, log_w = records.Y.T
    out = []
    for b, L, h in zip(draws["B"], draws["L"], draws["h"], strict=True):
        (s, _), (ks, t) = L
        k = ks / s
        g = b[:, 1] - k * b[:, 0]
        x = records.X[records.pattern]
        out.append(norm.logpdf(z, x @ b[:, 0], s) + norm.logpdf(log_w, x @ g + k * z + h * z**2, t))
    return np.array(out)


def test_densities_are_those_of_the_two_regressions(fitted):
    records, draws = fitted
    expected = by_hand(records, draws)
    np.testing.assert_allclose(MODEL.log_density(records, draws), expected, rtol=1e-10)
    np.testing.assert_allclose(MODEL.lipschitz(records, draws), np.abs(expected).max(axis=0), rtol=1e-10)
    unit = np.arange(records.n) // 3
    sums = np.array([np.bincount(unit, row) for row in expected])
    np.testing.assert_allclose(MODEL.lipschitz(records, draws, unit), np.abs(sums).max(axis=0), rtol=1e-10)
    alpha = np.random.default_rng(4).uniform(-1, 1, records.n)
    np.testing.assert_allclose(MODEL.log_likelihood(records, alpha, draws), expected @ alpha, rtol=1e-9)


def test_draws_are_those_of_weighted_least_squares():
    """Moments of the posterior under flat priors, from the records one by one, within 4 Monte Carlo errors."""
    records, size = MODEL.prepare(file()), 40_000
    alpha = np.random.default_rng(3).uniform(0.2, 1, records.n)
    draws = MODEL.fit(records, alpha, sampler(size))
    z, log_w = records.Y.T
    x = records.X[records.pattern]
    k = draws["L"][:, 1, 0] / draws["L"][:, 0, 0]
    g = draws["B"][:, :, 1] - k[:, None] * draws["B"][:, :, 0]
    for y, X, found, sd in (
        (z, x, draws["B"][:, :, 0], draws["L"][:, 0, 0]),
        (log_w, np.column_stack([x, z, z**2]), np.column_stack([g, k, draws["h"]]), draws["L"][:, 1, 1]),
    ):
        gram = X.T @ (alpha[:, None] * X)
        mean = np.linalg.solve(gram, X.T @ (alpha * y))
        squares, df = alpha @ (y - X @ mean) ** 2, alpha.sum() - X.shape[1]
        cov = np.linalg.inv(gram) * squares / (df - 2)
        error = np.sqrt(np.diag(cov))
        assert (np.abs(found.mean(axis=0) - mean) < 4 * error / size**0.5).all()
        np.testing.assert_allclose(np.cov(found.T) / np.outer(error, error), cov / np.outer(error, error), atol=0.04)
        assert (sd**2).mean() == pytest.approx(squares / (df - 2), rel=4 * (2 / df / size) ** 0.5)


@pytest.mark.slow
def test_a_curve_takes_off_the_bias_that_a_line_has():
    """Mean pay by sex at an epsilon that weights nobody down: 20 data sets, 20,000 records."""
    design = file(20_000, seed=5)
    truth = ss.estimate(design, "pay", "sex", "mean")["estimate"].to_numpy()
    error = {}
    for weight in ("linear", "curved"):
        model = ss.FBS("pay ~ sex", prior="flat", weight=weight)
        done = ss.synthesize(
            design, model, epsilon=1e5, m=20, mechanism=ss.PseudoPosterior(), population_total=30_000, seed=6
        )
        table = done.tables("sex", statistic="mean")
        error[weight] = (table["estimate"].to_numpy() - truth) / table["se"].to_numpy()
        assert done.method["weights"] == f"synthesized (smoothed{', curved' * (weight == 'curved')})"
    assert (np.abs(error["curved"]) < 4).all()
    assert (np.abs(error["linear"]) > 6).any()


def test_it_is_tuned_and_released_as_any_other():
    fitted = ss.fit(file(), MODEL, epsilon=20, m=2, mechanism=ss.PseudoPosterior(), seed=7)
    assert fitted.delta <= 5
    assert fitted.draws.values.keys() == {"B", "L", curved_weight.BEND}
    assert "quadratic in the outcome" in str(fitted.release().privacy)
    attack = ss.membership_attack(fitted)
    assert attack is not None
    with pytest.raises(ss.InputError, match="debias is not known beside weight='curved'"):
        ss.synthesize(file(), MODEL, epsilon=20, m=2, mechanism=ss.PseudoPosterior(), debias=True, seed=7)


@pytest.mark.parametrize(
    ("model", "roles"),
    [
        (ss.FBS("pay ~ sex", weight="curved"), {}),
        (ss.FBP("pay ~ sex", prior="flat", weight="curved"), {}),
        (ss.FBS("pay + C(k) ~ sex", prior="flat", weight="curved"), {}),
        (ss.FBS("pay ~ sex", prior="flat", weight="curved"), {"psu": "k"}),
    ],
)
def test_what_has_no_conjugate_form_is_refused_by_name(model, roles):
    frame = file().frame.assign(k=pd.Categorical(np.arange(400) % 20))
    with pytest.raises(ss.ModelError, match="weight='curved' goes with mechanism=Strict"):
        ss.fit(ss.SurveyDesign(frame, weights="w", **roles), model, epsilon=20, mechanism=ss.PseudoPosterior())
