"""Shares of the variance between PSUs: what a record moves, and what they come to."""

import numpy as np
import pytest
from scipy.stats import norm

from surveysynth.models.draws import Draws
from surveysynth.models.normal import psu_shares
from surveysynth.models.normal.records import JointPublic, JointRecords
from surveysynth.models.normal.relative import as_draws
from surveysynth.models.shared.clipped_fit import Density, straight
from surveysynth.models.shared.groups import Groups

SHARES = np.array([0.12, 0.05])


def clustered(rng, C=400, each=15, shift=0.0):
    """Records whose outcome and log weight have effects of PSUs, and one predictor that is constant within these."""
    psu = np.repeat(np.arange(C), each)
    x = np.repeat(rng.integers(0, 2, C), each)
    e = np.sqrt(1 - SHARES) * rng.standard_normal((C * each, 2)) + np.sqrt(SHARES) * rng.standard_normal((C, 2))[psu]
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    y = e + shift * np.sqrt(2) * (2 * x - 1)[:, None]
    return JointRecords(
        X=X, row=x, columns=("Intercept", "x"), y=y[:, :1], log_w=y[:, 1], groups=Groups(psu, C),
    )  # fmt: skip


REFERENCE = Density(np.zeros((2, 2)), np.eye(2), **straight(2, 2))


def shares(records, epsilon=1e6, *, known=np.inf, each=1, curved=False, reference=REFERENCE, seed=1):
    return psu_shares.private_shares(
        records, records.groups, reference, curved=curved, epsilon=epsilon, each=each, known=known,
        rng=np.random.default_rng(seed),
    )  # fmt: skip


def test_shares_are_those_that_the_file_was_made_with():
    """Over 20 files, within 4 of their standard errors; to second order the clip takes off a little."""
    found = np.array([shares(clustered(np.random.default_rng(seed))) for seed in range(20)])
    error = found.std(axis=0) / 20**0.5
    assert (np.abs(found.mean(axis=0) - SHARES) < 4 * error + 0.1 * SHARES**2).all()


def test_coefficients_that_were_drawn_are_no_effects_of_psus():
    """A draw from a posterior of 100 records' worth moves records of a PSU together: that is known, and taken off."""
    known, rng = 100.0, np.random.default_rng(2)
    kept, taken_off = [], []
    for seed in range(100):
        records = clustered(np.random.default_rng(seed), C=150)
        B = np.linalg.solve(records.X, np.array([[1, 1], [1, -1]]) @ rng.standard_normal((2, 2)) / known**0.5)
        drawn = Density(B, np.eye(2), **straight(2, 2))
        kept.append(shares(records, reference=drawn))
        taken_off.append(shares(records, reference=drawn, known=known))
    error = 4 * np.std(taken_off, axis=0) / 10
    assert (np.mean(kept, axis=0) - SHARES > 0.01).all()
    assert (np.abs(np.mean(taken_off, axis=0) - SHARES) < error + 0.1 * SHARES**2).all()


@pytest.mark.parametrize("each", [1, 3])
def test_a_blanked_unit_moves_them_by_no_more_than_the_sensitivity(monkeypatch, each):
    seen = []

    def exact(values, sensitivity, epsilon, rng):
        seen.append((values, sensitivity))
        return values, 0.0

    monkeypatch.setattr(psu_shares, "laplace", exact)
    rng = np.random.default_rng(3)
    moved = []
    for _ in range(40):
        records = clustered(rng, C=6, each=5)
        extreme = rng.choice([-1e6, 1e6])
        y, w = records.y.copy(), records.log_w.copy()
        psu = records.groups.record == 2
        y[psu] = w[psu] = extreme  # a PSU that is all alike, of which a unit is blanked: at its mean
        before = JointRecords(**vars(records) | {"y": y, "log_w": w})
        unit = np.flatnonzero(psu)[:each]
        y, w = y.copy(), w.copy()
        y[unit] = w[unit] = 0.0
        for file in (before, JointRecords(**vars(records) | {"y": y, "log_w": w})):
            psu_shares.private_shares(
                file, file.groups, REFERENCE, curved=False, epsilon=1.0, each=each, known=np.inf, rng=None
            )
        (first, sensitivity), (second, _) = seen[-2:]
        moved.append(np.abs(first - second).sum())
        assert moved[-1] <= sensitivity + 1e-12
    assert max(moved) > 0.6 * sensitivity


def test_synthetic_innovations_are_alike_within_psus():
    rng = np.random.default_rng(4)
    C, each = 4000, 10
    groups = Groups(np.repeat(np.arange(C), each), C)
    public = JointPublic(
        X=np.ones((1, 1)), row=np.zeros(C * each, dtype=np.intp), columns=("Intercept",), groups=groups
    )
    density = Density(np.zeros((1, 2)), np.eye(2), **straight(1, 2), psu=SHARES)
    draw: Draws = as_draws([density])
    z, of_weight, within = psu_shares.new_innovations(public, draw, 1, rng)
    between = z[:, 0].reshape(C, each).mean(axis=1).var() - (1 - SHARES[0]) / each
    assert z.var() == pytest.approx(1, abs=0.03)
    assert between == pytest.approx(SHARES[0], abs=0.02)
    assert of_weight.reshape(C, each).std(axis=1).max() < 1e-12
    assert of_weight.var() == pytest.approx(SHARES[1], rel=0.1)
    assert within == 1 - SHARES[1]
    assert norm.cdf(z).mean() == pytest.approx(0.5, abs=0.02)
