"""FBP beside a curved weight: its unweighted outcomes are those that FBS's weighted ones are."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.models.normal.fbp import of_population
from surveysynth.models.normal.relative import as_draws
from surveysynth.models.shared.clipped_fit import Density

SCORES = ss.NormalScores([5_000, 20_000, 40_000, 80_000, 300_000], [0.02, 0.2, 0.5, 0.8, 0.98], "a made-up table")


def draws(d=1, K=2):
    rng = np.random.default_rng(1)
    L = np.tril(rng.normal(0, 0.2, (d + 1, d + 1)), -1) + np.diag([*[0.8] * d, 0.4])
    slope = np.linspace(-0.2, 0.6, K)[:, None] * np.ones(d)
    return as_draws([Density(np.tile([0.1] * d + [-0.1], (K, 1)), L, np.full(d, 0.25), np.full(d, 0.15), slope)])


@pytest.mark.parametrize("d", [1, 2])
def test_the_population_is_the_sample_weighted(d):
    """Moments of the innovations in each row, by numerical expectation over the sample's density."""
    draw, rng = draws(d), np.random.default_rng(2)
    X, row = np.array([[1.0, 0.0], [1.0, 1.0]]), rng.permutation(np.arange(80_000) % 2)
    z, log_weight = of_population(draw, X, row, rng)
    e = rng.standard_normal((1_000_000, d))
    L, kappa, eta = draw["L"][0], draw["kappa"][0], draw["eta"][0]

    def given(e, slope):
        bent = e @ slope + (e**2 - 1) @ kappa
        return e @ L[d, :d] + L[d, d] * bent + (L[d, d] * np.exp(e @ eta)) ** 2 / 2

    for k, slope in enumerate(X @ draw["slope"][0]):
        here, w = row == k, np.exp(given(e, slope))
        for power in (1, 2):
            expected = np.average(e**power, axis=0, weights=w)
            np.testing.assert_allclose((z[here] ** power).mean(axis=0), expected, atol=4 * 2 / 40_000**0.5)
        np.testing.assert_allclose(log_weight[here], given(z[here], slope), atol=1e-10)


def test_a_row_of_one_record_gets_one_innovation_of_its_own():
    draw, rng = draws(), np.random.default_rng(5)
    X, row = np.column_stack([np.ones(300), rng.normal(size=300)]), rng.permutation(300)
    z, log_weight = of_population(draw, X, row, rng)
    assert len(np.unique(z)) == 300
    L, bent = draw["L"][0], (X @ draw["slope"][0])[row, 0] * z[:, 0] + 0.25 * (z[:, 0] ** 2 - 1)
    given = z[:, 0] * L[1, 0] + L[1, 1] * bent + (L[1, 1] * np.exp(0.15 * z[:, 0])) ** 2 / 2
    np.testing.assert_allclose(log_weight, given, atol=1e-10)


def test_files_of_both_have_the_same_means():
    """FBS's weighted, FBP's by its cell weights, for one draw: ten files, within 4 Monte Carlo errors."""
    rng, n = np.random.default_rng(3), 30_000
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n)})
    frame["pay"] = 40_000 * np.exp(0.5 * rng.standard_normal(n) + 0.2 * (frame["sex"] == "m"))
    frame["w"] = np.exp(0.4 * rng.standard_normal(n)) * (frame["pay"] / 40_000) ** -0.3
    is_f = (frame["sex"] == "f").to_numpy()
    design, draw = ss.SurveyDesign(frame, weights="w"), draws()
    means = {}
    for kind in (ss.FBS, ss.FBP):
        model = kind("pay ~ sex", transform=SCORES, prior="reference", weight="curved")
        records = model.prepare(design)
        files = [model.simulate(records.public, draw, np.random.default_rng(seed)) for seed in range(10)]
        means[kind.name] = np.array([
            [np.average(made.outcomes[here, 0], weights=made.weights[here]) for here in (is_f, ~is_f)] for made in files
        ])  # fmt: skip
    difference = means["FBP"].mean(axis=0) - means["FBS"].mean(axis=0)
    error = np.hypot(*(each.std(axis=0, ddof=1) / 10**0.5 for each in means.values()))
    assert (np.abs(difference) < 4 * error).all()
    assert (4 * error < 0.04 * means["FBS"].mean(axis=0)).all()


def test_a_curve_is_refused_in_the_papers_setting():
    with pytest.raises(ss.InputError, match="goes with neither"):
        ss.FBP.paper("pay ~ sex", weight="curved")
