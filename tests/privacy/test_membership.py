"""The membership attack: against closed forms, a real intruder's hit rate, and the bound that epsilon gives."""

import itertools
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import multigammaln
from scipy.stats import beta, binom, norm
from surveys import make_design, make_frame, model

import surveysynth as ss
from surveysynth import InputError
from surveysynth.models.draws import Streams
from surveysynth.privacy import membership
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.membership import (
    GAMES,
    REFIT,
    advantage_of_one,
    between,
    log_normalizers,
    log_ratios,
    membership_attack,
    play,
)
from surveysynth.privacy.units import Unit
from tests.surveys import PSEUDO

ERROR = 5 * 0.5 / math.sqrt(GAMES)  # five standard errors of a mean of values between 0 and 1


def a_fit(c, m=1, weight=None, unit=None, delta=None):
    """As much of a fit as is attacked, from contributions c (S, n)."""
    S, n = c.shape
    weight = np.full(S, 1 / S) if weight is None else weight
    return SimpleNamespace(
        budget=Budget(None, m), rows=np.arange(n), unit=unit or Unit(),
        delta=np.abs(c).max() if delta is None else delta,
        weighted=SimpleNamespace(posterior=SimpleNamespace(weight=weight, size=S)),
        contributions=lambda records: c[:, records], weights_from_file=False, risk=np.abs(c).max(axis=0),
    )  # fmt: skip


def distance(p, q, low, high, breaks):
    """Total variation distance of two densities, by quadrature."""
    edges = [low, *sorted(b for b in breaks if low < b < high), high]
    pieces = [quad(lambda x: abs(p(x) - q(x)), a, b, limit=400)[0] for a, b in itertools.pairwise(edges)]
    return sum(pieces) / 2


class NormalMean:
    """y_i ~ N(theta, 1), flat prior, likelihoods raised to alpha: theta ~ N(sum alpha y / sum alpha, 1 / sum alpha)."""

    def __init__(self, y, alpha, S=20_001):
        self.y, self.alpha = np.asarray(y, float), np.asarray(alpha, float)
        self.theta = self.posterior().ppf((np.arange(S) + 0.5) / S)  # as even as draws can be
        self.c = self.contributions(self.theta)

    def contributions(self, theta):
        return self.alpha * norm.logpdf(self.y, np.asarray(theta)[:, None])

    def posterior(self, without=None):
        a = np.where(np.arange(self.y.size) == without, 0.0, self.alpha)
        return norm(a @ self.y / a.sum(), 1 / math.sqrt(a.sum()))

    def advantage(self, i):
        inside, outside = self.posterior(), self.posterior(i)
        middle = [*inside.ppf([1e-6, 0.1, 0.5, 0.9, 1 - 1e-6]), *outside.ppf([1e-6, 0.1, 0.5, 0.9, 1 - 1e-6])]
        return distance(inside.pdf, outside.pdf, min(middle) - 2, max(middle) + 2, middle)


Y = [-1.9, -0.4, 0.1, 0.2, 0.7, 1.1, 2.6, 4.0]
ALPHA = [0.9, 1.0, 1.0, 0.3, 0.8, 1.0, 0.6, 0.35]


@pytest.mark.slow
def test_one_draw_in_a_normal_model_by_quadrature():
    """Every record's advantage is the distance between two known normal distributions."""
    toy = NormalMean(Y, ALPHA)
    weight = np.full(toy.c.shape[0], 1 / toy.c.shape[0])
    found = advantage_of_one(log_ratios(toy.c, weight), weight)
    for i, advantage in enumerate(found):
        outside = toy.posterior(i)
        beyond = outside.cdf(toy.theta[0]) + outside.sf(toy.theta[-1])  # where there are no draws
        assert advantage == pytest.approx(toy.advantage(i), abs=2 * beyond + 5e-5)
    attack = membership_attack(a_fit(toy.c), records=3, seed=1)
    assert {*attack.records["row"]} == {*np.argsort(-found)[:3]}
    np.testing.assert_allclose(attack.records["advantage"], attack.records["advantage_one"], atol=ERROR)
    assert attack.others == pytest.approx(np.sort(found)[-4])


@pytest.mark.slow
def test_draws_of_unequal_weight_stand_for_the_posterior():
    """An even grid, weighted by the posterior's density, gives the same."""
    toy = NormalMean(Y, ALPHA)
    theta = np.linspace(*toy.posterior().ppf([1e-12, 1 - 1e-12]), 20_001)
    weight = toy.posterior().pdf(theta)
    attack = membership_attack(a_fit(toy.contributions(theta), weight=weight / weight.sum()), records=8, seed=1)
    truth = [toy.advantage(i) for i in attack.records["row"]]
    np.testing.assert_allclose(attack.records["advantage_one"], truth, rtol=0, atol=2e-4)
    np.testing.assert_allclose(attack.records["advantage"], truth, rtol=0, atol=ERROR)


@pytest.mark.parametrize(("ones", "zeros"), [(3, 9), (1, 40), (30, 30)])
def test_one_draw_in_a_bernoulli_model_by_quadrature(ones, zeros):
    """Beta(1 + ones, 1 + zeros), and with one of the ones left out."""
    S = 40_001
    theta = beta(1 + ones, 1 + zeros).ppf((np.arange(S) + 0.5) / S)
    weight = np.full(S, 1 / S)
    found = advantage_of_one(log_ratios(np.log(theta)[:, None], weight), weight).item()
    inside, outside = beta(1 + ones, 1 + zeros), beta(ones, 1 + zeros)
    truth = distance(inside.pdf, outside.pdf, 0, 1, [*inside.ppf([0.01, 0.5, 0.99]), *outside.ppf([0.01, 0.5, 0.99])])
    # r goes as 1 / theta: where theta can be near 0 the mass out there rests on the first few draws
    assert found == pytest.approx(truth, abs=2e-3)


@pytest.mark.parametrize("m", [1, 3])
def test_a_real_intruder_has_this_hit_rate(m):
    """The game played with the closed form: a coin, m draws from the one posterior or the other, a guess."""
    toy, games, i = NormalMean(Y, ALPHA), 200_000, 7
    rng = np.random.default_rng(3)
    posterior = {True: toy.posterior(), False: toy.posterior(i)}
    score = {}
    for inside, distribution in posterior.items():
        theta = distribution.rvs((games, m), random_state=rng)
        score[inside] = (posterior[True].logpdf(theta) - posterior[False].logpdf(theta)).sum(axis=1)
    hits = (score[True] > 0).mean() / 2 + (score[False] <= 0).mean() / 2
    auc = (score[True] > rng.permutation(score[False])).mean()
    attack = membership_attack(a_fit(toy.c, m), records=8, seed=1)
    mine = attack.records.set_index("row").loc[i]
    error = ERROR + 5 / math.sqrt(games)
    assert mine["advantage"] == pytest.approx(2 * hits - 1, abs=error)
    assert mine["auc"] == pytest.approx(auc, abs=error)
    assert 0.1 < mine["advantage"] and (m == 1 or mine["advantage"] > mine["advantage_one"] + 2 * error)
    assert mine["advantage"] <= 1 - (1 - mine["advantage_one"]) ** m + ERROR  # how advantages of draws add up


@pytest.mark.parametrize("delta", [0.05, 0.6, 1.8])
@pytest.mark.parametrize("m", [1, 3])
def test_randomized_response_by_the_binomial(delta, m):
    """c = +-Delta, "in" with probability p = e^Delta / (1 + e^Delta) for +, "out" with 1 - p: nothing is worse."""
    p = 1 / (1 + math.exp(-delta))
    fit = a_fit(np.array([[delta], [-delta]]), m, np.array([p, 1 - p]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the two draws
        attack = membership_attack(fit, seed=2)
    assert attack.records["advantage_one"].item() == pytest.approx((math.exp(delta) - 1) / (math.exp(delta) + 1))
    k = np.arange(m + 1)
    truth = np.abs(binom.pmf(k, m, p) - binom.pmf(k, m, 1 - p)).sum() / 2
    assert attack.advantage == pytest.approx(truth, abs=ERROR)
    epsilon = 2 * delta * m
    assert attack.epsilon == epsilon and attack.records["epsilon_seen"].item() == pytest.approx(epsilon / 2)
    assert attack.bound == pytest.approx((math.exp(epsilon) - 1) / (math.exp(epsilon) + 1))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    S=st.integers(2, 40),
    delta=st.floats(1e-3, 4),
    spread=st.floats(0.01, 100),
    m=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_clamped_contributions_stay_within_the_bound(S, delta, spread, m, seed):
    """Whatever the model: |c| <= Delta makes TV of one draw at most tanh(Delta / 2), of m draws tanh(m Delta / 2)."""
    rng = np.random.default_rng(seed)
    c = np.clip(spread * rng.standard_normal((S, 5)), -delta, delta)
    weight = rng.dirichlet(np.ones(S))
    log_r = log_ratios(c, weight)
    np.testing.assert_allclose(weight @ np.exp(log_r), 1, rtol=1e-9)
    assert (advantage_of_one(log_r, weight) <= math.tanh(delta / 2) * (1 + 1e-9)).all()
    advantage, auc, seen, ess = play(log_r[:, 0], weight, m, rng)
    assert advantage <= math.tanh(m * delta / 2) + ERROR and seen <= 2 * m * delta * (1 + 1e-9)
    assert advantage / 2 - ERROR <= auc - 0.5 <= advantage - advantage**2 / 2 + 2 * ERROR  # of any ROC curve
    assert 1 - 1e-9 <= ess <= S * (1 + 1e-9)


def test_an_outlier_without_privacy_weights_is_found_and_privacy_weights_hide_it():
    """Record 0 lies 30 standard deviations off: alpha = 1 gives it away, and the draws left are few."""
    y = np.r_[30.0, norm.ppf((np.arange(49) + 0.5) / 49)]
    bare = NormalMean(y, np.ones(50), S=4_001)
    assert bare.advantage(0) > 0.95
    with pytest.warns(UserWarning, match=r"effective draws .* in 1 row \(row numbers 1;"):
        attack = membership_attack(a_fit(bare.c, m=3), records=5, seed=1)
    assert attack.records["row"][0] == 0 and attack.advantage > 0.95 > 0.5 > attack.records["advantage"][1]
    assert "Unreliable for 1 of the attacked records" in str(attack)
    alpha = np.minimum(1, 1.8 / np.abs(bare.c).max(axis=0))
    hidden = membership_attack(a_fit(NormalMean(y, alpha, S=4_001).c, m=3, delta=1.8), records=5, seed=1)
    assert hidden.advantage < 0.2 and "Unreliable for" not in str(hidden)


def test_units_are_left_out_as_a_whole():
    """Records of a household: their contributions add up, in whatever order they are in the file."""
    toy = NormalMean(Y, ALPHA)
    of_record = np.array([2, 0, 1, 0, 2, 1, 2, 0])
    fit = a_fit(toy.c, m=2, unit=Unit("household", of_record))
    attack = membership_attack(fit, seed=4)
    summed = np.column_stack([toy.c[:, of_record == u].sum(axis=1) for u in range(3)])
    direct = membership_attack(a_fit(summed, m=2, delta=fit.delta), seed=4)
    columns = ["advantage_one", "advantage", "auc", "epsilon_seen", "ess"]
    np.testing.assert_allclose(attack.records[columns], direct.records[columns], rtol=1e-9)
    assert attack.records["row"].tolist() == [{0: 1, 1: 2, 2: 0}[u] for u in direct.records["row"]]
    assert attack.screened == 3


@pytest.mark.parametrize("block", [1, 20_000, 10**9])
def test_blocks_do_not_matter(monkeypatch, block):
    toy = NormalMean(Y, ALPHA, S=5_001)
    whole = membership_attack(a_fit(toy.c, m=2), records=5, seed=1)
    calls = []
    fit = a_fit(toy.c, m=2)
    fit.contributions = lambda records: calls.append(len(records)) or toy.c[:, records]
    monkeypatch.setattr(membership, "BLOCK", block)
    again = membership_attack(fit, records=5, seed=1)
    np.testing.assert_allclose(again.records, whole.records, rtol=1e-9)
    assert max(calls) == {1: 1, 20_000: 3, 10**9: 8}[block]


def test_rows_are_those_of_the_file_and_the_words_are_plain():
    toy = NormalMean(Y, ALPHA)
    fit = a_fit(toy.c, m=3)
    fit.rows = np.array([1, 2, 4, 7, 11, 12, 13, 20])  # some records had no outcome
    attack = membership_attack(fit, records=2, seed=1)
    assert set(attack.records["row"]) <= set(fit.rows)
    assert len(attack.records) == 2 and attack.screened == 8
    text = str(attack)
    for said in (
        "the 2 most exposed of 8 records", "m = 3", f"allows up to {attack.bound:.3f}", "instead of 50%",
        f"No other record has more than {attack.others:.3f}", "held fixed", "not refitted", "Internal",
    ):  # fmt: skip
        assert said in text, said
    every = membership_attack(fit, records=50, seed=1)
    assert every.others == 0 and len(every.records) == 8
    assert sorted(every.records["advantage"])[:6][-1] <= attack.others + ERROR
    with pytest.raises(InputError, match="needs a fit"):
        membership_attack(make_frame())
    with pytest.raises(InputError, match="records must be a whole number"):
        membership_attack(fit, records=0)
    with pytest.raises(InputError, match="seed must be"):
        membership_attack(fit, seed=-1)
    fit.weights_from_file = True
    with pytest.raises(InputError, match="refit must be a whole number"):
        membership_attack(fit, refit=-1)


@pytest.mark.slow
def test_a_fit_of_a_survey_is_within_its_bound():
    """400 records, epsilon = 10.8: the best attack gets a small part of what epsilon allows; alpha = 1 gives more."""
    fit = ss.fit(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    attack = membership_attack(fit, records=20, seed=1)
    assert attack.epsilon == 2 * fit.delta * 3 <= 10.8 and attack.screened == 400
    assert 0 < attack.others <= attack.advantage + ERROR or attack.others <= 1 - (1 - attack.advantage) ** 3
    assert attack.records["epsilon_seen"].max() <= attack.epsilon * (1 + 1e-9)
    assert 0.05 < attack.advantage < attack.bound
    c = fit.contributions(np.arange(400))
    np.testing.assert_allclose(np.abs(c).max(), fit.delta, rtol=1e-9)
    everyone = np.arange(400)
    exact = fit.weighted.alpha * fit.synthesizer.log_density(fit.records.subset(everyone), fit.weighted.posterior)
    np.testing.assert_allclose(c, exact, rtol=1e-9)


# with everything computed anew


def even(distribution, S=4_001):
    return distribution.ppf((np.arange(S) + 0.5) / S), np.full(S, 1 / S)


def test_two_fits_are_told_apart_as_two_known_distributions_are():
    """N(0, 1) and N(0.7, 1.3^2), their densities known but for constants; the second from draws of unequal weight."""
    here, there = norm(0, 1), norm(0.7, 1.3)
    (x, w), grid = even(here), np.linspace(-6, 8, 4_001)
    weight = there.pdf(grid) / there.pdf(grid).sum()
    log_r, unknown = lambda t: there.logpdf(t) - here.logpdf(t), 37.5
    inside, outside = log_r(x) + unknown, log_r(grid) + unknown
    log_z, error = log_normalizers(inside, w, outside, weight)
    assert log_z == pytest.approx(unknown, abs=2e-3) and 0 < error < 0.02
    rng = np.random.default_rng(1)
    advantage, auc, beyond, loss, _ = between(inside, w, outside, weight, 1, 1.0, rng)
    assert advantage == pytest.approx(distance(here.pdf, there.pdf, -9, 11, [-2, 0, 0.3, 1, 3]), abs=2 * ERROR)
    at = np.random.default_rng(2).normal(size=200_000)
    assert beyond == pytest.approx((np.abs(log_r(at)) > 1).mean(), abs=2 * ERROR)
    scores = log_r(at), log_r(there.rvs(200_000, random_state=3))
    assert auc == pytest.approx((scores[0] < scores[1]).mean(), abs=2 * ERROR)
    assert loss == pytest.approx(max(np.abs(log_r(x)).max(), np.abs(log_r(grid)).max()), rel=1e-2)
    three = between(inside, w, outside, weight, 3, 1.0, rng)
    draws = [d.rvs((200_000, 3), random_state=i) for i, d in enumerate((here, there))]
    hits = [(log_r(d).sum(axis=1) < 0).mean() for d in draws]
    assert three[0] == pytest.approx(hits[0] - hits[1], abs=2 * ERROR) and three[0] > advantage


@pytest.fixture(scope="module")
def outlier():
    """300 records, epsilon = 3, one income a hundred times as large as it was."""
    frame = make_frame(300)
    frame.loc[7, "income"] *= 100
    return ss.fit(ss.SurveyDesign(frame, weights="wt"), model("1"), epsilon=3, m=3, seed=1, mechanism=PSEUDO)


def log_normalizer(fit, alpha):
    """Of the flat prior's pseudo posterior: a matrix normal inverse-Wishart distribution's, by its textbook form."""
    R, _, S0 = fit.synthesizer.sufficient_statistics(fit.records, alpha).reduced()
    (rank, D), df = (len(R), len(S0)), alpha.sum() - len(R)
    wishart = df * D / 2 * np.log(2) + multigammaln(df / 2, D) - df / 2 * np.linalg.slogdet(S0)[1]
    return wishart - D / 2 * np.linalg.slogdet(R @ R.T)[1] - (alpha.sum() - rank) * D / 2 * np.log(2 * np.pi)


def test_normalizing_constants_are_those_of_the_closed_form(outlier):
    for left_out in ([7], [0], []):
        other = outlier.refitted(left_out, np.random.default_rng(2))
        here, there = outlier.weighted.posterior, other.posterior
        inside, outside = outlier.log_ratio(other, here), outlier.log_ratio(other, there)
        found, error = log_normalizers(inside, here.weight, outside, there.weight)
        truth = log_normalizer(outlier, other.alpha) - log_normalizer(outlier, outlier.weighted.alpha)
        assert found == pytest.approx(truth, abs=4 * error) and error < 0.1


@pytest.mark.parametrize("map", ["inverse", "linear"])
def test_a_refit_is_the_fit_of_the_file_without_the_record(map):
    """Risks, c1, privacy weights and draws, with the same random numbers; the mean weight moves one intercept alone."""
    frame, settings = make_frame(200), {"epsilon": 10.8, "m": 3, "mechanism": ss.PseudoPosterior(map=map), "seed": 4}
    refit = ss.fit(ss.SurveyDesign(frame, weights="wt"), model("1"), **({"mechanism": PSEUDO} | settings)).refitted(
        [11], Streams.from_seed(4).draws
    )
    without = ss.fit(
        ss.SurveyDesign(frame.drop(index=11), weights="wt"), model("1"), **({"mechanism": PSEUDO} | settings)
    )
    assert refit.alpha[11] == 0 and refit.c1 == pytest.approx(without.weighted.c1, rel=1e-6)
    np.testing.assert_allclose(np.delete(refit.alpha, 11), without.weighted.alpha, rtol=1e-6)
    for name in ("B", "L"):  # the first column is the outcome's
        mine, theirs = (w.posterior.values[name][:, :, 0] for w in (refit, without.weighted))
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)


def test_an_outlier_that_privacy_weights_hide_is_found_by_the_constants_it_moves(outlier):
    """Held, its privacy weight hides it: 0.04.  Anew, all others get larger ones without it: 0.4 to 0.7."""
    attack = membership_attack(outlier, records=4, refit=2, seed=1)
    found = attack.records.set_index("row")
    assert attack.refitted == found["advantage_refit"].notna().sum() == 2 and attack.refused == 0
    assert found.loc[7, "advantage"] < 0.08 and found.loc[7, "advantage_refit"] > 0.35
    assert attack.advantage == found["advantage_refit"].max() > attack.same_file >= 0
    assert found.loc[7, "loss_refit"] > attack.epsilon and 0 < found.loc[7, "beyond_refit"] < 0.5
    text = str(attack)
    for said in ("By refits", "(2 of them)", f"{attack.advantage:.3f}", "constants tuned on the file",
                 f"distinguished with advantage {attack.same_file:.3f}"):  # fmt: skip
        assert said in text, said
    held = membership_attack(outlier, records=4, refit=0, seed=1)
    assert held.records[REFIT].isna().all(axis=None) and held.same_file is None and held.advantage < 0.1
    assert "By refits" not in str(held)


def test_a_unit_is_refitted_without_all_of_its_records():
    frame = make_frame(200).assign(household=lambda f: np.arange(200) // 2)
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    fit = ss.fit(design, model("field"), epsilon=30, m=2, unit="household", seed=1, mechanism=PSEUDO)
    without = fit.refitted([3], np.random.default_rng(1))
    assert np.flatnonzero(fit.unit.spread(without.alpha) == 0).tolist() == [6, 7]
    attack = membership_attack(fit, records=3, refit=1, seed=1)
    assert attack.refitted == 1 and attack.records["advantage_refit"].notna().sum() == 1


def test_a_file_that_has_no_fit_without_a_record_is_said_to_have_none():
    toy = NormalMean(Y, ALPHA)
    fit = a_fit(toy.c, m=2)
    fit.weights_from_file = True

    def refitted(left_out, rng):
        raise ss.ModelError("the privacy weights leave nothing of the cells of 1 row")

    fit.refitted = refitted
    attack = membership_attack(fit, records=3, refit=2, seed=1)
    assert (attack.refitted, attack.refused) == (0, 2) and attack.records[REFIT].isna().all(axis=None)
    assert "Without 2 further records the file has no fit: a release reveals that they are in it." in str(attack)


def test_privacy_weights_that_do_not_depend_on_the_file_need_no_refit():
    """Under a clamp alone, or a policy, leaving a record out changes no other's term: the draws say it all."""
    toy = NormalMean(Y, ALPHA)
    attack = membership_attack(a_fit(toy.c, m=2), refit=5, seed=1)  # it has no way to be refitted
    assert attack.refitted == 0 and attack.records[REFIT].isna().all(axis=None)
