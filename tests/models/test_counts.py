"""NegativeBinomial and Poisson against row-by-row computations, quadrature, R's glm.nb, and the printed bounds."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowwise import collapsed, log_prob, moments_agree, reference, sampler
from scipy.special import gammaln, logsumexp
from scipy.stats import halfcauchy, invgamma, nbinom, norm, poisson
from scipy.stats import t as student_t

from surveysynth import FBS, InputError, ModelError, SurveyDesign, synthesize
from surveysynth.models import counts as counts
from surveysynth.models.counts import NegativeBinomialRegression, PoissonRegression
from surveysynth.models.densities import count_likelihood as count_likelihood
from surveysynth.models.densities import row_density
from surveysynth.models.draws import Draws
from tests.surveys import PSEUDO

MODELS = {"nb": NegativeBinomialRegression, "poisson": PoissonRegression}


def file(n=60, seed=1, modelled=False, mean=8.0, phi=2.0, empty=False):
    """A frame; its predictors by hand, mean 0 and standard deviation 1 after a column of ones."""
    rng = np.random.default_rng(seed)
    field, x = rng.permutation(np.arange(n) % 3), rng.integers(0, 4, n)
    raw = np.column_stack([field == 1, field == 2, x]).astype(float)
    X = np.column_stack([np.ones(n), (raw - raw.mean(axis=0)) / raw.std(axis=0)])
    mu = mean * np.exp(X[:, 1:] @ [0.4, -0.3, 0.2])
    y = rng.poisson(mu * rng.gamma(phi, 1 / phi, n)).astype(float)
    if empty:
        y[field == 2] = 0
    w = 10 * np.exp(0.2 * x - 0.3 * np.log1p(y) + rng.normal(0, 0.3, n)) if modelled else np.full(n, 3.0)
    return pd.DataFrame({"field": np.array(list("abc"))[field], "x": x, "y": y, "w": w}), X


def design_of(y, **columns):
    return SurveyDesign(pd.DataFrame({"y": np.asarray(y, dtype=float), "w": 1.0} | columns), weights="w")


def alphas(n):
    alpha = np.random.default_rng(4).uniform(0, 1, n)
    alpha[:5] = 0
    return alpha


def drawn(dispersed=True, modelled=False, S=30, K=4, seed=2):
    rng = np.random.default_rng(seed)
    values = {"b": 0.3 * rng.normal(size=(S, K)) + [2, *[0] * (K - 1)]}
    if dispersed:
        values["phi"] = np.exp(rng.normal(1, 3, S))
    if modelled:
        values |= {"c": 0.3 * rng.normal(size=(S, K + 1)), "sigma": np.exp(rng.normal(-1, 0.3, S))}
    return Draws(values, np.zeros(S, dtype=np.intp), None, "none", "0")


def rowwise_log_density(frame, X, posterior):
    """log p (S, n), by scipy."""
    v, y = posterior.values, frame["y"].to_numpy()
    mu = np.exp(v["b"] @ X.T)
    out = poisson.logpmf(y, mu)
    if "phi" in v:
        phi = v["phi"][:, None]
        out = nbinom.logpmf(y, phi, phi / (phi + mu))
    if "c" in v:
        w = np.log(frame["w"] / frame["w"].mean()).to_numpy()
        out = out + norm.logpdf(w, v["c"] @ np.column_stack([X, np.log1p(y)]).T, v["sigma"][:, None])
    return out


# ---- the program


def place(sent, t, z, u, Omega_root):
    """log sigma_b, b and log(1 / phi) that coordinates stand for."""
    r, log_A = sent["ratio"], sent["log_A_empty"]
    s = np.log(sent["size"]) + np.maximum(t, 0) + r * np.minimum(t - 1 + 1 / r, 0)
    s = s - np.log(1 - np.minimum(np.maximum(t, 1 - 1 / r), 0))
    root = np.exp(s)[:, None] * Omega_root
    precision = sent["basis"].T @ np.linalg.inv(root @ root.T) @ sent["basis"] + np.diag(sent["lambda"])
    mean, V = np.linalg.solve(precision, sent["h"]), np.linalg.inv(precision)
    a = mean + np.linalg.solve(np.linalg.cholesky(precision).T, z)
    if sent["Z"]:
        E = sent["X_empty"] @ sent["basis"]
        q, wall = E @ a + log_A, np.maximum(E @ mean + log_A, 0)
        x = np.where(q > wall, wall + np.log1p(np.maximum(q - wall, 0)), q)
        a = a + V @ E.T @ np.linalg.solve(E @ V @ E.T, x - q)
    return np.concatenate([s, sent["basis"] @ a, sent["l_centre"] + sent["l_scale"] * u])


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["paper", "independent"])
@pytest.mark.parametrize(("kind", "empty"), [("nb", False), ("nb", True), ("poisson", True)])
def test_target_is_the_rowwise_one(kind, empty, prior):
    """Up to one constant: by a row-by-row program, and the Jacobian of the coordinates by differences."""
    frame, X = file(empty=empty)
    model, alpha = MODELS[kind]("y", "field + x", prior), alphas(60)
    data = model.prepare(SurveyDesign(frame, weights="w"))
    program, sent = collapsed(model, data, alpha)
    assert sent["Z"] == empty
    D, correlated = int(model.dispersed), prior == "paper"
    rows = reference(
        "counts_rowwise.stan", n=60, K=4, dispersed=D, correlated=int(correlated), weighted=0, X=X,
        y=frame["y"].tolist(), w=[0.0] * 60, alpha=alpha.tolist(),
    )  # fmt: skip
    rng, apart, walls = np.random.default_rng(7), [], 0
    for _ in range(60):
        point = rng.normal(size=8 + D) * rng.choice([0.5, 1.5])
        root = np.eye(4)
        if correlated:
            root = np.linalg.cholesky(np.corrcoef(rng.normal(size=(4, 9))))

        def placed(p, root=root):
            return place(sent, p[:4], p[4:8], p[8:], root)

        step = 1e-6 * np.eye(8 + D)
        jacobian = np.linalg.slogdet([(placed(point + e) - placed(point - e)) / 2e-6 for e in step])[1]
        s, b, log_a = np.split(placed(point), [4, 8])
        L_Omega = root if correlated else np.eye(1)
        ours = log_prob(program, t=point[:4], L_Omega=L_Omega, z=point[4:8], u=point[8:])
        empties = {"c": np.empty(0), "sigma": np.empty(0)}
        full = np.exp(s)[:, None] * root  # b = full z there
        z = np.linalg.solve(full, b)
        theirs = log_prob(rows, z=z, sigma_b=np.exp(s), L_Omega=L_Omega, inv_phi=np.exp(log_a), **empties)
        apart.append(ours - theirs - jacobian + np.linalg.slogdet(full)[1])
        walls += empty and (sent["X_empty"] @ b + sent["log_A_empty"])[0] > 0
    assert np.ptp(apart) < 1e-5  # the differences' own error
    assert not empty or 5 < walls < 55


@pytest.mark.parametrize("phi", [0.01, 0.7, 19.99, 20.0, 300.0, 1e8, 1e13, np.inf])
def test_log_density_for_any_phi(phi):
    """By sums of log(1 + j / phi), which nothing is lost in; at 1e8 next to Poisson's."""
    y = np.array([0.0, 1, 2, 15, 16, 40, 1000, 90_000])
    data = NegativeBinomialRegression("y").prepare(design_of(y))
    posterior = Draws({"b": np.array([[3.0]]), "phi": np.array([phi])}, *[np.zeros(1, dtype=int)] * 4)
    mu = np.exp(3)
    rise = [math.fsum(np.log1p(np.arange(v) / phi)) for v in y]
    spent = mu if phi == np.inf else phi * np.log1p(mu / phi)
    expected = rise - gammaln(y + 1) + y * (3 - np.log1p(mu / phi)) - spent
    found = NegativeBinomialRegression("y").log_density(data.subset(np.arange(8)), posterior)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    if phi >= 1e8:
        np.testing.assert_allclose(found[:6], poisson.logpmf(y[:6], mu), rtol=1e-5)


@pytest.mark.parametrize("most", [30, 5000, 400_000])
def test_few_points_stand_for_all_counts(most):
    """Sums over distinct counts, to rounding, for any phi; and no more than ten points an octave."""
    rng = np.random.default_rng(1)
    count = np.sort(np.round(most * rng.beta(0.5, 3, 20_000)))
    weight = rng.uniform(0, 1, count.size) * (rng.uniform(size=count.size) < 0.9)
    v, w = count_likelihood.points(count, weight)
    assert v.size <= 16 + 10 * 15 and (w >= 0).all()
    phi = np.exp(np.linspace(-20, 30, 60))
    found, exact = w @ count_likelihood.rises(v, phi), weight @ count_likelihood.rises(count, phi)
    terms = weight @ np.abs(count_likelihood.rises(count, phi))  # signs differ: rise(v) falls where phi is small
    np.testing.assert_allclose(found, exact, atol=1e-13 * terms.max(), rtol=1e-12)


def quadrature(y, alpha, dispersed, b, log_a):
    """Means and standard deviations of (b, log(1 / phi)) on a grid; sigma_b is integrated out on one of its own."""
    s = np.linspace(-12, 12, 4001)[:, None]
    log_prior = student_t.logpdf(np.exp(s), 3) + s + norm.logpdf(b, 0, np.exp(s))
    log_p = logsumexp(log_prior, axis=0)[:, None] + np.zeros(log_a.size)
    if dispersed:
        log_p = log_p + halfcauchy.logpdf(np.exp(log_a), 0, 5) + log_a
    mu, phi = np.exp(b)[:, None], np.exp(-log_a)
    for v in np.unique(y):
        term = nbinom.logpmf(v, phi, phi / (phi + mu)) if dispersed else poisson.logpmf(v, mu)
        log_p = log_p + alpha[y == v].sum() * term
    p = np.exp(log_p - logsumexp(log_p))
    assert max(p[0].sum(), p[-1].sum()) < 1e-5
    assert not dispersed or max(p[:, 0].sum(), p[:, -1].sum()) < 1e-3
    grids = [b[:, None] + 0 * p, log_a + 0 * p]
    means = [(p * g).sum() for g in grids]
    return means, [np.sqrt((p * (g - m) ** 2).sum()) for g, m in zip(grids, means, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "phi"), [("nb", 1.5), ("nb", 1e6), ("poisson", 1e6)])
def test_posterior_is_that_of_quadrature(kind, phi):
    """Dispersed counts, and counts that are Poisson, so that phi may be anything that is large."""
    rng = np.random.default_rng(3)
    y = rng.poisson(4 * rng.gamma(phi, 1 / phi, 40)).astype(float)
    model, alpha = MODELS[kind]("y"), np.random.default_rng(5).uniform(0.3, 1, 40)
    posterior = model.fit(model.prepare(design_of(y)), alpha, sampler(3))
    assert posterior.failures == () and posterior.size == 4000
    log_a = np.linspace(-16, 4, 241) if model.dispersed else np.zeros(1)
    means, sds = quadrature(y, alpha, model.dispersed, np.linspace(0.2, 2.6, 201), log_a)
    draws = [posterior.values["b"][:, 0], *([-np.log(posterior.values["phi"])] if model.dispersed else [])]
    error = 4.5 / np.sqrt(posterior.diagnostics.ess_bulk)
    for d, mean, sd in zip(draws, means, sds, strict=False):
        assert abs(d.mean() - mean) < error * sd
        assert abs(d.std() / sd - 1) < 2 * error  # log(1 / phi) has an exponential tail: kurtosis up to 9


def dollars():
    y = np.random.default_rng(8).gamma(3, 35_000, 3000).round()
    y[::33] = 0
    return y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "y", "g", "alpha"),
    [
        ("nb", file(30, mean=20)[0]["y"], np.arange(30) % 5, None),
        ("nb", np.random.default_rng(1).poisson(20, 1000), np.arange(1000) % 5, None),  # phi has no end
        ("nb", np.where(np.arange(1000) % 5 < 3, 0, np.random.default_rng(1).negative_binomial(3, 0.1, 1000)),
         np.arange(1000) % 5, None),  # three cells without any count
        ("poisson", np.where(np.arange(90) % 3, np.random.default_rng(1).poisson(5, 90), 0), np.arange(90) % 3, None),
        ("nb", dollars(), np.arange(3000) % 4, np.where(np.arange(3000) % 2, 0, 0.7)),
        ("nb", np.random.default_rng(1).poisson(0.05, 1000), np.arange(1000) % 2, None),
    ],
    ids=["small", "Poisson counts", "empty cells", "empty cell, Poisson", "dollars, half of alpha 0", "rare"],
)  # fmt: skip
def test_hard_files_sample_well(kind, y, g, alpha):
    model = MODELS[kind]("y", "g", "independent")
    data = model.prepare(design_of(y, g=[f"cell {k}" for k in g]))
    posterior = model.fit(data, np.ones(len(y)) if alpha is None else alpha, sampler(3))
    assert posterior.failures == ()


# ---- densities


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_densities_are_those_of_scipy(monkeypatch, kind, modelled, small_blocks):
    if small_blocks:
        monkeypatch.setattr(row_density, "BLOCK_BYTES", 24 * 30 * 2)
    frame, X = file(modelled=modelled)
    model = MODELS[kind]("y", "field + x")
    data, posterior = model.prepare(SurveyDesign(frame, weights="w")), drawn(model.dispersed, modelled)
    assert (data.log_w is not None) == modelled == (data.public_weights is None)
    log_p = rowwise_log_density(frame, X, posterior)
    np.testing.assert_allclose(model.lipschitz(data, posterior), np.abs(log_p).max(axis=0), rtol=1e-8)
    unit = np.random.default_rng(1).integers(0, 9, 60)
    sums = np.array([log_p[:, unit == u].sum(axis=1) for u in range(9)])
    np.testing.assert_allclose(model.lipschitz(data, posterior, unit), np.abs(sums).max(axis=1), rtol=1e-8)
    some = np.array([7, 3, 3, 50])
    np.testing.assert_allclose(model.log_density(data.subset(some), posterior), log_p[:, some], rtol=1e-8)
    before, after = alphas(60), np.random.default_rng(9).uniform(0, 1, 60)
    ratio = model.log_ratio(data, before, after, posterior)
    np.testing.assert_allclose(ratio, log_p @ (after - before), rtol=1e-7, atol=1e-6)


def test_a_density_that_is_not_finite_has_no_bound():
    data, posterior = PoissonRegression("y").prepare(design_of([0, 1, 5])), drawn(False, S=3, K=1)
    posterior.values["b"][1] = 800.0  # mu overflows
    assert np.isinf(PoissonRegression("y").lipschitz(data, posterior)).all()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(10, 40))
def test_order_of_records_changes_nothing(seed, n):
    frame, _ = file(n, seed % 1000, modelled=True)
    order, model = np.random.default_rng(seed).permutation(n), NegativeBinomialRegression("y", "field + x")
    here = model.prepare(SurveyDesign(frame, weights="w"))
    there = model.prepare(SurveyDesign(frame.iloc[order], weights="w"))
    posterior, alpha = drawn(modelled=True), alphas(n)
    np.testing.assert_allclose(model.lipschitz(here, posterior)[order], model.lipschitz(there, posterior), rtol=1e-9)
    one, other = (counts._collapsed(*args, True) for args in ((here, alpha), (there, alpha[order])))
    for name in ("A", "S", "v", "weight"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), share=st.floats(0.01, 0.99))
def test_a_record_may_be_split(seed, share):
    """Two records alike, with shares of one's alpha, are that one."""
    frame, _ = file(20, seed)
    alpha, model = alphas(20), NegativeBinomialRegression("y")
    whole = model.prepare(SurveyDesign(frame, weights="w"))
    twice = model.prepare(SurveyDesign(pd.concat([frame, frame]), weights="w"))
    posterior = drawn(K=1)
    split = model._log_likelihood(twice, np.concatenate([share * alpha, (1 - share) * alpha]), posterior)
    np.testing.assert_allclose(split, model._log_likelihood(whole, alpha, posterior), rtol=1e-9)


def test_coefficients_in_the_predictors_own_units():
    frame, X = file(modelled=True)
    model = NegativeBinomialRegression("y", "field + x")
    data, posterior = model.prepare(SurveyDesign(frame, weights="w")), drawn(modelled=True)
    own = model.to_original_scale(data, posterior).values
    raw = np.column_stack([np.ones(60), frame["field"] == "b", frame["field"] == "c", frame["x"]]).astype(float)
    np.testing.assert_allclose(own["b"] @ raw.T, posterior.values["b"] @ X.T, atol=1e-10)
    full = np.column_stack([raw, np.log1p(frame["y"])]).T
    np.testing.assert_allclose(own["c"] @ full, posterior.values["c"] @ np.vstack([X.T, full[-1]]), atol=1e-10)
    back = model.from_original_scale(data, model.to_original_scale(data, posterior)).values
    for name, v in posterior.values.items():
        np.testing.assert_allclose(back[name], v, rtol=1e-10, atol=1e-12)


# ---- the weight


@pytest.mark.slow
def test_weight_part_has_its_closed_form():
    """Moments of the normal inverse gamma posterior, from matrices with a row a record."""
    frame, X = file(modelled=True)
    model, alpha = PoissonRegression("y", "field + x"), alphas(60)
    data = model.prepare(SurveyDesign(frame, weights="w"))
    of = counts._weight_statistics(data, data.log_w, alpha)
    drawn = counts.draw_weights(of, 40_000, np.random.default_rng(1))
    Z, w = np.column_stack([X, np.log1p(frame["y"])]), np.log(frame["w"] / frame["w"].mean()).to_numpy()
    inverse = np.linalg.inv(Z.T * alpha @ Z + np.eye(5) / 100)
    mean = inverse @ (Z.T * alpha @ w)
    a, rate = (1 + alpha.sum()) / 2, 0.005 + (alpha @ (w - Z @ mean) ** 2 + mean @ mean / 100) / 2
    variance = invgamma(a, scale=rate)
    moments_agree(drawn["c"], mean, variance.mean() * inverse)
    moments_agree(drawn["sigma"][:, None] ** 2, np.array([variance.mean()]), np.array([[variance.var()]]))
    fitted = model.fit(data, alpha, sampler(1, draws=300)).values
    assert fitted["c"].shape == (1200, 5) and fitted["sigma"].shape == (1200,)


def test_public_mean_weight_divides():
    frame, _ = file(modelled=True)
    data = PoissonRegression("y").prepare(SurveyDesign(frame, weights="w"), mean_weight=2.5)
    np.testing.assert_allclose(data.log_w, np.log(frame["w"] / 2.5))


# ---- others' fits


@pytest.mark.slow
def test_posterior_mean_is_that_of_glm_nb(r, to_r):
    frame, _ = file(5000, mean=30, phi=4)
    to_r("counts", frame)
    r.r("fit <- MASS::glm.nb(y ~ field + x, data = counts)")
    theirs, error = np.array(r.r("coef(fit)")), np.array(r.r("sqrt(diag(vcov(fit)))"))
    theta, theta_error = r.r("fit$theta")[0], r.r("fit$SE.theta")[0]
    model = NegativeBinomialRegression("y", "field + x", "independent")
    data = model.prepare(SurveyDesign(frame, weights="w"))
    posterior = model.to_original_scale(data, model.fit(data, np.ones(5000), sampler(1))).values
    # the prior moves a coefficient by a fraction of its error, as the likelihood's skewness does
    assert (np.abs(posterior["b"].mean(axis=0) - theirs) < 0.15 * error).all()
    np.testing.assert_allclose(posterior["b"].std(axis=0), error, rtol=0.08)
    assert abs(posterior["phi"].mean() - theta) < 0.15 * theta_error
    assert posterior["phi"].std() == pytest.approx(theta_error, rel=0.08)


@pytest.mark.slow
def test_lipschitz_bounds_of_the_paper():
    """Hu, Savitsky & Williams (2020, section 2): 0.2 NB(100, 5) + 0.8 NB(100, 20), n = 1000: bounds from 13 to 16."""
    model, found = NegativeBinomialRegression("y"), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        phi = np.where(rng.uniform(size=1000) < 0.2, 5, 20)
        data = model.prepare(design_of(rng.poisson(100 * rng.gamma(phi, 1 / phi))))
        found.append(model.lipschitz(data, model.fit(data, np.ones(1000), sampler(seed, draws=500))).max())
    assert 12 < min(found) and max(found) < 18 and 13 < np.median(found) < 16


# ---- synthetic data


@pytest.mark.parametrize("kind", list(MODELS))
def test_simulated_counts_follow_the_draw(kind):
    frame, X = file(modelled=True)
    model = MODELS[kind]("y", "field + x")
    data, posterior = model.prepare(SurveyDesign(frame, weights="w")), drawn(model.dispersed, True, S=2)
    if model.dispersed:
        posterior.values["phi"][1] = 1.7
    rng, v = np.random.default_rng(1), {name: a[1] for name, a in posterior.values.items()}
    sets = [next(model.simulations(data, posterior, [1], rng)) for _ in range(2000)]
    y = np.array([s.outcomes[:, 0] for s in sets])
    assert (y == y.round()).all() and y.min() == 0
    mu = np.exp(X @ v["b"])
    variance = mu + (mu**2 / v["phi"] if model.dispersed else 0)
    assert np.abs((y.mean(axis=0) - mu) / np.sqrt(variance) * np.sqrt(2000)).max() < 4.5
    error = np.sqrt(((y - mu) ** 4).mean(axis=0) / variance**2 / 2000)
    assert (np.abs(((y - mu) ** 2).mean(axis=0) / variance - 1) < 5 * error).all()
    expected = np.exp(np.column_stack([X, np.log1p(y[0])]) @ v["c"])
    np.testing.assert_allclose(sets[0].weights, expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("modelled", [False, True])
def test_release_end_to_end(modelled):
    frame, _ = file(500, modelled=modelled)
    model, total = NegativeBinomialRegression("y", "field"), round(frame["w"].sum())
    release = synthesize(
        SurveyDesign(frame, weights="w", strata="field"),
        model,
        epsilon=12,
        m=2,
        population_total=total,
        seed=1,
        mechanism=PSEUDO,
    )
    assert release.privacy.epsilon <= 12 and release.method["method"] == "NegativeBinomial"
    assert release.method["weights"] == ("synthesized (smoothed)" if modelled else "public")
    for synthetic in release.datasets:
        y = synthetic.frame["y"]
        assert (y >= 0).all() and (y == y.round()).all() and y.nunique() > 10
        assert synthetic.weights.sum() == pytest.approx(total)
        assert (np.unique(synthetic.weights).size > 3) == modelled
    said = " ".join(release.privacy.assumptions)
    assert "negative binomial" in said and "half-Cauchy(0, 5)" in said and "a zero is a count like others" in said
    assert ("smoothed weights are released" in said) == modelled
    means = release.tables(by=["field"]).query("statistic == 'mean'")
    assert means["estimate"].between(1, 60).all()


# ---- at the door


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": ["y"]}, "one column"), ({"missing": "keep"}, "fail, drop"), ({"predictors": "y"}, "outcome"),
        ({"prior": "flat"}, "paper, independent"),
    ],
)  # fmt: skip
def test_options(options, message):
    for model in MODELS.values():
        with pytest.raises(InputError, match=message):
            model(**({"outcome": "y"} | options))


def test_the_file_is_checked():
    frame, _ = file()
    model = NegativeBinomialRegression("y", "field + x")

    def refused(kind, message, model=model, design=None, **changed):
        with pytest.raises(kind, match=message) as raised:
            model.prepare(SurveyDesign(frame.assign(**changed), weights="w", **(design or {})))
        return str(raised.value)

    y, fourth = frame["y"].to_numpy(), np.arange(60) == 3
    said = refused(InputError, r"not a count, .* in 1 row \(row numbers 4.*use FBS", y=np.where(fourth, 7.25, y))
    assert "7.25" not in said
    assert "-77" not in refused(InputError, "not a count", y=np.where(fourth, -77, y))
    refused(InputError, "missing in 1 row", y=np.where(fourth, np.nan, y))
    refused(InputError, "intercept", NegativeBinomialRegression("y", "0 + x"))
    refused(ModelError, "constant", y=3.0)
    refused(ModelError, "nearly, but not quite", w=3 + 1e-4 * np.random.default_rng(1).uniform(size=60))
    refused(ModelError, "determine the survey weight", w=(1 + y) ** 0.5)
    psu = {"psu": np.arange(60) // 6}
    refused(InputError, "PSUs .* clusters='ignore'", design={"psu": "psu"}, **psu)
    refused(InputError, "strata .* clusters='ignore'", design={"strata": "psu"}, **psu)
    model.prepare(SurveyDesign(frame.assign(**psu), weights="w", psu="psu"), "ignore")
    data = model.prepare(SurveyDesign(frame, weights="w", strata="field"))
    assert "array" not in repr(data)


@pytest.mark.parametrize("alpha", [np.zeros(60), np.full(60, 0.01), "zeros"])
def test_too_little_weight_is_refused(alpha):
    frame, _ = file(mean=1)
    data = NegativeBinomialRegression("y", "field").prepare(SurveyDesign(frame, weights="w"))
    alpha = np.where(frame["y"] == 0, 1.0, 0.0) if isinstance(alpha, str) else alpha
    with pytest.raises(ModelError, match="too little of the file"):
        NegativeBinomialRegression("y", "field").fit(data, alpha, sampler(1))


def test_describes_itself_as_the_other_models_do():
    frame, _ = file()
    design, model = SurveyDesign(frame.assign(v=frame["y"] + 1), weights="w"), NegativeBinomialRegression("y", "field")
    fbs = FBS("v", "field")
    assert {*model.describe(model.prepare(design))} == {*fbs.describe(fbs.prepare(design))}
