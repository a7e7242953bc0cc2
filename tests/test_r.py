"""Designs and releases to R and back by rpy2; what happens without R, in other languages, and where R complains."""

import datetime as dt
import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth import SurveyDesign
from surveysynth.r import exchange
from surveysynth.r.session import _start
from tests.surveys import PSEUDO

NUMBERS = ["estimate", "se", "df", "ci_low", "ci_high"]
STATISTICS = ["mean", "total", "count"]


def assert_equal_tables(a, b, rtol=1e-10):
    """Row for row; a standard error of 0 may differ by the rounding of its estimate."""
    assert a.drop(columns=NUMBERS).equals(b.drop(columns=NUMBERS))
    slack = 1e-12 * np.nan_to_num(a["estimate"].abs().to_numpy())
    for name in NUMBERS:
        x, y = (t[name].to_numpy(float) for t in (a, b))
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=name)
        assert not (np.abs(x - y) > rtol * np.abs(x) + slack).any(), (name, x, y)


# ---- designs of Python: there and back

rng = np.random.default_rng(20)
FRAME = pd.DataFrame(
    {
        "h": np.repeat(["a", "b", "c"], 20),
        "c": np.tile(np.repeat(range(5), 4), 3),
        "k": np.tile([0, 0, 1, 1], 15),
        "w": rng.uniform(2, 9, 60),
        "y": rng.normal(5, 2, 60),
        "g": rng.integers(0, 3, 60),
        "ones": 1,
    }
).assign(
    p=lambda f: 1 / f["w"],
    N=lambda f: f["h"].map({"a": 20, "b": 30, "c": 5}),
    M=lambda f: 7 + f["c"],
    f=lambda f: 5 / f["N"],
    q=lambda f: 2 / f["M"],
    twin=lambda f: f["w"],
)
REPLICATES = [f"r {i}" for i in range(12)]
WITH_REPLICATES = FRAME.assign(
    **dict(zip(REPLICATES, FRAME["w"].to_numpy() * rng.gamma(2, 0.5, (12, 60)), strict=True))
)
LONELY = FRAME[(FRAME["h"] != "a") | (FRAME["c"] == 0)]
STRATIFIED = {"weights": "w", "strata": "h", "psu": "c"}
TWO = {"weights": "w", "strata": "h", "psu": ["c", "k"]}
NASTY = {"h": "if", "c": "größe ✓", "w": "a b", "N": 'a"b', "k": "a`b", "M": ".", "y": "~x", "g": "1"}


def population():
    made = np.random.default_rng(21)
    frame = pd.DataFrame(
        {"s": made.lognormal(0, 0.6, 120), "h": np.repeat(["a", "b"], 60), "g": made.integers(0, 3, 120)}
    )
    return frame.assign(y=frame["s"] * made.lognormal(0, 0.3, 120))


def drawn(method, **more):
    n = {"a": 10, "b": 12} if more else 20
    return SurveyDesign.from_frame(population(), n=n, size="s", method=method, seed=2, **more)


def horvitz_thompson():
    design = drawn("tille", strata="h")
    return SurveyDesign(design.frame, weights="weight", strata="h", pps="horvitz_thompson", joint=design.joint)


KNOWN = {"g": {0: 100, 1: 150, 2: 80}}
CROSSED = {("g", "k"): {(g, k): 100 + 10 * g + k for g in range(3) for k in range(2)}}
RAKED = KNOWN | {"c": dict.fromkeys(range(5), 66), ("h", "k"): {(h, k): 50 + 10 * k for h in "abc" for k in (0, 1)}}
DESIGNS = {
    "weights": lambda: SurveyDesign(FRAME, weights="w"),
    "probabilities": lambda: SurveyDesign(FRAME, probs="p", strata="h"),
    "clusters": lambda: SurveyDesign(FRAME, **STRATIFIED),
    "no strata": lambda: SurveyDesign(FRAME, weights="w", psu=["h", "c"]),
    "sizes": lambda: SurveyDesign(FRAME, **STRATIFIED, fpc="N"),
    "fractions": lambda: SurveyDesign(FRAME, **STRATIFIED, fpc="f"),
    "two stages": lambda: SurveyDesign(FRAME, **TWO, fpc=["N", "M"]),
    "two stages, fractions": lambda: SurveyDesign(FRAME, **TWO, fpc=["f", "q"]),
    "two stages, one fpc": lambda: SurveyDesign(FRAME, **TWO, fpc="N"),
    "two stages, one fraction": lambda: SurveyDesign(FRAME, **TWO, fpc="f"),
    "two stages, no fpc": lambda: SurveyDesign(FRAME, **TWO),
    "complete": lambda: SurveyDesign(FRAME, **STRATIFIED, fpc="ones"),
    "complete at first": lambda: SurveyDesign(FRAME, **TWO, fpc=["ones", "q"]),
    "post-stratified": lambda: DESIGNS["sizes"]().calibrate(KNOWN),
    "post-stratified probabilities": lambda: DESIGNS["probabilities"]().calibrate(KNOWN),
    "crossed": lambda: DESIGNS["two stages"]().calibrate(CROSSED),
    "raked": lambda: DESIGNS["sizes"]().calibrate(RAKED),
    "known totals of the strata": lambda: SurveyDesign(FRAME, weights="w", strata="h", poststrata="h"),
    "known totals of two": lambda: SurveyDesign(FRAME, weights="w", strata="h", poststrata=["h", "g"]),
    "replicate columns": lambda: SurveyDesign(WITH_REPLICATES, weights="w", replicate_weights=REPLICATES),
    "scaled replicates": lambda: SurveyDesign(
        WITH_REPLICATES, probs="p", replicate_weights=REPLICATES, scale=0.3, rscales=np.arange(12) / 12, mse=False
    ),
    "replicate factors": lambda: SurveyDesign(
        WITH_REPLICATES.assign(**{name: WITH_REPLICATES[name] / WITH_REPLICATES["w"] for name in REPLICATES}),
        weights="w", replicate_weights=REPLICATES, combined=False,
    ),
    "weights of 0": lambda: SurveyDesign(FRAME.assign(w=FRAME["w"].where(FRAME.index % 7 > 0, 0.0)), **STRATIFIED),
    "weights of 0 beside replicate weights": lambda: SurveyDesign(
        WITH_REPLICATES.assign(w=FRAME["w"].where(FRAME.index % 7 > 0, 0.0)), weights="w", replicate_weights=REPLICATES
    ),
    "weights there twice": lambda: SurveyDesign(WITH_REPLICATES, weights="twin", replicate_weights=REPLICATES),
    "Sen-Yates-Grundy": lambda: drawn("maximum_entropy"),
    "Sen-Yates-Grundy in strata": lambda: drawn("tille", strata="h"),
    "Horvitz-Thompson": horvitz_thompson,
    "Poisson": lambda: drawn("poisson"),
    "Poisson in strata": lambda: drawn("poisson", strata="h"),
    "with replacement": lambda: drawn("multinomial", strata="h"),
    "simple random": lambda: SurveyDesign.from_frame(population(), n=20, seed=2),
    "nasty names": lambda: SurveyDesign(
        FRAME.rename(columns=NASTY), weights="a b", strata="if", psu=["größe ✓", "a`b"], fpc=['a"b', "."]
    ),
    "names of our own": lambda: SurveyDesign(
        FRAME.rename(columns={"w": "unit1", "h": "chance", "c": "stratum", "g": "margin1"}),
        weights="unit1",
        strata="chance",
        psu="stratum",
        poststrata="margin1",
    ),
    "names of survey's own": lambda: SurveyDesign(
        FRAME.rename(columns={"g": "Freq", "k": "Pop.Freq"}), weights="w", strata="h", poststrata=[["Freq", "Pop.Freq"]]
    ),
    "labels that paste alike": lambda: SurveyDesign(
        FRAME.assign(
            h=np.repeat(["1", "1.1", "1.1.1"], 20), c=FRAME["c"].map(dict(enumerate(["1", "1.1", "1.1.1", "2", "1.2"])))
        ),
        **TWO,
        fpc=["N", "M"],
    ),
    "numbers that print alike": lambda: SurveyDesign(
        FRAME.assign(h=np.repeat([1, 1 + 2.3e-16, 1 + 4.5e-16], 20)), **STRATIFIED
    ),
    "weights that are text": lambda: SurveyDesign(
        FRAME.assign(w=FRAME["w"].round(3).astype(str), h=pd.Categorical(FRAME["h"]), N=pd.Categorical(FRAME["N"])),
        **STRATIFIED,
        fpc="N",
    ),
    "certain but for rounding": lambda: SurveyDesign(
        FRAME.assign(w=np.where(FRAME["w"] < 5, np.nextafter(1, 0), FRAME["w"])), weights="w", pps="poisson"
    ),
    "categories": lambda: SurveyDesign(
        FRAME.assign(
            h=pd.Categorical(FRAME["h"], ["c", "unused", "b", "a"]),
            c=pd.to_datetime("2020-01-01") + pd.to_timedelta(FRAME["c"], unit="D"),
        ),
        **STRATIFIED,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_comes_back_as_it_was(r, name):
    design = DESIGNS[name]()
    again = ss.r.from_r(ss.r.to_r(design))
    pd.testing.assert_frame_equal(again.frame, design.frame, check_exact=True)
    assert again.roles() == design.roles() and again.degf == design.degf
    y, by = ("~x", "1") if "~x" in design.frame else ("y", "h" if "h" in design.frame else "chance")
    assert_equal_tables(*(ss.estimate(d, y, by, STATISTICS) for d in (design, again)))


@pytest.mark.parametrize("name", DESIGNS)
def test_r_has_the_same_numbers(r, name):
    """Mean, total, count and degrees of freedom of the whole population; the variance by R."""
    design = DESIGNS[name]()
    y = "~x" if "~x" in design.frame else "y"
    ours = ss.estimate(design, y, None, STATISTICS)
    for statistic, call in {
        "mean": f"svymean(~`{y}`, d)",
        "total": f"svytotal(~`{y}`, d)",
        "count": "svytotal(~I(0 * w + 1), d)",
    }.items():
        if statistic == "count":
            call = f"svytotal(~I(0 * `{y}` + 1), d)"
        theirs = ss.r.evaluate(call, d=design)
        row = ours[ours["statistic"] == statistic].iloc[0]
        np.testing.assert_allclose(theirs["estimate"], row["estimate"], rtol=1e-12)
        np.testing.assert_allclose(
            theirs["se"], row["se"], rtol=1e-10, atol=1e-9 * abs(row["estimate"]) * (row["se"] == 0)
        )
    assert ss.r.evaluate("as.numeric(degf(d))", d=design)[0] == design.degf


CALIBRATED = {
    "size": lambda: SurveyDesign(FRAME, weights="w").calibrate({(): 130.0}),
    "a number": lambda: SurveyDesign(FRAME, **STRATIFIED).calibrate({"M": 3000.0, (): 330.0}, "linear"),
    "categories and a number": lambda: SurveyDesign(FRAME, **TWO, fpc=["N", "M"]).calibrate(
        {"g": {0: 110, 1: 100, 2: 120}, "M": 3000.0}, "linear"
    ),
    "trimmed": lambda: SurveyDesign(FRAME, weights="w").calibrate({"g": {0: 50, 1: 40, 2: 30}}).trim(high=2.2),
    "replicates": lambda: SurveyDesign(FRAME, weights="w").replicates("JK1").calibrate(
        {"g": {0: 50, 1: 40, 2: 30}}, "linear"
    ),
    "Brewer": lambda: SurveyDesign(FRAME.assign(w=FRAME["w"] + 1), weights="w", pps="brewer").calibrate(
        {"g": {0: 50, 1: 40, 2: 30}}
    ),
}


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrated_designs_have_the_same_numbers_in_r(r, name):
    design = CALIBRATED[name]()
    in_r = ss.r.to_r(design)
    assert_r_agrees(r, in_r, design, "y", "h")
    again = ss.r.from_r(in_r)
    assert_equal_tables(*(ss.estimate(d, "y", "h", STATISTICS) for d in (design, again)))
    if name != "replicates":  # of which R has the weights alone
        assert again.roles() == design.roles()


@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
@pytest.mark.parametrize("fpc", [{}, {"fpc": "N"}], ids=["", "fpc"])
def test_lonely_psus(r, option, fpc):
    """The option stays with the design while the session has none, and the session's counts where it has one."""
    design = SurveyDesign(LONELY, **STRATIFIED, **fpc, lonely_psu=option)
    in_r = ss.r.to_r(design)
    again = ss.r.from_r(in_r)
    assert again.roles() == design.roles()
    assert_equal_tables(*(ss.estimate(d, "y", "g", STATISTICS) for d in (design, again)))
    # totals under "adjust" are wrong in R before survey 4.3
    for statistic in ["mean"] if option == "adjust" else ["mean", "total"]:
        theirs = ss.r.evaluate(f"svy{statistic}(~y, d)", d=design)
        np.testing.assert_allclose(theirs["se"], ss.estimate(design, "y", None, statistic)["se"], rtol=1e-12)
    assert r.r("getOption('survey.lonely.psu')")[0] == "fail"
    for asked, got in {"adjust": "adjust", "certainty": "remove"}.items():
        r.r(f"options(survey.lonely.psu = '{asked}')")
        try:
            assert ss.r.from_r(in_r).lonely_psu == got
        finally:
            r.r("options(survey.lonely.psu = 'fail')")


MADE = {
    "preston": lambda: DESIGNS["sizes"]().replicates("preston", R=30, seed=1),
    "JK1": lambda: DESIGNS["no strata"]().replicates("JK1"),
    "JKn": lambda: DESIGNS["sizes"]().replicates("JKn"),
    "BRR": lambda: SurveyDesign(FRAME, weights="w", strata="h", psu="k").replicates("BRR"),
    "Fay": lambda: SurveyDesign(FRAME, weights="w", strata="h", psu="k").replicates("Fay", rho=0.3),
}


@pytest.mark.parametrize("name", MADE)
def test_replicates_that_were_made_become_columns(r, name):
    design = MADE[name]()
    again = ss.r.from_r(ss.r.to_r(design))
    R = design.replication.R
    pd.testing.assert_frame_equal(again.frame[FRAME.columns], design.frame, check_exact=True)
    assert list(again.frame.columns[-R:]) == [f"replicate_{i + 1}" for i in range(R)]
    assert (again.replication.R, again.replication.scale, again.replication.mse) == (R, design.replication.scale, True)
    assert again.replication.rscales.tolist() == design.replication.rscales.tolist() and again.degf == design.degf
    assert_equal_tables(*(ss.estimate(d, "y", "g", STATISTICS) for d in (design, again)))
    theirs = ss.r.evaluate("svymean(~y, d)", d=design)
    np.testing.assert_allclose(theirs[["estimate", "se"]], ss.estimate(design, "y")[["estimate", "se"]], rtol=1e-12)


@st.composite
def labelled_designs(draw):
    """Strata, two stages and fpc with any labels, of any type."""
    labels = draw(
        st.sampled_from(
            [
                st.text(st.sampled_from("1.2 ~`é"), max_size=3),
                st.integers(-3, 10**15),
                st.sampled_from([0.1, 0.1 + 0.2, 0.3, 1e300, -0.5]),
                st.dates(),
                st.booleans(),
            ]
        )
    )
    strata = draw(st.lists(labels, min_size=1, max_size=3, unique=True))
    rows = [
        (h, c, k)
        for h in strata
        for c in draw(st.lists(labels, min_size=2, max_size=4, unique=True))
        for k in draw(st.lists(labels, min_size=2, max_size=2, unique=True))
        for _ in range(draw(st.integers(1, 2)))
    ]
    names = draw(
        st.lists(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4),
            unique=True,
            min_size=6,
            max_size=6,
        )
    )
    made = np.random.default_rng(draw(st.integers(0, 99)))
    frame = pd.DataFrame(rows, columns=names[:3]).assign(
        **{
            names[3]: made.lognormal(1, 1, len(rows)),
            names[4]: 7 + draw(st.integers(0, 9)),
            names[5]: made.normal(5, 2, len(rows)),
        }
    )
    if not isinstance(strata[0], dt.date) and draw(st.booleans()):
        frame[names[:3]] = frame[names[:3]].astype("category")
    h, c, k, w, N, y = names
    stages = draw(st.sampled_from([{"psu": c}, {"psu": [c, k]}, {"psu": [c, k], "fpc": [N]}, {"psu": c, "fpc": N}]))
    return SurveyDesign(
        frame, weights=w, **({"strata": h} if len(strata) > 1 else {}), **stages, lonely_psu="remove"
    ), y


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(made=labelled_designs())
def test_labels_and_names_do_not_matter(r, made):
    design, y = made
    again = ss.r.from_r(ss.r.to_r(design))
    pd.testing.assert_frame_equal(again.frame, design.frame, check_exact=True)
    assert again.roles() == design.roles() | ({} if design.clustered else {"psu": None})  # units of a record each
    tables = [
        ss.estimate(d, y, None, STATISTICS, estimator="survey" if d is design else "onepass") for d in (design, again)
    ]
    assert_equal_tables(*tables)


def test_the_labels_of_strata_are_there_to_be_read(r):
    shown = r.r("function(d) paste(capture.output(print(summary(d))), collapse = ' ')")(ss.r.to_r(DESIGNS["sizes"]()))[
        0
    ]
    assert "a  b  c" in shown and "obs        20 20 20" in shown


def test_units_of_a_record_each_are_no_clusters(r):
    design = SurveyDesign(FRAME.assign(id=range(60)), weights="w", psu="id", fpc="ones")
    assert ss.r.from_r(ss.r.to_r(design)).roles() == design.roles() | {"psu": None}


def test_what_r_cannot_do_is_refused(r):
    with pytest.raises(ss.InputError, match="has no Hajek variance"):
        ss.r.to_r(drawn("brewer"))
    zero = FRAME.assign(w=FRAME["w"] - FRAME["w"].min())
    with pytest.raises(ss.InputError, match="no variance of calibrated weights of which some are 0"):
        ss.r.to_r(SurveyDesign(zero, weights="w", poststrata="g"))
    with pytest.raises(ss.InputError, match=r"forgets calibrated weights where it has pps="):
        ss.r.to_r(drawn("tille").calibrate({"g": {0: 50, 1: 40, 2: 30}}))
    with pytest.raises(ss.InputError, match="a SurveyDesign or a DataFrame was expected, not int"):
        ss.r.to_r(1)
    with pytest.raises(ss.InputError, match="an R object was expected, as rpy2 has it, not DataFrame"):
        ss.r.from_r(FRAME)


def test_a_population_that_is_smaller_than_the_sample_by_rounding(r):
    """Which R refuses."""
    design = SurveyDesign(FRAME.assign(N=4.9999999999), **STRATIFIED, fpc="N")
    with pytest.raises(ss.r.RError, match="FPC implies >100% sampling"):
        ss.r.to_r(design)


# ---- designs of R

R_TABLE = """
function(d, y, by) {
  d <- update(d, one = 1)
  row <- function(group, statistic, x) {
    present <- statistic == "count" | !is.na(d$variables[[y]])
    inside <- function(g) which(present & (g == "all" | as.character(d$variables[[by]]) == g))
    # elements that were drawn with unequal probabilities, of which R has no subset that it can count
    of <- function(i) if (inherits(d, "pps")) length(i) - 1 else degf(d[i, ])
    df <- if (is.null(by)) of(which(present)) else sapply(group, function(g) of(inside(g)))
    data.frame(group, statistic, estimate = as.numeric(coef(x)), se = as.numeric(SE(x)), df)
  }
  parts <- lapply(c("mean", "total", "count"), function(statistic) {
    f <- if (statistic == "mean") svymean else svytotal
    what <- reformulate(if (statistic == "count") "one" else y)
    all <- row("all", statistic, f(what, d, na.rm = TRUE))
    if (is.null(by)) return(all)
    groups <- svyby(what, reformulate(by), d, f, na.rm = TRUE)
    rbind(row(as.character(groups[[by]]), statistic, groups), all)
  })
  do.call(rbind, parts)
}
"""
NHANES = "svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = {})"
PAIRS = f"suppressWarnings(as.svrepdesign({NHANES.format('subset(nhanes, SDMVPSU < 3)')}, type = '{{}}'{{}}))"
CLUS1 = "svydesign(id = ~dnum, weights = ~pw, data = apiclus1, fpc = ~fpc)"
CLUS2 = "svydesign(id = ~dnum + snum, fpc = {}, weights = ~pw, data = apiclus2)"
STRAT = "svydesign(id = ~1, strata = ~stype, weights = ~pw, data = {}, fpc = ~fpc)"
ACS = "svrepdesign(data = acs, weights = ~w, {})"
WITH_API99 = "c(6194, 755, 1018, 3914069)"
MARGINS = "list(xtabs(~stype, apipop), xtabs(~sch.wide, apipop))"
AWARDS = MARGINS.replace("sch.wide", "awards")
PPS = "svydesign(ids = ~1, fpc = ~p, data = election_pps, pps = {})"
# R's expression, outcome, by, roles of the design that comes out (a few), columns that are new
FROM_R = {
    "strata": (STRAT.format("apistrat"), "api00", "awards",
        {"weights": "pw", "strata": "stype", "fpc": ["fpc"], "psu": None}, []),
    "by fpc alone": ("svydesign(id = ~1, strata = ~stype, data = apistrat, fpc = ~fpc)", "api00", "awards",
        {"weights": "weight"}, ["weight"]),
    "unique ids": ("svydesign(id = ~snum, strata = ~stype, weights = ~pw, data = apistrat)", "api00", "awards",
        {"psu": None}, []),
    "strata by an expression": (
        "svydesign(id = ~1, strata = ~interaction(stype, awards), weights = ~pw, data = apistrat)", "api00", "sch.wide",
        {"strata": "interaction(stype, awards)"}, ["interaction(stype, awards)"]),
    "strata by a vector": ("svydesign(id = ~1, strata = apistrat$stype, weights = apistrat$pw, data = apistrat)",
        "api00", "awards", {"strata": "strata", "weights": "weight"}, ["weight", "strata"]),
    "clusters": (CLUS1, "enroll", "stype", {"psu": ["dnum"], "fpc": ["fpc"]}, []),
    "probabilities": ("svydesign(id = ~dnum, probs = ~p, data = transform(apiclus1, p = 1 / pw))", "enroll", "stype",
        {"probs": "p", "weights": None}, []),
    "probabilities by numbers": ("svydesign(id = ~1, probs = 0.1, data = apisrs)", "api00", "stype",
        {"weights": "weight"}, ["weight"]),
    "fpc by numbers": ("svydesign(id = ~dnum, weights = ~pw, data = apiclus1, fpc = rep(757, 183))", "api00", "stype",
        {"fpc": ["fpc1"]}, ["fpc1"]),
    "two stages": (CLUS2.format("~fpc1 + fpc2"), "enroll", "sch.wide",
        {"psu": ["dnum", "snum"], "fpc": ["fpc1", "fpc2"]}, []),
    "two stages, weights by R": ("svydesign(id = ~dnum + snum, fpc = ~fpc1 + fpc2, data = apiclus2)", "enroll",
        "sch.wide", {"weights": "weight"}, ["weight"]),
    "two stages, fractions": (CLUS2.format("~I(40 / fpc1) + I(ave(snum, dnum, FUN = length) / fpc2)"), "enroll",
        "sch.wide", {"weights": "pw"}, ["I(40/fpc1)", "I(ave(snum, dnum, FUN = length)/fpc2)"]),
    "an endless second stage": (
        CLUS2.format("~fpc1 + I(Inf * fpc2)").replace("apiclus2", "subset(apiclus2, table(dnum)[paste(dnum)] > 1)"),
        "enroll", "sch.wide", {"psu": ["dnum", "snum"], "fpc": ["fpc1"]}, []),
    "an endless first stage": (CLUS2.format("~I(Inf * fpc1) + fpc2"), "enroll", "sch.wide",
        {"psu": ["dnum", "snum"], "fpc": None}, []),
    "ids that start again": (
        "svydesign(id = ~k, strata = ~stype, weights = ~pw, nest = TRUE, data = transform(apistrat, k = rep(1:40, 5)))",
        "api00", "awards", {"psu": ["k"]}, []),
    "nhanes": (NHANES.format("nhanes"), "HI_CHOL", "agecat", {"strata": "SDMVSTRA", "psu": ["SDMVPSU"]}, []),
    "trimmed": (f"trimWeights({CLUS2.format('~fpc1 + fpc2')}, upper = 60)", "api00", "awards", {"weights": "weight"},
        ["weight"]),
    "changed": (f"update({STRAT.format('apistrat')}, pw = 2 * pw)", "api00", "awards", {"weights": "weight"},
        ["weight"]),
    "clusters in a domain": (f"subset({CLUS1}, stype == 'E')", "api00", "awards", {"weights": "pw"}, []),
    "tibble": (STRAT.format("structure(apistrat, class = c('tbl_df', 'tbl', 'data.frame'))"), "api00", "awards",
        {"weights": "pw", "strata": "stype"}, []),
    "labelled": (
        "svydesign(~1, strata = ~s, weights = ~w, data = {d <- apistrat; "
        "class <- c('haven_labelled', 'vctrs_vctr', 'double'); d$w <- structure(d$pw, label = 'w', class = class); "
        "d$s <- structure(as.numeric(d$stype), labels = c(E = 1), class = class); d})",
        "api00", "awards", {"weights": "w", "strata": "s"}, []),
    "unequal probabilities": (PPS.format("ppsmat(election_jointprob), variance = 'YG'"), "Bush", None,
        {"pps": "sen_yates_grundy", "probs": "p"}, []),
    "Horvitz-Thompson": (PPS.format("ppsmat(election_jointprob)"), "Bush", None,
        {"pps": "horvitz_thompson", "fpc": None}, []),
    "Hartley-Rao": (PPS.format("HR()"), "Bush", None, {"pps": "horvitz_thompson"}, []),
    "Overton": (PPS.format("'overton'"), "Bush", None, {"pps": "horvitz_thompson"}, []),
    "Poisson": (PPS.format("poisson_sampling(election_pps$p)"), "Bush", None, {"pps": "poisson"}, []),
    "BRR": (PAIRS.format("BRR", ""), "HI_CHOL", "agecat", {"weights": "WTMEC2YR", "mse": False}, None),
    "Fay": (PAIRS.format("Fay", ", fay.rho = 0.3, mse = TRUE"), "HI_CHOL", "agecat", {"mse": True}, None),
    "JK1": (f"as.svrepdesign({CLUS1})", "api00", "stype", {"weights": "pw"}, None),
    "JKn": (f"as.svrepdesign({STRAT.format('apistrat')}, compress = FALSE)", "api00", "awards", {"weights": "pw"},
        None),
    "bootstrap": (f"as.svrepdesign({CLUS1}, type = 'bootstrap', replicates = 40)", "api00", "stype", {"weights": "pw"},
        None),
    "mrbbootstrap": (f"as.svrepdesign({CLUS2.format('~fpc1 + fpc2')}, type = 'mrbbootstrap', replicates = 40)", "api00",
        "stype", {"weights": "pw"}, None),
    "scd": ("suppressWarnings(svrepdesign(data = scd, type = 'BRR', repweights = halves, combined.weights = FALSE))",
        "alive", None, {"weights": "weight"}, None),
    "acs": (ACS.format("repweights = 'rw[0-9]+', type = 'ACS', mse = TRUE"), "y", "g",
        {"replicate_weights": [f"rw{i}" for i in range(1, 21)], "scale": 0.2}, []),
    "acs factors": (
        ACS.format("repweights = as.matrix(acs[4:23]) / acs$w, type = 'other', scale = 0.2, rscales = 1, "
                   "combined.weights = FALSE"),
        "y", "g", {"replicate_weights": [f"rw{i}" for i in range(1, 21)]}, []),
    "acs factors in columns": (
        "svrepdesign(data = half, weights = ~w, repweights = 'rw[0-9]+', type = 'ACS', combined.weights = FALSE)",
        "y", "g", {"replicate_weights": [f"rw{i}" for i in range(1, 21)], "combined": False, "mse": False}, []),
    "weights of 0": ("svydesign(~1, strata = ~stype, weights = ~z, fpc = ~fpc, "
        "data = transform(apistrat, z = ifelse(snum %% 4 == 0, 0, pw)))", "api00", "awards",
        {"weights": "z", "fpc": ["fpc"]}, []),
    "acs rscales": (ACS.format("repweights = acs[4:23], type = 'other', scale = 0.2, rscales = (1:20) / 20"), "y", "g",
        {"scale": 0.2}, []),
    "JK2": (f"suppressWarnings({ACS.format('repweights = acs[4:23], type = ' + repr('JK2'))})", "y", "g", {"scale": 1},
        []),
    "replicates of a domain": (f"subset(as.svrepdesign({CLUS1}), stype == 'E')", "api00", "awards", {"weights": "pw"},
        None),
    "replicates, calibrated": (f"calibrate(as.svrepdesign({CLUS1}), ~stype, c(6194, 755, 1018))", "api00", "awards",
        {"weights": "weight"}, None),
    "post-stratified": ("postStratify(svydesign(id = ~1, weights = ~pw, data = apisrs), ~stype, xtabs(~stype, apipop))",
        "api00", "awards", {"weights": "pw_calibrated", "base_weights": "pw", "poststrata": "stype"},
        ["pw_calibrated"]),
    "post-stratified by a vector": ("postStratify(svydesign(id = ~1, weights = ~pw, data = apisrs), "
        "data.frame(part = as.integer(apisrs$snum %% 3)), data.frame(part = 0:2, Freq = c(2000, 2100, 2094)))",
        "api00", "awards", {"base_weights": "pw", "poststrata": "poststratum"}, ["poststratum", "pw_calibrated"]),
    "post-stratified clusters": (f"postStratify({CLUS1}, ~stype + awards, xtabs(~stype + awards, apipop))", "enroll",
        "sch.wide", {"psu": ["dnum"], "fpc": ["fpc"], "poststrata": [["stype", "awards"]]}, ["pw_calibrated"]),
    "post-stratified, trimmed before": (
        f"postStratify(trimWeights({CLUS2.format('~fpc1 + fpc2')}, upper = 60), ~stype, xtabs(~stype, apipop))",
        "api00", "awards", {"base_weights": "weight"}, ["weight", "weight_calibrated"]),
    "Brewer": (PPS.format("'brewer'"), "Bush", None, {"pps": "brewer", "probs": "p", "fpc": None}, []),
    "Brewer in strata": ("svydesign(~1, strata = ~h, fpc = ~p, pps = 'brewer', "
        "data = transform(election_pps, h = rep(1:2, 20)))", "Bush", "h", {"pps": "brewer", "strata": "h"}, []),
    "Brewer, calibrated": (f"calibrate({PPS.format(repr('brewer'))}, ~votes, c(4600, 122e6))", "Bush", None,
        {"pps": "brewer", "auxiliary": ["votes"], "poststrata": [[]]}, None),
    "Hartley-Rao, Yates-Grundy": (PPS.format("HR(), variance = 'YG'"), "Bush", None, {"pps": "sen_yates_grundy"}, []),
    "Hartley-Rao, a sum": (PPS.format("HR(sum(election$p^2) / 40)"), "Bush", None, {"pps": "horvitz_thompson"}, []),
    "linear": (f"calibrate({CLUS1}, ~stype + api99, {WITH_API99})", "enroll", "awards",
        {"poststrata": "stype", "auxiliary": ["api99"], "base_weights": "pw", "weights": "pw_calibrated"},
        ["pw_calibrated"]),
    "linear, a number": (f"calibrate({CLUS1}, ~api99, c(6194, 3914069))", "enroll", "stype",
        {"poststrata": [[]], "auxiliary": ["api99"]}, ["pw_calibrated"]),
    "linear, a number alone": (f"calibrate({CLUS1}, ~enroll - 1, 3811472)", "api00", "stype",
        {"poststrata": None, "auxiliary": ["enroll"]}, ["pw_calibrated"]),
    "linear, no constant": (f"calibrate({CLUS1}, ~stype - 1, c(4421, 755, 1018))", "enroll", "awards",
        {"poststrata": "stype"}, ["pw_calibrated"]),
    "linear, a variance": (f"calibrate({CLUS1}, ~enroll - 1, 3811472, variance = apiclus1$enroll)", "api00", "stype",
        {"auxiliary": ["enroll"]}, None),
    "linear, an expression": (f"calibrate({CLUS1}, ~log(enroll) + stype:api99, "
        "colSums(model.matrix(~log(enroll) + stype:api99, apipop)))", "api00", "awards",
        {"auxiliary": ["log(enroll)", "stypeE:api99", "stypeH:api99", "stypeM:api99"]}, None),
    "linear, by cluster": (f"calibrate({CLUS2.format('~fpc1 + fpc2')}, ~stype, c(6194, 755, 1018), "
        "aggregate.stage = 1)", "api00", "awards", {"auxiliary": ["stypeH", "stypeM"]}, None),
    "linear, sparse": (f"calibrate({CLUS1}, ~stype + api99, {WITH_API99}, sparse = TRUE)", "enroll", "awards",
        {"poststrata": "stype", "auxiliary": ["api99"]}, ["pw_calibrated"]),
    "crossed": (f"calibrate({STRAT.format('apistrat')}, ~stype * awards, "
        "colSums(model.matrix(~stype * awards, apipop)))", "enroll", "sch.wide",
        {"poststrata": [["stype", "awards"]]}, ["pw_calibrated"]),
    "margins": (f"calibrate({STRAT.format('apistrat')}, list(~stype, ~awards), {AWARDS})",
        "enroll", "sch.wide", {"poststrata": ["stype", "awards"]}, ["pw_calibrated"]),
    "raking": (f"calibrate({CLUS1}, ~stype + sch.wide, colSums(model.matrix(~stype + sch.wide, apipop)), "
        "calfun = 'raking')", "enroll", "awards", {"poststrata": ["stype", "sch.wide"]}, ["pw_calibrated"]),
    "logit": (f"calibrate({CLUS1}, ~stype + api99, {WITH_API99}, calfun = 'logit', bounds = c(0.5, 2.5))", "enroll",
        "awards", {"poststrata": "stype", "auxiliary": ["api99"]}, ["pw_calibrated"]),
    "bounds": (f"calibrate({CLUS2.format('~fpc1 + fpc2')}, ~stype + api99, {WITH_API99}, bounds = c(0.4, 3))", "enroll",
        "awards", {"psu": ["dnum", "snum"], "auxiliary": ["api99"]}, ["pw_calibrated"]),
    "calibrated, trimmed after": (f"trimWeights(calibrate({CLUS1}, ~stype + api99, {WITH_API99}), 40, 20)", "enroll",
        "awards", {"calibrated_weights": "pw_before_trimming", "base_weights": "pw"}, None),
    "rake": (f"rake({CLUS1}, list(~stype, ~sch.wide), {MARGINS})", "enroll", "awards",
        {"poststrata": ["stype", "sch.wide"], "raked_weights": ["pw_raked_1"], "base_weights": "pw"},
        ["pw_raked_1", "pw_calibrated"]),
    "rake of three": (f"rake({STRAT.format('apistrat')}, list(~stype + awards, ~sch.wide, ~comp.imp), "
        "list(xtabs(~stype + awards, apipop), xtabs(~sch.wide, apipop), xtabs(~comp.imp, apipop)))", "enroll", "awards",
        {"poststrata": [["stype", "awards"], "sch.wide", "comp.imp"]}, ["pw_raked_1", "pw_raked_2", "pw_calibrated"]),
    "nhanes, raked": (f"rake({NHANES.format('nhanes')}, list(~agecat, ~race), list(data.frame(agecat = levels("
        "nhanes$agecat), Freq = c(6e7, 9e7, 7e7, 56e6)), data.frame(race = 1:4, Freq = c(5e7, 18e7, 3e7, 16e6))))",
        "HI_CHOL", "RIAGENDR", {"poststrata": ["agecat", "race"]}, None),
    "partial": (f"suppressWarnings(postStratify(update({STRAT.format('apistrat')}, initial = substr(dname, 1, 1)), "
        "~initial, xtabs(~initial, transform(apipop, initial = substr(dname, 1, 1))), partial = TRUE))", "api00",
        "awards", {"poststrata": "initial"}, ["pw_calibrated"]),
    "twice": (f"postStratify(postStratify({CLUS1}, ~stype, xtabs(~stype, apipop)), ~awards, xtabs(~awards, apipop))",
        "enroll", "sch.wide", {"poststrata": "awards", "base_weights": "pw_calibrated_1",
            "earlier_calibrations": [{"poststrata": "stype", "base_weights": "pw"}]},
        ["pw_calibrated_1", "pw_calibrated"]),
    "post-stratified after calibrate": (f"postStratify(calibrate({CLUS1}, ~api99, c(6194, 3914069)), ~stype, "
        "xtabs(~stype, apipop))", "enroll", "awards", {"earlier_calibrations": [
            {"poststrata": [[]], "auxiliary": ["api99"], "base_weights": "pw"}]}, ["pw_calibrated_1", "pw_calibrated"]),
    "three times": (f"calibrate(rake(postStratify({CLUS1}, ~awards, xtabs(~awards, apipop)), list(~stype, ~sch.wide), "
        f"{MARGINS}), ~api99, c(6194, 3914069))", "enroll", "awards", {"earlier_calibrations": [
            {"poststrata": "awards", "base_weights": "pw"}, {"poststrata": ["stype", "sch.wide"],
             "base_weights": "pw_calibrated_1", "raked_weights": ["pw_raked_1"]}]}, None),
    "replicates, raked": (f"rake(as.svrepdesign({CLUS1}), list(~stype, ~sch.wide), {MARGINS})", "api00", "awards",
        {"weights": "weight"}, None),
    "replicates, logit": (f"calibrate(as.svrepdesign({CLUS1}), ~stype + api99, {WITH_API99}, calfun = 'logit', "
        "bounds = c(.3, 3))", "api00", "awards", {"weights": "weight"}, None),
    "scd, post-stratified": ("postStratify(suppressWarnings(svrepdesign(data = scd, type = 'BRR', repweights = halves, "
        "combined.weights = FALSE)), ~ESA, data.frame(ESA = 1:3, Freq = c(30, 40, 20)))", "alive", None, {}, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def r_designs(r):
    r.r("""
        for (package in c("haven", "tibble")) requireNamespace(package, quietly = TRUE) # their methods, where they are
        suppressWarnings(data(scd))
        halves <- 2 * cbind(c(1,0,1,0,1,0), c(1,0,0,1,0,1), c(0,1,1,0,0,1), c(0,1,0,1,1,0))
        set.seed(4)
        acs <- data.frame(y = rnorm(200), w = runif(200, 1, 5), g = sample(3, 200, TRUE))
        half <- cbind(acs, setNames(as.data.frame(matrix(sample(c(.3, 1, 1.7), 4000, TRUE), 200)), paste0("rw", 1:20)))
        acs <- cbind(acs, setNames(as.data.frame(acs$w * matrix(rgamma(4000, 2, 2), 200)), paste0("rw", 1:20)))
    """)
    return r


@pytest.mark.parametrize("name", FROM_R)
def test_designs_of_r_give_the_same_estimates_here(r_designs, name):
    expression, y, by, roles, new = FROM_R[name]
    there = r_designs.r(expression)
    design = ss.r.from_r(there)
    got = design.roles()
    assert {role: got.get(role) for role in roles} == roles
    if new is not None:
        old = list(r_designs.r["names"](there.rx2("variables")))
        assert list(design.frame.columns) == [*old, *new]
    assert_r_agrees(r_designs, there, design, y, by)
    again = ss.r.from_r(ss.r.to_r(design))  # and once more
    pd.testing.assert_frame_equal(again.frame, design.frame, check_exact=True)
    assert again.roles() == got


def assert_r_agrees(r, there, design, y, by):
    expected = ss.r.from_r(r.r(R_TABLE)(there, y, r.NULL if by is None else by)).set_index(["statistic", "group"])
    ours = ss.estimate(design, y, by, STATISTICS, missing="drop")
    group = (
        "all" if by is None else ours[by].map(lambda label: f"{label:g}" if isinstance(label, float) else str(label))
    )
    ours = ours.assign(group=group).set_index(["statistic", "group"]).loc[expected.index]
    assert len(ours) == len(expected)
    for column in ("estimate", "se", "df"):
        a, b = (t[column].to_numpy(float) for t in (ours, expected))
        slack = 1e-12 * expected["estimate"].abs().to_numpy()
        assert (np.abs(a - b) <= 1e-10 * np.abs(b) + slack).all(), (column, a, b)


def test_the_joint_probabilities_of_r(r):
    """All of them, where R by default takes small covariances for none."""
    joint = np.array(r.r("election_jointprob"))
    design = ss.r.from_r(r.r(PPS.format("ppsmat(election_jointprob, tolerance = 0)")))
    np.testing.assert_allclose(design.joint[0].matrix(), joint, rtol=1e-12)
    back = ss.r.to_r(design)
    np.testing.assert_allclose(
        r.r("function(d) as.matrix(d$dcheck[[1]]$dcheck)")(back),
        1 - np.outer(*[joint.diagonal()] * 2) / joint,
        atol=1e-12,
    )


def test_joint_probabilities_that_are_almost_independent(r):
    """Those of a unit that is almost certain, which ppsmat() by default takes for independent."""
    frame = population()
    frame.loc[7, "s"] = 0.9996 / (20 - 0.9996) * frame["s"].drop(7).sum()
    design = SurveyDesign.from_frame(frame, n=20, size="s", seed=2)
    pi, joint = design.probs, design.joint[0].matrix()
    check = 1 - np.outer(pi, pi) / joint
    assert (np.abs(check[~np.eye(20, dtype=bool)]) < 1e-4).any()
    got = r.r("function(d) as.matrix(d$dcheck[[1]]$dcheck)")(ss.r.to_r(design))
    np.testing.assert_allclose(np.array(got), check, atol=1e-12)


def test_sen_yates_grundy_of_independent_units_is_not_poisson(r):
    design = ss.r.from_r(
        r.r("""local({
        p <- election_pps$p; joint <- outer(p, p); diag(joint) <- p
        svydesign(ids = ~1, fpc = ~p, data = election_pps, pps = ppsmat(joint), variance = "YG") })""")
    )
    joint = design.joint[0].matrix()
    assert design.pps == "sen_yates_grundy"
    np.testing.assert_allclose(
        joint[~np.eye(40, dtype=bool)], np.outer(design.probs, design.probs)[~np.eye(40, dtype=bool)]
    )


REFUSED = {
    "two-phase": ("twophase(id = list(~1, ~1), subset = ~I(api00 > 500), strata = list(NULL, ~stype), data = apistrat)",
        "a two-phase design cannot"),
    "calibrated within clusters": (f"calibrate({CLUS2.format('~fpc1 + fpc2')}, ~1, lapply(split(apiclus2$fpc2, factor("
        "apiclus2$dnum, unique(apiclus2$dnum))), function(n) c('(Intercept)' = n[1])), stage = 1)",
        r"calibrate\(stage = \) calibrated within its clusters cannot be carried over"),
    "negative": (f"calibrate({CLUS1}, ~stype + api99 + ell, c(6194, 755, 1018, 3914069, 4e5))",
        r"calibrate\(\) made negative cannot be carried over; give calibrate\(\) bounds"),
    "calibrated ppsmat": (f"calibrate({PPS.format('ppsmat(election_jointprob)')}, ~votes, c(4600, 122e6))",
        "a calibrated design with pps =, whose calibration"),
    "brewer of clusters": ("svydesign(~dnum, fpc = ~p, data = transform(apiclus1, p = 0.02), pps = 'brewer')",
        'pps = "brewer" and clusters'),
    "brewer, other weights": ("svydesign(~1, fpc = ~p, weights = ~w, data = transform(election_pps, w = 2 / p), "
        "pps = 'brewer')", "whose weights are not 1 / fpc"),
    "calibrated with weights of 0": ("postStratify(svydesign(~1, weights = ~z, data = transform(apisrs, "
        "z = ifelse(snum %% 4 == 0, 0, pw))), ~stype, xtabs(~stype, apipop))", "with weights of 0"),
    "subset of brewer": (f"subset({PPS.format(repr('brewer'))}, Bush > 1000)", "with weights of 0"),
    "[": (f"({STRAT.format('apistrat')})[1:100]", "a subset of a design cannot be carried over; take the whole design"),
    "subset": (f"subset({STRAT.format('apistrat')}, api00 > 600)", "a subset of a design"),
    "subset of clusters": (f"subset({CLUS1}, dnum > 300)", "a subset of a design"),
    "subset of the second stage": (f"({CLUS2.format('~fpc1 + fpc2')})[-2]", "a subset of a design"),
    "subset of a calibrated one": (f"subset(postStratify({CLUS1}, ~stype, xtabs(~stype, apipop)), stype == 'E')",
        "a subset of a calibrated design.* cannot be carried over; take the whole design, .* where = ~ condition"),
    "subset of ppsmat": (f"subset({PPS.format('ppsmat(election_jointprob)')}, Bush > 1000)", "with weights of 0"),
    "later strata": ("svydesign(~dnum + snum, strata = ~sch.wide + stype, weights = ~pw, data = apiclus2, nest = TRUE)",
        "with strata at a later stage"),
    "fpc of some": (
        "svydesign(~1, strata = ~stype, weights = ~pw, fpc = ~I(ifelse(stype == 'E', Inf, fpc)), data = apistrat)",
        "infinite in some strata only"),
    "a model": (f"svyglm(api00 ~ ell, {CLUS1})", r"a design of the survey package was expected .* not a svyglm"),
    "a list": ("list(1)", "not a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_designs_that_cannot_be_carried_are_refused_by_name(r, name):
    expression, message = REFUSED[name]
    there = r.r(f"suppressWarnings({expression})")
    with pytest.raises(ss.r.RError, match=message):
        ss.r.from_r(there)


def test_designs_that_are_refused_here(r):
    lonely = r.r("svydesign(~1, strata = ~k, weights = ~pw, data = transform(apistrat[1:20, ], k = c(1, rep(2, 19))))")
    with pytest.raises(ss.InputError, match="has only one sampling unit"):
        ss.r.from_r(lonely)


def test_a_column_that_neither_side_knows_is_refused_in_a_design(r):
    there = r.r(f"update({STRAT.format('apistrat')}, secret = as.raw(1))")
    with pytest.raises(ss.r.RError, match=r"column .secret. is of type raw"):
        ss.r.from_r(there)
    with pytest.raises(ss.InputError, match="column 'secret' has values of type"):
        ss.r.to_r(SurveyDesign(FRAME.assign(secret=[[1]] * 60), weights="w"))


# ---- expressions, warnings, errors


def test_expressions(r):
    design = DESIGNS["sizes"]()
    table = ss.r.evaluate("svyby(~y, ~g, d, svymean)", d=design)
    ours = ss.estimate(design, "y", "g").iloc[:3]
    assert table["g"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(table[["y", "se"]], ours[["estimate", "se"]], rtol=1e-12)
    coefficients = ss.r.evaluate("svyglm(y ~ h, design = d)", d=design)
    fitted = ss.regression(design, "y ~ h")
    assert coefficients["name"].tolist() == ["(Intercept)", "hb", "hc"]
    np.testing.assert_allclose(coefficients["estimate"], fitted.table["estimate"], rtol=1e-9)
    assert ss.r.evaluate("nrow(f) + 1", f=FRAME)[0] == 61  # names of arguments of functions on the way
    assert ss.r.evaluate("c(nrow(function_), nrow(expression))", expression=FRAME, function_=FRAME[:7])[1] == 60
    assert ss.r.evaluate("NULL") == r.NULL and ss.r.evaluate("'é'")[0] == "é"
    assert_frame = ss.r.evaluate("data.frame(a = f$y * 2)", f=FRAME)
    np.testing.assert_array_equal(assert_frame["a"], 2 * FRAME["y"])
    two = SurveyDesign(LONELY, **STRATIFIED, lonely_psu="remove"), design
    with pytest.raises(ss.InputError, match="differ in lonely_psu"):
        ss.r.evaluate("1", a=two[0], b=two[1])


@pytest.mark.filterwarnings("error")
def test_warnings_of_r_are_warnings_here(r):
    with pytest.warns(UserWarning, match="^R: ") as caught:
        assert ss.r.evaluate("{ warning('be careful'); warning('be careful'); warning('é'); 7 }")[0] == 7
    assert [str(w.message) for w in caught] == ["R: be careful", "R: é"] and caught[0].filename == __file__
    with pytest.warns(UserWarning, match="R: at first"), pytest.raises(ss.r.RError, match=r"^then this$"):
        ss.r.evaluate("{ warning('at first'); stop('then this') }")
    ss.r.evaluate("svyby(~y, ~g, d, svymean)", d=DESIGNS["sizes"]())  # the variances of which are only a diagonal
    small = WITH_REPLICATES.assign(**{name: WITH_REPLICATES[name] / 1e4 for name in ["w", *REPLICATES]})
    ss.r.to_r(SurveyDesign(small, weights="w", replicate_weights=REPLICATES))  # survey: do not look like weights


def test_errors_of_r(r):
    for expression, message in {
        "svymean(~nosuch, d)": "object 'nosuch' not found",
        "1 +": "unexpected end of input",
    }.items():
        with pytest.raises(ss.r.RError, match=message) as caught:
            ss.r.evaluate(expression, d=DESIGNS["sizes"]())
        assert isinstance(caught.value, ss.SurveySynthError) and caught.value.__context__ is None
    assert r.r("getOption('survey.lonely.psu')")[0] == "fail"


def test_inclusion_probabilities(r):
    sizes = [1, 2, 2, 3, 4, 50.5]
    np.testing.assert_array_equal(ss.r.inclusion_probabilities(sizes, 3), ss.sampling.inclusion_probabilities(sizes, 3))
    np.testing.assert_array_equal(ss.r.inclusion_probabilities(np.arange(1, 6, dtype="i4"), 2), np.arange(1, 6) / 7.5)


def test_other_conversions_and_other_threads(r):
    """rpy2 keeps conversions for the context and the thread; ours are the same everywhere."""
    from rpy2.robjects import default_converter, numpy2ri, pandas2ri

    design = DESIGNS["two stages"]()
    expected = ss.estimate(design, "y", "g")

    def work():
        again = ss.r.from_r(ss.r.to_r(design))
        found.append(ss.estimate(again, "y", "g", estimator="survey"))
        assert ss.r.evaluate("data.frame(x = 1)")["x"].tolist() == [1]
        assert ss.r.inclusion_probabilities([1, 2, 3], 2).tolist() == [1 / 3, 2 / 3, 1]

    found = []
    with (default_converter + numpy2ri.converter + pandas2ri.converter).context():
        work()
    thread = threading.Thread(target=work)
    thread.start(), thread.join()
    assert len(found) == 2
    for table in found:
        assert_equal_tables(table, expected)


# ---- releases


@pytest.mark.parametrize("kind", [model, population_model], ids=["FBS", "FBP"])
def test_releases_as_one_object_of_mitools(r, kind):
    release = ss.synthesize(make_design(), kind(), epsilon=12, m=3, seed=1, population_total=20_000, mechanism=PSEUDO)
    if not r.r("requireNamespace")("mitools", quietly=True)[0]:
        pytest.skip("R's mitools is not installed: apt-get install r-cran-mitools")
    r.r("library(mitools)")
    means = ss.r.release_to_r(release)
    counts = ss.r.release_to_r(release, counts=True)
    r.globalenv["imps"], r.globalenv["counted"] = means, counts
    assert list(means.rclass) == ["svyimputationList"] and len(means.rx2("designs")) == 3
    for name, results, table in (
        ("mean", "with(imps, svyby(~income, ~field, svymean))", release.tables("field", statistic="mean").iloc[:4]),
        ("count", "with(counted, svytotal(~field))", release.tables("field", statistic="count").iloc[:4]),
    ):
        r.r(f"results <- {results}")
        q = np.array([list(r.r["coef"](one)) for one in r.r("results")])
        u = np.array([np.array(r.r("function(x) SE(x)^2")(one)) for one in r.r("results")])
        m, mean_u, b = 3, u.mean(axis=0), q.var(axis=0, ddof=1)
        np.testing.assert_allclose(q.mean(axis=0), table["estimate"], rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(np.sqrt(mean_u + b / m), table["se"], rtol=1e-8, atol=1e-6, err_msg=name)
        df = (m - 1) * (1 + mean_u / (b / m)) ** 2 if (b > 1e-9).all() else np.inf
        most = [r.r(f"degf(subset(imps$designs[[1]], field == '{field}'))")[0] for field in table["field"]]
        np.testing.assert_allclose(np.minimum(df, most), table["df"], rtol=1e-7, err_msg=name)


# ---- without R, and in other languages

HERE = Path(__file__).parents[1]


def python(code, **environment):
    """Run Python in a process of its own, with some variables set, or unset (None)."""
    kept = {name: value for name, value in os.environ.items() if environment.get(name, "") is not None}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        encoding="utf-8",
        env=kept | {name: value for name, value in environment.items() if value is not None},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_nothing_but_the_bridge_starts_r(tmp_path):
    make_frame(200).replace("NA", "03").to_csv(tmp_path / "file.csv", index=False)
    said, _ = python(f"""
        import sys
        import surveysynth as ss
        from surveysynth.cli import app as cli
        file = r"{tmp_path / "file.csv"}"
        model = [file, "--weights", "wt", "--formula", "income ~ field", "--epsilon", "20"]
        model += ["--set", "privacy.mechanism=pseudo-posterior", "--seed", "1"]
        made = r"{tmp_path / "out"}"
        for words in (["--help"], ["privacy-cost", *model[:-2]],
                      ["synthesize", *model, "--by", "field", "--out", made],
                      ["tables", made, "--by", "field"]):
            sys.argv = ["surveysynth", *words]
            try:
                cli.main()
            except SystemExit as left:
                assert not left.code, words
        design = ss.SurveyDesign.read(file, weights="wt", strata="field")
        ss.estimate(design, "income", "gender", ["mean", "quantile"])
        loaded = [name for name in sys.modules if name.split(".")[0].startswith("rpy2")]
        print("LOADED", loaded)
    """)
    assert "LOADED []" in said


@pytest.mark.slow
def test_without_r_the_message_says_how_to_get_it(tmp_path):
    said, _ = python(
        """
        import pandas as pd, surveysynth as ss
        frame = pd.DataFrame({"y": [1.0, 2, 3], "w": 1.0})
        for work in (lambda: ss.r.to_r(frame), lambda: ss.r.evaluate("1"),
                     lambda: ss.r.inclusion_probabilities([1, 2], 1),
                     lambda: ss.estimate(ss.SurveyDesign(frame, weights="w"), "y", estimator="survey")):
            try:
                work()
            except ss.r.RError as error:
                print(error)
        """,
        PATH=str(tmp_path),
        R_HOME=None,
    )
    lines = said.splitlines()
    assert len(lines) == 4
    if importlib.util.find_spec("rpy2") is not None:
        assert all(line.startswith("R is not installed: apt-get install r-base-core r-cran-survey") for line in lines)


def test_what_is_missing_is_named(r, monkeypatch):
    with pytest.raises(
        ss.r.RError, match=r"R package 'nosuch' is not installed: install.packages.* apt-get install r-cran-nosuch"
    ):
        ss.r.session("survey", "nosuch")
    start = _start.__wrapped__  # as if R had not been started
    monkeypatch.delenv("R_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ss.r.RError, match="R is not installed: apt-get install r-base-core r-cran-survey"):
        start()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ss.r.RError, match=r"rpy2 is not installed: pip install 'surveysynth\[r\]'"):
        start()


def test_an_r_that_does_not_start(r, monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: 1 / 0)
    with pytest.raises(
        ss.r.RError, match=r"could not start R \(ZeroDivisionError\); `python -m rpy2.situation`"
    ) as caught:
        _start.__wrapped__()
    assert caught.value.__context__ is None


IN_ANY_LANGUAGE = """
    import tempfile
    import warnings
    import pandas as pd
    import surveysynth as ss
    from surveysynth.r.exchange import load, save
    frame = pd.DataFrame({"größe": [1.5, 2.5, 4.5, 8.5], "schicht ü": ["ä", "ä", "日本", "日本"]})
    frame = frame.assign(ключ=[1, 2, 1, 2], w=2.0)
    frame = pd.concat([frame, frame], ignore_index=True)
    design = ss.SurveyDesign(frame, weights="w", strata="schicht ü", psu="ключ")
    there = ss.r.to_r(design)
    back = ss.r.from_r(there)
    pd.testing.assert_frame_equal(back.frame, frame)
    assert back.roles() == design.roles()
    table = ss.r.evaluate("svyby(~größe, ~`schicht ü`, d, svymean)", d=design)
    assert table.columns.tolist() == ["schicht ü", "größe", "se"] and table["schicht ü"].tolist() == ["ä", "日本"]
    assert ss.r.evaluate("svymean(~größe, subset(d, `schicht ü` == '日本'))", d=design)["estimate"].tolist() == [6.5]
    assert ss.estimate(design, "größe", "schicht ü", estimator="survey")["estimate"].tolist() == [2, 6.5, 4.25]
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        save(frame, a)
        ss.r.call("save_frame", ss.r.call("load_frame", a), b)
        pd.testing.assert_frame_equal(load(b), frame)
    try:
        ss.r.evaluate("stop('größe')")
    except ss.r.RError as error:
        assert str(error) == "größe"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ss.r.evaluate("warning('größe')")
        assert [str(one.message) for one in heard] == ["R: größe"]
    try:  # R prints the numbers that are wrong
        ss.r.to_r(ss.SurveyDesign(frame.assign(N=1.9999999999), weights="w", strata="schicht ü", psu="ключ", fpc="N"))
    except ss.r.RError as error:
        assert "FPC implies" in str(error)
    print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C", "LANG": None, "PYTHONIOENCODING": "utf-8"}, {"LC_ALL": None, "LANG": None, "LC_CTYPE": "C.UTF-8"}],
    ids=str,
)
def test_names_and_labels_in_any_language(r, environment):
    """And nothing is printed: no greetings of R, its packages and rpy2, no errors, no warnings."""
    assert python(IN_ANY_LANGUAGE, **environment) == ("done\n", "")


def test_the_r_side_alone_in_the_c_locale(r, tmp_path):
    """load_frame and save_frame as the R package runs them, in an R that has no UTF-8."""
    frame = pd.DataFrame({"größe": ["ä", None, "日本😀"], "b": pd.Categorical(["ü", "é", None])})
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    exchange.save(frame, tmp_path / "in")
    script = f"source('r_bridge/R/exchange.R'); save_frame(load_frame('{tmp_path}/in'), '{tmp_path}/out')"
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", script],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "LANG"} | {"LC_ALL": "C"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    pd.testing.assert_frame_equal(exchange.load(tmp_path / "out"), frame)


def test_the_bridge_leaves_warnings_alone(r):
    """No filter, option or variable of the session is changed for good."""
    before = [str(f) for f in warnings.filters]
    options = r.r("function() options()[c('warn', 'survey.lonely.psu', 'stringsAsFactors', 'scipen')]")
    was = str(options())
    ss.r.evaluate("svymean(~y, d)", d=DESIGNS["raked"]())
    assert [str(f) for f in warnings.filters] == before and str(options()) == was
    assert "attempt" not in list(r.r("ls(globalenv())"))
