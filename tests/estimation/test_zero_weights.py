"""Weights that are 0, that the fpc says, or that are not there; categories that are missing or bool; against R."""

import numpy as np
import pandas as pd
import pytest
from test_taylor import CLUS1, CLUS2, STRAT, svydesign

from surveysynth import (
    FBS,
    InputError,
    Plan,
    PseudoPosterior,
    SurveyDesign,
    compare,
    correlations,
    datasets,
    difference,
    estimate,
    fit,
    identification_risk,
    independence_test,
    joint_estimates,
    laplace_tables,
    perturbed_histogram,
    regression,
    synthesize,
)

WEIGHTS = PseudoPosterior()
ROLES = {
    "apistrat": STRAT | {"fpc": "fpc"},
    "apiclus1": CLUS1 | {"fpc": "fpc"},
    "apiclus2": CLUS2 | {"fpc": ["fpc1", "fpc2"]},
}


def same(table, r, call, rtol=1e-9):
    theirs = [r.r(f"as.numeric(coef({call}))"), r.r(f"as.numeric(unlist(SE({call})))")]
    np.testing.assert_allclose(table[["estimate", "se"]].to_numpy(float).T, np.array(theirs), rtol=rtol)


def also_in_r(name, frame, r, to_r, *, replicates):
    """The design of a file, which R has as ``design``."""
    to_r("d", frame)
    r.r(f"design <- {svydesign(ROLES[name])}")
    design = SurveyDesign(frame, **ROLES[name])
    if replicates:
        r.r("design <- as.svrepdesign(design, type = 'JKn', mse = TRUE)")
        return design.replicates("JKn")
    return design


@pytest.fixture(params=[*ROLES, "replicates"])
def with_zeros(request, r, r_frame, to_r):
    """Some schools have weight 0: all of some PSUs, and parts of others."""
    name = "apistrat" if request.param == "replicates" else request.param
    frame = r_frame(name)
    gone = (frame["dnum"] % 5 == 0) | (frame["snum"] % 4 == 0)
    frame["pw"] = frame["pw"].where(~gone, 0.0)
    return also_in_r(name, frame, r, to_r, replicates=request.param == "replicates")


def test_zero_weights_as_in_r(with_zeros, r):
    design = with_zeros
    present = design.weights > 0
    for statistic in ("mean", "total"):
        table = estimate(design, "api00", statistic=statistic)
        same(table, r, f"svy{statistic}(~api00, design)")
        assert table["n"][0] == present.sum()
    if design.replication is None:
        assert design.degf == r.r("degf(design)")[0] == estimate(design, "api00")["df"][0]
    by = estimate(design, "api00", "sch.wide")
    same(by[by["sch.wide"] != "all"], r, "svyby(~api00, ~sch.wide, design, svymean)")
    q = estimate(design, "api00", statistic="quantile")
    r.r("q <- svyquantile(~api00, subset(design, weights(design, 'sampling') > 0), 0.5)[[1]]")
    np.testing.assert_allclose(q[["estimate", "ci_low", "ci_high"]], np.array(r.r("q[, 1:3, drop = FALSE]")))
    inside = "subset(design, weights(design, 'sampling') > 0)"
    same(regression(design, "api00 ~ ell + meals").table, r, f"svyglm(api00 ~ ell + meals, {inside})")
    test = independence_test(design, "sch.wide", "comp.imp")
    r.r(f"test <- svychisq(~sch.wide + comp.imp, {inside})")
    np.testing.assert_allclose(test.statistic, r.r("as.numeric(test$statistic)")[0], rtol=1e-8)


def test_joint_statistics_leave_zero_weights_out(with_zeros):
    design = with_zeros
    kept = design.frame["sch.wide"].where(design.weights > 0)
    other = SurveyDesign(design.frame.assign(wide=kept), **design.roles())
    other = other if design.replication is None else other.replicates("JKn")
    a, b = joint_estimates(design, "api00", "sch.wide"), joint_estimates(other, "api00", "wide", missing="drop")
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-12)
    assert np.isfinite(correlations(design, ["api00", "meals"]).table["se"]).all()


def test_zero_weights_that_are_calibrated(r, r_frame):
    """R cannot: it divides by them.  Their residuals do not enter, so known totals have no error, and others do."""
    frame = r_frame("apistrat")
    frame["pw"] = frame["pw"].where(frame["snum"] % 4 > 0, 0.0)
    known = dict(zip("EHM", map(float, r.r("xtabs(~stype, apipop)")), strict=True))
    design = SurveyDesign(frame, **ROLES["apistrat"])
    design = design.calibrate({"stype": known, "api99": float(r.r("sum(apipop$api99)")[0])}, "linear")
    assert ((design.weights == 0) == (frame["pw"] == 0)).all()
    table = estimate(design, ["api99", "api00"], statistic="total")
    np.testing.assert_allclose(table["estimate"][0], r.r("sum(apipop$api99)")[0], rtol=1e-12)
    assert table["se"][0] < 1e-6 * table["estimate"][0] and 0 < table["se"][1] < 0.01 * table["estimate"][1]


@pytest.mark.parametrize("name", ROLES)
def test_weights_from_the_fpc(name, r, r_frame, to_r):
    frame, roles = r_frame(name), {k: v for k, v in ROLES[name].items() if k != "weights"}
    to_r("d", frame)
    r.r(f"design <- {svydesign(ROLES[name]).replace('weights = ~pw, ', '')}")
    design = SurveyDesign.from_fpc(frame, **roles)
    np.testing.assert_allclose(design.weights, np.array(r.r("as.numeric(weights(design))")), rtol=1e-12)
    same(estimate(design, "api00", statistic="total"), r, "svytotal(~api00, design)")


def test_no_weights(r, r_frame, to_r):
    frame = r_frame("apiclus1")
    to_r("d", frame)
    r.r("design <- suppressWarnings(svydesign(id = ~dnum, data = d))")
    design = SurveyDesign.unweighted(frame, psu="dnum")
    same(estimate(design, "api00"), r, "svymean(~api00, design)")
    assert design.weights_name == "weight" and (design.weights == 1).all()


def test_categories_that_are_missing_or_bool(r, r_frame, to_r):
    frame = r_frame("apistrat")
    frame["some"] = frame["awards"].where(frame["snum"] % 3 > 0)
    frame["good"] = frame["api00"] > 700
    to_r("d", frame)
    r.r(f"design <- {svydesign(ROLES['apistrat'])}")
    design = SurveyDesign(frame, **ROLES["apistrat"])
    by = estimate(design, "api99", ["some", "good"], missing="drop")
    cells = by[(by["some"] != "all") & (by["good"].astype(str) != "all")].sort_values(["good", "some"])
    same(cells, r, "svyby(~api99, ~some + good, design, svymean)")
    same(by[(by["some"] == "all") & (by["good"].astype(str) == "all")], r, "svymean(~api99, design)")
    one = by[(by["some"] != "all") & (by["good"].astype(str) == "all")]
    same(one, r, "svyby(~api99, ~some, design, svymean)")
    assert one["n"].sum() == frame["some"].notna().sum()
    nullable = frame["good"].astype("boolean").where(frame["snum"] % 3 > 0)
    other = SurveyDesign(frame.assign(some=nullable), **ROLES["apistrat"])
    table = estimate(other, "api99", "some", missing="drop")
    assert table["some"].tolist() == [False, True, "all"]
    apart = difference(other, "api99", "some", between={"good": (True, False)}, missing="drop")
    assert apart["some"].tolist() == [False, True, "all"]


FRAME = pd.DataFrame({"w": [0.0, 1, 2, 3], "y": [1.0, 2, 3, 5], "g": ["a", "b", "b", "c"], "f": [0, 1, 1, 1], "N": 10})
REFUSED = [
    (lambda: SurveyDesign(FRAME.assign(w=-FRAME["w"]), weights="w"), "negative in 3 rows"),
    (lambda: SurveyDesign(FRAME.assign(w=0), weights="w"), "0 in all records"),
    (lambda: SurveyDesign(FRAME, probs="w"), "'w' is zero or negative in 1 row"),
    (lambda: SurveyDesign(FRAME, weights="w", pps="poisson"), "'w' is zero or negative in 1 row"),
    (lambda: zero().calibrate({"g": {"a": 1.0, "b": 2.0, "c": 4.0}}), "only records of weight 0: 1 row"),
    (lambda: zero().trim(high=2.0), "are not trimmed"),
    (lambda: FBS("y ~ g").prepare(zero()), "leave those of weight 0 out"),
    (lambda: fit(zero(), "y ~ g", epsilon=5.0, population_total=2.0, mechanism=WEIGHTS), "below the 3 records"),
    (lambda: fit(SurveyDesign(FRAME.assign(h=[1, 1, 2, 2]), weights="w", strata="h"), "y ~ g", epsilon=5.0,
                 population_total=9.0, mechanism=WEIGHTS), "once the 1 records of weight 0 are left out"),
    (lambda: SurveyDesign.unweighted(FRAME, weights="w"), "weights are made here"),
    (lambda: SurveyDesign.unweighted(FRAME.assign(weight=1)), "has a column 'weight'"),
    (lambda: SurveyDesign.from_fpc(FRAME.assign(c=range(4)), "N", psu=["f", "c"], lonely_psu="remove"), "every stage"),
    (lambda: estimate(SurveyDesign.unweighted(FRAME.assign(g=None)), "y", "g", missing="drop"), "in every record"),
    (lambda: estimate(SurveyDesign.unweighted(FRAME.assign(g=[None, *"abc"])), "y", "g"), "or set missing='drop'"),
]  # fmt: skip


def zero():
    return SurveyDesign(FRAME, weights="w")


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()


LEFT_OUT = "100 of 1,100 records have weight 0, stand for nobody and were left out"


@pytest.fixture(scope="module")
def some_of_weight_0():
    """A thousand records, and a hundred of weight 0 in a field and with a salary of their own, at the front."""
    frame = datasets.sdr_sample(seed=1).frame
    none = frame.head(100).assign(weight=0.0, salary=9e6, gender="nobody")
    return SurveyDesign(pd.concat([none, frame], ignore_index=True), weights="weight", strata="field")


def test_records_of_weight_0_are_not_synthesized(some_of_weight_0):
    model = FBS("salary ~ field + gender", prior="flat")
    with pytest.warns(UserWarning, match=LEFT_OUT):
        release = synthesize(some_of_weight_0, model, epsilon=10.8, m=2, mechanism=PseudoPosterior(), seed=1)
    assert any(LEFT_OUT in line for line in release.privacy.assumptions)
    assert {data.n for data in release.datasets} == {1000} and release.internal["rows"].min() == 100
    assert "nobody" not in set(release.datasets[0].frame["gender"])
    comparison = compare(some_of_weight_0, release, by="gender")
    whole = estimate(some_of_weight_0, "salary")
    cell = comparison.cells.query("gender == 'all' and statistic == 'mean'")
    np.testing.assert_allclose(cell[["estimate", "se"]], whole[["estimate", "se"]], rtol=1e-12)
    assert comparison.curves["value"].max() < 9e6
    risk = identification_risk(some_of_weight_0, release, known=["field"], value="salary", radius=0.1)
    assert risk.notna().sum() == 1000 and risk[:100].isna().all()


def test_noisy_tables_and_histograms_leave_weights_of_0_out(some_of_weight_0):
    with pytest.warns(UserWarning, match=LEFT_OUT):
        noisy = laplace_tables(some_of_weight_0, "salary", "gender", epsilon=5)
    assert LEFT_OUT in noisy.guarantee and noisy.table["gender"].unique().tolist() == ["female", "male", "all"]
    asked = {"epsilon": 5.0, "m": 2, "population_total": 1e5, "bounds": (0, 1e6), "weight_bound": 500.0}
    with pytest.warns(UserWarning, match=LEFT_OUT):
        release = perturbed_histogram(some_of_weight_0, "salary", **asked)
    assert release.datasets[0].n == 1000 and any(LEFT_OUT in line for line in release.privacy.assumptions)


def test_a_plan_says_what_is_left_out(some_of_weight_0):
    plan = Plan(some_of_weight_0, "salary ~ field + gender", epsilon=8, population_total=100_000, bounds=(1e4, 1e6))
    outlook = plan.check()
    assert "1,000 records" in str(outlook) and any(LEFT_OUT in line for line in outlook.warnings)
