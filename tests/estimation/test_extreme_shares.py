"""Shares of 0 and 1: limits by Clopper and Pearson, in tables, differences, joint estimates, releases and in print."""

from typing import get_args

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from surveysynth import SurveyDesign, difference, estimate, joint_estimates
from surveysynth.estimation.intervals import Method
from surveysynth.estimation.tables import tabulate
from surveysynth.publication.quality import SYMBOLS

LIMITS = ["ci_low", "ci_high"]
FRAME = pd.DataFrame({
    "w": 4.0, "psu": [1, 2, 3, 4, 5] * 5, "side": ["x"] * 13 + ["y"] * 12, "nobody": "no", "income": 100.0,
    "some": ["yes" if i in (20, 23) else "no" for i in range(25)],
})  # fmt: skip
SIMPLE, CLUSTERS = SurveyDesign(FRAME, weights="w"), SurveyDesign(FRAME, weights="w", psu="psu")
DESIGNS = {"simple": SIMPLE, "simple, replicates": SIMPLE.replicates("JK1"),
           "clusters": CLUSTERS, "clusters, replicates": CLUSTERS.replicates("JK1")}  # fmt: skip


def away(r, n, df, level=0.95):
    """How far from 0 or 1 the interval goes: R's svyciprop(method = "beta") with n records in place of p(1-p)/var."""
    tail = (1 - level) / 2
    n_eff = n * min(1, r.r(f"(qt({tail}, {n - 1}) / qt({tail}, {df}))^2")[0])
    return r.r(f"qbeta({1 - tail}, 1, {n_eff})")[0]


@pytest.mark.parametrize("method", [None, *get_args(Method)])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_share_of_nobody_or_everybody_by_every_method(name, method, r):
    design = DESIGNS[name]
    for level in (0.95, 0.8):
        length = away(r, 25, design.degf, level)
        asked = {"interval": method, "level": level}
        one = estimate(design, "nobody", statistic="proportion", **asked).iloc[0]
        np.testing.assert_allclose(one[["estimate", "se", *LIMITS]].astype(float), [1, 0, 1 - length, 1], rtol=1e-12)
        none = estimate(design, "income", statistic="poverty_rate", poverty_line=50, **asked).iloc[0]
        np.testing.assert_allclose(none[["estimate", "se", *LIMITS]].astype(float), [0, 0, 0, length], rtol=1e-12)


def test_the_limit_is_that_of_25_independent_records():
    """The largest share under which nobody of 25 is found in 2.5% of samples."""
    none = estimate(SIMPLE, "income", statistic="poverty_rate", poverty_line=50)
    assert none["ci_high"].round(4).tolist() == [0.1372]
    np.testing.assert_allclose(binom.cdf(0, 25, none["ci_high"]), 0.025, rtol=1e-12)
    normal = estimate(CLUSTERS, "income", statistic="poverty_rate", poverty_line=50, df=np.inf)  # no more than n count
    np.testing.assert_allclose(normal["ci_high"], none["ci_high"], rtol=1e-12)


def test_a_domain_has_its_own_records_and_degrees_of_freedom(r):
    frame = FRAME.assign(w=FRAME["w"].where(FRAME.index != 3, 0.0))  # a record of weight 0 counts nothing
    table = estimate(SurveyDesign(frame, weights="w", psu="psu"), "some", "side", "proportion")
    table = table.set_index(["side", "category"])
    sure = table.loc["x"]
    assert sure["n"].tolist() == [12, 12] and sure["df"].tolist() == [4, 4]
    np.testing.assert_allclose(sure[LIMITS], [[1 - away(r, 12, 4), 1], [0, away(r, 12, 4)]], rtol=1e-12)
    assert (table["ci_high"] > table["ci_low"]).all()


def test_without_degrees_of_freedom_there_is_no_interval():
    table = estimate(CLUSTERS, "nobody", "psu", "proportion", interval="beta")
    single = table["psu"] != "all"
    assert table.loc[single, LIMITS].isna().all(axis=None) and table.loc[~single, LIMITS].notna().all(axis=None)


@pytest.mark.parametrize("name", DESIGNS)
def test_differences_combine_the_limits_of_both_shares(name, r, to_r):
    """Newcombe's square and add of R's limits: nobody among x, 2 of 12 among y."""
    design = DESIGNS[name]
    to_r("d", FRAME.assign(hit=(FRAME["some"] == "yes").astype(float)))
    ids = "~psu" if "clusters" in name else "~1"
    r.r(f"design <- svydesign({ids}, weights = ~w, data = d)")
    if "replicates" in name:
        r.r("design <- as.svrepdesign(design, type = 'JK1', mse = TRUE)")
    r.r("p <- svyciprop(~hit, subset(design, side == 'y'), method = 'xlogit')")
    (low, high), p = np.array(r.r("attr(p, 'ci')")), r.r("as.numeric(p)")[0]
    reach = away(r, 13, r.r("degf(subset(design, side == 'x'))")[0])
    gap = difference(design, "some", statistic="proportion", between={"side": ("y", "x")}).set_index("category")
    expected = [p - np.hypot(p - low, reach), p + (high - p)]
    np.testing.assert_allclose(gap.loc["yes", LIMITS].astype(float), expected, rtol=1e-9)
    np.testing.assert_allclose(gap.loc["no", LIMITS].astype(float), [-expected[1], -expected[0]], rtol=1e-9)


def test_differences_of_two_shares_of_nobody_have_a_length(r):
    lengths = away(r, 13, 12), away(r, 12, 11)
    for gap in (
        difference(SIMPLE, "nobody", statistic="proportion", between={"side": ("x", "y")}),
        difference(SIMPLE, "income", statistic="poverty_rate", poverty_line=500, between={"side": ("x", "y")}),
    ):
        assert gap[["estimate", "se"]].to_numpy().tolist() == [[0, 0]]
        np.testing.assert_allclose(gap[LIMITS], [[-lengths[0], lengths[1]]], rtol=1e-12)
    apart = difference({"a": SIMPLE, "b": SIMPLE}, "nobody", statistic="proportion")
    np.testing.assert_allclose(apart[LIMITS], [[-away(r, 25, 24), away(r, 25, 24)]], rtol=1e-12)


def test_differences_of_other_shares_keep_their_t_intervals():
    many = FRAME.assign(some=["yes", "no", "no", "yes", "no"] * 5)
    gap = difference(SurveyDesign(many, weights="w"), "some", statistic="proportion", between={"side": ("x", "y")})
    np.testing.assert_allclose(gap["ci_high"] - gap["estimate"], gap["estimate"] - gap["ci_low"], rtol=1e-12)


def test_joint_estimates_have_the_limits_of_tables():
    joint = joint_estimates(CLUSTERS, "some", "side", "proportion")
    table = joint.table.set_index("name")
    alone = estimate(CLUSTERS, "some", "side", "proportion").set_index(["category", "side"])
    for category in ("yes", "no"):
        limits = alone.loc[(category, "x"), LIMITS].astype(float)
        np.testing.assert_allclose(table.loc[f"{category}:x", LIMITS].astype(float), limits, rtol=1e-12)
    assert (joint.contrast({"yes:y": 1}).table["ci_high"] > 0).all()  # functions of them are by the delta method


def test_data_sets_of_which_all_or_some_have_nobody(r):
    """The least number of records of any of them counts; a share that is 0 in some is no share of 0."""
    none = [FRAME.assign(some="no"), FRAME.assign(some="no").iloc[:20], FRAME.assign(some="no")]
    all_no = tabulate([SurveyDesign(frame, weights="w") for frame in none], "some", None, "proportion")
    np.testing.assert_allclose(all_no[LIMITS], [[1 - away(r, 20, 19), 1]], rtol=1e-12)
    mixed = [SurveyDesign(frame, weights="w") for frame in (none[0], FRAME, none[2])]
    yes = tabulate(mixed, "some", None, "proportion").set_index("category").loc["yes"]
    p, se = (2 / 25) / 3, yes["se"]
    assert yes["estimate"] == pytest.approx(p) and 0 < yes["ci_low"] < p < yes["ci_high"] < 1 and se > 0


def test_quality_marks_do_not_take_the_standard_error_of_0_for_precision():
    shares = pd.concat([
        estimate(SIMPLE, "some", "side", "proportion"), estimate(SIMPLE, by="side", statistic="count"),
    ])  # fmt: skip
    shares = shares[shares["side"] != "y"].assign(flag="")
    sure = shares["statistic"].eq("proportion") & shares["side"].eq("x")
    for symbols in SYMBOLS.values():
        found = symbols.ratings(shares)
        assert [each is None for each in found] == sure.tolist()
    known = pd.DataFrame([{"estimate": 9.0, "se": 0.0, "ci_low": 9.0, "ci_high": 9.0}])
    assert SYMBOLS["uk"].ratings(known)[0].name == "precise"  # a total that is known
