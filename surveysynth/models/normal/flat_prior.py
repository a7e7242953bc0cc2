"""The flat prior p(B, Sigma) ~ |Sigma|^-(D+1)/2, whose posterior is drawn without Markov chains.

B are the coefficients, and Sigma (D, D) is the residual covariance of outcomes and log weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import invwishart

from ...engines import Diagnostics
from ..draws import Draws, Sampler
from ..regression.sufficient_statistics import SufficientStatistics
from .identifiability import refuse_unseen
from .joint_records import JointRecords

Floats = NDArray[np.float64]

FLAT = "p(B, Sigma) ~ |Sigma|^-(D+1)/2"


def draw_flat(
    records: JointRecords, statistics: SufficientStatistics, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler
) -> Draws:
    """Draw coefficients B and residual covariance Sigma from the pseudo posterior under the flat prior.

    The draws are exact: Sigma ~ inverse-Wishart(A - rank, S0), and B given Sigma is matrix normal.  A is the sum of
    privacy weights, and S0 are the residual sums of squares and products.
    """
    D, size = S0.shape[0], sampler.chains * sampler.draws
    df = statistics.A - len(R)
    inverse = refuse_unseen(records, R)
    Sigma = invwishart.rvs(df, S0, size=size, random_state=sampler.rng).reshape(size, D, D)
    L = np.asarray(np.linalg.cholesky(Sigma), dtype=np.float64)
    E = sampler.rng.standard_normal((size, len(R), D))
    B = inverse @ (Z0 + E @ L.transpose(0, 2, 1))
    independent = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
    return Draws({"B": B, "L": L}, np.zeros(size, dtype=np.intp), independent, "numpy", np.__version__)
