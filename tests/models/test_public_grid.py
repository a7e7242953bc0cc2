"""Very many records on a public grid: places are kept, bounds hold, and the maximum stays where it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from surveysynth.models.shared import clipped_fit, public_grid
from surveysynth.models.shared.clipped_fit import NARROW, Density, clipped_target, straight
from surveysynth.models.shared.public_grid import REACH, STEP, added_variance, crowded, on_grid

N, CLAMP, A = 210_000, {2: 1.4, 3: 1.8}, 0.2


@settings(max_examples=50, deadline=None)
@given(d=st.sampled_from([1, 2, 3]), seed=st.integers(0, 2**32 - 1), G=st.integers(1, 4))
def test_points_keep_what_rows_count_and_where_they_lie(d, seed, G):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.sort(rng.integers(0, 300, G - 1)), [300]])  # some rows may have no record
    v, a = rng.normal(0, 1.5, (d, 300)), rng.uniform(0, 2, 300)
    points, counts, begins = on_grid(v, a, start)
    far = np.abs(points).max(axis=0) > REACH[d]
    np.testing.assert_allclose(points[:, ~far] / STEP[d], np.round(points[:, ~far] / STEP[d]), atol=1e-9)
    for row in range(G):
        own, there = slice(start[row], start[row + 1]), slice(begins[row], begins[row + 1])
        np.testing.assert_allclose(counts[there].sum(), a[own].sum(), rtol=1e-12)
        np.testing.assert_allclose(points[:, there] @ counts[there], v[:, own] @ a[own], rtol=1e-9, atol=1e-9)
        share = v[:, own] / STEP[d] - np.floor(v[:, own] / STEP[d])  # of the way to the next point
        share[:, np.abs(v[:, own]).max(axis=0) > REACH[d]] = 0
        # Of a record that counts at two points the variance is a Bernoulli variable's.
        wider = (v[:, own] ** 2 + STEP[d] ** 2 * share * (1 - share)) @ a[own]
        np.testing.assert_allclose(points[:, there] ** 2 @ counts[there], wider, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_what_lies_far_stays_where_it_is_and_what_lies_at_the_end_is_a_point(d):
    v = np.zeros((d, 4))
    v[0] = [-1e9, REACH[d], 2 * REACH[d], REACH[d]]
    points, counts, begins = on_grid(v, np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 4]))
    np.testing.assert_allclose(points[0], [REACH[d], -1e9, REACH[d], 2 * REACH[d]])
    np.testing.assert_allclose(counts, [2, 1, 4, 3])
    assert begins.tolist() == [0, 2, 4]


def test_the_variance_of_a_coordinate_grows_by_what_is_said_and_no_covariance_does():
    rng = np.random.default_rng(5)
    v = np.array([[1, 0, 0], [0.6, 0.8, 0], [0.2, -0.3, 0.9]]) @ np.clip(rng.standard_normal((3, 400_000)), -1.7, 1.7)
    points, counts, _ = on_grid(v, np.ones(400_000), np.array([0, 400_000]))
    grown = np.cov(points, aweights=counts, ddof=0) - np.cov(v, ddof=0)
    np.testing.assert_allclose(grown, added_variance(3) * np.eye(3), atol=4 * STEP[3] * 0.5 / 400_000**0.5)


def test_the_number_of_points_does_not_grow_with_the_records():
    rng = np.random.default_rng(1)
    sizes = [on_grid(rng.normal(size=(2, n)), np.ones(n), np.array([0, n]))[1].size for n in (300_000, 3_000_000)]
    assert sizes[1] < 1.5 * sizes[0] < 30_000


@pytest.fixture(scope="module", params=[2, 3])
def file(request):
    """Many records in one row: log amounts with tails and heaps, log weights that bend with them."""
    rng = np.random.default_rng(2)
    y = 0.1 + rng.standard_t(6, N) * 0.8
    y = np.where(rng.random(N) < 0.15, np.round(2 * y) / 2, y)
    other = 0.4 * y + 0.7 * rng.standard_normal(N)
    Y = np.column_stack([y, other, -0.2 + 0.3 * y + 0.1 * y**2 + 0.5 * rng.standard_normal(N)])
    return np.ones((1, 1)), np.zeros(N, np.intp), Y if request.param == 3 else Y[:, [0, 2]]


REFERENCES = {
    2: Density(B=np.array([[0.15, -0.1]]), L=np.array([[0.9, 0.0], [0.3, 0.55]]), **straight(1, 2)),
    3: Density(
        B=np.array([[0.15, 0.1, -0.1]]), L=np.array([[0.9, 0, 0], [0.3, 0.75, 0], [0.3, 0, 0.55]]), **straight(1, 3)
    ),
}


def target(file, present=None):
    d = file[2].shape[1]
    return clipped_target(*file, REFERENCES[d], np.full(N, A), CLAMP[d], NARROW, True, present=present)


def test_a_record_moves_the_target_by_no_more_than_off_the_grid(file):
    X, pattern, Y = file
    d = Y.shape[1]
    assert crowded(N, 1, d)
    rng, gone = np.random.default_rng(3), np.ones(N)
    gone[0] = 0
    here, without = target(file), target(file, gone)
    moved = []
    for value in (40.0, 0.123):
        far = Y.copy()
        far[0] = -value
        far[0, 0] = value
        moved.append(target((X, pattern, far)))
    functions, most = [each.function() for each in (here, without, *moved)], np.zeros(2)
    for _ in range(20):
        point = here.starts(1, rng)[0] + 0.3 * rng.standard_normal(here.scale.size)
        base, blanked, *replaced = (f(point)[0] for f in functions)
        if np.isfinite(base):
            most = np.maximum(most, [abs(base - blanked), max(abs(base - each) for each in replaced)])
    assert 0 < most[0] <= A * CLAMP[d] * (1 + 1e-6)
    assert A * CLAMP[d] / 2 < most[1] <= 2 * A * CLAMP[d] * (1 + 1e-6)


@pytest.mark.parametrize("what", ["zeros", "predictors"])
def test_which_records_are_zeros_or_have_what_predictors_does_not_decide_whether_there_is_a_grid(what, monkeypatch):
    """Were it by what is confidential, one of two files that differ by a record would have one, and the other not."""
    monkeypatch.setattr(public_grid, "MANY", 0)
    monkeypatch.setattr(public_grid, "POINTS", {2: 3000, 3: 3000})
    rng, reference = np.random.default_rng(6), REFERENCES[3]
    if what == "zeros":  # half of them, and one less: 3,000 amounts, and 3,001
        n, X, simulated, clamped = 6000, np.ones((1, 1)), None, 2
        of_zeros = {"zero": np.zeros(1), "B_zero": reference.B[:, 1:], "L_zero": np.eye(2)}
        reference, zeros = replace(reference, **of_zeros), [np.arange(n) < 3000, np.arange(n) < 2999]
        rows = [np.zeros(n, np.intp)] * 2
    else:  # 6,001 records in two predictor rows, and in three; C_B is confidential, too
        n, X, clamped = 6001, np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 7.0]]), 4
        simulated, zeros = X[np.arange(900) % 2], [None, None]
        reference = replace(reference, B=np.vstack([reference.B, 0 * reference.B]), slope=np.zeros((2, 2)))
        rows = [np.arange(n) % 2, np.where(np.arange(n) == 0, 2, np.arange(n) % 2)]
    Y, a, values = rng.normal(size=(n, 3)), np.full(n, A), []
    for row, zero in zip(rows, zeros, strict=True):
        here = X[: row.max() + 1]
        made = clipped_target(here, row, Y, reference, a, 1.8, NARROW, True, zero=zero, simulated=simulated)
        at, own = made.function(), np.random.default_rng(1)
        values.append([at(point)[0] for point in made.starts(60, own)])
    one, other = np.array(values)
    inside = np.isfinite(one)
    assert inside.sum() > 20
    assert np.abs(one[inside] - other[inside]).max() <= clamped * A * 1.8


def test_the_maximum_is_that_of_the_records(file, monkeypatch):
    """In posterior standard deviations, once what the grid adds to variances is taken off."""
    on = target(file)
    monkeypatch.setattr(clipped_fit, "crowded", lambda *_: False)
    off = target(file)
    assert on.n < off.n == N

    def maximum(each):
        f, centre, scale = each.function(), each.starts(1, np.random.default_rng(0))[0], each.scale

        def falling(z):
            value, slopes = f(centre + z * scale)
            return -value, -slopes * scale

        found = centre + scale * minimize(falling, np.zeros(scale.size), jac=True, method="BFGS").x
        density = each.estimate(found)
        covariance = density.L @ density.L.T
        return density.B[0], covariance, np.concatenate([density.kappa, density.eta])

    (B, covariance, bent), (B_off, covariance_off, bent_off) = maximum(on), maximum(off)
    sd, known = np.sqrt(np.diag(covariance_off)), N * A
    assert (np.abs(B - B_off) / sd).max() < 0.2 / known**0.5
    assert np.abs((covariance - covariance_off) / np.outer(sd, sd)).max() < 0.3 * (2 / known) ** 0.5
    assert np.abs(bent - bent_off).max() < 0.3 / known**0.5
