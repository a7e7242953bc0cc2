"""Very many records on a public grid: places are kept, bounds hold, and the maximum stays where it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from surveysynth.models.shared import clipped_fit
from surveysynth.models.shared.clipped_fit import NARROW, Density, clipped_target, straight
from surveysynth.models.shared.public_grid import LIMIT, STEP, crowded, on_grid

N, CLAMP, A = 210_000, 1.4, 0.2


@settings(max_examples=50, deadline=None)
@given(d=st.sampled_from([1, 2]), seed=st.integers(0, 2**32 - 1), G=st.integers(1, 4))
def test_points_keep_what_rows_count_and_where_they_lie(d, seed, G):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.sort(rng.integers(0, 300, G - 1)), [300]])  # some rows may have no record
    v, a = rng.normal(0, 1.5, (d, 300)), rng.uniform(0, 2, 300)
    points, counts, begins = on_grid(v, a, start)
    np.testing.assert_allclose(points / STEP, np.round(points / STEP), atol=1e-9)
    for row in range(G):
        own, there = slice(start[row], start[row + 1]), slice(begins[row], begins[row + 1])
        np.testing.assert_allclose(counts[there].sum(), a[own].sum(), rtol=1e-12)
        np.testing.assert_allclose(points[:, there] @ counts[there], v[:, own] @ a[own], rtol=1e-9, atol=1e-9)
        share = v[:, own] / STEP - np.floor(v[:, own] / STEP)  # of the way to the next point: a Bernoulli's variance
        wider = (v[:, own] ** 2 + STEP**2 * share * (1 - share)) @ a[own]
        np.testing.assert_allclose(points[:, there] ** 2 @ counts[there], wider, rtol=1e-9, atol=1e-9)


def test_what_lies_far_is_moved_to_the_limit():
    points, counts, _ = on_grid(np.array([[-1e9, 1e9, LIMIT]]), np.array([1.0, 2.0, 4.0]), np.array([0, 3]))
    np.testing.assert_allclose(points, [[-LIMIT, LIMIT]])
    np.testing.assert_allclose(counts, [1, 6])


def test_the_number_of_points_does_not_grow_with_the_records():
    rng = np.random.default_rng(1)
    sizes = [on_grid(rng.normal(size=(2, n)), np.ones(n), np.array([0, n]))[1].size for n in (300_000, 3_000_000)]
    assert sizes[1] < 1.5 * sizes[0] < 30_000


@pytest.fixture(scope="module")
def file():
    """Many records in one row: log amounts with tails and heaps, log weights that bend with them."""
    rng = np.random.default_rng(2)
    y = 0.1 + rng.standard_t(6, N) * 0.8
    y = np.where(rng.random(N) < 0.15, np.round(2 * y) / 2, y)
    Y = np.column_stack([y, -0.2 + 0.3 * y + 0.1 * y**2 + 0.5 * rng.standard_normal(N)])
    return np.ones((1, 1)), np.zeros(N, np.intp), Y


REFERENCE = Density(B=np.array([[0.15, -0.1]]), L=np.array([[0.9, 0.0], [0.3, 0.55]]), **straight(1, 2))


def target(file, present=None):
    return clipped_target(*file, REFERENCE, np.full(N, A), CLAMP, NARROW, True, present=present)


def test_a_record_moves_the_target_by_no_more_than_off_the_grid(file):
    X, pattern, Y = file
    assert crowded(N, 1, 2)
    far, rng = Y.copy(), np.random.default_rng(3)
    far[0] = 40.0, -30.0
    gone = np.ones(N)
    gone[0] = 0
    here, moved, without = target(file), target((X, pattern, far)), target(file, gone)
    functions, most = [each.function() for each in (here, moved, without)], np.zeros(2)
    for _ in range(20):
        point = here.starts(1, rng)[0] + 0.3 * rng.standard_normal(here.scale.size)
        base, replaced, blanked = (f(point)[0] for f in functions)
        if np.isfinite(base):
            most = np.maximum(most, [abs(base - blanked), abs(base - replaced)])
    assert 0 < most[0] <= A * CLAMP * (1 + 1e-6)
    assert A * CLAMP / 2 < most[1] <= 2 * A * CLAMP * (1 + 1e-6)


def test_the_maximum_is_that_of_the_records(file, monkeypatch):
    """In posterior standard deviations; the grid adds STEP^2 / 6 to a variance, on average, which is .06 of them."""
    on = target(file)
    monkeypatch.setattr(clipped_fit, "crowded", lambda *_: False)
    off = target(file)
    assert on.n < off.n == N

    def maximum(each):
        f, centre, scale = each.function(), each.starts(1, np.random.default_rng(0))[0], each.scale

        def falling(z):
            value, slopes = f(centre + z * scale)
            return -value, -slopes * scale

        return minimize(falling, np.zeros(scale.size), jac=True, method="BFGS").x

    away = maximum(on) - maximum(off)
    assert np.abs(away).max() < 0.2
