"""Synthetic files from a posterior of known width: innovations that leave room for it, and weights that are drawn.

**The width of the posterior.**  Draws of the mean of a predictor row x vary with covariance h(x) Sigma / A, where A is
how many records' worth of information the posterior rests on (the sum of a) and h(x) the row's leverage, of mean one
record; and the posterior's own centre varies with h(x) Sigma / n.  Over data sets and samples the synthetic values
of the row then have covariance Sigma (1 + h / A + h / n), and what is convex in them comes out high: incomes and
weights are, on the scale of the model.  So innovations are drawn with the covariance Sigma (1 - h / A - h / n).  All of
it is public or released.

**Weights that are drawn.**  A smoothed weight lacks what the outcome does not explain of it, and so do the variances
within a file of smoothed weights: those of counts most of all.  Drawn weights have it: smoothed ones times a lognormal
residual, with the same sums in every cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .draws import Draws
from .records import Public
from .shared.clipped_fit import whitening

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

LOG_WEIGHTS = np.log(0.05), np.log(50.0)  # of a synthetic weight over the mean, public
LEAST = 0.5  # of the variance of an innovation that is left, in a row of hardly any records


def room(public: Public, draw: Draws, row: Codes) -> Floats:
    """Share of the innovations' variance that is drawn, 1 - h(x) (1 / A + 1 / n): (n,).

    Parameters
    ----------
    public : Public
    draw : Draws
        A single one; ``known`` is A, without which nothing is known of the posterior's width, and the share is 1.
    row : int array (n,)
        Rows of X.
    """
    if "known" not in draw.values:
        return np.ones(public.n)
    size = np.bincount(row, minlength=len(public.X)) if public.size is None else public.size
    W = public.X @ whitening(public.X, size.astype(np.float64))
    leverage = (W**2).sum(axis=1)
    share = 1 - leverage * (1 / float(draw["known"][0]) + 1 / size.sum())
    return np.asarray(np.maximum(share, LEAST)[row])


def cells(public: Public, row: Codes) -> Codes:
    """Combinations of the predictors that are labels, whose columns of X are 0 or 1: (n,)."""
    labels = np.isin(public.X, (0, 1)).all(axis=0)
    return np.asarray(np.unique(public.X[:, labels], axis=0, return_inverse=True)[1].ravel()[row])


def drawn_weights(weights: Floats, sd: Floats, cell: Codes, rng: np.random.Generator) -> Floats:
    """Weights (n,) times a lognormal residual of log standard deviation ``sd`` (n,), with their sums in every cell."""
    drawn = with_residual(weights, sd, rng)
    return np.asarray(drawn * np.bincount(cell, weights)[cell] / np.bincount(cell, drawn)[cell])


def with_residual(weights: Floats, sd: Floats, rng: np.random.Generator) -> Floats:
    """Weights (n,) times a lognormal residual, held within public limits."""
    drawn = np.log(weights) + sd * rng.standard_normal(len(weights)) - sd**2 / 2
    return np.asarray(np.exp(np.clip(drawn, *LOG_WEIGHTS)))
