"""Families, offsets, tests of terms and predictions against R's svyglm, regTermTest and predict."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_regression import name_in_r
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, svydesign

from surveysynth import InputError, SurveyDesign, likelihood_ratio_test, regression
from surveysynth.estimation.regression import regressions

FAMILY = {
    "gaussian": "gaussian()",
    "binomial": "quasibinomial()",
    "probit": 'quasibinomial(link = "probit")',
    "cloglog": 'quasibinomial(link = "cloglog")',
    "poisson": "quasipoisson()",
    "gamma": 'Gamma(link = "log")',
}
# name: R's data set, roles, formula, family, offset
FITS = {
    "counts": ("apistrat", STRAT | {"fpc": "fpc"}, "api.stu ~ ell + meals + stype", "poisson", None),
    "counts, exposure": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "api.stu ~ ell + stype", "poisson", "log(enroll)"),
    "counts in two stages": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "not.hsg ~ meals + ell", "poisson", None),
    "amounts": ("apistrat", STRAT | {"fpc": "fpc"}, "enroll ~ ell + meals * stype", "gamma", None),
    "amounts in clusters": ("apiclus1", CLUS1, "enroll ~ meals", "gamma", "log(`api.stu`)"),
    "linear, offset": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00 ~ ell + stype", "gaussian", "api99"),
    "logistic, offset": ("apistrat", STRAT, "sch.wide ~ ell + stype", "binomial", "meals / 100"),
    "probit": ("apistrat", STRAT | {"fpc": "fpc"}, "sch.wide ~ ell + meals + stype", "probit", None),
    "probit, offset": ("apiclus2", CLUS2, "comp.imp ~ ell + stype", "probit", "meals / 100"),
    "cloglog": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "sch.wide ~ ell + meals", "cloglog", None),
    "nhanes, cloglog": ("nhanes", NHANES, "HI_CHOL ~ C(race) + agecat", "cloglog", None),
    "nhanes": ("nhanes", NHANES, "HI_CHOL ~ C(race) + agecat + RIAGENDR", "poisson", None),
}


@pytest.fixture(scope="module", params=FITS)
def fits(request, r, r_frame, to_r):
    """A fit of ours, and R's as ``fit``, on a linearized design and on one with replicates."""
    dataset, roles, formula, family, offset = FITS[request.param]
    frame = r_frame(dataset)
    to_r("d", frame)
    if family in ("binomial", "probit", "cloglog"):
        r.r("d <- as.data.frame(lapply(d, function(x) if (is.character(x)) factor(x) else x))")
    in_r = formula.replace("C(", "factor(") + (f" + offset({offset})" if offset else "")
    r.r(f"""design <- {svydesign(roles)}
            fit <- svyglm({in_r}, design, family = {FAMILY[family]}, control = list(epsilon = 1e-15, maxit = 100))""")
    ours = regression(SurveyDesign(frame, **roles), formula, family, offset=offset, missing="drop")
    return ours, frame, request.param


def in_order(ours, names):
    at = [[name_in_r(name) for name in ours.table["term"]].index(name) for name in names]
    return ours.table.iloc[at], ours.covariance.to_numpy()[np.ix_(at, at)]


def test_coefficients_and_covariance_equal_svyglm(fits, r):
    table, V = in_order(fits[0], list(r.r("names(coef(fit))")))
    se = np.array(r.r("as.numeric(SE(fit))"))
    np.testing.assert_allclose(table["estimate"] / se, np.array(r.r("as.numeric(coef(fit))")) / se, atol=1e-8)
    np.testing.assert_allclose(V / np.outer(se, se), np.array(r.r("unname(vcov(fit))")) / np.outer(se, se), atol=1e-8)
    assert (table["df"] == r.r("fit$df.residual")[0]).all()
    for level, df in ((0.9, None), (0.95, np.inf), (0.99, 12)):
        limits = fits[0].coefficients.intervals(level, df)
        ddf = "NULL" if df is None else "Inf" if df == np.inf else df
        theirs = np.array(r.r(f"confint(fit, level = {level}, ddf = {ddf})"))
        at = [list(limits["name"]).index(name) for name in table["term"]]
        np.testing.assert_allclose(limits.iloc[at][["ci_low", "ci_high"]], theirs, rtol=1e-7, atol=1e-7)


def test_terms_are_tested_as_by_regtermtest(fits, r):
    ours = fits[0]
    for term in [*dict.fromkeys(ours._model.terms)][1:]:
        formula = "~" + term.replace("C(", "factor(")
        test = ours.test(term)
        r.r(f"test <- regTermTest(fit, {formula}, method = 'Wald')")
        np.testing.assert_allclose(test.statistic, r.r("as.numeric(test$Ftest)")[0], rtol=1e-6)
        assert (test.df, test.ddf) == (r.r("test$df")[0], r.r("test$ddf")[0])
        np.testing.assert_allclose(test.p, r.r("as.numeric(test$p)")[0], rtol=1e-5, atol=1e-14)
        r.r(f"test <- regTermTest(fit, {formula}, method = 'WorkingWald')")
        # R's saddlepoint is found to 1e-8 of its argument
        np.testing.assert_allclose(
            ours.test(term, working=True).p, r.r("as.numeric(test$p)")[0], rtol=1e-4, atol=1e-12
        )  # fmt: skip


@pytest.mark.parametrize(("formula", "family"), [
    ("wide ~ ell + stype + meals", "binomial"), ("api00 ~ ell * stype", "gaussian"),
    ("enroll ~ meals + stype", "gamma"), ("api.stu ~ meals + stype + ell", "poisson"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["strata", "replicates"])
def test_likelihood_ratios_equal_regtermtest(formula, family, kind, r, r_frame, to_r):
    frame = r_frame("apistrat").assign(wide=lambda f: (f["sch.wide"] == "Yes") * 1)
    to_r("d", frame)
    made = svydesign(STRAT | {"fpc": "fpc"})
    r.r(
        f"design <- {made if kind == 'strata' else f'as.svrepdesign({made}, type = {chr(34)}JKn{chr(34)}, mse = TRUE)'}"
    )
    design = SurveyDesign(frame, **STRAT | {"fpc": "fpc"})
    design = design if kind == "strata" else design.replicates("JKn")
    r.r(f"fit <- svyglm({formula}, design, family = {FAMILY[family]}, control = list(epsilon = 1e-15, maxit = 100))")
    term = "ell:stype" if "*" in formula else "stype"
    r.r(f"test <- regTermTest(fit, ~{term}, method = 'LRT')")
    ours = likelihood_ratio_test(design, formula, term, family)
    np.testing.assert_allclose(ours.p, r.r("as.numeric(test$p)")[0], rtol=1e-4, atol=1e-14)
    effects = np.array(r.r("test$lambda"))
    np.testing.assert_allclose(ours.statistic * effects.sum(), r.r("as.numeric(test$chisq)")[0], rtol=1e-6)


def test_predictions_equal_r(fits, r, to_r):
    ours, frame, name = fits
    new = frame.loc[frame[list(ours._model.columns)].notna().all(axis=1)].head(25)
    to_r("new", new)
    for linear in (False, True):
        predicted = ours.predict(new, linear=linear)
        r.r(f"p <- predict(fit, newdata = new, type = '{'link' if linear else 'response'}')")
        offset = np.zeros(len(new))
        if FITS[name][4]:  # R's predict.svyglm leaves an offset out
            offset = new.eval(FITS[name][4]).to_numpy()
        eta = np.array(r.r("as.numeric(predict(fit, newdata = new, type = 'link'))")) + offset
        to_r("eta", pd.DataFrame({"eta": eta}))
        expected = eta if linear else np.array(r.r("fit$family$linkinv(eta$eta)"))
        np.testing.assert_allclose(predicted["estimate"], expected, rtol=1e-8, atol=1e-8)
        if linear or not FITS[name][4]:
            np.testing.assert_allclose(predicted["se"], np.sqrt(np.array(r.r("as.numeric(vcov(p))"))), rtol=1e-7)
    assert (predicted.index == new.index).all()
    wide, narrow = ours.predict(new, level=0.99), ours.predict(new, level=0.5)
    assert (wide["ci_low"] < narrow["ci_low"]).all() and (narrow["ci_high"] < wide["ci_high"]).all()


@pytest.mark.parametrize("family", ["poisson", "gamma"])
@pytest.mark.parametrize("kind", ["JKn", "bootstrap"])
def test_replicates_equal_svyglm(family, kind, r, r_frame, to_r):
    frame = r_frame("apistrat")
    to_r("d", frame)
    r.r(f"""set.seed(1)
        design <- as.svrepdesign({svydesign(STRAT)}, type = "{kind}", mse = TRUE, compress = FALSE)
        replicates <- as.data.frame(matrix(as.numeric(weights(design, "analysis")), nrow(d)))
        fit <- svyglm(enroll ~ ell + stype + offset(log(api.stu)), design, family = {FAMILY[family]},
                      control = list(epsilon = 1e-15, maxit = 100))""")
    replicates = r_frame("replicates")
    design = SurveyDesign(
        pd.concat([frame, replicates], axis=1), weights="pw", replicate_weights=list(replicates),
        scale=r.r("design$scale")[0], rscales=list(r.r("design$rscales")),
    )  # fmt: skip
    ours = regression(design, "enroll ~ ell + stype", family, offset="log(`api.stu`)")
    table, _ = in_order(ours, list(r.r("names(coef(fit))")))
    np.testing.assert_allclose(table["estimate"], np.array(r.r("as.numeric(coef(fit))")), rtol=1e-8)
    np.testing.assert_allclose(table["se"], np.array(r.r("as.numeric(SE(fit))")), rtol=1e-7)


def sets(seed, m, n=150):
    rng = np.random.default_rng(seed)
    for _ in range(m):
        x, g = rng.normal(0, 1, n), rng.choice(list("abc"), n)
        y = rng.poisson(np.exp(1 + 0.2 * x + 0.1 * (g == "b")))
        frame = pd.DataFrame({"x": x, "g": g, "y": y, "w": rng.uniform(1, 3, n), "psu": np.arange(n) // 5})
        yield SurveyDesign(frame, weights="w", psu="psu")


def test_joint_test_of_synthetic_data_sets_is_reiters():
    """By hand, equation by equation."""
    many = regressions(list(sets(0, 5)), "y ~ x + g", "poisson")
    one = [regressions([d], "y ~ x + g", "poisson") for d in sets(0, 5)]
    names = ["g[T.b]", "g[T.c]"]
    q = np.array([f.table.set_index("term").loc[names, "estimate"] for f in one])
    U = np.mean([f.covariance.loc[names, names] for f in one], axis=0)
    B = np.cov(q.T)
    r = np.trace(B @ np.linalg.inv(U)) / 5 / 2
    S = q.mean(axis=0) @ np.linalg.inv(U) @ q.mean(axis=0) / (2 * (1 + r))
    t = 2 * 4
    w = 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2
    test = many.test("g")
    np.testing.assert_allclose(test.statistic, S, rtol=1e-10)
    assert test.df == 2 and test.ddf == pytest.approx(min(w, one[0].table["df"][0]))
    x = many.table.set_index("term").loc["x"]
    np.testing.assert_allclose(many.test("x").statistic, x["t"] ** 2, rtol=1e-10)  # of one coefficient: t squared
    with pytest.raises(InputError, match="working=True is for one data set"):
        many.test("g", working=True)
    frame = next(sets(1, 1)).frame
    predicted, each = many.predict(frame, linear=True), [f.predict(frame, linear=True) for f in one]
    np.testing.assert_allclose(predicted["estimate"], np.mean([p["estimate"] for p in each], axis=0), rtol=1e-12)
    u, b = np.mean([p["se"] ** 2 for p in each], axis=0), np.var([p["estimate"] for p in each], axis=0, ddof=1) / 5
    np.testing.assert_allclose(predicted["se"] ** 2, u + b, rtol=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100))
def test_units_and_coding_do_not_matter_to_tests_and_predictions(seed, unit):
    design = next(sets(seed, 1))
    other = SurveyDesign(design.frame.assign(x=design.numeric("x") * unit - 3), weights="w", psu="psu")
    one, two = (regression(d, "y ~ x + g", "poisson") for d in (design, other))
    for terms in ("x", "g"):
        np.testing.assert_allclose(one.test(terms).statistic, two.test(terms).statistic, rtol=1e-6)
    np.testing.assert_allclose(one.predict(design.frame), two.predict(other.frame), rtol=1e-7)


def test_an_offset_is_a_known_part():
    """exp(offset) multiplies the mean: with the logarithm of a constant only the intercept moves."""
    design = next(sets(3, 1))
    design = SurveyDesign(design.frame.assign(k=5.0), weights="w", psu="psu")
    with_k, without = (regression(design, "y ~ x", "poisson", offset=o).table["estimate"] for o in ("log(k)", None))
    np.testing.assert_allclose(with_k, without - [np.log(5), 0], rtol=1e-9)


FRAME = pd.DataFrame(
    {"w": 1.0, "y": [0, 1, 2, 3, -7], "z": [1.0, 2, 0, 4, 3], "g": list("aabbb"), "o": [1.0, 2, 3, 4, 0]}
)
REFUSED = [
    (("y ~ 1", "poisson"), {}, r"outcome 'y' is negative in 1 row \(row numbers 5;"),
    (("z ~ 1", "gamma"), {}, r"'z' is not positive in 1 row \(row numbers 3;"),
    (("z ~ 1", "poisson"), {"offset": "log(o)"}, r"offset of 'z ~ 1' not finite in 1 row \(row numbers 5;"),
    (("z ~ 1", "poisson"), {"offset": "7"}, "names no column"),
    (("z ~ 1", "poisson"), {"offset": "g"}, "cannot be evaluated"),
    (("z ~ 1", "poisson"), {"offset": "o +"}, "is not a formula"),
    (("z ~ 1", "poisson"), {"offset": "exposure"}, "no column 'exposure'"),
]


@pytest.mark.parametrize(("arguments", "keywords", "message"), REFUSED)
def test_refusals(arguments, keywords, message):
    with pytest.raises(InputError, match=message) as caught:
        regression(SurveyDesign(FRAME, weights="w"), *arguments, **keywords)
    assert "-7" not in str(caught.value)


def test_refusals_of_tests_and_predictions():
    fit = regression(SurveyDesign(FRAME, weights="w"), "z ~ g")
    for call, message in (
        (lambda: fit.test("h"), "no term 'h'; its terms are Intercept, g"),
        (lambda: fit.predict(FRAME[["w"]]), "need the column 'g'"),
        (lambda: fit.predict(FRAME.assign(g="secret")), r"category that was not fitted in 5 rows"),
        (lambda: fit.predict(FRAME.assign(g=None)), "column 'g' is missing in 5 rows"),
        (lambda: fit.predict([1]), "need a DataFrame"),
        (lambda: fit.predict(FRAME, level=95), "level must be a number between 0 and 1"),
        (lambda: regression(SurveyDesign(FRAME, weights="w"), "z ~ 1").test(), "no coefficients to test"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "secret" not in str(caught.value)
    alone = regression(SurveyDesign(FRAME, weights="w"), "z ~ 1").predict(FRAME)
    assert alone["estimate"].nunique() == 1 and len(alone) == 5


@pytest.mark.parametrize("sd", [1.0, 2.5, 3.0])
def test_gamma_regressions_of_skewed_amounts_come_to_the_solution_of_statsmodels(sd):
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    x, w = rng.standard_normal(500), rng.uniform(1, 3, 500)
    y = np.exp(0.3 * x + sd * rng.standard_normal(500))
    fit = regression(SurveyDesign(pd.DataFrame({"x": x, "y": y, "w": w}), weights="w"), "y ~ x", "gamma")
    family = sm.families.Gamma(sm.families.links.Log())
    own = sm.GLM(y, sm.add_constant(x), family=family, var_weights=w).fit(tol=1e-12, maxiter=200)
    np.testing.assert_allclose(fit.table["estimate"], own.params, rtol=1e-6)
