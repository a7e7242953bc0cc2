"""Effects of PSUs and strata against a row-by-row program with explicit coefficients and effects.

make reference        (a minute a case)
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import stanli
from batches import moments

from surveysynth.engines import get_engine
from surveysynth.models.draws import Sampler
from surveysynth.models.normal.cluster_effects import draw_strata, grouped_statistics
from surveysynth.models.normal.variance_components import sample_with_effects
from surveysynth.models.predictors.groups import Groups

PRIORS = {"flat": 0, "independent": 1, "paper": 2}
STRATUM = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4])
N, CHAINS, DRAWS = 72, 4, 2000


def small_file(levels):
    """Predictor rows, their codes, Y, alpha and groups: 12 PSUs in 5 strata, one PSU without any weight."""
    rng = np.random.default_rng(21)
    X = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]])
    pattern, psu = np.arange(N) % 3, rng.permutation(np.arange(N) % 12)
    alpha = np.where(psu == 5, 0, rng.uniform(0.2, 1, N))
    effect = 0.5 * rng.normal(size=(12, 2)) + 0.5 * rng.normal(size=(5, 2))[STRATUM]
    noise = (effect[psu] + rng.normal(size=(N, 2))) @ [[0.5, 0.3], [0, 0.4]]
    Y = X[pattern] @ [[9, 3], [2, -2], [3, 2]] + noise
    return X, pattern, Y, alpha, Groups(psu, 12, STRATUM if levels == 2 else None)


def columns(B, L, tau, effect):
    """(chains, draws, P): B, Sigma, log tau, effects of the highest level; tau has too long a tail for batches."""
    Sigma = (L @ L.swapaxes(-1, -2))[..., [0, 1, 1], [0, 0, 1]]
    parts = [B, Sigma, np.log(tau), effect]
    return np.concatenate([v.reshape(CHAINS, DRAWS, -1) for v in parts], axis=2)


SLOW = [("flat", 1), ("independent", 1), ("independent", 2), ("paper", 1), ("paper", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "levels"), [("flat", 2), *[pytest.param(*case, marks=pytest.mark.reference) for case in SLOW]]
)
def test_posterior_moments_of_all_that_is_drawn(prior, levels):
    X, pattern, Y, alpha, groups = small_file(levels)
    statistics = grouped_statistics(X, pattern, Y, alpha, groups)
    rng = np.random.default_rng(1)
    draws = sample_with_effects(statistics, prior, Sampler(lambda: get_engine("embedded"), rng, CHAINS, 1000, DRAWS))
    assert draws.diagnostics.failures == ()
    ours = columns(draws.B, draws.L, draws.tau, draw_strata(statistics, draws.B, draws.L, draws.tau, rng))

    program = Path(__file__).with_name("fbs_effects_rowwise.stan")
    rowwise = stanli.Model(
        stan_file=str(program),
        data={
            "n": N, "K": 3, "D": 2, "X": X[pattern], "Y": Y, "alpha": alpha, "prior": PRIORS[prior],
            "levels": levels, "C": 12, "H": 5, "psu": groups.record + 1, "stratum": STRATUM + 1,
        },
    )  # fmt: skip
    fit = rowwise.sample(chains=CHAINS, seed=3, samples=DRAWS, delta=0.99, refresh=0)
    assert fit.divergences.sum() <= CHAINS * DRAWS / 1000  # few enough to leave the reference what it is
    theirs = columns(*[fit.draws(name) for name in ("B", "L", "tau", "highest")])

    (m1, e1), (m2, e2) = moments(ours), moments(theirs)
    z = (m1 - m2) / np.hypot(e1, e2)
    shown = [*range(9 + 2 * levels), *(9 + 2 * levels + np.arange(4))]
    table = pd.DataFrame(np.vstack([m1, m2, z]).T[shown], columns=["mean", "sd", "mean 2", "sd 2", "z mean", "z sd"])
    print(f"\nprior {prior}, {levels} levels\n{table.round(4).to_string()}")
    assert np.abs(z).max() < 4.5  # of 70 or so, correlated
