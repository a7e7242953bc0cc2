"""Re-weighting: Algorithm 1 of Hu, Savitsky & Williams (2020) by hand, what it may never do, and releases."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from surveys import make_design, model

import surveysynth as ss
from surveysynth.engines import Diagnostics
from surveysynth.models.draws import Draws
from surveysynth.privacy.protected_fit import times
from surveysynth.privacy.tuning import reweight, weighted_fit
from surveysynth.privacy.units import Unit
from tests.surveys import PSEUDO

S = 1000
LW, CW = ss.PseudoPosterior(map="linear"), ss.PseudoPosterior(map="linear", risk=ss.CountRisk(0.2))


def posterior(**values):
    return Draws(values, np.zeros(S, dtype=np.intp), Diagnostics(exact=True), "exact", "1")


class NormalMean:
    """y_i ~ N(mu, 1), mu flat: its draws under alpha are exact and new in every fit."""

    def __init__(self, y, rng):
        self.y, self.rng, self.fits, self.unit = y, rng, 0, Unit()

    def fit(self, alpha):
        self.fits += 1
        return posterior(mu=alpha @ self.y / alpha.sum() + self.rng.standard_normal(S) / np.sqrt(alpha.sum()))

    def log_density(self, p):
        return norm.logpdf(self.y, p.values["mu"][:, None])

    def lipschitz(self, p, alpha=None):
        return np.abs(self.log_density(p)).max(axis=0)

    def log_ratio(self, before, after, p):
        return self.log_density(p) @ (after - before)


def fixed(f):
    """A model whose bounds do not depend on the fit."""
    return SimpleNamespace(
        fit=lambda alpha: posterior(x=np.zeros(S)), lipschitz=lambda p, a: f, log_ratio=lambda a, b, p: np.zeros(S),
        unit=Unit(),
    )  # fmt: skip


def test_one_step_is_algorithm_1_where_bounds_do_not_depend_on_the_fit():
    f, alpha = np.array([0.5, 1.0, 2.0, 4.0, 8.0]), np.array([0.9, 0.8, 0.6, 0.3, 0.0])
    first, _ = weighted_fit(0.7, alpha, fixed(f))
    done = reweight(first, fixed(f), 1)
    ratio = alpha[:4] * first.delta / first.bounds[:4]  # eq. 2.1 but for k; alpha 0 is kept: never 0 / 0
    np.testing.assert_allclose(done.alpha, [*np.minimum(done.k * ratio, 1), 0])
    assert 0.99 < done.k <= 1 and 0.99 * first.delta <= done.delta <= first.delta == 1.2
    assert (done.steps, done.c1, done.flatness) == (1, 0.7, pytest.approx(1))
    assert first.flatness == pytest.approx(0.45 / 1.2) and (first.weighted_down, done.weighted_down) == (1, 0.6)
    again = reweight(done, fixed(f), 5)
    assert again.posterior is done.posterior and again.asked == 6  # nothing is left to be gained


def test_records_without_a_bound_count_in_full():
    f = np.array([0.0, 1.0, 2.0])
    first, _ = weighted_fit(1.0, np.array([0.2, 0.5, 0.5]), fixed(f))
    done = reweight(first, fixed(f), 1)
    np.testing.assert_allclose(done.alpha, [1, min(1, done.k), done.k / 2])


@pytest.mark.filterwarnings("error")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(50, 200), steps=st.integers(1, 6), zeros=st.integers(0, 5),
    tolerance=st.sampled_from([0.01, 0.1]),
)  # fmt: skip
def test_guarantee_is_the_first_one_however_often_the_step_is_taken(seed, n, steps, zeros, tolerance):
    rng = np.random.default_rng(seed)
    pseudo = NormalMean(rng.standard_t(4, n), rng)
    alpha = rng.uniform(0, 1, n)
    alpha[:zeros] = 0
    first, _ = weighted_fit(1.0, alpha, pseudo)
    done = reweight(first, pseudo, steps, tolerance=tolerance)
    exact = times(done.alpha, pseudo.lipschitz(done.posterior)).max()  # over the draws that would be released
    assert done.delta == pytest.approx(exact, rel=1e-12) and exact <= first.delta
    assert done.alpha.sum() > first.alpha.sum() and 1 <= done.steps <= steps
    assert ((done.alpha >= 0) & (done.alpha <= 1)).all() and (done.alpha[:zeros] == 0).all()
    assert (done.alpha[zeros:] > 0).all() and done.flatness > first.flatness


def test_each_step_is_judged_by_draws_of_its_own():
    """Weights made of the draws that judge them would look flat at no more than Delta whatever they are."""
    rng = np.random.default_rng(1)
    pseudo = NormalMean(rng.standard_t(4, 40), rng)
    first, _ = weighted_fit(1.0, rng.uniform(0, 0.5, 40), pseudo)
    before = pseudo.fits
    done = reweight(first, pseudo, 1)
    assert pseudo.fits > before and not np.isin(done.posterior.values["mu"], first.posterior.values["mu"]).any()
    assert done.flatness < 1


# through fit and release


@pytest.fixture(scope="module")
def fits():
    made = {"lw": LW, "cw": CW, "inverse": ss.PseudoPosterior()}
    return {name: ss.fit(make_design(), model(), epsilon=10.8, m=3, mechanism=m, seed=1) for name, m in made.items()}


@pytest.mark.parametrize("name", ["lw", "cw"])
def test_weights_rise_at_the_same_epsilon(fits, name):
    first = fits[name]
    once, often = first.reweighted(), first.reweighted(10)
    for done in (once, often):
        assert 0.99 * first.delta <= done.delta <= first.delta
        assert done.weighted.weighted_down < first.weighted.weighted_down == 1
        assert done.weighted.alpha.mean() > 1.5 * first.weighted.alpha.mean()
        assert done.release().privacy.epsilon <= 10.8
    assert (once.weighted.steps, once.used, first.used) == (1, once.used, [])
    assert often.weighted.steps > 1 and often.weighted.alpha.mean() > once.weighted.alpha.mean()
    assert often.weighted.flatness > once.weighted.flatness > first.weighted.flatness


def test_whatever_the_map_re_weighting_ends_near_the_inverse_map(fits):
    inverse = fits["inverse"].weighted.alpha.mean()
    for name in ("lw", "cw"):
        assert fits[name].reweighted(10).weighted.alpha.mean() == pytest.approx(inverse, rel=0.1)


def test_in_one_call_and_of_an_existing_fit():
    asked = {"epsilon": 10.8, "m": 3, "mechanism": LW, "seed": 1}
    step = ss.fit(make_design(), model(), **({"mechanism": PSEUDO} | asked)).reweighted()
    for reweight_ in (True, 1):
        call = ss.fit(make_design(), model(), reweight=reweight_, **({"mechanism": PSEUDO} | asked))
        np.testing.assert_array_equal(call.weighted.alpha, step.weighted.alpha)
    price = ss.privacy_cost(make_design(), model(), reweight=True, **asked)
    assert price.mean_alpha == call.weighted.alpha.mean() and price.weighted_down == call.weighted.weighted_down
    assert price.epsilon == 6 * call.delta


def test_report_says_what_was_done_and_keeps_the_rest_inside(fits):
    little = {"accept_diagnostics": ["information"]}
    plain, once = fits["cw"].release(**little), fits["cw"].reweighted().release(**little)
    said = "they were raised where bounds lay below the overall one (re-weighting, steps asked for: 1, taken as long"
    assert said in str(once.privacy) and said not in str(plain.privacy)
    assert "map linear of the share of records whose values are further from the record's than a radius (0.2" in str(
        plain.privacy
    )
    internal = once.privacy.internal
    assert internal["reweighting_steps"] == 1 and 0 < internal["k"] < 1 and internal["delta_unweighted"] is None
    assert 0 < internal["weighted_down"] < 1
    assert list(once.internal["records"].columns) == ["count", "alpha", "bound"]
    for number in ("k", "weighted_down", "mean_alpha"):
        assert f"{internal[number]:.6g}" not in str(once.privacy) + str(once.manifest())


def test_weighted_e_keeps_what_it_cut_off():
    fit = ss.fit(make_design(), model(), epsilon=9, m=3, mechanism=ss.WeightedE(), seed=1)
    done = fit.reweighted()
    cut = fit.weighted.alpha == 0
    assert cut.any() and (done.weighted.alpha[cut] == 0).all() and done.weighted.invocations == cut.sum() - 1
    assert done.delta <= fit.delta <= 1.5 and done.weighted.alpha.sum() > fit.weighted.alpha.sum()


def test_units_of_several_records_are_re_weighted_as_units():
    design = make_design()
    frame = design.frame.assign(household=np.arange(design.n) // 2)
    fit = ss.fit(
        ss.SurveyDesign(frame, weights="wt", strata="field"), model(), epsilon=8, m=1, mechanism=LW, unit="household",
        seed=1,
    )  # fmt: skip
    done = fit.reweighted(3)
    assert done.weighted.alpha.shape == (design.n / 2,) and done.delta <= fit.delta
    assert done.weighted.alpha.mean() > fit.weighted.alpha.mean()


@pytest.mark.parametrize(
    ("settings_", "match"),
    [({"reweight": -1}, "reweight must be a whole number"), ({"reweight": 0.0}, "reweight must be a whole number"),
     ({"reweight": 1.5}, "reweight must be a whole number"),
     ({"reweight": "flat"}, "reweight must be a whole number"),
     ({"reweight": True, "mechanism": ss.Censored()}, "the clamp is the bound of every record"),
     ({"reweight": True, "debias": True}, "re-weighting changes it: use one of them"),
     ({"mechanism": ss.PseudoPosterior(risk=ss.CountRisk()), "debias": True},
      "by counting looks at the other records")],
)  # fmt: skip
def test_what_is_refused(settings_, match, monkeypatch):
    monkeypatch.setattr(ss.FBS, "prepare", lambda *_: pytest.fail("began before the arguments were checked"))
    with pytest.raises(ss.InputError, match=match):
        ss.synthesize(make_design(), model(), epsilon=10.8, **({"mechanism": PSEUDO} | settings_))


def test_a_fit_that_is_re_weighted_is_not_corrected(fits):
    with pytest.raises(ss.InputError, match="re-weighting changes it"):
        replace(fits["lw"].reweighted(), mechanism=PSEUDO).release(debias=True)
    for steps in (0, 0.0, 1.5):
        with pytest.raises(ss.InputError, match="must be a whole number"):
            fits["lw"].reweighted(steps)
    with pytest.raises(ss.InputError, match="tolerance must be below 1"):
        fits["lw"].reweighted(tolerance=1)


def test_what_was_spent_before_re_weighting_is_carried_over(fits):
    """Draws are new, the file is not: what was released from it before, and later from the first fit, adds up."""
    first = replace(fits["lw"], used=[], spent=[], blocked=[])
    with pytest.raises(ss.PrivacyError):
        first.release(rule=ss.IdentificationRule("field", 0))
    first.release()
    once = first.reweighted()
    assert once.epsilon_spent == first.epsilon_spent == 6 * first.delta
    report = once.release(m=2).privacy
    spent = 6 * first.delta + 4 * once.delta
    together = 5 * 2 * first.budget.bound  # of what was asked for, not of what was reached
    said = (
        "3 data sets were released before, from the same fit or from it before or after re-weighting; together with "
        f"these they spend epsilon = {together:g}"
    )
    assert said in str(report)
    assert report.internal["epsilon_spent_by_this_fit"] == pytest.approx(spent, rel=1e-14)
    assert report.internal["releases_blocked_by_a_rule_before"] == 1
    assert len(once.used) == 2 and len(first.used) == 3  # draws of their own
    assert "5 data sets were released before, from" in str(first.release(m=1).privacy)
    assert once.epsilon_spent == first.epsilon_spent == pytest.approx(spent + 2 * first.delta, rel=1e-14)


def test_where_nothing_is_gained_spent_draws_stay_spent_and_the_report_says_what_was_asked(fits):
    loose = ss.fit(make_design(), model(), epsilon=500, m=3, seed=1, mechanism=PSEUDO)  # every weight is 1 already
    loose.release()
    again = loose.reweighted(2)
    assert (again.weighted.steps, again.epsilon_spent) == (0, loose.epsilon_spent) and loose.epsilon_spent > 0
    release = again.release(epsilon=1000)
    assert "3 data sets were released from the same fit before" in str(release.privacy)
    assert "steps asked for: 2, taken as long as weights rose)" in str(release.privacy)  # none of them
    assert len(set(loose.used)) == 6 == len(again.used)  # of both
