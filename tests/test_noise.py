"""Laplace tables: sensitivities by hand and by brute force, the size of the noise, the budget, adding up."""

from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma, kstest
from surveys import make_design, make_frame

import surveysynth as ss
from surveysynth import InputError, SurveyDesign
from surveysynth.design.replicates.preston import preston
from surveysynth.estimation.tables import partitions_of
from surveysynth.noise import laplace
from surveysynth.release import laplace as noise
from surveysynth.release.laplace import LaplaceTables, add_up, laplace_tables
from surveysynth.release.sensitivity import strict

BY = ["field", "gender"]
BOUNDS = {"weight": (5, 400), "income": (0, 500_000)}
FALSE_ALARM = 1e-7


@contextmanager
def recorded(variance=None):
    """No noise, replicates from a seed, and every query on record: (values, sensitivity, epsilon)."""
    asked = []

    def record(values, sensitivity, epsilon):
        asked.append((values, sensitivity, epsilon))
        return values, 2 * (sensitivity / epsilon) ** 2 if variance is None else variance

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "laplace", record)
        seeded = lambda stages, R, rng, *lonely: preston(stages, R, np.random.default_rng(8), *lonely)  # noqa: E731
        patch.setattr(noise, "preston", seeded)
        yield asked


@pytest.fixture
def silent():
    with recorded() as asked:
        yield asked


# ---- sensitivities


def test_local_sensitivities_by_hand(silent):
    frame = pd.DataFrame({
        "g": ["a", "a", "a", "b", "b"],
        "y": [10.0, 2.0, 4.0, 5.0, 1.0],
        "w": [1.0, 3.0, 2.0, 4.0, 6.0],
    })  # fmt: skip
    laplace_tables(SurveyDesign(frame, weights="w"), "y", "g", 8.0)
    sensitivities = [sensitivity for _, sensitivity, _ in silent]
    # counts, eq. 8: cells a 3 - 1 = 2 and b 6 - 4 = 2; total 6 - 1 = 5
    assert sensitivities[:4] == [2, 2, 5, 5]
    # w y = 10, 6, 8 | 20, 6.  Means, eq. 9: a (10 - 6)/(6 - 2) = 1, b (20 - 6)/(10 - 2) = 1.75;
    # total (20 - 6)/(16 - 5) = 14/11
    np.testing.assert_allclose(sensitivities[4:], [1.75, 1.75, 14 / 11, 14 / 11])
    np.testing.assert_allclose(silent[4][0], [24 / 6, 26 / 10])


def test_equation_9_is_no_bound_for_replacing_a_record(silent):
    """The example of the module, and a file where the mean moves by more than twice eq. 9."""

    def mean_and_equation_9(w, y):
        silent.clear()
        laplace_tables(SurveyDesign(pd.DataFrame({"w": w, "y": y}), weights="w"), "y", None, 1.0)
        return silent[2][0][0], silent[2][1]

    before, bound = mean_and_equation_9([1.0, 10.0], [10.0, 1.0])
    after, _ = mean_and_equation_9([1.0, 1.0], [10.0, 10.0])
    assert (bound, after) == (0.0, 10.0) and before == pytest.approx(20 / 11)

    w, y = np.array([0.3, 1.3, 2.0, 3.0]), np.array([12.0, 1.0, 0.8, 0.4])
    before, bound = mean_and_equation_9(w, y)
    moves = []
    for i, j in permutations(range(4), 2):
        copy = np.arange(4)
        copy[i] = j  # record j in place of record i
        moves.append(abs(mean_and_equation_9(w[copy], y[copy])[0] - before))
    assert max(moves) > 2 * bound > 0


def test_doubled_replicate_weights_double_the_move_of_a_count(silent):
    """Eq. 8 bounds the move of a count within the observed weights; a replicate moves by twice that."""
    frame = make_frame(40)

    def counts(weight):
        silent.clear()
        design = SurveyDesign(frame.assign(wt=frame["wt"].where(frame.index != weight[0], weight[1])), weights="wt")
        laplace_tables(design, "income", None, 1.0, replicates=30)
        return silent[0], silent[1]

    heavy, light = frame["wt"].idxmax(), frame["wt"].min()
    (before, before_r), (after, after_r) = counts((heavy, frame["wt"].max())), counts((heavy, light))
    assert abs(after[0] - before[0]) == pytest.approx(before[1])
    assert np.abs(after_r[0] - before_r[0]).max() == pytest.approx(2 * before_r[1])


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(2, 7), min_size=1, max_size=3),
    records=st.integers(1, 2),
    seed=st.integers(0, 2**32 - 1),
    y_bounds=st.sampled_from([(0.0, 100.0), (-50.0, 30.0), (-9.0, -2.0), (1e6, 1e6 + 1)]),
    w_bounds=st.sampled_from([(0.0, 9.0), (2.0, 50.0)]),
    point_share=st.floats(0.05, 0.95),
)
def test_strict_privacy_loss_by_brute_force(sizes, records, seed, y_bounds, w_bounds, point_share):
    """No replacement of a record moves a query by more than its sensitivity, nor all of them by more than epsilon."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(sum(sizes)), records)
    n, epsilon = unit.size, 1.7
    frame = pd.DataFrame({
        "psu": unit, "h": np.repeat(np.arange(len(sizes)), sizes)[unit],
        "a": rng.integers(0, 2, n), "b": rng.integers(0, 2, n),
        "w": rng.uniform(*w_bounds, n) + 1e-3, "y": rng.uniform(*y_bounds, n),
    })  # fmt: skip
    i = rng.integers(n)
    spread = y_bounds[1] - y_bounds[0]
    # the corners of the box, a point inside it, and one far outside that is clipped to it
    values = [(max(w, 1e-300), y) for w in w_bounds for y in y_bounds]
    values += [(frame["w"][i], frame["y"][i]), (1e3 * w_bounds[1], y_bounds[1] + 1e3 * spread)]
    answers = []
    for w, y in values:
        with recorded() as asked:
            changed = frame.copy()
            changed.loc[i, ["w", "y"]] = w, y
            design = SurveyDesign(changed, weights="w", strata="h", psu="psu")
            bounds = {"weight": w_bounds, "y": y_bounds}
            laplace_tables(
                design, "y", ["a", "b"], epsilon, kind="strict", bounds=bounds, point_share=point_share, replicates=4
            )
            answers.append(asked)
    largest = 0.0
    for one, other in combinations(answers, 2):
        loss = Fraction(0)
        for (x, sensitivity, each), (x_, sensitivity_, each_) in zip(one, other, strict=True):
            assert (sensitivity, each) == (sensitivity_, each_)  # the noise tells nothing
            moved = np.abs(np.atleast_2d(x) - np.atleast_2d(x_)).sum(axis=1)  # of the point, or of each replicate
            assert (moved <= sensitivity).all()
            loss += Fraction(moved.sum() / sensitivity) * Fraction(each)
            if x.ndim == 1:
                largest = max(largest, moved.max() / sensitivity)
        assert loss <= Fraction(epsilon)
    assert largest > 1 - 1e-6  # and the bound is reached: noise is no larger than it must be


@pytest.mark.parametrize(("n_h", "largest"), [(8, 2.0), (7, 1 + np.sqrt(3 / 4) * (7 / 3 - 1))])
def test_the_sensitivity_of_a_replicate_is_reached(n_h, largest, silent):
    frame = pd.DataFrame({"w": np.full(n_h, 2.0), "y": 3.0})
    tables = laplace_tables(
        SurveyDesign(frame, weights="w"), "y", None, 1.0, kind="strict", bounds={"weight": (2, 9), "y": (1, 3)}
    )
    before = silent[1][0]
    assert silent[1][1] == pytest.approx(7 * largest) and silent[3][1] == pytest.approx((27 - 2) * largest)
    np.testing.assert_array_equal(tables.budget["sensitivity"], [s for _, s, _ in silent])
    silent.clear()
    frame.loc[0, "w"] = 9.0
    laplace_tables(
        SurveyDesign(frame, weights="w"), "y", None, 1.0, kind="strict", bounds={"weight": (2, 9), "y": (1, 3)}
    )
    moved = np.abs(silent[1][0] - before)
    assert moved.max() == pytest.approx(7 * largest)


def test_the_sensitivity_of_a_replicate_of_two_stages_is_reached(silent):
    frame = pd.DataFrame({"p": np.repeat(range(5), 3), "s": np.arange(15), "w": 2.0, "y": 3.0, "N1": 5, "N2": 20})
    arguments = {"kind": "strict", "bounds": {"weight": (2, 9), "y": (1, 3)}, "replicates": 40}
    for w in (2.0, 9.0):
        frame.loc[0, "w"] = w
        design = SurveyDesign(frame, weights="w", psu=["p", "s"], fpc=["N1", "N2"])
        laplace_tables(design, "y", None, 1.0, **arguments)
    # f_1 = 1, so the first stage adds nothing; of 5 PSUs 2 are kept, and of 3 units one, with f = 3/20 and (3 - 1) more
    largest = 1 + np.sqrt(5 / 2) * np.sqrt(1 * (1 - 3 / 20) / (3 - 1)) * (3 - 1)
    assert silent[1][1] == pytest.approx(7 * largest)
    assert np.abs(silent[5][0] - silent[1][0]).max() == pytest.approx(7 * largest)


def test_rounding_is_part_of_the_sensitivity():
    """A sum of 64 terms near 1e15 is rounded to multiples of 8: it moves by more than its terms, which move by 1."""
    weight, bounds = (1.0, 1 + 2**-52), (1e15, 1e15 + 1)
    design = SurveyDesign(pd.DataFrame({"w": np.ones(64)}), weights="w")
    partition, boot = partitions_of(design, [])[0], preston(design.stages, 20, np.random.default_rng(0))
    moved, moved_r, rng = 0.0, 0.0, np.random.default_rng(0)
    for _ in range(4):
        up = rng.integers(0, 2, 64)
        before = strict(np.ones(64), bounds[0] + up, partition, boot, weight, bounds)
        for i in range(64):
            after = strict(np.ones(64), bounds[0] + (up ^ (np.arange(64) == i)), partition, boot, weight, bounds)
            moved = max(moved, abs(after.point - before.point)[0])
            moved_r = max(moved_r, np.abs(after.replicated - before.replicated).max())
    ideal = weight[1] * bounds[1] - weight[0] * bounds[0]
    assert ideal < moved <= before.sensitivity and 2 * ideal < moved_r <= before.replicate_sensitivity


# ---- the size of the noise


def scale_is(drawn, scale):
    """Whether draws fit a Laplace scale: sum |x| / scale is Gamma(N), tested at FALSE_ALARM."""
    total = np.abs(drawn).sum() / scale
    low, high = gamma.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], np.size(drawn))
    return low < total < high


def assert_scale(drawn, scale):
    assert scale_is(drawn, scale)
    assert not scale_is(drawn, 1.3 * scale) and not scale_is(drawn, 0.7 * scale)


def test_the_noise_is_laplace():
    values = np.full((100, 200), 123.4)
    noisy, variance = laplace(values, 3.0, 0.5)
    drawn = (noisy - values).ravel()
    assert noisy.shape == values.shape and variance == pytest.approx(2 * 6.0**2)
    assert_scale(drawn, 6.0)
    assert kstest(drawn, "laplace", (0, 6.0)).pvalue > FALSE_ALARM
    assert kstest(drawn, "norm", (0, np.sqrt(variance))).pvalue < FALSE_ALARM  # a check that can fail


def test_opendp_agrees_that_the_epsilon_is_spent_and_no_more(monkeypatch):
    import opendp.prelude as dp

    made, make = [], dp.m.make_laplace
    monkeypatch.setattr(dp.m, "make_laplace", lambda *space, scale: made.append(make(*space, scale=scale)) or made[-1])
    rng = np.random.default_rng(9)
    for sensitivity, epsilon in zip(np.exp(rng.normal(0, 9, 300)), np.exp(rng.normal(0, 4, 300)), strict=True):
        laplace(np.zeros(1), sensitivity, epsilon)
        assert epsilon * (1 - 1e-14) < made[-1].map(sensitivity) <= epsilon


def many_cells(cells=4000, **columns):
    rng = np.random.default_rng(10)
    n = 2 * cells
    frame = pd.DataFrame({"cell": np.repeat(np.arange(cells), 2), "w": rng.uniform(100, 200, n)})
    return frame.assign(y=rng.uniform(50, 80, n), N=n, **columns)


def cell_rows(tables, statistic):
    table = tables.table
    return table[(table["statistic"] == statistic) & (table["cell"] != "all")]


def test_noise_of_local_tables():
    frame = many_cells()
    # a complete sample: replicates differ from the point by their noise alone
    design = SurveyDesign(frame, weights="w", fpc="N")
    tables = laplace_tables(design, "y", "cell", 50.0, point_share=0.4, replicates=2)
    w, wy = frame["w"].groupby(frame["cell"]), (frame["w"] * frame["y"]).groupby(frame["cell"])
    spread = w.max() - w.min()
    eq8, eq9 = spread.max(), ((wy.max() - wy.min()) / (w.sum() - spread)).max()
    for s, exact, sensitivity in (("count", w.sum(), eq8), ("mean", wy.sum() / w.sum(), eq9)):
        table = cell_rows(tables, s)
        point, replicate = sensitivity / (50 / 4 * 0.4), sensitivity / (50 / 4 * 0.6 / 2)
        assert_scale(table["estimate"].to_numpy() - exact.to_numpy(), point)
        # (replicate - point)^2 has mean 2 replicate^2 + 2 point^2; its average over 4000 x 2 is within 20% (8 sigma)
        average = (table["se"] ** 2).mean()
        fits = [0.8 < average / (2 * (k * replicate) ** 2 + 2 * point**2) < 1.2 for k in (1, 0.7, 1.3)]
        assert fits == [True, False, False]


def test_noise_of_strict_tables():
    frame = many_cells()
    design = SurveyDesign(frame, weights="w")
    bounds = {"weight": (90, 190), "y": (60, 100)}
    tables = laplace_tables(design, "y", "cell", 300.0, kind="strict", bounds=bounds, point_share=0.5, replicates=2)
    w, y = frame["w"].clip(90, 190), frame["y"].clip(60, 100)
    count, mean = (cell_rows(tables, s)["estimate"].to_numpy() for s in ("count", "mean"))
    assert_scale(count - w.groupby(frame["cell"]).sum().to_numpy(), 100 / (300 / 8))
    assert_scale(mean * count - (w * y).groupby(frame["cell"]).sum().to_numpy(), (190 * 100 - 90 * 60) / (300 / 8))


# ---- the budget


@given(
    epsilon=st.floats(1e-6, 1e6),
    pairs=st.integers(1, 300),
    point_share=st.floats(0.01, 0.99),
    replicates=st.integers(1, 200),
)
def test_shares_add_up_exactly(epsilon, pairs, point_share, replicates):
    shares = noise._shares(epsilon, pairs, point_share, replicates)
    assert sum(Fraction(point) + replicates * Fraction(replicate) for point, replicate in shares) == Fraction(epsilon)
    expected = epsilon / pairs * np.array([point_share, (1 - point_share) / replicates])
    np.testing.assert_allclose(shares, np.tile(expected, (pairs, 1)), rtol=1e-8)


@pytest.mark.parametrize(
    ("by", "outcome", "cells", "tables"),
    [(None, "income", 1, 2), (BY, "income", 4, 2), (["gender"], ["income", "hours"], 2, 3)],
)
@pytest.mark.parametrize("kind", ["local", "strict"])
def test_the_budget_frame_is_what_was_spent(kind, by, outcome, cells, tables, silent):
    bounds = BOUNDS | ({"hours": (0, 100)} if "hours" in outcome else {})
    arguments = {"kind": "strict", "bounds": bounds} if kind == "strict" else {}
    made = laplace_tables(make_design(), outcome, by, 10.8, point_share=0.3, **arguments)
    budget = made.budget
    spent = [Fraction(e) * q for e, q in zip(budget["epsilon_each"], budget["queries"], strict=True)]
    assert sum(spent) == Fraction(10.8)
    assert budget["epsilon_each"].tolist() == [epsilon for _, _, epsilon in silent]
    assert budget["queries"].tolist() == [1 if x.ndim == 1 else len(x) for x, _, _ in silent]
    assert len(budget) == 2 * cells * tables and not budget.duplicated(["level", "statistic", "outcome", "part"]).any()
    assert ("sensitivity" in budget) == (kind == "strict")


def test_the_example_of_the_paper():
    """Section 2.4: epsilon = 8 gives eps_pc = 0.5 to a point and eps_rep = 0.05 to each of 10 replicates."""
    budget = laplace_tables(make_design(), "income", BY, 8.0).budget
    assert len(budget) == 16 and budget["level"].unique().tolist() == ["field, gender", "field", "gender", "total"]
    for part, each in (("point", 0.5), ("replicate", 0.05)):
        np.testing.assert_allclose(budget.loc[budget["part"] == part, "epsilon_each"], each, rtol=1e-12)


# ---- estimates


@pytest.mark.parametrize("kind", ["local", "strict"])
def test_huge_epsilon_returns_the_estimates_of_the_design(kind):
    design = make_design()
    arguments = {"kind": "strict", "bounds": {"weight": (0, 1e4), "income": (0, 1e7)}} if kind == "strict" else {}
    table = laplace_tables(design, "income", BY, 1e15, **arguments).table
    expected = ss.estimate(design, "income", BY, ["count", "mean"])
    assert table.columns.tolist() == expected.columns.tolist()
    same = [*BY, "statistic", "outcome", "n"]
    pd.testing.assert_frame_equal(table[same], expected[same], check_dtype=False)
    np.testing.assert_allclose(table["estimate"], expected["estimate"], rtol=1e-6)
    assert (table["df"] == 10).all()  # ten replicates around a point


@pytest.mark.parametrize("kind", ["local", "strict"])
def test_standard_errors_without_noise_are_those_of_the_design(kind):
    design = make_design(1200)
    arguments = {"kind": "strict", "bounds": BOUNDS} if kind == "strict" else {}
    with recorded(variance=0.0):
        table = laplace_tables(design, "income", BY, 1.0, replicates=2000, **arguments).table
    expected = ss.estimate(design, "income", BY, ["count", "mean"])
    np.testing.assert_allclose(table["se"], expected["se"], rtol=4 * np.sqrt(0.5 / 2000) + 0.02)  # 2%: linearization
    assert (table["df"] == design.degf).all()  # 1196, less than there are replicates


@pytest.mark.slow
def test_strict_standard_errors_hold_the_noise_of_points_and_replicates():
    """E se^2 = sampling variance + v_point + v_replicate, here all of one size: too long, never too short."""
    design = make_design()
    sampling = ss.estimate(design, statistic="count", by="field", estimator="onepass")["se"].to_numpy()[:4] ** 2
    squares = []
    for _ in range(400):
        made = laplace_tables(design, "income", "field", 300.0, kind="strict", bounds=BOUNDS)
        squares.append(made.table.query("statistic == 'count'")["se"].to_numpy()[:4] ** 2)
    b = made.budget.query("statistic == 'count' and level == 'field'")
    v = 2 * (b["sensitivity"] / b["epsilon_each"]).to_numpy() ** 2
    ratio = np.array(squares) / (sampling + v.sum())
    assert (v.sum() / sampling > 0.5).all()
    # an se^2 has a relative variance below 5 (one Laplace point in all ten terms): 5.5 errors of the mean of 1,600
    assert abs(ratio.mean() - 1) < 5.5 * np.sqrt(5 / ratio.size)


def test_a_count_below_its_noise_has_no_mean():
    frame = make_frame(240).assign(cell=np.arange(240) // 3)
    design = SurveyDesign(frame, weights="wt", strata="field")
    made = laplace_tables(design, "income", "cell", 0.1, kind="strict", bounds=BOUNDS)
    count, mean = (made.table.query("statistic == @s").reset_index() for s in ("count", "mean"))
    b = made.budget.query("statistic == 'count' and part == 'point'").set_index("level")
    sd = np.sqrt(2) * (b["sensitivity"] / b["epsilon_each"])[["cell"] * 80 + ["total"]].to_numpy()
    none = (count["estimate"] <= sd).to_numpy()
    assert none.sum() > 10  # of 80, each as likely as not: the noise is a hundred times the counts
    for column in ("estimate", "se", "ci_low", "ci_high"):
        np.testing.assert_array_equal(mean[column].isna(), none)
    assert (mean["n"] == count["n"]).all() and count["estimate"].notna().all()


def test_a_replicate_without_the_domain_gives_no_mean_but_a_count(silent):
    frame = make_frame(80).assign(cell=["rare"] + ["other"] * 79)
    table = laplace_tables(SurveyDesign(frame, weights="wt"), "income", "cell", 1.0).table
    table = table.set_index(["statistic", "cell"])
    alone = (silent[1][0][:, 1] > 0).sum()  # replicates that hold the one record of the cell "rare"
    assert 0 < alone < 10
    assert table.loc[("count", "rare"), "df"] == 10 and table.loc[("mean", "rare"), "df"] == alone
    assert table.loc[("mean", "rare"), "se"] == 0  # one record: its mean is the same wherever it exists


def test_equal_weights_get_no_noise_and_the_text_says_so():
    frame = make_frame(100).assign(wt=7.0)
    local = laplace_tables(SurveyDesign(frame, weights="wt"), "income", "gender", 1.0)
    count = local.table.query("statistic == 'count'")
    assert (count["estimate"] == 7 * count["n"]).all() and "carry no noise at all" in local.guarantee
    assert "carry no noise" not in laplace_tables(make_design(), "income", None, 1.0).guarantee


# ---- adding up


def margins_off(table, by, statistic):
    """Largest difference between a margin and the sum of its parts, relative to the total."""
    count, mean = (table.query("statistic == @s").set_index(by)["estimate"] for s in ("count", "mean"))
    x = count if statistic == "count" else count * mean
    cells = x[[all(label != "all" for label in np.atleast_1d(key)) for key in map(list, x.index)]]
    off = 0.0
    for key, value in x.items():
        keep = [all(a in ("all", b) for a, b in zip(key, cell, strict=True)) for cell in cells.index]
        off = max(off, abs(cells[keep].sum() - value))
    return off / abs(x).max()


@pytest.mark.parametrize("kind", ["local", "strict"])
@pytest.mark.parametrize("by", [["field", "gender"], ["field", "gender", "third"]])
def test_consistent_tables_add_up(kind, by):
    frame = make_frame(300).assign(third=np.arange(300) % 3)
    design = SurveyDesign(frame, weights="wt", strata="field")
    # little noise: where a strict count is too low there is no mean, and no total to add up
    arguments = {"kind": "strict", "bounds": BOUNDS, "epsilon": 1e5} if kind == "strict" else {"epsilon": 5.0}
    made = laplace_tables(design, "income", by, consistent=True, **arguments)
    for statistic in ("count", "mean"):
        assert margins_off(made.table, by, statistic) < 1e-9
    assert "add up to their margins" in made.postprocessing and made.postprocessing in str(made)
    loose = laplace_tables(design, "income", by, **arguments)
    assert margins_off(loose.table, by, "count") > 1e-9 and loose.postprocessing == ""


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers(0, 2**32 - 1))
def test_adding_up_is_weighted_least_squares(shape, seed):
    """Against the regression of all noisy numbers on the cells; and a table that adds up stays as it is."""
    rng = np.random.default_rng(seed)
    names = [f"v{i}" for i in range(len(shape))]
    cells = pd.DataFrame(np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, len(shape)))
    cells.columns = names
    partitions = list(partitions_of(SurveyDesign(cells.assign(w=1.0), weights="w", lonely_psu="remove"), names))
    S = np.concatenate([(p.domain == np.arange(len(p.labels))[:, None]).astype(float) for p in partitions])
    A = noise.additions(pd.concat([p.labels for p in partitions], ignore_index=True), names)
    variances = np.exp(rng.normal(0, 4, len(S)))
    noisy = S @ rng.normal(100, 30, len(cells)) + rng.normal(0, np.sqrt(variances))
    x, left = add_up(noisy, variances, A)
    root = np.sqrt(variances)
    fit = np.linalg.lstsq(S / root[:, None], noisy / root, rcond=None)[0]
    np.testing.assert_allclose(x, S @ fit, rtol=1e-8, atol=1e-8 * np.abs(noisy).max())
    covariance = np.linalg.inv(S.T @ (S / variances[:, None]))
    expected = np.einsum("ij,jk,ik->i", S, covariance, S)
    assert (np.abs(left - expected) < 1e-6 * expected + 1e-8 * variances).all()  # a difference from the variances
    assert np.abs(A @ x).max() < 1e-13 * np.abs(x).max()
    np.testing.assert_allclose(add_up(S @ fit, variances, A)[0], S @ fit, rtol=1e-12, atol=1e-12 * np.abs(noisy).max())


def test_adding_up_keeps_numbers_without_noise():
    by = ["a", "b"]
    cells = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "w": 1.0})
    partitions = list(partitions_of(SurveyDesign(cells, weights="w"), by))
    A = noise.additions(pd.concat([p.labels for p in partitions], ignore_index=True), by)
    x = np.array([1.0, 2, 3, 4, 5, 5, 5, 5, 9])  # cells; a; b; total
    fixed = np.array([0.0] * 4 + [1.0] * 5)
    adjusted, left = add_up(x, fixed, A)
    np.testing.assert_allclose(adjusted, [1, 2, 3, 4, 3, 7, 4, 6, 10], rtol=1e-12)
    np.testing.assert_allclose(left, 0, atol=1e-12)


@pytest.mark.parametrize("kind", ["local", "strict"])
def test_consistency_without_noise_changes_nothing(kind, silent):
    arguments = {"kind": "strict", "bounds": BOUNDS} if kind == "strict" else {}
    loose, tight = (  # with so much epsilon no count is below the noise that it is said to have
        laplace_tables(make_design(), "income", BY, 1e4, consistent=consistent, **arguments).table
        for consistent in (False, True)
    )
    np.testing.assert_allclose(tight["estimate"], loose["estimate"], rtol=1e-9)
    np.testing.assert_allclose(tight["se"], loose["se"], rtol=1e-9)


# ---- what it says, and what it refuses


def test_the_text_of_local_tables():
    made = laplace_tables(make_design(), "income", BY, 10.8)
    assert isinstance(made, LaplaceTables) and (made.kind, made.epsilon) == ("local", 10.8)
    text = str(made)
    for said in ("not differential privacy", "computed from this file", "not a bound", "doubles the sensitivity"):
        assert said in text
    assert repr(made) == text


def test_the_text_of_strict_tables():
    text = str(laplace_tables(make_design(), "income", BY, 10.8, kind="strict", bounds=BOUNDS))
    assert "Pure differential privacy, epsilon = 10.8" in text
    for said in ("the survey weight and the outcome (income) of one record", "gender, stratum and sampling units"):
        assert said in text
    for said in ("weight 5 to 400", "income 0 to 500000", "added, removed", "Each further call"):
        assert said in text


def test_strict_tables_of_two_files_differ_in_their_answers_only():
    one, other = (
        laplace_tables(make_design(seed=3), "income", BY, 5.0, kind="strict", bounds=BOUNDS),
        laplace_tables(
            SurveyDesign(make_frame(seed=3).assign(wt=70.0, income=1.0), weights="wt", strata="field"),
            "income", BY, 5.0, kind="strict", bounds=BOUNDS,
        ),
    )  # fmt: skip
    pd.testing.assert_frame_equal(one.budget, other.budget, check_exact=True)
    assert one.guarantee == other.guarantee


def test_two_calls_differ():
    design = make_design()
    one, other = (laplace_tables(design, "income", None, 1.0).table["estimate"] for _ in range(2))
    assert (one != other).all()


STRICT = {"kind": "strict"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"epsilon": -1.0}, "epsilon must be a positive"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"epsilon": float("nan")}, "epsilon must be a positive"),
        ({"epsilon": 1e-320}, "cannot be divided|overflows"),
        ({"epsilon": 1e-300}, "overflows"),
        ({"point_share": 0}, "point_share must be a positive"),
        ({"point_share": 1}, "point_share must be between"),
        ({"point_share": 1 - 1e-16}, "cannot be divided"),
        ({"replicates": 0}, "number of replicates"),
        ({"kind": "global"}, "kind='global' is not one of local, strict"),
        ({"outcome": "wage"}, "there is no column 'wage'"),
        ({"outcome": []}, "outcome must name"),
        ({"outcome": ["income", "income"]}, "outcome must name"),
        ({"outcome": "gender"}, "not a number"),
        ({"outcome": "missing"}, r"'missing' is missing or infinite in 2 rows \(row numbers 3, 8;"),
        ({"by": "nowhere"}, "there is no column 'nowhere'"),
        ({"design": "file.csv"}, "needs a SurveyDesign"),
        ({"bounds": BOUNDS}, "bounds are for kind='strict'"),
        (STRICT, "needs bounds for 'weight', 'income'"),
        (STRICT | {"bounds": {"weight": (1, 2)}}, "needs bounds for 'weight', 'income'"),
        (STRICT | {"bounds": BOUNDS | {"hours": (0, 1)}}, "and for nothing else"),
        (STRICT | {"bounds": BOUNDS | {"income": (5, 1)}}, "'income' are upside down"),
        (STRICT | {"bounds": BOUNDS | {"income": (1, 1)}}, "'income' are upside down or equal"),
        (STRICT | {"bounds": BOUNDS | {"income": (0, np.inf)}}, "'income' must be two numbers"),
        (STRICT | {"bounds": BOUNDS | {"income": "ab"}}, "'income' must be two numbers"),
        (STRICT | {"bounds": BOUNDS | {"income": 3}}, "'income' must be two numbers"),
        (STRICT | {"bounds": BOUNDS | {"weight": (-1, 5)}}, "'weight' must not be negative"),
        (STRICT | {"bounds": BOUNDS | {"income": (0, 1e308)}}, "overflows"),
        (STRICT | {"outcome": "weight", "bounds": BOUNDS}, "rename the column"),
        ({"outcome": "huge"}, "overflows"),
    ],
)
def test_bad_input(changes, message):
    frame = make_frame(40).assign(weight=1.0, huge=1e308)
    frame["missing"] = frame["hours"].where(~frame.index.isin([2, 7]))
    arguments = {"design": SurveyDesign(frame, weights="wt"), "outcome": "income", "by": BY, "epsilon": 1.0}
    with pytest.raises(InputError, match=message) as caught:
        laplace_tables(**arguments | changes)
    assert "1e+308" not in str(caught.value)


def test_a_lonely_psu_has_no_replicates():
    frame = make_frame(9).assign(h=[0] * 8 + [1])
    with pytest.raises(InputError, match="only one PSU"):
        laplace_tables(SurveyDesign(frame, weights="wt", strata="h", lonely_psu="adjust"), "income", None, 1.0)
    laplace_tables(SurveyDesign(frame, weights="wt", strata="h", lonely_psu="remove"), "income", None, 1.0)


def test_the_table_has_the_labels_of_what_it_names():
    frame = pd.DataFrame({"w": np.full(8, 2.0), "y": 3.0, "g": list("aabbaabb"), "h": 1})
    design = SurveyDesign(frame, weights="w", labels={"y": "Pay", "g": "Sex", "h": "Hours"})
    assert laplace_tables(design, "y", "g", 8.0).table.attrs["labels"] == {"y": "Pay", "g": "Sex"}
