"""The estimator "survey": R's package through the same door, against the other three."""

import gc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from surveys import make_design, model, population_model
from test_taylor import SCENARIOS, SEVERAL_STAGES, designs, nhanes2

import surveysynth as ss
from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.r import estimator
from surveysynth.r.estimator import IN_R
from tests.surveys import PSEUDO

NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]


def assert_equal_tables(a, b, rtol=1e-10, size=0.0):
    """Row for row, limits included; variances of 0 within the rounding of sums of this size."""
    assert a.drop(columns=NUMBERS).equals(b.drop(columns=NUMBERS))
    slack = 1e-12 * np.nan_to_num(a["estimate"].abs().to_numpy()) + 1e-13 * size
    for name in NUMBERS:
        x, y = (t[name].to_numpy(float) for t in (a, b))
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=name)
        assert not (np.abs(x - y) > rtol * np.abs(x) + slack).any(), (name, x, y)


def both(design, *asked, other="onepass", **more):
    """The table by R, after a look that it is that of another estimator."""
    ours, theirs = (estimate(design, *asked, estimator=e, **more) for e in (other, "survey"))
    assert (ours.attrs["estimator"], theirs.attrs["estimator"]) == (other, "survey")
    assert_equal_tables(ours, theirs)
    return theirs


FEW = "nhanes2", "srs fpc", "strat by stratum", "clus1 fpc", "clus2 fpc", "clus2 missing"  # of every kind


@pytest.fixture(
    scope="module", params=[n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in SCENARIOS]
)
def real(request, r, r_frame):
    """A real file, its design, an outcome with missing values in some of them, and two by columns."""
    dataset, made, roles, outcome, by = SCENARIOS[request.param]
    frame = nhanes2() if dataset is None else r_frame(f"transform({dataset}, {made})" if made else dataset)
    frame = frame.assign(other=np.arange(len(frame)) % 7 + 1.5, group=frame[outcome].rank(pct=True).round(1) > 0.4)
    return request.param, SurveyDesign(frame, **roles), outcome, by


def test_means_totals_counts_ratios_and_proportions_of_domains(real):
    name, design, outcome, by = real
    both(design, outcome, by[0], ["mean", "total", "count", "ratio"], denominator="other", missing="drop")
    both(design, "group", by, "proportion", missing="drop")
    if name not in SEVERAL_STAGES:
        both(design, outcome, by[1], ["mean", "total", "count"], other="samplics", missing="drop")


STRAT = {"weights": "pw", "strata": "stype", "fpc": "fpc"}


@pytest.mark.parametrize("method", ["JK1", "JKn", "preston"])
def test_replicates(r_frame, method):
    """Except where a replicate has none of a domain's records: R does not scale the others up."""
    roles = {"weights": "pw", "psu": "dnum"} if method == "JK1" else STRAT
    design = SurveyDesign(r_frame("apiclus1" if method == "JK1" else "apistrat"), **roles)
    design = design.replicates(method, **({"R": 40, "seed": 3} if method == "preston" else {}))
    asked = ["mean", "total", "count", "ratio"]
    both(design, "api00", "sch.wide", asked, denominator="enroll", other="replicates", missing="drop")
    both(design, "awards", "sch.wide", "proportion", other="replicates")
    both(design, "enroll", None, "quantile", quantiles=[0.2503, 0.5003], other="replicates", missing="drop")


@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
def test_lonely_psus(r, r_frame, option):
    """In the whole file, in domains, and in one that has lonely strata only."""
    frame = r_frame("nhanes")
    strata = np.sort(frame["SDMVSTRA"].unique())
    frame = frame[~(frame["SDMVSTRA"].isin(strata[[0, 5, 6, 14]]) & (frame["SDMVPSU"] == 2))]
    part = np.where(frame["SDMVSTRA"].isin(strata[[5, 14]]), 2, np.where(frame["SDMVSTRA"] < strata[9], 0, 1))
    roles = {"weights": "WTMEC2YR", "strata": "SDMVSTRA", "psu": "SDMVPSU", "lonely_psu": option}
    design = SurveyDesign(frame.assign(part=part), **roles)
    sums = [] if option == "adjust" else ["total", "count"]  # R's survey before 4.3 differs: the next test
    table = both(design, "HI_CHOL", ["part", "agecat"], ["mean", *sums], missing="drop")
    assert table["se"].isna().any() == (option == "average")
    assert r.r("getOption('survey.lonely.psu')")[0] == "fail"


def test_r_s_totals_under_adjust_are_warned_of_before_survey_4_3(r):
    frame = pd.DataFrame({"h": [1, 1, 2, 2, 3], "w": [10.5, 10.5, 20, 20, 15], "y": [30.5, 40.5, 35, 52, 44]})
    design = SurveyDesign(frame, weights="w", strata="h", lonely_psu="adjust")
    if not r.r("packageVersion('survey') < '4.3'")[0]:
        assert estimate(design, "y", None, "total", estimator="survey")["se"][0] ** 2 == pytest.approx(127579.81)
        return
    with pytest.warns(UserWarning, match="centres the total of a lonely PSU at 0") as seen:
        table = estimate(design, "y", None, ["total", "count", "mean"], estimator="survey")
    assert len(seen) == 2  # not of the mean
    assert table["se"][0] ** 2 == pytest.approx(11025 + 115600 + 660**2)


@pytest.mark.parametrize("setting", ["survey.adjust.domain.lonely = TRUE", "survey.ultimate.cluster = TRUE"])
def test_options_of_the_session_do_not_enter(r, r_frame, setting):
    frame = r_frame("apiclus2")
    design = SurveyDesign(frame, weights="pw", psu=["dnum", "snum"], fpc=["fpc1", "fpc2"], lonely_psu="adjust")
    r.r(f"old <- options({setting})")
    try:
        both(design, "enroll", "stype", "total", missing="drop")
    finally:
        r.r("options(old)")


CALIBRATED = {
    "post-stratified": {"stype": {"E": 4421, "H": 755, "M": 1018}},
    "crossed": {("sch.wide", "both"): {("Yes", "Yes"): 3000, ("Yes", "No"): 2000, ("No", "No"): 1194}},
    "raked": {"stype": {"E": 4421, "H": 755, "M": 1018}, "awards": {"Yes": 4000, "No": 2194}},
}


@pytest.mark.parametrize("name", CALIBRATED)
@pytest.mark.parametrize("dataset", ["apistrat", "apiclus1"])
def test_known_totals(r_frame, dataset, name):
    roles = STRAT if dataset == "apistrat" else {"weights": "pw", "psu": "dnum", "fpc": "fpc"}
    frame = r_frame(dataset)
    frame.loc[::17, "api00"] = np.nan
    frame["both"] = np.where(frame["sch.wide"] == "No", "No", frame["both"])
    design = SurveyDesign(frame, **roles).calibrate(CALIBRATED[name])
    asked = ["mean", "total", "count", "ratio"]
    ours, theirs = (
        estimate(design, "api00", "awards", asked, denominator="enroll", estimator=e, missing="drop")
        for e in ("onepass", "survey")
    )
    fixed = ours["se"] < 1e-9 * ours["estimate"]  # by the totals: R leaves rounding
    assert_equal_tables(ours[~fixed], theirs[~fixed], rtol=1e-9 if name == "raked" else 1e-10)  # R rakes to 1e-10
    assert (theirs["se"][fixed] < 1e-7 * theirs["estimate"][fixed]).all() and fixed.any() and not fixed.all()


@pytest.mark.parametrize("pps", ["sen_yates_grundy", "horvitz_thompson", "poisson"])
def test_unequal_probabilities(r, pps):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"size": rng.lognormal(0, 0.6, 150), "g": rng.integers(0, 3, 150)})
    frame["h"] = np.repeat(["a", "b"], 75)
    frame["y"] = frame["size"] * rng.lognormal(2, 0.4, 150)
    frame.loc[[3, 90], "size"] = 90  # certain
    frame.loc[::7, "y"] = np.nan
    method = "poisson" if pps == "poisson" else "tille"
    design = SurveyDesign.from_frame(frame, n={"a": 14, "b": 11}, size="size", strata="h", method=method, seed=1)
    if pps == "horvitz_thompson":
        design = SurveyDesign(design.frame, weights="weight", strata="h", pps=pps, joint=design.joint)
    assert design.pps == pps
    both(design, "y", "g", ["mean", "total", "count", "ratio"], denominator="size", missing="drop")
    with pytest.raises(InputError, match="no Hajek variance"):
        estimate(SurveyDesign(design.frame, weights="weight", pps="hajek"), "g", estimator="survey")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(made=designs())
def test_any_design(r, made):
    frame, roles = made
    frame = frame.assign(x=frame["w"] + 1)
    design, asked = SurveyDesign(frame, **roles), ["mean", "total", "count", "ratio"]
    ours, theirs = (
        estimate(design, "y", ["a", "b"], asked, denominator="x", estimator=e) for e in ("onepass", "survey")
    )
    size = (frame["w"] * (1 + frame["y"].abs())).sum() * 1e3  # means of one record: rounding of the residuals
    assert_equal_tables(ours, theirs, size=size)


def test_quantiles_where_r_has_the_same(r_frame):
    """Neither at a share that is reached exactly, nor in the first value or the last; else Woodruff's interval."""
    for dataset, roles, by in (("apistrat", STRAT, None), ("apiclus1", {"weights": "pw", "psu": "dnum"}, None)):
        design = SurveyDesign(r_frame(dataset), **roles)
        both(design, "enroll", by, "quantile", quantiles=[0.2501, 0.5003, 0.7502], missing="drop")


@pytest.mark.filterwarnings("error")
def test_empty_domains_and_denominators_of_nothing(r):
    frame = pd.DataFrame({
        "w": 2.0, "y": [1.0, 2, np.nan, np.nan, 0, 0, 4], "g": [1, 1, 2, 2, 3, 3, 4], "x": [0.0, 0, 1, 1, 2, 3, 4],
    })  # fmt: skip
    design = SurveyDesign(frame, weights="w")
    both(design, "y", "g", ["mean", "total", "count", "proportion"], missing="drop")
    table = both(design, "y", "g", "ratio", denominator="x", missing="drop").set_index("g")
    assert table["estimate"].isna().tolist() == [True, True, False, False, False]
    both(design.replicates("JK1"), "y", None, ["mean", "total", "count"], other="replicates", missing="drop")
    quantiles = estimate(design, "y", "g", "quantile", missing="drop", estimator="survey").set_index("g")
    assert quantiles["estimate"].isna().tolist() == [False, True, False, False, False]


def test_an_estimate_that_overflows_is_not_hidden(r):
    with pytest.raises(InputError, match="overflows"):
        estimate(SurveyDesign(pd.DataFrame({"y": [1e308, 1.0], "w": 9.0}), weights="w"), "y", estimator="survey")


@pytest.mark.parametrize("kind", [model, population_model], ids=["FBS", "FBP"])
def test_tables_of_a_release(r, kind):
    """Counts of FBP have designs of their own."""
    release = ss.synthesize(
        make_design(), kind(), epsilon=12, m=3, seed=1, population_total=20_000, mechanism=PSEUDO
    )
    asked = {"by": ["field", "gender"], "statistic": ["mean", "total", "count"]}
    ours, theirs = (release.tables(**asked, estimator=e) for e in ("onepass", "survey"))
    assert theirs.attrs["estimator"] == "survey" and (release.count_roles is None) == (kind is model)
    fixed = (ours["se"] < 1e-9 * ours["estimate"]).to_numpy()
    assert_equal_tables(ours[~fixed].drop(columns="flag"), theirs[~fixed].drop(columns="flag"), rtol=1e-8)
    assert (theirs["se"][fixed] < 1e-6).all()
    counts = theirs[theirs["statistic"] == "count"]
    assert (counts["se"][:-1] > 0).all()


def test_the_design_is_given_to_r_once(r, monkeypatch):
    calls = []
    to_r = estimator.to_r
    monkeypatch.setattr(estimator, "to_r", lambda design: calls.append(design) or to_r(design))
    design = make_design()
    for _ in range(2):
        estimate(design, "income", ["field", "gender"], ["mean", "count"], estimator="survey")
    assert sum(call is design for call in calls) == 1 and design in IN_R
    held = len(IN_R)
    del design
    calls.clear()
    gc.collect()
    assert len(IN_R) < held  # and is not kept there
