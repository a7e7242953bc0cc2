"""Fisher-consistent draws with effects of PSUs: files whose covariances are known, and what does not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surveysynth import ModelError
from surveysynth.models.corrections.fisher_consistency import Weighting
from surveysynth.models.corrections.psu_correction import RECORDS, ClusteredFile, _sampled_psus, correct_with_effects
from surveysynth.models.densities import normal_density as gaussian
from surveysynth.models.draws import Sampler
from surveysynth.models.normal.cluster_effects import grouped_statistics
from surveysynth.models.normal.variance_components import sample_with_effects
from surveysynth.models.predictors.groups import Groups
from surveysynth.privacy.units import even

X = np.array([[1.0, h == 1, h == 2, g] for h in range(3) for g in range(2)])
B = np.array([[10.0, 0.0], [0.3, -0.2], [0.1, 0.2], [-0.2, 0.1]])
L = np.linalg.cholesky([[0.25, -0.12], [-0.12, 0.30]])


def inverse(c):
    """The inverse map with c1 times target c; of units, evened by their numbers of records."""
    return lambda f, size=None: np.minimum(1, c / f) if size is None else even(np.minimum(1, c / f), size)


def none(Y):
    return np.zeros(len(Y))


def clustered(sizes, seed=0):
    """Pattern and PSU of each record: three strata of PSUs, and a group within PSUs."""
    psu = np.repeat(np.arange(len(sizes)), sizes)
    return 2 * (psu % 3) + np.random.default_rng(seed).integers(2, size=psu.size), psu


def households(psu):
    """Households of two or three records, each within a PSU."""
    place = np.arange(psu.size) - np.searchsorted(psu, psu)
    return np.unique(np.column_stack([psu, (2 * place) // 5]), axis=0, return_inverse=True)[1].ravel()


def corrected(sizes, tau, alpha, unit=None, seed=1, change=None, log_base=none, draws=100):
    """L and the root of T for one draw."""
    pattern, psu = clustered(sizes)
    A = np.eye(2) if change is None else change
    file = ClusteredFile(X, pattern, psu, households(psu) if unit else None)
    roots = correct_with_effects(
        (B @ A.T)[None], (A @ L)[None], np.array([tau]), file, Weighting(alpha, log_base, draws),
        np.random.default_rng(seed),
    )  # fmt: skip
    return roots[0][0], roots[1][0]


# ---- files whose truth is known


FITS, DRAWS = 20, 300


@pytest.fixture(
    scope="module",
    params=[(0.05, 20, 1.8, False), (0.15, 10, 1.8, False), (0.15, 20, 4.0, True)],
    ids=["ICC .05, n_c 20", "ICC .15, n_c 10", "households"],
)
def known(request):
    """Ratios to the truth of Sigma and T, (FITS, 2), of the unweighted fit, of released and of corrected draws."""
    icc, n_c, c, of_households = request.param
    tau = icc / (1 - icc)
    found = {name: [] for name in ("unweighted", "released", "corrected")}
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        pattern, psu = clustered(np.full(75, n_c), seed)
        groups, n = Groups(psu, 75), psu.size
        u = np.sqrt(tau) * rng.standard_normal((75, 2))
        Y = X[pattern] @ B + (u[psu] + rng.standard_normal((n, 2))) @ L.T
        unit = households(psu) if of_households else None
        sampler = Sampler(lambda: None, rng, 4, 0, DRAWS // 4)
        statistics = grouped_statistics(X, pattern, Y, np.ones(n), groups)
        plain = sample_with_effects(statistics, "flat", sampler)
        psus = gaussian.PSUs(psu, np.ones(n), statistics.a, statistics.s, statistics.t, plain.tau[:, 0], None)
        f = gaussian.max_abs_log_density(Y, pattern, X, plain.B, plain.L, unit=unit, psus=psus)
        alpha = inverse(c)(f) if unit is None else inverse(c)(f, np.bincount(unit))[unit]
        weighted = sample_with_effects(grouped_statistics(X, pattern, Y, alpha, groups), "flat", sampler)
        three = slice(0, 3)
        roots = correct_with_effects(
            weighted.B[three], weighted.L[three], weighted.tau[three, 0], ClusteredFile(X, pattern, psu, unit),
            Weighting(inverse(c), none, DRAWS), rng,
        )  # fmt: skip
        for name, Ls, T_roots in (
            ("unweighted", plain.L, plain.L * np.sqrt(plain.tau[:, 0, None])),
            ("released", weighted.L, weighted.L * np.sqrt(weighted.tau[:, 0, None])),
            ("corrected", *roots),
        ):
            # traces, in units of the true Sigma
            traces = [(np.linalg.solve(L, R) ** 2).sum(axis=(1, 2)).mean() / 2 for R in (Ls, T_roots)]
            found[name].append([traces[0], traces[1] / tau])
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.slow
def test_corrected_draws_have_the_covariances_of_the_unweighted_fit(known):
    """Within four Monte Carlo errors, and the stated bias: 3% of Sigma, 10% of T."""
    for name in ("released", "corrected"):
        apart = known[name] - known["unweighted"]
        error = apart.std(axis=0, ddof=1) / np.sqrt(FITS)
        if name == "released":
            assert (apart.mean(axis=0) < [-0.08, -0.05]).all() and (apart.mean(axis=0) < -4 * error).all()
        else:
            assert (np.abs(apart.mean(axis=0)) < 4 * error + [0.03, 0.10]).all()
            assert (error < [0.015, 0.06]).all()


# ---- what does not matter, and what cannot be undone


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("sizes", [np.full(60, 10), 5 + np.arange(80) % 20])
def test_full_weights_change_nothing(sizes, unit):
    """But for the error of 5,000 simulated records: 4 times that of a mean square."""
    Sigma_root, T_root = corrected(sizes, [0.1, 0.2], lambda f, size=None: np.ones_like(f), unit)
    np.testing.assert_allclose(np.linalg.solve(L, Sigma_root), np.eye(2), atol=4 * np.sqrt(2 / 5000))
    T = np.linalg.solve(L, T_root) @ np.linalg.solve(L, T_root).T
    np.testing.assert_allclose(T, np.diag([0.1, 0.2]), atol=4 * np.sqrt(2 / 5000))


@pytest.mark.slow
@settings(max_examples=4, deadline=None, derandomize=True)
@given(a=st.floats(0.01, 100), b=st.floats(0.01, 100), c=st.floats(-5, 5), level=st.floats(-20, 20))
def test_units_and_level_of_the_outcomes_do_not_matter(a, b, c, level):
    """Outcomes in other units, or a sum of them for one: where densities are the same, so is the correction."""
    sizes = np.full(40, 8)
    expected = corrected(sizes, [0.1, 0.2], inverse(1.8))
    change = np.array([[a, 0.0], [c, b]])

    def same(Y):
        return np.full(len(Y), np.log(a * b))

    for ours, before in zip(corrected(sizes, [0.1, 0.2], inverse(1.8), None, 1, change, same), expected, strict=True):
        np.testing.assert_allclose(np.linalg.solve(change, ours), before, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("tau", [[1e-12, 0.3], [1e-6, 1e-6], [0.05, 0.05], [40.0, 2.0]])
def test_a_covariance_between_psus_is_positive_definite(tau):
    """Where there is next to no effect, and where there is little else."""
    for root in corrected(np.full(50, 6), tau, inverse(1.8)):
        assert (np.triu(root, 1) == 0).all() and (root.diagonal() > 0).all() and np.isfinite(root).all()


def test_the_lack_of_small_psus_is_larger_and_of_households_larger_yet():
    """V_c falls short of Sigma_lim / a_c by less the more records a PSU has."""
    T = [corrected(np.full(n, size), [0.05, 0.05], inverse(2.5), unit)[1][0, 0] ** 2
         for n, size, unit in ((60, 40, False), (120, 10, False), (120, 10, True))]  # fmt: skip
    draw = 0.05 * L[0, 0] ** 2
    assert draw < T[0] < T[1] < T[2]


def test_small_files_are_repeated_and_of_large_ones_whole_psus_are_taken():
    for sizes in ([3, 0, 5], np.full(2000, 7)):
        psu = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
        records, group, of = _sampled_psus(psu, np.random.default_rng(2))
        assert RECORDS <= len(records) < RECORDS + 8
        np.testing.assert_array_equal(psu[records], of[group])
        np.testing.assert_array_equal(np.bincount(group), np.asarray(sizes)[of])
        assert np.unique(np.column_stack([group, records]), axis=0).shape[0] == len(records)


@pytest.mark.parametrize("alpha", [np.zeros_like, lambda f: np.exp(-9 * f), inverse(0.05)])
def test_weights_that_leave_too_little_are_beyond_repair(alpha):
    with pytest.raises(ModelError, match="shrink the model so far that their effect cannot be undone"):
        corrected(np.full(40, 8), [0.1, 0.1], alpha)
