"""Categories with effects of PSUs and strata against a row-by-row program with explicit shares and effects.

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
from surveysynth.models.normal.categories import Categories
from surveysynth.models.normal.category_effects import grouped_counts, sample_with_effects
from surveysynth.models.predictors.groups import Groups

STRATUM = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4])
N, G, CHAINS, DRAWS = 180, 2, 4, 2000


def small_file(K, levels):
    """Categories, alpha and groups: 12 PSUs in 5 strata, one PSU without any weight; every share well known."""
    rng = np.random.default_rng(31)
    cell, psu = np.arange(N) % G, rng.permutation(np.arange(N) % 12)
    alpha = np.where(psu == 5, 0, rng.uniform(0.2, 1, N))
    effect = 0.5 * rng.normal(size=(12, K)) + 0.5 * rng.normal(size=(5, K))[STRATUM]
    utility = np.array([[0.5, 0, 0.3], [0, 0.6, -0.2]])[cell, :K] + effect[psu] + rng.gumbel(size=(N, K))
    data = Categories(("k",), (pd.RangeIndex(K),), cell, G, utility.argmax(axis=1))
    return data, alpha, Groups(psu, 12, STRATUM if levels == 2 else None)


def columns(log_shares, effect, sigma):
    """(chains, draws, P): log shares, effects, sigma."""
    return np.concatenate([v.reshape(CHAINS, DRAWS, -1) for v in (log_shares, effect, sigma)], axis=2)


SLOW = [(3, 1), (2, 2), (3, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "levels"), [(2, 1), *[pytest.param(*case, marks=pytest.mark.reference) for case in SLOW]]
)
def test_posterior_moments_of_all_that_is_drawn(K, levels):
    data, alpha, groups = small_file(K, levels)
    sampler = Sampler(lambda: get_engine("embedded"), np.random.default_rng(1), CHAINS, 1000, DRAWS)
    draws = sample_with_effects(grouped_counts(data, alpha, groups), sampler)
    assert draws.diagnostics.failures == ()
    ours = columns(draws.log_shares, draws.b.astype(float), draws.sigma)

    program = Path(__file__).with_name("categories_rowwise.stan")
    rowwise = stanli.Model(
        stan_file=str(program),
        data={
            "n": N, "G": G, "K": K, "C": 12, "H": 5, "levels": levels, "cell": data.cell + 1,
            "category": data.category + 1, "psu": groups.record + 1, "stratum": STRATUM + 1, "alpha": alpha,
        },
    )  # fmt: skip
    fit = rowwise.sample(chains=CHAINS, seed=3, samples=DRAWS, delta=0.99, refresh=0)
    assert fit.divergences.sum() <= CHAINS * DRAWS / 1000  # few enough to leave the reference what it is
    theirs = columns(np.log(fit.draws("p")), fit.draws("effect"), fit.draws("sigma"))

    (m1, e1), (m2, e2) = moments(ours), moments(theirs)
    z = (m1 - m2) / np.hypot(e1, e2)
    shown = [*range(G * K + 4), *range(G * K + 12 * K, m1.shape[1])]
    table = pd.DataFrame(np.vstack([m1, m2, z]).T[shown], columns=["mean", "sd", "mean 2", "sd 2", "z mean", "z sd"])
    print(f"\n{K} categories, {levels} levels\n{table.round(4).to_string()}")
    assert np.abs(z).max() < 4.5  # of 60 or so, correlated
