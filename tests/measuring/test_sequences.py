"""Several outcomes in one strict release: each depends on earlier ones, and the weight on all."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, Outcome
from surveysynth.measuring.joint_fit import fit_measurements
from surveysynth.measuring.noisy_tables import WEIGHT

FORMULAS = ["job ~ region + sex", "pay ~ region + sex + job", "rent ~ region + job + pay"]
SCHEMA = {
    "job": Outcome(levels=["works", "retired", "other"]), "pay": Outcome(bounds=(0, 500_000), zeros=True),
    "rent": Outcome(bounds=(0, 100_000)),
}  # fmt: skip
TOTAL = 1_000_000.0


def people(n, seed=1):
    """Who works is paid, rents rise with pay, and pensioners have larger weights."""
    rng = np.random.default_rng(seed)
    region, sex = rng.choice(list("abc"), n), rng.choice(list("fm"), n)
    job = np.where(
        rng.random(n) < 0.3 + 0.3 * (sex == "m"), "works", np.where(rng.random(n) < 0.5, "retired", "other")
    )
    pay = np.where(job == "works", np.exp(10 + 0.3 * (region == "a") + 0.5 * rng.standard_normal(n)), 0.0)
    rent = np.exp(8 + 0.1 * np.log1p(pay) + 0.4 * rng.standard_normal(n))
    weight = np.exp(0.4 * rng.standard_normal(n) + 0.4 * (job == "retired"))
    frame = pd.DataFrame({"region": region, "sex": sex, "job": job, "pay": pay, "rent": rent})
    return ss.SurveyDesign(frame.assign(weight=weight * (TOTAL / weight.sum())), weights="weight")


def measured(design, formulas=FORMULAS, **settings):
    formulas = [formulas] if isinstance(formulas, str) else formulas
    names = {name for name in SCHEMA if any(name in formula.split("~")[0] for formula in formulas)}
    given = {"epsilon": 10.0, "population_total": TOTAL, "outcomes": {name: SCHEMA[name] for name in names}, "seed": 1}
    return ss.measure(design, formulas, **given | settings)


@pytest.fixture(scope="module")
def design():
    return people(3_000)


@pytest.fixture(scope="module")
def found(design):
    return measured(design)


def test_every_table_is_there_and_all_together_spend_what_was_asked_for(found):
    """By OpenDP's own total of the tables that there are."""
    tables = found.source.tables
    by = {variable.name: {table.by or table.earlier for table in variable.tables} for variable in tables.variables}
    assert by["job"] == {None, "region", "sex"} and by["pay"] == {None, "region", "sex", "job"}
    assert by["rent"] == {None, "region", "job", "pay"}
    assert by[WEIGHT] == {None, "region", "sex", "job", "pay", "rent"}
    products = {(table.by, table.earlier) for table in tables.weight.tables if table.kind == "products"}
    assert products == set(itertools.product(["region", "sex"], ["job", "pay", "rent"]))
    assert 10 * (1 - 1e-8) <= tables.epsilon <= 10


def test_every_table_counts_a_record_once_and_adds_its_unit_at_most(design):
    """Counted again from the file; noise of epsilon 10,000 is next to none."""
    tables = measured(design, epsilon=1e4).source.tables
    codes = {
        variable.name: variable.cells.codes(design.column(variable.name), variable.name)
        for variable in tables.outcomes
    } | {WEIGHT: tables.weight.cells.codes_of_numbers(design.weights)}  # fmt: skip
    for variable in tables.variables:
        for table in variable.tables:
            level = np.zeros(design.n, dtype=int) if table.by is None else tables.terms[table.by].level
            adds = np.ones(design.n, dtype=int) if table.scores is None else table.scores[codes[variable.name]]
            if table.earlier is not None:
                group = table.by_groups[codes[table.earlier]]
                level = level * (table.by_groups.max() + 1) + group
            if table.by_scores is not None:
                adds = adds * table.by_scores[codes[table.earlier]]
            own = np.zeros_like(table.counts)
            np.add.at(own, (level, table.groups[codes[variable.name]]), adds)
            assert np.abs(adds).max() <= table.unit
            assert np.abs(table.counts - own).max() <= 30 * table.unit / table.epsilon


def test_means_and_relations_are_those_of_the_file(design, found):
    """Means by an earlier outcome, rank correlations, zeros; weights by an outcome: by twelve files of 3,000."""
    release = found.release(m=12, seed=2)
    own, files = design.frame, [each.frame for each in release.datasets]

    def mean(of):
        return sum(of(file) for file in files) / len(files)

    def means(frame):
        return frame.assign(total=frame["rent"] * frame["weight"]).groupby("job")[["total", "weight"]].sum().pipe(
            lambda sums: sums["total"] / sums["weight"]
        )  # fmt: skip

    np.testing.assert_allclose(mean(means)[means(own).index], means(own), rtol=0.06)
    ranks = [frame[["pay", "rent", "weight"]].corr("spearman").to_numpy() for frame in files]
    assert np.abs(np.mean(ranks, axis=0) - own[["pay", "rent", "weight"]].corr("spearman")).max().max() < 0.05
    zeros = mean(lambda frame: (frame["pay"] == 0).groupby(frame["job"]).mean())
    assert zeros["works"] < 0.02 and zeros["other"] > 0.97
    assert all(frame["weight"].sum() == pytest.approx(TOTAL) for frame in files)
    # without the table of pay, rent would not know of it
    blind = measured(design, ["job ~ region", "pay ~ region + job", "rent ~ region"]).release(m=4, seed=2)
    off = [each.frame[["pay", "rent"]].corr("spearman").iloc[0, 1] for each in blind.datasets]
    assert np.mean(off) < own[["pay", "rent"]].corr("spearman").iloc[0, 1] - 0.2


def test_outcomes_of_one_formula_depend_on_those_before_them(design):
    one = measured(design, "job + rent ~ region")
    rent = one.source.tables.variable("rent")
    assert rent.terms == ("region",) and rent.parents == ("job",)
    assert one.source.outcomes == ("job", "rent")


def test_it_is_written_and_read_back(design, tmp_path):
    kept = measured(design, ["job ~ region", "rent ~ region + job"], seed=None)
    kept.write(tmp_path / "kept")
    again = ss.read_measurements(tmp_path / "kept")
    for one, other in zip(kept.source.tables.tables, again.source.tables.tables, strict=True):
        assert (one.by, one.earlier, one.kind, one.epsilon) == (other.by, other.earlier, other.kind, other.epsilon)
        np.testing.assert_array_equal(one.counts, other.counts)
    first, second = (each.release(m=4, seed=3) for each in (kept, again))
    for one, other in zip(first.datasets, second.datasets, strict=True):
        pd.testing.assert_frame_equal(one.frame, other.frame)
    first.write(tmp_path / "release")
    table = ss.read_release(tmp_path / "release").tables("job", outcome="rent", statistic="mean")
    pd.testing.assert_frame_equal(table, first.tables("job", outcome="rent", statistic="mean"), check_dtype=False)


def test_one_call_releases_a_sequence(design):
    outcomes = {name: SCHEMA[name] for name in ("job", "rent")}
    release = ss.synthesize(
        design, ["job ~ region", "rent ~ region + job"], epsilon=8, population_total=TOTAL, outcomes=outcomes, m=4
    )
    assert release.measured is not None and release.outcomes == ("job", "rent") and release.categorical == ("job",)


def test_a_comparison_has_cells_of_categories_and_of_amounts(design, found):
    comparison = ss.compare(design, found.release(m=4, seed=1), by="region")
    cells = comparison.cells[comparison.cells["region"] != "all"]
    assert len(cells) == 3 * (1 + 2 + 3)  # a count, two means, three shares in each region
    compared = cells[cells["statistic"] != "count"]
    assert compared["std_diff"].notna().all() and compared["holds"].notna().all()


def test_errors_are_expected_of_every_outcome(design):
    """About those of releases: a sequence is rehearsed as it will be made."""
    given = {"epsilon": 10, "population_total": TOTAL, "outcomes": {name: SCHEMA[name] for name in ("job", "rent")}}
    formulas = ["job ~ region", "rent ~ region + job"]
    expected = ss.expected_errors(design, formulas, by="region", m=4, **given)
    assert set(zip(expected["outcome"], expected["statistic"], strict=True)) == {
        ("job", "proportion"), ("rent", "count"), ("rent", "mean"),
    }  # fmt: skip
    assert len(expected) == 4 * 3 + 3 + 4 and expected["ratio"].between(0.7, 2.5).all()
    worse = ss.expected_errors(design, formulas, by="region", m=4, **given | {"epsilon": 1})
    kinds = [table.groupby(["outcome", "statistic"])["ratio"].mean() for table in (worse, expected)]
    assert (kinds[0] > kinds[1]).all() and kinds[0]["rent", "mean"] > 1.5 * kinds[1]["rent", "mean"]


def test_each_outcome_may_depend_on_the_one_before_it_alone(design):
    """Three in a row, with public weights: no outcome has two earlier ones, and simulated records stand for them."""
    found = measured(design, ["job ~ sex", "pay ~ job", "rent ~ pay"], weight="public", population_total=None)
    files = [each.frame for each in found.release(m=8, seed=1).datasets]
    ranks = np.mean([frame[["pay", "rent"]].corr("spearman").iloc[0, 1] for frame in files])
    assert ranks == pytest.approx(design.frame[["pay", "rent"]].corr("spearman").iloc[0, 1], abs=0.06)


def test_a_sequence_knows_strata_and_psus():
    rng = np.random.default_rng(3)
    frame = people(1_200).frame.assign(school=np.arange(1_200) // 40)
    frame["rent"] *= np.exp(0.5 * rng.standard_normal(30))[frame["school"]]
    design = ss.SurveyDesign(frame, weights="weight", psu="school")
    release = measured(design, ["job ~ sex", "rent ~ sex + job"]).release(m=8, seed=1)
    one = np.mean([ss.estimate(each, "rent", statistic="mean")["se"].iloc[0] for each in release.datasets])
    assert one == pytest.approx(ss.estimate(design, "rent", statistic="mean")["se"].iloc[0], rel=0.35)


@pytest.mark.parametrize("crossed", [True, False])
def test_an_earlier_outcome_can_have_another_effect_in_each_level_of_a_term(crossed):
    """Pensioners pay less rent in the north, and more elsewhere: only a product with the region knows it."""
    frame = people(4_000, seed=5).frame
    frame["rent"] *= np.exp(0.8 * (frame["job"] == "retired") * np.where(frame["region"] == "a", -1, 1))
    design = ss.SurveyDesign(frame, weights="weight")
    formulas = ["job ~ region", f"rent ~ region {'*' if crossed else '+'} job"]
    found = measured(design, formulas, epsilon=1e4)
    tables = {(table.by, table.earlier, table.kind) for table in found.source.tables.variable("rent").tables}
    assert (("region", "job", "counts") in tables) == crossed == (("region", "job", "scores") in tables)
    both = found.release(4, seed=1).tables(by=["region", "job"], outcome="rent", statistic="mean")
    own = ss.estimate(design, "rent", ["region", "job"], "mean")
    off = both.merge(own, on=["region", "job"], suffixes=("", "_own"))
    off = np.abs(off["estimate"] / off["estimate_own"] - 1)[~off["job"].eq("all")]
    assert off.max() < 0.12 if crossed else off.max() > 0.3


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        (["job ~ region", "pay ~ sex", "rent ~ region + job:pay"], "a product of two earlier outcomes"),
        (["job ~ region", "job ~ sex"], "'job' is the outcome of two formulas"),
        (["rent ~ region + job", "job ~ region"], "'job' is the outcome|job"),
        ([], "takes a formula, a list of formulas"),
        (["job ~ region", 3], "takes a formula, a list of formulas"),
    ],
)
def test_wrong_sequences_are_refused(design, formulas, message):
    with pytest.raises(InputError, match=message):
        ss.measure(design, formulas, epsilon=5, population_total=TOTAL, outcomes=SCHEMA)


def test_the_fit_of_a_later_outcome_has_the_groups_that_the_earlier_fits_have(found):
    """Simulated records stand for earlier outcomes: their steps add up to what the fits expect."""
    fit = fit_measurements(found.source.tables, found.source.public.frame)
    rent = fit.variables["rent"]
    for name in ("job", "pay"):
        of = fit.variables[name].most_probable()
        expected = np.bincount(rent.steps[name], of.records @ of.p)
        n = fit.cells.n[rent.expanded.cell] * rent.expanded.share
        np.testing.assert_allclose(np.bincount(rent.expanded.step[name], n), expected, rtol=0.02, atol=2)


def test_cells_that_no_table_counts_together_are_flagged_and_told(tmp_path):
    """``job`` was counted by region, pay by sex and by job: what crosses others follows from the model."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({
        "region": rng.choice(["a", "b"], 400), "sex": rng.choice(["f", "m"], 400),
        "job": rng.choice(["none", "full"], 400), "pay": np.exp(rng.normal(8, 1, 400)), "w": rng.uniform(1, 3, 400),
    })  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w")
    release = ss.synthesize(
        design, ["job ~ region", "pay ~ sex + job"], epsilon=9, m=4, population_total=800, seed=2,
        outcomes={"job": ss.Outcome(levels=["none", "full"]), "pay": ss.Outcome(bounds=(0, 1e6))},
    )  # fmt: skip

    def flagged(by, statistic, outcome):
        table = release.tables(by, statistic=statistic, outcome=outcome)
        inner = (table[by] != "all").all(axis=1)
        modelled = table["flag"].str.contains("not counted by these variables together")
        assert modelled[inner].nunique() == 1
        return bool(modelled[inner].iloc[0]), bool(modelled[~inner].any())

    assert flagged(["sex"], "mean", "pay") == (False, False)
    assert flagged(["job"], "mean", "pay") == (False, False)
    assert flagged(["region"], "mean", "pay") == (True, False)
    assert flagged(["region", "sex"], "mean", "pay") == (True, True)  # the margin by region, too
    assert flagged(["region"], "proportion", "job") == (False, False)
    assert flagged(["sex"], "proportion", "job") == (True, False)
    written = json.loads((release.write(tmp_path / "out") / "public" / "manifest.json").read_text())
    assert written["counted_by"]["pay"] == [["sex"], ["job"]]
    assert written["counted_by"]["job"] == [["region"]]
    comparison = ss.compare(design, release, ["region"])
    assert "2 of its cells are of variables that no noisy table counts together" in str(comparison)
    assert set(comparison.cells.loc[comparison.cells["modelled"], "outcome"]) == {"pay"}


@pytest.mark.parametrize("second", ["town + income", "town * sex + income"])
def test_a_public_column_whose_name_has_a_blank_is_like_any_other(second):
    """The release equals that of the same file with a plain name for the column."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "town": rng.choice(["a", "b"], 300), "sex": rng.choice(["f", "m"], 300),
        "income": rng.lognormal(7.0, 0.5, 300), "tenure": rng.choice(["own", "rent"], 300), "w": 10.0,
    })  # fmt: skip
    formulas = ["income ~ town", f"tenure ~ {second}"]
    given = {
        "epsilon": 5, "population_total": 3_000, "m": 4, "seed": 1,
        "outcomes": {"income": ss.Outcome(bounds=(0, 20_000)), "tenure": ss.Outcome(levels=["own", "rent"])},
    }  # fmt: skip
    plain = ss.synthesize(ss.SurveyDesign(frame, weights="w"), formulas, **given)
    renamed = ss.SurveyDesign(frame.rename(columns={"town": "home town"}), weights="w")
    blank = ss.synthesize(renamed, [each.replace("town", "`home town`") for each in formulas], **given)
    for one, other in zip(plain.datasets, blank.datasets, strict=True):
        pd.testing.assert_frame_equal(one.frame, other.frame.rename(columns={"home town": "town"}))
