"""From design to release: the epsilon, the draws, the gate, the sentences of the report, and odd files."""

import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth.engines import Diagnostics
from surveysynth.models.draws import Draws, Sampler, Streams
from surveysynth.synthesis import fit as fit_module
from surveysynth.synthesis import fitting as synthesis
from surveysynth.synthesis.fit import choose_draws
from tests.surveys import PSEUDO


@pytest.fixture(scope="module")
def exact():
    return ss.fit(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)


@pytest.fixture(scope="module")
def sampled():
    """A fit by Markov chain Monte Carlo, whose diagnostics pass."""
    settings = {"warmup": 500, "draws": 1000}
    return ss.fit(
        make_design(), model("field", prior="paper"), epsilon=10.8, m=3, seed=1, **({"mechanism": PSEUDO} | settings)
    )


def fresh(fit):
    """The same fit with no draws spent."""
    return replace(fit, used=[], spent=[], streams=Streams.from_seed(5))


def released(design=None, synthesizer=None, **settings):
    return ss.synthesize(
        make_design() if design is None else design,
        synthesizer or model(),
        **({"mechanism": PSEUDO} | {"epsilon": 10.8, "seed": 1} | settings),
    )


# the epsilon


@pytest.mark.parametrize(
    ("weight_map", "m", "epsilon"),
    [("inverse", 1, 1), ("inverse", 1, 10.8), ("inverse", 2, 3), ("inverse", 5, 10.8), ("inverse", 5, 30),
     ("linear", 1, 3), ("linear", 2, 10.8), ("linear", 5, 30)],
)  # fmt: skip
def test_epsilon_is_met_within_one_percent_and_never_exceeded(weight_map, m, epsilon):
    mechanism = ss.PseudoPosterior(map=weight_map)
    fit = ss.fit(make_design(), model(), epsilon=epsilon, m=m, mechanism=mechanism, seed=2)
    assert 0.99 * epsilon <= 2 * fit.delta * m <= epsilon
    assert fit.release(accept_diagnostics=["information"]).privacy.epsilon <= epsilon


@pytest.mark.parametrize("tolerance", [0.001, 0.05])
def test_tolerance_is_how_far_below_the_request_it_may_stay(tolerance):
    fit = ss.fit(make_design(), model(), epsilon=10.8, m=3, tolerance=tolerance, seed=3, mechanism=PSEUDO)
    assert 10.8 * (1 - tolerance) <= 6 * fit.delta <= 10.8


def test_a_generous_epsilon_leaves_every_record_its_full_weight():
    fit = ss.fit(make_design(), model(), epsilon=500, m=3, seed=1, mechanism=PSEUDO)
    assert (fit.weighted.alpha == 1).all()
    report = fit.release().privacy
    assert report.internal["epsilon_exact"] == 6 * fit.delta < 250
    assert report.epsilon == 500  # what was reached is the largest bound of the file: an outlier's, where there is one


@pytest.mark.slow
def test_sampled_fit_meets_its_epsilon_too(sampled):
    assert 0.99 * 10.8 <= 6 * sampled.delta <= 10.8
    assert not sampled.weighted.posterior.diagnostics.exact


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "sampled"])
def test_delta_is_the_largest_weighted_log_density_of_the_draws(name, request):
    """Recomputed from the frame and the draws alone, by scipy's density."""
    fit, frame = request.getfixturevalue(name), make_frame()
    Y = np.column_stack([np.log(frame["income"]), np.log(frame["wt"] / frame["wt"].mean())])
    X = [np.ones(len(frame)), *(frame["field"] == level for level in ("02", "NA", "ökonomie"))]
    if name == "exact":
        X.append(frame["gender"] == "m")
    X, values = np.column_stack(X).astype(float), fit.weighted.posterior.values
    largest = np.zeros(len(frame))
    for B, L in zip(values["B"], values["L"], strict=True):
        log_p = multivariate_normal(np.zeros(2), L @ L.T).logpdf(Y - X @ B)
        np.maximum(largest, np.abs(log_p), out=largest)
    alpha = np.clip(fit.weighted.c1 * 1.8 / fit.risk, 0, 1)
    np.testing.assert_allclose(fit.weighted.alpha, alpha, rtol=1e-12)
    np.testing.assert_allclose(fit.weighted.bounds, alpha * largest, rtol=1e-10)
    assert fit.delta == pytest.approx((alpha * largest).max(), rel=1e-10)


# random numbers


def test_streams_of_draws_values_and_row_order_tell_nothing_of_each_other(monkeypatch):
    """More random numbers for the values, or for the order, leave the draws, and each other, as they were."""

    def two_releases(values=0, order=0):
        fit = ss.fit(make_design(psu="id"), model(), epsilon=10.8, m=3, clusters="ignore", seed=1, mechanism=PSEUDO)
        with monkeypatch.context() as patch:
            simulate, public_frame = ss.FBS.simulate, fit_module.public_frame

            def hungry_simulate(self, public, draw, rng):
                return rng.random(values), simulate(self, public, draw, rng)

            def hungry_frame(design, synthesizer, rng):
                return rng.random(order), public_frame(design, synthesizer, rng)

            patch.setattr(ss.FBS, "simulate", lambda *given: hungry_simulate(*given)[1])
            patch.setattr(fit_module, "public_frame", lambda *given: hungry_frame(*given)[1])
            releases = [fit.release(), fit.release()]
        back = [r.datasets[-1].frame.iloc[np.argsort(r.internal["rows"][-1])]["income"] for r in releases]
        return list(fit.used), np.array(back), np.array([r.internal["rows"] for r in releases])

    draws, incomes, rows = two_releases()
    others = two_releases(values=1000)
    assert draws == others[0] and (rows == others[2]).all() and (incomes != others[1]).all()
    others = two_releases(order=1000)
    assert draws == others[0] and (incomes == others[1]).all() and (rows != others[2]).mean() > 0.9


def test_every_stream_has_128_bits_of_its_own_from_the_operating_system():
    fits = [ss.fit(make_design(), model(), epsilon=10.8, m=3, mechanism=PSEUDO) for _ in range(2)]
    seeds = [s.bit_generator.seed_seq.entropy for fit in fits for s in vars(fit.streams).values()]
    assert len(set(seeds)) == 6 and min(map(int.bit_length, seeds)) > 128 - 40  # fewer: a chance of 6 in 2^40
    assert all(fit.sampler.rng is fit.streams.draws for fit in fits)
    seeded = [s.bit_generator.seed_seq for s in vars(Streams.from_seed(7)).values()]
    assert {s.entropy for s in seeded} == {7} and len({s.spawn_key for s in seeded}) == 3


def test_engines_are_seeded_with_all_the_32_bits_that_stan_takes():
    seeds = []
    engine = SimpleNamespace(sample=lambda *_, seed, **__: seeds.append(seed))
    sampler = Sampler(lambda: engine, np.random.default_rng(1))
    for _ in range(200):
        sampler.sample("fbs", {})
    assert 0 < min(seeds) and 2**31 < max(seeds) < 2**32 - 1  # CmdStan takes 2^32 - 1 for no seed
    assert len(set(seeds)) == 200


# one fit, several m


def test_one_fit_makes_releases_of_several_m_and_adds_up_what_they_spend(exact):
    fit = fresh(exact)
    one, two = fit.release(m=1), fit.release(m=2)
    assert (one.m, two.m) == (1, 2)
    for release in (one, two):
        exact_epsilon = release.privacy.internal["epsilon_exact"]
        assert exact_epsilon == 2 * fit.delta * release.m
        assert exact_epsilon <= release.privacy.epsilon == {1: 3.6, 2: 7.2}[release.m]  # shares of the 10.8 asked for
    assert fit.epsilon_spent == pytest.approx(6 * fit.delta, rel=1e-14)
    assert two.privacy.internal["epsilon_spent_by_this_fit"] == fit.epsilon_spent
    assert len(set(fit.used)) == 3
    incomes = [set(d.frame["income"]) for r in (one, two) for d in r.datasets]
    assert not incomes[0] & incomes[1] and not incomes[1] & incomes[2]


def test_more_data_sets_than_the_fit_was_tuned_for_need_a_larger_epsilon(exact):
    fit = fresh(exact)
    with pytest.raises(ss.PrivacyError, match=r"4 data sets .* tuned for m = 3"):
        fit.release(m=4)
    assert fit.used == [] and fit.epsilon_spent == 0
    assert fit.release(m=4, epsilon=14.4).m == 4
    with pytest.raises(ss.PrivacyError):
        fit.release(m=3, epsilon=5)


def test_draws_run_out(exact):
    values = {k: v[:3] for k, v in exact.weighted.posterior.values.items()}
    few = Draws(values, np.zeros(3, int), Diagnostics(exact=True), "", "")
    fit = replace(fresh(exact), weighted=replace(exact.weighted, posterior=few))
    fit.release(m=2)
    with pytest.raises(ss.PrivacyError, match="no unused posterior draws"):
        fit.release(m=2)


def test_an_interrupted_release_does_not_leave_its_draws_for_another(exact, monkeypatch):
    fit = fresh(exact)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ss.FBS, "simulate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit.release()
    first = set(fit.used)
    fit.release()
    assert len(first) == 3 and not first & set(fit.used[3:])


# the choice of draws


def posterior(chains=4, draws=100, weight=None, values=None, **diagnostics):
    values = np.random.default_rng(0).normal(size=(chains * draws, 3)) if values is None else values
    chain = np.repeat(np.arange(chains), draws)
    weight = np.empty(0) if weight is None else weight
    return Draws({"v": values}, chain, Diagnostics(**diagnostics), "", "", weight)


@pytest.mark.parametrize("m", range(1, 5))
def test_draws_come_from_different_chains_where_there_are_enough(m):
    p = posterior()
    for seed in range(20):
        chosen, lag = choose_draws(p, m, np.random.default_rng(seed))
        assert len(set(p.chain[chosen])) == m
        assert lag == 0


@pytest.mark.parametrize(("m", "apart"), [(5, 25), (8, 25), (12, 16), (40, 5)])
def test_draws_of_one_chain_are_well_separated_and_chains_evenly_used(m, apart):
    p = posterior()
    for seed in range(20):
        chosen, _ = choose_draws(p, m, np.random.default_rng(seed))
        assert np.ptp(np.bincount(p.chain[chosen], minlength=4)) <= 1
        for chain in range(4):
            assert (np.diff(sorted(s for s in chosen if p.chain[s] == chain)) >= apart).all()


def test_lag_correlation_is_the_largest_autocorrelation_at_the_smallest_lag():
    rng = np.random.default_rng(1)
    x = np.zeros((400, 2))
    for t in range(1, 400):
        x[t] = [0.99, 0.2] * x[t - 1] + rng.normal(size=2)
    chosen, lag_correlation = choose_draws(posterior(1, 400, values=x), 3, rng)
    lag = np.diff(sorted(chosen)).min()
    centred = x - x.mean(axis=0)
    by_hand = [abs((c[lag:] * c[:-lag]).sum() / (c**2).sum()) for c in centred.T]
    assert lag_correlation == pytest.approx(max(by_hand), rel=1e-12)


def test_draws_are_chosen_by_their_weight():
    weight = np.tile([0.0, 0.1, 0.6, 0.3], 2) / 2
    p, rng = posterior(2, 4, weight), np.random.default_rng(2)
    picked = np.bincount([choose_draws(p, 2, rng)[0][0] % 4 for _ in range(4000)], minlength=4) / 4000
    assert picked[0] == 0
    np.testing.assert_allclose(picked, [0, 0.1, 0.6, 0.3], atol=0.04)  # 5 standard errors


def test_used_draws_are_never_chosen_again():
    p, rng, used = posterior(4, 5), np.random.default_rng(3), []
    for _ in range(5):
        used += choose_draws(p, 4, rng, used)[0]
    assert sorted(used) == list(range(20))


# the diagnostics gate

FAILED = {
    "divergences": {"divergences": 1},
    "rhat": {"rhat": 1.011},
    "rhat unknown": {"rhat": np.nan},
    "ess_bulk": {"ess_bulk": 399.0},
    "ess_tail": {"ess_tail": 399.0},
}


@pytest.mark.parametrize("case", FAILED)
def test_failed_diagnostics_release_nothing_unless_accepted_by_name(sampled, case):
    name = case.split()[0]
    doctored = replace(
        sampled.weighted.posterior,
        diagnostics=Diagnostics(**({"divergences": 0, "rhat": 1.0, "ess_bulk": 1e4, "ess_tail": 1e4} | FAILED[case])),
    )
    fit = replace(fresh(sampled), weighted=replace(sampled.weighted, posterior=doctored))
    others = [n for n in ("divergences", "rhat", "ess_bulk", "ess_tail") if n != name]
    for accepted in ((), others):
        with pytest.raises(ss.NotFitForRelease, match=name):
            fit.release(accept_diagnostics=accepted)
    assert fit.used == []
    report = fit.release(accept_diagnostics=[name, *others]).privacy
    assert f"failed: {name}." in report.verdict
    assert f"failed diagnostics that the agency accepted by name: {name}" in report.assumptions


def test_effective_sample_size_counts_the_weights_of_the_draws(sampled):
    p = sampled.weighted.posterior
    weight = np.arange(p.size) % 2 * 2 / p.size  # half of the draws weigh nothing
    good = replace(p, diagnostics=Diagnostics(ess_bulk=790.0, ess_tail=900.0))
    assert good.failures == ()
    assert replace(good, weight=weight).failures == ("ess_bulk",)


@pytest.mark.parametrize("accepted", ["rhat", ["r-hat"], ["rhat", "treedepth"]])
def test_accepted_diagnostics_are_a_list_of_known_names(accepted, monkeypatch):
    monkeypatch.setattr(synthesis, "fitted", lambda *_, **__: pytest.fail("fitted before the arguments were checked"))
    with pytest.raises(ss.InputError, match="accept_diagnostics"):
        ss.synthesize(make_design(), model(), epsilon=10, accept_diagnostics=accepted, mechanism=PSEUDO)


def test_nothing_is_said_to_be_accepted_where_nothing_failed(sampled):
    report = fresh(sampled).release(accept_diagnostics=["rhat"]).privacy
    assert "accepted" not in str(report)
    assert "passed" in report.verdict and "different chains" in report.verdict


@pytest.mark.parametrize("m", [1, 3])
def test_exact_draws_need_no_word_on_chains(exact, m):
    assert fresh(exact).release(m=m).privacy.verdict == "The draws are independent, without Markov chains."


# how much is left of the file's information


@pytest.mark.parametrize("synthesizer", [model(), population_model()], ids=["FBS", "FBP"])
def test_a_release_that_keeps_little_information_is_refused_unless_accepted_by_name(synthesizer, tmp_path):
    fit = ss.fit(make_design(), synthesizer, epsilon=3, m=3, mechanism=PSEUDO)
    assert "%" not in repr(fit)
    assert fit.information == fit.weighted.alpha.mean() < 0.3
    for accepted in ((), ["rhat"]):
        with pytest.raises(ss.NotFitForRelease, match=r"less than 30% .* accept_diagnostics=\['information'\]"):
            fit.release(accept_diagnostics=accepted)
    assert fit.used == [] and fit.epsilon_spent == 0
    release = fit.release(accept_diagnostics=["information"])
    release.write(tmp_path / "release")
    again = ss.read_release(tmp_path / "release")
    again.write(tmp_path / "again")
    for text in ((tmp_path / name / "public" / "report.txt").read_text() for name in ("release", "again")):
        assert text.rstrip().endswith("Not fit for official tables.")
    report = release.privacy
    assert again.privacy.publication == report.publication
    assert report.publication.endswith("Not fit for official tables")
    assert str(report).endswith("Not fit for official tables.")
    assert f"{fit.information:.0%}" not in report.publication
    assert "whether the privacy weights keep at least 30% of the file's information" in report.data_dependent


def test_what_to_do_about_little_information_depends_on_what_was_asked():
    given = ss.fit(make_design(), model(), mechanism=ss.PseudoPosterior(c1=0.2), m=2, seed=1)
    with pytest.raises(ss.NotFitForRelease, match="Give a larger c1, or accept that by name"):
        given.release()


def test_a_release_that_keeps_enough_ends_as_before():
    report = (
        ss.fit(make_design(), model(), epsilon=20, m=3, mechanism=PSEUDO)
        .release(accept_diagnostics=["information"])
        .privacy
    )
    assert report.publication.endswith("fit for publication once the assumptions hold")


@pytest.mark.slow
def test_synthesize_says_how_much_information_is_kept(capsys):
    ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=4, mechanism=PSEUDO)
    kept = ss.privacy_cost(make_design(), model(), epsilon=10.8, m=3, seed=4).mean_alpha
    said = capsys.readouterr()
    assert said.err == f"The privacy weights keep {int(100 * kept)}% of the file's information (not for publication).\n"
    assert said.out == ""
    strict = ss.Censored(epsilon=60)
    frame = make_frame().drop(columns="hours")
    design = ss.SurveyDesign(frame, weights="wt")
    ss.synthesize(
        design, model("gender", prior="normal"), m=1, mechanism=strict, population_total=2e4, seed=1,
    )  # fmt: skip
    assert "information" not in capsys.readouterr().err  # a clamp has no privacy weights


# privacy_cost, and a mechanism that fixes c1


def test_price_says_which_c1_an_epsilon_means_and_the_reverse():
    design = make_design()
    fit = ss.fit(design, model(), epsilon=10.8, m=3, seed=4, mechanism=PSEUDO)
    forward = ss.privacy_cost(design, model(), epsilon=10.8, m=3, seed=4)
    assert (forward.c1, forward.delta, forward.epsilon) == (fit.weighted.c1, fit.delta, 6 * fit.delta)
    assert forward.mean_alpha == fit.weighted.alpha.mean()
    back = ss.privacy_cost(design, model(), epsilon=10.8, c1=forward.c1, m=3, seed=5)
    assert back.epsilon == pytest.approx(10.8, rel=0.1)  # other draws, another maximum
    alone = ss.privacy_cost(design, model(), c1=1.8 * forward.c1, m=3, seed=5)  # Delta_target is 1 without an epsilon
    assert alone.epsilon == pytest.approx(back.epsilon, rel=1e-12)


@pytest.mark.parametrize("weight_map", ["inverse", "linear"])
def test_fixed_c1_is_kept_and_its_epsilon_reported(weight_map):
    mechanism = ss.PseudoPosterior(map=weight_map, c1=0.6)
    fit = ss.fit(make_design(), model(), m=2, mechanism=mechanism, seed=1)
    report = fit.release().privacy
    assert fit.weighted.c1 == 0.6 and fit.budget.epsilon is None
    assert report.epsilon_requested is None
    assert report.epsilon == np.ceil(400 * fit.delta) / 100
    assert any("c1 was given" in line for line in report.data_dependent)
    priced = ss.privacy_cost(make_design(), model(), c1=0.6, m=2, mechanism=ss.PseudoPosterior(weight_map), seed=1)
    assert priced.delta == fit.delta


def test_fixed_c1_never_exceeds_an_epsilon_that_is_asked_for():
    fit = ss.fit(make_design(), model(), epsilon=4, m=3, mechanism=ss.PseudoPosterior(c1=5.0), seed=1)
    assert 6 * fit.delta > 4
    with pytest.raises(ss.PrivacyError, match="epsilon = 4"):
        fit.release()


def test_an_epsilon_out_of_reach_is_refused():
    with pytest.raises((ss.PrivacyError, ss.ModelError), match="larger epsilon"):
        ss.fit(make_design(), model(), epsilon=0.1, m=3, seed=1, mechanism=PSEUDO)


# seeds


@pytest.mark.parametrize("settings", [{}, {"psu": ["id"]}, {"psu": ["hours_band"], "strata": "gender"}], ids=str)
def test_a_seed_reproduces_a_release_exactly_and_marks_it(settings):
    frame = make_frame()
    frame["hours_band"] = (frame["hours"] // 10).astype(int)
    design = ss.SurveyDesign(frame, **({"weights": "wt", "strata": "field"} | settings))
    first, second, other = (released(design, model("field"), clusters="ignore", seed=seed) for seed in (11, 11, 12))
    for a, b, c in zip(first.datasets, second.datasets, other.datasets, strict=True):
        pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True)
        assert not set(a.frame["income"]) & set(c.frame["income"])
    assert first.privacy == second.privacy
    assert not first.privacy.publishable and first.privacy.publication.startswith("reproducible, not for publication")


def test_two_unseeded_runs_differ_and_may_be_published():
    first, second = released(seed=None), released(seed=None)
    assert not set(first.datasets[0].frame["income"]) & set(second.datasets[0].frame["income"])
    assert first.privacy.publishable


# what the caller says about the file


def test_synthetic_weights_add_up_to_the_population():
    default, given = released(), released(population_total=1e6)
    for release, total in ((default, make_frame()["wt"].sum()), (given, 1e6)):
        for data in release.datasets:
            assert data.weights.sum() == pytest.approx(total, rel=1e-12)
            assert (data.weights > 0).all()
    assert any("population total was given" in s for s in given.privacy.assumptions)
    for release, by_weights in ((default, True), (given, False)):
        assert any("the sum of the survey weights" in s for s in release.privacy.data_dependent) == by_weights
        assert not any("sum of the survey weights" in s for s in release.privacy.assumptions)
    calibrated = default.calibrate({"gender": {"f": 9000, "m": 11_000}})
    assert not any("the sum of the survey weights" in s for s in calibrated.privacy.data_dependent)
    public = released(ss.SurveyDesign(make_frame().assign(wt=30.0), weights="wt", strata="field"))
    assert any("sum of the survey weights is public" in s for s in public.privacy.assumptions)
    calibrated = public.calibrate({"gender": {"f": 9000, "m": 11_000}})
    assert not any("sum of the survey weights" in s for s in calibrated.privacy.assumptions)


def test_what_a_ledger_refuses_was_not_released(tmp_path):
    class Full(ss.Ledger):
        def spend(self, *epsilons, **entry):
            raise ss.PrivacyError("the ledger could not be written")

    done = ss.fit(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    with pytest.raises(ss.PrivacyError, match="could not be written"):
        done.release(ledger=Full(tmp_path / "budget.jsonl", "wages", create=True))
    assert done.epsilon_spent == 0
    assert "released from the same fit before" not in str(done.release().privacy)


def test_an_asymptotic_report_says_what_is_found_on_the_file():
    """Refusals, the verdict on chains, and whether the weight is public: none of them is covered by epsilon."""
    said = " ".join(released().privacy.data_dependent)
    assert "whether there is a release at all" in said and "whether the survey weight is a function of" in said


TOTALS = {"01": 9000.0, "02": 8000, "NA": 12_000, "ökonomie": 500.5}


@pytest.mark.parametrize("synthesizer", [model(), population_model(), population_model(weights="paper")], ids=repr)
def test_synthetic_weights_add_up_to_the_totals_of_the_strata(synthesizer):
    release = released(synthesizer=synthesizer, population_total=TOTALS)
    for data in (*release.datasets, *release.count_designs()):
        added = pd.Series(data.weights).groupby(data.frame["field"].to_numpy()).sum()
        np.testing.assert_allclose(added, [TOTALS[label] for label in added.index], rtol=1e-12)
        assert data.calibration.poststrata_names == (("field",),)
    (sentence,) = [s for s in release.privacy.assumptions if "totals of the strata were given" in s]
    assert "they have no standard error" in sentence
    assert not any("sum of the survey weights is public" in s for s in release.privacy.assumptions)
    counts = release.tables(["field", "gender"], statistic="count").set_index(["field", "gender"])
    fixed = counts["flag"].str.startswith("public total")
    assert (fixed == (counts.index.get_level_values("gender") == "all")).all()
    assert (counts.loc[fixed, "se"] == 0).all() and (counts.loc[~fixed, "se"] > 0).all()
    expected = {(label, "all"): total for label, total in (TOTALS | {"all": sum(TOTALS.values())}).items()}
    assert counts.loc[fixed, "estimate"].to_dict() == pytest.approx(expected, rel=1e-12)


def test_totals_are_given_by_the_label_of_the_stratum_whatever_its_type():
    frame = make_frame().assign(field=lambda f: 1 + pd.factorize(f["field"])[0])
    by_label = ss.SurveyDesign(frame, weights="wt", strata="field")
    totals = {1: 5000, 2: 6000, 3: 7000, 4: 8000}
    for given in (totals, {str(k): v for k, v in totals.items()}):
        data = released(by_label, population_total=given).datasets[0]
        added = pd.Series(data.weights).groupby(data.frame["field"].to_numpy()).sum()
        assert added.to_dict() == pytest.approx(totals, rel=1e-12)


BAD_TOTALS = [
    ({k: v for k, v in TOTALS.items() if k != "NA"}, "one total for each of the 4 strata of 'field'"),
    (TOTALS | {"05": 100}, "one total for each of the 4 strata of 'field', by their labels, and for nothing else"),
    ({"1": 9000.0, "2": 8000, "NA": 12_000, "ökonomie": 500.5}, "by their labels"),
    ({}, "one total for each of the 4 strata"),
    (TOTALS | {"NA": 99}, "below the number of records in 1 of the strata"),
    (TOTALS | {"NA": 99, "01": 1}, "below the number of records in 2 of the strata"),
    (TOTALS | {"NA": "many"}, "population_total of 'NA' must be a number"),
    (TOTALS | {"NA": float("inf")}, "population_total of 'NA' must be a positive number"),
    (TOTALS | {"NA": -1}, "population_total of 'NA' must be a positive number"),
]


@pytest.mark.parametrize(("totals", "match"), BAD_TOTALS, ids=lambda v: str(v)[-30:])
def test_totals_that_do_not_suit_the_strata_are_refused(totals, match):
    with pytest.raises(ss.InputError, match=match) as caught:
        released(population_total=totals)
    assert not [c for c in make_frame()["wt"].astype(str) if c in str(caught.value)]


def test_totals_by_stratum_need_strata():
    with pytest.raises(ss.InputError, match="totals by stratum, but the design has no strata"):
        released(make_design(strata=None), population_total=TOTALS)
    numbers = make_frame().assign(field=lambda f: pd.factorize(f["field"])[0])
    with pytest.raises(ss.InputError, match="for nothing else"):  # one stratum twice
        released(ss.SurveyDesign(numbers, weights="wt", strata="field"), population_total={0: 1e5, "0": 1e5, 1: 1e5})


def test_counts_are_the_same_from_both_weights_where_cells_lie_across_strata():
    """FBP with strata that the predictors do not determine: weights that are calibrated by stratum vary in a cell."""
    settings = {"synthesizer": population_model("gender"), "clusters": "ignore", "population_total": TOTALS}
    release = released(**settings)
    for data, counted in zip(release.datasets, release.count_designs(), strict=True):
        frame = data.frame.assign(a=data.weights, b=counted.weights)
        for by in (["gender"], ["field"], ["field", "gender"]):
            added = frame.groupby(by)[["a", "b"]].sum()
            np.testing.assert_allclose(added["a"], added["b"], rtol=1e-12)
        assert (frame.groupby(["field", "gender"])["a"].nunique() == 1).all()
        assert frame["b"].nunique() == 400


def test_what_the_survey_s_own_weights_were_calibrated_to_is_neither_published_nor_claimed():
    """Synthetic weights add up to N, not to the post-strata of the confidential file."""
    frame = make_frame().assign(post=lambda f: f["gender"].map({"f": "canary f", "m": "canary m"}))
    for predictors in ("field", "field + gender"):
        release = released(ss.SurveyDesign(frame, weights="wt", strata="field", poststrata="post"), model(predictors))
        assert all(not data.calibrated and "post" not in data.frame for data in release.datasets)
        assert "post" not in release.manifest()["design"].values()
    design = ss.SurveyDesign(frame, weights="wt", strata="field", poststrata="gender")  # which is a predictor
    plain, calibrated = (released(d, model()).tables("gender") for d in (make_design(), design))
    pd.testing.assert_frame_equal(plain, calibrated, check_exact=True)


def test_missing_outcomes_are_counted_and_refused_or_dropped_with_a_sentence():
    frame = make_frame()
    frame.loc[[3, 50, 99, 200], "income"] = np.nan
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    with pytest.raises(ss.InputError, match=r"'income' is missing in 4 rows \(row numbers 4, 51, 100, 201"):
        released(design)
    release = released(design, model(missing="drop"))
    assert {data.n for data in release.datasets} == {396}
    (sentence,) = [s for s in release.privacy.assumptions if "left" in s]
    assert sentence.startswith("4 of 400 records had no outcome")  # their share of the weights would tell of weights
    assert release.datasets[0].weights.sum() == pytest.approx(frame["wt"][frame["income"].notna()].sum())
    frame["income"] = np.nan
    with pytest.raises(ss.InputError, match="every record lacks an outcome"):
        released(ss.SurveyDesign(frame, weights="wt"), model(missing="drop"))


def test_nothing_is_said_of_missing_outcomes_where_there_are_none():
    assert "left out" not in str(released(synthesizer=model(missing="drop")).privacy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roles", "predictors", "word"),
    [({"strata": None, "psu": "psu"}, "field", "PSUs"), ({"strata": "field"}, "gender", "strata"),
     ({"strata": "field", "psu": "psu"}, "gender", "PSUs .* and strata")],
)  # fmt: skip
def test_clusters_and_unmodelled_strata_are_modelled_or_ignored_by_name(roles, predictors, word):
    frame = make_frame().assign(psu=lambda f: f["hours"].rank().astype(int) // 8)
    design = ss.SurveyDesign(frame, weights="wt", **roles)
    release = released(design, model(predictors), epsilon=80, draws=400)
    effects = word.replace(" .* ", " ")
    assert release.manifest()["effects"] == effects and f"{effects} have normal effects" in str(release.privacy)
    assert ("new effects of PSUs" in str(release.privacy)) == ("PSUs" in word)
    ignored = released(design, model(predictors), clusters="ignore")
    assert "effects" not in ignored.manifest()
    (sentence,) = [s for s in ignored.privacy.assumptions if s.startswith("clusters ignored")]
    assert "standard errors" in sentence and re.search(word, sentence)


@pytest.mark.parametrize(
    ("roles", "predictors"),
    [({"strata": "field"}, "field"), ({"strata": "coarse"}, "field"), ({"strata": "cell"}, "field * gender"),
     ({"strata": None, "psu": "id"}, "gender")],
)  # fmt: skip
def test_strata_that_the_predictors_determine_and_psus_of_one_record_have_no_effects(roles, predictors):
    frame = make_frame().assign(
        coarse=lambda f: f["field"].isin(["01", "02"]).astype(int), cell=lambda f: f["field"] + f["gender"]
    )
    release = released(ss.SurveyDesign(frame, weights="wt", **roles), model(predictors))
    assert "clusters ignored" not in str(release.privacy) and "effects" not in release.manifest()


def test_public_must_name_every_column_that_is_not_synthesized():
    frame = make_frame().assign(region=lambda f: f["id"] % 5)
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    released(design, model("field + gender"), public=["gender", "field"])
    released(design, model("field"), public="field")  # one name needs no list
    with pytest.raises(ss.InputError, match="would hold gender, which public= does not name"):
        released(design, model("field + gender"), public=["field"])
    with pytest.raises(ss.InputError, match="would hold field, which"):
        released(design, model("gender"), public=["gender"], clusters="ignore")
    with pytest.raises(ss.InputError, match="no column 'field of study'"):
        released(design, model("field"), public="field of study")


@pytest.mark.parametrize(
    ("predictors", "outcome", "match"),
    [("wt", "income", "weights 'wt' cannot be a predictor"), ("field + nowhere", "income", "no column 'nowhere'"),
     ("gender", "nowhere", "no column 'nowhere'"), ("gender", "wt", "'wt' has a role"),
     ("gender", "field", "'field' has a role"), ("gender + income", "income", "outcome cannot be a predictor")],
)  # fmt: skip
def test_columns_in_the_wrong_place_are_refused(predictors, outcome, match):
    with pytest.raises(ss.InputError, match=match):
        released(make_design(), ss.FBS(outcome, predictors, prior="flat", missing="drop"))


ARGUMENTS = [
    ({"epsilon": 0}, "epsilon must be a positive number"),
    ({"epsilon": -1.0}, "epsilon must be a positive number"),
    ({"epsilon": float("nan")}, "epsilon must be a positive number"),
    ({"epsilon": float("inf")}, "epsilon must be a positive number"),
    ({"epsilon": True}, "epsilon must be a number"),
    ({"epsilon": "10"}, "epsilon must be a number"),
    ({"epsilon": None}, "give the privacy budget"),
    ({"m": 0}, "m must be a whole number"),
    ({"m": 2.0}, "m must be a whole number"),
    ({"m": True}, "m must be a whole number"),
    ({"population_total": 0}, "population_total must be a positive number"),
    ({"population_total": float("nan")}, "population_total must be a positive"),
    ({"clusters": "maybe"}, "clusters='maybe' is not one of"),
    ({"engine": "jags"}, "engine='jags' is not one of"),
    ({"tolerance": 0}, "tolerance must be "),
    ({"tolerance": float("nan")}, "tolerance must be "),
    ({"chains": 0}, "chains must be a whole number"),
    ({"warmup": 1.5}, "warmup must be a whole number"),
    ({"draws": 0}, "draws must be a whole number"),
    ({"seed": -1}, "seed must be a whole number"),
    ({"seed": 1.5}, "seed must be a whole number"),
]


@pytest.mark.parametrize(("settings", "match"), ARGUMENTS, ids=lambda v: str(v)[:30])
def test_arguments_are_checked_before_anything_is_fitted(settings, match, monkeypatch):
    monkeypatch.setattr(ss.FBS, "prepare", lambda *_: pytest.fail("began before the arguments were checked"))
    with pytest.raises(ss.InputError, match=match):
        ss.fit(make_design(), model(), **({"mechanism": PSEUDO} | {"epsilon": 10} | settings))


def test_a_frame_is_not_a_design():
    with pytest.raises(ss.InputError, match=r"SurveyDesign\(frame"):
        ss.synthesize(make_frame(), model(), epsilon=10, mechanism=PSEUDO)


def test_an_interrupted_fit_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    calls = []

    def fit(self, data, alpha, sampler, original=ss.FBS.fit):
        calls.append(alpha)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, data, alpha, sampler)

    monkeypatch.setattr(ss.FBS, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        released()
    assert len(calls) == 2 and not list(tmp_path.iterdir())


# odd files: a right release or a clear refusal


def near(table, truth, by, within):
    """Every domain's estimate is near what the confidential file says."""
    both = table.merge(truth, on=[*by, "statistic"], suffixes=("", "_true"))
    assert len(both) == len(table)
    np.testing.assert_allclose(both["estimate"], both["estimate_true"], rtol=within)


def test_stratified_simple_random_sample_keeps_its_weights(r_frame):
    frame = r_frame("{ data(api); apistrat[c('stype', 'api00', 'pw', 'fpc')] }")
    design = ss.SurveyDesign(frame, weights="pw", strata="stype", fpc="fpc")
    release = ss.synthesize(design, ss.FBS("api00", "stype", prior="flat"), epsilon=30, m=3, seed=1, mechanism=PSEUDO)
    weights = frame.groupby("stype")["pw"].first()
    for data in release.datasets:
        np.testing.assert_allclose(data.weights, data.frame["stype"].map(weights), rtol=1e-12)
    assert "function of the public predictors (found so on the file): it is public, it is kept" in str(release.privacy)
    assert release.manifest()["weights"] == "public"
    near(release.tables("stype"), ss.estimate(design, "api00", "stype", ["count", "mean"]), ["stype"], 0.05)


@pytest.mark.parametrize("predictors", ["1", "field + gender"])
def test_self_weighting_file_keeps_its_weights(predictors):
    design = ss.SurveyDesign(make_frame().assign(wt=25.0), weights="wt")
    release = released(design, model(predictors), epsilon=30)
    assert all((data.weights == 25.0).all() for data in release.datasets)
    truth = ss.estimate(design, "income", statistic="mean")
    near(release.tables(statistic="mean"), truth, [], 0.1)


def test_nearly_constant_weights_are_refused():
    frame = make_frame()
    frame["wt"] = 25 + 1e-4 * np.random.default_rng(1).normal(size=len(frame))
    with pytest.raises(ss.ModelError, match="nearly, but not quite, a function"):
        released(ss.SurveyDesign(frame, weights="wt"), model("1"))


def test_a_cell_with_one_record_is_released_where_epsilon_bears_it_and_else_refused():
    frame = make_frame()
    frame.loc[0, "field"] = "alone"
    design = ss.SurveyDesign(frame, weights="wt")
    with pytest.raises((ss.ModelError, ss.PrivacyError), match="larger epsilon"):
        released(design)  # the record is its cell's coefficient: alpha does not lower alpha |log p|
    release = released(design, epsilon=60)
    row = release.tables("field", statistic="mean").set_index("field").loc["alone"]
    assert row["n"] == 1 and np.isfinite(row["estimate"])
    assert not set(np.concatenate([d.frame["income"] for d in release.datasets])) & set(frame["income"])


def test_a_constant_outcome_is_refused():
    with pytest.raises(ss.ModelError, match="income is constant"):
        released(ss.SurveyDesign(make_frame().assign(income=1234.0), weights="wt"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"prior": "flat"}, {"prior": "independent"}], ids=str)
def test_collinear_predictors_change_nothing_but_their_coefficients(settings):
    frame = make_frame().assign(double=lambda f: 2 * (f["gender"] == "m"))
    design = ss.SurveyDesign(frame, weights="wt")
    means = []
    for predictors in ("gender", "gender + double"):
        fit = ss.fit(
            design, model(predictors, **settings), epsilon=30, seed=1, warmup=500, draws=1000, mechanism=PSEUDO
        )
        means.append((fit.records.X @ fit.weighted.posterior.values["B"].mean(axis=0))[fit.records.pattern])
    np.testing.assert_allclose(means[0], means[1], atol=0.01)  # a posterior standard deviation is about 0.03
    table = fit.release(accept_diagnostics=["rhat"]).tables("gender")
    near(table, ss.estimate(design, "income", "gender", ["count", "mean"]), ["gender"], 0.15)


def test_thirty_records():
    release = released(make_design(30), model("gender"), clusters="ignore", epsilon=30)
    assert {data.n for data in release.datasets} == {30}
    assert release.privacy.epsilon <= 30
    with pytest.raises((ss.ModelError, ss.PrivacyError), match="larger epsilon"):
        released(make_design(30), model("gender"), clusters="ignore", epsilon=2)


# what a reader of the report must know


def test_a_stratum_is_a_label_also_where_it_is_a_number():
    rng = np.random.default_rng(8)
    stratum = np.repeat([1, 2, 3, 4], 300)
    y = np.exp(np.array([10.0, 11.0, 9.5, 10.5])[stratum - 1] + rng.normal(0, 0.3, 1200))
    w = np.exp(rng.normal(0, 0.3, 1200) - 0.3 * (np.log(y) - 10))
    design = ss.SurveyDesign(pd.DataFrame({"st": stratum, "y": y, "w": w}), weights="w", strata="st")
    tables = ss.synthesize(design, ss.FBS("y", "st", prior="flat"), epsilon=20, seed=1, mechanism=PSEUDO).tables(
        "st", statistic="mean"
    )
    truth = ss.estimate(design, "y", "st", "mean")
    np.testing.assert_allclose(tables["estimate"], truth["estimate"], rtol=0.1)  # a slope would miss by 50%


def test_numbers_that_enter_as_numbers_are_named():
    frame = make_frame().assign(age=lambda f: 20 + f["id"] % 40)
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    assert "enter as numbers, not as categories: age" in str(released(design, model("field + age")).privacy)
    assert "enter as numbers" not in str(released(design, model("field + gender")).privacy)


def test_releases_of_one_fit_say_what_they_spend_together():
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    fit = ss.fit(design, model("field"), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    first, second = fit.release(), fit.release(1)
    assert "released from the same fit before" not in str(first.privacy)
    said = "3 data sets were released from the same fit before; together with these they spend epsilon = 14.4"
    assert said in str(second.privacy)
    assert len(second.internal["draws"]["B"]) == fit.weighted.posterior.size - 4


def test_a_handful_of_draws_is_no_maximum():
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    with pytest.raises(ss.NotFitForRelease, match="ess_bulk, ess_tail"):
        ss.synthesize(design, model("field"), epsilon=10.8, chains=1, draws=50, seed=1, mechanism=PSEUDO)


def test_draws_that_were_carried_over_are_named():
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    fit = ss.fit(design, model("field"), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    assert fit.weighted.posterior.efficiency < 1
    assert "carried over to the weights of this release by importance weights" in str(fit.release().privacy)
    given = ss.fit(design, model("field"), epsilon=20, m=3, mechanism=ss.PseudoPosterior(c1=0.5), seed=1)
    assert "carried over" not in str(given.release().privacy)


def test_a_column_may_have_the_name_of_a_function():
    frame = make_frame().assign(scale=lambda f: np.where(f["id"] % 2, "a", "b"))
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    release = released(design, model("field + C(scale)"))
    assert set(release.predictors) == {"field", "scale"}


def test_what_the_design_fixes_has_no_standard_error():
    """Stratum totals of a stratified simple random sample: R has 0 there, and so have the combined tables."""
    frame = make_frame()
    frame["wt"] = 5.0 + pd.factorize(frame["field"])[0]
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    counts = released(design, model("field + gender"), epsilon=30).tables(["field", "gender"], statistic="count")
    fixed = (counts["gender"] == "all").to_numpy()
    assert (counts["se"][fixed] == 0).all() and (counts["ci_low"][fixed] == counts["estimate"][fixed]).all()
    assert (counts["se"][~fixed] > 0).all()


def test_a_population_is_no_smaller_than_its_sample():
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    with pytest.raises(ss.InputError, match="population_total is below the 400 records"):
        released(design, model("field"), population_total=100)


# corrected draws


@pytest.fixture(scope="module")
def tuned():
    """A fit with a large epsilon is corrected by less; this one has something to correct."""
    return {
        kind: ss.fit(make_design(), kind(), epsilon=10.8, m=3, seed=6, mechanism=PSEUDO)
        for kind in (model, population_model)
    }


@pytest.mark.parametrize("kind", [model, population_model])
def test_a_correction_by_constants_tuned_on_the_file_keeps_them_inside_and_is_not_covered(tuned, kind):
    fit = fresh(tuned[kind])
    plain, better = fit.release(), fresh(tuned[kind]).release(debias=True)
    assert better.privacy.epsilon == plain.privacy.epsilon
    assert better.privacy.internal["epsilon_exact"] == plain.privacy.internal["epsilon_exact"] == 6 * fit.delta
    assert better.privacy.internal["c1"] == fit.weighted.c1
    settings = {"covered_by_epsilon": False, "map": "inverse", "c2": 0.0}
    assert better.manifest()["debias"] == settings and "debias" not in plain.manifest()
    (said,) = [line for line in better.privacy.data_dependent if line.startswith("the correction")]
    assert "which was tuned on this file and is not published, and epsilon does not cover it" in said
    text = str(better.privacy)
    assert "takes the model at its word" in text and "narrows the fitted distribution" not in text
    assert said not in plain.privacy.data_dependent and "narrows the fitted distribution" in str(plain.privacy)
    for published in (text, str(better.manifest()), repr(better), repr(fit)):
        assert f"{fit.weighted.c1:.3g}" not in published
    spread = [np.mean([np.log(d.frame["income"]).std() for d in r.datasets]) for r in (plain, better)]
    assert spread[1] > 1.1 * spread[0]


def test_a_correction_by_a_c1_that_was_given_is_post_processing():
    """c1 is then no news of the file, and is published; what epsilon comes out of it is."""
    fit = ss.fit(make_design(), model(), m=3, mechanism=ss.PseudoPosterior(c1=1.5), seed=1, population_total=3e4)
    release = fit.release(debias=True)
    constants = {"covered_by_epsilon": True, "map": "inverse", "c1": 1.5, "c2": 0.0, "target": 1.0}
    assert release.manifest()["debias"] == constants
    assert any("were given and not tuned on this file: it is post-processing" in s for s in release.privacy.assumptions)
    assert release.privacy.epsilon == np.ceil(600 * fit.delta) / 100
    depends = release.privacy.data_dependent
    assert any(line.startswith("epsilon itself: as none was asked for") for line in depends)
    assert not any("correction" in line for line in depends)
    asked = ss.fit(make_design(), model(), m=3, epsilon=60, mechanism=ss.PseudoPosterior(c1=0.1), seed=1).release()
    assert asked.privacy.epsilon == 60 and not any("epsilon itself" in s for s in asked.privacy.data_dependent)


def test_steps_of_re_weighting_that_were_taken_stay_inside():
    """How many are taken depends on the whole file, and an outlier makes them more or fewer."""
    linear = ss.PseudoPosterior(map="linear")
    release = ss.fit(make_design(), model(), epsilon=10.8, m=3, mechanism=linear, reweight=7, seed=1).release()
    (said,) = [line for line in release.privacy.data_dependent if "re-weighting" in line]
    assert said.endswith("(re-weighting, steps asked for: 7, taken as long as weights rose)")
    assert release.privacy.internal["reweighting_steps"] >= 1


def test_draws_that_were_corrected_are_spent(tuned):
    fit = fresh(tuned[model])
    release = fit.release(debias=True)
    assert len(fit.used) == len(set(fit.used)) == 3 and fit.epsilon_spent == 6 * fit.delta
    assert len(release.internal["draws"]["B"]) == fit.weighted.posterior.size - 3


def test_a_correction_needs_the_map_of_risks_and_our_setting():
    linear = ss.PseudoPosterior(map="linear")
    with pytest.raises(ss.InputError, match=r"risk and constants: .* The linear map has the file's own least and"):
        ss.fit(make_design(), model(), epsilon=10.8, mechanism=linear, seed=1).release(debias=True)
    paper = ss.FBP.paper("income", "field + gender", prior="flat")
    with pytest.raises(ss.InputError, match=r"no part of the paper's setting; use FBP\(...\) instead"):
        ss.fit(make_design(), paper, epsilon=10.8, seed=1, mechanism=PSEUDO).release(debias=True)


@pytest.mark.parametrize(
    ("design", "synthesizer", "settings", "match"),
    [(make_design(), model(), {"mechanism": ss.PseudoPosterior(map="linear")}, "linear map"),
     (make_design(), population_model(weights="paper"), {}, "paper's setting"),
     (make_design(), population_model(variance="paper"), {}, "paper's setting"),
     (make_design(), model(), {"mechanism": "linear"}, "mechanism must be a surveysynth.PseudoPosterior"),
     (make_design(), "FBS", {}, "the second argument is a model"),
     (make_frame(), model(), {}, "the first argument is a SurveyDesign")],
    ids=lambda v: str(v)[:30],
)  # fmt: skip
def test_a_correction_is_refused_before_anything_is_fitted(design, synthesizer, settings, match, monkeypatch):
    for kind in (ss.FBS, ss.FBP):
        monkeypatch.setattr(kind, "prepare", lambda *_: pytest.fail("began before the arguments were checked"))
    with pytest.raises(ss.InputError, match=match):
        ss.synthesize(design, synthesizer, epsilon=10.8, debias=True, **({"mechanism": PSEUDO} | settings))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ss.FBS, ss.FBP])
def test_draws_under_a_proper_prior_are_corrected_also_where_predictors_repeat_or_cells_are_empty(kind):
    frame = make_frame().assign(
        twin=lambda f: f["field"].str.upper(), gender=lambda f: f["gender"].where(f["field"] != "01", "f")
    )
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    for predictors in ("field + twin", "field * gender"):  # nobody is m in 01
        settings = {"epsilon": 20, "warmup": 300, "draws": 300, "seed": 1}
        accepted = ["rhat", "ess_bulk", "ess_tail", "divergences"]
        prior = {ss.FBS: "independent", ss.FBP: "paper"}[kind]
        fit = ss.fit(design, kind("income", predictors, prior=prior), **({"mechanism": PSEUDO} | settings))
        assert np.linalg.matrix_rank(fit.records.X) < fit.records.X.shape[1]
        assert fit.release(debias=True, accept_diagnostics=accepted).m == 3


@pytest.mark.parametrize(("factor", "warned"), [(1.4, False), (0.7, False), (1.6, True), (0.6, True)])
def test_a_population_total_that_the_weights_contradict_is_pointed_out(factor, warned):
    design = make_design()
    given = [factor * design.weights.sum(), {field: factor * w for field, w in by_field(design).items()}]
    for total in given:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            ss.fit(design, model(), epsilon=10.8, seed=1, population_total=total, mechanism=PSEUDO)
        said = [str(w.message) for w in heard if "population_total" in str(w.message)]
        assert bool(said) == warned
        assert not any(char.isdigit() for text in said for char in text)


def test_weights_scaled_to_the_sample_say_nothing_about_the_population():
    frame = make_frame()
    design = ss.SurveyDesign(frame.assign(wt=frame["wt"] / frame["wt"].mean()), weights="wt", strata="field")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ss.fit(design, model(), epsilon=10.8, seed=1, population_total=1e6, mechanism=PSEUDO)


def by_field(design):
    return pd.Series(design.weights).groupby(design.frame["field"]).sum().to_dict()
