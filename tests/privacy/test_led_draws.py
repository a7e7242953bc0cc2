"""Data sets after the first are measured against that one where the first draw is rough: it is always released."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

import surveysynth as ss
from surveysynth.engines import Diagnostics
from surveysynth.models.draws import Draws
from surveysynth.synthesis.draws import choose_draws
from tests.surveys import make_frame

SCORES = ss.NormalScores([5_000, 20_000, 40_000, 80_000, 300_000], [0.02, 0.2, 0.5, 0.8, 0.98], "a made-up table")
MODEL = ss.FBS("income ~ gender", transform=SCORES)


def fitted(frame=None, m=3, **strict):
    design = ss.SurveyDesign(make_frame(900, 3) if frame is None else frame, weights="wt")
    return ss.fit(design, MODEL, epsilon=6, m=m, mechanism=ss.Strict(**strict), population_total=43_000, seed=1)


@pytest.fixture(scope="module")
def once():
    return fitted()


@pytest.fixture
def done(once):
    """The same fit, of which nothing is released yet."""
    return dataclasses.replace(once, used=[], spent=[])


def test_the_leading_draw_is_of_every_first_release(done):
    release = done.release()
    assert done.used[0] == 0 and len(set(done.used)) == 3
    assert "data sets after the first one are measured against that one's parameters" in str(release.privacy)


def test_releases_in_portions_spend_what_all_do_at_once(done):
    done.release(m=1)
    assert done.used == [0]
    done.release(m=2)
    assert len(set(done.used)) == 3
    assert done.epsilon_spent == pytest.approx(6, abs=1e-9) and done.epsilon_spent <= 6


class Full(ss.Ledger):
    """One that fails when it is to be charged."""

    def spend(self, *args, **kwargs):
        raise OSError("disk full")


def test_a_release_that_fails_leaves_the_leading_draw_to_the_next(done, tmp_path):
    with pytest.raises(ss.ModelError, match="break an edit rule"):
        done.release(edits=["income > 1e12"])
    assert done.spent == [] and 0 not in done.used
    with pytest.raises(ss.InputError, match=r"disk full.* no ledger was charged"):
        done.release(ledger=Full(tmp_path / "ledger.json", "survey", create=True))
    assert done.spent == [] and 0 not in done.used
    before = list(done.used)
    done.release()
    assert done.used[len(before)] == 0 and done.epsilon_spent == pytest.approx(6, abs=1e-9)


def log_p(records, draws):
    """Of the score and the log weight, whose mean is quadratic in it and whose spread is log-linear: (S, n)."""
    mean = records.X[records.pattern] @ draws["B"]
    L, (kappa, eta) = draws["L"], (draws[name][:, :1] for name in ("kappa", "eta"))
    sd, own = L[:, :1, 0], L[:, 1:, 1]
    e = (records.Y[:, 0] - mean[..., 0]) / sd
    bent = kappa * (e**2 - 1) + (draws["slope"][..., 0] @ records.X[records.pattern].T) * e
    of_weight = norm.logpdf(records.Y[:, 1], mean[..., 1] + L[:, 1:, 0] * e + own * bent, own * np.exp(eta * e))
    return norm.logpdf(e) - np.log(sd) + of_weight


def test_what_a_record_adds_is_measured_against_what_the_draw_was_measured_against(done):
    """The leading draw against the first one, the others against the leading one: none of it is 0 throughout."""
    chosen, fit = np.array([0, 7]), done.weighted
    of = done.records.some(chosen)
    first, leading, others = (log_p(of, d) for d in (fit.first, fit.reference, fit.posterior))
    ratio = np.concatenate([others[:1] - first, others[1:] - leading])
    expected = np.clip(fit.alpha[chosen] * ratio, -fit.clamp, fit.clamp)
    np.testing.assert_allclose(done.contributions(chosen), expected, atol=1e-9)
    np.testing.assert_array_equal(fit.posterior["B"][0], fit.reference["B"][0])


@pytest.mark.slow
def test_public_numbers_decide_whether_draws_are_led(once):
    frame = make_frame(900, 3)
    other = frame.assign(income=frame["income"].to_numpy()[::-1] * 2, wt=frame["wt"].to_numpy()[::-1])
    assert once.draws.led and fitted(other).draws.led
    assert not fitted(m=1).draws.led
    assert not fitted(reference=once.release()).draws.led


def test_the_leading_draw_is_chosen_once_and_has_no_chain_of_the_others():
    values = {"x": np.arange(41.0)}
    chains = np.array([-1, *np.repeat(range(4), 10)])
    draws = Draws(values, chains, Diagnostics(exact=True), "surveysynth", "0", led=True)
    rng = np.random.default_rng(1)
    chosen, _ = choose_draws(draws, 5, rng)
    assert chosen[0] == 0 and sorted(draws.chain[chosen]) == [-1, 0, 1, 2, 3]
    more, _ = choose_draws(draws, 4, rng, used=chosen)
    assert 0 not in more and sorted(draws.chain[more]) == [0, 1, 2, 3]
