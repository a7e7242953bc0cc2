"""Covariance matrices, contrasts, tests of independence, margins and moments against R's survey."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, svydesign

from surveysynth import (
    InputError,
    SurveyDesign,
    correlations,
    difference,
    estimate,
    independence_test,
    joint_estimates,
    population_covariances,
    predictive_margins,
    standard_deviations,
    with_replicates,
)
from surveysynth.estimation.association import independence_tests
from surveysynth.estimation.joint import jointly
from surveysynth.estimation.margins import margins
from surveysynth.estimation.moments import covariances

ROLES = {
    "apistrat": STRAT | {"fpc": "fpc"},
    "apiclus1": CLUS1 | {"fpc": "fpc"},
    "apiclus2": CLUS2 | {"fpc": ["fpc1", "fpc2"]},
    "replicates": None,  # the jackknife of apistrat
    "GREG": None,  # apistrat calibrated to numbers
}


@pytest.fixture(scope="module", params=ROLES)
def surveys(request, r, r_frame, to_r):
    """A design of ours, and R's as ``design``."""
    roles = ROLES[request.param]
    frame = r_frame(request.param if roles else "apistrat")
    to_r("d", frame)
    r.r(f"design <- {svydesign(roles or ROLES['apistrat'])}")
    design = SurveyDesign(frame, **(roles or ROLES["apistrat"]))
    if request.param == "replicates":
        r.r("design <- as.svrepdesign(design, type = 'JKn', mse = TRUE)")
        return design.replicates("JKn")
    if request.param == "GREG":
        r.r("""design <- calibrate(design, ~stype + api99, colSums(model.matrix(~stype + api99, apipop)))""")
        known = dict(zip("EHM", map(float, r.r("xtabs(~stype, apipop)")), strict=True))
        return design.calibrate({"stype": known, "api99": float(r.r("sum(apipop$api99)")[0])}, "linear")
    return design


def same(joint, r, estimates, variance, rtol=1e-9):
    """Against expressions of R for the estimates and their covariance matrix."""
    V = np.atleast_2d(np.array(r.r(f"as.matrix({variance})")))
    np.testing.assert_allclose(joint.table["estimate"], np.array(r.r(f"as.numeric({estimates})")), rtol=rtol)
    se = np.sqrt(V.diagonal())
    np.testing.assert_allclose(joint.covariance / np.outer(se, se), V / np.outer(se, se), rtol=0, atol=rtol)


def test_covariance_matrices_equal_r(surveys, r):
    r.r("s <- svymean(~api00 + not.hsg + meals, design)")
    same(joint_estimates(surveys, ["api00", "not.hsg", "meals"]), r, "coef(s)", "vcov(s)")
    r.r("s <- svymean(~awards, design)")
    same(joint_estimates(surveys, "awards", statistic="proportion"), r, "coef(s)", "vcov(s)")
    r.r("s <- svytotal(~api.stu + not.hsg, design)")
    same(joint_estimates(surveys, ["api.stu", "not.hsg"], statistic="total"), r, "coef(s)", "vcov(s)")


def test_covariance_of_cells_equals_svyby(surveys, r):
    """R's svyby(covmat = TRUE) fails on calibrated designs: there, totals of the cells' values."""
    if surveys.calibration.auxiliary:
        r.r("""s <- svytotal(~I(api00 * (sch.wide == "No")) + I(api00 * (sch.wide == "Yes")), design)""")
    else:
        r.r("s <- svyby(~api00, ~sch.wide, design, svytotal, covmat = TRUE)")
    by = joint_estimates(surveys, "api00", "sch.wide", "total")
    same(by, r, "coef(s)", "vcov(s)")
    assert by.names == ("No", "Yes")
    if not surveys.calibration.auxiliary:
        r.r("s <- svyby(~api00, ~sch.wide + comp.imp, design, svymean, covmat = TRUE)")
        cells = joint_estimates(surveys, "api00", ["comp.imp", "sch.wide"])
        same(cells, r, "coef(s)", "vcov(s)")
        assert "Yes:Yes" in cells.names


def test_contrasts_equal_svycontrast(surveys, r):
    r.r("""s <- svymean(~api00 + meals, design)
           k <- svycontrast(s, list(ratio = quote(meals / api00), log = quote(log(api00) - exp(meals / 900)),
                                    less = quote(api00 - meals)))""")
    ours = joint_estimates(surveys, ["api00", "meals"]).contrast(
        ratio=lambda q: q["meals"] / q["api00"],
        log=lambda q: np.log(q["api00"]) - np.exp(q["meals"] / 900),
        less={"api00": 1, "meals": -1},
    )
    same(ours, r, "coef(k)", "vcov(k)")
    for level, df in ((0.9, np.inf), (0.99, 7)):
        theirs = np.array(r.r(f"confint(k, level = {level}, df = {'Inf' if df == np.inf else df})"))
        np.testing.assert_allclose(ours.intervals(level, df)[["ci_low", "ci_high"]], theirs, rtol=1e-8, atol=1e-8)
    apart = difference(surveys, "api00", between={"sch.wide": ("Yes", "No")})
    less = joint_estimates(surveys, "api00", "sch.wide").contrast({"Yes": 1, "No": -1})
    np.testing.assert_allclose(apart["se"], less.table["se"], rtol=1e-9)


@pytest.mark.parametrize("statistic", ["F", "chi-square", "Wald", "adjusted Wald"])
@pytest.mark.parametrize("columns", [("sch.wide", "comp.imp"), ("stype", "awards")])
def test_independence_equals_svychisq(surveys, columns, statistic, r):
    theirs = {"F": "F", "chi-square": "Chisq", "Wald": "Wald", "adjusted Wald": "adjWald"}[statistic]
    r.r(f"test <- svychisq(~{columns[0]} + {columns[1]}, design, statistic = '{theirs}')")
    ours = independence_test(surveys, *columns, statistic)
    np.testing.assert_allclose(ours.statistic, r.r("as.numeric(test$statistic)")[0], rtol=1e-8)
    parameters = [ours.df] if statistic == "chi-square" else [ours.df, ours.ddf]
    np.testing.assert_allclose(parameters, np.array(r.r("as.numeric(test$parameter)")), rtol=1e-8)
    np.testing.assert_allclose(ours.p, r.r("as.numeric(test$p.value)")[0], rtol=1e-7, atol=1e-14)


def test_independence_in_equal_data_sets_is_that_of_one_of_them(surveys, r):
    r.r("test <- svychisq(~stype + awards, design, statistic = 'Wald')")
    ours = independence_tests([surveys] * 3, "stype", "awards")
    np.testing.assert_allclose(ours.statistic, r.r("as.numeric(test$statistic)")[0], rtol=1e-8)
    np.testing.assert_allclose(ours.p, r.r("as.numeric(test$p.value)")[0], rtol=1e-7, atol=1e-14)
    assert "independence in synthetic data sets" in repr(ours)


@pytest.mark.slow
@pytest.mark.parametrize(("slope", "least", "most"), [(0.0, 0.03, 0.075), (0.8, 0.72, 0.9)])
def test_independence_is_rejected_in_five_percent_of_synthetic_files_where_it_holds(slope, least, most):
    """Categories are redrawn from Dirichlet posteriors of their shares in each group of one column, which is public.

    At the slope .8 Pearson's noncentrality is 15.1, over 1 + 1/m 12.1, with 4 degrees of freedom: a power of .79.
    """
    rng, p = np.random.default_rng(11), []
    for _ in range(400):
        group = np.repeat(["a", "b", "c"], [150, 200, 250])
        up = expit(slope * (group == "c"))  # 400 runs: 5% has a standard error of 1.1%
        y = np.where(rng.random(600) < 0.3, "z", np.where(rng.random(600) < up, "x", "y"))
        files = []
        for _ in range(4):
            new = y.copy()
            for level in "abc":
                here = group == level
                counts = [(y[here] == value).sum() for value in "xyz"]
                new[here] = rng.choice(list("xyz"), here.sum(), p=rng.dirichlet(np.array(counts) + 0.5))
            files.append(SurveyDesign(pd.DataFrame({"g": group, "y": new, "w": 7.0}), weights="w"))
        p.append(independence_tests(files, "g", "y").p)
    assert least < np.mean(np.array(p) < 0.05) < most


@pytest.mark.parametrize("alike", [True, False])
def test_independence_of_a_release_has_categories_that_one_file_lacks(alike):
    frame = pd.DataFrame({"g": ["a", "b"] * 60, "y": ["x", "x", "y", "y", "z", "z"] * 20, "w": 3.0})
    lacks = frame.assign(y=frame["y"].replace("z", "x"))
    files = [SurveyDesign(f, weights="w") for f in (frame, lacks, frame)]
    assert independence_tests(files, "g", "y").df == 2
    with pytest.raises(InputError, match="merge categories"):
        psu = np.arange(120) % 2 if alike else np.arange(120) // 60  # alike: without any variance but rounding
        independence_tests([SurveyDesign(frame.assign(psu=psu), weights="w", psu="psu")] * 2, "y", "g")


@pytest.mark.parametrize("statistic", ["F", "Wald"])
def test_independence_of_records_that_have_both(statistic, r, r_frame, to_r):
    frame = r_frame("nhanes")
    to_r("d", frame)
    r.r(f"design <- {svydesign(NHANES)}; test <- svychisq(~HI_CHOL + race, design, statistic = '{statistic}')")
    ours = independence_test(SurveyDesign(frame, **NHANES), "HI_CHOL", "race", statistic, missing="drop")
    np.testing.assert_allclose(ours.statistic, r.r("as.numeric(test$statistic)")[0], rtol=1e-8)
    np.testing.assert_allclose(ours.p, r.r("as.numeric(test$p.value)")[0], rtol=1e-7)
    assert "test of independence: F(" in repr(ours)


@pytest.mark.parametrize(("formula", "family"), [
    ("api00 ~ ell + meals", "gaussian"), ("comp ~ api99", "binomial"), ("enroll ~ meals", "poisson"),
])  # fmt: skip
def test_predictive_margins_equal_svypredmeans(surveys, formula, family, r):
    frame = surveys.frame.assign(comp=(surveys.column("comp.imp") == "Yes") * 1)
    if surveys.replication is not None or (frame["enroll"].isna().any() and "enroll" in formula):
        return  # where R's svypredmeans fails
    design = surveys._with(_frame=frame)
    in_r = {"gaussian": "gaussian()", "binomial": "quasibinomial()", "poisson": "quasipoisson()"}[family]
    r.r(f"""
        design2 <- update(design, comp = as.numeric(comp.imp == "Yes"), type = factor(stype))
        margin <- svypredmeans(svyglm({formula}, design2, family = {in_r}, control = list(epsilon = 1e-14)), ~type)
        o <- order(names(coef(margin)))
    """)
    ours = predictive_margins(design, formula, "stype", family)
    same(ours, r, "coef(margin)[o]", "vcov(margin)[o, o]", rtol=1e-7)
    assert ours.names == ("E", "H", "M")


def test_margins_without_predictors_are_means(surveys):
    """Replicates, too, where R's svypredmeans fails."""
    ours, means = predictive_margins(surveys, "api00 ~ 1", "awards"), joint_estimates(surveys, "api00", "awards")
    np.testing.assert_allclose(ours.table["estimate"], means.table["estimate"], rtol=1e-10)
    np.testing.assert_allclose(ours.covariance, means.covariance, rtol=1e-8, atol=1e-8)


def test_variances_and_covariances_equal_svyvar(surveys, r):
    names = ["api00", "api99", "meals"]
    r.r(f"s <- svyvar(~{' + '.join(names)}, design); k <- c(1, 2, 3, 5, 6, 9)")
    same(population_covariances(surveys, names), r, "as.matrix(s)[k]", "attr(s, 'var')[k, k]", rtol=1e-8)
    r.r("s <- svyvar(~api00, design)")
    one = population_covariances(surveys, "api00")
    np.testing.assert_allclose(one.table["se"][0], r.r("as.numeric(sqrt(attr(s, 'var')))")[0], rtol=1e-8)
    sd = standard_deviations(surveys, names).table
    variance = population_covariances(surveys, names).table.iloc[[0, 3, 5]]
    np.testing.assert_allclose(sd["estimate"] ** 2, variance["estimate"], rtol=1e-12)
    np.testing.assert_allclose(sd["se"] * 2 * sd["estimate"], variance["se"], rtol=1e-10)


def test_correlations_equal_svycontrast_of_svyvar(surveys, r):
    r.r("""s <- svyvar(~api00 + meals, design)
           flat <- as.numeric(as.matrix(s)); names(flat) <- c("a", "ab", "ba", "b")
           attr(flat, "var") <- attr(s, "var"); class(flat) <- "svystat"
           k <- svycontrast(flat, quote(ab / sqrt(a * b)))""")
    same(correlations(surveys, ["api00", "meals"]), r, "coef(k)", "vcov(k)", rtol=1e-8)


def test_with_replicates_equals_r(r, r_frame, to_r):
    frame = r_frame("apistrat")
    to_r("d", frame)
    r.r(f"""design <- as.svrepdesign({svydesign(ROLES["apistrat"])}, type = "JKn", mse = TRUE)
            theta <- withReplicates(design, function(w, d) c(sum(w * d$api00) / sum(w * d$api99), sum(w)))""")
    design = SurveyDesign(frame, **ROLES["apistrat"]).replicates("JKn")
    ours = with_replicates(design, lambda d, w: [w @ d["api00"] / (w @ d["api99"]), w.sum()], ["ratio", "N"])
    np.testing.assert_allclose(ours.table["estimate"], np.array(r.r("as.numeric(coef(theta))")), rtol=1e-12)
    np.testing.assert_allclose(ours.covariance, np.array(r.r("unname(vcov(theta))")), rtol=1e-9, atol=1e-12)
    alone = with_replicates(design, lambda d, w: np.average(d["api00"], weights=w))
    np.testing.assert_allclose(alone.table["se"], estimate(design, "api00")["se"], rtol=1e-10)


def sets(seed, m, n=120):
    rng = np.random.default_rng(seed)
    g, psu = rng.choice(list("abc"), n), np.arange(n) // 4
    for _ in range(m):
        x = rng.gamma(3, 1, n)
        frame = pd.DataFrame({"x": x, "y": x + rng.normal(5, 1, n), "g": g, "w": rng.uniform(1, 3, n), "psu": psu})
        yield SurveyDesign(frame, weights="w", psu="psu")


def test_synthetic_data_sets_are_combined_function_by_function():
    designs = list(sets(1, 4))
    many, one = jointly(designs, "y", "g", "mean"), [joint_estimates(d, "y", "g") for d in designs]
    ratio = many.contrast(lambda q: q["a"] / q["b"]).table
    each = [j.contrast(lambda q: q["a"] / q["b"]).table for j in one]
    np.testing.assert_allclose(ratio["estimate"], np.mean([e["estimate"] for e in each]), rtol=1e-12)
    u, b = np.mean([e["se"] ** 2 for e in each]), np.var([e["estimate"] for e in each], ddof=1) / 4
    np.testing.assert_allclose(ratio["se"] ** 2, u + b, rtol=1e-12)
    np.testing.assert_allclose(ratio["df"], min(3 * (1 + u / b) ** 2, one[0].degf), rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(many.covariance)), many.table["se"], rtol=1e-12)
    for made in (margins(designs, "y ~ x", "g"), covariances(designs, ["x", "y"])):
        assert made.m == 4 and np.isfinite(made.table[["estimate", "se"]].to_numpy()).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_test_of_a_difference_is_its_t_squared(seed):
    joint = joint_estimates(next(sets(seed, 1)), "y", "g")
    apart = joint.contrast(less={"a": 1, "b": -1})
    row = apart.table.iloc[0]
    np.testing.assert_allclose(apart.test().statistic, (row["estimate"] / row["se"]) ** 2, rtol=1e-9)
    assert joint.test(null=joint.estimates[0]).statistic == pytest.approx(0, abs=1e-12)


def test_refusals():
    design = next(sets(1, 1))
    joint = joint_estimates(design, "y", "g")
    shares = joint_estimates(design, "g", statistic="proportion")
    frame = design.frame.assign(z=np.where(design.column("g") == "a", np.nan, 1.0), one="secret")
    other = SurveyDesign(frame, weights="w", psu="psu")
    for call, message in (
        (lambda: shares.test(), "determine each other"),
        (lambda: joint.test("d"), "no estimate 'd'; there are a, b, c"),
        (lambda: joint.contrast(), "give a contrast"),
        (lambda: joint.contrast({}), "a mapping of names to coefficients"),
        (lambda: joint.contrast(lambda q: q["d"]), r"failed \(KeyError\); it takes a Series with a, b, c"),
        (lambda: joint.contrast(lambda q: np.log(q["a"] - q["a"])), "not finite"),
        (lambda: joint.intervals(95), "level must be a number between 0 and 1"),
        (lambda: joint.intervals(df=-1), "df must be a positive number"),
        (lambda: joint_estimates(design, "y", statistic="quantile"), "quantiles have no linearized values"),
        (lambda: joint_estimates(other, "z", "g", missing="drop"), "no estimate of a: no record"),
        (lambda: with_replicates(design, len), "no replicate weights"),
        (lambda: with_replicates(design.replicates("JK1"), lambda d, w: 1 / 0), r"failed \(ZeroDivisionError\)"),
        (lambda: with_replicates(design.replicates("JK1"), lambda d, w: 1.0, ["a", "b"]), "2 names for 1"),
        (lambda: independence_test(other, "g", "one"), "'one' has one category"),
        (lambda: independence_test(other, "g", "z"), r"column 'z' is missing in \d+ rows"),
        (lambda: independence_test(other, "g", "psu", "Wald"), "singular"),
        (lambda: predictive_margins(design, "y ~ x + g", "g"), "has 'g' already"),
        (lambda: population_covariances(design, ["x", "x"]), "names a column twice"),
        (lambda: correlations(design, ["x"]), "two columns"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "secret" not in str(caught.value)
