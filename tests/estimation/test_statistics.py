"""Proportions, ratios and quantiles against R's survey and samplics."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, assert_same, designs, svydesign

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.r import exchange

PROBS = [0.2501, 0.5003, 0.7502, 0.9001]  # R is at the mercy of rounding where a share is reached exactly

R_TABLES = """
proportion_table <- function(design, outcome, by) {
  labels <- sort(unique(design$variables[[outcome]]))
  parts <- lapply(labels, function(label) {
    design <- update(design, hit = as.numeric(design$variables[[outcome]] == label))
    one <- function(d) {
      p <- svymean(~hit, d, na.rm = TRUE)
      ci <- as.numeric(attr(svyciprop(~hit, d, method = "logit", df = left(d, outcome), na.rm = TRUE), "ci"))
      if (abs(coef(p) - round(coef(p))) < 1e-12) {
        ci <- of_all_or_none(round(coef(p)), sum(!is.na(d$variables$hit)), left(d, outcome))
      }
      data.frame(estimate = coef(p)[[1]], se = SE(p)[[1]], ci_low = ci[1], ci_high = ci[2], df = left(d, outcome))
    }
    cbind(category = label, each(design, by, one))
  })
  do.call(rbind, parts)
}
ratio_table <- function(design, numerator, denominator, by) {
  each(design, by, function(d) {
    q <- svyratio(reformulate(numerator), reformulate(denominator), d, na.rm = TRUE)
    ci <- confint(q, df = left(d, c(numerator, denominator)))
    df <- left(d, c(numerator, denominator))
    data.frame(estimate = coef(q)[[1]], se = SE(q)[[1]], ci_low = ci[1], ci_high = ci[2], df)
  })
}
quantile_table <- function(design, outcome, probs, by) {
  each(design, by, function(d) {
    q <- svyquantile(reformulate(outcome), d, probs, df = left(d, outcome), na.rm = TRUE)[[1]]
    # a share below that of the smallest value has that value for its quantile; survey 4.1-1 gives the next one
    x <- d$variables[[outcome]]
    smallest <- function(p) p > 0 & p < weighted.mean(x == min(x, na.rm = TRUE), weights(d), na.rm = TRUE)
    low <- sapply(q[, 1], function(value) {
      share <- svymean(~hit, update(d, hit = as.numeric(x <= value)), na.rm = TRUE)
      coef(share)[[1]] - qt(0.975, left(d, outcome)) * SE(share)[[1]]
    })
    mended <- smallest(low) & !smallest(probs) & q[, 2] > min(x, na.rm = TRUE)
    q[mended, 2] <- min(x, na.rm = TRUE)
    q[mended, 4] <- (q[mended, 3] - q[mended, 2]) / (2 * qt(0.975, left(d, outcome)))
    data.frame(prob = probs, estimate = q[, 1], se = q[, 4], ci_low = q[, 2], ci_high = q[, 3], mended = mended,
               df = left(d, outcome))
  })
}
# where svyciprop has NaN: its method "beta" with n records instead of p (1 - p) / variance
of_all_or_none <- function(p, n, df) {
  n_eff <- n * min(1, (qt(0.975, n - 1) / qt(0.975, df))^2)
  if (p == 0) c(0, qbeta(0.975, 1, n_eff)) else c(qbeta(0.025, n_eff, 1), 1)
}
left <- function(d, columns) degf(d[which(complete.cases(d$variables[columns])), ])
each <- function(design, by, f) {
  if (length(by) == 0) return(f(design))
  groups <- unique(design$variables[by])
  parts <- lapply(seq_len(nrow(groups)), function(i) {
    inside <- rep(TRUE, nrow(design$variables))
    for (b in by) inside <- inside & design$variables[[b]] == groups[i, b]
    cbind(f(subset(design, inside)), groups[i, , drop = FALSE], row.names = NULL)
  })
  do.call(rbind, parts)
}
"""

SCENARIOS = {
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, ["stype", "awards"], ("enroll", "api.stu"), "both", "api00"),
    "clus1": ("apiclus1", CLUS1, ["sch.wide"], ("api.stu", "enroll"), "stype", "enroll"),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, ["both"], ("api.stu", "enroll"), "stype", "api00"),
    "nhanes": ("nhanes", NHANES, ["race", "RIAGENDR"], ("HI_CHOL", "SDMVPSU"), "agecat", "WTMEC2YR2"),
    "lonely": ("lonely", NHANES, ["race"], ("HI_CHOL", "SDMVPSU"), "agecat", "WTMEC2YR2"),
}


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request, r, r_frame, to_r):
    name, roles, by, ratio, category, outcome = SCENARIOS[request.param]
    frame = r_frame("transform(nhanes, WTMEC2YR2 = round(sqrt(WTMEC2YR)))" if name in ("nhanes", "lonely") else name)
    if name == "lonely":  # all four options are in test_taylor; here only that they get there
        frame = frame[~((frame["SDMVSTRA"] == frame["SDMVSTRA"].min()) & (frame["SDMVPSU"] == 2))]
    option = "adjust" if name == "lonely" else "fail"
    r.r(R_TABLES)
    to_r("d", frame)
    r.r(f"options(survey.lonely.psu = '{option}'); design <- {svydesign(roles)}")
    design = SurveyDesign(r_frame("d"), **roles, lonely_psu=option)
    yield request.param, design, by, ratio, category, outcome
    r.r("options(survey.lonely.psu = 'fail')")


def in_every_subset(r_frame, call, by):
    """R's table of all cells, margins and the total; ``call`` takes the R vector of names."""
    parts = []
    for size in range(len(by) + 1):
        for names in combinations(by, size):
            part = r_frame(call(f"c({', '.join(map(repr, names))})"))
            parts.append(part.assign(**dict.fromkeys(set(by) - set(names), "all")))
    return pd.concat(parts)


def test_proportions_equal_r(scenario, r_frame):
    _, design, by, _, category, _ = scenario
    expected = in_every_subset(r_frame, lambda names: f"proportion_table(design, '{category}', {names})", by)
    table = estimate(design, category, by, "proportion", missing="drop")
    certain = ((expected["estimate"] == 0) | (expected["estimate"] == 1)).to_numpy()
    expected.loc[certain, "se"] = 0.0
    # svyciprop fits a logistic regression, to a tolerance of its own
    limits = ["ci_low", "ci_high"]
    loose = table.assign(**{c: expected_in_order(table, expected, by, c) for c in limits})
    np.testing.assert_allclose(table[limits], loose[limits], rtol=1e-6, atol=1e-9)
    assert_same(loose.assign(statistic="p"), expected.assign(statistic="p"), [*by, "category"])


def expected_in_order(table, expected, by, column):
    keys = [*by, "category"]
    known = expected.set_index([expected[k].astype(str) for k in keys])[column]
    return known.loc[list(table[keys].astype(str).itertuples(index=False, name=None))].to_numpy()


@pytest.mark.parametrize("estimator", ["onepass", "samplics"])
def test_ratios_equal_r(scenario, r_frame, estimator):
    name, design, by, (numerator, denominator), _, _ = scenario
    call = f"ratio_table(design, '{numerator}', '{denominator}', "
    expected = in_every_subset(r_frame, lambda names: call + names + ")", by)
    if estimator == "samplics" and name in ("clus2 fpc", "lonely"):
        with pytest.raises(InputError, match="samplics has no"):
            estimate(design, numerator, by, "ratio", denominator=denominator, estimator=estimator, missing="drop")
        return
    table = estimate(design, numerator, by, "ratio", denominator=denominator, estimator=estimator, missing="drop")
    assert set(table["outcome"]) == {f"{numerator} / {denominator}"} and table.attrs["estimator"] == estimator
    assert_same(table, expected.assign(statistic="ratio"), by)


@pytest.mark.slow
def test_quantiles_and_woodruff_intervals_equal_r(scenario, r_frame):
    _, design, by, _, _, outcome = scenario
    probs = f"c({', '.join(map(str, PROBS))})"
    expected = in_every_subset(r_frame, lambda names: f"quantile_table(design, '{outcome}', {probs}, {names})", by)
    table = estimate(design, outcome, by, "quantile", quantiles=PROBS, missing="drop")
    assert table.attrs["estimator"] == "onepass"
    assert_same(table.assign(statistic="q"), expected.assign(statistic="q"), [*by, "prob"])
    assert expected["ci_low"].notna().sum() > 6 and expected["mended"].mean() < 0.2
    with pytest.raises(InputError, match="samplics has no Woodruff intervals"):
        estimate(design, outcome, by, "quantile", estimator="samplics", missing="drop")


def test_proportions_of_samplics_are_the_same(scenario):
    name, design, by, _, category, _ = scenario
    if name in ("clus2 fpc", "lonely"):
        return
    one, other = (estimate(design, category, by, "proportion", estimator=e) for e in ("onepass", "samplics"))
    pd.testing.assert_frame_equal(one, other, rtol=1e-10, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(designs(), st.floats(0.02, 0.98))
def test_a_quantile_is_the_first_value_that_reaches_its_share(made, prob):
    frame, roles = made
    table = estimate(SurveyDesign(frame, **roles), "y", ["a"], "quantile", quantiles=prob)
    for label, value in zip(table["a"], table["estimate"], strict=True):
        part = frame if label == "all" else frame[frame["a"] == label]
        share = part.loc[part["y"] <= value, "w"].sum() / part["w"].sum()
        below = part.loc[part["y"] < value, "w"].sum() / part["w"].sum()
        assert share >= prob * (1 - 1e-9) and below < prob * (1 + 1e-9) and value in set(part["y"])


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 1 / 49, 1.1])
def test_equal_weights_reach_a_share_exactly(weight):
    """Sums of such weights miss k/20 by rounding; the k-th of twenty equal records is that quantile nevertheless."""
    frame = pd.DataFrame({"y": np.arange(1.0, 21), "w": weight})
    table = estimate(SurveyDesign(frame, weights="w"), "y", None, "quantile", quantiles=np.arange(1, 20) / 20)
    assert table["estimate"].tolist() == list(range(1, 20))


def test_proportions_are_of_those_who_answered():
    frame = pd.DataFrame({"y": ["a", None, "b", "a"], "w": [1.0, 5.0, 2.0, 1.0]})
    table = estimate(SurveyDesign(frame, weights="w"), "y", statistic="proportion", missing="drop")
    assert table["estimate"].tolist() == [0.5, 0.5] and table["n"].tolist() == [3, 3]


def test_the_columns_of_a_mixed_table():
    frame = pd.DataFrame({"y": [1.0, 2, 3, 4], "x": [2.0, 2, 2, 2], "w": 1.0, "g": ["a", "b", "a", "b"]})
    table = estimate(SurveyDesign(frame, weights="w"), "y", "g", ["mean", "quantile", "proportion", "ratio"],
                     denominator="x", quantiles=[0.5, 0.75])  # fmt: skip
    assert table.columns[:5].tolist() == ["g", "statistic", "outcome", "category", "prob"]
    assert table["statistic"].value_counts().to_dict() == {"mean": 3, "quantile": 6, "proportion": 12, "ratio": 3}
    shares = table[table["statistic"] == "proportion"].groupby("g")["estimate"].sum()
    np.testing.assert_allclose(shares, 1)
    assert table.loc[table["statistic"] == "quantile", "prob"].tolist() == [0.5] * 3 + [0.75] * 3


@pytest.mark.parametrize(
    ("y", "names"),
    [([0, 1, 1, 0], ["0", "1"]), ([0.0, 1, 1, 0], ["0", "1"]), ([2.5, 1, 1, 2.5], ["1", "2.5"]),
     ([False, True, True, False], ["False", "True"]), (["n", "y", "y", "n"], ["n", "y"])],
)  # fmt: skip
def test_a_table_with_a_proportion_goes_to_parquet_and_to_r(y, names, tmp_path):
    frame = pd.DataFrame({"y": y, "t": list("abba"), "w": [1.0, 2, 3, 4]})
    table = estimate(SurveyDesign(frame, weights="w"), ["y", "t"], statistic=["count", "proportion"])
    assert table["category"].tolist() == ["", *names, "a", "b"]
    table.to_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "table.parquet"), table)
    (column,) = (column for column in exchange.encode(table) if column.name == "category")
    assert (column.type, column.levels) == ("character", ["", *names, "a", "b"])


@pytest.mark.parametrize("statistic", ["mean", "total", "proportion", "quantile", "ratio"])
def test_an_outcome_that_nobody_has_is_refused(statistic):
    frame = pd.DataFrame({"y": [np.nan] * 3, "x": 1.0, "w": 1.0})
    outcome, denominator = ("x", "y") if statistic == "ratio" else ("y", None)
    with pytest.raises(InputError, match="'y' is missing in every record"):
        estimate(SurveyDesign(frame, weights="w"), outcome, None, statistic, denominator=denominator, missing="drop")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"statistic": "ratio"}, "'ratio' and denominator= go together"),
        ({"statistic": "mean", "denominator": "w"}, "'ratio' and denominator= go together"),
        ({"statistic": "quantile", "quantiles": 1.5}, "quantiles=1.5 must be probabilities between 0 and 1"),
        ({"statistic": "quantile", "quantiles": []}, "must be probabilities"),
        ({"statistic": "quantile", "quantiles": ["median"]}, "must be probabilities"),
        ({"outcome": "late", "statistic": "proportion"}, r"outcome 'late' is missing in 1 row \(row numbers 2;"),
        ({"statistic": "ratio", "denominator": "late"}, "column 'late' is not a number"),
        ({"statistic": "ratio", "denominator": "none"}, "no column 'none'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    frame = pd.DataFrame({"y": [1.0, 2, 3], "w": 1.0, "late": ["a", None, "b"]})
    with pytest.raises(InputError, match=message):
        estimate(SurveyDesign(frame, weights="w"), **({"outcome": "y"} | arguments))


def test_proportions_are_of_categories():
    frame = pd.DataFrame({"y": np.arange(501.0), "w": 1.0})
    with pytest.raises(InputError, match="outcome 'y' has 501 different values; proportions need categories"):
        estimate(SurveyDesign(frame, weights="w"), "y", statistic="proportion")


def test_a_quantile_that_the_data_do_not_bound_has_no_limits():
    frame = pd.DataFrame({"y": [1.0, 2, 3, 4, 5, 9], "g": [1, 1, 1, 1, 1, 2], "w": 1.0})
    table = estimate(SurveyDesign(frame, weights="w"), "y", "g", "quantile", quantiles=0.95).set_index("g")
    assert table["estimate"].tolist() == [5, 9, 9] and table["se"].isna().all() and table["ci_high"].isna().all()


def test_a_ratio_to_nothing_is_missing_whoever_computes_it():
    frame = pd.DataFrame({"y": [1.0, 2, 3, 4], "x": [0.0, 0, 2, 2], "g": [1, 1, 2, 2], "w": 1.0})
    for estimator in ("samplics", "onepass"):
        table = estimate(SurveyDesign(frame, weights="w"), "y", "g", "ratio", denominator="x", estimator=estimator)
        np.testing.assert_array_equal(table["estimate"].isna(), [True, False, False])
        np.testing.assert_array_equal(table["se"].isna(), [True, False, False])


@pytest.mark.filterwarnings("error")
def test_categories_that_no_record_has_are_no_categories():
    frame = pd.DataFrame({"y": pd.Categorical(["low", "high", "high"], ["low", "none", "high"]), "w": 1.0})
    table = estimate(SurveyDesign(frame, weights="w"), "y", statistic="proportion", estimator="onepass")
    assert table["category"].tolist() == ["low", "high"]
    with pytest.raises(InputError, match="outcome 'y' is missing in every record"):
        estimate(SurveyDesign(frame.assign(y=None), weights="w"), "y", statistic="proportion", missing="drop")
