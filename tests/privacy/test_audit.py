"""The membership attack that measures everything anew: limits, games, and mechanisms that are not what they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import surveysynth as ss
from surveysynth.measuring import measure
from surveysynth.measuring.counting import Part
from surveysynth.studies.audit import files, limits, outputs, study
from surveysynth.studies.audit import games as played_games

BOUNDS, TOTAL = (0.0, 20_000.0), 20_000.0
COMMAND = ("study", "audit")


def frame(n=121, seed=1):
    rng = np.random.default_rng(seed)
    pay, w = np.exp(6.5 + 0.6 * rng.standard_normal(n)), rng.lognormal(-0.1, 0.4, n)
    return pd.DataFrame({"pay": pay, "w": TOTAL / n * w})


def own(n=121):
    return files.own(frame(n), "pay ~ 1", weights="w", bounds=BOUNDS, population_total=TOTAL)


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
        (frame().assign(pay=0.0), "pay ~ 1", "must be known and positive"),
    ):
        with pytest.raises(ss.InputError, match=said):
            files.own(changed, formula, **settings)


# ---- games


def few(monkeypatch, number=6):
    monkeypatch.setattr(study, "GAMES", number)


def test_an_audit_is_kept_gone_on_with_and_summed_up(tmp_path, monkeypatch):
    few(monkeypatch)
    settings = {"epsilon": [3.0], "planted": ["x10"], "out": tmp_path / "audit"}
    study.audit(own(), pairs=4, seed=3, **settings)
    cells = study.audit(own(), pairs=12, **settings)
    assert [cell.name for cell, _ in cells] == ["own_x10_3"]
    played = cells[0][1].all("games")
    assert played.groupby("side").size().to_dict() == dict.fromkeys(("in", "blank", "replaced"), 12)
    paths = outputs.write(cells, tmp_path / "audit")
    assert {path.name for path in paths} == {"audit.csv", "failures.csv", "summary.txt", "audit.png"}
    table = pd.read_csv(tmp_path / "audit" / "audit.csv")
    together = table["part"] == "all tables"
    assert table.loc[together, "relation"].tolist() == ["blank", "replaced"]
    assert table.loc[together, "stated"].tolist() == [3.0, 6.0]
    assert table.loc[~together].groupby("relation")["stated"].sum().tolist() == pytest.approx([3, 6])
    assert (table["lower"] <= table["stated"]).all() and (table["judged"] == 6).all()
    summary = (tmp_path / "audit" / "summary.txt").read_text()
    assert "Internal: it is of the confidential file" in summary
    assert f"Above the stated epsilon: none of {len(table)}." in summary


def test_what_is_refused_is_recorded(monkeypatch):
    few(monkeypatch)
    without = frame().assign(region=np.nan)
    file = files.own(without, "pay ~ region", weights="w", bounds=BOUNDS, population_total=TOTAL)
    cells = study.audit(file, epsilon=[3.0], planted=["x10"], pairs=1, seed=1)
    assert outputs.verdicts(cells).empty
    assert "x10: InputError in 1" in outputs.describe(outputs.verdicts(cells), cells)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
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
    assert "Strict, n = 121" in out
    assert "Internal: it is of the confidential file" in out
    assert Path("done/audit.csv").is_file() and Path("done/audit.png").is_file()
    for wrong, message in [
        ([*given, *words], "--data needs --population-total"),
        ([*words, "--weights", "w"], "--weights: only with --data"),
        (["--out", "x", "--planted", "magic"], "magic is not one of x10, x100, alone, two-modes, heavy"),
    ]:
        code, _, err = run_cli(*wrong)
        assert code == 2
        assert message in err


# ---- what tables tell


def by_half():
    """A file with a term, by which outcome, weight and their products are measured."""
    with_term = frame().assign(half=lambda f: np.arange(len(f)) % 2)
    return files.own(with_term, "pay ~ C(half)", weights="w", bounds=BOUNDS, population_total=TOTAL)


def judged(games=4_000, relations=("blank",), epsilon=10.8, file=None):
    """Lower limit and stated epsilon of each table and of all."""
    file = own() if file is None else file
    cell = study.Cell(file, "heavy", epsilon, 1)
    planted, rng = files.plant(file, "heavy"), np.random.default_rng(5)
    played = {side: played_games.noisy_tables(planted, side, epsilon, games, rng) for side in ("in", *relations)}
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
    monkeypatch.setattr(played_games, "FILES", 10**9)
    monkeypatch.setattr(played_games, "_file_shares", lambda *_: {"files_outcome": 0.0, "files_weight": 0.0})


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
    right = Part.count
    monkeypatch.setattr(Part, "count", lambda *of: 2 * right(*of))
    speaks = played_games._evidence

    def of_twice(table, *of):  # the intruder knows the rule
        return speaks(replace(table, counts=table.counts // 2), *of)

    monkeypatch.setattr(played_games, "_evidence", of_twice)
    assert "survey weight" in above(judged())["part"].tolist()


@pytest.mark.slow
def test_groups_that_follow_the_file_are_found(monkeypatch, quick):
    """The edge of the last group is at the highest weight of the file, and not where noisy counts say (epsilon 1)."""
    size = len(own().frame)

    def last(p):
        return np.flatnonzero(p >= 1 / size / 2)[-1]

    monkeypatch.setattr(measure, "table_groups", lambda p, *_, **__: (np.arange(len(p)) >= last(p)) * 1)
    assert above(judged(1_000, epsilon=1.0)).empty

    class Peeking(measure._Measured):
        def groups(self, *of, **more):
            part = self.file.counter
            self.p = np.bincount(part.codes[self.name], part.parts * np.ones(size), len(self.cells)) / size
            return super().groups(*of, **more)

    monkeypatch.setattr(measure, "_Measured", Peeking)
    assert above(judged(1_000, epsilon=1.0))["part"].tolist() == ["all tables"]
