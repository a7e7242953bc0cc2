"""Estimates from replicate weights against R's svrepdesign."""

import pickle

import numpy as np
import pandas as pd
import pytest
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, assert_same, svydesign

from surveysynth import InputError, SurveyDesign, difference, estimate

STATISTICS = ["mean", "total", "count"]

R_TABLES = """
rep_table <- function(design, outcome, by, statistic) {
  design <- update(design, one = 1)
  f <- if (statistic == "mean") svymean else svytotal
  formula <- reformulate(if (statistic == "count") "one" else outcome)
  s <- svyby(formula, reformulate(by), design, f, na.rm = TRUE)
  out <- data.frame(estimate = as.numeric(coef(s)), se = as.numeric(SE(s)), statistic = statistic)
  out[[by]] <- s[[by]]
  present <- statistic == "count" | !is.na(design$variables[[outcome]])
  out$df <- sapply(s[[by]], function(b) degf(design[which(present & design$variables[[by]] == b), ]))
  half <- qt(0.975, out$df) * out$se
  out$ci_low <- out$estimate - half
  out$ci_high <- out$estimate + half
  out
}
"""
DESIGNS = {
    "JKn": ("apistrat", STRAT, "JKn", ""),
    "JK1": ("apiclus1", CLUS1, "JK1", ""),
    "BRR": ("subset(nhanes, SDMVPSU < 3)", NHANES, "BRR", ""),
    "Fay": ("subset(nhanes, SDMVPSU < 3)", NHANES, "Fay", ", fay.rho = 0.3"),
    "bootstrap": ("apiclus1", CLUS1, "bootstrap", ", replicates = 60"),
    "mrbbootstrap": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "mrbbootstrap", ", replicates = 60"),
}


@pytest.fixture(scope="module", params=[(name, mse) for name in DESIGNS for mse in (True, False)],
                ids=lambda p: f"{p[0]} {'mse' if p[1] else 'mean'}")  # fmt: skip
def with_replicates(request, r, r_frame, to_r):
    """A design of R's, and ours with the same replicate weights in columns."""
    name, mse = request.param
    dataset, roles, type_, more = DESIGNS[name]
    r.r(R_TABLES)
    to_r("d", r_frame(dataset))
    r.r(f"""
        set.seed(5)
        reps <- suppressWarnings(as.svrepdesign({svydesign(roles)}, type = "{type_}", mse = {str(mse).upper()}{more}))
        columns <- as.data.frame(weights(reps, type = "analysis"))
        names(columns) <- paste0("r", seq_along(columns))
    """)
    frame = pd.concat([r_frame("d"), r_frame("columns")], axis=1)
    columns = [c for c in frame if c.startswith("r") and c[1:].isdigit()]
    design = SurveyDesign(
        frame, weights=roles["weights"], replicate_weights=columns, mse=mse,
        scale=r.r("reps$scale")[0], rscales=list(r.r("rep_len(reps$rscales, ncol(columns))")),
    )  # fmt: skip
    return name, design


@pytest.mark.slow
def test_given_replicates_equal_r(with_replicates, r_frame):
    name, design = with_replicates
    outcome, by = ("HI_CHOL", "agecat") if name in ("BRR", "Fay") else ("api00", "stype")
    expected = pd.concat(r_frame(f"rep_table(reps, '{outcome}', '{by}', '{s}')") for s in STATISTICS)
    table = estimate(design, outcome, by, STATISTICS, missing="drop")
    assert table.attrs["estimator"] == "replicates"
    assert_same(table[table[by] != "all"], expected, [by])


def test_quantiles_ratios_and_differences_of_replicates_equal_r(with_replicates, r, r_frame):
    name, design = with_replicates
    a, b, by = ("HI_CHOL", "SDMVPSU", "race") if name in ("BRR", "Fay") else ("api.stu", "api99", "stype")
    ratio = r_frame(f"{{q <- svyratio(~{a}, ~{b}, reps, na.rm = TRUE); data.frame(q = coef(q)[[1]], se = SE(q)[[1]])}}")
    ours = estimate(design, a, statistic="ratio", denominator=b, missing="drop")
    np.testing.assert_allclose(ours[["estimate", "se"]], ratio, rtol=1e-9)

    if name not in ("BRR", "Fay"):
        quantile = r_frame("svyquantile(~api00, reps, c(0.2501, 0.7003), df = degf(reps))[[1]]")
        ours = estimate(design, "api00", statistic="quantile", quantiles=[0.2501, 0.7003])
        np.testing.assert_allclose(ours[["estimate", "ci_low", "ci_high", "se"]], quantile, rtol=1e-7)

    labels = pd.unique(design.frame[by]).tolist()[:2]
    contrast = r_frame(f"""local({{
        s <- svyby(~{b}, ~{by}, reps, svytotal, na.rm = TRUE, covmat = TRUE)
        d <- svycontrast(s, (s${by} == {labels[0]!r}) - (s${by} == {labels[1]!r}))
        data.frame(estimate = coef(d)[[1]], se = SE(d)[[1]])
    }})""")
    ours = difference(design, b, statistic="total", between={by: labels}, missing="drop")
    np.testing.assert_allclose(ours[["estimate", "se"]], contrast, rtol=1e-8)


@pytest.mark.slow
def test_intervals_of_proportions_are_svyciprops_xlogit_with_replicates(with_replicates, r, r_frame):
    """R's "logit", its default, takes the variance from the log odds of every replicate; ours is that of the share."""
    name, design = with_replicates
    outcome = {"BRR": "race", "Fay": "race", "JKn": "awards"}.get(name, "stype")  # no strata: their shares are fixed
    table = estimate(design, outcome, statistic="proportion").set_index("category")
    ours = table[["estimate", "se", "ci_low", "ci_high"]].to_numpy()
    theirs = {
        method: [
            [*r.r(f"local({{p <- svyciprop(~I({outcome} == {label!r}), reps, method = '{method}'); "
                  "c(coef(p), SE(p), confint(p))})")]
            for label in table.index
        ]
        for method in ("xlogit", "logit")
    }  # fmt: skip
    np.testing.assert_allclose(ours, theirs["xlogit"], rtol=1e-9)
    assert (np.abs(ours / theirs["logit"] - 1)[:, 2:] > 1e-5).all()


@pytest.mark.parametrize("method", ["xlogit", "logit"])
def test_linearized_intervals_of_proportions_are_svyciprops_xlogit_and_logit(method, r, r_frame, to_r):
    to_r("d", r_frame("apiclus1"))
    table = estimate(SurveyDesign(r_frame("d"), **CLUS1), "stype", statistic="proportion")
    for row in table.itertuples():
        theirs = r.r(f"c(confint(svyciprop(~I(stype == '{row.category}'), {svydesign(CLUS1)}, method = '{method}')))")
        # "logit" fits a logistic regression, to a tolerance of its own
        np.testing.assert_allclose([row.ci_low, row.ci_high], theirs, rtol=1e-9 if method == "xlogit" else 1e-6)


@pytest.mark.parametrize(("method", "settings"), [("JKn", {}), ("preston", {"R": 50, "seed": 8})])
def test_replicates_that_are_made_travel_with_the_design(method, settings, r_frame):
    design = SurveyDesign(r_frame("apistrat"), **STRAT).replicates(method, **settings)
    assert design.replication.R == (200 if method == "JKn" else 50)
    assert f"{design.replication.R} {method} replicates" in repr(design)
    copied = pickle.loads(pickle.dumps(design))
    pd.testing.assert_frame_equal(estimate(copied, "api00", "stype"), estimate(design, "api00", "stype"))
    taylor = estimate(design, "api00", "stype", estimator="onepass")
    replicated = estimate(design, "api00", "stype")
    np.testing.assert_allclose(replicated["estimate"], taylor["estimate"], rtol=1e-12)
    np.testing.assert_allclose(replicated["se"], taylor["se"], rtol=0.02 if method == "JKn" else 0.5)
    assert design.degf == (196 + 1 if method == "JKn" else 49)


def test_every_statistic_has_replicates(r_frame):
    design = SurveyDesign(r_frame("apistrat"), **STRAT).replicates("JKn")
    taylor = SurveyDesign(r_frame("apistrat"), **STRAT)
    statistics = ["mean", "total", "count", "ratio", "quantile"]
    for outcome, names, more in (("api00", statistics, {"denominator": "enroll"}), ("awards", ["proportion"], {})):
        a, b = (estimate(d, outcome, "stype", names, **more) for d in (design, taylor))
        np.testing.assert_allclose(a["estimate"], b["estimate"], rtol=1e-12)
        smooth = (a["statistic"] != "quantile") & (b["se"] > 1e-9)
        np.testing.assert_allclose(a["se"][smooth], b["se"][smooth], rtol=0.03)


@pytest.mark.slow
def test_a_design_of_a_thousand_replicate_columns():
    """50,000 records in 6,760 domains: what R's users complain of."""
    rng = np.random.default_rng(3)
    n = 50_000
    base = pd.DataFrame({"g": rng.integers(0, 6760, n), "y": rng.normal(50, 9, n), "w": rng.uniform(1, 9, n)})
    factors = rng.choice([0.0, 2.0], (n, 1000)) * base["w"].to_numpy()[:, None]
    names = [f"r{i}" for i in range(1000)]
    frame = pd.concat([base, pd.DataFrame(factors, columns=names)], axis=1)
    design = SurveyDesign(frame, weights="w", replicate_weights=names)
    table = estimate(design, "y", "g", "total")
    z, code = (base["w"] * base["y"]).to_numpy(), base["g"].to_numpy()
    one = table[table["g"] == 17].iloc[0]
    squares = [(frame.loc[code == 17, name] @ base.loc[code == 17, "y"] - z[code == 17].sum()) ** 2 for name in names]
    np.testing.assert_allclose(one["se"], np.sqrt(np.mean(squares)), rtol=1e-9)
    assert table["df"].iloc[-1] == 999 and one["df"] == (code == 17).sum() - 1


REFUSED = [
    (lambda d: d.replicates("bootstrap"), "method='bootstrap' is not one of preston, rao_wu, JK1, JKn, BRR, Fay"),
    (lambda d: d.replicates("preston", R=0), "number of replicates"),
    (lambda d: d.replicates("preston", seed=-4), "seed must be a whole number"),
    (lambda d: d.replicates("JK1"), "strat"),
    (lambda d: d.replicates("BRR"), "two PSUs"),
    (lambda d: d.replicates("Fay", rho=1.5), "rho"),
    (lambda d: d.replicates("JKn").replicates("JKn"), "cannot be made of a design with replicate weights"),
    (lambda d: d.calibrate({"h": {0: 9, 1: 9}}).replicates("JKn"), "cannot be made of a design with calibrated"),
    (lambda d: estimate(d, "y", estimator="replicates"), "has no replicate weights"),
    (lambda d: estimate(d.replicates("JKn"), "y", estimator="samplics"), "samplics has no variance from these"),
]


@pytest.mark.parametrize(("work", "message"), REFUSED)
def test_refusals(work, message):
    frame = pd.DataFrame({"h": [0, 0, 0, 1, 1, 1], "w": 2.0, "y": [1.0, 2, 3, 4, 5, 6]})
    with pytest.raises(InputError, match=message):
        work(SurveyDesign(frame, weights="w", strata="h"))


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"scale": 0.5}, "go with replicate_weights="),
        ({"replicate_weights": ["r1", "w"]}, "given two roles, weights and replicate_weights"),
        ({"replicate_weights": ["r1", "r9"]}, "no column 'r9'"),
    ],
)
def test_columns_that_are_no_replicates(roles, message):
    frame = pd.DataFrame({"w": [1.0, 2, 3], "r1": [2.0, 0, 3], "r2": [0.0, 4, 3]})
    with pytest.raises(InputError, match=message):
        SurveyDesign(frame, weights="w", **roles)
