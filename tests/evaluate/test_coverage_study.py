"""The coverage study: populations, cells, what it sums up, and the command."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import surveysynth as ss
from surveysynth.studies.coverage import outputs, populations
from surveysynth.studies.coverage.study import MAKERS, Cell, coverage_study, one_sample

COMMAND = ("study", "coverage")


def frame(N=6000, seed=1):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"region": rng.choice(["N", "S"], N), "sex": rng.choice(["f", "m"], N)})
    made["size"] = rng.uniform(1, 4, N)
    made["pay"] = np.exp(7 + 0.3 * (made["sex"] == "m") - 0.1 * made["size"] + 0.5 * rng.standard_normal(N))
    return made


def own(**settings):
    return populations.own(frame(), "pay ~ region + sex", bounds=(0, 20_000), strata="region", size="size", **settings)


def working():
    """The same people with a category, which of them work, and pay that is 0 where they do not."""
    made = frame()
    made["work"] = np.random.default_rng(2).choice(["none", "part", "full"], len(made), p=[0.5, 0.2, 0.3])
    return made.assign(pay=made["pay"].where(made["work"] != "none", 0.0))


def of_kind(formula, schema, **settings):
    return populations.RealPopulation("working", working(), formula, schema, "region", "size", **settings)


WORK = "work ~ region + sex", ss.Outcome(levels=["none", "part", "full"])


def test_truths_are_those_of_the_population():
    truths = own().truths().set_index(["statistic", "margin", "level"])["truth"]
    everybody = frame()
    for margin in ("region", "sex"):
        groups = everybody.groupby(margin)["pay"]
        for level in groups.groups:
            assert truths["mean", margin, level] == pytest.approx(groups.mean()[level])
            assert truths["total", margin, level] == pytest.approx(groups.sum()[level])
            assert truths["count", margin, level] == groups.size()[level]
    assert truths["mean", "all", "all"] == pytest.approx(everybody["pay"].mean())
    assert truths.index.is_unique


def test_a_category_has_a_truth_for_each_of_its_levels_and_a_quantile_for_each_probability():
    truths = of_kind(*WORK, statistics=populations.CATEGORIES).truths().set_index(["statistic", "margin", "level"])
    shares = working().groupby("sex")["work"].value_counts(normalize=True)
    for (sex, work), share in shares.items():
        assert truths.loc[("proportion", "sex", f"{sex}: {work}"), "truth"] == pytest.approx(share)
    assert len(truths) == 5 * (3 + 1)
    amounts = replace(own(), statistics=populations.AMOUNTS).truths().set_index(["statistic", "margin", "level"])
    for prob in (0.1, 0.5, 0.9):
        quantile = frame()["pay"].quantile(prob, interpolation="inverted_cdf")
        assert amounts.loc[(f"quantile {prob:g}", "all", "all"), "truth"] == pytest.approx(quantile)
    poor = frame()["pay"] < 0.6 * frame()["pay"].median()
    assert amounts.loc[("poverty_rate", "all", "all"), "truth"] == pytest.approx(poor.mean(), abs=1e-3)
    assert {"gini", "mean"} < set(amounts.index.get_level_values("statistic"))


@pytest.mark.parametrize(("formula", "schema", "settings"), [
    (*WORK, {"statistics": populations.CATEGORIES, "model": ss.MultinomialRegression(WORK[0], weight="public")}),
    ("pay ~ region + sex", ss.Outcome(bounds=(0, 20_000), zeros=True),
     {"weight": "public", "model": ss.Mixture("pay ~ region + sex", zeros=True, bounds=(1, 20_000), weight="public")}),
])  # fmt: skip
def test_strict_is_from_noisy_tables_whatever_models_other_mechanisms_fit(formula, schema, settings):
    """Twenty data sets are those of noisy tables; intervals of a good sample hold the truth."""
    population = of_kind(formula, schema, **settings)
    done = one_sample(Cell(population, 600, "strict", 10.8, 5), 1)
    assert done.failures == []
    e = done.frames["estimates"].merge(population.truths(), on=["margin", "level", "statistic"], how="outer")
    strict = e[e["method"] == "strict"]
    assert (strict["m"] == 20).all()
    assert len(strict) == (e["method"] == "confidential").sum()
    assert (np.abs(strict["estimate"] - strict["truth"]) <= 5 * strict["se"] + 1e-9 * strict["truth"]).all()


def test_categories_are_summed_up(tmp_path):
    population = of_kind(*WORK, statistics=populations.CATEGORIES)
    cells = coverage_study(population, n=[400], epsilon=[9.0], replicates=2, seed=3)
    assert (tmp_path / "coverage_working_400.png") in outputs.write(cells, tmp_path)
    margins = pd.read_csv(tmp_path / "margins.csv").query("method == 'strict'").set_index(["statistic", "margin"])
    assert margins["levels"].to_dict() == {
        ("proportion", "all"): 3, ("proportion", "sex"): 6, ("proportion", "region"): 6, ("count", "sex"): 2,
        ("count", "region"): 2,
    }  # fmt: skip
    assert outputs.ruined(cells)[["ruined", "samples"]].to_numpy().tolist() == [[0, 2]]


def test_made_up_psus_have_forty_units_and_are_a_little_alike():
    population = populations.in_psus(own())
    groups = population.frame.groupby(["region", "psu"])
    assert (groups.size() == 40).all()
    log = np.log(population.frame["pay"])
    between = log.groupby([population.frame["region"], population.frame["psu"]]).mean().var() - log.var() / 40
    assert 0.02 < between / log.var() < 0.15
    design = population.sample(400, 1)
    assert design.clustered
    assert design.n == 400


def test_all_mechanisms_of_a_population_see_the_same_samples():
    tables = [one_sample(Cell(own(), 400, kind, 9.0, 5), 2).frames["estimates"] for kind in ("pseudo", "laplace")]
    first, second = (t[t["method"] == "confidential"].drop(columns="m") for t in tables)
    pd.testing.assert_frame_equal(first, second)
    other = one_sample(Cell(own(), 400, "laplace", 9.0, 5), 3).frames["estimates"]
    assert not np.allclose(other["estimate"][:5], first["estimate"][:5])


def test_a_study_is_kept_gone_on_with_and_summed_up(tmp_path):
    settings = {"n": [400], "epsilon": [9.0], "mechanisms": ["pseudo", "laplace"], "out": tmp_path / "study"}
    coverage_study(own(), replicates=2, seed=3, **settings)
    cells = coverage_study(own(), replicates=4, **settings)
    assert [cell.name for cell, _ in cells] == ["own_400_pseudo_9", "own_400_laplace_9"]
    paths = outputs.write(cells, tmp_path / "tables")
    names = {"levels.csv", "margins.csv", "failures.csv", "summary.txt", "coverage_own_400.png"}
    assert {path.name for path in paths} == names
    levels = pd.read_csv(tmp_path / "tables" / "levels.csv")
    chosen = "method == 'pseudo' and level == 'f' and statistic == 'mean'"
    here, row = cells[0][1].all("estimates").query(chosen), levels.query(chosen).iloc[0]
    truth = frame().groupby("sex")["pay"].mean()["f"]
    assert row["replicates"] == 4
    assert row["bias"] == pytest.approx(here["estimate"].mean() - truth)
    assert row["coverage"] == ((here["ci_low"] <= truth) & (truth <= here["ci_high"])).mean()
    assert row["bias_se"] == pytest.approx(row["bias"] / here["se"].mean())
    margins = pd.read_csv(tmp_path / "tables" / "margins.csv")
    assert not ((margins["margin"] == "all") & (margins["statistic"] == "count")).any()
    summary = (tmp_path / "tables" / "summary.txt").read_text()
    assert "own, n = 400: pseudo posterior, epsilon = 9, m = 3; 4 samples" in summary


def test_coverage_that_is_too_low_is_found_by_exact_tests_together():
    """Of five levels with 200 samples: .85 is too low, .91 is not for five tests; .80 is not where the own is .78."""
    shares, own_coverage = np.array([0.85, 0.91, 0.95, 0.93, 0.80]), np.array([0.95, 0.95, 0.95, 0.95, 0.78])
    table = pd.DataFrame({
        "population": "p", "n": 2000, "method": "strict", "epsilon": 5.0, "statistic": "mean",
        "coverage": shares, "own_coverage": own_coverage, "replicates": 200,
    })  # fmt: skip
    p = binom.cdf(np.round(200 * shares), 200, np.minimum(0.93, own_coverage))
    assert p[0] < 0.01 < p[1]
    assert outputs._below(table).tolist() == [True, False, False, False, False]


def test_every_mechanism_has_a_name_and_a_look():
    assert set(MAKERS) <= set(outputs.NAMES) & set(outputs.LOOKS)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(ss.InputError, match="mechanisms: magic is not one of strict"):
        coverage_study(own(), mechanisms=["magic"])
    with pytest.raises(ss.InputError, match="no such columns in the population"):
        populations.own(frame(), "pay ~ age", bounds=(0, 1), strata="region", size="size")
    with pytest.raises(ss.InputError, match="population='moon' is not one of"):
        populations.population("moon")
    (tmp_path / "letter.txt").write_text("Dear Sir")
    with pytest.raises(ss.InputError, match="exists and is not the folder of a study"):
        coverage_study(own(), out=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["strict", "strict-earlier", "pseudo-debias", "censored"])
def test_every_mechanism_has_tables_of_a_sample(kind):
    done = one_sample(Cell(own(), 1500, kind, 10.8, 5), 1)
    assert done.failures == []
    e = done.frames["estimates"].merge(own().truths(), on=["margin", "level", "statistic"])
    e = e[(e["method"] == kind) & (e["statistic"] == "mean")]
    assert len(e) == 5
    assert (np.abs(e["estimate"] - e["truth"]) < 5 * e["se"] + 0.15 * e["truth"]).all()


@pytest.mark.slow
def test_households_are_those_of_laeken(r_frame):
    """Regions as in the file; nine of them, and 30,000 households."""
    population = populations.population("households")
    heads = r_frame("{ data(eusilc, package = 'laeken'); eusilc[!duplicated(eusilc$db030), c('db040', 'eqIncome')] }")
    means = population.frame.groupby("region")["income"].mean()
    there = heads.groupby("db040")["eqIncome"].agg(["mean", "sem"])
    assert len(population.frame) == 30_000
    assert (np.abs(means - there["mean"]) < 4 * there["sem"]).all()
    assert population.sample(1500, 1).n == 1500


@pytest.mark.slow
def test_categories_are_those_of_laeken(r_frame):
    """What men and women do; households below 60% of the median."""
    activity = populations.population("activity")
    there = r_frame("""{ data(eusilc, package = 'laeken'); a <- eusilc[which(eusilc$age >= 16 & !is.na(eusilc$pl030)), ]
        data.frame(sex = as.character(a$rb090), retired = a$pl030 == 5) }""").groupby("sex")["retired"].mean()
    shares = (activity.frame["activity"] == "retired").groupby(activity.frame["sex"]).mean()
    assert np.allclose(shares, there, atol=0.02)
    assert set(activity.frame["activity"]) == set(activity.schema.levels)
    poverty, incomes = (populations.population(name).frame for name in ("poverty", "households"))
    assert ((poverty["poor"] == "yes") == (incomes["income"] < 0.6 * incomes["income"].median())).all()


@pytest.mark.slow
def test_persons_are_sampled_with_all_of_their_household(r_frame):
    """Mean incomes by sex are those of R's own sums; every household of a sample is whole."""
    population = populations.population("persons")
    own = r_frame("""{ data(eusilc, package = 'laeken'); a <- eusilc[eusilc$age >= 16, ]
        data.frame(sex = as.character(a$rb090), income = rowSums(a[, grep('^py', names(a))], na.rm = TRUE)) }""")
    there = own[own["income"] > 0].groupby("sex")["income"].agg(["mean", "sem"])
    means = population.frame.groupby("sex")["income"].mean()
    assert population.frame["household"].nunique() == 15_000
    assert (np.abs(means - there["mean"]) < 4 * there["sem"]).all()
    sample = population.sample(1000, 1)
    assert (sample.frame.groupby("household")["income"].transform("size") == sample.frame["members"]).all()
    assert sample.n == pytest.approx(1000, abs=60)


@pytest.mark.slow
def test_the_command_does_it_and_says_what_is_wrong(folder, run_cli):
    frame().to_csv("people.csv", index=False)
    words = ["--out", "done", "--data", "people.csv", "--formula", "pay ~ region + sex", "--bounds", "0,20000",
             "--strata", "region", "--size", "size"]  # fmt: skip
    code, out, err = run_cli(*words, "--mechanisms", "pseudo", "--n", "300", "--epsilon", "9", "--replicates", "2",
                             "--workers", "1")  # fmt: skip
    assert code == 0
    assert "95% intervals on repeated samples" in out
    assert Path("done/coverage_own_300.png").is_file()
    for wrong, message in [
        (["--out", "x", "--formula", "y ~ x"], "--formula: only with --data"),
        (["--out", "x", "--data", "people.csv"], "--data needs --formula, --bounds, --strata"),
        ([*words, "--population", "workers"], "--population: not with --data"),
    ]:
        code, _, err = run_cli(*wrong)
        assert code == 2
        assert message in err
