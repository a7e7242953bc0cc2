"""Regressions against R's svyglm, against tables that they contain, and against themselves in other units."""

import pickle
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import t as student
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, svydesign

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.estimation.regression import regression, regressions

NUMBERS = ["estimate", "se", "df", "t", "p", "ci_low", "ci_high"]
FEW = settings(max_examples=20, deadline=None)

R_FIT = """
function(design, formula, family) {
  fit <- svyglm(as.formula(formula), design, family = family, control = list(epsilon = 1e-15, maxit = 100))
  s <- summary(fit)$coefficients
  df <- fit$df.residual
  half <- if (df > 0) qt(0.975, df) * s[, 2] else NaN
  data.frame(term = rownames(s), estimate = s[, 1], se = s[, 2], df = df, t = s[, 3], p = s[, 4],
             ci_low = s[, 1] - half, ci_high = s[, 1] + half, v = unname(vcov(fit)))
}"""
R_FAMILY = {"gaussian": "gaussian()", "binomial": "quasibinomial()"}


@pytest.fixture(scope="module")
def svyglm(r, r_frame):
    """R's fit to the R object ``design``, in the shape of a regression's table and covariance."""
    r.globalenv["r_fit"] = r.r(R_FIT)

    def fit(formula, family="gaussian"):
        formula = formula.replace("C(", "factor(").replace("**", "^")
        table = r_frame(f"r_fit(design, '{formula}', {R_FAMILY[family]})").set_index("term")
        return table[NUMBERS], table.filter(regex=r"^v(\.\d+)?$")  # one coefficient: v, else v.1, v.2, ...

    yield fit
    r.r("options(survey.lonely.psu = 'fail')")


def name_in_r(term):
    term = term.replace("Intercept", "(Intercept)").replace("C(", "factor(").replace(" ** ", "^")
    return re.sub(r"\[T\.([^]]*)\]", r"\1", term)


def assert_same(ours, theirs, rtol=1e-7):
    table, covariance = theirs
    got = ours.table.set_index(ours.table["term"].map(name_in_r))[NUMBERS]
    assert sorted(got.index) == sorted(table.index)
    for number in NUMBERS:
        np.testing.assert_allclose(got.loc[table.index, number], table[number], rtol=rtol, err_msg=number)
    order = [got.index.get_loc(term) for term in table.index]
    V, scale = ours.covariance.to_numpy()[np.ix_(order, order)], table["se"].to_numpy()
    np.testing.assert_allclose(V / np.outer(scale, scale), covariance / np.outer(scale, scale), rtol=0, atol=rtol)
    assert list(ours.covariance.index) == list(ours.covariance.columns) == list(ours.table["term"])


# name: R's data set, roles, formula, family
SCENARIOS = {
    "srs": ("apisrs", {"weights": "pw", "fpc": "fpc"}, "api00 ~ ell + meals + mobility", "gaussian"),
    "strat": ("apistrat", STRAT, "api00 ~ ell + meals + stype", "gaussian"),
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, "api00 ~ ell * stype + sch.wide", "gaussian"),
    "strat squares": ("apistrat", STRAT, "log(enroll) ~ meals + I(meals ** 2) + awards * stype", "gaussian"),
    "strat logistic": ("apistrat", STRAT | {"fpc": "fpc"}, "sch.wide ~ ell + meals * stype", "binomial"),
    "strat constant": ("apistrat", STRAT | {"fpc": "fpc"}, "awards ~ 1", "binomial"),
    "strat large": ("apistrat", STRAT, "api.stu ~ enroll + I(enroll ** 2) + I(enroll ** 3)", "gaussian"),
    "clus1": ("apiclus1", CLUS1, "api00 ~ ell + meals", "gaussian"),
    "clus1 fpc": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "api00 ~ stype + ell * meals", "gaussian"),
    "clus1 logistic": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "sch.wide ~ ell + meals + mobility", "binomial"),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00 ~ ell + meals + stype", "gaussian"),
    "clus2 logistic": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "sch.wide ~ ell + meals", "binomial"),
    "clus2 missing": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00 ~ acs.46 + ell", "gaussian"),
    "nhanes": ("nhanes", NHANES, "HI_CHOL ~ C(race) + C(RIAGENDR) * agecat", "gaussian"),
    "nhanes logistic": ("nhanes", NHANES, "HI_CHOL ~ C(race) * C(RIAGENDR) + agecat", "binomial"),
    "election": ("election_pps", {"probs": "p"}, "Bush ~ Kerry + Nader", "gaussian"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_coefficients_and_their_covariance_equal_svyglm(name, r, r_frame, to_r, svyglm):
    dataset, roles, formula, family = SCENARIOS[name]
    r.r("data(election)")
    frame = r_frame(dataset)
    to_r("d", frame)
    if family == "binomial":  # R: text becomes a factor, whose second level is 1
        r.r("d <- as.data.frame(lapply(d, function(x) if (is.character(x)) factor(x) else x))")
    r.r(f"design <- {svydesign(roles)}")
    theirs = svyglm(formula, family)
    ours = regression(SurveyDesign(frame, **roles), formula, family, missing="drop")
    assert_same(ours, theirs)
    assert (ours.formula, ours.family) == (formula, family)


@pytest.fixture(scope="module")
def lonely(r_frame):
    """NHANES with one PSU left in 3 of its 15 strata."""
    frame = r_frame("nhanes")
    strata = np.sort(frame["SDMVSTRA"].unique())
    return frame[~(frame["SDMVSTRA"].isin(strata[[0, 5, 14]]) & (frame["SDMVPSU"] == 2))]


@pytest.mark.parametrize("family", R_FAMILY)
@pytest.mark.parametrize("option", ["remove", "adjust", "average"])
def test_lonely_psus_as_in_svyglm(lonely, option, family, r, to_r, svyglm):
    to_r("d", lonely)
    r.r(f"options(survey.lonely.psu = '{option}'); design <- {svydesign(NHANES)}")
    formula = "HI_CHOL ~ C(race) + RIAGENDR"
    ours = regression(SurveyDesign(lonely, **NHANES, lonely_psu=option), formula, family, missing="drop")
    assert_same(ours, svyglm(formula, family))


@pytest.mark.parametrize("kind", ["strata", "clusters", "calibrated"])
@pytest.mark.parametrize("family", R_FAMILY)
def test_dropped_records_stay_in_the_design_as_in_svyglm(kind, family, r, r_frame, to_r, svyglm):
    """Missing outcomes and predictors, and one PSU or stratum that is missing as a whole: R then counts fewer df."""
    roles = {"strata": STRAT, "clusters": CLUS1 | {"fpc": "fpc"}, "calibrated": CLUS1}[kind]
    frame = r_frame("apistrat" if kind == "strata" else "apiclus1")
    row = np.arange(len(frame))
    whole = frame["stype"] == "M" if kind == "strata" else frame["dnum"] == 61
    frame["meals"] = frame["meals"].where(~whole & (row % 7 > 0))
    frame["outcome"] = (frame["awards"] == "Yes").where(row % 5 > 0).astype(float)
    to_r("d", frame)
    r.r(f"design <- {svydesign(roles)}")
    if kind == "calibrated":
        r.r("""
            totals <- setNames(as.data.frame(xtabs(~stype, apipop)), c("stype", "Freq"))
            design <- postStratify(design, ~stype, totals)
            d$calibrated <- weights(design)
        """)
        frame, roles = r_frame("d"), roles | {"weights": "calibrated"}
        design = SurveyDesign(frame, **roles, poststrata="stype", base_weights="pw")
    else:
        design = SurveyDesign(frame, **roles)
    ours = regression(design, "outcome ~ meals + ell", family, missing="drop")
    assert_same(ours, svyglm("outcome ~ meals + ell", family))
    here = frame[["outcome", "meals", "ell"]].notna().all(axis=1)
    assert ours.n == here.sum() < len(frame)
    degf = here.sum() - 2 if kind == "strata" else frame.loc[here, "dnum"].nunique() - 1
    assert (ours.table["df"] == degf + 1 - 3).all()


@pytest.mark.parametrize("family", R_FAMILY)
@pytest.mark.parametrize("post", ["stype", "awards"])
def test_known_totals_as_after_poststratify(post, family, r, r_frame, to_r, svyglm):
    to_r("d", r_frame("apiclus1"))
    r.r(f"""
        totals <- setNames(as.data.frame(xtabs(~{post}, apipop)), c("{post}", "Freq"))
        d$won <- as.numeric(d$sch.wide == "Yes")
        design <- postStratify({svydesign(CLUS1 | {"fpc": "fpc"})}, ~{post}, totals)
        d$calibrated <- weights(design)
    """)
    roles = CLUS1 | {"fpc": "fpc", "weights": "calibrated"}
    design = SurveyDesign(r_frame("d"), **roles, poststrata=post, base_weights="pw")
    formula = "won ~ stype + meals"
    theirs = svyglm(formula, family)
    assert_same(regression(design, formula, family), theirs)
    plain = regression(SurveyDesign(r_frame("d"), **roles), formula, family)
    assert (np.abs(plain.table["se"] / theirs[0]["se"].to_numpy() - 1) > 1e-3).any()


@pytest.mark.slow
@pytest.mark.parametrize("family", R_FAMILY)
@pytest.mark.parametrize("mse", [True, False])
@pytest.mark.parametrize("kind", ["JKn", "BRR"])
def test_replicate_weights_as_in_svyglm(kind, mse, family, r, r_frame, to_r, svyglm):
    roles, formula, dataset = {
        "JKn": (STRAT, "won ~ ell + stype", "transform(apistrat, won = as.numeric(sch.wide == 'Yes'))"),
        "BRR": (NHANES, "HI_CHOL ~ C(race) + RIAGENDR", "subset(nhanes, SDMVPSU < 3)"),
    }[kind]
    to_r("d", r_frame(dataset))
    r.r(f"""
        design <- as.svrepdesign({svydesign(roles)}, type = "{kind}", mse = {str(mse).upper()})
        replicates <- as.data.frame(weights(design, "analysis"))
        names(replicates) <- paste0("r", seq_along(replicates))
    """)
    replicates = r_frame("replicates")
    scale, rscales = r.r("design$scale")[0], list(r.r("design$rscales"))
    design = SurveyDesign(
        pd.concat([r_frame("d"), replicates], axis=1), weights=roles["weights"], mse=mse,
        replicate_weights=list(replicates), scale=scale, rscales=rscales,
    )  # fmt: skip
    assert design.degf == r.r("degf(design)")[0]
    assert_same(regression(design, formula, family, missing="drop"), svyglm(formula, family))


@pytest.mark.parametrize("family", R_FAMILY)
@pytest.mark.parametrize("pps", ["sen_yates_grundy", "horvitz_thompson"])
def test_unequal_probabilities_with_joint_ones_as_in_svyglm(pps, family, r, r_frame, svyglm):
    variance = {"sen_yates_grundy": "YG", "horvitz_thompson": "HT"}[pps]
    r.r(f"""
        data(election)
        d <- transform(election_pps, won = as.numeric(Bush > Kerry), share = 100 * Nader / votes)
        design <- svydesign(id = ~1, fpc = ~p, data = d, pps = ppsmat(election_jointprob), variance = "{variance}")
    """)
    joint = np.array(r.r("election_jointprob")).reshape(40, 40)
    design = SurveyDesign(r_frame("d"), probs="p", pps=pps, joint=joint)
    formula = "won ~ share" if family == "binomial" else "Bush ~ Kerry + Nader"
    assert_same(regression(design, formula, family), svyglm(formula, family))


def test_no_degrees_of_freedom_no_p_values_and_no_intervals_as_in_r(r, r_frame, to_r, svyglm):
    frame = r_frame("subset(apiclus1, dnum %in% unique(dnum)[1:4])")
    to_r("d", frame)
    r.r(f"design <- {svydesign(CLUS1)}")
    formula = "api00 ~ ell + meals + mobility + enroll"
    ours = regression(SurveyDesign(frame, **CLUS1), formula)
    assert_same(ours, svyglm(formula))
    assert (ours.table["df"] == -1).all() and ours.table[["p", "ci_low", "ci_high"]].isna().all(axis=None)
    assert (ours.table["se"] > 0).all()


@pytest.mark.parametrize("column", ["text", "number", "bool", "category", "boolean"])
def test_two_valued_outcomes_are_0_and_1_in_sorted_order(column):
    frame = survey(7)
    one = frame["b"] == 1
    frame["outcome"] = {
        "text": np.where(one, "No", "Ja"),
        "number": one.astype(float),
        "bool": one,
        "category": pd.Categorical(np.where(one, "Ja", "No"), ["unused", "No", "Ja"]),
        "boolean": one.astype("boolean"),
    }[column]
    got, expected = (regression(design_of(frame), f"{y} ~ x + g", "binomial") for y in ("outcome", "b"))
    pd.testing.assert_frame_equal(got.table, expected.table)


@pytest.mark.parametrize("dtype", ["object", "string", "str", "category"])
def test_predictors_of_any_type_of_text(dtype):
    frame = survey(8)
    expected = regression(design_of(frame), "y ~ g * x")
    assert expected.table["term"].tolist() == ["Intercept", "g[T.b]", "g[T.c]", "x", "g[T.b]:x", "g[T.c]:x"]
    frame = frame.astype({"g": dtype, "x": "Float64"})
    if dtype == "category":  # one without records has no coefficient
        frame["g"] = frame["g"].cat.add_categories("unused")
    got = regression(design_of(frame), "y ~ g * x")
    pd.testing.assert_frame_equal(got.table, expected.table)


# ---- what a regression contains


def survey(seed, n=90):
    """Strata of PSUs, two numbers, a group, an outcome of 0 and 1 that goes with them."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=n), rng.choice(list("abc"), n)
    y = x + (g == "b") + rng.normal(size=n)
    return pd.DataFrame({
        "h": np.arange(n) % 3, "c": rng.integers(0, 6, n), "w": rng.gamma(4, 5, n), "x": x, "g": g,
        "y": y, "b": (0.5 * y + rng.logistic(size=n) > 0).astype(int),
    })  # fmt: skip


def design_of(frame, **roles):
    return SurveyDesign(frame, **({"weights": "w", "strata": "h", "psu": "c"} | roles))


REPLICATION = [{}, {"method": "JKn"}, {"method": "preston", "R": 30, "seed": 1}]


@pytest.mark.parametrize("method", REPLICATION, ids=str)
def test_coefficients_of_groups_alone_are_their_means(method):
    """Also where values are missing, which are dropped as a domain."""
    frame = survey(1)
    frame["y"] = frame["y"].where(np.arange(len(frame)) % 8 > 0)
    design = design_of(frame)
    design = design.replicates(**method) if method else design
    got = regression(design, "y ~ 0 + g", missing="drop").table
    means = estimate(design, "y", "g", missing="drop").iloc[:3]
    np.testing.assert_allclose(got[["estimate", "se"]], means[["estimate", "se"]], rtol=1e-9)
    assert got["term"].tolist() == ["g[a]", "g[b]", "g[c]"] == [f"g[{label}]" for label in means["g"]]
    shares = estimate(design, "b", "g").iloc[:3]
    p = shares["estimate"]
    got = regression(design, "b ~ 0 + g", "binomial").table
    np.testing.assert_allclose(got["estimate"], logit(p), rtol=1e-9)
    if not method:  # the delta method is what linearization is
        np.testing.assert_allclose(got["se"], shares["se"] / (p * (1 - p)), rtol=1e-9)


def by_hand(replication, theta_r, theta):
    """scale sum_r s_r (theta_r - theta)(theta_r - theta)', over the replicates that exist, as if these were all."""
    there = np.isfinite(theta_r).all(axis=1)
    s = replication.rscales
    d = theta_r[there] - theta
    return replication.scale * s.sum() / s[there].sum() * (d.T * s[there]) @ d


def means_of_replicates(design, y):
    g = (design.frame["g"].to_numpy()[:, None] == np.array(list("abc"))).astype(float)
    W = design.weights[:, None] * design.replication.factors(0, design.replication.R)
    with np.errstate(invalid="ignore"):
        return (W.T @ (g * y[:, None])) / (W.T @ g)


def test_a_replicate_without_a_fit_is_left_out():
    """The jackknife takes away the one PSU of a group, or its only 0: these replicates have no coefficients."""
    frame = survey(2)
    frame.loc[frame["g"] == "c", ["c", "h"]] = 9, 0
    design = design_of(frame).replicates("JKn")
    theta_r = means_of_replicates(design, frame["y"].to_numpy())
    assert np.isnan(theta_r).any(axis=1).sum() == 1
    got = regression(design, "y ~ 0 + g")
    np.testing.assert_allclose(
        got.covariance, by_hand(design.replication, theta_r, got.table["estimate"].to_numpy()), rtol=1e-8, atol=1e-12
    )
    frame = survey(2)
    inside = frame["g"] == "c"
    frame.loc[inside, "b"] = (np.arange(inside.sum()) > 0).astype(int)
    design = design_of(frame).replicates("JKn")
    with np.errstate(divide="ignore"):
        theta_r = logit(means_of_replicates(design, frame["b"].to_numpy().astype(float)))
    assert np.isinf(theta_r).any(axis=1).sum() == 1
    got = regression(design, "b ~ 0 + g", "binomial")
    np.testing.assert_allclose(
        got.covariance, by_hand(design.replication, theta_r, got.table["estimate"].to_numpy()), rtol=1e-8, atol=1e-12
    )


def test_replicates_with_negative_weights():
    frame = survey(3).assign(u=np.arange(90), c=np.arange(90) // 3 % 6, N=6, M=100)
    design = design_of(frame, psu=["c", "u"], fpc=["N", "M"]).replicates(R=40, seed=3)
    assert (design.replication.factors(0, 40) < 0).any()
    y = frame["y"].to_numpy()
    got = regression(design, "y ~ 0 + g")
    theta_r = means_of_replicates(design, y)
    V = by_hand(design.replication, theta_r, got.table["estimate"].to_numpy())
    np.testing.assert_allclose(got.covariance, V, rtol=0, atol=1e-9 * np.diag(V).max())


def test_replicates_come_in_blocks_of_limited_memory(monkeypatch):
    design = design_of(survey(5)).replicates(R=30, seed=5)
    whole = regression(design, "y ~ x + g")
    monkeypatch.setattr(sys.modules["surveysynth.estimation.glm"], "DENSE", 4 * design.n)  # 4, 4, ..., 2
    pd.testing.assert_frame_equal(regression(design, "y ~ x + g").covariance, whole.covariance)


@pytest.mark.filterwarnings("error")
def test_an_outcome_without_variation_has_no_t_and_no_p():
    row = regression(design_of(survey(5).assign(y=0)), "y ~ 1").table.iloc[0]
    assert row[["estimate", "se", "ci_low", "ci_high"]].tolist() == [0, 0, 0, 0]
    assert row[["t", "p"]].isna().all()


# ---- what does not matter

seeds = st.integers(0, 2**32 - 1)
families = st.sampled_from([("y", "gaussian"), ("b", "binomial")])


def fitted(frame, y, family, predictors="x + g"):
    return regression(design_of(frame), f"{y} ~ {predictors}", family)


def assert_close(one, other, rtol=1e-8):
    numbers = ["estimate", "se"]
    scale = other.table["se"].to_numpy()
    assert one.table["term"].tolist() == other.table["term"].tolist()
    np.testing.assert_allclose(one.table[numbers], other.table[numbers], rtol=rtol, atol=rtol * scale.min())
    np.testing.assert_allclose(one.covariance / np.outer(scale, scale), other.covariance / np.outer(scale, scale),
                               rtol=0, atol=rtol)  # fmt: skip


@FEW
@given(seeds, families, st.sampled_from([1e-12, 0.37, 8.0, 1e12]))
def test_rescaled_weights(seed, family, factor):
    frame = survey(seed)
    assert_close(fitted(frame.assign(w=frame["w"] * factor), *family), fitted(frame, *family))


@pytest.mark.slow
@FEW
@given(seeds, families, st.randoms(use_true_random=False))
def test_row_order(seed, family, random):
    frame = survey(seed)
    order = random.sample(range(len(frame)), len(frame))
    assert_close(fitted(frame.iloc[order], *family), fitted(frame, *family))


@FEW
@given(seeds, families, st.floats(-1e3, 1e3), st.sampled_from([1e-4, -0.5, 30.0, 1e6]))
def test_an_affine_change_of_a_predictor(seed, family, shift, slope):
    frame = survey(seed)
    before, after = fitted(frame, *family), fitted(frame.assign(x=shift * slope + slope * frame["x"]), *family)
    terms = before.table["term"].tolist()
    J = np.eye(len(terms))  # b_x x = (b_x / slope) x' - shift b_x
    at, one = terms.index("x"), terms.index("Intercept")
    J[at, at], J[one, at] = 1 / slope, -shift
    b, V = J @ before.table["estimate"], J @ before.covariance.to_numpy() @ J.T
    se = np.sqrt(np.diag(V))
    np.testing.assert_allclose((after.table["estimate"] - b) / se, np.zeros(len(b)), rtol=0, atol=1e-6)
    np.testing.assert_allclose(after.covariance / np.outer(se, se), V / np.outer(se, se), rtol=0, atol=1e-6)


@FEW
@given(seeds, families)
def test_the_coefficients_solve_the_score_equations(seed, family):
    frame = survey(seed)
    b = fitted(frame, *family).table["estimate"].to_numpy()
    X = np.column_stack([np.ones(len(frame)), frame["g"] == "b", frame["g"] == "c", frame["x"]]).astype(float)
    terms = fitted(frame, *family).table["term"].tolist()
    X = X[:, [["Intercept", "g[T.b]", "g[T.c]", "x"].index(term) for term in terms]]
    mu = X @ b if family[1] == "gaussian" else expit(X @ b)
    e = frame["w"].to_numpy() * (frame[family[0]].to_numpy() - mu)
    assert (np.abs(X.T @ e) < 1e-11 * (np.abs(X).T @ np.abs(e))).all()


# ---- m data sets


def test_three_data_sets_by_hand():
    """Of 30 records; y is 1, 2, 3, then 3, 4, 5, then 2, 2, 5, each 10 times."""
    designs = [
        SurveyDesign(pd.DataFrame({"y": values * 10, "w": 2.0}), weights="w")
        for values in ([1, 2, 3], [3, 4, 5], [2, 2, 5])
    ]
    got = regressions(designs, "y ~ 1")
    # means 2, 4, 3; variances of these: sums of squares 20, 20, 60 over 30 * 29; b = 1, T = u_bar + 1/3
    u_bar = (20 + 20 + 60) / 3 / 870
    df = 2 * (1 + 3 * u_bar) ** 2
    se, half = np.sqrt(u_bar + 1 / 3), student.ppf(0.975, df) * np.sqrt(u_bar + 1 / 3)
    row = got.table.iloc[0]
    expected = [3, se, df, 3 / se, 2 * student.sf(3 / se, df), 3 - half, 3 + half]
    np.testing.assert_allclose(row[NUMBERS].astype(float), expected, rtol=1e-12)
    np.testing.assert_allclose(got.covariance, [[u_bar + 1 / 3]], rtol=1e-12)


@pytest.mark.parametrize(("y", "family"), [("y", "gaussian"), ("b", "binomial")])
def test_the_covariance_is_combined_as_the_variances_are(y, family):
    designs = [design_of(survey(seed)) for seed in (1, 2, 3)]
    ones = [regression(design, f"{y} ~ x + g", family) for design in designs]
    got = regressions(designs, f"{y} ~ x + g", family)
    q = np.array([one.table["estimate"] for one in ones])
    u = np.array([one.table["se"] ** 2 for one in ones])
    between = ((q - q.mean(axis=0)) ** 2).sum(axis=0) / 2
    np.testing.assert_allclose(got.table["estimate"], q.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.table["se"] ** 2, u.mean(axis=0) + between / 3, rtol=1e-12)
    df = np.minimum(2 * (1 + u.mean(axis=0) / (between / 3)) ** 2, 15 + 1 - 4)  # 18 PSUs, 3 strata, p = 4
    np.testing.assert_allclose(got.table["df"], df, rtol=1e-12)
    crossed = sum(np.outer(d, d) for d in q - q.mean(axis=0)) / 2
    V = sum(one.covariance.to_numpy() for one in ones) / 3 + crossed / 3
    np.testing.assert_allclose(got.covariance, V, rtol=1e-10)
    pd.testing.assert_frame_equal(regressions(designs[:1], f"{y} ~ x + g", family).table, ones[0].table)


def test_data_sets_that_differ_in_missing_values_have_the_least_of_their_records_and_degrees_of_freedom():
    frame = survey(1)
    fewer = frame.assign(y=frame["y"].where(frame["c"] > 1))  # without 2 of the 6 PSUs of each stratum
    got = regressions([design_of(frame), design_of(fewer)], "y ~ x", missing="drop")
    assert (got.table["df"] <= 12 - 3 + 1 - 2).all()
    assert got.n == (frame["c"] > 1).sum()


# ---- the door


def test_repr_is_a_table():
    lines = repr(regression(design_of(survey(1)), "y ~ x + g")).splitlines()
    assert lines[0] == "Regression: y ~ x + g (gaussian), 90 records"
    assert lines[1].split() == ["term", "estimate", "se", "df", "t", "p", "ci_low", "ci_high"]
    assert [line.split()[0] for line in lines[2:]] == ["Intercept", "x", "g[T.b]", "g[T.c]"]
    assert "<0.0001" in lines[3]


BAD = {
    "no text": (None, "gaussian", "must be text"),
    "no formula": ("y ~ x +", "gaussian", "is not a formula"),
    "one side": ("~ x", "gaussian", "must have an outcome, ~ and predictors"),
    "no outcome": ("1 ~ x", "gaussian", "must have one outcome"),
    "two outcomes": ("y + b ~ x", "gaussian", "must have one outcome"),
    "two parts": ("y ~ x | g", "gaussian", "must have an outcome, ~ and predictors"),
    "nothing": ("y ~ 0", "gaussian", "no predictors and no intercept"),
    "itself": ("y ~ x + y", "gaussian", "'y': an outcome cannot be a predictor"),
    "commas": ("y ~ x, g", "gaussian", r"'y ~ x, g' lists columns by commas, which a formula adds: write y ~ x \+ g$"),
    "several columns": ("poly(x, 2) ~ g", "gaussian", "one outcome, to the left of ~, and that is a number"),
    "unknown": ("y ~ nowhere", "gaussian", "there is no column 'nowhere'; the file has h, c, w, x"),
    "unknown outcome": ("nowhere ~ x", "gaussian", "there is no column 'nowhere'"),
    "local variable": ("y ~ frame", "gaussian", "there is no column 'frame'"),
    "function": ("y ~ open(x)", "gaussian", "there is no column 'open'"),
    "cannot be evaluated": ("y ~ log(g)", "gaussian", "cannot be evaluated on this file"),
    "text outcome": ("g ~ x", "gaussian", "column 'g' is not a number in 90 rows"),
    "infinite outcome": ("inf ~ x", "gaussian", r"outcome of 'inf ~ x' not finite in 1 row \(row numbers 4;"),
    "infinite predictor": ("y ~ log(zero)", "gaussian", r"predictors of .* not finite in 1 row \(row numbers 4;"),
    "missing": ("y ~ gone", "gaussian", r"column 'gone' is missing in 2 rows \(row numbers 1, 2; .* missing='drop'"),
    "missing outcome": ("gone ~ x", "binomial", "column 'gone' is missing in 2 rows"),
    "numbers": ("y ~ x", "binomial", r"outcome 'y' is a number other than 0 and 1 in 90 rows"),
    "three categories": ("g ~ x", "binomial", "outcome 'g' has 3 categories; a logistic regression needs two"),
    "one category": ("same ~ x", "binomial", "outcome 'same' has one value"),
    "collinear": ("y ~ x + double", "gaussian", "a column of double is a combination of columns of Intercept, x;"),
    "collinear groups": ("b ~ g + g2 + x", "binomial", "a column of g2 is a combination of columns of g;"),
    "empty crossing": ("y ~ g * g2", "gaussian", "a column of g2 is a combination of columns of g;"),
    "zeros": ("y ~ x + I(0 * x)", "gaussian", r"a column of I\(0 \* x\) is made up by its other columns"),
    "separated": ("b ~ x + apart", "binomial", "separate the two values .* coefficients of .*apart grow without end"),
    "in other units": ("b ~ x + I(1e6 * apart)", "binomial", r"coefficients of .*apart\) grow without end"),
    "half separated": ("b ~ x + half", "binomial", "and the coefficients of half grow without end"),
    "one separated": ("b ~ x + single", "binomial", "and the coefficients of single grow without end"),
    "too few": ("y ~ x * g * C(c) * C(h) * C(k)", "gaussian", "coefficients but 90 records have all its columns"),
    "family": ("y ~ x", "cauchit", "family='cauchit' is not one of gaussian, binomial, probit, cloglog, poisson"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted_is_said_without_a_value(case):
    formula, family, message = BAD[case]
    frame = survey(4)
    row = np.arange(len(frame))
    frame["inf"], frame["zero"] = frame["y"].where(row != 3, np.inf), frame["y"].abs().where(row != 3, 0)
    frame["gone"], frame["same"], frame["double"] = frame["b"].where(row > 1), "secret", 3 - 2 * frame["x"]
    frame["g2"], frame["k"] = frame["g"].map({"a": "secret 1", "b": "secret 2", "c": "secret 3"}), row % 5
    frame["apart"], frame["half"] = frame["b"] * 5 + frame["x"] ** 2 / 99, ((frame["b"] == 1) & (row % 3 == 0)) * 1
    frame["single"] = (row == np.flatnonzero(frame["b"] == 1)[0]) * 1
    with pytest.raises(InputError, match=message) as error:
        regression(design_of(frame), formula, family)
    assert "secret" not in str(error.value)
    assert error.value.__context__ is None


def test_one_record_in_ten_thousand_that_is_separated_is_found():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"w": rng.gamma(2, 2, 10_000), "x": rng.normal(size=10_000)})
    frame["b"], frame["single"] = rng.random(10_000) < expit(frame["x"] - 6), 0
    frame.loc[frame.index[frame["b"]][0], "single"] = 1
    assert regression(SurveyDesign(frame, weights="w"), "b ~ x", "binomial").n == 10_000  # rare, but not separated
    with pytest.raises(InputError, match="the coefficients of single grow"):
        regression(SurveyDesign(frame, weights="w"), "b ~ x + single", "binomial")


def test_row_numbers_are_those_of_the_file_where_other_rows_are_dropped():
    row = np.arange(90)
    frame = survey(6).assign(gone=np.where(row < 5, np.nan, 1.0), zero=np.where(row == 7, 0.0, 1.0 + row))
    design = design_of(frame.assign(two=np.where(row == 8, 2, frame["b"])))
    for formula, family, number in (("y ~ log(zero) + x:gone", "gaussian", 8), ("two ~ x:gone", "binomial", 9)):
        with pytest.raises(InputError, match=rf"in 1 row \(row numbers {number}; the first row is 1\)"):
            regression(design, formula, family, missing="drop")


def test_other_arguments_and_data_sets_that_do_not_go_together():
    frame = survey(6)
    design = design_of(frame)
    with pytest.raises(InputError, match="missing='ignore' is not one of fail, drop"):
        regression(design, "y ~ x", missing="ignore")
    with pytest.raises(InputError, match="needs a SurveyDesign, not DataFrame"):
        regression(frame, "y ~ x")
    with pytest.raises(InputError, match="at least one data set"):
        regressions([], "y ~ x")
    merged = design_of(frame.assign(g=frame["g"].replace("c", "a")))
    with pytest.raises(InputError, match="do not have the same coefficients of g, x:g: some lack a category"):
        regressions([design, merged], "y ~ x * g")
    answers = [design_of(frame.assign(a=np.where(frame["b"] == 1, "secret", other))) for other in ("x", "y")]
    with pytest.raises(InputError, match="not have the same two categories of outcome 'a'"):
        regressions(answers, "a ~ x", "binomial")


def test_objects_that_hold_records_do_not_show_them():
    fit = regression(design_of(survey(1)), "y ~ x")
    assert set(vars(fit)) == {"table", "covariance", "family", "formula", "n", "coefficients", "_model"}
    more = pd.concat([survey(1)] * 20, ignore_index=True)  # what is kept does not grow with the records
    assert len(pickle.dumps(regression(design_of(more), "y ~ x"))) < len(pickle.dumps(fit)) + 9
    with pytest.raises(AttributeError):
        fit.n = 3


@pytest.mark.parametrize("calibrated", [False, True])
def test_average_is_over_the_strata_that_hold_a_fitted_record(calibrated, lonely, r, r_frame, to_r, svyglm):
    frame, roles = lonely.copy(), NHANES
    strata = np.sort(frame["SDMVSTRA"].unique())
    frame.loc[frame["SDMVSTRA"] == strata[1], "RIAGENDR"] = np.nan  # a whole stratum goes
    to_r("d", frame)
    r.r(f"options(survey.lonely.psu = 'average'); design <- {svydesign(NHANES)}")
    if calibrated:
        r.r("""totals <- data.frame(race = 1:4, Freq = c(4e7, 5e7, 2e7, 1e7))
               design <- postStratify(design, ~race, totals); d$known <- weights(design)""")
        frame, roles = r_frame("d"), NHANES | {"weights": "known", "base_weights": "WTMEC2YR", "poststrata": "race"}
    formula = "HI_CHOL ~ RIAGENDR + C(agecat)"
    try:
        fitted = regression(SurveyDesign(frame, **roles, lonely_psu="average"), formula, missing="drop")
        assert_same(fitted, svyglm(formula))
    finally:
        r.r("options(survey.lonely.psu = 'fail')")


def test_text_of_every_type_is_a_category():
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"w": 1.0, "y": [1.0, 3, 2, 5, 4, 4], "g": list("abcabc")})
    plain = regression(SurveyDesign(frame, weights="w"), "y ~ g").table
    for dtype in ("string", "category", object, pd.ArrowDtype(pa.string()),
                  pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))):  # fmt: skip
        again = regression(SurveyDesign(frame.astype({"g": dtype}), weights="w"), "y ~ g").table
        pd.testing.assert_frame_equal(again, plain)
