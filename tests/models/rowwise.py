"""What the tests of FBS and FBP share: a small file, the programs row by row, and comparisons of draws."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import stanli

from surveysynth.engines import base, get_engine
from surveysynth.models.draws import Sampler

REFERENCE = Path(__file__).parents[1] / "reference"
EFFECT = np.array([[10.0, -2.0, 3.0], [1.0, 1.5, -1.0], [2.0, -1.5, 1.0], [-1.0, 1.0, 2.0]])  # K x (y, h, w)
NOISE = np.array([[0.5, 0.0, 0.0], [-0.2, 0.4, 0.0], [0.3, 0.1, 0.4]])


def sample(n=60, seed=1, x=True, weights=True):
    """A frame, and its X and Y = (log y, log h, log(w / mean w)) by hand."""
    rng = np.random.default_rng(seed)
    field = np.array(list("abc"))[np.arange(n) % 3]
    X = np.column_stack([np.ones(n), field == "b", field == "c", rng.normal(size=n)])[:, : 3 + x]
    Y = X @ EFFECT[: X.shape[1]] + rng.normal(size=(n, 3)) @ NOISE.T
    frame = pd.DataFrame({"field": field, "x": X[:, -1], "y": np.exp(Y[:, 0]), "h": np.exp(Y[:, 1])})
    frame["w"] = np.exp(Y[:, 2]) if weights else 7.0
    Y[:, 2] -= np.log(np.exp(Y[:, 2]).mean())
    return frame, X, Y


def alphas(n=60, seed=5, empty_cell=False):
    alpha = np.random.default_rng(seed).uniform(0, 1, n)
    alpha[:5] = 0
    if empty_cell:
        alpha[2::3] = 0  # field c
    return alpha


def sampler(seed=1, chains=4, draws=1000, engine="embedded"):
    return Sampler(lambda: get_engine(engine), np.random.default_rng(seed), chains, 1000, draws)


class Stop(Exception):
    pass


class Capture:
    """An engine that keeps what it was given."""

    def sample(self, program, data, **settings):
        self.program, self.data = program, data
        raise Stop


def collapsed(model, data, alpha):
    """The program that a fit samples, and its data."""
    engine = Capture()
    with pytest.raises(Stop):
        model.fit(data, alpha, Sampler(lambda: engine, np.random.default_rng(0)))
    return stanli.Model(stan_file=str(base.program_path(engine.program)), data=dict(engine.data)), engine.data


def reference(program, **data):
    """A program of ``tests/reference/`` on some data."""
    return stanli.Model(stan_file=str(REFERENCE / program), data=data)


def log_prob(model, **values):
    flat = {name: np.asarray(v).flatten(order="F").tolist() for name, v in values.items()}
    return model.log_prob_grad(model.unconstrain(flat))[0]


def z_scores(a, b, batch=100):
    """(mean a - mean b, var a - var b) over their Monte Carlo error by batch means; a, b: (chains, draws, ...)."""
    a, b = (v.reshape(*v.shape[:2], -1) for v in (a, b))

    def estimate(x, centre):
        moments = np.stack([x, (x - centre) ** 2])
        means = moments.reshape(2, -1, batch, x.shape[-1]).mean(axis=2)
        return means.mean(axis=1), means.var(axis=1, ddof=1) / means.shape[1]

    (m1, v1), (m2, v2) = (estimate(x, x.mean(axis=(0, 1))) for x in (a, b))
    return (m1 - m2) / np.sqrt(v1 + v2)


def moments_agree(draws, mean, covariance):
    """Mean and covariance of independent draws (S, P), each entry within 4.5 Monte Carlo errors."""
    S, e = len(draws), draws - mean
    error = np.sqrt(np.diag(covariance) / S)
    assert (np.abs(e.mean(axis=0)) < 4.5 * error).all()
    products = np.einsum("sp,sq->spq", e, e)
    assert (np.abs(products.mean(axis=0) - covariance) < 4.5 * products.std(axis=0) / np.sqrt(S)).all()


def with_values(records, Y):
    """Records of FBS or FBP with other values on their working scales: outcomes, then log weights if modelled."""
    d = records.y.shape[1]
    return replace(records, y=Y[:, :d], log_w=None if records.log_w is None else Y[:, d])
