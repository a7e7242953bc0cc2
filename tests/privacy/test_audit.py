"""The membership attack that recomputes everything: limits, games, and mechanisms that are not what they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import surveysynth as ss
from surveysynth.measuring import measure
from surveysynth.models.shared import clipped_fit
from surveysynth.models.shared.clipped_fit import NARROW, Density, clipped_target
from surveysynth.models.shared.normal_scores import NormalScores
from surveysynth.privacy import reference as references
from surveysynth.privacy.mechanisms import strict
from surveysynth.privacy.reference import Reference
from surveysynth.studies.audit import files, games, limits, outputs, study, tables
from surveysynth.studies.audit.games import CONTESTS, Stake, one_posterior, own_chains, play

BOUNDS, TOTAL = (0.0, 20_000.0), 20_000.0
COMMAND = ("study", "audit")


def frame(n=121, seed=1):
    rng = np.random.default_rng(seed)
    pay, w = np.exp(6.5 + 0.6 * rng.standard_normal(n)), rng.lognormal(-0.1, 0.4, n)
    return pd.DataFrame({"pay": pay, "w": TOTAL / n * w})


def public_reference():
    """A fit of another file, on a public scale."""
    other = frame(2001, 2)
    scores = ss.NormalScores.from_historical(frame(2002, 3)["pay"], source="made up")
    model = ss.FBS("pay", "1", transform=scores)
    return Reference.from_public(ss.SurveyDesign(other, weights="w"), model, source="made up", population_total=TOTAL)


def own(n=121, **settings):
    return files.own(frame(n), "pay ~ 1", weights="w", bounds=BOUNDS, population_total=TOTAL, **settings)


# ---- limits


def test_limits_are_those_of_clopper_and_pearson():
    for hits in (0, 1, 7, 40):
        low, high = limits.clopper_pearson(hits, 40)
        exact = binomtest(hits, 40).proportion_ci(0.95, method="exact")
        assert (low, high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_of_randomized_response_the_empirical_epsilon_is_about_the_true_one():
    rng = np.random.default_rng(1)
    truth = np.e / (1 + np.e)
    inside, outside = ((rng.random((4000, 1)) < p).astype(float) for p in (truth, 1 - truth))
    found = limits.judge(inside, outside)
    assert found.games == 2000
    assert found.point == pytest.approx(1, abs=0.15)
    assert 0.75 < found.lower < 1 < found.most


def test_an_event_that_is_likelier_without_the_record_counts_too():
    rng = np.random.default_rng(2)
    inside, outside = ((rng.random((4000, 1)) < p).astype(float) for p in (0.99, 0.8))  # 0 is 20 times as likely "out"
    found = limits.judge(inside, outside)
    assert found.direction == "out"
    assert 2 < found.lower < np.log(20)


@pytest.mark.slow
def test_the_test_is_not_judged_on_the_games_that_chose_it():
    """Noise alone: of many files the lower limit is above 0 in few."""
    rng = np.random.default_rng(3)
    lower = [limits.judge(*rng.standard_normal((2, 200, 5))).lower for _ in range(200)]
    assert np.mean(np.array(lower) > 0) <= 0.05


def test_delta_is_taken_off():
    some, none = np.repeat([1.0, 0.0], [20, 980])[:, None], np.zeros((1000, 1))
    mixed = np.random.default_rng(4).permutation(some)
    assert limits.judge(mixed, none).lower > limits.judge(mixed, none, delta=0.005).lower
    assert limits.judge(mixed, none, delta=0.05).lower <= 0


# ---- files


def test_files_differ_in_the_planted_record_alone():
    file = own()
    y = file.frame["pay"].to_numpy()
    for how, factor in files.FACTORS.items():
        pair = files.plant(file, how)
        planted, typical = (design.numeric("pay") for design in (pair.design, pair.typical))
        assert y[pair.row] == np.median(y)
        assert planted[pair.row] == factor * y[pair.row]
        np.testing.assert_array_equal(typical, y)
        np.testing.assert_array_equal(np.flatnonzero(planted != typical), [pair.row])
        heavier = (pair.design.weights / pair.typical.weights)[pair.row]
        assert heavier == pytest.approx(10 if how == "heavy" else 1)
    alone = files.plant(file, "alone")
    assert alone.formula == "pay ~ 1 + alone"
    np.testing.assert_array_equal(np.flatnonzero(alone.design.numeric("alone")), [alone.row])


def test_of_two_modes_the_planted_record_decides():
    pair = files.plant(own(), "two-modes")
    for design, more in ((pair.design, 1), (pair.typical, -1)):
        high = design.numeric("pay") > np.exp(6.5)
        assert high.sum() - (~high).sum() == more


def test_files_that_do_not_suit_are_refused():
    settings = {"weights": "w", "bounds": BOUNDS, "population_total": TOTAL}
    for changed, formula, said in (
        (frame(), "pay", "formula names the outcome"),
        (frame(), "pay ~ region", "region: no such columns"),
        (frame().assign(alone=1), "pay ~ 1", "rename it"),
        (frame().assign(pay=0.0), "pay ~ 1", "positive amounts alone"),
    ):
        with pytest.raises(ss.InputError, match=said):
            files.own(changed, formula, **settings)


# ---- games


def test_a_blanked_record_leaves_the_histogram_and_nothing_else():
    design, rng = ss.SurveyDesign(frame(), weights="w"), np.random.default_rng
    full = NormalScores.private(design, "pay", bounds=BOUNDS, epsilon=5, rng=rng(1))
    without = full.blanked(design.numeric("pay")[[3]])
    moved = np.array(full.counts) - np.array(without.counts)
    assert sorted(moved)[-2:] == pytest.approx([0, 1])
    assert np.abs(moved).sum() == pytest.approx(1)
    assert without.n == full.n == 121


@pytest.mark.parametrize(("side", "value"), [("in", "planted"), ("replaced", "typical")])
def test_what_a_record_speaks_by_is_the_log_ratio_of_the_targets_with_and_without_it(side, value):
    file = files.plant(own(reference=public_reference()), "x10")
    sampler = ss.models.draws.Sampler(None, np.random.default_rng(1), 1, 20, 30)
    played = play(ss.Strict(reference=file.reference), file, side, Stake(3.0, 1), sampler)
    records, posterior, fitted = played.records, played.fitted.posterior, played.fitted
    reference = Density(**{name: value[0] for name, value in fitted.reference.values.items()})
    present, a = np.ones(records.n), fitted.alpha.max()
    present[file.row] = 0
    settings = reference, np.full(records.n, a), fitted.clamp / a, NARROW, True, None, None
    with_it, without = (
        clipped_target(records.X, records.pattern, records.Y, *settings, p) for p in (None, present)
    )  # fmt: skip
    np.testing.assert_array_equal(with_it.tempering, without.tempering)
    part, points = with_it.parts[0], []
    for s in range(posterior.size):  # back from parameters to the point that they come from
        L, B = posterior["L"][s], posterior["B"][s]
        form = np.linalg.solve(reference.L, L)
        beta = np.linalg.lstsq(part.Q, (B - reference.B) @ np.linalg.inv(reference.L).T, rcond=None)[0]
        delta = np.log(np.diag(form))
        kappa = posterior["kappa"][s] * np.exp(delta[-1])
        points.append(np.concatenate([beta.ravel(), delta, form[1:2, 0], kappa, posterior["eta"][s]]))
    moved = [with_it.function()(point)[0] - without.function()(point)[0] for point in points]
    spoken = played.evidence(posterior, posterior.size)[f"{value}_draws"]
    np.testing.assert_allclose(spoken, moved, atol=1e-8)
    assert np.ptp(moved) > 0.01 or side == "in"  # the planted record may always be at the clamp


def test_the_histogram_speaks_by_the_log_ratio_of_laplace_densities():
    file = files.plant(own(), "x100")
    sampler = ss.models.draws.Sampler(None, np.random.default_rng(1), 1, 20, 10)
    played = play(ss.Strict(), file, "blank", Stake(8.0, 1), sampler)
    found = played.evidence(played.fitted.posterior.some([9]), 1).iloc[0]
    scores = played.model.private_scores["pay"]
    y = np.delete(file.design.numeric("pay"), file.row)
    others, with_it = (files_counts(values) for values in (y, np.append(y, file.design.numeric("pay")[file.row])))
    counts, scale = np.array(scores.counts), 1 / scores.epsilon
    ratio = (np.abs(counts - others) - np.abs(counts - with_it)).sum() / scale
    assert found["planted_histogram"] == pytest.approx(ratio)
    assert abs(found["planted_histogram"]) <= scores.epsilon + 1e-9
    first = dict(played.fitted.parts)["first draw"]
    assert 0 < abs(found["planted_first"]) <= first / 2 + 1e-9
    assert abs(found["planted_draws"]) <= played.fitted.clamp + 1e-9


def files_counts(y):
    return games.binned(y, BOUNDS)


def test_games_have_chains_of_their_own_where_those_of_many_do_not_agree(monkeypatch):
    file = files.plant(own(reference=public_reference()), "x10")
    mechanism, stake = ss.Strict(reference=file.reference), Stake(3.0, 2)
    monkeypatch.setattr(games, "RHAT_LIMIT", 0.9)
    apart = one_posterior(mechanism, file, "in", stake, 3, np.random.default_rng(6))
    assert len(apart) == 3 and not apart["agreed"].any()
    assert apart["planted_unclamped"].nunique() == 3


def few(monkeypatch, number=6):
    for name, contest in CONTESTS.items():
        player = contest.player if contest.by_table else own_chains
        monkeypatch.setitem(CONTESTS, name, replace(contest, player=player, games=number))


def test_an_audit_is_kept_gone_on_with_and_summed_up(tmp_path, monkeypatch):
    few(monkeypatch)
    settings = {"epsilon": [3.0], "planted": ["x10"], "mechanisms": ["strict-history"], "out": tmp_path / "audit"}
    file = own(reference=public_reference())
    study.audit(file, pairs=4, seed=3, **settings)
    cells = study.audit(file, pairs=12, **settings)
    assert [cell.name for cell, _ in cells] == ["own_strict-history_x10_3_m_1"]
    played = cells[0][1].all("games")
    assert played.groupby("side").size().to_dict() == dict.fromkeys(("in", "blank", "replaced"), 12)
    paths = outputs.write(cells, tmp_path / "audit")
    assert {path.name for path in paths} == {"audit.csv", "failures.csv", "summary.txt", "audit.png"}
    table = pd.read_csv(tmp_path / "audit" / "audit.csv")
    assert table["relation"].tolist() == ["blank", "replaced"]
    assert table["stated"].tolist() == [3.0, 6.0]
    assert (table["lower"] <= table["stated"]).all() and (table["judged"] == 6).all()
    summary = (tmp_path / "audit" / "summary.txt").read_text()
    assert "Internal: it is of the confidential file" in summary and "Above the stated epsilon: none of 2." in summary


def test_what_epsilon_does_not_allow_is_recorded(monkeypatch):
    few(monkeypatch)
    cells = study.audit(own(), epsilon=[0.5], planted=["x10"], mechanisms=["strict-chains"], pairs=1, seed=1)
    assert outputs.verdicts(cells).empty
    assert "PrivacyError" in outputs.describe(outputs.verdicts(cells), cells)
    cells = study.audit(own(), epsilon=[3.0], planted=["x10"], mechanisms=["strict-history"], pairs=1, seed=1)
    assert "give reference=" in outputs.failures(cells)["reason"].iloc[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mechanisms": ["laplace"]}, "laplace is not one of strict, strict-chains, strict-history"),
        ({"planted": ["x7"]}, "x7 is not one of x10, x100, alone, two-modes, heavy"),
        ({"epsilon": [-1.0]}, "epsilon"),
        ({"pairs": 0}, "pairs"),
        ({"n": 50}, "n is of the package's own file"),
    ],
)
def test_settings_that_do_not_suit_are_refused(settings, said):
    with pytest.raises(ss.InputError, match=said):
        study.audit(own(), **settings)


@pytest.mark.slow
def test_the_command_does_it_and_says_what_is_wrong(folder, run_cli, monkeypatch):
    few(monkeypatch, 4)
    frame().to_csv("file.csv", index=False)
    given = ["--data", "file.csv", "--formula", "pay ~ 1", "--bounds", "0,20000", "--weights", "w"]
    words = ["--out", "done", "--epsilon", "8", "--planted", "x100", "--pairs", "4", "--workers", "1"]
    code, out, _ = run_cli(*given, "--population-total", "20000", *words)
    assert code == 0
    assert "Strict, n = 121, m = 1" in out
    assert "Internal: it is of the confidential file" in out
    assert Path("done/audit.csv").is_file() and Path("done/audit.png").is_file()
    for wrong, message in [
        ([*given, *words], "--data needs --population-total"),
        ([*words, "--weights", "w"], "--weights: only with --data"),
        ([*words, "--mechanisms", "magic"], "magic is not one of strict, strict-chains, strict-history"),
    ]:
        code, _, err = run_cli(*wrong)
        assert code == 2
        assert message in err


# ---- mechanisms that are not what they say


def audited(file, mechanism_of, epsilon, number, player=one_posterior, relation="blank"):
    """The verdict on a mechanism that may depend on the side, and whether chains agreed."""
    sides = {}
    for k, side in enumerate(("in", relation)):
        rng = np.random.default_rng([7, k])
        sides[side] = player(mechanism_of(side), file, side, Stake(epsilon, 1), number, rng)
    found = limits.judge(*(outputs.spoken(sides[side], relation) for side in ("in", relation)))
    return found, all(games["agreed"].all() for games in sides.values())


@pytest.mark.slow
def test_the_strict_mechanism_stays_below_the_epsilon_that_it_states():
    file = files.plant(own(201, reference=public_reference()), "x10")
    found, agreed = audited(file, lambda side: ss.Strict(reference=file.reference), 3.0, 500)
    assert agreed
    assert found.lower <= 3 < found.most


@pytest.mark.slow
def test_a_clamp_that_is_left_out_is_found(monkeypatch):
    """The same tempering, and nothing cut off: a far record pulls the spread to itself."""
    long_enough = strict._long_enough

    def unclamped(pseudo, reference, tempering, clamp, present, *, first):
        return long_enough(pseudo, reference, tempering, 200 * clamp, present, first=first)

    monkeypatch.setattr(strict, "_long_enough", unclamped)
    file = files.plant(own(reference=public_reference()), "x100")
    found, _ = audited(file, lambda side: ss.Strict(reference=file.reference), 1.0, 400)
    assert found.lower > 1


@pytest.mark.slow
def test_a_reference_that_is_fitted_on_the_file_is_found(monkeypatch):
    sampler = references.Sampler
    monkeypatch.setattr(  # the same chains in every run
        references, "Sampler", lambda engine, rng, *lengths: sampler(engine, np.random.default_rng([7, 2]), *lengths)
    )
    file = files.plant(own(reference=public_reference()), "x100")

    def fitted(side):
        design = file.design if side == "in" else file.typical
        model = file.reference.synthesizer
        reference = Reference.from_public(design, model, source="this file", population_total=TOTAL)
        return ss.Strict(reference=replace(reference, rests_on=()))  # as if it had not seen the file

    found, _ = audited(file, fitted, 1.0, 3000, relation="replaced")
    assert found.lower > 2


@pytest.mark.slow
def test_chains_that_start_at_a_fit_of_the_file_are_found(monkeypatch):
    """In a file with two modes one record decides where all of them start, and chains do not move between modes."""
    file = files.plant(own(201, reference=public_reference()), "two-modes")
    public = clipped_fit.ClippedTarget.starts

    def at_the_larger_half(target, chains, rng):
        part = target.parts[0]
        v, point = part.v[0, part.a > 0], public(target, 1, rng)[0].copy()
        point[0] = np.where((v > 0).sum() > (v < 0).sum(), 1, -1) * np.abs(v).mean() / part.W[0, 0]
        return [point] * chains

    monkeypatch.setattr(clipped_fit.ClippedTarget, "starts", at_the_larger_half)
    found, _ = audited(file, lambda side: ss.Strict(reference=file.reference), 3.0, 300, own_chains)
    assert found.lower > 3


# ---- noisy tables


def by_half():
    """A file with a term, by which outcome, weight and their products are measured."""
    with_term = frame().assign(half=lambda f: np.arange(len(f)) % 2)
    return files.own(with_term, "pay ~ C(half)", weights="w", bounds=BOUNDS, population_total=TOTAL)


def judged(games=4_000, relations=("blank",), epsilon=10.8, file=None):
    """Lower limit and stated epsilon of each table and of all."""
    file = own() if file is None else file
    cell = study.Cell(file, "strict", "heavy", Stake(epsilon, 1), 1)
    planted, rng = files.plant(file, "heavy"), np.random.default_rng(5)
    played = {side: tables.noisy_tables(planted, side, epsilon, games, rng) for side in ("in", *relations)}
    found = []
    for relation in relations:
        times = {"blank": 1, "replaced": 2}[relation]
        for read in outputs.by_table(cell, [played["in"], played[relation]], relation):
            verdict = limits.judge(read.inside, read.outside, level=0.01)
            found.append((relation, read.part, verdict.lower, times * read.share * epsilon))
    return pd.DataFrame(found, columns=["relation", "part", "lower", "stated"])


@pytest.fixture
def quick(monkeypatch):
    """A smooth fit of public numbers alone, no files, and numpy's noise, from a seed: games take a millisecond."""
    rng, with_noise = np.random.default_rng(7), measure.noisy
    monkeypatch.setattr(measure, "noisy", lambda counts, epsilon, _, **k: with_noise(counts, epsilon, rng, **k))
    monkeypatch.setattr(measure, "smoothed", lambda table, cells, n: np.full(len(cells), 1 / len(cells)))
    monkeypatch.setattr(tables, "FILES", 10**9)
    monkeypatch.setattr(tables, "_of_a_file", lambda *_: {"files_outcome": 0.0, "files_weight": 0.0})


def above(found):
    return found[found["lower"] > found["stated"]]


@pytest.mark.slow
def test_no_noisy_table_tells_more_than_it_states(quick):
    found = judged(relations=("blank", "replaced"))
    assert above(found).empty
    # and the attack is nearly as strong as can be
    assert (found["lower"] / found["stated"])[found["part"] == "survey weight"].max() > 0.75


@pytest.mark.slow
def test_sums_of_products_tell_no_more_than_they_state_and_those_with_too_little_noise_are_found(quick, monkeypatch):
    part, right = "survey weight by half, products", measure.noisy
    # a fit by which both values of the planted record are beyond the highest scores
    low = np.exp(-np.arange(500) / 4)
    monkeypatch.setattr(measure, "smoothed", lambda table, cells, n: low[: len(cells)] / low[: len(cells)].sum())
    assert above(judged(1_500, ("blank", "replaced"), 40, by_half())).empty

    def with_less(counts, epsilon, *a, unit, **law):
        return right(counts, epsilon, *a, unit=unit / 2 if unit == 1_000**2 else unit, **law)

    monkeypatch.setattr(measure, "noisy", with_less)
    assert part in above(judged(1_500, epsilon=40, file=by_half()))["part"].tolist()


@pytest.mark.slow
def test_noise_that_is_a_fifth_too_small_is_found(quick, monkeypatch):
    right = measure.noisy
    monkeypatch.setattr(measure, "noisy", lambda counts, epsilon, *a, **k: right(counts, 1.25 * epsilon, *a, **k))
    assert "survey weight" in above(judged())["part"].tolist()


@pytest.mark.slow
def test_a_record_that_is_counted_twice_is_found(quick, monkeypatch):
    right = measure.counted
    monkeypatch.setattr(measure, "counted", lambda *a, **k: 2 * right(*a, **k))
    speaks = tables._speaks

    def of_twice(table, *of):  # the intruder knows the rule
        return speaks(replace(table, counts=table.counts // 2), *of)

    monkeypatch.setattr(tables, "_speaks", of_twice)
    assert "survey weight" in above(judged())["part"].tolist()


@pytest.mark.slow
def test_groups_that_follow_the_file_are_found(monkeypatch, quick):
    """The edge of the last group is at the highest weight of the file, and not where noisy counts say (epsilon 1)."""
    size = len(own().frame)

    def last(p):
        return np.flatnonzero(p >= 1 / size / 2)[-1]

    monkeypatch.setattr(measure, "groups_of", lambda p, *_, **__: (np.arange(len(p)) >= last(p)) * 1)
    assert above(judged(1_000, epsilon=1.0)).empty

    class Peeking(measure._Measured):
        def by(self, *of, **more):
            self.p = np.bincount(self.code, self.parts * np.ones(size), len(self.cells)) / size
            super().by(*of, **more)

    monkeypatch.setattr(measure, "_Measured", Peeking)
    assert above(judged(1_000, epsilon=1.0))["part"].tolist() == ["all tables"]
