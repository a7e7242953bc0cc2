"""Record densities of the normal regression against scipy's, record by record and draw by draw."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from surveysynth.models.densities import normal_density as gaussian
from surveysynth.models.densities.normal_density import Effects, log_density, max_abs_log_density

n, K, S, G, C, U = 60, 2, 700, 7, 5, 11  # more draws than the compiled loops take at a time


@pytest.fixture(scope="module", params=[3, 0], ids=["D=3", "D=0"])
def made(request):
    D = request.param
    rng = np.random.default_rng(2)
    X, pattern = rng.normal(size=(G, K)), rng.integers(G, size=n)
    B = rng.normal(size=(S, K, D))
    L = np.tril(rng.normal(0, 0.3, size=(S, D, D)), -1) + np.eye(D) * rng.uniform(0.5, 2, (S, 1, D))
    return {"Y": rng.normal(size=(n, D)), "pattern": pattern, "X": X, "B": B, "L": L,
            "effects": Effects(rng.integers(C, size=n), rng.normal(0, 0.5, (S, C, D)))}  # fmt: skip


@pytest.fixture(scope="module", params=["effects and offset", "effects", "offset", "none"])
def case(made, request):
    """Arguments, and the log densities (S, n) that scipy has for them."""
    kept, psu = request.param, made["effects"].group
    made = made | {"effects": made["effects"] if "effects" in kept else None}
    expected = np.zeros((S, n))
    if "offset" in kept:  # one number a pattern of a PSU and draw
        share = np.random.default_rng(3).uniform(-3, 0, size=(G, C if made["effects"] else 1, S))
        cell = made["pattern"], psu if made["effects"] else np.zeros_like(psu)
        made["offset"] = lambda i: share[cell[0][i], cell[1][i]]
        expected += share[cell].T
    D = made["Y"].shape[1]
    for s in range(S if D else 0):
        cov = made["L"][s] @ made["L"][s].T
        mean = np.array([made["X"][g] @ made["B"][s] for g in made["pattern"]])
        if made["effects"]:
            mean += [made["effects"].v[s, c] for c in made["effects"].group]
        expected[s] += multivariate_normal.logpdf(made["Y"] - mean, np.zeros(D), cov)
    return made, expected


BASE = np.linspace(-2, 3, n)
UNIT = np.random.default_rng(4).integers(U, size=n)


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 10**4, 10**9])
def test_densities_and_bounds_are_those_of_scipy(case, block, monkeypatch):
    given, expected = case
    monkeypatch.setattr(gaussian, "BLOCK_BYTES", block)
    np.testing.assert_allclose(log_density(**given), expected, rtol=1e-10)
    bounds = max_abs_log_density(**given, base=BASE)
    np.testing.assert_allclose(bounds, np.abs(BASE + expected).max(axis=0), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 10**4, 10**9])
def test_the_log_densities_of_a_unit_add_up(case, block, monkeypatch):
    given, expected = case
    monkeypatch.setattr(gaussian, "BLOCK_BYTES", block)
    sums = np.stack([(BASE + expected)[:, UNIT == u].sum(axis=1) for u in range(U)])
    bounds = max_abs_log_density(**given, base=BASE, unit=UNIT)
    np.testing.assert_allclose(bounds, np.abs(sums).max(axis=1), rtol=1e-10)
    alone = max_abs_log_density(**given, base=BASE, unit=np.arange(n))
    np.testing.assert_allclose(alone, np.abs(BASE + expected).max(axis=0), rtol=1e-10)


def test_one_representative_of_each_cell_is_asked_for_its_offset(made):
    """And of a block only: memory for offsets is that of a block's cells."""
    asked = []

    def offset(i):
        asked.append(i)
        return np.zeros((len(i), S))

    max_abs_log_density(**made, offset=offset)
    cells = np.column_stack([made["pattern"], made["effects"].group])
    found = cells[np.concatenate(asked)]
    np.testing.assert_array_equal(np.unique(cells, axis=0), found[np.lexsort(found.T[::-1])])


@pytest.mark.parametrize("unit", [None, UNIT], ids=["record", "unit"])
def test_an_offset_that_is_not_finite_is_an_infinite_bound(made, unit):
    """A share of 0 in one draw."""

    def offset(i):
        out = np.zeros((len(i), S))
        out[made["pattern"][i] == 2, 600] = -np.inf
        return out

    bound = max_abs_log_density(**made | {"effects": None}, offset=offset, unit=unit)
    touched = np.flatnonzero(made["pattern"] == 2)
    touched = touched if unit is None else np.unique(unit[touched])
    np.testing.assert_array_equal(np.flatnonzero(np.isinf(bound)), touched)


@pytest.mark.parametrize("made", [3], indirect=True)
def test_a_density_that_is_not_finite_is_an_infinite_bound(made):
    given = made | {"Y": made["Y"].copy(), "effects": None}
    given["Y"][3] = np.nan
    given["Y"][4] = np.inf
    assert np.flatnonzero(np.isinf(max_abs_log_density(**given))).tolist() == [3, 4]
    touched = set(UNIT[[3, 4]].tolist())
    assert set(np.flatnonzero(np.isinf(max_abs_log_density(**given, unit=UNIT)))) == touched
