"""The collapsed count program, and the exact draws of the weight's part, against a row-by-row program in rstan.

make reference        (compiles for about a minute)
"""


import numpy as np
import pandas as pd
import pytest
from batches import moments

from surveysynth import SurveyDesign
from surveysynth.engines import get_engine
from surveysynth.models.counts import NegativeBinomialRegression, PoissonRegression
from surveysynth.models.draws import Sampler

pytestmark = pytest.mark.reference
N, DRAWS = 60, 5000


PROGRAM = "counts_rowwise.stan"


@pytest.mark.parametrize(
    ("model", "empty"),
    [
        (NegativeBinomialRegression("y", "field"), False),
        (NegativeBinomialRegression("y", "field", "independent"), True),
        (PoissonRegression("y", "field"), True),
    ],
    ids=["paper", "independent, an empty cell", "Poisson, an empty cell"],
)
def test_posterior_moments(rstan, model, empty):
    rng = np.random.default_rng(31)
    field, alpha = np.arange(N) % 3, rng.uniform(0, 1, N)
    alpha[:5] = 0
    y = rng.poisson(np.array([4, 9, 6])[field] * rng.gamma(2, 0.5, N)).astype(float)
    if empty:
        y[field == 2] = 0
    w = np.exp(0.3 * field - 0.2 * np.log1p(y) + rng.normal(0, 0.4, N))
    frame = pd.DataFrame({"field": field.astype(str), "y": y, "w": w})

    data = model.prepare(SurveyDesign(frame, weights="w"))
    posterior = model.fit(data, alpha, Sampler(lambda: get_engine("embedded"), rng, 4, 1000, DRAWS))
    assert posterior.failures == ()
    # functions of the parameters with moments of every order: an empty cell's coefficient has heavy tails
    v = posterior.values
    eta = v["b"] @ data.X.T
    ours = [np.tanh(eta / 4), *([np.tanh(np.log(v["phi"]) / 4)[:, None]] if model.dispersed else [])]
    ours = np.concatenate([x.reshape(4, DRAWS, -1) for x in [*ours, v["c"], v["sigma"]]], axis=2)

    X = data.X[data.pattern]
    rstan.globalenv["X"] = rstan.r.matrix(rstan.FloatVector(X.flatten(order="F")), nrow=N)
    for name, value in {"y": y, "w": np.log(w / w.mean()), "alpha": alpha}.items():
        rstan.globalenv[name] = rstan.FloatVector(value)
    rstan.r(f"""
        fit <- suppressWarnings(sampling(rowwise, chains = 4, warmup = 1000, iter = {1000 + DRAWS}, seed = 5,
          refresh = 0, cores = 1, control = list(adapt_delta = 0.999),
          data = list(n = {N}, K = 3, dispersed = {int(model.dispersed)}, correlated = {int(model.prior == "paper")},
                      weighted = 1, X = X, y = y, w = w, alpha = alpha)))
        draws <- extract(fit, permuted = FALSE, c("b", {'"inv_phi", ' if model.dispersed else ""}"c", "sigma"))""")
    assert rstan.r("get_num_divergent(fit)")[0] < 4 * DRAWS / 1000  # few enough to leave the reference what it is
    D = int(model.dispersed)
    theirs = np.array(rstan.r("as.numeric(aperm(draws, c(3, 1, 2)))")).reshape(4, DRAWS, 3 + D + 5)
    b, inv_phi, rest = np.split(theirs, [3, 3 + D], axis=2)
    theirs = np.concatenate([np.tanh(b @ data.X.T / 4), np.tanh(-np.log(inv_phi) / 4), rest], axis=2)

    (m1, e1), (m2, e2) = moments(ours), moments(theirs)
    z = (m1 - m2) / np.hypot(e1, e2)
    labels = ["eta1", "eta2", "eta3", *["phi"] * D, "c1", "c2", "c3", "gamma", "sigma"]
    table = pd.DataFrame(np.vstack([m1, m2, z]).T, labels, ["mean", "sd", "rstan mean", "rstan sd", "z mean", "z sd"])
    print(f"\n{model}\n{table.round(4).to_string()}")
    assert np.abs(z).max() < 4
