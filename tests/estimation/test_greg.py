"""Calibration to totals of numbers, bounds, trimmed weights and calibrated replicates, against R's survey."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_taylor import CLUS1, CLUS2, STRAT, svydesign

from surveysynth import InputError, SurveyDesign, estimate, regression

ROLES = {
    "apistrat": STRAT | {"fpc": "fpc"},
    "apiclus1": CLUS1 | {"fpc": "fpc"},
    "apiclus2": CLUS2 | {"fpc": ["fpc1", "fpc2"]},
    "apisrs": {"weights": "pw", "fpc": "fpc"},
}
SCHOOLS = 6194
HOW = {
    "GREG": ("linear", None),
    "linear within bounds": ("linear", (0.6, 1.6)),
    "raking": ("raking", None),
    "raking within bounds": ("raking", (0.6, 1.6)),
    "logit": ("logit", (0.5, 2.2)),
}


@pytest.fixture(scope="module", params=ROLES)
def surveys(request, r, r_frame, to_r):
    frame = r_frame(request.param)
    to_r("d", frame)
    r.r(f"design <- {svydesign(ROLES[request.param])}")
    return SurveyDesign(frame, **ROLES[request.param])


@pytest.fixture(scope="module")
def known(r):
    """Schools by type, and the sums of two numbers, of California."""
    of = dict(zip("EHM", map(float, r.r("xtabs(~stype, apipop)")), strict=True))
    return {"stype": of, "api99": r.r("sum(apipop$api99)")[0]}


def calibrate_in_r(r, distance, bounds, formula="~stype + api99", design="design"):
    limits = "c(-Inf, Inf)" if bounds is None else f"c{bounds}"
    r.r(f"""
        population <- colSums(model.matrix({formula}, apipop))
        calibrated <- calibrate({design}, {formula}, population, calfun = "{distance}",
                                bounds = {limits}, epsilon = 1e-13, maxit = 500, compress = FALSE)
    """)


def same(ours, r, call, rtol=1e-9):
    """A table of one row against coef() and SE() of a call in R."""
    theirs = [r.r(f"as.numeric(coef({call}))"), r.r(f"as.numeric(SE({call}))")]
    np.testing.assert_allclose(ours[["estimate", "se"]].to_numpy().T, np.array(theirs), rtol=rtol)


@pytest.mark.parametrize("how", HOW)
def test_weights_and_standard_errors_equal_r(surveys, known, r, how):
    distance, bounds = HOW[how]
    calibrate_in_r(r, distance, bounds)
    design = surveys.calibrate(known, distance, bounds)
    np.testing.assert_allclose(design.weights, np.array(r.r("as.numeric(weights(calibrated))")), rtol=1e-10)
    same(estimate(design, "enroll", missing="drop"), r, "svymean(~enroll, calibrated, na.rm = TRUE)")
    same(estimate(design, "api00", statistic="total"), r, "svytotal(~api00, calibrated)")
    by = estimate(design, "api00", "sch.wide")
    same(by[by["sch.wide"] != "all"], r, "svyby(~api00, ~sch.wide, calibrated, svymean)")
    same(estimate(design, "api00", statistic="ratio", denominator="api99"), r, "svyratio(~api00, ~api99, calibrated)")
    fit = regression(design, "api00 ~ ell + meals").table
    same(fit, r, "svyglm(api00 ~ ell + meals, calibrated)")
    assert estimate(design, "api99", statistic="total")["se"][0] < 1e-6 * known["api99"]
    g = design.weights / design.base_weights
    if bounds is not None:
        assert bounds[0] <= g.min() and g.max() <= bounds[1]


def test_a_number_alone_and_with_the_size_of_the_population(surveys, known, r):
    for totals, formula in (({"api99": known["api99"]}, "~api99 - 1"),
                            ({(): SCHOOLS, "api99": known["api99"]}, "~api99")):  # fmt: skip
        calibrate_in_r(r, "linear", None, formula)
        design = surveys.calibrate(totals, "linear")
        np.testing.assert_allclose(design.weights, np.array(r.r("as.numeric(weights(calibrated))")), rtol=1e-11)
        same(estimate(design, "api00"), r, "svymean(~api00, calibrated)")


@pytest.mark.parametrize("how", ["GREG", "raking", "logit"])
@pytest.mark.parametrize("kind", ["jackknife", "bootstrap"])
def test_replicates_are_calibrated_each_as_in_r(surveys, known, r, r_frame, how, kind):
    distance, bounds = HOW[how]
    bounds = bounds and (0.1, 10.0)  # some replicates are far from the totals
    stratified = surveys.strata_name is not None
    type_ = "bootstrap" if kind == "bootstrap" else "JKn" if stratified else "JK1"
    fpc = {role: names for role, names in surveys.roles().items() if role != "fpc"} if kind == "bootstrap" else None
    if kind == "jackknife" and len(surveys.stages) > 1:
        return  # which the jackknife leaves out, here and in R
    r.r(f"""set.seed(3)
        d <- design$variables
        replicated <- as.svrepdesign({svydesign(fpc) if fpc else "design"}, type = "{type_}", mse = TRUE,
                                   compress = FALSE)
        replicates <- as.data.frame(matrix(as.numeric(weights(replicated, "analysis")), nrow(d)))
        names(replicates) <- paste0("r", seq_along(replicates))
    """)  # fmt: skip
    replicates = r_frame("replicates")
    frame = pd.concat([surveys.frame, replicates], axis=1)
    design = SurveyDesign(
        frame, weights="pw", replicate_weights=list(replicates), scale=r.r("replicated$scale")[0],
        rscales=list(r.r("replicated$rscales")),
    )  # fmt: skip
    totals = known
    formula = "~stype + api99"
    if kind == "bootstrap" or not stratified:  # replicates may lack a type of school
        totals, formula = {(): SCHOOLS, "api99": known["api99"]}, "~api99"
    calibrate_in_r(r, distance, bounds, formula, "replicated")
    design = design.calibrate(totals, distance, bounds)
    r.r("w <- weights(calibrated, 'analysis')")
    ours = design.replication.factors(0, design.replication.R) * design.weights[:, None]
    np.testing.assert_allclose(ours, np.array(r.r("matrix(as.numeric(w), nrow(d))")), rtol=1e-8, atol=1e-10)
    same(estimate(design, "api00"), r, "svymean(~api00, calibrated)", rtol=1e-8)
    same(estimate(design, "api.stu", statistic="total"), r, "svytotal(~api.stu, calibrated)", rtol=1e-8)
    by = estimate(design, "api00", "sch.wide")
    same(by[by["sch.wide"] != "all"], r, "svyby(~api00, ~sch.wide, calibrated, svymean)", rtol=1e-8)
    if (ours >= 0).all():  # R's glm leaves records with negative weights out
        same(regression(design, "api00 ~ ell").table, r, "svyglm(api00 ~ ell, calibrated)", rtol=1e-7)
    assert design.degf == r.r("degf(calibrated)")[0]
    again = pickle.loads(pickle.dumps(design))
    pd.testing.assert_frame_equal(estimate(again, "api00", "sch.wide"), by)


def test_own_replicates_that_are_calibrated(surveys, known, r):
    """The jackknife is made here, and by R."""
    if len(surveys.stages) > 1:
        return  # which the jackknife leaves out
    kind = "JKn" if surveys.strata_name else "JK1"
    calibrate_in_r(r, "linear", None, "~api99", f"as.svrepdesign(design, type = '{kind}', mse = TRUE)")
    design = surveys.replicates(kind).calibrate({(): SCHOOLS, "api99": known["api99"]}, "linear")
    same(estimate(design, "api00", statistic="total"), r, "svytotal(~api00, calibrated)", rtol=1e-8)
    assert estimate(design, "api99", statistic="total")["se"][0] < 1e-6 * known["api99"]


@pytest.mark.parametrize("strict", [False, True])
def test_trimmed_weights_as_in_r(surveys, known, r, strict):
    """R's example of trimWeights: calibrated weights that are trimmed; and weights that vary without that."""
    calibrate_in_r(r, "linear", None)
    calibrated = surveys.calibrate(known, "linear")
    low, high = (round(float(limit), 3) for limit in np.quantile(calibrated.weights, [0.04, 0.95]))
    r.r(f"trimmed <- trimWeights(calibrated, lower = {low}, upper = {high}, strict = {str(strict).upper()})")
    design = calibrated.trim(low, high, strict=strict)
    np.testing.assert_allclose(design.weights, np.array(r.r("as.numeric(weights(trimmed))")), rtol=1e-12)
    same(estimate(design, "api00"), r, "svymean(~api00, trimmed)")
    same(estimate(design, "api99", statistic="total"), r, "svytotal(~api99, trimmed)")
    assert design.weights.sum() == pytest.approx(SCHOOLS, rel=1e-12)
    again = SurveyDesign(design.frame, **design.roles())
    pd.testing.assert_frame_equal(estimate(again, "api00"), estimate(design, "api00"))


def test_weights_that_are_trimmed_first(r_frame, to_r, r):
    frame = r_frame("apistrat")
    to_r("d", frame)
    r.r(f"trimmed <- trimWeights({svydesign(ROLES['apistrat'])}, upper = 40)")
    design = SurveyDesign(frame, **ROLES["apistrat"]).trim(high=40.0)
    same(estimate(design, "api00"), r, "svymean(~api00, trimmed)", rtol=1e-12)
    assert design.calibrate({"stype": {"E": 4421.0, "M": 1018.0, "H": 755.0}}).weights.sum() == pytest.approx(SCHOOLS)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(HOW)), st.sampled_from([1e-6, 1.0, 1e9]))
def test_units_of_the_auxiliary_do_not_matter(seed, how, unit):
    rng = np.random.default_rng(seed)
    n = 80
    frame = pd.DataFrame({"w": rng.uniform(1, 5, n), "x": rng.gamma(3, 1, n), "y": rng.normal(0, 1, n)})
    frame["g"] = np.arange(n) % 3
    N = frame.groupby("g")["w"].sum() * rng.uniform(0.9, 1.1, 3)
    t = frame["x"] @ frame["w"] * N.sum() / frame["w"].sum() * rng.uniform(0.95, 1.05)
    plain, other = (
        SurveyDesign(frame.assign(x=frame["x"] * u), weights="w").calibrate({"g": N.to_dict(), "x": t * u}, *HOW[how])
        for u in (1.0, unit)
    )
    np.testing.assert_allclose(plain.weights, other.weights, rtol=1e-9)
    one, two = (estimate(d, "y", "g", "total")[["estimate", "se"]].to_numpy() for d in (plain, other))
    np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)


FRAME = pd.DataFrame({"w": 1.0, "x": [1.0, 2, 3, 10], "g": list("aabb"), "y": [1.0, 2, 3, np.nan]})
REFUSED = [
    ({"x": 16.0}, ("logit",), "needs bounds="),
    ({"x": 16.0}, ("linear", (1.1, 2.0)), "with 0 <= low < 1 < high"),
    ({"x": 16.0}, ("linear", 2.0), "bounds must be two numbers"),
    ({"x": 16.0}, ("quadratic",), "'quadratic' is not one of raking, linear, logit"),
    ({"x": 64.0}, ("raking", (0.5, 2.0)), "no weights with distance='raking' meet the totals"),
    ({(): 4.0, "x": 4.5}, ("linear",), r"zero or negative in 1 row \(row numbers 4;"),
    ({(): 4.0, "x": 3.5}, ("raking",), "meet the totals"),
    ({"y": 6.0}, (), r"column 'y' is not finite in 1 row|auxiliary column 'y' is missing in 1 row"),
    ({"g": 6.0}, (), "column 'g' is not a number in 4 rows .* must map each category"),
    ({"h": 6.0}, (), "no column 'h'"),
    ({"x": float("nan")}, (), "must map each category to its total, or be one number"),
    ({(): -4.0}, (), "positive, finite"),
    ({(): 4.0, "g": {"a": 1.0, "b": 2.0}}, (), "different populations"),
]


@pytest.mark.parametrize(("totals", "how", "message"), REFUSED)
def test_refusals(totals, how, message):
    with pytest.raises(InputError, match=message) as caught:
        SurveyDesign(FRAME, weights="w").calibrate(totals, *how)
    assert "10" not in str(caught.value)


def test_refusals_of_replicates_and_trimming():
    frame = FRAME.assign(h=list("aabb"), c=[1, 2, 3, 4])
    with pytest.raises(InputError, match="replicates cannot meet the totals"):
        SurveyDesign(frame, weights="w").replicates("JK1").calibrate({"c": {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}})
    design = SurveyDesign(frame.assign(w=[1.0, 1, 1, 5]), weights="w")
    with pytest.raises(InputError, match="between low and high"):
        design.trim(3.0)
    with pytest.raises(InputError, match="must be numbers"):
        design.trim("1")
    with pytest.raises(InputError, match="trim the design before"):
        design.replicates("JK1").trim(high=3.0)
    with pytest.raises(InputError, match="every weight is outside"):
        SurveyDesign(frame.assign(w=[1.0, 1, 3, 3]), weights="w").trim(1.9, 2.1)
    assert design.trim(high=3.0).weights.tolist() == pytest.approx([5 / 3] * 3 + [3.0])
