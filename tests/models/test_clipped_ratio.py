"""The clamped log likelihood ratio: its value, its gradient, C_B, and that its maximum is the truth."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats import t as student

from surveysynth.engines.base import diagnose
from surveysynth.engines.hamiltonian import Chains
from surveysynth.models.shared.clipped_fit import (
    NARROW,
    WIDE,
    Density,
    Places,
    clipped_target,
    held_rows,
    public_rule,
    straight,
)
from surveysynth.models.shared.clipped_ratio import Form, clipped_ratio, rule
from surveysynth.privacy.mechanisms.strict import GAP, LEAST_CLAMP

CASES = [(1, False), (2, False), (2, True), (3, True), (4, False), (4, True)]


def parameters(rng, d, curved, G=3, by=0.25):
    """Means, form and reference."""
    bent = d - 1 if curved else 0
    form = Form(rng.normal(0, by, d), np.tril(rng.normal(0, by, (d, d)), -1), *rng.normal(0, by / 2, (2, bent)))
    reference = Form.zeros(d, curved=curved)._replace(kappa=rng.normal(0, 0.2, bent), eta=rng.normal(0, 0.1, bent))
    return rng.normal(0, by, (G, d)), rng.normal(0, by, G), form, reference


def slopes(rng, d, curved, G=3):
    """Of every row: those of the form, and of the reference."""
    return rng.normal(0, 0.2, (2, G, d - 1 if curved else 0))


def log_density(v, mu, form, slope=()):
    """log p(v | mu, form, slope) up to a constant, record by record, as the module's docstring has it: (n,)."""
    out, d = np.zeros(len(v)), v.shape[1]
    e = np.zeros_like(v)
    for j in range(d):
        x, log_sd = v[:, j] - mu[j] - e[:, :j] @ form.lam[j, :j], np.full(len(v), form.delta[j])
        if j == d - 1 and form.kappa.size:
            x = x - (e[:, :j] ** 2 - 1) @ form.kappa - (e[:, :j] @ slope if len(slope) else 0)
            log_sd = log_sd + e[:, :j] @ form.eta
        e[:, j] = x / np.exp(log_sd)
        out -= e[:, j] ** 2 / 2 + log_sd
    return out


def from_reference(rng_or_normals, reference, slope):
    """Coordinates of the reference from standard normals (n, d)."""
    v = rng_or_normals.copy()
    before = v[:, :-1]
    if reference.kappa.size:
        v[:, -1] = before @ slope + (before**2 - 1) @ reference.kappa + np.exp(before @ reference.eta) * v[:, -1]
    return v


def evaluate(mu, offset, form, reference, B, v, row, a, tempering, step=0.4, slope=None):
    """The sum and its gradient, by the package; ``slope`` are those of every row, and of the reference."""
    G, d = mu.shape
    order = np.argsort(row, kind="stable")
    start = np.searchsorted(row[order], np.arange(G + 1))
    own, theirs = np.zeros((2, G, form.kappa.size)) if slope is None else slope
    g_mu, g_slope, g_offset = np.empty((G, d)), np.empty(own.shape), np.empty(G)
    g, ref = Form.zeros(d, curved=form.kappa.size > 0), Form.zeros(d, curved=False)
    ref = ref._replace(kappa=reference.kappa, eta=reference.eta)
    log_ref = np.zeros(len(v))
    for k in range(G):
        log_ref[row == k] = log_density(v[row == k], np.zeros(d), ref, theirs[k])
    sorted_v = np.ascontiguousarray(v[order].T)
    value = clipped_ratio(mu, own, offset, form, theirs, reference, B, *rule(d - 1, step), sorted_v, log_ref[order],
                          a[order], start, tempering, g_mu, g_slope, g_offset, g)  # fmt: skip
    return value, g_mu, g_slope, g_offset, g


@pytest.mark.parametrize(("d", "curved"), CASES)
def test_records_are_clamped_one_by_one(d, curved):
    """Without C_B: a sum that numpy computes from the formula."""
    rng = np.random.default_rng(1)
    mu, offset, form, reference = parameters(rng, d, curved)
    v, row, a, B = rng.normal(0, 2, (60, d)), rng.integers(0, 3, 60), rng.uniform(0.2, 1, 60), 1.4
    own, theirs = both = slopes(rng, d, curved)
    ref = Form.zeros(d, curved=curved)._replace(kappa=reference.kappa, eta=reference.eta)
    expected = 0.0
    for g in range(3):
        here = row == g
        ratio = log_density(v[here], mu[g], form, own[g]) - log_density(v[here], np.zeros(d), ref, theirs[g])
        expected += a[here] @ np.clip(offset[g] + ratio, -B, B)
    found = evaluate(mu, offset, form, reference, B, v, row, a, np.zeros(3), slope=both)[0]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("d", "curved"), CASES)
def test_the_gradient_is_that_of_the_value(d, curved):
    rng = np.random.default_rng(2)
    mu, offset, form, reference = parameters(rng, d, curved)
    v, row, a = rng.normal(0, 1.5, (40, d)), rng.integers(0, 3, 40), rng.uniform(0.2, 1, 40)
    tempering, h = rng.uniform(1, 5, 3), 1e-5
    slope, theirs = slopes(rng, d, curved)

    def evaluated(mu=mu, slope=slope, offset=offset, form=form):
        return evaluate(mu, offset, form, reference, 1.4, v, row, a, tempering, 0.8, (slope, theirs))

    _, g_mu, g_slope, g_offset, g = evaluated()
    of_form = [(getattr(g, name), name) for name in Form._fields]
    for found, name in [(g_mu, "mu"), (g_slope, "slope"), (g_offset, "offset"), *of_form]:
        for place in np.ndindex(found.shape):
            if name == "lam" and place[0] <= place[1]:
                continue
            sides = []
            for sign in (1, -1):
                moved = {"mu": mu, "slope": slope, "offset": offset, **form._asdict()}
                moved[name] = moved[name].copy()
                moved[name][place] += sign * h
                of_rows = [moved.pop(each) for each in ("mu", "slope", "offset")]
                sides.append(evaluated(*of_rows, Form(**moved))[0])
            assert found[place] == pytest.approx((sides[0] - sides[1]) / (2 * h), abs=2e-4 * max(1, a.sum()))


def constant(mu, form, reference, B, step=0.4, slope=None):
    """C_B of one row, by the package: what is left where there are no records."""
    d = mu.size
    none = np.zeros((0, d)), np.zeros(0, dtype=np.intp), np.zeros(0)
    return -evaluate(mu[None], np.zeros(1), form, reference, B, *none, np.ones(1), step, slope)[0]


def test_the_constant_of_one_number_is_an_integral():
    rng = np.random.default_rng(3)
    x = np.linspace(-12, 12, 200_001)
    for _ in range(20):
        mu, form, B = rng.normal(0, 1.2, 1), Form.zeros(1, curved=False)._replace(delta=rng.normal(0, 0.4, 1)), 1.4
        ratio = norm.pdf(x, mu[0], np.exp(form.delta[0])) / norm.pdf(x)
        expected = np.trapezoid(norm.pdf(x) * np.clip(ratio, np.exp(-B), np.exp(B)), x)
        assert constant(mu, form, Form.zeros(1, curved=False), B) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("d", "curved"), [(2, False), (2, True), (3, True), (4, True)])
def test_the_constant_of_several_is_an_expectation(d, curved):
    rng, size, B = np.random.default_rng(4), 400_000, 1.8
    mu, _, form, reference = parameters(rng, d, curved, G=1, by=0.4)
    slope = own, theirs = slopes(rng, d, curved, G=1)
    v = from_reference(rng.standard_normal((size, d)), reference, theirs[0])
    ref = Form.zeros(d, curved=curved)._replace(kappa=reference.kappa, eta=reference.eta)
    ratio = np.clip(log_density(v, mu[0], form, own[0]) - log_density(v, np.zeros(d), ref, theirs[0]), -B, B)
    found = constant(mu[0], form, reference, B, 0.4 if d < 4 else 0.6, slope)
    assert found == pytest.approx(np.exp(ratio).mean(), abs=4 * np.exp(ratio).std() / size**0.5)


@pytest.mark.parametrize(("d", "known"), [(2, 700.0), (2, 1e4), (2, 1e5), (3, 700.0)])
def test_the_rule_moves_a_maximum_by_less_than_a_tenth_of_a_standard_error(d, known):
    """Against a rule of half the step: the gradient's change over the root of the information, which is 1 or more."""
    rng = np.random.default_rng(5)
    none = np.zeros((0, d)), np.zeros(0, dtype=np.intp), np.zeros(0)
    nodes, _ = public_rule(d, known)
    step = np.diff(np.unique(nodes[-1])).min()
    for _ in range(5):
        mu, _, form, reference = parameters(rng, d, curved=True, G=1, by=0.15)

        def gradient(step, mu=mu, form=form, reference=reference):
            _, g_mu, _, _, g = evaluate(mu, np.zeros(1), form, reference, 1.4, *none, np.ones(1), step)
            per_root = 2**-0.5  # the information on logs of spreads and on curvature is 2, else 1
            spreads = np.concatenate([g.delta, g.kappa, g.eta]) * per_root
            return np.concatenate([g_mu.ravel(), g.lam[np.tril_indices(d, -1)], spreads])

        assert np.abs(gradient(step) - gradient(step / 2)).max() * known**0.5 < 0.1


@pytest.mark.parametrize("B", [0.7, 1.4, 3.0])
@pytest.mark.parametrize(("centre", "sd"), [(0.1, 1.1), (0.4, 1.3), (-1.0, 0.8)])
def test_its_expectation_is_largest_at_the_truth_whatever_the_reference(B, centre, sd):
    """A Bregman score; the clamp alone is not."""
    x = np.linspace(-14, 14, 40_001)  # in units of the reference
    true = norm.pdf(x, centre, sd)

    def loss(theta, with_constant=1.0):
        mu, delta = theta
        form = Form.zeros(1, curved=False)._replace(delta=np.array([delta]))
        ratio = np.clip(norm.logpdf(x, mu, np.exp(delta)) - norm.logpdf(x), -B, B)
        c = constant(np.array([mu]), form, Form.zeros(1, curved=False), B)
        return -np.trapezoid(true * ratio, x) + with_constant * c

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).x
    np.testing.assert_allclose(best, [centre, np.log(sd)], atol=2e-3)
    if B < 1 and abs(centre) > 0.3:
        alone = minimize(loss, [centre, np.log(sd)], args=(0.0,), method="Nelder-Mead").x
        assert np.abs(alone - [centre, np.log(sd)]).max() > 0.05


def one_number(y, a, B=1.0):
    """The target of numbers around a standard normal reference, and the same by plain quadrature on a grid."""
    one, reference = np.ones((1, 1)), Density(np.zeros((1, 1)), np.eye(1), **straight(1, 1))
    n = len(y)
    return clipped_target(one, np.zeros(n, dtype=np.intp), y[:, None], reference, np.full(n, a), B, NARROW, False)


@pytest.mark.parametrize("a", [0.03, 0.1, 0.5, 1.0])
def test_the_posterior_mean_of_a_variance_is_that_of_the_residuals_however_small_a(a):
    """Coefficients integrated out, which a tempered file knows little of: by quadrature of the target, unclamped."""
    rng, rows, each, B = np.random.default_rng(4), 12, 150, 40.0
    row = np.repeat(np.arange(rows), each)
    y = rng.normal(rng.normal(0, 0.3, rows)[row], 0.9)
    reference = Density(np.zeros((rows, 1)), np.ones((1, 1)), **straight(rows, 1))
    target = clipped_target(np.eye(rows), row, y[:, None], reference, np.full(len(y), a), B, WIDE, False).function()

    def log_marginal(delta):
        """Of the log standard deviation: the target is quadratic in the coefficients."""
        at = np.append(np.zeros(rows), delta)
        curvature = (target(at + 1e-3 * np.eye(rows + 1)[0])[1] - target(at)[1])[0] / -1e-3  # the same of each
        best = at + np.append(target(at)[1][:rows] / curvature, 0.0)
        return target(best)[0] - rows / 2 * np.log(curvature)

    delta = np.linspace(-0.9, 0.6, 301)
    log_p = np.array([log_marginal(x) for x in delta])
    p = np.exp(log_p - log_p.max())
    found = (p @ np.exp(2 * delta)) / p.sum()
    residuals = y - (np.bincount(row, y) / each)[row]
    np.testing.assert_allclose(found, residuals @ residuals / (len(y) - rows), rtol=0.01)


@pytest.mark.slow
def test_of_two_modes_chains_sample_what_the_density_says_whichever_record_decides():
    """Half of the file lies at -2, half at +2, or a record more on one side: chains agree with a grid."""
    mu, delta = np.meshgrid(np.linspace(-4, 4, 121), np.linspace(*np.log(NARROW[:2]), 41) / 2, indexing="ij")
    for more in (0, 1):
        y = np.random.default_rng(8).normal(0, 0.3, 40 + more) + np.where(np.arange(40 + more) < 20, 2, -2)
        target = one_number(y, 0.1)
        at = target.function()
        log_p = np.array([at(np.array(point))[0] for point in zip(mu.ravel(), delta.ravel(), strict=True)])
        p = np.exp(log_p - log_p.max())
        below = p[mu.ravel() < 0].sum() / p.sum()
        rng = np.random.default_rng(7)
        starts = target.starts(4, rng)
        values, divergences = Chains(target.function, starts, target.scale, rng, warmup=300).draw(500)
        ess = diagnose({"mu": values[:, :, :1]}, divergences).ess_bulk
        assert (values[:, :, 0] < 0).mean() == pytest.approx(below, abs=4 * 0.5 / ess**0.5)
        mirrored = one_number(-y, 0.1).starts(4, np.random.default_rng(7))
        np.testing.assert_array_equal(starts, mirrored)  # nothing of the file sets them


@pytest.mark.slow
@pytest.mark.parametrize(("B", "gap"), list(zip(LEAST_CLAMP, GAP, strict=True)))
def test_a_rival_mode_loses_at_least_the_gap_that_refusals_go_by(B, gap):
    """By quadrature, t errors of 5 degrees of freedom, references up to a standard deviation off."""
    x = np.linspace(-25, 25, 5001)
    places, spreads = np.linspace(-5, 5, 41), np.linspace(*np.log(WIDE[:2]), 37) / 2
    for centre, sd in [(0, 1), (0.4, 1.3), (1, 1), (1, 0.8)]:
        true = student.pdf((x - centre) / (sd * 0.6**0.5), 5)
        true /= true.sum()
        score = np.empty((41, 37))
        for i, mu in enumerate(places):
            for j, delta in enumerate(spreads):
                ratio = np.clip(-(((x - mu) / np.exp(delta)) ** 2) / 2 - delta + x**2 / 2, -B, B)
                score[i, j] = true @ ratio - norm.pdf(x) @ np.exp(ratio) * (x[1] - x[0])
        around = np.pad(score, 1, constant_values=-np.inf)
        tops = np.all([score >= around[1 + i : 42 + i, 1 + j : 38 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)
        best, *rivals = np.sort(score[tops])[::-1]
        assert all(best - rival >= gap for rival in rivals)


def test_the_gradient_is_that_of_the_value_where_a_row_has_more_records_than_are_taken_at_a_time():
    rng, n, G = np.random.default_rng(2), 5000, 4
    X, pattern = np.column_stack([np.ones(G), np.arange(G)]), rng.integers(0, G, n)
    reference = Density(np.zeros((2, 2)), np.eye(2), **straight(2, 2))
    target = clipped_target(X, pattern, rng.standard_normal((n, 2)), reference, np.full(n, 0.4), 1.4, WIDE, True)
    point, at = target.starts(2, rng)[1], target.function()
    step = 1e-5 * np.eye(point.size)
    sides = np.array([at(point + e)[0] - at(point - e)[0] for e in step]) / 2e-5
    np.testing.assert_allclose(at(point)[1], sides, rtol=2e-3, atol=0.05)  # kinks of the clamp, and of the rule for C_B


def with_categories(category, y, a=0.2, B=1.0):
    """Two public rows in two cells, each with 3 categories: the target of records in these, without predictors else."""
    row = np.arange(len(y)) % 2
    shares = np.log([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    places = Places(np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 3)
    X = np.column_stack([np.ones(6), np.tile([[0, 0], [1, 0], [0, 1]], (2, 1))])
    reference = Density(np.zeros((3, 2)), np.eye(2), **straight(3, 2), log_shares=shares)
    return clipped_target(X, row * 3 + category, y, reference, np.full(len(y), a), B, NARROW, True, places)


def test_with_categories_the_gradient_is_that_of_the_value():
    rng = np.random.default_rng(9)
    target = with_categories(rng.integers(0, 3, 30), rng.normal(size=(30, 2)))
    at, h = target.function(), 1e-5
    point = target.starts(2, rng)[1]
    numeric = [(at(point + h * e)[0] - at(point - h * e)[0]) / (2 * h) for e in np.eye(point.size)]
    np.testing.assert_allclose(at(point)[1], numeric, atol=1e-3)
    assert point.size == 3 * 2 + 3 + 2 + 2 + 2 * 2  # coefficients, covariance, curvature, slopes, contrasts


def test_with_categories_and_values_replaced_the_target_moves_by_no_more_than_two_b():
    """At any parameters: a B of one clamp, not one for the category and another for the rest."""
    rng = np.random.default_rng(10)
    y, category = rng.normal(size=(4, 2)), np.array([0, 1, 2, 0])
    points = with_categories(category, y).starts(40, rng)
    values = []
    for k in range(3):
        for extreme in (0.0, 5.0, -1e3):
            other, cat = y.copy(), category.copy()
            other[0], cat[0] = extreme, k
            at = with_categories(cat, other).function()
            values.append([at(3 * point)[0] for point in points])
    values = np.array(values)
    values = values[:, np.isfinite(values).all(axis=0)]
    moved = np.ptp(values, axis=0)
    assert values.shape[1] > 10
    assert moved.max() <= 2 * 0.2 * 1.0 + 1e-9
    assert moved.max() > 0.3


def test_the_constant_does_not_look_at_who_is_in_which_category():
    rng = np.random.default_rng(11)
    y = rng.normal(size=(12, 2))
    one, other = (with_categories(c, y) for c in (np.zeros(12, dtype=int), rng.integers(0, 3, 12)))
    np.testing.assert_array_equal(one.tempering, other.tempering)
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_allclose(one.tempering.sum(), 12 * 0.2)


def with_zeros(zero, y, a=0.2, B=1.0, *, categories=False):
    """Records (log amount, log weight) in two rows; some amounts are zero."""
    X = np.column_stack([np.ones(6), np.repeat([0, 1], 3), *np.tile([[0, 0], [1, 0], [0, 1]], (2, 1)).T])
    row, K = np.arange(len(y)) % 6, X.shape[1]
    if not categories:
        X, row, K = X[[0, 3], :2], row % 2, 2
    reference = Density(
        np.zeros((K, 2)), np.eye(2), np.full(1, 0.1), np.full(1, -0.1), np.full((K, 1), 0.1),
        np.log([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]) if categories else None,
        zero=np.full(K, -0.5), B_zero=np.full((K, 1), 0.2), L_zero=np.full((1, 1), 0.8),
    )  # fmt: skip
    places = Places(np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 3) if categories else None
    return clipped_target(X, row, y, reference, np.full(len(y), a), B, NARROW, True, places, zero)


@pytest.mark.parametrize("categories", [False, True])
def test_with_zeros_the_gradient_is_that_of_the_value(categories):
    rng = np.random.default_rng(12)
    target = with_zeros(rng.random(40) < 0.3, rng.normal(size=(40, 2)), categories=categories)
    at, h = target.function(), 1e-5
    point = target.starts(2, rng)[1]
    numeric = [(at(point + h * e)[0] - at(point - h * e)[0]) / (2 * h) for e in np.eye(point.size)]
    np.testing.assert_allclose(at(point)[1], numeric, atol=1e-3)
    assert at(point)[1].size == target.scale.size == target.ends[-1]


def test_zeros_amounts_and_weights_share_one_clamp():
    """Whatever replaces a record moves the target by 2 a B at the most; two clamps would let it move by twice that."""
    rng = np.random.default_rng(13)
    y, zero = rng.normal(size=(4, 2)), np.array([True, False, False, True])
    points = with_zeros(zero, y).starts(60, rng)
    values, apart = [], []
    for is_zero in (False, True):
        for extreme in (0.0, 5.0, -1e3):
            other, whose = y.copy(), zero.copy()
            other[1], whose[1] = extreme, is_zero
            target = with_zeros(whose, other)
            values.append([target.function()(3 * point)[0] for point in points])
            apart.append([two_clamps(target, 3 * point, other[1], is_zero) for point in points])
    values = np.array(values)
    here = np.isfinite(values).all(axis=0)
    moved, wrong = np.ptp(values[:, here], axis=0).max(), np.ptp(np.array(apart)[:, here], axis=0).max()
    assert here.sum() > 10
    assert 0.3 < moved <= 2 * 0.2 * 1.0 + 1e-9 < wrong


def two_clamps(target, point, y, zero, a=0.2, B=1.0):
    """What a record would add under a clamp for whether it is zero, and another for its numbers: the wrong variant."""
    density = target.density(point)
    x = np.array([1, 1])  # the second record is in the second row
    log_odds, before = x @ density.zero, x @ target.reference.zero
    sign = 1 if zero else -1
    of_zero = np.logaddexp(0, -sign * before) - np.logaddexp(0, -sign * log_odds)
    if zero:
        of_numbers = norm.logpdf(y[1], x @ density.B_zero[:, 0], density.L_zero[0, 0]) - norm.logpdf(
            y[1], x @ target.reference.B_zero[:, 0], 0.8
        )
    else:
        sd = density.L[0, 0]
        of_numbers = norm.logpdf(y[0], x @ density.B[:, 0], sd) - norm.logpdf(y[0], 0, 1)
    return a * (np.clip(of_zero, -B, B) + np.clip(of_numbers, -B, B))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 6), st.sampled_from([0.3, 2.0]))
def test_no_row_has_a_wider_prior_than_one_of_mean_leverage(seed, rows, columns, sd):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(rows, columns)) * rng.lognormal(0, 1.5, rows)[:, None]
    V, precisions = held_rows(W, sd)
    np.testing.assert_allclose(V @ V.T, np.eye(columns), atol=1e-9)
    variance = ((W @ V) ** 2 / precisions).sum(axis=1)
    assert variance.max(initial=0) <= 1.06 * sd**2
    assert (precisions >= columns / sd**2 * (1 - 1e-9)).all()  # of a row of mean leverage, |w|^2 = columns
    np.testing.assert_allclose(held_rows(np.sqrt(columns) * np.eye(columns), sd)[1], columns / sd**2)
    again = held_rows(W[rng.permutation(rows)], sd)[1]
    np.testing.assert_allclose(again, precisions, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("public_weight", [False, True])
def test_with_zeros_the_maximum_is_at_the_truth_beside_a_reference_that_is_off(public_weight):
    rng, n = np.random.default_rng(14), 60_000
    row = rng.integers(0, 2, n)
    zero = rng.random(n) < np.where(row == 1, 0.45, 0.2)
    amount = 0.4 + 0.3 * row + 1.2 * rng.standard_normal(n)
    log_w = np.where(zero, 0.5 - 0.2 * row + 0.7 * rng.standard_normal(n), 0.1 - 0.3 * amount + rng.standard_normal(n))
    y = np.column_stack([np.where(zero, 0, amount), log_w])[:, : 1 if public_weight else 2]
    d = y.shape[1]
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    reference = Density(
        np.zeros((2, d)), np.eye(d), **straight(2, d),
        zero=np.zeros(2), B_zero=np.zeros((2, d - 1)), L_zero=np.eye(d - 1),
    )  # fmt: skip
    target = clipped_target(X, row, y, reference, np.ones(n), 1.4, WIDE, False, None, zero)
    function = target.function()

    def negative(point):
        value, gradient = function(point)
        return -value / n, -gradient / n

    found = target.density(minimize(negative, target.starts(1, rng)[0], jac=True, method="BFGS").x)
    far = 4 * 1.5 * (2 / (0.2 * n)) ** 0.5
    share = 1 / (1 + np.exp(-X @ found.zero))
    np.testing.assert_allclose(share, [0.2, 0.45], atol=far)
    np.testing.assert_allclose((X @ found.B)[:, 0], [0.4, 0.7], atol=far)
    assert found.L[0, 0] == pytest.approx(1.2, abs=far)
    if not public_weight:
        np.testing.assert_allclose(X @ found.B_zero[:, 0], [0.5, 0.3], atol=far)
        assert found.L_zero[0, 0] == pytest.approx(0.7, abs=far)


def test_the_density_of_a_draw_is_the_one_that_the_target_has():
    """Curvature, too: what is simulated from, and what later files are measured against."""
    rng = np.random.default_rng(14)
    X, row, y = np.array([[1.0, 0.0], [1.0, 1.0]]), np.arange(30) % 2, rng.normal(size=(30, 2))
    reference = Density(
        rng.normal(0, 0.2, (2, 2)), np.array([[1.2, 0.0], [0.4, 0.7]]), np.array([0.15]), np.array([0.1]),
        np.array([[0.2], [-0.3]]),
    )  # fmt: skip

    def log_density(values, density):
        e = np.linalg.solve(density.L, values - X[row[0]] @ density.B)
        spread = e[0] * density.eta[0]
        bent = density.kappa[0] * (e[0] ** 2 - 1) + (X[row[0]] @ density.slope)[0] * e[0]
        last = (e[1] - bent) / np.exp(spread)
        return -(e[0] ** 2 + last**2) / 2 - np.log(np.diag(density.L)).sum() - spread

    other = y.copy()
    other[0] = rng.normal(size=2)
    targets = [clipped_target(X, row, each, reference, np.full(30, 0.3), 1.4, WIDE, True) for each in (y, other)]
    for start in targets[0].starts(8, rng)[1:]:
        density = targets[0].density(start)
        clipped = [np.clip(log_density(each[0], density) - log_density(each[0], reference), -1.4, 1.4)
                   for each in (y, other)]  # fmt: skip
        moved = targets[0].function()(start)[0] - targets[1].function()(start)[0]
        assert moved == pytest.approx(0.3 * (clipped[0] - clipped[1]), abs=1e-9)


@pytest.mark.slow
def test_slopes_that_go_with_predictors_are_found_beside_a_reference_that_has_none():
    """The maximum of 60,000 records: within 4 standard errors of the slopes that they were made with."""
    rng, n = np.random.default_rng(15), 60_000
    X, row = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]), rng.integers(0, 3, n)
    own = np.array([-0.35, 0.0, 0.3])[row]
    e = rng.standard_normal((n, 2))
    y = np.column_stack([0.2 + 1.1 * e[:, 0], own * e[:, 0] + 0.1 * (e[:, 0] ** 2 - 1) + 0.9 * e[:, 1]])
    reference = Density(np.zeros((3, 2)), np.eye(2), **straight(3, 2))
    target = clipped_target(X, row, y, reference, np.ones(n), 1.4, WIDE, True)
    function = target.function()

    def negative(point):
        value, gradient = function(point)
        return -value / n, -gradient / n

    found = target.density(minimize(negative, target.starts(1, rng)[0], jac=True, method="BFGS").x)
    slopes = found.L[1, 0] + found.L[1, 1] * (X @ found.slope)[:, 0]
    np.testing.assert_allclose(slopes, [-0.35, 0.0, 0.3], atol=4 * 1.5 * (3 / n) ** 0.5)
    assert found.kappa[0] * found.L[1, 1] == pytest.approx(0.1, abs=4 * 1.5 / n**0.5)


KERNEL = """
import numpy as np
from surveysynth.models.shared.clipped_ratio import Form, clipped_ratio, rule

rng, n, d = np.random.default_rng(3), 500, 2
form = Form(*(rng.normal(0, 0.1, size) for size in (d, (d, d), 1, 1)))
g, reference = Form.zeros(d, curved=True), Form.zeros(d, curved=True)
v, a, mu = rng.normal(size=(d, n)), rng.uniform(size=n), rng.normal(0, 0.2, (3, d))
slope, none = rng.normal(0, 0.1, (3, 1)), np.zeros((3, 1))
start, gradients = np.array([0, 100, 300, n]), (np.empty((3, d)), np.empty((3, 1)), np.empty(3))
value = clipped_ratio(
    mu, slope, np.zeros(3), form, none, reference, 1.4, *rule(d - 1, 0.4), v, -(v**2).sum(axis=0) / 2, a, start,
    np.array([50.0, 100, 100]), *gradients, g,
)
print(value.hex(), *(x.hex() for part in (*gradients, *g) for x in part.ravel().tolist()))
"""


@pytest.mark.slow
def test_the_process_that_compiles_it_finds_the_same_to_the_last_bit(tmp_path):
    """Parts that are compiled apart were rounded another way than where they are read, as one, by later processes."""
    where = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", KERNEL]
    compiled, read = (subprocess.run(run, env=where, check=True, capture_output=True).stdout for _ in range(2))
    assert len(compiled.split()) == 21 and compiled == read
