"""The sampler of mixtures against a row-by-row program under NUTS, longer than in tests/models/test_mixture.py.

make reference        (about ten minutes)
"""

import numpy as np
import pandas as pd
import pytest
from batches import moments
from mixtures import file, rowwise_draws

from surveysynth import SurveyDesign
from surveysynth.models.mixture.model import Mixture

pytestmark = pytest.mark.reference
DRAWS, NUTS = 12_000, 5000


@pytest.mark.parametrize(
    ("prior", "components", "modelled", "zeros", "clamp", "ones"),
    [
        ("common", 3, False, False, None, False),
        ("common", 2, False, True, None, True),
        ("paper", 2, True, True, None, False),
        ("common", 2, False, False, 2.5, False),
        ("common", 2, True, True, 4.0, False),
    ],
    ids=["three components", "alpha = 1", "weight and zeros", "clamped", "all of it clamped"],
)
def test_posterior_moments(prior, components, modelled, zeros, clamp, ones):
    """Shapes of the concentration's prior under which NUTS gets everywhere: few components are ever empty."""
    n = 100
    frame, X = file(n, 1, modelled, zeros)
    model = Mixture("y", "field", zeros=zeros, components=components, prior=prior, a_gamma=8.0, b_gamma=2.0)
    data = model.prepare(SurveyDesign(frame, weights="w"))
    alpha = np.ones(n) if ones else np.random.default_rng(3).uniform(0.1, 1, n)
    ours, theirs, divergent = rowwise_draws(model, data, X, alpha, clamp, draws=DRAWS, nuts=NUTS, chains=4, seed=11)
    assert divergent < 4 * NUTS / 50  # where all components have nearly the same slope; few enough not to be missed
    (m1, e1), (m2, e2) = moments(ours, 250), moments(theirs, 250)
    z = (m1 - m2) / np.hypot(e1, e2)
    table = pd.DataFrame(np.vstack([m1, m2, z]).T, columns=["mean", "sd", "NUTS mean", "NUTS sd", "z mean", "z sd"])
    print(f"\n{model}\n{table.round(4).to_string()}")
    assert np.abs(z).max() < 4
