"""The collapsed FBS program against the row-by-row program in rstan, an implementation of Stan of its own.

make reference        (compiles for about a minute)
"""


import numpy as np
import pandas as pd
import pytest
from batches import moments

from surveysynth import FBS, SurveyDesign
from surveysynth.engines import get_engine
from surveysynth.models.draws import Sampler

pytestmark = pytest.mark.reference
N, DRAWS = 60, 5000


PROGRAM = "fbs_rowwise.stan"


@pytest.mark.parametrize("prior", ["paper", "independent"])
def test_posterior_moments_of_B_and_Sigma(rstan, prior):
    rng = np.random.default_rng(31)
    field, alpha = np.arange(N) % 3, rng.uniform(0, 1, N)
    alpha[:5] = 0
    X = np.column_stack([np.ones(N), field == 1, field == 2]).astype(float)
    Y = X @ [[10, 3], [1, -1], [2, 1]] + rng.normal(size=(N, 2)) @ [[0.5, 0.3], [0, 0.4]]
    frame = pd.DataFrame({"field": field.astype(str), "y": np.exp(Y[:, 0]), "w": np.exp(Y[:, 1])})
    Y[:, 1] -= np.log(frame["w"].mean())

    model = FBS("y", "field", prior=prior)
    sampler = Sampler(lambda: get_engine("embedded"), rng, 4, 1000, DRAWS)
    posterior = model.fit(model.prepare(SurveyDesign(frame, weights="w")), alpha, sampler)
    assert posterior.failures == ()
    L = posterior.values["L"]
    ours = [posterior.values["B"].transpose(0, 2, 1), (L @ L.transpose(0, 2, 1))[:, [0, 1, 1], [0, 0, 1]]]
    ours = np.concatenate([v.reshape(4, DRAWS, -1) for v in ours], axis=2)

    def matrix(values):
        return rstan.r.matrix(rstan.FloatVector(values.flatten(order="F")), nrow=len(values))

    for name, value in {"X": matrix(X), "Y": matrix(Y), "alpha": rstan.FloatVector(alpha)}.items():
        rstan.globalenv[name] = value
    rstan.r(f"""
        fit <- suppressWarnings(sampling(rowwise, chains = 4, warmup = 1000, iter = {1000 + DRAWS}, seed = 5,
          refresh = 0, cores = 1,
          data = list(n = {N}, K = 3, D = 2, X = X, Y = Y, alpha = alpha, correlated = {int(prior == "paper")}),
          control = list(adapt_delta = 0.99)))
        draws <- extract(fit, permuted = FALSE,
          c("B[1,1]", "B[2,1]", "B[3,1]", "B[1,2]", "B[2,2]", "B[3,2]", "L[1,1]", "L[2,1]", "L[2,2]"))""")
    assert rstan.r("get_num_divergent(fit)")[0] < 4 * DRAWS / 1000  # few enough to leave the reference what it is
    theirs = np.array(rstan.r("as.numeric(aperm(draws, c(3, 1, 2)))")).reshape(4, DRAWS, 9)
    l11, l21, l22 = np.moveaxis(theirs[:, :, 6:], 2, 0)
    theirs[:, :, 6:] = np.stack([l11**2, l11 * l21, l21**2 + l22**2], axis=2)

    (m1, e1), (m2, e2) = moments(ours), moments(theirs)
    z = (m1 - m2) / np.hypot(e1, e2)
    labels = ["B11", "B21", "B31", "B12", "B22", "B32", "Sigma11", "Sigma21", "Sigma22"]
    table = pd.DataFrame(np.vstack([m1, m2, z]).T, labels, ["mean", "sd", "rstan mean", "rstan sd", "z mean", "z sd"])
    print(f"\nprior {prior}\n{table.round(4).to_string()}")
    assert np.abs(z).max() < 4
