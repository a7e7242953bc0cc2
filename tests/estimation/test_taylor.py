"""Taylor estimates against R's survey, and against themselves on designs that do not matter to them."""

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.estimation.variance import covariance

NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]
STATISTICS = ["mean", "total", "count"]

R_TABLE = """
function(design, outcome, by, statistic) {
  design <- update(design, one = 1)
  present <- statistic == "count" | !is.na(design$variables[[outcome]])
  outcome <- reformulate(if (statistic == "count") "one" else outcome)
  f <- if (statistic == "mean") svymean else svytotal
  s <- if (length(by)) svyby(outcome, reformulate(by), design, f, na.rm = TRUE) else f(outcome, design, na.rm = TRUE)
  out <- data.frame(estimate = as.numeric(coef(s)), se = as.numeric(SE(s)), statistic = statistic)
  for (b in by) out[[b]] <- s[[b]]
  inside <- function(i) Reduce(`&`, lapply(by, function(b) as.character(design$variables[[b]]) == s[[b]][i]), present)
  out$df <- sapply(seq_len(nrow(out)), function(i) degf(design[which(inside(i)), ]))
  half <- suppressWarnings(qt(0.975, out$df)) * out$se
  out$ci_low <- out$estimate - half
  out$ci_high <- out$estimate + half
  out
}"""


def svydesign(roles):
    """The call of R's svydesign on the frame ``d`` with the roles of a SurveyDesign."""

    def formula(names, none="NULL"):
        return f"~{' + '.join([names] if isinstance(names, str) else names)}" if names else none

    weight = next(f"{role} = ~{roles[role]}" for role in ("weights", "probs") if role in roles)
    strata, fpc = (formula(roles.get(role)) for role in ("strata", "fpc"))
    psu = formula(roles.get("psu"), "~1")
    return f"svydesign(id = {psu}, strata = {strata}, {weight}, fpc = {fpc}, data = d, nest = TRUE)"


@pytest.fixture(scope="module")
def r_estimates(r, r_frame, to_r):
    """R's table of every cell, margin and total, in the shape of ``estimate``."""
    r.globalenv["r_table"] = r.r(R_TABLE)

    def table(frame, roles, outcome, by, lonely="fail", statistics=STATISTICS):
        to_r("d", frame)
        r.r(f"options(survey.lonely.psu = '{lonely}'); design <- {svydesign(roles)}")
        parts = []
        for statistic in statistics:
            for size in range(len(by) + 1):
                for subset in combinations(by, size):
                    names = ", ".join(f"'{name}'" for name in subset)
                    part = r_frame(f"r_table(design, '{outcome}', c({names}), '{statistic}')")
                    parts.append(part.assign(**dict.fromkeys(set(by) - set(subset), "all")))
        return pd.concat(parts)

    yield table
    r.r("options(survey.lonely.psu = 'fail')")


def assert_same(table, expected, by, rtol=1e-9):
    """Equal rows, equal numbers; a variance of 0 may differ by the rounding of its estimate."""
    keys = ["statistic", *by]
    table, expected = (t.set_index([t[k].astype(str) for k in keys])[NUMBERS].sort_index() for t in (table, expected))
    assert table.index.tolist() == expected.index.tolist()
    slack = (1e-12 * expected["estimate"].abs()).to_numpy()
    for name in NUMBERS:
        a, b = (t[name].to_numpy(dtype=float) for t in (table, expected))
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=name)
        off = np.abs(a - b) - slack
        assert not (off > rtol * np.abs(b)).any(), f"{name}: {np.nanmax(off / np.abs(b))}"


# name: R's data set (None: from samplics), the columns to make in it, roles, outcome, by
API = ["sch.wide", "comp.imp"]
NHANES2 = {"weights": "finalwgt", "strata": "stratid", "psu": "psuid"}
NHANES = {"weights": "WTMEC2YR", "strata": "SDMVSTRA", "psu": "SDMVPSU"}
STRAT = {"weights": "pw", "strata": "stype"}
CLUS1 = {"weights": "pw", "psu": "dnum"}
CLUS2 = {"weights": "pw", "psu": ["dnum", "snum"]}
FRACTIONS = "f = 40/fpc1, g = ave(snum, dnum, FUN = length)/fpc2"
SCENARIOS = {
    "nhanes2": (None, "", NHANES2, "zinc", ["race", "highbp"]),
    "nhanes": ("nhanes", "", NHANES, "HI_CHOL", ["race", "agecat"]),
    "srs": ("apisrs", "", {"weights": "pw"}, "api00", ["stype", "sch.wide"]),
    "srs fpc": ("apisrs", "", {"weights": "pw", "fpc": "fpc"}, "api00", ["stype", "sch.wide"]),
    "strat": ("apistrat", "", STRAT, "api00", API),
    "strat fpc": ("apistrat", "", STRAT | {"fpc": "fpc"}, "enroll", API),
    "strat by stratum": ("apistrat", "", STRAT | {"fpc": "fpc"}, "api00", ["stype", "awards"]),
    "strat probs": ("apistrat", "p = 1/pw, f = 1/pw", {"probs": "p", "strata": "stype", "fpc": "f"}, "enroll", API),
    "clus1": ("apiclus1", "", CLUS1, "api00", API),
    "clus1 fpc": ("apiclus1", "", CLUS1 | {"fpc": "fpc"}, "api00", API),
    "clus1 fraction": ("apiclus1", "f = 15/fpc", CLUS1 | {"fpc": "f"}, "acs.46", API),
    "clus2": ("apiclus2", "", CLUS2, "api00", API),
    "clus2 fpc": ("apiclus2", "", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00", API),
    "clus2 missing": ("apiclus2", "", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "acs.46", ["sch.wide"]),
    "election": ("election_pps", "big = votes > 20000, k = seq_along(p) %% 2", {"probs": "p"}, "Bush", ["big", "k"]),
    "clus2 fractions": ("apiclus2", FRACTIONS, CLUS2 | {"fpc": ["f", "g"]}, "enroll", API),
}
SEVERAL_STAGES = {"clus2 fpc", "clus2 missing", "clus2 fractions"}


def nhanes2():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from samplics.datasets import load_nhanes2
    return load_nhanes2()["data"]


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request, r, r_frame):
    dataset, made, roles, outcome, by = SCENARIOS[request.param]
    frame = nhanes2() if dataset is None else r_frame(f"transform({dataset}, {made})" if made else dataset)
    names = [name for role in roles.values() for name in ([role] if isinstance(role, str) else role)]
    return request.param, frame[list(dict.fromkeys([*names, outcome, *by]))], roles, outcome, by


@pytest.fixture(scope="module")
def from_r(scenario, r_estimates):
    _, frame, roles, outcome, by = scenario
    return r_estimates(frame, roles, outcome, by)


@pytest.mark.parametrize("estimator", ["samplics", "onepass"])
def test_every_cell_margin_and_total_equals_r(scenario, from_r, estimator):
    name, frame, roles, outcome, by = scenario
    design = SurveyDesign(frame, **roles)
    if estimator == "samplics" and name in SEVERAL_STAGES:
        with pytest.raises(InputError, match="samplics has no several-stage variance with an fpc"):
            estimate(design, outcome, by, estimator=estimator, missing="drop")
        return
    table = estimate(design, outcome, by, STATISTICS, estimator=estimator, missing="drop")
    assert_same(table, from_r, by)


@pytest.mark.parametrize("name", ["nhanes", "strat fpc", "clus2 fpc"])
def test_the_whole_population_without_by(name, r, r_frame, r_estimates):
    dataset, _, roles, outcome, _ = SCENARIOS[name]
    frame = r_frame(dataset)
    table = estimate(SurveyDesign(frame, **roles), outcome, None, STATISTICS, missing="drop")
    assert_same(table, r_estimates(frame, roles, outcome, []), [])


@pytest.fixture(scope="module")
def lonely(r, r_frame):
    """NHANES with one PSU left in 4 of its 15 strata; `part` 2 holds lonely strata only."""
    frame = r_frame("nhanes")
    strata = np.sort(frame["SDMVSTRA"].unique())
    frame = frame[~(frame["SDMVSTRA"].isin(strata[[0, 5, 6, 14]]) & (frame["SDMVPSU"] == 2))]
    part = np.where(frame["SDMVSTRA"].isin(strata[[5, 14]]), 2, np.where(frame["SDMVSTRA"] < strata[9], 0, 1))
    size = np.where(frame["SDMVSTRA"].isin(strata[[0]]), 1, 30)  # sampled completely, and so not lonely
    return frame.assign(part=part, size=size)


def listed(role):
    return [role] if isinstance(role, str) else list(role or [])


def added_by_lonely_units(frame, roles, z, inside):
    """sum (z_h - mean)^2 over lonely units, times 1 - f and the fractions above; mean over the strata with records."""
    unit = listed(roles.get("strata"))
    added, share = 0.0, 1.0
    for psu, size in zip(roles["psu"], [*listed(roles.get("fpc")), None], strict=False):
        stratum, unit = unit, [*unit, psu]
        known = frame[size] if size else np.inf
        rows = frame[unit].assign(z=z * inside, inside=inside, share=share, N=known)
        units = rows.groupby(unit).agg({"z": "sum", "inside": "any", "share": "first", "N": "first"})
        within = units.groupby(stratum)
        n, held = within["z"].transform("size"), within["inside"].transform("any")
        f = n / units["N"]
        lonely = held & (n == 1) & (f < 1)
        mean = units.loc[held, "z"].sum() / held.sum()
        added += (units["share"] * (1 - f) * (units["z"] - mean) ** 2)[lonely].sum()
        share = frame[unit].merge((units["share"] * f).rename("f").reset_index(), how="left")["f"].to_numpy()
    return added


def r_adjusted(r_estimates, frame, roles, outcome, by):
    """R's table under "adjust": totals and counts, centred at 0 before survey 4.3, from "remove" and the formula."""
    roles = roles | {"psu": listed(roles["psu"])}
    frame = frame.reset_index(drop=True)
    sums = r_estimates(frame, roles, outcome, by, "remove", ["total", "count"]).reset_index(drop=True)
    w = frame[roles["weights"]]
    for i, row in sums.iterrows():
        inside = pd.Series(True, index=frame.index)
        for name in by:
            inside &= (frame[name].astype(str) == str(row[name])) | (row[name] == "all")
        y = 1.0 if row["statistic"] == "count" else frame[outcome].fillna(0.0)
        if row["statistic"] == "total":
            inside &= frame[outcome].notna()
        se = np.sqrt(row["se"] ** 2 + added_by_lonely_units(frame, roles, w * y, inside))
        half = student.ppf(0.975, row["df"]) * se
        sums.loc[i, ["se", "ci_low", "ci_high"]] = se, row["estimate"] - half, row["estimate"] + half
    return pd.concat([r_estimates(frame, roles, outcome, by, "adjust", ["mean"]), sums])


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
@pytest.mark.parametrize("fpc", [{}, {"fpc": "size"}], ids=["", "fpc"])
def test_lonely_psus_as_in_r(lonely, r_estimates, option, fpc):
    roles, by = NHANES | fpc, ["part", "agecat"]
    table = estimate(SurveyDesign(lonely, **roles, lonely_psu=option), "HI_CHOL", by, STATISTICS, missing="drop")
    if option == "adjust":
        expected = r_adjusted(r_estimates, lonely, roles, "HI_CHOL", by)
    else:
        expected = r_estimates(lonely, roles, "HI_CHOL", by, option)
    assert expected["se"].isna().any() == (option == "average")  # part 2 has nothing to average
    assert_same(table, expected, by)


SINGLETON = pd.DataFrame({
    "S": [1, 1, 2, 2, 3], "w": [10.5, 10.5, 20, 20, 15], "y": [30.5, 40.5, 35, 52, 44], "sex": list("mffmm")
})  # fmt: skip


def test_adjust_centres_a_lonely_psu_at_the_mean_of_all():
    """127,579.8 is the target of survey's own test (4.3 on); the rest follows by hand from PSU totals."""
    design = SurveyDesign(SINGLETON, weights="w", strata="S", lonely_psu="adjust")
    table = estimate(design, "y", "sex", ["total", "count"])
    total, count = (table[table["statistic"] == s].set_index("sex")["se"] ** 2 for s in ("total", "count"))
    assert total["all"] == pytest.approx(11025 + 115600 + (660 - 3145.5 / 5) ** 2) == pytest.approx(127579.81)
    assert total["m"] == pytest.approx(320.25**2 + 1040**2 + (660 - 2020.25 / 5) ** 2)
    assert total["f"] == pytest.approx(425.25**2 + 700**2)  # the third stratum has no woman
    assert count["all"] == pytest.approx((15 - 76 / 5) ** 2)
    w, y = design.weights, SINGLETON["y"].to_numpy()
    both = covariance(design, np.column_stack([w * y, w]))
    np.testing.assert_allclose(both, [[127579.81, 30.9 * -0.2], [30.9 * -0.2, 0.04]], rtol=1e-9)
    women = SINGLETON["sex"].to_numpy() == "f"
    np.testing.assert_allclose(covariance(design, (w * y * women)[:, None], women), [[total["f"]]], rtol=1e-12)


@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
def test_lonely_units_of_a_domain_of_whole_strata_are_those_of_its_own_file(lonely, option):
    frame = lonely.assign(region=np.where(lonely["part"] == 2, 0, lonely["SDMVSTRA"] % 2 + 1))
    assert frame.groupby("SDMVSTRA")["region"].nunique().eq(1).all()
    design = SurveyDesign(frame, **NHANES, lonely_psu=option)
    table = estimate(design, "HI_CHOL", "region", STATISTICS, missing="drop")
    for region, part in frame.groupby("region"):
        own = estimate(SurveyDesign(part, **NHANES, lonely_psu=option), "HI_CHOL", None, STATISTICS, missing="drop")
        np.testing.assert_allclose(table.loc[table["region"] == region, "se"], own["se"], rtol=1e-9)


def test_lonely_psus_fail_as_in_r(lonely, r, r_estimates):
    with pytest.raises(InputError, match="only one sampling unit"):
        SurveyDesign(lonely, **NHANES)
    with pytest.raises(r.rinterface.embedded.RRuntimeError, match="has only one PSU at stage 1"):
        r_estimates(lonely, NHANES, "HI_CHOL", [])


@pytest.mark.slow
@pytest.mark.parametrize("option", ["fail", "remove", "adjust", "average"])
def test_a_complete_lonely_stratum_fails_nowhere(lonely, r_estimates, option):
    strata = np.sort(lonely["SDMVSTRA"].unique())
    frame = lonely[~lonely["SDMVSTRA"].isin(strata[[5, 6, 14]])]
    roles, by = NHANES | {"fpc": "size"}, ["part", "agecat"]
    table = estimate(SurveyDesign(frame, **roles, lonely_psu=option), "HI_CHOL", by, STATISTICS, missing="drop")
    assert_same(table, r_estimates(frame, roles, "HI_CHOL", by, option), by)


# name: R's data set, roles, post-strata, their population totals in R, outcome, by
POST = {
    "strat": ("apistrat", STRAT, "stype", "xtabs(~stype, apipop)", "api00", ["stype", "sch.wide"]),
    "strat by others": ("apistrat", STRAT, "awards", "xtabs(~awards, apipop)", "enroll", API),
    "strat fpc by others": ("apistrat", STRAT | {"fpc": "fpc"}, "awards", "xtabs(~awards, apipop)", "api00", API),
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, "stype", "xtabs(~stype, apipop)", "api00", ["awards"]),
    "srs": ("apisrs", {"weights": "pw"}, "stype", "xtabs(~stype, apipop)", "api00", ["stype", "sch.wide"]),
    "clus1": ("apiclus1", CLUS1, "stype", "xtabs(~stype, apipop)", "api00", ["stype", "sch.wide"]),
    "clus1 fpc": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "stype", "xtabs(~stype, apipop)", "enroll", API),
    "clus1 missing": ("apiclus1", CLUS1, "stype", "xtabs(~stype, apipop)", "acs.46", API),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "stype", "xtabs(~stype, apipop)", "api00", API),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POST)
def test_weights_that_are_calibrated_to_known_totals_as_after_r_s_poststratify(name, r, r_frame, to_r):
    dataset, roles, post, totals, outcome, by = POST[name]
    r.globalenv["r_table"] = r.r(R_TABLE)
    to_r("d", r_frame(dataset))
    r.r(f"""
        totals <- setNames(as.data.frame({totals}), c("{post}", "Freq"))
        design <- postStratify({svydesign(roles)}, ~{post}, totals)
        d$calibrated <- weights(design)
    """)
    subsets = [names for size in range(len(by) + 1) for names in combinations(by, size)]
    expected = pd.concat([
        r_frame(f"r_table(design, '{outcome}', c({', '.join(map(repr, names))}), '{statistic}')")
        .assign(**dict.fromkeys(set(by) - set(names), "all"))
        for statistic in STATISTICS
        for names in subsets
    ])  # fmt: skip
    design = SurveyDesign(r_frame("d"), **roles | {"weights": "calibrated"}, poststrata=post)
    table = estimate(design, outcome, by, STATISTICS, missing="drop")
    assert table.attrs["estimator"] == "onepass"
    assert_same(table, expected, by)
    plain = estimate(SurveyDesign(r_frame("d"), **roles | {"weights": "calibrated"}), outcome, by, STATISTICS,
                     missing="drop")  # fmt: skip
    np.testing.assert_allclose(table["estimate"], plain["estimate"], rtol=1e-10)
    moved = (np.abs(table["se"] - plain["se"]) > 1e-3 * plain["se"]).any()
    assert moved == (post != roles.get("strata"))  # weights that are equal within strata keep to their totals
    known = estimate(design, by=post, statistic="count")
    assert (known["se"] == 0).all()  # not nearly
    lacking = "several-stage variance" if len(design.stages) > 1 else "variance for weights that are calibrated"
    with pytest.raises(InputError, match=f"samplics has no {lacking}"):
        estimate(design, outcome, by, estimator="samplics", missing="drop")


@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
def test_lonely_psus_with_known_totals_as_in_r(lonely, r, r_frame, to_r, option):
    to_r("d", lonely)
    r.globalenv["r_table"] = r.r(R_TABLE)
    r.r(f"""
        options(survey.lonely.psu = "{option}")
        totals <- data.frame(race = 1:4, Freq = c(4e7, 5e7, 2e7, 1e7))
        design <- postStratify({svydesign(NHANES)}, ~race, totals)
        d$calibrated <- weights(design)
    """)
    by = ["agecat"]
    expected = pd.concat(
        [
            r_frame(f"r_table(design, 'HI_CHOL', {names}, '{statistic}')").assign(**label)
            for statistic in STATISTICS
            for names, label in (("'agecat'", {}), ("c()", {"agecat": "all"}))
        ]
    )
    r.r("options(survey.lonely.psu = 'fail')")
    design = SurveyDesign(r_frame("d"), **NHANES | {"weights": "calibrated"}, lonely_psu=option, poststrata="race")
    assert_same(estimate(design, "HI_CHOL", by, STATISTICS, missing="drop"), expected, by)


@pytest.fixture(scope="module")
def three_stages():
    """Strata, schools, classes, pupils: 1 to 3 of each in the one above, where labels begin again."""
    pupils = [[[2, 3]], [[1], [3, 1, 2]], [[2, 2], [1], [3, 2]]]
    label = [
        (h, c, k, i)
        for h, schools in enumerate(pupils)
        for c, classes in enumerate(schools)
        for k, size in enumerate(classes)
        for i in range(size)
    ]
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(label, columns=["h", "c", "k", "i"])
    n = len(frame)
    frame["N1"], frame["N2"] = 30 + frame["h"], 10 + frame["c"]
    frame["N3"] = frame.groupby(["h", "c", "k"])["i"].transform("size") + frame["k"]  # the first class: all of it
    return frame.assign(
        g=rng.integers(0, 3, n), s=rng.integers(0, 2, n), y=rng.normal(5, 2, n), w=rng.lognormal(3, 1, n)
    )


STAGES = {"weights": "w", "strata": "h", "psu": ["c", "k", "i"], "fpc": ["N1", "N2", "N3"]}


@pytest.mark.parametrize("option", ["remove", "adjust"])
def test_lonely_units_at_every_stage_as_in_r(three_stages, r_estimates, option):
    design = SurveyDesign(three_stages, **STAGES, lonely_psu=option)
    assert len(design.stages) == 3 and all((stage.sampled == 1).any() for stage in design.stages)
    by = ["g", "s"]
    if option == "adjust":
        expected = r_adjusted(r_estimates, three_stages, STAGES, "y", by)
    else:
        expected = r_estimates(three_stages, STAGES, "y", by, option)
    assert_same(estimate(design, "y", by, STATISTICS), expected, by)


def test_fewer_fpcs_than_stages_are_infinite_populations_in_r(three_stages, r_estimates):
    roles = STAGES | {"fpc": ["N1"]}
    design = SurveyDesign(three_stages, **roles, lonely_psu="remove")
    infinite = STAGES | {"fpc": ["N1", "inf2", "inf3"]}
    expected = r_estimates(three_stages.assign(inf2=np.inf, inf3=np.inf), infinite, "y", ["g"], "remove")
    assert_same(estimate(design, "y", "g", STATISTICS), expected, ["g"])


def test_average_at_a_later_stage_where_r_gives_nan(three_stages, r, r_estimates):
    """R's two stages apart: what the second adds under `remove`, spread over the schools without a variance."""
    frame = three_stages[three_stages["h"] > 0]
    roles = {"weights": "w", "strata": "h", "psu": ["c", "k"], "fpc": ["N1", "N2"]}
    assert r_estimates(frame, roles, "y", [], "average", ["total"])["se"].isna().all()
    both = r_estimates(frame, roles, "y", [], "remove", ["total"])["se"][0] ** 2
    r.r("options(survey.ultimate.cluster = TRUE)")
    first = r_estimates(frame, roles, "y", [], "remove", ["total"])["se"][0] ** 2
    r.r("options(survey.ultimate.cluster = FALSE)")
    classes = frame.groupby(["h", "c"])["k"].nunique()
    assert sorted(classes) == [1, 1, 2, 2, 3]
    expected = first + (both - first) * len(classes) / (classes > 1).sum()
    got = estimate(SurveyDesign(frame, **roles, lonely_psu="average"), "y", statistic="total")
    np.testing.assert_allclose(got["se"] ** 2, expected, rtol=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("estimator", ["samplics", "onepass"])
def test_a_domain_without_outcomes_has_no_mean_and_a_total_of_zero(estimator):
    frame = pd.DataFrame({"w": 2.0, "y": [1.0, 2.0, np.nan, np.nan, 0.0, 0.0], "g": [1, 1, 2, 2, 3, 3]})
    table = estimate(SurveyDesign(frame, weights="w"), "y", "g", STATISTICS, estimator=estimator, missing="drop")
    got = table.pivot(index="g", columns="statistic")
    assert got["n"]["mean"].to_dict() == got["n"]["total"].to_dict() == {1: 2, 2: 0, 3: 2, "all": 4}
    np.testing.assert_array_equal(got["estimate"], [[4, 1.5, 6], [4, np.nan, 0], [4, 0, 0], [12, 0.75, 6]])
    np.testing.assert_array_equal(got["se"]["mean"].isna(), [False, True, False, False])
    np.testing.assert_array_equal(got["se"]["total"].iloc[1:3], [0, 0])


def test_lonely_average_leaves_a_domain_without_outcomes_alone(lonely):
    frame = lonely.assign(y=lonely["HI_CHOL"].where(lonely["race"] > 1))
    design = SurveyDesign(frame, **NHANES, lonely_psu="average")
    table = estimate(design, "y", "race", "total", missing="drop")
    assert (table["estimate"][0], table["se"][0], table["n"][0]) == (0, 0, 0)


@st.composite
def designs(draw):
    """A random stratified cluster sample: frame and roles, at least two PSUs a stratum."""
    strata = draw(st.lists(st.lists(st.integers(1, 3), min_size=2, max_size=4), min_size=1, max_size=4))
    label = [(h, c) for h, psus in enumerate(strata) for c, records in enumerate(psus) for _ in range(records)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = len(label)
    frame = pd.DataFrame(label, columns=["h", "c"])
    frame["w"] = rng.lognormal(3, 1, n)
    frame["y"] = rng.normal(draw(st.sampled_from([0.0, 50.0])), 10, n)
    frame["a"], frame["b"] = rng.integers(0, 3, n), rng.integers(0, 2, n).astype(bool)
    frame["N"] = frame["h"].map(dict(enumerate(len(psus) + rng.integers(0, 9) for psus in strata)))
    roles = {"weights": "w", "strata": "h", "psu": "c"} | ({"fpc": "N"} if draw(st.booleans()) else {})
    if draw(st.booleans()):  # of records
        frame["N"] = frame.groupby("h")["c"].transform("size") + frame["h"]
        del roles["psu"]
    if draw(st.booleans()):  # one population
        frame["N"] = len(frame) + 3
        frame["c"] += 10 * frame["h"]
        del roles["strata"]
    return frame, roles


def table_of(frame, roles, estimator="onepass", by=("a", "b")):
    return estimate(SurveyDesign(frame, **roles), "y", by, STATISTICS, estimator=estimator)


def assert_close(a, b, factor=1.0, rtol=1e-10):
    """Estimates, errors and limits of two tables with the same rows; 0 is 0 within rounding of the weighted sums."""
    for name in NUMBERS:
        scale = np.ones(len(a)) if name == "df" else np.broadcast_to(factor, len(a))
        atol = 1e-10 * scale * (50 + a["estimate"].abs())
        off, none = (a[name] * scale - b[name]).abs(), b[name].isna()  # a domain in one PSU has no limits
        assert (a[name].isna() == none).all() and (none.any() <= (name in ("ci_low", "ci_high"))), name
        assert (none | (off <= rtol * b[name].abs() + atol)).all(), (name, off.max())
    assert a["n"].tolist() == b["n"].tolist()


FEW = settings(max_examples=30, deadline=None)


@pytest.mark.slow
@FEW
@given(designs())
def test_samplics_equals_onepass(made):
    one, other = (table_of(*made, estimator=e) for e in ("samplics", "onepass"))
    assert (one.attrs["estimator"], other.attrs["estimator"]) == ("samplics", "onepass")
    assert_close(one, other)
    assert one[["a", "b", "statistic", "outcome"]].equals(other[["a", "b", "statistic", "outcome"]])


@pytest.mark.slow
@FEW
@given(designs(), st.sampled_from([1e-6, 0.37, 8.0, 1e6]))
def test_rescaled_weights_scale_totals_and_leave_means(made, factor):
    frame, roles = made
    table = table_of(frame, roles)
    again = table_of(frame.assign(w=frame["w"] * factor), roles)
    assert_close(table, again, factor=np.where(table["statistic"] == "mean", 1, factor))


@pytest.mark.slow
@FEW
@given(designs(), st.randoms(use_true_random=False))
def test_row_order_and_the_names_of_strata_and_psus_do_not_matter(made, random):
    frame, roles = made
    table = table_of(frame, roles)
    order = random.sample(range(len(frame)), len(frame))
    names = [f"name {i}" for i in random.sample(range(100, 200), 100)]
    renamed = frame.iloc[order].assign(h=frame["h"].map(lambda i: names[i]), c=frame["c"].map(lambda i: names[i]))
    assert_close(table, table_of(renamed, roles))


@pytest.mark.slow
@FEW
@given(designs())
def test_renamed_levels_keep_their_numbers(made):
    frame, roles = made
    table = table_of(frame, roles)
    named = frame.assign(a=frame["a"].map({0: "z", 1: "x", 2: "y"}), b=frame["b"].map({True: "men", False: "women"}))
    back = {"a": {"z": "0", "x": "1", "y": "2"}, "b": {"men": "True", "women": "False"}}
    other = table_of(named, roles).replace(back)
    keys = ["statistic", "a", "b"]
    assert_close(*(t.astype(dict.fromkeys(keys, str)).sort_values(keys, ignore_index=True) for t in (table, other)))


@pytest.mark.slow
@FEW
@given(designs())
def test_margins_of_counts_and_totals_add_up(made):
    frame, roles = made
    table = table_of(frame, roles).astype({"a": str, "b": str})
    for statistic, whole in {"count": frame["w"].sum(), "total": (frame["w"] * frame["y"]).sum()}.items():
        part = table[table["statistic"] == statistic].set_index(["a", "b"])["estimate"]
        cells = part.drop("all", level="a").drop("all", level="b")
        atol = 1e-12 * (frame["w"] * (1 + frame["y"].abs())).sum()
        np.testing.assert_allclose(part["all", "all"], whole, rtol=1e-12, atol=atol)
        for axis in ("a", "b"):
            margin = part.drop("all", level=axis).xs("all", level="b" if axis == "a" else "a")
            np.testing.assert_allclose(cells.groupby(axis).sum(), margin.sort_index(), rtol=1e-12, atol=atol)
            np.testing.assert_allclose(margin.sum(), whole, rtol=1e-12, atol=atol)
