"""Files from a posterior of known width: nothing that is convex comes out high, and weights vary as the sample's."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.models.normal.relative import as_draws
from surveysynth.models.shared.clipped_fit import Density, straight
from surveysynth.models.tempered_files import LEAST, cells, drawn_weights, room

KNOWN, N, DRAWS = 12.0, 400, 2_500


def file(n=N):
    frame = pd.DataFrame({"sex": np.tile(["f", "f", "f", "m"], n // 4), "w": np.linspace(1, 3, n)})
    frame["pay"] = np.exp(np.random.default_rng(0).standard_normal(n))
    return ss.SurveyDesign(frame, weights="w")


def around_zero(X, size, rng, count):
    """Draws of B as a posterior worth KNOWN records, and a centre that varies over samples, have it."""
    information = (X.T * (size / size.sum())) @ X
    root = np.linalg.cholesky(np.linalg.inv(information) * (1 / KNOWN + 1 / size.sum()))
    Sigma_root = np.array([[0.8, 0.0], [0.2, 0.5]])
    B = np.einsum("kl,sld,ed->ske", root, rng.standard_normal((count, X.shape[1], 2)), Sigma_root)
    return [Density(b, Sigma_root, **straight(*b.shape), known=np.array(KNOWN)) for b in B]


@pytest.mark.parametrize("narrowed", [True, False])
def test_with_room_for_the_posterior_the_mean_of_a_convex_function_is_that_of_the_model(narrowed):
    """E exp(y) = exp(sd^2 / 2) of a lognormal; without room for it the posterior's width comes on top."""
    design, rng = file(), np.random.default_rng(1)
    model = ss.FBS("pay ~ sex", prior="reference", weight="curved")
    records = model.prepare(design)
    size = np.bincount(records.row).astype(float)
    means = []
    for density in around_zero(records.X, size, rng, DRAWS):
        draw = as_draws([density])
        values = draw.values if narrowed else {k: v for k, v in draw.values.items() if k != "known"}
        made = model.simulate(records.public, replace(draw, values=values), rng)
        means.append([made.outcomes[records.row == k, 0].mean() for k in range(2)])
    found, error = np.mean(means, axis=0), 4 * np.std(means, axis=0) / DRAWS**0.5
    wide = 1 + N / size * (1 / KNOWN + 1 / N)  # variance over draws and samples, too
    expected = np.exp(0.8**2 / 2 * (1.0 if narrowed else wide))
    assert (np.abs(found - expected) < error).all()
    assert (error < np.exp(0.8**2 / 2 * wide) - np.exp(0.8**2 / 2)).all()


def test_room_is_one_less_leverage_over_information():
    public = ss.FBS("pay ~ sex", prior="reference", weight="curved").prepare(file()).public
    known = as_draws([Density(np.zeros((2, 2)), np.eye(2), **straight(2, 2), known=np.array(KNOWN))])
    share = room(public, known, public.row)
    of_f = (public.X[public.row, 1] == public.X[0, 1]) == (public.row == public.row[0])
    assert of_f.all()
    size = np.bincount(public.row)
    np.testing.assert_allclose(share, 1 - (N / size * (1 / KNOWN + 1 / N))[public.row])
    unknown = as_draws([Density(np.zeros((2, 2)), np.eye(2), **straight(2, 2))])
    np.testing.assert_array_equal(room(public, unknown, public.row), 1)
    hardly = as_draws([Density(np.zeros((2, 2)), np.eye(2), **straight(2, 2), known=np.array(2.0))])
    assert room(public, hardly, public.row).min() == LEAST


def test_drawn_weights_have_the_sums_of_the_smoothed_ones_and_the_spread_of_the_model():
    rng, n = np.random.default_rng(2), 200_000
    cell, smoothed = rng.integers(0, 5, n), np.exp(0.2 * rng.standard_normal(n))
    sd = np.where(cell == 0, 0.2, 0.6)
    drawn = drawn_weights(smoothed, sd, cell, rng)
    np.testing.assert_allclose(np.bincount(cell, drawn), np.bincount(cell, smoothed))
    for k, expected in ((0, 0.2), (3, 0.6)):
        here = cell == k
        assert np.log(drawn[here] / smoothed[here]).std() == pytest.approx(expected, abs=4 * expected / (n / 5) ** 0.5)


def test_cells_are_those_of_labels_and_not_of_numbers():
    frame = file().frame.assign(age=np.linspace(20, 60, N))
    design = ss.SurveyDesign(frame, weights="w")
    public = ss.FBS("pay ~ sex + age", prior="reference").prepare(design).public
    found = cells(public, public.row)
    np.testing.assert_array_equal(pd.factorize(found)[0], pd.factorize(frame["sex"])[0])


@pytest.mark.slow
def test_a_count_has_the_standard_error_of_a_sample_with_weights_like_these():
    """The confidential sample's own, where log weights are normal given sex; m = 12 at a large epsilon."""
    rng, n = np.random.default_rng(3), 2_000
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "w": np.exp(0.8 * rng.standard_normal(n))})
    frame["pay"] = np.exp(10 + 0.5 * rng.standard_normal(n))
    design = ss.SurveyDesign(frame, weights="w")
    own = ss.estimate(design, by=["sex"], statistic="count").set_index("sex")["se"]
    scores = ss.NormalScores(np.exp([8, 9, 10, 11, 12]), [0.01, 0.1, 0.5, 0.9, 0.99], "a made-up table")
    release = ss.synthesize(
        design, ss.FBS("pay ~ sex", transform=scores), epsilon=60, m=12, mechanism=ss.Strict(), seed=4,
        population_total=frame["w"].sum(),
    )  # fmt: skip
    se = release.tables("sex", statistic="count").set_index("sex")["se"]
    assert list(se[["f", "m"]]) == pytest.approx(list(own[["f", "m"]]), rel=0.1)
    smoothed = (n / (n - 1) * n / 4) ** 0.5 * frame["w"].mean()  # what equal weights would say
    assert (se[["f", "m"]] > 1.2 * smoothed).all()
