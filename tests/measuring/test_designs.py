"""Strata, PSUs and units: pairs, effects of their levels, and files whose standard errors are the survey's own."""

import warnings

import numpy as np
import pandas as pd
import pytest
from counted import counted, file_of, measured

import surveysynth as ss
from surveysynth import InputError
from surveysynth.measuring.bins import Cells
from surveysynth.measuring.measure import pairs_of, pairs_tell_more
from surveysynth.measuring.protected_units import Units, most_records
from surveysynth.measuring.terms import Term, terms_of
from surveysynth.models.loglinear.bases import Response
from surveysynth.models.loglinear.level_effects import LevelRows, fit_levels, levels_from_pairs

PUBLIC = {"bounds": (0, 1_000), "population_total": 60_000}


def clustered(levels, size, share, seed, strata=1):
    """A survey of so many PSUs, an amount with a share of its variance between them, and weights."""
    rng = np.random.default_rng(seed)
    n, psu = levels * size, np.repeat(np.arange(levels), size)
    stratum = psu % strata
    score = np.sqrt(share) * rng.standard_normal(levels)[psu] + np.sqrt(1 - share) * rng.standard_normal(n)
    group = rng.integers(0, 3, n)
    score = score + 0.3 * group + (0.8 * rng.standard_normal(strata)[stratum] if strata > 1 else 0)
    frame = pd.DataFrame({
        "stratum": stratum, "psu": psu, "group": np.array(list("abc"))[group], "y": 80 * np.exp(0.7 * score),
        "w": rng.gamma(6, 1 / 6, n),
    })  # fmt: skip
    frame["w"] *= 60_000 / frame["w"].sum()
    return ss.SurveyDesign(frame, weights="w", psu="psu", strata="stratum" if strata > 1 else None)


# pairs


def test_a_record_is_in_one_pair_of_its_level_or_in_none():
    rng = np.random.default_rng(1)
    level = rng.integers(0, 12, 101)
    one, other = pairs_of(level, rng)
    used = np.concatenate([one, other])
    assert len(set(used)) == len(used) and (level[one] == level[other]).all()
    assert len(one) == (np.bincount(level) // 2).sum()


def test_a_record_changes_a_table_of_pairs_by_one_cell_or_two():
    """Brute force: every record blanked, and replaced by every other value."""
    rng = np.random.default_rng(2)
    level, code = rng.integers(0, 5, 40), rng.integers(0, 6, 40)
    groups = np.array([0, 0, 1, 1, 2, 3])
    one, other = pairs_of(level, rng)

    def table(code, kept):
        return counted(groups[code[one]][kept], 4, code[other][kept], groups)

    everyone = np.ones(len(one), dtype=bool)
    whole = table(code, everyone)
    for i in range(40):
        blanked = table(code, (one != i) & (other != i))
        assert np.abs(whole - blanked).sum() == (i in one or i in other)
        for value in range(6):
            changed = code.copy()
            changed[i] = value
            assert np.abs(whole - table(changed, everyone)).sum() in (0, 2)


def test_pairs_are_counted_where_levels_are_many_and_small():
    assert pairs_tell_more(500, 6, 0.3) and not pairs_tell_more(31, 250, 0.3)


# effects of levels


def simulated(sd, levels, size, rng):
    """Cells of records whose log probabilities are tilted by effects of their level, and the response."""
    p = np.exp(-0.5 * ((np.arange(40) - 20) / 6) ** 2)
    response = Response(p / p.sum(), 40)
    score = response.scores
    each = response.p * np.exp(sd * rng.standard_normal((levels, 1)) * score)
    each /= each.sum(axis=1, keepdims=True)
    level = np.repeat(np.arange(levels), size)
    code = (rng.random(len(level))[:, None] > np.cumsum(each, axis=1)[level]).sum(axis=1)
    marginal = each.mean(axis=0)
    rows = LevelRows(np.tile(marginal, (levels, 1)), np.full(levels, float(size)), np.arange(levels), levels)
    return Response(marginal, 40), rows, level, code


@pytest.mark.parametrize("sd", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("pairs", [False, True])
def test_the_variance_between_levels_is_found(sd, pairs):
    """From 150 levels of 30 with noise, or from pairs in 800 levels of 6: within three Monte Carlo errors.

    A variance twice or half as large would fail at a standard deviation of .5.
    """
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(4), 10)
    indicators = np.eye(4)[groups]
    found = []
    for _ in range(12):
        response, rows, level, code = simulated(sd, *((800, 6) if pairs else (150, 30)), rng)
        if pairs:
            one, other = pairs_of(level, rng)
            table = counted(groups[code[one]], 4, code[other], groups) + rng.laplace(0, 2, (4, 4))
            effects = levels_from_pairs(response, rows, indicators, table, 8.0, np.full(800, 3))
        else:
            table = counted(level, 150, code, groups) + rng.laplace(0, 1.5, (150, 4))
            effects = fit_levels(response, rows, indicators, table, 4.5)
        drawn = effects.log_changes(effects.draw(rng))
        score = response.scores
        found.append(np.var([np.polyfit(score, each, 1, w=np.sqrt(response.p))[0] for each in drawn]))
    error = np.std(found) / np.sqrt(12)
    # the axis is that of the marginal distribution, whose variance is 1 + sd^2
    assert abs(np.mean(found) - sd**2 / (1 + sd**2)) < 3 * error + 0.012
    assert error < 0.03


# whole files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "size", "share", "strata"), [(40, 40, 0.15, 1), (40, 40, 0.05, 1), (60, 20, 0.2, 15), (500, 6, 0.3, 1)]
)
def test_files_have_the_standard_errors_of_the_survey(levels, size, share, strata):
    """On average over four surveys within 15%; without PSUs they are half as large at a share of .15."""
    ratios = []
    for seed in range(4):
        design = clustered(levels, size, share, seed, strata)
        release = ss.measure(design, "y ~ group", epsilon=5, seed=seed, **PUBLIC).release(10, seed=seed)
        own = ss.estimate(design, "y", "group", ["mean", "count"])["se"].to_numpy()
        files = [ss.estimate(file, "y", "group", ["mean", "count"])["se"].to_numpy() for file in release.datasets]
        some = own > 0
        ratios.append(np.sqrt(np.mean(np.square(files), axis=0))[some] / own[some])
    assert np.mean(ratios) == pytest.approx(1, abs=0.15)


def test_a_clustered_file_is_released_in_one_call_and_read_back(tmp_path):
    design = clustered(12, 25, 0.2, 1, strata=4)
    release = ss.synthesize(design, "y ~ group", epsilon=5, m=4, **PUBLIC)
    file = release.datasets[0]
    assert file.psu_names == ("psu",) and file.strata_name == "stratum"
    assert not any("clusters ignored" in str(note) for note in release.privacy.assumptions)
    measured = ss.measure(design, "y ~ group", epsilon=5, **PUBLIC)
    by = set(measured.table()["by"])
    assert {"strata (stratum)", "PSUs (psu)"} <= by
    again = ss.read_measurements(measured.write(tmp_path / "measured"))
    pd.testing.assert_frame_equal(again.table(), measured.table())
    one, other = (each.release(4, seed=1).tables("group") for each in (measured, again))
    pd.testing.assert_frame_equal(one, other)


def test_strata_that_the_formula_determines_have_no_effects_of_their_own():
    design = clustered(12, 10, 0.1, 1, strata=4)
    frame = design.frame.assign(area=design.frame["stratum"].map(list("abcd").__getitem__))
    named = ss.SurveyDesign(frame, weights="w", strata="stratum")
    assert [term.name for term in terms_of(named, "area + group", True)] == ["area", "group"]
    assert [term.name for term in terms_of(named, "group", True)] == ["group", "strata (stratum)"]
    ignored = ss.measure(named, "y ~ group", epsilon=5, clusters="ignore", **PUBLIC)
    assert set(ignored.table()["by"]) == {"", "group", "y"}


# units of several records


def households(seed=1, share=0.4):
    """Persons in 400 households of 1 to 7."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(400), rng.choice([1, 2, 3, 4, 7], 400))
    n = len(unit)
    score = np.sqrt(share) * rng.standard_normal(400)[unit] + np.sqrt(1 - share) * rng.standard_normal(n)
    frame = pd.DataFrame({
        "household": unit, "sex": rng.choice(["f", "m"], n), "y": 80 * np.exp(0.7 * score), "w": rng.gamma(6, 1, n),
    })  # fmt: skip
    frame["w"] *= 60_000 / frame["w"].sum()
    return ss.SurveyDesign(frame, weights="w", psu="household")


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_unit_changes_every_table_by_what_its_noise_is_made_for(most):
    """Brute force over the tables as they are measured: every unit blanked, and replaced by extreme values."""
    rng, cells = np.random.default_rng(4), Cells.for_outcome(ss.Outcome(bounds=(0, 500)))
    of_record = np.repeat(np.arange(30), rng.integers(1, 8, 30))
    n = len(of_record)
    level = rng.integers(0, 3, n)
    units, region = Units(of_record, most), Term("region", ("region",), (("a",), ("b",), ("c",)), level, level, None)
    own, parts = rng.integers(0, len(cells), n), units.parts
    y = measured("y", cells, file_of({"y": own}, {"region": level}, rng, units))
    y.by(region, 1.0)
    y.scores(region, 1.0)
    largest = {}
    for table in y.tables:
        rows = np.zeros(n, dtype=np.intp) if table.by is None else level
        L, scores = len(table.counts), table.scores
        whole = counted(rows, L, own, table.groups, scores, parts)
        for unit in range(30):
            out = of_record != unit
            left = counted(rows[out], L, own[out], table.groups, scores, parts[out])
            change = np.abs(whole - left).sum()
            assert change <= table.unit == most * table.per
            largest[id(table)] = max(largest.get(id(table), 0), change)
            for code in (0, len(cells) - 1):
                other = np.where(out, own, code)
                changed = counted(rows, L, other, table.groups, scores, parts)
                assert np.abs(whole - changed).sum() <= 2 * table.unit
    # and no less: noise is not made for more than can happen
    assert max(largest[id(t)] / t.unit for t in y.tables) > 0.9


def test_a_unit_is_in_one_pair_at_most():
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(40), rng.integers(1, 8, 40))
    for level in (unit, unit // 5):
        one, other = pairs_of(level, rng, unit)
        assert len(one) and (level[one] == level[other]).all() and (one != other).all()
        assert max(np.sum((unit[one] == u) | (unit[other] == u)) for u in range(40)) == 1


def test_more_records_of_a_unit_count_where_noise_is_small():
    of_record = np.repeat(np.arange(400), np.tile([1, 2, 3, 6], 100))
    assert most_records(of_record, 0.05) < most_records(of_record, 1.0) <= most_records(of_record, 50.0) == 6


def test_units_are_released_in_one_call_and_read_back(tmp_path):
    design = households()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # above all none that the population total is far from the weights
        release = ss.synthesize(design, "y ~ sex", epsilon=5, m=4, unit="household", **PUBLIC)
    assert release.privacy.unit == "household" and "'household'" in release.privacy.guarantee
    file = release.datasets[0].frame
    assert file.groupby("household").size().sort_values().tolist() == sorted(np.bincount(design.frame["household"]))
    again = ss.read_release(release.write(tmp_path / "release"))
    pd.testing.assert_frame_equal(again.tables("sex"), release.tables("sex"))
    measured = ss.measure(design, "y ~ sex", epsilon=5, unit="household", **PUBLIC).source.tables
    assert measured.epsilon == pytest.approx(5) and measured.epsilon <= 5
    with pytest.raises(InputError, match="household"):
        ss.measure(design, "y ~ sex", epsilon=5, unit="household", public=["sex"], **PUBLIC)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.4])
def test_files_of_units_have_the_standard_errors_of_the_survey(share):
    """Households as PSUs, on average over six surveys, within 15%; members drawn independently make .83 at .4."""
    ratios = []
    for seed in range(6):
        design = households(seed, share)
        release = ss.measure(design, "y ~ sex", epsilon=5, unit="household", seed=seed, **PUBLIC).release(10, seed=seed)
        own = ss.estimate(design, "y", "sex", ["mean"])["se"].to_numpy()
        files = [ss.estimate(file, "y", "sex", ["mean"])["se"].to_numpy() for file in release.datasets]
        ratios.append(np.sqrt(np.mean(np.square(files), axis=0)) / own)
    assert np.mean(ratios) == pytest.approx(1, abs=0.15)


def test_a_category_with_levels_needs_no_more(tmp_path):
    design = clustered(12, 25, 0.2, 1, strata=4)
    frame = design.frame.assign(rich=pd.Categorical(np.where(design.frame["y"] > 100, "yes", "no"), ["no", "yes"]))
    design = ss.SurveyDesign(frame, **design.roles())
    release = ss.synthesize(design, "rich ~ group", epsilon=5, m=4, population_total=60_000)
    assert set(release.tables("group", statistic="proportion")["category"]) == {"no", "yes"}
    levels = {"rich": ["no", "yes"]}
    plan = ss.Plan(design, "rich ~ group", epsilon=5, m=4, population_total=60_000, levels=levels)
    assert plan.release().outcomes == ("rich",)


def test_answers_that_households_share_have_their_share():
    """Children have no wage: they are many in large households, of which one counts for as much as a single person."""
    rng = np.random.default_rng(5)
    size = rng.choice([1, 2, 3, 4, 5, 6], 900, p=[0.42, 0.28, 0.09, 0.12, 0.06, 0.03])
    home = np.repeat(np.arange(900), size)
    child = np.concatenate([np.arange(k) >= 2 for k in size])
    wage = np.where(rng.random(900)[home] < 0.5, 0, np.exp(rng.normal(9.5, 0.5, home.size)))
    wage[child] = np.nan
    frame = pd.DataFrame({
        "home": home, "region": rng.choice(["a", "b", "c"], 900)[home], "wage": wage, "w": rng.uniform(1, 2, home.size),
    })  # fmt: skip
    design, shares = ss.SurveyDesign(frame, weights="w", psu="home"), []
    for seed in range(4):
        release = ss.synthesize(
            design, "wage ~ region", epsilon=6, population_total=9_000, unit="home", weight="public", m=10, seed=seed,
            outcomes={"wage": ss.Outcome(bounds=(0, 200_000), zeros=True, missing="category")},
        )  # fmt: skip
        shares += [each.frame["wage"].isna().mean() for each in release.datasets]
    assert np.mean(shares) == pytest.approx(child.mean(), rel=0.08)


def test_psus_do_not_bias_shares_given_an_earlier_outcome():
    """PSUs differ much; a tilt moves a share of .84 less than one of .19, so that it has to be known for each."""
    rng = np.random.default_rng(1)
    psu, child = rng.integers(0, 40, 6_000), rng.random(6_000) < 0.4
    logit = rng.normal(0, 1.2, 40)[psu] + np.where(child, 2, -2)
    none = rng.random(6_000) < 1 / (1 + np.exp(-logit))
    frame = pd.DataFrame({
        "psu": psu, "region": rng.choice(["a", "b", "c"], 6_000), "child": np.where(child, "y", "n"),
        "pay": np.where(none, "none", "some"), "w": 1.0,
    })  # fmt: skip
    measured = ss.measure(
        ss.SurveyDesign(frame, weights="w", psu="psu"), ["child ~ region", "pay ~ region + child"], epsilon=100,
        weight="public", seed=1,
        outcomes={"child": ss.Outcome(levels=["y", "n"]), "pay": ss.Outcome(levels=["none", "some"])},
    )  # fmt: skip
    files = pd.concat([each.frame for each in measured.release(20, seed=1).datasets])
    for level, there in (("y", child), ("n", ~child)):
        share = none[there].mean()
        se = (share * (1 - share) / there.sum()) ** 0.5
        made = (files.loc[files["child"].astype(str) == level, "pay"].astype(str) == "none").mean()
        assert abs(made - share) < 1.5 * se  # 20 files of one sample: the sample's own error is no part of it
