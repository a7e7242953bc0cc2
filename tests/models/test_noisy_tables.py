"""The log-linear model of noisy tables: derivatives, sampling covariance, draws, variance components."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular

from surveysynth.models.loglinear import table_model
from surveysynth.models.loglinear.bases import Response, Variances, one_hot, spline_kernel, start_coefficients
from surveysynth.models.loglinear.response import (
    Observed,
    Rows,
    Tail,
    Total,
    _known,
    fit_response,
    smooth_histogram,
)
from surveysynth.models.loglinear.table_fit import (
    Components,
    Known,
    Perturbation,
    descend,
    descend_from,
    draw,
    fit_tables,
    information,
    spread,
)  # fmt: skip
from surveysynth.models.loglinear.table_model import Table, TableModel

REGION, SEX = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
N = np.array([50.0, 30, 20, 60, 10, 44])
GROUPS = np.repeat(np.arange(4), 3)
PARTS = np.array([1.0, 0.5, 1.0, 0.25, 0.5, 1.0])  # what records of units count for


def small_model(parents: int = 1, times: np.ndarray | None = None, groups_of_parents: int = 50) -> TableModel:
    """Twelve bins and a special value, in six public cells, each with so many rows of an earlier variable."""
    p = np.append(np.full(12, 0.07), 0.16)
    unit, within = np.repeat(np.arange(6), parents), np.tile(np.arange(parents), 6)
    region, sex, level = REGION[unit], SEX[unit], within * min(groups_of_parents, parents) // parents
    share = np.tile(np.arange(1.0, parents + 1), 6) / sum(range(1, parents + 1))
    variances, response = Variances(), Response(p, 12)
    effects = [
        response.baseline(len(unit), variances), response.effect(one_hot(region, 3), variances),
        response.effect(one_hot(sex, 2), variances), response.effect(np.sin(within)[:, None], variances),
    ]  # fmt: skip
    groups = np.append(GROUPS, 4)
    tables = [
        Table(np.zeros(len(unit), dtype=np.intp), np.eye(13), 1), Table(region, one_hot(groups, 5), 3),
        Table(sex, one_hot(groups, 5), 2), Table(level, one_hot(groups, 5), level.max() + 1),
        Table(sex, np.linspace(-1, 1, 13)[:, None], 2, times=np.cos(np.arange(len(unit)))),
        Table(region, np.arange(13.0)[:, None], 3, sampled=False),
    ]  # fmt: skip
    return TableModel(unit, share, N, tables, effects, times=times)


def tables_of(model: TableModel, records: np.ndarray) -> np.ndarray:
    """What so many records in each row and bin add up to, in tables that are sampled."""
    counted = records if model.times is None else records * model.times[model.unit][:, None]
    found = []
    for table in model.tables:
        out = np.zeros((table.levels, table.bins.shape[1]))
        add = (counted if table.sampled else records) @ table.bins
        np.add.at(out, table.level, add if table.times is None else add * table.times[:, None])
        found.append(out.ravel())
    return np.concatenate(found)


def coefficients(model: TableModel, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, sum(effect.size for effect in model.effects))


@pytest.mark.parametrize("parents", [1, 3])
@pytest.mark.parametrize("times", [None, PARTS])
def test_the_jacobian_is_that_of_finite_differences(parents, times):
    model, h = small_model(parents, times), 1e-5
    theta = coefficients(model, 1)

    def of(theta):
        return model.expected(model.probabilities(theta))

    numeric = np.stack([
        (of(theta + h * e) - of(theta - h * e)) / (2 * h) for e in np.eye(len(theta))
    ], axis=1)  # fmt: skip
    p = model.probabilities(theta)
    assert np.allclose(model.expected(p), tables_of(model, model.records[:, None] * p))
    assert np.allclose(model.jacobian(p), numeric, atol=1e-6)
    v = np.random.default_rng(2).normal(size=len(numeric))
    assert np.allclose(model.gradient(p, v), numeric.T @ v, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("parents", "times"), [(1, None), (3, None), (3, PARTS)])
def test_the_covariance_is_that_of_simulated_records(parents, times):
    model, rng = small_model(parents, times), np.random.default_rng(2)
    p = model.probabilities(coefficients(model, 1))
    sampled = slice(0, sum(table.size for table in model.tables if table.sampled))
    joint = (model.share[:, None] * p).reshape(6, -1)  # of a public cell: earlier variable by bins
    simulated = []
    for _ in range(20_000):
        records = np.stack([rng.multinomial(int(n), of) for n, of in zip(N, joint, strict=True)]).astype(float)
        simulated.append(tables_of(model, records.reshape(p.shape))[sampled])
    found, expected = np.cov(np.array(simulated).T), model.covariance(p)
    scale = np.sqrt(np.outer(np.diag(found), np.diag(found))) + 1e-9
    assert np.abs(found - expected[sampled, sampled]).max() / scale.max() < 0.05
    assert np.allclose(np.diag(found), np.diag(expected)[sampled], rtol=0.06, atol=0.05)
    assert not expected[sampled.stop :].any()  # a known total does not vary


def test_a_wrong_covariance_would_be_seen():
    """Poisson in place of multinomial cells is off by far more than the tolerance above."""
    model = small_model()
    p = model.probabilities(coefficients(model, 1))
    multinomial, poisson = np.diag(model.covariance(p))[:13], model.expected(p)[:13]
    assert np.max(poisson / multinomial - 1) > 0.1


def fitted(counts_of, epsilon_variance: float, seed: int = 3):
    """A fit to noisy tables of 20,000 records of three regions, whose means differ."""
    rng = np.random.default_rng(seed)
    region = np.repeat(np.arange(3), [8_000, 7_000, 5_000])
    code = np.clip(np.rint(rng.normal(15 + 2.0 * region, 4.0)), 0, 31).astype(int)
    groups = np.repeat(np.arange(8), 4)
    fine = np.bincount(code, minlength=32).astype(float)
    table = np.zeros((3, 8))
    np.add.at(table, (region, groups[code]), 1)
    sd = np.sqrt(epsilon_variance)
    observed = [
        Observed(np.zeros(3, dtype=np.intp), np.eye(32), (fine + sd * rng.normal(size=32))[None], epsilon_variance),
        Observed(np.arange(3), one_hot(groups, 8), table + sd * rng.normal(size=(3, 8)), epsilon_variance),
    ]
    rows = Rows(np.arange(3), np.ones(3), np.array([8_000.0, 7_000, 5_000]))
    p = smooth_histogram(observed[0].counts[0], epsilon_variance, np.arange(32), 32, 20_000, None)
    fit = fit_response(rows, [one_hot(np.arange(3), 3)], observed, [], p, 32, None)
    return fit, region, code


def test_without_noise_means_are_those_of_the_file():
    fit, region, code = fitted(None, 0.01)
    p = fit.model.probabilities(fit.theta)
    means = [code[region == r].mean() for r in range(3)]
    assert np.allclose(p @ np.arange(32), means, rtol=0.01)


def test_draws_vary_as_noise_and_prior_leave_them_open():
    """Variance between refits to fresh noise is A R A' + H^-1 Q H^-1."""
    fit, _, _ = fitted(None, 100.0)
    rng = np.random.default_rng(4)
    functional = fit.model.jacobian(fit.model.probabilities(fit.theta))[32:]  # of the table's cells
    drawn = np.array([draw(fit, Perturbation.for_fit(fit, 10 * rng.normal(size=len(fit.y)), rng)) for _ in range(400)])
    found = (drawn @ functional.T).var(axis=0, ddof=1)
    expected = np.diag(functional @ spread(fit) @ functional.T)
    assert np.median(found / expected) == pytest.approx(1, abs=0.12)
    assert np.all(found / expected < 1.5) and np.all(found / expected > 0.6)


@pytest.mark.parametrize("sd", [3.0, 30.0])
def test_draws_by_bfgs_and_by_full_steps_are_at_the_same_minimum(sd):
    """Of a fit with a known total and a tail."""
    values, rng = np.linspace(0.1, 4, 32), np.random.default_rng(8)
    counts = np.rint(1000 * np.exp(-0.5 * ((np.arange(32) - 10) / 5) ** 2) / 12.5) + np.rint(sd * rng.normal(size=32))
    one, tail = np.zeros(1, dtype=np.intp), Tail(0.2, 3.0)
    fine = Observed(one, np.eye(32), counts[None], sd**2)
    p = smooth_histogram(counts, sd**2, np.arange(32), 32, 1_000, tail)
    total = Total(one, values, np.array([1_400.0]), np.array([4.0]))
    fit = fit_response(Rows.one(1_000), [], [fine], [total], p, 32, tail)
    for _ in range(5):
        by = Perturbation.for_fit(fit, sd * rng.normal(size=len(fit.y)), rng)
        y = fit.model.expected(fit.model.probabilities(fit.theta)) + by.noise
        known = Known(fit.known.rows, fit.known.rows @ fit.theta + by.known, fit.known.variance)
        quick, enough = descend_from(fit, fit.model, y, known, fit.theta + by.prior)
        full = descend(fit.model, y, fit.root, known, fit.theta, fit.theta + by.prior, fit.q)[0]
        assert enough

        def objective(theta, y=y, known=known, mean=fit.theta + by.prior):
            r = np.linalg.solve(fit.root, y - fit.model.expected(fit.model.probabilities(theta)))
            k = known.value - known.rows @ theta
            return r @ r + np.sum((theta - mean) ** 2 / fit.q) + np.sum(k**2 / known.variance)

        assert objective(quick) == pytest.approx(objective(full), abs=0.01)


def test_components_follow_the_data():
    """Regions that differ much get a larger variance than regions that do not differ."""
    rng = np.random.default_rng(5)
    found = {}
    for shift in (0.0, 3.0):
        region = rng.integers(0, 12, 20_000)
        code = np.clip(np.rint(rng.normal(15 + shift * np.sin(region), 4.0)), 0, 31).astype(int)
        table = np.zeros((12, 8))
        np.add.at(table, (region, code // 4), 1)
        rows = Rows(np.arange(12), np.ones(12), np.bincount(region).astype(float))
        fine = Observed(np.zeros(12, dtype=np.intp), np.eye(32), np.bincount(code, minlength=32)[None] * 1.0, 9.0)
        crossed = Observed(np.arange(12), one_hot(np.arange(32) // 4, 8), table + 3 * rng.normal(size=table.shape), 9.0)
        p = smooth_histogram(fine.counts[0], 9.0, np.arange(32), 32, 20_000, None)
        found[shift] = fit_response(rows, [one_hot(np.arange(12), 12)], [fine, crossed], [], p, 32, None).variance[3]
    assert found[3.0] > 10 * found[0.0]


def test_levels_with_cells_of_their_own_have_bounded_effects():
    """As weights that follow from the stratum: all records of a level are in one bin."""
    n, bins, rng = np.array([3_300.0, 720, 540, 700, 740]), np.array([4, 8, 13, 19, 27]), np.random.default_rng(9)
    table = n[:, None] * np.eye(32)[bins]
    rows = Rows(np.arange(5), np.ones(5), n)
    fine = Observed(np.zeros(5, dtype=np.intp), np.eye(32), table.sum(axis=0)[None], 4.0)
    crossed = Observed(np.arange(5), np.eye(32), table, 4.0)
    p = smooth_histogram(fine.counts[0], 4.0, np.arange(32), 32, n.sum(), None)
    fit = fit_response(rows, [one_hot(np.arange(5), 5)], [fine, crossed], [], p, 32, None)
    assert fit.variance.max() <= 30
    for _ in range(4):
        theta = draw(fit, Perturbation.for_fit(fit, 2 * rng.normal(size=len(fit.y)), rng))
        assert fit.model.probabilities(theta)[np.arange(5), bins].min() > 0.9


def test_a_known_total_is_met():
    values, rng = np.linspace(0.1, 4, 32), np.random.default_rng(6)
    counts = np.rint(1000 * np.exp(-0.5 * ((np.arange(32) - 10) / 5) ** 2) / 12.5) + np.rint(20 * rng.normal(size=32))
    one = np.zeros(1, dtype=np.intp)
    fine = Observed(one, np.eye(32), counts[None], 400.0)
    p = smooth_histogram(counts, 400.0, np.arange(32), 32, 1_000, None)
    for total in (1_300.0, 1_500.0):
        fit = fit_response(
            Rows.one(1_000), [], [fine], [Total(one, values, np.array([total]), np.array([3.0]))], p, 32, None
        )
        assert fit.model.probabilities(fit.theta)[0] @ values * 1_000 == pytest.approx(total, rel=0.01)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 3.0, 40.0, 1e3]), st.sampled_from([30, 300, 3_000]))
def test_every_table_of_numbers_is_fitted(seed, sd, n):
    """Whatever the noise made of the counts: the objective falls to where its gradient is nothing."""
    rng = np.random.default_rng(seed)
    counts = n * rng.dirichlet(np.full(24, 0.2)) + sd * rng.laplace(size=24)
    p = smooth_histogram(counts, 2 * sd**2, np.arange(24), 20, n, None)
    assert np.isfinite(p).all() and p.sum() == pytest.approx(1)


def test_the_spline_kernel_is_that_of_an_integrated_walk():
    """Brute force: a Wiener process from the middle outwards, integrated, has this covariance."""
    rng, h = np.random.default_rng(7), 0.01
    paths = np.cumsum(np.cumsum(rng.normal(0, np.sqrt(h), (40_000, 200)), axis=1) * h, axis=1)
    at = [49, 99, 199]
    x = (np.array(at) + 1) * h
    assert np.allclose(np.cov(paths[:, at].T), spline_kernel(x), rtol=0.04)
    both = spline_kernel(np.array([-1.0, 1.0]))
    assert both[0, 1] == 0 and both[0, 0] == both[1, 1] == pytest.approx(1 / 3)


def test_a_start_has_the_probabilities_that_it_is_made_from():
    p = np.append(np.exp(-0.5 * ((np.arange(20) - 8) / 3) ** 2) + 1e-3, 0.4)
    p /= p.sum()
    effects = [Response(p, 20).baseline(1, Variances())]
    model = TableModel(np.zeros(1, dtype=np.intp), np.ones(1), np.ones(1), [], effects)
    assert np.allclose(model.probabilities(start_coefficients(effects, p))[0], p, rtol=0.02, atol=1e-4)


def test_known_functions_of_the_coefficients_enter_as_observations():
    p = np.full(16, 1 / 16)
    variances, one = Variances(), np.zeros(1, dtype=np.intp)
    effects = [Response(p, 16).baseline(1, variances)]
    model = TableModel(one, np.ones(1), np.array([100.0]), [Table(one, np.eye(16), 1)], effects)
    row = (effects[0].basis[15] - effects[0].basis[8])[None]
    counts, d = np.full(16, 6.25), effects[0].size
    for value in (-1.0, 0.5):
        known = Known(row, np.array([value]), np.array([1e-6]))
        fit = fit_tables(model, counts, np.full(16, 4.0), variances.components, known, np.zeros(d))
        assert (row @ fit.theta)[0] == pytest.approx(value, abs=0.01)


@pytest.fixture
def few_rows(monkeypatch):
    """Derivatives by a third of the rows."""
    monkeypatch.setattr(table_model, "MOST_ROWS", 100)
    monkeypatch.setattr(table_model, "SKETCHED", 120)


def test_a_sketch_has_the_records_of_every_public_cell_and_about_the_same_derivatives(few_rows):
    model = small_model(60, groups_of_parents=4)
    theta = coefficients(model, 3)
    sketch = model.sketch
    assert len(sketch.unit) < 150 and set(sketch.unit) == set(model.unit)
    np.testing.assert_allclose(np.bincount(sketch.unit, sketch.share), np.bincount(model.unit, model.share))
    V, whole = sketch.covariance(sketch.probabilities(theta)), model.covariance(model.probabilities(theta))
    assert np.linalg.eigvalsh(V).min() > -1e-9
    assert 0 < np.linalg.norm(V - whole) < 0.1 * np.linalg.norm(whole)
    J, exact = model.slopes(theta, model.probabilities(theta)), model.jacobian(model.probabilities(theta))
    assert 0 < np.linalg.norm(J - exact) < 0.1 * np.linalg.norm(exact)
    few = small_model(3)
    assert few.sketch is few


@pytest.mark.parametrize("rows", [60, 120])
def test_a_fit_by_a_sketch_is_the_fit(few_rows, monkeypatch, rows):
    """Gradients are those of all rows, so only the way to the minimum is another; with 60 it is lost without a turn."""
    monkeypatch.setattr(table_model, "SKETCHED", rows)
    model = small_model(60, groups_of_parents=4)
    theta = coefficients(model, 4)
    y = model.expected(model.probabilities(theta))
    y = y + np.random.default_rng(5).normal(0, 2, len(y))
    d, noise = len(theta), np.full(len(y), 4.0)
    known = Known(np.zeros((0, d)), np.zeros(0), np.zeros(0))
    q = np.full(d, 0.5)
    root = np.linalg.cholesky(model.covariance(model.probabilities(theta)) + np.diag(noise))
    by_sketch = descend(model, y, root, known, np.zeros(d), np.zeros(d), q)
    monkeypatch.setattr(table_model, "MOST_ROWS", 1_000)
    exact = descend(small_model(60, groups_of_parents=4), y, root, known, np.zeros(d), np.zeros(d), q)
    H = exact[1]
    move = by_sketch[0] - exact[0]
    assert move @ H @ move < 0.1**2  # in posterior standard deviations of 79 coefficients


def test_draws_by_a_sketch_are_those_of_all_rows(few_rows, monkeypatch):
    """Fresh noise and errors of the prior move both alike; a sketch that is not moved to the fit is elsewhere."""
    monkeypatch.setattr(table_model, "SKETCHED", 60)
    model = small_model(60, groups_of_parents=4)
    theta = coefficients(model, 4)
    y = model.expected(model.probabilities(theta))
    d, noise = len(theta), np.full(len(y), 4.0)
    known = Known(np.zeros((0, d)), np.zeros(0), np.zeros(0))
    components = Components(np.full(20, 0.1), np.full(20, np.inf))
    fit = fit_tables(model, y, noise, components, known, theta)
    rng, moves = np.random.default_rng(6), []
    by = [Perturbation.for_fit(fit, 2 * rng.normal(size=len(y)), rng) for _ in range(4)]
    by_sketch = [draw(fit, each) for each in by]
    assert model.sketch is not model
    monkeypatch.setattr(table_model, "MOST_ROWS", 1_000)
    exact = replace(fit, model=small_model(60, groups_of_parents=4))
    H = information(solve_triangular(fit.root, exact.model.jacobian(exact.model.probabilities(fit.theta)), lower=True),
                    fit.q, known)  # fmt: skip
    for one, each in zip(by_sketch, by, strict=True):
        whole = draw(exact, each)
        moves.append(((one - whole) @ H @ (one - whole)) / ((whole - fit.theta) @ H @ (whole - fit.theta)))
    assert max(moves) < 0.05  # share of a draw's own move


def test_effects_with_one_basis_are_computed_together_and_stay_in_their_places():
    model = small_model(3)
    sizes = [len(block.places) for block in model.blocks]
    assert len(model.blocks) == 2 and sum(sizes) == sum(effect.size for effect in model.effects)
    assert sorted(np.concatenate([block.places for block in model.blocks])) == list(range(sum(sizes)))


def test_the_tail_of_a_count_falls_as_is_known_where_tables_say_nothing():
    """Between the median and the upper 5% by e^-1.7 as guessed, to within 1: half a table of a tail is not enough."""
    p = 0.8 ** np.arange(60)
    p /= p.sum()
    response = Response(p, 60)
    basis = response.baseline(1, Variances()).basis
    known = _known(response, basis, basis.shape[1], Tail(None, 1.7))
    theta, *_ = np.linalg.lstsq(basis, np.log(p), rcond=None)
    distance = int(np.searchsorted(np.cumsum(p), 0.95)) - int(np.searchsorted(np.cumsum(p), 0.5))
    assert (known.rows @ theta)[0] == pytest.approx(np.log(0.8) * distance, rel=1e-3)
    assert known.value == [-1.7]
