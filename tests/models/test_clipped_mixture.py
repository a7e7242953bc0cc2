"""The clipped log likelihood ratio of mixtures: gradients, C_B, consistency, exact bounds, and whole releases."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

import surveysynth as ss
from surveysynth.models.mixture import clipped as module
from surveysynth.models.mixture.clipped import Components, clipped_mixture, reference_nodes

X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
LEAST = 0.1
REFERENCE = Components(np.array([0.4, 0.6]), np.array([[8.0, 0.1], [10.0, 0.3]]), np.array([0.8, 0.6]))
WITH_ZEROS = replace(REFERENCE, zero=np.array([-1.2, 0.3]))
EACH = pytest.mark.parametrize("reference", [REFERENCE, WITH_ZEROS], ids=["amounts", "zeros"])


def log_density(of, row, y, zero):
    """By scipy, component by component."""
    mean = X @ of.b.T
    logs = logsumexp(np.log(of.share) + stats.norm.logpdf(y[:, None], mean[row], of.sd), axis=1)
    if of.zero is None:
        return logs
    rho = expit(X @ of.zero)[row]
    return np.where(zero, np.log(rho), np.log(1 - rho) + logs)


def drawn(of, row, rng):
    k = rng.choice(len(of.share), len(row), p=of.share)
    y = (X @ of.b.T)[row, k] + of.sd[k] * rng.standard_normal(len(row))
    zero = np.zeros(len(row), bool) if of.zero is None else rng.random(len(row)) < expit(X @ of.zero)[row]
    return np.where(zero, 0.0, y), zero


def file(reference, n=300, seed=1):
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 3, n)
    return row, *drawn(replace(reference, b=reference.b + 0.2), row, rng), rng


def made(reference, row, y, zero, a, B=1.4, **how):
    return clipped_mixture(X, row, y, zero, reference, a, B, LEAST, **({"first": True} | how))


@EACH
def test_the_gradient_is_that_of_the_value(reference):
    row, y, zero, rng = file(reference)
    target = made(reference, row, y, zero, rng.uniform(0.1, 0.4, len(y)))
    at, point = target.function(), 2 * target.starts(2, rng)[1]
    step = 1e-5 * np.eye(point.size)
    numeric = np.array([(at(point + e)[0] - at(point - e)[0]) / 2e-5 for e in step])
    assert numeric == pytest.approx(at(point)[1], rel=1e-5, abs=1e-4)


@EACH
def test_the_value_is_that_of_the_densities_one_by_one(reference):
    row, y, zero, rng = file(reference)
    a, B = rng.uniform(0.1, 0.4, len(y)), 1.4
    target = made(reference, row, y, zero, a, B)
    at, fine = target.function(), np.linspace(3, 15, 200_001)

    def constant(now, g):
        here, none = np.full(len(fine), g), np.zeros(len(fine), bool)
        logs = log_density(reference, here, fine, none)
        ratio = log_density(now, here, fine, none) - logs
        total = np.exp(np.clip(ratio, -B, B)) @ np.exp(logs) * (fine[1] - fine[0])
        if reference.zero is None:
            return total
        one, yes = np.full(1, g), np.ones(1, bool)
        of_zero = log_density(reference, one, np.zeros(1), yes)
        ratio = log_density(now, one, np.zeros(1), yes) - of_zero
        return total + float((np.exp(of_zero) * np.exp(np.clip(ratio, -B, B)))[0])

    def slow(point):
        now = target.components(point)
        ratio = log_density(now, row, y, zero) - log_density(reference, row, y, zero)
        constants = np.array([constant(now, g) for g in range(3)])
        return a @ np.clip(ratio, -B, B) - np.bincount(row, a) @ constants - ((point / target.prior_sd) ** 2).sum() / 2

    points = [start * scale for start, scale in zip(target.starts(4, rng), (0, 0.5, 1, 2), strict=True)]
    assert np.ptp([at(point)[0] - slow(point) for point in points]) < 2e-3 * a.sum()


@EACH
def test_more_nodes_move_a_maximum_by_less_than_a_tenth_of_a_standard_error(reference, monkeypatch):
    """By the gradient at the maximum: what it is there over the curvature, 1 / scale^2, is how far that moves."""
    row, y, zero, rng = file(reference, n=2000)
    target = made(reference, row, y, zero, np.full(2000, 0.75))
    at = top(target, rng)
    monkeypatch.setattr(module, "PER_ROOT", 100 * module.PER_ROOT)
    finer = made(reference, row, y, zero, np.full(2000, 0.75))
    assert np.abs((target.function()(at)[1] - finer.function()(at)[1]) * target.scale).max() < 0.1


def top(target, rng):
    at, n = target.function(), len(target.a)
    start = target.starts(1, rng)[0]
    return minimize(lambda p: tuple(-v / n for v in at(p)), start, jac=True, method="BFGS", tol=1e-9).x


@pytest.mark.slow
@EACH
def test_the_maximum_is_at_the_truth_beside_a_reference_that_is_off(reference):
    """So many records that what is off the truth is bias."""
    n, rng = 100_000, np.random.default_rng(2)
    zero = None if reference.zero is None else reference.zero + np.array([0.3, -0.2])
    truth = Components(np.array([0.5, 0.5]), reference.b + np.array([[0.3, -0.1], [-0.2, 0.1]]),
                       np.array([0.6, 0.7]), zero)  # fmt: skip
    row = rng.integers(0, 3, n)
    target = made(reference, row, *drawn(truth, row, rng), np.full(n, 0.5))
    found = target.components(top(target, rng))
    for name in ("share", "b", "sd"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.04)
    if zero is not None:
        assert found.zero == pytest.approx(zero, abs=0.05)


def test_nodes_have_the_probabilities_of_the_reference_and_a_zero_has_its_own():
    at, mass, start = reference_nodes(WITH_ZEROS, X, 100.0)
    assert np.add.reduceat(mass, start[:-1]) == pytest.approx(np.ones(3))
    assert mass[at.zero] == pytest.approx(expit(X @ WITH_ZEROS.zero))
    low = (at.y <= 9.0) & ~at.zero
    below = np.bincount(at.row[low], mass[low], 3)
    mean = X @ REFERENCE.b.T
    expected = (stats.norm.cdf((9.0 - mean) / REFERENCE.sd) @ REFERENCE.share) * (1 - expit(X @ WITH_ZEROS.zero))
    assert below == pytest.approx(expected, abs=0.03)  # of the nodes that are next to 9, all


# ---- what one record can do


def posterior(target):
    """Log probabilities on points of the prior, the same ones for every file."""
    rng, at = np.random.default_rng(5), target.function()
    log_p = np.array([at(point)[0] for point in target.prior_sd * rng.normal(0, 2, (400, target.prior_sd.size))])
    return log_p - np.logaddexp.reduce(log_p)


NASTY = [(-1e6, False), (8.0, False), (10.0, False), (1e6, False), (0.0, True)]


def small(value, a, B, **how):
    y = np.append([7.5, 8.2, 9.0, 9.9, 10.1, 0.0, 10.6], value[0])
    zero = np.append(np.arange(7) == 5, value[1])
    row = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    return made(WITH_ZEROS, row, y, zero, np.full(8, a), B, **how)


def test_one_record_moves_no_probability_by_more_than_is_said():
    """Replaced: 4 b a draw.  Blanked, so that it takes no part but in C_B, which is public: 2 b."""
    b, B = 0.5, 1.0
    present = np.append(np.ones(7), 0.0)
    blanked = [posterior(small(value, b / B, B, present=present)) for value in NASTY]
    assert np.ptp(blanked, axis=0).max() < 1e-9  # whatever it was
    seen = [posterior(small(value, b / B, B)) for value in NASTY]
    assert max(np.abs(p - blanked[0]).max() for p in seen) <= 2 * b + 1e-9
    reached = max(np.abs(p - q).max() for p in seen for q in seen)
    assert b < reached <= 4 * b + 1e-9


def test_clamped_but_not_tempered_exceeds_the_bound():
    b, B = 0.5, 2.0
    right = [posterior(small(value, b / B, B)) for value in NASTY]
    wrong = [posterior(small(value, 1.0, B)) for value in NASTY]
    assert max(np.abs(p - q).max() for p in right for q in right) <= 4 * b
    assert max(np.abs(p - q).max() for p in wrong for q in wrong) > 4 * b


def test_nodes_prior_scale_and_starts_are_the_same_whatever_the_outcomes():
    targets = [small(value, 0.5, 1.0) for value in NASTY]
    for other in targets[1:]:
        assert np.array_equal(targets[0].scale, other.scale) and np.array_equal(targets[0].prior_sd, other.prior_sd)
        assert np.array_equal(targets[0].nodes.mass, other.nodes.mass)
        starts = [t.starts(4, np.random.default_rng(1)) for t in (targets[0], other)]
        assert np.array_equal(*starts)
        assert np.array_equal(targets[0].at.y[8:], other.at.y[8:])


def test_what_chains_agree_on_does_not_depend_on_the_order_of_components():
    rng = np.random.default_rng(3)
    target = small(NASTY[1], 0.5, 1.0)
    point = target.starts(2, rng)[1][None]
    order = [1, 0]
    other = replace(target, reference=replace(WITH_ZEROS, share=WITH_ZEROS.share[order], b=WITH_ZEROS.b[order],
                                              sd=WITH_ZEROS.sd[order]))  # fmt: skip
    beta, t, theta, delta = np.split(point[0], np.cumsum(target.sizes)[:-1])
    swapped = np.concatenate([beta.reshape(2, -1)[order].ravel(), t[order], -theta, delta])[None]
    assert other.watched(swapped) == pytest.approx(target.watched(point))


# ---- releases


def frame(n=2000, seed=7):
    """Two humps, zeros, and a weight that goes with the region."""
    rng = np.random.default_rng(seed)
    region, sex = rng.integers(0, 3, n), rng.integers(0, 2, n)
    low = rng.random(n) < 0.3
    log_pay = np.where(low, 8.0 + 0.5 * rng.standard_normal(n), 10 + 0.2 * region + 0.4 * rng.standard_normal(n))
    pay = np.where(rng.random(n) < 0.15, 0.0, np.exp(log_pay))
    return pd.DataFrame({
        "pay": pay, "positive": np.exp(log_pay), "region": region.astype(str), "sex": np.where(sex == 1, "m", "f"),
        "w": np.array([100.0, 200.0, 300.0])[region], "other": rng.uniform(50, 300, n),
    })  # fmt: skip


STRICT = {"epsilon": 10.0, "population_total": 400_000, "bounds": (300, 500_000), "seed": 3}


def design(weights="w", **how):
    return ss.SurveyDesign(frame(**how), weights=weights)


@pytest.fixture(scope="module")
def release():
    return ss.synthesize(design(), ss.Mixture("pay ~ region + sex", zeros=True, weight="public"), **STRICT)


@pytest.mark.slow
def test_a_release_has_both_humps_the_zeros_and_means_near_the_file(release):
    assert (release.privacy.kind, release.privacy.epsilon) == ("strict", 10.0)
    said = str(release.privacy)
    assert "a mixture of at most 2 normal regressions" in said and "declared public" in said
    table = release.tables(by=["region"], statistic="mean")
    own = ss.estimate(design(), "pay", ["region"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / table["se"]).max() < 4
    pay = [data.frame["pay"] for data in release.datasets]
    assert all(((y == 0) | ((y >= 300) & (y <= 500_000))).all() for y in pay)
    for low, high in ((0, 1), (300, 8_000), (8_000, 14_000), (14_000, 500_000)):  # between the humps there are few
        own, *share = (((y >= low) & (y < high)).mean() for y in (frame()["pay"], *pay))
        assert np.mean(share) == pytest.approx(own, abs=4 * (0.5 * 0.5 / 900 * (1 / len(pay) + 0.5)) ** 0.5)


@pytest.mark.slow
def test_a_release_is_the_reference_of_the_next_one(release, tmp_path):
    release.write(tmp_path / "r")
    later = ss.SurveyDesign(frame(seed=8), weights="w")
    model = ss.Mixture("pay ~ sex + region", zeros=True, weight="public")
    again = ss.synthesize(later, model, **{**STRICT, "bounds": None}, mechanism=ss.Strict(reference=tmp_path / "r"))
    assert "a first draw of this file" not in str(again.privacy)
    table = again.tables(by=["region"], statistic="mean")
    own = ss.estimate(later, "pay", ["region"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / table["se"]).max() < 4
    with pytest.raises(ss.InputError, match="the reference has 2 components, zeros=True; the model 3, zeros=True"):
        ss.synthesize(
            later, replace(model, components=3), **{**STRICT, "bounds": None},
            mechanism=ss.Strict(reference=tmp_path / "r"),
        )  # fmt: skip


def test_a_mixture_is_no_later_model_under_strict_and_one_of_its_own_under_others():
    """What its C_B is evaluated at hangs on all predictor rows, which therefore are to be public."""
    models = [ss.GammaRegression("positive ~ region", bounds=(300, 500_000)),
              ss.Mixture("pay ~ region + log(positive)", zeros=True, bounds=(300, 500_000))]  # fmt: skip
    with pytest.raises(ss.ModelError, match="Mixture of pay cannot be a later model under Strict"):
        ss.synthesize(design("other"), ss.Sequential(models), **(STRICT | {"bounds": None}))
    with pytest.raises(ss.ModelError, match="allocation='posterior' is of a mixture by itself"):
        ss.Sequential([models[0], replace(models[1], allocation="posterior")])


@pytest.mark.slow
def test_a_pseudo_posterior_has_a_mixture_later_in_a_sequence():
    later = ss.Mixture("pay ~ region + log(positive)", zeros=True, components=3)
    models = [ss.GammaRegression("positive ~ region"), later]
    of = design("other", n=400)
    made = ss.synthesize(
        of, ss.Sequential(models), epsilon=2000, m=2, population_total=70_000, seed=2, mechanism=ss.PseudoPosterior(),
        accept_diagnostics=["rhat", "ess_bulk", "ess_tail", "divergences", "information"],
    )  # fmt: skip
    table = made.tables(by=["region"], statistic="mean")
    table = table[table["outcome"] == "pay"].reset_index(drop=True)
    own = ss.estimate(of, "pay", ["region"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / np.hypot(table["se"], own["se"])).max() < 4


@pytest.mark.slow
def test_a_public_file_is_a_reference():
    public = ss.SurveyDesign(frame(seed=9), weights="w")
    model = ss.Mixture("pay ~ region + sex", zeros=True, weight="public", bounds=(300, 500_000))
    reference = ss.Reference.from_public(public, model, source="a public file")
    release = ss.synthesize(design(), model, **(STRICT | {"bounds": None}), mechanism=ss.Strict(reference=reference))
    table = release.tables(by=["region"], statistic="mean")
    own = ss.estimate(design(), "pay", ["region"], "mean")
    assert np.abs((table["estimate"] - own["estimate"]) / table["se"]).max() < 4


def test_a_reference_has_room_for_what_comes_after():
    """Of a fit whose shares know no least one; draws that have room stay as they are."""
    model = ss.Mixture("pay ~ 1", bounds=(300, 500_000)).under_reference()
    near = module.as_draws([Components(np.array([0.001, 0.999]), np.zeros((2, 1)), np.array([0.3, 1.0]))])
    made = model._with_room(near)
    assert made["share"].sum() == pytest.approx(1) and made["share"].min() > module.least_share(2)
    assert made["sd"].min() > model.least_sd
    roomy = module.as_draws([Components(np.array([0.6, 0.4]), np.zeros((2, 1)), np.array([0.5, 1.0]))])
    for name in ("share", "sd"):
        assert model._with_room(roomy)[name] == pytest.approx(roomy[name])


@pytest.mark.parametrize("K", [1, 3])
def test_other_numbers_of_components_have_gradients_too(K):
    rng = np.random.default_rng(4)
    of = Components(np.full(K, 1 / K), np.column_stack([np.arange(8.0, 8 + K), np.zeros(K)]), np.full(K, 0.7))
    row = rng.integers(0, 3, 50)
    target = made(of, row, *drawn(of, row, rng), np.full(50, 0.3))
    at, point = target.function(), target.starts(2, rng)[1]
    numeric = [(at(point + e)[0] - at(point - e)[0]) / 2e-5 for e in 1e-5 * np.eye(point.size)]
    assert at(point)[1] == pytest.approx(numeric, rel=1e-5, abs=1e-4)


def test_some_of_the_records_stand_for_all():
    """On average over what is left out, and with C_B as of all."""
    row, y, zero, rng = file(WITH_ZEROS, n=2000)
    target = made(WITH_ZEROS, row, y, zero, np.full(2000, 0.3))
    point = target.starts(2, rng)[1]
    of = [target.some(0.5, rng).function() for _ in range(60)]
    change = np.array([at(point)[0] - at(0 * point)[0] for at in of])
    whole = target.function()(point)[0] - target.function()(0 * point)[0]
    assert np.abs(change.mean() - whole) < 4 * change.std() / 60**0.5


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        (ss.Mixture("pay ~ region", zeros=True, bounds=(0, 9e5)), {"bounds": None}, "lower bound of 'pay' has no log"),
        (ss.Mixture("pay ~ region", zeros=True), {}, r"declare it, Mixture\("),
        (ss.Mixture("pay ~ region", zeros=True), {"weights": "other"}, "a mixture models the outcome alone"),
        (ss.Mixture("pay ~ region", weight="public", components=9), {"epsilon": 2.0}, "44 parameters"),
        (ss.Mixture("pay ~ region", weight="public"), {"bounds": None}, "of pay, public"),
        (ss.Mixture("pay ~ region", zeros=True, weight="public", bounds=(300, 5e4)),
         {"mechanism": ss.PseudoPosterior(), "bounds": None}, "beyond the bounds"),
        (ss.Mixture("pay ~ region", weight="public", missing="drop"), {}, "fill these records in"),
        (ss.Mixture("pay ~ region", weight="public", allocation="posterior"), {}, "no epsilon holds for it"),
    ],
)
def test_what_a_strict_mixture_cannot_have_is_refused_with_what_to_do(model, change, said):
    change = dict(change)
    of = design(change.pop("weights", "w"))
    with pytest.raises((ss.InputError, ss.ModelError, ss.PrivacyError), match=said):
        ss.synthesize(of, model, **(STRICT | change))


def test_values_beyond_the_bounds_are_moved_and_decide_nothing():
    model = ss.Mixture("pay ~ region", zeros=True, weight="public", bounds=(300, 500_000)).under_reference()
    records = []
    for value in (5e5, 5e9):
        changed = frame()
        changed.loc[3, "pay"] = value
        records.append(model.prepare(ss.SurveyDesign(changed, weights="w"), "ignore", 200.0))
    assert np.array_equal(records[0].y, records[1].y) and records[0].y.max() == np.log(5e5)


def test_zeros_of_their_own_are_not_beyond_bounds():
    model = ss.Mixture("pay ~ region", zeros=True, bounds=(20, 5e6))
    assert model.prepare(design(), "ignore", 200.0).zero.any()


def test_a_constant_outcome_is_not_told_apart():
    """Under Strict() nothing of the file decides; elsewhere it is refused."""
    same = frame().assign(pay=900.0)
    of = ss.SurveyDesign(same, weights="w")
    model = ss.Mixture("pay ~ region", bounds=(300, 500_000), weight="public")
    assert model.under_reference().prepare(of, "ignore", 200.0).n == 2000
    with pytest.raises(ss.ModelError, match="constant"):
        model.prepare(of, "ignore", 200.0)
