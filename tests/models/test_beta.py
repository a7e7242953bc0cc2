"""Beta against row-by-row computations, quadrature, and printed numbers (Hu, Williams & Savitsky 2025)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowwise import collapsed, log_prob, reference, sampler
from scipy.special import expit, logsumexp
from scipy.stats import beta as beta_distribution
from scipy.stats import logistic, norm, pareto

from surveysynth import FBS, InputError, ModelError, SurveyDesign, synthesize
from surveysynth.models import beta as beta
from surveysynth.models.beta import EDGE, BetaRegression
from surveysynth.models.densities import row_density
from surveysynth.models.draws import Draws
from surveysynth.privacy.weight_maps import MAPS
from tests.surveys import PSEUDO

LOW, HIGH = -20.0, 80.0
MODEL = BetaRegression("y", "field + x", bounds=(LOW, HIGH))
PLAIN = BetaRegression("y", bounds=(0, 1))


def file(n=60, seed=1, repeated=False):
    """A frame, y as shares of the range, and x by hand: means 0 and standard deviations 1."""
    rng = np.random.default_rng(seed)
    field, x = rng.permutation(np.arange(n) % 3), rng.integers(0, 4, n)
    raw = np.column_stack([field == 1, field == 2, x]).astype(float)
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    phi = expit(X @ [0.5, -0.5, 0.3] - 0.5)
    y = rng.beta(5 * phi, 5 * (1 - phi))
    if repeated:
        y = y.round(1).clip(0.1, 0.9)
    frame = pd.DataFrame({"field": np.array(list("abc"))[field], "x": x, "y": LOW + (HIGH - LOW) * y, "w": 3.0})
    return frame, y, X


def alphas(n, repeated=False):
    alpha = np.random.default_rng(4).uniform(0, 1, n)
    alpha[:5] = 0
    return (2 * alpha).round() / 2 if repeated else alpha


def design_of(y):
    return SurveyDesign(pd.DataFrame({"y": y, "w": 1.0}), weights="w")


def skewed(n, seed):
    return np.random.default_rng(seed).beta(0.5, 3, n)


def fitted(model, data, alpha, bound, sample):
    return model.fit(data, alpha, sample) if bound is None else model.censored(data, alpha, bound, sample)


class Censored:
    """A model whose fit is the censored one."""

    def __init__(self, model, bound):
        self.fit = lambda data, alpha, sample: fitted(model, data, alpha, bound, sample)


def drawn(S=30, K=4, seed=2, spread=0.3):
    rng = np.random.default_rng(seed)
    values = {"b": spread * rng.normal(size=(S, K)), "lambda": 0.1 + np.exp(rng.normal(1, 0.5, S))}
    return Draws(values, np.zeros(S, dtype=np.intp), None, "none", "0")


def rowwise_log_density(y, X, posterior):
    """log p (S, n), by scipy."""
    b, lam = posterior.values["b"], posterior.values["lambda"][:, None]
    phi = expit(b[:, :1] + b[:, 1:] @ X.T)
    return beta_distribution.logpdf(y, lam * phi, lam * (1 - phi))


# ---- the programs


@pytest.mark.slow
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("bound", [None, 1.5, 0.3])
def test_target_is_the_rowwise_one(bound, repeated):
    """Up to one constant: by scipy, and by a program shaped like the one in the paper's supplement 1."""
    frame, y, X = file(repeated=repeated)
    alpha = alphas(60, repeated)
    data = MODEL.prepare(SurveyDesign(frame, weights="w"))
    program, sent = collapsed(Censored(MODEL, bound), data, alpha)
    rows = reference(
        "beta_rowwise.stan", n=60, K=3, x=X, y=y.tolist(), alpha=alpha.tolist(), M=1e9 if bound is None else bound
    )
    if bound is not None and repeated:
        assert sent["n"] < 0.95 * (alpha > 0).sum() == 0.95 * sum(sent["count"])
    rng, scipys, stans, clamped = np.random.default_rng(7), [], [], []
    for _ in range(100):
        z = rng.normal(size=5) * rng.choice([1, 3, 6])
        theta = sent["centre"] + sent["root"] @ z
        b, lam = theta[:4], 0.1 + np.exp(theta[4])
        terms = alpha * rowwise_log_density(y, X, Draws({"b": b[None], "lambda": lam[None]}, *[np.zeros(1)] * 4))[0]
        clamp = np.inf if bound is None else bound
        clamped.append((np.abs(terms) > clamp).mean())
        ours = log_prob(program, z=z)
        by_hand = np.clip(terms, -clamp, clamp).sum() + logistic.logpdf(b[0]) + norm.logpdf(b[1:], 0, 2.5).sum()
        scipys.append(ours - by_hand - pareto.logpdf(lam, 1.5, scale=0.1) - theta[4])
        phi_0 = expit(b[0])  # whose Jacobian is that of the logit, as theta[4] is that of lambda
        stans.append(ours - log_prob(rows, phi_0=phi_0, beta=b[1:], **{"lambda": lam}))
    assert np.ptp(scipys) < 1e-8 and np.ptp(stans) < 1e-8
    if bound is not None:
        assert min(clamped) < 0.6 and max(clamped) > 0.1


@pytest.mark.parametrize("bound", [None, 2.5, 0.5])
def test_gradient_behind_the_coordinates(bound):
    """By finite differences, where no record crosses the clamp."""
    frame, *_ = file()
    data, alpha = MODEL.prepare(SurveyDesign(frame, weights="w")), alphas(60)
    log_density = beta._collapsed(data.X, beta._sums(data, alpha))
    if bound is not None:
        log_density = beta._censored(data.X, data.row, data.y, alpha, np.ones(60), bound)
    theta = np.array([-0.4, 0.3, -0.2, 0.1, 1.2])
    step = 1e-5 * np.eye(5)
    slope = [(log_density(theta + h)[0] - log_density(theta - h)[0]) / 2e-5 for h in step]
    np.testing.assert_allclose(log_density(theta)[1], slope, rtol=1e-5, atol=1e-5)


def quadrature(y, alpha, bound, b, log_excess):
    """Means and standard deviations of (b, log lambda) on a grid."""
    B, E = np.meshgrid(b, log_excess, indexing="ij")
    lam, phi = 0.1 + np.exp(E), expit(B)
    log_p = logistic.logpdf(B) + pareto.logpdf(lam, 1.5, scale=0.1) + E
    for a, v in zip(alpha, y, strict=True):
        term = a * beta_distribution.logpdf(v, lam * phi, lam * (1 - phi))
        log_p += term if bound is None else np.clip(term, -bound, bound)
    p = np.exp(log_p - logsumexp(log_p))
    assert max(p[0].sum(), p[-1].sum(), p[:, 0].sum(), p[:, -1].sum()) < 1e-6
    means = [(p * v).sum() for v in (B, np.log(lam))]
    return means, [np.sqrt((p * (v - m) ** 2).sum()) for v, m in zip((B, np.log(lam)), means, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("bound", [None, 2.5, 0.5])
def test_posterior_is_that_of_quadrature(bound):
    y = skewed(200, 3)
    data, alpha = PLAIN.prepare(design_of(y)), np.random.default_rng(5).uniform(0.3, 1, 200)
    posterior = fitted(PLAIN, data, alpha, bound, sampler(3))
    assert posterior.failures == () and posterior.size == 4000
    b, log_lambda = posterior.values["b"][:, 0], np.log(posterior.values["lambda"])
    means, sds = quadrature(y, alpha, bound, np.linspace(-5, 4, 181), np.linspace(-6, 6, 161))
    error = 4.5 / np.sqrt(posterior.diagnostics.ess_bulk)
    for draws, mean, sd in zip((b, log_lambda), means, sds, strict=True):
        assert abs(draws.mean() - mean) < error * sd
        assert abs(draws.std() / sd - 1) < 1.5 * error  # a half at kurtosis 3, with room for heavier tails


@pytest.mark.slow
@pytest.mark.parametrize("bound", [None, 2.5, 0.5])
def test_regression_samples_well(bound):
    frame, *_ = file(1500)
    data = MODEL.prepare(SurveyDesign(frame, weights="w"))
    assert fitted(MODEL, data, np.ones(1500), bound, sampler(3)).failures == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 8])
def test_far_modes_are_found(seed):
    """Uniform data under a tight clamp: the largest mode is far from the one without the clamp."""
    data = PLAIN.prepare(design_of(np.random.default_rng(seed).uniform(size=600)))
    log_density = beta._censored(data.X, data.row, data.y, np.ones(600), np.ones(600), 0.5)
    first, factor = beta._mode(data.X, beta._sums(data, np.ones(600)))
    centre, _ = beta._best_mode(log_density, first, factor, 0.5)
    b, e = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(-3, 4, 71))
    highest = max(log_density(theta)[0] for theta in np.column_stack([b.ravel(), e.ravel()]))
    assert log_density(centre)[0] > highest - 2 and log_density(first)[0] < highest - 10


def test_two_modes_are_refused():
    """Data and their mirror image: under a tight clamp the largest mode has one of the same size."""
    half = np.random.default_rng(1).uniform(size=1000)
    data = PLAIN.prepare(design_of(np.concatenate([half, 1 - half])))
    with pytest.raises(ModelError, match="several modes"):
        PLAIN.censored(data, np.ones(2000), 0.5, sampler(1))


# ---- densities


@pytest.mark.parametrize("small_blocks", [False, True])
def test_densities_are_those_of_scipy(monkeypatch, small_blocks):
    if small_blocks:
        monkeypatch.setattr(row_density, "BLOCK_BYTES", 24 * 30 * 2)
    frame, y, X = file()
    data, posterior = MODEL.prepare(SurveyDesign(frame, weights="w")), drawn()
    log_p = rowwise_log_density(y, X, posterior)
    np.testing.assert_allclose(MODEL.lipschitz(data, posterior), np.abs(log_p).max(axis=0), rtol=1e-10)
    unit = np.random.default_rng(1).integers(0, 9, 60)
    sums = np.array([log_p[:, unit == u].sum(axis=1) for u in range(9)])
    np.testing.assert_allclose(MODEL.lipschitz(data, posterior, unit), np.abs(sums).max(axis=1), rtol=1e-9)
    some = np.array([7, 3, 3, 50])
    np.testing.assert_allclose(MODEL.log_density(data.subset(some), posterior), log_p[:, some], rtol=1e-10)
    before, after = alphas(60), np.random.default_rng(9).uniform(0, 1, 60)
    ratio = MODEL.log_ratio(data, before, after, posterior)
    np.testing.assert_allclose(ratio, log_p @ (after - before), rtol=1e-9)


def test_a_density_that_is_not_finite_has_no_bound():
    data, posterior = PLAIN.prepare(design_of(skewed(20, 1))), drawn(S=3, K=1)
    posterior.values["b"][1] = -800.0  # phi underflows
    assert np.isinf(PLAIN.lipschitz(data, posterior)).all()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(8, 40))
def test_order_of_records_changes_nothing(seed, n):
    frame, *_ = file(n, seed % 1000)
    order = np.random.default_rng(seed).permutation(n)
    here = MODEL.prepare(SurveyDesign(frame, weights="w"))
    there = MODEL.prepare(SurveyDesign(frame.iloc[order], weights="w"))
    posterior, alpha = drawn(), alphas(n)
    np.testing.assert_allclose(MODEL.lipschitz(here, posterior)[order], MODEL.lipschitz(there, posterior), rtol=1e-9)
    np.testing.assert_allclose(beta._sums(here, alpha), beta._sums(there, alpha[order]), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(here.X, there.X, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6))
def test_units_change_nothing(low, width):
    y = skewed(30, 1).clip(0.01, 0.99)
    moved = BetaRegression("y", bounds=(low, low + width)).prepare(design_of(low + width * y))
    np.testing.assert_allclose(moved.y, PLAIN.prepare(design_of(y)).y, atol=1e-5)


# ---- figures of the paper


@pytest.mark.slow
def test_lipschitz_bounds_of_the_paper():
    """Section 4.2: bounds of Beta(0.5, 3), n = 2000, from about 7.5 to 15; weighted (linear map) 2 to 3.5."""
    unweighted, weighted = [], []
    for seed in range(6):
        data = PLAIN.prepare(design_of(skewed(2000, seed)))
        f = PLAIN.lipschitz(data, PLAIN.fit(data, np.ones(2000), sampler(seed, draws=500)))
        alpha = MAPS["linear"](f, 1.0, 0.0, 1.0)
        posterior = PLAIN.fit(data, alpha, sampler(seed, draws=500))
        unweighted.append(f.max())
        weighted.append((alpha * PLAIN.lipschitz(data, posterior)).max())
    assert 6.5 < min(unweighted) and max(unweighted) < 15
    assert 1.8 < min(weighted) and max(weighted) < 3.5


# ---- synthetic data


@pytest.mark.slow
def test_simulated_outcomes_follow_the_draw():
    frame, *_ = file()
    data, posterior = MODEL.prepare(SurveyDesign(frame, weights="w")), drawn(S=2)
    rng, (b, lam) = np.random.default_rng(1), (posterior.values["b"][1], posterior.values["lambda"][1])
    sets = [next(MODEL.simulations(data, posterior, [1], rng)) for _ in range(2000)]
    y = (np.array([s.outcomes[:, 0] for s in sets]) - LOW) / (HIGH - LOW)
    _, _, X = file()
    phi = expit(b[0] + X @ b[1:])
    sd = np.sqrt(phi * (1 - phi) / (1 + lam))
    assert np.abs((y.mean(axis=0) - phi) / sd * np.sqrt(2000)).max() < 4.5
    assert (np.abs(y.var(axis=0) / sd**2 - 1) < 4.5 * np.sqrt(((y - phi) ** 4).mean(axis=0) / sd**4 / 2000)).all()
    assert (sets[0].weights == 3).all()


def test_synthetic_outcomes_stay_within_the_bounds():
    """Shapes so small that draws are the bounds themselves; bounds at which arithmetic overshoots."""
    model = BetaRegression("y", bounds=(0.1, 0.7))
    data = model.prepare(design_of(0.1 + 0.6 * skewed(500, 1)))
    posterior = Draws({"b": np.zeros((1, 1)), "lambda": np.array([0.1001])}, *[np.zeros(1, dtype=int)] * 4)
    y = next(model.simulations(data, posterior, [0], np.random.default_rng(1))).outcomes
    assert y.min() >= 0.1 and y.max() <= 0.7 and len(np.unique(y)) > 2


def test_release_end_to_end():
    frame, *_ = file(400)
    release = synthesize(
        SurveyDesign(frame, weights="w", strata="field"),
        MODEL,
        epsilon=8,
        m=2,
        population_total=1200,
        seed=1,
        mechanism=PSEUDO,
    )
    assert release.privacy.epsilon <= 8 and release.method["method"] == "Beta" and release.method["weights"] == "public"
    for synthetic in release.datasets:
        y = synthetic.frame["y"]
        assert y.between(LOW, HIGH).all() and y.nunique() > 300
        assert synthetic.weights.sum() == pytest.approx(1200)
    said = " ".join(release.privacy.assumptions)
    assert "from -20 to 80" in said and "1e-06" in said and "print no priors" in said
    overall = release.tables(by=["field"]).query("statistic == 'mean'")
    assert len(overall) and overall["estimate"].between(LOW, HIGH).all()


# ---- at the door


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (1, 0)}, "low < high"), ({"bounds": (0, np.inf)}, "finite"), ({"bounds": 3}, "two"),
        ({"bounds": (0, 1, 2)}, "two"), ({"bounds": (True, 2)}, "two"), ({"bounds": "01"}, "two"),
        ({"outcome": ["y"]}, "one column"), ({"missing": "keep"}, "fail, drop"), ({"predictors": "y"}, "outcome"),
    ],
)  # fmt: skip
def test_options(options, message):
    with pytest.raises(InputError, match=message):
        BetaRegression(**({"outcome": "y", "bounds": (0, 1)} | options))


def test_the_file_is_checked():
    frame, *_ = file()

    def refused(kind, message, model=MODEL, clusters="model", design=None, **changed):
        with pytest.raises(kind, match=message) as raised:
            model.prepare(SurveyDesign(frame.assign(**changed), weights="w", **(design or {})), clusters)
        return str(raised.value)

    y = frame["y"].to_numpy()
    said = refused(InputError, r"outside the bounds in 1 row \(row numbers 4", y=np.where(np.arange(60) == 3, 81.25, y))
    assert "81" not in said and "not by this file" in said
    refused(InputError, "missing in 1 row", y=np.where(np.arange(60) == 3, np.nan, y))
    refused(InputError, "intercept", BetaRegression("y", "0 + x", bounds=(LOW, HIGH)))
    refused(InputError, "use FBS", w=np.random.default_rng(1).uniform(1, 2, 60))
    refused(ModelError, "constant", y=3.0)
    refused(ModelError, "determine y", y=LOW + (HIGH - LOW) * expit(frame["x"] - 2))
    psu = {"psu": np.arange(60) // 6}
    refused(InputError, "PSUs .* clusters='ignore'", design={"psu": "psu"}, **psu)
    refused(InputError, "strata .* clusters='ignore'", design={"strata": "psu"}, **psu)
    MODEL.prepare(SurveyDesign(frame.assign(**psu), weights="w", psu="psu"), "ignore", mean_weight=2.0)
    MODEL.prepare(SurveyDesign(frame, weights="w", strata="field"))
    with pytest.raises(InputError, match="Beta has no debias"):
        synthesize(SurveyDesign(frame, weights="w"), MODEL, epsilon=9, debias=True, mechanism=PSEUDO)


def test_values_at_the_bounds_are_moved_to_the_edge():
    y = skewed(50, 1).clip(0.01, 0.99)
    y[:3] = 0, 1, EDGE / 2
    np.testing.assert_allclose(
        PLAIN.prepare(design_of(y)).y[:3], np.log([[EDGE, 1 - EDGE], [1 - EDGE, EDGE], [EDGE, 1 - EDGE]]), rtol=1e-9
    )


@pytest.mark.parametrize("bound", [None, 1.0])
def test_too_little_weight_is_refused(bound):
    data = PLAIN.prepare(design_of(skewed(50, 1)))
    one = np.where(np.arange(50) == 1, 1.0, 0.0)
    for alpha in (np.zeros(50), one, np.full(50, 0.01)):
        with pytest.raises(ModelError, match="too little of the file"):
            fitted(PLAIN, data, alpha, bound, sampler(1))


def test_describes_itself_as_the_other_models_do():
    frame, *_ = file()
    design = SurveyDesign(frame, weights="w")
    fbs = FBS("x", "field", transform="log") if (frame["x"] > 0).all() else FBS("C(x)", "field")
    expected = {*fbs.describe(fbs.prepare(design))} - {"categorical"}
    assert {*MODEL.describe(MODEL.prepare(design))} == expected
