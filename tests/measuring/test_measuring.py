"""Noisy tables of a file: every value has a cell, a record changes a table by what its noise is made for."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from counted import counted, file_of, measured
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth import InputError
from surveysynth.measuring.bin_groups import cell_scores, effect_steps, table_groups
from surveysynth.measuring.bins import Bins, Cells
from surveysynth.measuring.joint_fit import fit_measurements
from surveysynth.measuring.measure import Question, histogram_groups, measure_design, shares
from surveysynth.measuring.noisy_tables import SCORE_UNIT, WEIGHT, read_json
from surveysynth.measuring.outcome import Outcome
from surveysynth.measuring.table_noise import TableBudget, composed, discrete_laplace, discrete_laplace_variance, noisy
from surveysynth.measuring.terms import Term, terms_of

ANY = st.floats(allow_nan=False, width=64)
ANY_HISTOGRAM = given(  # seed, bins, special values, records, levels, standard deviation of the noise
    st.integers(0, 2**32 - 1), st.integers(2, 128), st.integers(0, 4), st.integers(10, 100_000), st.integers(1, 100),
    st.floats(0.01, 1e4),
)  # fmt: skip


# cells


@given(st.lists(ANY, min_size=1, max_size=30))
def test_every_number_has_one_cell(values):
    cells = Cells.for_outcome(Outcome(bounds=(-500, 1e6), zeros=True, heaps=[10, 99_999]))
    codes = cells.codes(pd.Series(values, dtype="float64"), "y")
    for value, code in zip(values, codes, strict=True):
        if value in (0, 10, 99_999):
            assert code == cells.numbers + ["zero", "10", "99999"].index("zero" if value == 0 else f"{value:g}")
        else:
            low, high = cells.bins.edges[code], cells.bins.edges[code + 1]
            assert low <= np.clip(value, -500, 1e6) <= high


def test_missing_values_and_levels_have_cells_where_they_are_declared():
    amount = Cells.for_outcome(Outcome(bounds=(0, 100), missing="category"))
    assert amount.codes(pd.Series([np.nan, 5.0]), "y")[0] == len(amount) - 1
    job = Cells.for_outcome(Outcome(levels=["none", "full"], missing="category"))
    assert job.codes(pd.Series(["full", None, "none"]), "job").tolist() == [1, 2, 0]
    answer = Cells.for_outcome(Outcome(levels=[0, 1], missing="category"))  # integers, some missing
    assert answer.codes(pd.Series([1.0, np.nan, 0.0]), "ill").tolist() == [1, 2, 0]
    whole = Cells.for_outcome(Outcome(bounds=(0, 20), whole=True))
    assert whole.codes(pd.Series([0, 7, 20, 25, -3]), "visits").tolist() == [0, 7, 20, 20, 0]


@pytest.mark.parametrize(
    ("outcome", "column", "message"),
    [
        (Outcome(bounds=(0, 9)), [1.0, np.nan], r"missing in 1 row .*numbers 2;.*missing=\"category\""),
        (Outcome(bounds=(0, 9)), [1.0, "many"], "no number in 1 row .*numbers 2;"),
        (Outcome(levels=["a", "b"]), ["a", "c", "c"], "levels that were not declared, in 2 rows .*numbers 2, 3;"),
    ],
)
def test_a_file_that_contradicts_its_schema_is_refused(outcome, column, message):
    with pytest.raises(InputError, match=message) as error:
        Cells.for_outcome(outcome).codes(pd.Series(column, dtype=object), "y")
    assert "many" not in str(error.value) and "'c'" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "days"),
    [
        (pd.Series(pd.to_datetime(["1970-01-02", "1969-12-31"])), "frame['y'] - pd.Timestamp('1970-01-01')"),
        (pd.Series(pd.to_timedelta([1, -1], unit="D")), "(frame['y']).dt.days"),
    ],
)
def test_dates_and_durations_are_asked_for_in_days(column, days):
    """To pandas they are numbers of nanoseconds, all of which lie beyond the bounds; the line to paste makes days."""
    cells = Cells.for_outcome(Outcome(bounds=(-5, 5), whole=True))
    with pytest.raises(InputError, match="make whole days of them") as error:
        cells.codes(column, "y")
    assert days in str(error.value)
    made = eval(str(error.value).split("of them, ")[1].split(", with ")[0], {"frame": {"y": column}, "pd": pd})
    assert made.tolist() == [1, -1] and cells.codes(made, "y").tolist() == [6, 4]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "bounds=.* or levels="),
        ({"bounds": (0, 1), "levels": ["a", "b"]}, "bounds=.* or levels="),
        ({"bounds": (5, 2)}, "lowest below the highest"),
        ({"bounds": 3}, "a pair of numbers"),
        ({"bounds": (0, 9), "heaps": [12]}, "within the bounds"),
        ({"levels": ["a", "a"]}, "different labels"),
        ({"levels": ["a", "b"], "whole": True}, "are for numbers"),
        ({"bounds": (0, 9), "missing": "drop"}, "missing.* is not one of"),
        ({"bounds": (0, 9), "round": 0}, "round must be"),
    ],
)
def test_wrong_schemas_are_refused(schema, message):
    with pytest.raises(InputError, match=message):
        Outcome(**schema)


def test_bins_have_equal_ratios_and_values_are_drawn_within_them():
    bins = Bins.between(0, 20_000, 10, 128)
    ratios = bins.edges[60:] / bins.edges[59:-1]
    assert ratios.max() / ratios.min() < 1.01
    codes = np.repeat(np.arange(128), 500)
    drawn = bins.draw(codes, np.random.default_rng(1))
    assert (bins.codes(drawn) == codes).all()
    assert np.allclose(drawn.reshape(128, 500).mean(axis=1), bins.means, rtol=0.01, atol=0.05)


# groups


@settings(max_examples=200)
@ANY_HISTOGRAM
def test_groups_are_runs_of_bins_and_single_special_values(seed, numbers, special, n, levels, sd):
    p = np.random.default_rng(seed).dirichlet(np.full(numbers + special, 0.3))
    groups = table_groups(p, numbers, n, levels, sd)
    assert groups[0] == 0 and set(np.diff(groups[:numbers])) <= {0, 1}
    assert groups[numbers:].tolist() == [groups[numbers - 1] + 1 + k for k in range(special)]


def test_more_records_and_less_noise_make_more_groups():
    p = np.full(128, 1 / 128)
    few, many = (table_groups(p, 128, n, 9, 7.0).max() + 1 for n in (2_000, 50_000))
    assert few < many and table_groups(p, 128, 2_000, 9, 0.5).max() + 1 > few


@settings(max_examples=200)
@ANY_HISTOGRAM
def test_scores_rise_with_the_amount_and_are_never_beyond_the_unit(seed, numbers, special, n, levels, sd):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(numbers + special, 0.3))
    values = np.cumsum(rng.exponential(size=numbers)) - 3
    scores = cell_scores(p, values, n, levels, sd, SCORE_UNIT)
    assert np.abs(scores).max() == SCORE_UNIT and (np.diff(scores[:numbers]) >= 0).all()
    assert scores[0] == -SCORE_UNIT and scores[numbers - 1] == SCORE_UNIT
    assert (scores[numbers:] == SCORE_UNIT).all()
    inside = np.flatnonzero(np.abs(scores[:numbers]) < SCORE_UNIT)
    if len(inside) > 1:  # linear in the amount
        slope = np.diff(scores[inside]) / np.diff(values[inside])
        assert np.allclose(slope, slope.mean(), atol=2 / np.diff(values[inside]).min())


def test_less_noise_leaves_less_beyond_the_scores():
    p, values = np.full(100, 0.01), np.arange(100.0)
    few, many = ((np.abs(cell_scores(p, values, n, 4, 7.0, 1000)) < 1000).sum() for n in (1_000, 50_000))
    assert few < many


def test_a_bin_of_many_records_is_between_the_ends_of_the_scores():
    p = np.full(100, 0.3 / 99)
    p[40] = 0.7
    scores = cell_scores(p, np.arange(100.0), 2_000, 9, 14.0, SCORE_UNIT)
    assert scores[39] == -SCORE_UNIT and abs(scores[40]) < SCORE_UNIT


def test_a_sum_of_scores_is_the_mean_of_a_level():
    """Where nothing is beyond, mean = low + (score + 1) / 2 (high - low)."""
    values, rng = np.arange(50.0), np.random.default_rng(1)
    code, level = rng.integers(0, 50, 4_000), rng.integers(0, 3, 4_000)
    scores = cell_scores(np.full(50, 0.02), values, 10**9, 3, 0.01, SCORE_UNIT)
    sums = counted(level, 3, code, np.zeros(50, dtype=np.intp), scores)[:, 0] / SCORE_UNIT
    means = np.bincount(level, values[code]) / np.bincount(level)
    assert np.allclose((sums / np.bincount(level) + 1) / 2 * 49, means, atol=49 / SCORE_UNIT)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(0, 128), st.integers(0, 4), st.integers(10, 100_000))
def test_steps_are_within_groups(seed, numbers, special, n):
    if numbers + special < 2:
        return
    p = np.random.default_rng(seed).dirichlet(np.full(numbers + special, 0.3))
    groups = table_groups(p, numbers, n, 4, 7.0, 5, tails=0)
    steps = effect_steps(p, groups, numbers)
    assert steps[0] == 0 and set(np.diff(steps[:numbers])) <= {0, 1} and set(np.diff(steps[numbers:])) <= {1}
    assert all(len(set(groups[steps == step])) == 1 for step in range(steps.max() + 1))


def test_steps_cut_the_first_and_the_last_group():
    groups = np.append(np.repeat(np.arange(5), 20), [5, 6])
    steps = effect_steps(np.append(np.full(100, 0.009), [0.05, 0.05]), groups, 100)
    sizes = np.bincount(steps)
    assert sizes.tolist() == [1, 3, 6, 10, 20, 20, 20, 10, 6, 3, 1, 1, 1]


# noise


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 2.2])
def test_the_noise_has_the_law_that_the_variance_is_of(epsilon):
    """OpenDP's noise, and numpy's for refits: a variance 20% off would fail."""
    n = 40_000
    made = noisy(np.zeros(n, dtype=np.int64), epsilon)
    variance = discrete_laplace_variance(epsilon)
    for drawn in (made, discrete_laplace(np.random.default_rng(1), epsilon, n)):
        error = math.sqrt(np.var((drawn - drawn.mean()) ** 2) / n)
        assert abs(drawn.var() - variance) < 4 * error < 0.1 * variance
        assert abs((drawn == 0).mean() - (1 - math.exp(-epsilon)) / (1 + math.exp(-epsilon))) < 4 * 0.5 / math.sqrt(n)


def approximate(rho, delta):
    """Bun & Steinke's (2016) epsilon of rho, proposition 1.3, which OpenDP's is not above."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize(
    ("terms", "levels", "public"), [(0, 0, False), (1, 1, True), (2, 0, False), (7, 2, False), (0, 2, True)]
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.8])
@pytest.mark.parametrize("records", [1, 100_000])
@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("delta", [None, 1e-10])
def test_tables_together_spend_no_more_than_was_asked_for(epsilon, terms, levels, public, records, later, delta):
    """OpenDP's own total, blank and replace, against the sum of the parts."""
    outcomes = [(terms, True), (terms + 1, False)][: 1 + later]
    outcomes = [(*outcome, 1.0) for outcome in outcomes]
    split = shares(TableBudget(epsilon, delta), outcomes, terms, levels, records, terms, public_weight=public)
    many = [{"by terms": k * (2 if scored else 1), "by design": levels} for k, scored, _ in outcomes]
    many.append({"by terms": terms, "scores by terms": terms, "by design": levels, "by outcomes": len(outcomes)})
    many[-1]["products by terms"] = terms * len(outcomes)
    if terms == 0 or public or records == 1:
        assert "scores by terms" not in split[-1] and "products by terms" not in split[-1]
    elif epsilon >= 5:
        assert "scores by terms" in split[-1] and "products by terms" in split[-1]
    each = [
        e for of, tables in zip(split, many, strict=False) for kind, e in of.items() for _ in range(tables.get(kind, 1))
    ]  # fmt: skip
    units = itertools.cycle([1, SCORE_UNIT])
    parts = [(e, unit, unit > 1) for e, unit in zip(each, units, strict=False)]
    blank, replace = composed(parts, delta)
    if delta is not None:
        rho = [e**2 / 4 for e in each]
        assert blank <= epsilon and blank == pytest.approx(approximate(math.fsum(rho), delta), rel=0.2)
        of_replaced = [r * (4 if scored else 2) for r, (_, _, scored) in zip(rho, parts, strict=True)]
        assert replace == pytest.approx(approximate(math.fsum(of_replaced), delta), rel=0.2)
        return
    assert blank <= epsilon and blank == pytest.approx(math.fsum(each), rel=1e-12)
    assert replace <= 2 * epsilon and replace == pytest.approx(2 * math.fsum(each), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(
    "outcome", [Outcome(bounds=(0, 20_000), zeros=True), Outcome(levels=["low", "high"], missing="category")]
)
def test_a_measured_file_spends_what_was_asked_for(outcome, public, epsilon):
    """All tables that were made, by OpenDP's own total."""
    sample = ss.datasets.census_sample(300, seed=1)
    income = sample.frame["income"]
    income = income if outcome.bounds else pd.Series(np.where(income < 700, "low", "high"))
    design = ss.SurveyDesign(sample.frame.assign(income=income.to_numpy()), weights="weight")
    tables = measure_design(
        design, [Question("income", outcome, ("division", "education"))], "division + education",
        terms_of(design, "division + education"), epsilon=epsilon, population_total=29_501, public_weight=public,
    )  # fmt: skip
    assert epsilon * (1 - 1e-8) <= tables.epsilon <= epsilon


# sensitivity, by brute force


def changes(one, other):
    return int(np.abs(one - other).sum())


@pytest.mark.parametrize(
    ("outcome", "values"),
    [
        (Outcome(bounds=(0, 9_000), zeros=True, missing="category"), [0.0, np.nan, -5.0, 1e300, 12.0, 9_000.0]),
        (Outcome(levels=["a", "b", "c"], missing="category"), ["a", "b", "c", None]),
        (Outcome(bounds=(0, 30), whole=True), [0.0, 3.0, 30.0, 1e9]),
        (Outcome(bounds=(0, 1)), [0.0, 0.5, 1.0]),
    ],
)
def test_a_record_changes_every_table_by_one_cell_or_two(outcome, values):
    cells, rng = Cells.for_outcome(outcome), np.random.default_rng(2)
    column = pd.Series(rng.choice(np.array(values, dtype=object), 40), dtype=object)
    level, groups = rng.integers(0, 3, 40), histogram_groups(cells, 40, 1.0)
    fine, coarse = cells.codes(column, "y"), np.minimum(groups, 4)
    for kept in (groups, coarse):
        J = counted(level, 3, fine, kept)
        for i in range(0, 40, 7):
            others = np.arange(40) != i
            blanked = np.bincount(level[others] * (kept.max() + 1) + kept[fine[others]], minlength=J.size)
            assert changes(J.ravel(), blanked) == 1
            for value in values:
                replaced = column.copy()
                replaced[i] = value
                assert changes(J, counted(level, 3, cells.codes(replaced, "y"), kept)) in (0, 2)


@pytest.mark.parametrize(
    "outcome",
    [Outcome(bounds=(0, 9_000), zeros=True, missing="category"), Outcome(bounds=(0, 30), whole=True),
     Outcome(bounds=(-50, 1))],
)  # fmt: skip
def test_a_record_changes_sums_of_scores_by_one_or_two(outcome):
    """Every table of scores as it is measured: blanked, and replaced by any value."""
    rng, n = np.random.default_rng(2), 60
    cells = Cells.for_outcome(outcome)
    own, level = rng.integers(0, len(cells), n), rng.integers(0, 3, n)
    y = measured("y", cells, file_of({"y": own}, {"region": level}, rng))
    y.scores(Term("region", ("region",), (("a",), ("b",), ("c",)), level, level, None), 0.5)
    table = y.tables[1]
    assert table.scores is not None and table.unit == SCORE_UNIT
    assert table.variance == pytest.approx(2 / 0.5**2, rel=0.01)
    whole = counted(level, 3, own, table.groups, table.scores)
    for i in range(0, n, 5):
        others = np.arange(n) != i
        blanked = counted(level[others], 3, own[others], table.groups, table.scores)
        assert changes(whole, blanked) <= SCORE_UNIT
        for code in range(len(cells)):
            replaced = own.copy()
            replaced[i] = code
            assert changes(whole, counted(level, 3, replaced, table.groups, table.scores)) <= 2 * SCORE_UNIT


def test_a_record_changes_sums_of_products_by_one_or_two():
    """Outcome and weight blanked, and replaced by any other pair of cells."""
    rng, n = np.random.default_rng(2), 40
    outcome = Cells.for_outcome(Outcome(bounds=(-3, 12), whole=True, missing="category"))
    weight = Cells.for_weights((0.1, 5.0), 1.0)
    codes = {"y": rng.integers(0, len(outcome), n), "w": rng.integers(0, len(weight), n)}
    region = Term("region", ("region",), (("a",), ("b",), ("c",)), *[rng.integers(0, 3, n)] * 2, None)
    file = file_of(codes, {"region": region.level}, rng)
    y, w = measured("y", outcome, file), measured("w", weight, file)
    w.products(region, 0.5, y)
    table = w.tables[1]
    assert table.scores is not None and table.by_scores is not None
    assert table.unit == table.per == SCORE_UNIT**2 and table.variance == pytest.approx(2 / 0.5**2, rel=0.01)
    assert table.by_groups.tolist() == [0] * 16 + [1] and table.by_scores[-1] == SCORE_UNIT  # missing by itself
    assert np.abs(table.by_scores).max() == np.abs(table.scores).max() == SCORE_UNIT

    def of(y_code, w_code, records=slice(None)):
        adds, cell = table.by_scores[y_code] * table.scores[w_code], 2 * region.level + table.by_groups[y_code]
        return np.bincount(cell[records], adds[records], 6)

    whole = of(codes["y"], codes["w"])
    noise = (table.counts[:, 0] - whole) / table.unit
    assert table.counts.shape == (6, 1) and np.abs(noise).max() < 30  # fifteen standard deviations
    for i in range(n):
        assert changes(whole, of(codes["y"], codes["w"], np.arange(n) != i)) <= table.unit
        for y_code, w_code in itertools.product(range(len(outcome)), range(0, len(weight), 5)):
            one, other = codes["y"].copy(), codes["w"].copy()
            one[i], other[i] = y_code, w_code
            assert changes(whole, of(one, other)) <= 2 * table.unit


# terms


def test_terms_are_levels_of_public_columns():
    frame = pd.DataFrame({
        "region": list("aabbccab"), "sex": pd.Categorical(list("mfmfmfmf"), ["m", "f", "x"]),
        "age": [20.5, 31, 44, 58, 63, 70, 35, 26], "y": range(8), "w": 1.0,
    })  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w")
    region, sex, crossed = terms_of(design, "region * sex")
    assert region.labels == (("a",), ("b",), ("c",)) and sex.labels == (("m",), ("f",))
    assert crossed.name == "region:sex" and crossed.labels[0] == ("a", "m") and crossed.levels == 6
    assert [crossed.labels[k] for k in crossed.level] == list(zip(frame["region"], frame["sex"], strict=True))
    with pytest.raises(InputError, match=r"log\(age\) is no column"):
        terms_of(design, "region + log(age)")


# the whole way


@pytest.fixture(scope="module")
def sample():
    return ss.datasets.census_sample(4_000, seed=3)


def weighted(sample, column):
    weight = pd.Series(sample.weights * 29_501 / sample.weights.sum())
    return (weight * column).groupby(sample.frame["education"].astype(str).to_numpy()).sum()


@pytest.mark.slow
def test_with_hardly_any_noise_files_have_the_means_and_counts_of_the_file(sample):
    public = {"bounds": (0, 20_000), "population_total": 29_501}
    release = ss.measure(sample, "income ~ division + education", epsilon=1e4, **public).release(m=40, seed=1)
    table = release.tables("education").set_index("education").drop(index="all")
    own_total, own_income = weighted(sample, 1.0), weighted(sample, sample.frame["income"])
    means, counts = (table.loc[table["statistic"] == name, "estimate"] for name in ("mean", "count"))
    # the simulation error of forty files is 1%; amounts beyond the highest score leave up to 9%
    assert np.allclose(means, (own_income / own_total)[means.index], rtol=0.12)
    assert np.allclose(counts, own_total[counts.index], rtol=0.04)


@pytest.mark.parametrize("products", [True, False])
def test_weighted_means_are_right_where_weights_go_with_the_outcome_otherwise_by_level(monkeypatch, products):
    """Weights rise with the amount in one region and fall in the other: sums of products tell it, nothing else does."""
    rng, n = np.random.default_rng(4), 8_000
    region, z = np.repeat(["east", "west"], n // 2), rng.standard_normal(n)
    weight = np.exp(np.where(region == "east", 0.5, -0.5) * z + 0.3 * rng.standard_normal(n))
    frame = pd.DataFrame({"region": region, "income": 500 * np.exp(0.6 * z), "weight": weight})
    if not products:
        monkeypatch.setattr("surveysynth.measuring.measure.PRODUCTS", np.inf)
    measured = ss.measure(
        ss.SurveyDesign(frame, weights="weight"), "income ~ region", epsilon=10, bounds=(0, 50_000),
        population_total=weight.sum(), seed=1,
    )  # fmt: skip
    read = read_json(measured.source.tables.as_json(), measured.source.public)
    assert [table.kind for table in read.tables] == [table.kind for table in measured.source.tables.tables]
    means = measured.release(m=10, seed=1).tables("region", statistic="mean").set_index("region")["estimate"]
    own = frame.assign(total=weight * frame["income"]).groupby("region")[["total", "weight"]].sum()
    error = means[["east", "west"]] / (own["total"] / own["weight"]) - 1
    assert (np.abs(error) < 0.1).all() if products else (np.abs(error) > 0.2).all()


@pytest.mark.parametrize("products", [True, False])
def test_weighted_shares_are_right_where_weights_go_with_the_category_otherwise_by_level(monkeypatch, products):
    rng, n = np.random.default_rng(4), 8_000
    region, poor = np.repeat(["east", "west"], n // 2), rng.random(n) < 0.3
    weight = np.exp(np.where(region == "east", 0.4, -0.4) * poor + 0.5 * rng.standard_normal(n))
    frame = pd.DataFrame({"region": region, "poor": poor, "weight": weight})
    if not products:
        monkeypatch.setattr("surveysynth.measuring.measure.PRODUCTS", np.inf)
    measured = ss.measure(
        ss.SurveyDesign(frame, weights="weight"), "poor ~ region", epsilon=10, population_total=weight.sum(), seed=1
    )
    table = measured.release(m=10, seed=1).tables("region", statistic="proportion").set_index(["region", "category"])
    own = frame.assign(total=weight * poor).groupby("region")[["total", "weight"]].sum()
    error = table["estimate"].xs("True", level="category")[["east", "west"]] - own["total"] / own["weight"]
    assert (np.abs(error) < 0.03).all() if products else (np.abs(error) > 0.06).all()


def test_public_totals_of_levels_are_met(sample):
    """Exactly by the files, and within 1% by the model before weights are adjusted."""
    (education,) = terms_of(sample, "education")
    totals = np.bincount(education.level, sample.weights) * [1.05, 0.95, 1.03, 0.9]
    totals *= 29_501 / totals.sum()
    given = dict(zip([label for (label,) in education.labels], totals, strict=True))
    found = ss.measure(
        sample, "income ~ division + education", epsilon=5, bounds=(0, 20_000), population_total=29_501,
        population_totals={"education": given},
    )  # fmt: skip
    fit = fit_measurements(found.source.tables, found.source.public.frame)
    weight = fit.variables[WEIGHT].fit
    model = weight.model
    mean = model.probabilities(weight.theta) @ found.source.tables.weight.cells.bins.means
    level = fit.cells.step["education"]
    assert np.allclose(np.bincount(level[model.unit], model.records * mean), totals, rtol=0.01)
    table = found.release(m=4).tables("education", statistic="count").set_index("education")
    assert np.allclose(table.loc[[*given], "estimate"], totals, rtol=1e-9) and np.allclose(table["se"], 0)


@pytest.mark.parametrize(("epsilon", "scores"), [(0.2, 0), (1.0, 1), (40.0, 2)])
def test_weights_have_scores_and_products_where_noise_is_small(sample, epsilon, scores):
    measured = ss.measure(sample, "income ~ education", epsilon=epsilon, bounds=(0, 20_000), population_total=29_501)
    tables = measured.source.tables
    assert sum(table.scores is not None for table in tables.weight.tables) == scores
    assert sum(table.by_scores is not None for table in tables.weight.tables) == min(scores, 1)
    assert epsilon * (1 - 1e-8) <= tables.epsilon <= epsilon
