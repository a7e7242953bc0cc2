"""The flat prior p(B, Sigma) ~ |Sigma|^-(D+1)/2, whose posterior is drawn without Markov chains.

B (K, D) are the coefficients of K predictors, and Sigma (D, D) is the residual covariance of the outcomes and the log
weight.  S is the number of draws.
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
    """Draw the coefficients B and the residual covariance Sigma from the pseudo posterior under the flat prior.

    The draws are exact: Sigma ~ inverse-Wishart(A - rank, S0), and B given Sigma is matrix normal.  A is the sum of the
    privacy weights alpha, and rank is the rank of the predictors.

    Parameters
    ----------
    records : JointRecords
        The records, which must identify the mean of every predictor row.
    statistics : SufficientStatistics
        Sums over the records, weighted by alpha.
    R, Z0, S0 : float arrays (rank, K), (rank, D), (D, D)
        ``statistics.reduced()``.  R'R are the weighted cross products of the predictors.  Z0 = R B^, where B^ are the
        weighted least-squares coefficients.  S0 are the residual sums of squares and products.
    sampler : Sampler
        Source of the randomness, and the number of draws S: the number of chains times the number of draws per chain.

    Returns
    -------
    Draws
        ``B`` (S, K, D), and ``L`` (S, D, D), the lower Cholesky factors of Sigma.

    Raises
    ------
    ModelError
        The records do not identify the mean of a predictor row.
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
