"""Shares of categories from private counts: what a record moves, and what they come to."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import laplace

import surveysynth as ss
from surveysynth.models.normal import category_shares, relative
from surveysynth.models.normal.categories import Categories
from tests.conftest import Seen, queries_of, targets_of

EPSILON = 0.3


def categories(sizes, shares, seed=1):
    """Records in cells of such sizes, each category with its share (K,) in all of them."""
    cell, K = np.repeat(np.arange(len(sizes)), sizes), len(shares)
    category = np.random.default_rng(seed).choice(K, cell.size, p=shares)
    return Categories(("job",), (pd.Index(range(K)),), cell, len(sizes), category)


def private(found, seed=1, epsilon=EPSILON, each=1, present=None):
    present = np.ones(found.cell.size) if present is None else present
    rng = np.random.default_rng(seed)
    return np.exp(category_shares.private_log_shares(found, present, epsilon=epsilon, each=each, rng=rng))


def test_shares_of_large_cells_are_known_to_some_records():
    """Over 200 draws of the noise, Laplace of scale 1 / epsilon: 7 records are 6 standard deviations of their mean."""
    found = categories([3000, 5000], [0.6, 0.39, 0.01])
    counts = np.array([np.bincount(found.category[found.cell == g], minlength=3) for g in (0, 1)])
    drawn = np.array([private(found, seed) for seed in range(200)])
    of_mean = laplace(scale=1 / EPSILON).std() / 200**0.5
    np.testing.assert_allclose(drawn.mean(axis=0) * [[3000], [5000]], counts, atol=6 * of_mean)
    np.testing.assert_allclose(drawn.sum(axis=2), 1)


def test_small_cells_have_the_shares_of_all():
    """Where the noise is larger than the cell itself."""
    sizes = [4000, *[3] * 20]
    drawn = np.array([private(categories(sizes, [0.6, 0.3, 0.1]), seed) for seed in range(50)])
    np.testing.assert_allclose(drawn[:, 1:].mean(axis=(0, 1)), [0.6, 0.3, 0.1], atol=0.05)
    assert drawn.min() > 0.005


@pytest.mark.parametrize("cells", [160, 80, 20, 3])
def test_shares_of_a_rare_category_are_not_biased_by_the_noise_of_small_cells(cells):
    """1% of 8,000 records, over 40 files, whatever cells they are in: within a fifth of it."""
    sizes = [8_000 // cells] * cells
    drawn = [private(categories(sizes, [0.6, 0.39, 0.01], seed), seed)[:, 2].mean() for seed in range(40)]
    assert np.mean(drawn) == pytest.approx(0.01, rel=0.2)


def test_a_category_that_no_record_has_is_within_the_noise():
    drawn = np.array([private(categories([4000], [0.7, 0.3, 0.0]), seed)[0, 2] for seed in range(50)])
    noise = 2**0.5 / EPSILON / 4000
    assert 0.4 * noise < drawn.min() < noise and np.median(drawn) < 1.1 * noise


def test_noise_is_of_the_scale_that_a_unit_moves(monkeypatch):
    """Blanking a unit takes each of its records from one count, so the sum of changes is its number of records."""
    asked = queries_of(category_shares, monkeypatch)
    found = categories([300, 500], [0.5, 0.3, 0.2])
    for blanked in ([7], [7, 8, 799]):
        present = np.ones(800)
        present[blanked] = 0.0
        for each in (np.ones(800), present):
            category_shares.private_log_shares(found, each, epsilon=0.2, each=len(blanked), rng=None)
        (whole, sensitivity, epsilon), (without, *_) = asked[-2:]
        assert (sensitivity, epsilon) == (len(blanked), 0.2)
        assert np.abs(whole - without).sum() == len(blanked)


@pytest.mark.parametrize("unit", [None, "home"])
def test_chains_are_measured_against_counts_that_are_paid_for_once(monkeypatch, unit):
    """First draw and draws have the same counts as their reference, with the noise that a unit needs."""
    asked, targets = queries_of(category_shares, monkeypatch, added=0.5), targets_of(relative, monkeypatch, last=2)
    rng, n = np.random.default_rng(1), 4_000
    w = np.exp(rng.standard_normal(n))
    frame = pd.DataFrame({
        "region": rng.choice(["east", "west"], n), "job": rng.choice(["full", "none", "part"], n, p=[0.6, 0.3, 0.1]),
        "pay": np.exp(9 + rng.standard_normal(n)), "w": w, "home": np.arange(n) // 2,
    }).astype({"job": pd.CategoricalDtype(["full", "none", "part"])})  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w")
    with pytest.raises(Seen):
        ss.fit(design, "pay + C(job) ~ region", epsilon=5, population_total=w.sum(), bounds=(0, 1e6), unit=unit)
    ((values, sensitivity, epsilon),) = asked
    assert (sensitivity, epsilon) == (1 if unit is None else 2, pytest.approx(0.2))
    of_file = frame.groupby(["region", "job"]).size().unstack().to_numpy()
    np.testing.assert_array_equal(values, of_file)
    shares = of_file / of_file.sum(axis=1, keepdims=True)
    for target in targets:
        np.testing.assert_allclose(np.exp(target.reference.log_shares), shares, rtol=0.03)
    np.testing.assert_array_equal(targets[0].reference.log_shares, targets[1].reference.log_shares)
    *_, contrasts = targets[1].split(targets[1].scale)
    known = targets[1].tempering.sum()
    assert (contrasts > 0.9 * (known / 2 * 0.5) ** -0.5).all()  # one of shares .5 and .5 is known best


@pytest.mark.slow
def test_rare_levels_of_a_category_are_released():
    """60 of 8,000 records: chains stuck there, as even shares are beyond the clamp."""
    rng, n = np.random.default_rng(1), 8_000
    region = rng.choice(["east", "north", "west"], n, p=[0.5, 0.3, 0.2])
    job = np.where(rng.random(n) < 0.4 + 0.2 * (region == "east"), "full", "none")
    job[rng.choice(n, 60, replace=False)] = "rare"
    e = rng.standard_normal(n)
    pay = np.exp(9 + 0.3 * (region == "east") + 0.3 * (job == "full") + 0.6 * e)
    w = 25 * np.exp(0.2 * (region == "west") - 0.1 * e + 0.4 * rng.standard_normal(n))
    frame = pd.DataFrame({"region": region, "job": pd.Categorical(job), "pay": pay, "w": w})
    design = ss.SurveyDesign(frame, weights="w")
    release = ss.fit(
        design, "pay + C(job) ~ region", epsilon=8, bounds=(0, 200_000), population_total=w.sum(), seed=1
    ).release()
    assert "shares of categories 0.3" in str(release.privacy)
    own = ss.estimate(design, by="job", statistic="count").set_index("job")
    table = release.tables("job", statistic="count").set_index("job")
    assert (np.abs(table["estimate"] - own["estimate"]) < 4 * table["se"]).all()
