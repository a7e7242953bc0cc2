"""FBS and FBP with effects of PSUs and strata: densities, draws, weights of PSUs, units of several records."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from surveys import make_frame, model, population_model

import surveysynth as ss
from surveysynth.engines import get_engine
from surveysynth.models.draws import Draws, Sampler
from tests.surveys import PSEUDO


def clustered_frame(n=360, psus=30, sd=0.4, seed=5):
    """PSUs numbered anew in each of three strata; effects on income and weight."""
    rng = np.random.default_rng(seed)
    frame = make_frame(n, seed).assign(psu=lambda f: rng.permutation(n) % psus)
    effect = sd * rng.standard_normal((psus, 2))
    frame["income"] *= np.exp(effect[frame["psu"], 0])
    frame["wt"] *= np.exp(0.5 * effect[frame["psu"], 1])
    frame["stratum"] = frame["psu"] % 3
    frame["psu"] //= 3
    return frame


def clustered(frame=None, **roles):
    frame = clustered_frame() if frame is None else frame
    return ss.SurveyDesign(frame, **({"weights": "wt", "strata": "stratum", "psu": "psu"} | roles))


def fitted(design, synthesizer, draws=40, alpha=None, seed=1):
    data = synthesizer.prepare(design)
    sampler = Sampler(lambda: get_engine("embedded"), np.random.default_rng(seed), 1, 0, draws)
    return data, synthesizer.fit(data, np.ones(design.n) if alpha is None else alpha, sampler)


def normal_with_effects(data, posterior, s, records, alpha):
    """Log of the integral over u of prod p(Y_i | u)^alpha_i p(u), records of one PSU: dense, in numpy."""
    B, L = posterior.values["B"][s], posterior.values["L"][s]
    T = posterior.values["T"][s] @ posterior.values["T"][s].T
    residual = data.Y[records] - (data.X @ B)[data.pattern[records]]
    if "strata" in posterior.effects:
        parent = data.groups.parent[data.groups.record[records]]
        residual = residual - posterior.effects["strata"][s].astype(float)[parent]
    if not len(records):
        return 0.0
    Sigma, n, a = L @ L.T, len(records), alpha[records]
    # p^alpha is a normal density with covariance Sigma / alpha, times a constant
    spread = np.kron(np.diag(1 / a), Sigma) + np.kron(np.ones((n, n)), T)
    constant = sum(-(x - 1) * np.log(2 * np.pi) - (x - 1) / 2 * np.linalg.slogdet(Sigma)[1] - np.log(x) for x in a)
    return multivariate_normal(np.zeros(2 * n), spread).logpdf(residual.ravel()) + constant


@pytest.mark.slow
@pytest.mark.parametrize("make", [model, population_model], ids=["FBS", "FBP"])
@pytest.mark.parametrize("groups", ["PSUs", "PSUs and strata"])
def test_a_records_bound_is_what_it_does_to_the_likelihood_without_the_effects(groups, make):
    frame = clustered_frame(n=120, psus=24)
    frame["cluster"] = frame["stratum"] * 100 + frame["psu"]
    roles = {"strata": None, "psu": "cluster"} if groups == "PSUs" else {}
    rng = np.random.default_rng(2)
    alpha, unit = rng.uniform(0.2, 1, 120), rng.permutation(120) % 50
    design, synthesizer = clustered(frame, **roles), make("gender")
    data, posterior = fitted(design, synthesizer, draws=6, alpha=alpha)
    assert posterior.integrated and (groups == "PSUs") == (not posterior.effects)
    psu = data.groups.record
    assert len({*zip(psu, frame["cluster"], strict=True)}) == frame["cluster"].nunique() == psu.max() + 1
    base = data.Y[:, 1] if make is population_model else np.zeros(120)  # the normal density divided by pi

    def bounds(alpha, unit):
        """max_s |log with all records - log without the unit's| / alpha of the unit."""
        out = np.zeros((posterior.size, unit.max() + 1))
        for s in range(posterior.size):
            for g in range(unit.max() + 1):
                for c in np.unique(psu[unit == g]):
                    everybody = np.flatnonzero(psu == c)
                    others = everybody[unit[everybody] != g]
                    out[s, g] += normal_with_effects(data, posterior, s, everybody, alpha)
                    out[s, g] -= normal_with_effects(data, posterior, s, others, alpha)
                out[s, g] += alpha[unit == g] @ base[unit == g]
        return np.abs(out).max(axis=0) / np.array([alpha[unit == g][0] for g in range(unit.max() + 1)])

    ours = synthesizer.lipschitz(data, posterior, alpha=alpha)
    np.testing.assert_allclose(ours, bounds(alpha, np.arange(120)), rtol=1e-7)
    np.testing.assert_allclose(synthesizer.lipschitz(data, posterior), bounds(np.ones(120), np.arange(120)), rtol=1e-7)
    shared = rng.uniform(0.1, 1, 50)[unit]
    ours = synthesizer.lipschitz(data, posterior, unit, shared)
    np.testing.assert_allclose(ours, bounds(shared, unit), rtol=1e-7)
    ours = synthesizer.lipschitz(data, posterior, psu, np.full(120, 0.3))
    np.testing.assert_allclose(ours, bounds(np.full(120, 0.3), psu), rtol=1e-7)

    total = [
        sum(normal_with_effects(data, posterior, s, np.flatnonzero(psu == c), a) for c in range(psu.max() + 1))
        + a @ base
        for a in (alpha, shared)
        for s in range(posterior.size)
    ]  # fmt: skip
    before, after = np.reshape(total, (2, -1))
    np.testing.assert_allclose(synthesizer.log_likelihood(data, alpha, posterior), before, rtol=1e-9)
    np.testing.assert_allclose(synthesizer.log_ratio(data, alpha, shared, posterior), after - before, rtol=1e-7)
    vanishing = synthesizer.lipschitz(data, posterior, alpha=np.where(np.arange(120) < 60, 0.0, alpha))
    nearly = synthesizer.lipschitz(data, posterior, alpha=np.where(np.arange(120) < 60, 3e-6, alpha))
    np.testing.assert_allclose(vanishing, nearly, rtol=1e-4)  # a record without weight has a bound, times 0


@pytest.mark.parametrize("make", [model, population_model], ids=["FBS", "FBP"])
def test_effects_of_strata_are_drawn_and_densities_are_given_them(make):
    design, synthesizer = clustered(psu=None), make("gender")
    rng = np.random.default_rng(2)
    data, posterior = fitted(design, synthesizer, alpha=rng.uniform(0.2, 1, design.n))
    expected = np.empty((posterior.size, design.n))
    for s in range(posterior.size):
        B, L = posterior.values["B"][s], posterior.values["L"][s]
        mean = (data.X @ B)[data.pattern] + posterior.effects["strata"][s].astype(float)[data.groups.record]
        expected[s] = multivariate_normal(np.zeros(2), L @ L.T).logpdf(data.Y - mean)
    if make is population_model:
        expected += data.Y[:, 1]
    some = rng.permutation(design.n)[:50]
    np.testing.assert_allclose(
        synthesizer.log_density(data.subset(some), posterior), expected[:, some], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(synthesizer.lipschitz(data, posterior), np.abs(expected).max(axis=0), rtol=1e-9)
    alpha = rng.uniform(-1, 1, design.n)
    np.testing.assert_allclose(synthesizer.log_likelihood(data, alpha, posterior), expected @ alpha, rtol=1e-8)
    unit = rng.integers(0, 90, design.n)
    of_unit = np.array([np.abs(expected[:, unit == g].sum(axis=1)).max() for g in range(90)])
    np.testing.assert_allclose(synthesizer.lipschitz(data, posterior, unit), of_unit, rtol=1e-9)


def test_new_effects_are_drawn_for_psus_and_kept_for_strata():
    """Records of one PSU share an effect that differs from data set to data set; a stratum's stays the draw's."""
    design, synthesizer = clustered(), model("gender")
    data, posterior = fitted(design, synthesizer, draws=2)
    posterior = posterior.subset([0], {"L": 1e-6 * posterior.values["L"][:1]})
    rng = np.random.default_rng(0)
    psu = data.groups.record
    effects = []
    for _ in range(400):
        y = np.log(next(synthesizer.simulations(data, posterior, [0], rng)).outcomes[:, 0])
        effect = y - (data.X @ posterior.values["B"][0])[data.pattern, 0]
        within = effect - (np.bincount(psu, effect) / np.bincount(psu))[psu]
        assert np.abs(within).max() < 1e-4
        effects.append(effect[np.unique(psu, return_index=True)[1]])
    above = posterior.effects["strata"][0][data.groups.parent, 0]
    sd = posterior.values["T"][0, 0, 0]
    assert np.abs(np.mean(effects, axis=0) - above).max() < 4.5 * sd / np.sqrt(400)
    assert np.std(effects, axis=0) == pytest.approx(np.full(30, sd), rel=4.5 / np.sqrt(800))
    only_strata, kept = fitted(clustered(psu=None), synthesizer, draws=2)
    one, two = (synthesizer.effects_of_records(only_strata, kept.subset([1]), rng) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, kept.effects["strata"][1][only_strata.groups.record])


def test_fbp_carries_the_effects_of_selection_in_the_weights():
    """Given u_c the population model holds within a PSU: the weight's own effect multiplies, y's moves y alone."""
    design, synthesizer = clustered(), population_model("gender")
    data, posterior = fitted(design, synthesizer, draws=2)
    B, L = posterior.values["B"][0], posterior.values["L"][0]
    u = np.random.default_rng(3).normal(size=(30, 2))
    fixed = Draws(
        {"B": B[None], "L": L[None], "T": np.zeros((1, 2, 2))}, np.zeros(1, dtype=int), posterior.diagnostics, "", "",
        effects={"strata": u[None, :3].astype(np.float32)},
    )  # fmt: skip
    effect = fixed.effects["strata"][0].astype(float)[data.groups.parent][data.groups.record]
    plain = Draws(fixed.values, fixed.chain, fixed.diagnostics, "", "", effects={
        "strata": np.zeros((1, 3, 2), np.float32)})  # fmt: skip
    moved = next(synthesizer.simulations(data, fixed, [0], np.random.default_rng(8)))
    still = next(synthesizer.simulations(data, plain, [0], np.random.default_rng(8)))
    np.testing.assert_allclose(np.log(moved.outcomes / still.outcomes)[:, 0], effect[:, 0], rtol=1e-9, atol=1e-12)
    ratio = np.log(moved.count_weights / still.count_weights)
    np.testing.assert_allclose(ratio - ratio[0], effect[:, 1] - effect[0, 1], rtol=1e-9, atol=1e-12)
    for synthetic in (moved, still):  # both weights give the same counts by cell, and cells differ by PSU effects only
        sums = [np.bincount(data.cell, w) for w in (synthetic.weights, synthetic.count_weights)]
        np.testing.assert_allclose(*sums, rtol=1e-12)
    first = np.log(moved.weights) - effect[:, 1]
    assert max(np.ptp(first[data.cell == g]) for g in range(data.cell.max() + 1)) < 1e-9


# ---- weights that belong to PSUs


@pytest.mark.slow
@pytest.mark.parametrize("synthesizer", [model("gender"), population_model("gender")], ids=lambda s: s.name)
def test_weights_that_are_constant_within_psus_are_kept_and_predict(synthesizer):
    """Equal probabilities within PSUs, the commonest two-stage design: the weight is the PSU's, and public."""
    frame = clustered_frame(n=900, psus=90)
    log_weight = np.random.default_rng(1).normal(3, 0.5, 90)[frame["stratum"] + 3 * frame["psu"]]
    frame["wt"] = np.round(np.exp(log_weight), 6)
    frame["income"] *= np.exp(-0.8 * (log_weight - 3))
    release = ss.synthesize(clustered(frame), synthesizer, epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    for data in release.datasets:
        np.testing.assert_allclose(np.sort(data.weights), np.sort(frame["wt"]), rtol=1e-12)
        slope = np.polyfit(np.log(data.weights), np.log(data.frame["income"]), 1)[0]
        assert slope == pytest.approx(-0.8, abs=0.35)  # its standard error is about 0.1
    assert "function of the public PSUs" in str(release.privacy) and release.manifest()["weights"] == "public"


def test_psus_of_one_record_do_not_give_a_weight_away():
    frame = clustered_frame(n=60, psus=51)
    frame["wt"] = np.random.default_rng(1).lognormal(3, 0.5, 51)[frame["stratum"] + 3 * frame["psu"]]
    with pytest.raises(ss.ModelError, match="the survey weight is \\(nearly\\) constant within PSUs"):
        model("gender").prepare(clustered(frame, lonely_psu="remove"))


def test_an_outcome_of_psus_has_no_density_of_its_own():
    frame = clustered_frame()
    frame["income"] = 1000.0 + frame["psu"] + 50 * frame["stratum"]
    with pytest.raises(ss.ModelError, match="income is \\(nearly\\) constant within PSUs"):
        model("gender").prepare(clustered(frame))
    model("gender").prepare(clustered(frame), clusters="ignore")


def test_the_papers_fbp_has_no_effects():
    for synthesizer in (population_model(prior="paper"), ss.FBP.paper("income", "gender", prior="flat")):
        with pytest.raises(ss.ModelError, match="clusters='ignore'"):
            synthesizer.prepare(clustered())
        synthesizer.prepare(clustered(), clusters="ignore")


# ---- units


@pytest.mark.slow
def test_units_of_several_records_share_an_alpha_and_their_densities_add_up():
    frame = clustered_frame().assign(household=lambda f: np.arange(len(f)) // 2)
    fit = ss.fit(clustered(frame), model("gender"), epsilon=30, m=2, seed=1, unit="household", mechanism=PSEUDO)
    M = fit.synthesizer.lipschitz(fit.records, fit.weighted.posterior, fit.unit.by_record, fit.weighted.alpha.repeat(2))
    np.testing.assert_allclose(fit.weighted.bounds, fit.weighted.alpha * M, rtol=1e-12)
    assert 15 * 0.99 <= 2 * fit.delta <= 15 and len(fit.weighted.alpha) == 180
    release = fit.release()
    assert next(iter(release.privacy.neighbours)) == "add or remove all records of one 'household'"
    assert "same 'household' (their log densities add up)" in release.privacy.guarantee
    records = release.internal["records"]
    assert (records.groupby(frame["household"])["alpha"].nunique() == 1).all()
    assert "household" not in release.datasets[0].frame


def test_psus_as_units_count_their_labels_within_strata():
    from surveysynth.privacy.units import unit_of

    design = clustered()
    assert unit_of(design, "psu").by_record.max() + 1 == 30
    assert unit_of(design, "stratum").by_record.max() + 1 == 3
    assert unit_of(design, None).by_record is None


@pytest.mark.slow
def test_a_unit_of_one_record_each_is_a_record():
    frame = clustered_frame().assign(person=lambda f: f["id"].astype(str))
    one, other = (
        ss.fit(clustered(frame), model("gender"), epsilon=20, m=2, seed=1, unit=unit, mechanism=PSEUDO)
        for unit in (None, "person")
    )
    np.testing.assert_allclose(one.risk, other.unit.spread(other.risk), rtol=1e-12)
    assert one.delta == pytest.approx(other.delta, rel=1e-12)


@pytest.mark.slow
def test_sizes_of_psus_predict_where_they_differ():
    """Takes of 6 to 18 with weights inverse to them: without the sizes, counts would vary as the takes do."""
    rng = np.random.default_rng(3)
    psu = np.repeat(np.arange(60), rng.integers(6, 19, 60))
    frame = make_frame(len(psu)).assign(psu=psu)
    frame["wt"] = np.exp(rng.normal(0, 0.2, len(psu))) * (1000 / np.bincount(psu))[psu]
    design = ss.SurveyDesign(frame, weights="wt", psu="psu")
    data = model("gender").prepare(design)
    assert data.columns == ("Intercept", "gender[T.m]", "log(records of the PSU)")
    np.testing.assert_allclose(data.X[data.pattern, 2], np.log(np.bincount(psu))[psu])
    release = ss.synthesize(design, model("gender"), epsilon=30, m=10, seed=1, mechanism=PSEUDO)
    own, table = ss.estimate(design, by="gender", statistic="count"), release.tables("gender", statistic="count")
    assert (table["se"][:2] < 1.5 * own["se"][:2]).all()  # 1.1 as expected; without the sizes above 2
    assert "number of records of the PSU" in str(release.privacy)
    frame = make_frame(600).assign(psu=np.arange(600) % 60)
    equal = model("gender").prepare(ss.SurveyDesign(frame, weights="wt", psu="psu"))
    assert equal.columns == ("Intercept", "gender[T.m]")


def test_predictors_that_tell_the_psu_leave_it_no_effect():
    """Its mean is a coefficient then; and where every stratum has one PSU, the two are one level."""
    from surveysynth.models.predictors.groups import groups_of

    frame = clustered_frame().assign(town=lambda f: "t" + (f["stratum"] * 100 + f["psu"]).astype(str))
    design = ss.SurveyDesign(frame, weights="wt", psu="town")
    assert groups_of(design, ["gender", "town"]) is None
    assert groups_of(design, ["gender"]).describe() == "PSUs"
    frame["same"] = frame["town"]
    same = ss.SurveyDesign(frame, weights="wt", strata="town", psu="same", lonely_psu="remove")
    assert groups_of(same, ["gender"]).describe() == "PSUs"
    assert groups_of(same, ["gender", "town"]) is None


@pytest.mark.slow
def test_categories_alone_with_effects_and_a_public_weight():
    """No number at all is modelled, and the PSUs' effects are those on the categories."""
    frame = clustered_frame().assign(k=lambda f: (np.random.default_rng(1).random(len(f)) < 0.4).astype(int), one=10.0)
    for roles in ({}, {"psu": None}):
        design = clustered(frame, weights="one", **roles)
        fit = ss.fit(
            design, ss.FBS("C(k)", "gender", prior="flat"), epsilon=30, m=2, seed=1, draws=300, mechanism=PSEUDO,
            levels={"k": [0, 1]},
        )  # fmt: skip
        assert fit.records.Y.shape == (360, 0)
        release = fit.release(accept_diagnostics=["rhat", "ess_bulk", "ess_tail"])
        assert release.tables(statistic="proportion")["estimate"].between(0, 1).all()


@pytest.mark.slow
def test_corrections_do_not_know_whose_category_is_which():
    frame = clustered_frame().assign(k=lambda f: (np.random.default_rng(1).random(len(f)) < 0.4).astype(int))
    synthesizer = ss.FBS(["C(k)", "income"], "gender", prior="flat")
    data, posterior = fitted(clustered(frame), synthesizer, draws=50)
    moved = np.random.default_rng(2).permutation(360)
    other = synthesizer.prepare(clustered(frame.assign(k=frame["k"].to_numpy()[moved])))
    assert (other.pattern != data.pattern).any()

    def alpha(f):
        return np.minimum(1, 3 / f)

    one, two = (
        synthesizer.debias_draws(d, posterior, [3, 7], alpha, None, np.random.default_rng(5), debias=True)
        for d in (data, other)
    )
    for name in one.values:
        np.testing.assert_array_equal(one.values[name], two.values[name])


def test_debias_is_done_where_only_strata_have_effects():
    fit = ss.fit(clustered(psu=None), model("gender"), epsilon=12, m=2, seed=1, mechanism=PSEUDO)
    chosen, alpha = [5, 900], fit.mechanism.weigh_again(fit.weighted, fit.budget.bound)
    plain, better = (
        fit.synthesizer.debias_draws(fit.records, fit.weighted.posterior, chosen, alpha, None,
                                   np.random.default_rng(1), debias=debias)
        for debias in (False, True)
    )  # fmt: skip
    assert (better.values["L"][:, 0, 0] > 1.02 * plain.values["L"][:, 0, 0]).all()


@pytest.mark.slow
def test_fbp_weighs_psus_of_many_records_less_where_their_weights_are_small():
    """Outcomes rise and weights fall with the size of a PSU: the mean is not that of equal weights."""
    rng = np.random.default_rng(3)
    psu = np.repeat(np.arange(80), rng.integers(5, 30, 80))
    size = np.bincount(psu)[psu]
    frame = make_frame(len(psu)).assign(psu=psu, income=np.sqrt(size) * np.exp(rng.normal(0, 0.3, len(psu))))
    frame["wt"] = 1000 / size * np.exp(rng.normal(0, 0.2, len(psu)))
    design = ss.SurveyDesign(frame, weights="wt", psu="psu")
    release = ss.synthesize(design, population_model("gender"), epsilon=400, m=6, seed=1, mechanism=PSEUDO)
    own, table = ss.estimate(design, "income"), release.tables(statistic="mean")
    assert table.loc[0, "estimate"] == pytest.approx(own.loc[0, "estimate"], abs=2 * own.loc[0, "se"])
    assert frame["income"].mean() > own.loc[0, "estimate"] + 3 * own.loc[0, "se"]
