"""Differences against R's svycontrast, and against what they are made of."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from test_taylor import CLUS1, CLUS2, FEW, NHANES, STRAT, designs, svydesign

import surveysynth as ss
from surveysynth import InputError, SurveyDesign, difference, estimate

SCENARIOS = {
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, "api00", "sch.wide", ("Yes", "No")),
    "clus1": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "enroll", "stype", ("E", "H")),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00", "stype", ("H", "M")),
    "nhanes": ("na.omit(nhanes)", NHANES, "HI_CHOL", "race", (1, 3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("statistic", ["mean", "total"])
def test_differences_of_two_domains_equal_r(name, statistic, r, r_frame, to_r):
    """The covariance of the two is R's: svyby(covmat = TRUE) and svycontrast."""
    dataset, roles, outcome, column, (a, b) = SCENARIOS[name]
    frame = r_frame(dataset)
    to_r("d", frame)
    contrast = r_frame(f"""local({{
        by <- svyby(~{outcome}, ~{column}, {svydesign(roles)}, svy{statistic}, na.rm = TRUE, covmat = TRUE)
        k <- (by${column} == {a!r}) - (by${column} == {b!r})
        d <- svycontrast(by, k)
        data.frame(estimate = coef(d)[[1]], se = SE(d)[[1]])
    }})""")
    table = difference(
        SurveyDesign(frame, **roles), outcome, statistic=statistic, between={column: (a, b)}, missing="drop"
    )
    np.testing.assert_allclose(table[["estimate", "se"]].to_numpy(), contrast.to_numpy(), rtol=1e-9)
    assert table["contrast"].tolist() == [f"{a} - {b}"]
    assert table["n"][0] == frame.loc[frame[column].isin([a, b]), outcome].notna().sum()


def test_two_periods_of_a_panel_share_their_psus(r, r_frame, to_r):
    """Twice the same schools: R's svycontrast of two columns of one design, ours of two halves of a long file."""
    frame = r_frame("apiclus1")
    to_r("d", frame)
    expected = r_frame(f"""local({{
        means <- svymean(~api99 + api00, {svydesign(CLUS1)})
        d <- svycontrast(means, c(-1, 1))
        data.frame(estimate = coef(d)[[1]], se = SE(d)[[1]], apart = sqrt(sum(SE(means)^2)))
    }})""")
    long = pd.concat([frame.assign(year=year, api=frame[f"api{year}"]) for year in ("99", "00")])
    table = difference(SurveyDesign(long, **CLUS1), "api", between={"year": ("00", "99")})
    np.testing.assert_allclose(table[["estimate", "se"]].to_numpy()[0], expected.to_numpy()[0, :2], rtol=1e-9)
    assert table["se"][0] < 0.5 * expected["apart"][0]  # the same PSUs twice


def test_two_independent_surveys_add_their_variances(r_frame):
    first, second = (SurveyDesign(r_frame(name), weights="pw", **roles)
                     for name, roles in (("apistrat", {"strata": "stype"}), ("apiclus1", {"psu": "dnum"})))  # fmt: skip
    statistics = ["mean", "total", "count", "ratio", "quantile"]
    asked = {"outcome": "api00", "by": "sch.wide", "statistic": statistics, "denominator": "enroll"}
    table = difference({"strat": first, "clus": second}, **asked)
    one, other = (estimate(design, **asked) for design in (first, second))
    np.testing.assert_allclose(table["estimate"], one["estimate"] - other["estimate"], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(table["se"] ** 2, one["se"] ** 2 + other["se"] ** 2, rtol=1e-12)
    u, v = one["se"] ** 2, other["se"] ** 2
    d, e = (np.tile(estimate(design, "api00", "sch.wide")["df"], len(statistics)) for design in (first, second))
    welch = (u + v) ** 2 / (u**2 / d + v**2 / e)
    np.testing.assert_allclose(table["df"], welch.where(u + v > 0, d + e), rtol=1e-9)
    assert table["n"].tolist() == (one["n"] + other["n"]).tolist() and set(table["contrast"]) == {"strat - clus"}


@pytest.mark.slow
@FEW
@given(designs())
def test_a_difference_is_that_of_the_estimates_and_has_a_sign(made):
    frame, roles = made
    design = SurveyDesign(frame, **roles)
    if frame["b"].nunique() < 2:
        with pytest.raises(InputError, match="no record has the"):
            difference(design, "y", "a", between={"b": (True, False)})
        return
    statistics = ["mean", "total", "count"]
    table = difference(design, "y", "a", statistics, between={"b": (True, False)})
    again = difference(design, "y", "a", statistics, between={"b": (False, True)})
    np.testing.assert_allclose(table["estimate"], -again["estimate"], rtol=1e-12)
    np.testing.assert_allclose(table["se"], again["se"], rtol=1e-12)
    cells = estimate(design, "y", ["a", "b"], statistics)
    parts = cells[cells["b"].isin([True, False])].pivot(index=["statistic", "a"], columns="b", values="estimate")
    keys = list(table[["statistic", "a"]].itertuples(index=False, name=None))
    parts = parts.loc[keys]
    empty = parts.isna().any(axis=1).to_numpy()
    expected = (parts[True] - parts[False]).to_numpy()
    scale = parts.abs().sum(axis=1).to_numpy()[~empty]
    assert (np.abs(table["estimate"].to_numpy()[~empty] - expected[~empty]) <= 1e-12 * scale).all()
    means = (table["statistic"] == "mean").to_numpy()
    assert table["estimate"].to_numpy()[empty & means].size == 0 or np.isnan(table["estimate"][empty & means]).all()


def test_replicates_of_a_difference():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"h": np.repeat([0, 1, 2], 20), "w": rng.uniform(1, 3, 60), "y": rng.normal(5, 1, 60)})
    frame["g"] = rng.choice(["f", "m"], 60)
    design = SurveyDesign(frame, weights="w", strata="h")
    taylor = difference(design, "y", statistic="total", between={"g": ("f", "m")})
    jackknife = difference(design.replicates("JKn"), "y", statistic="total", between={"g": ("f", "m")})
    assert jackknife.attrs["estimator"] == "replicates" and taylor.attrs["estimator"] == "onepass"
    np.testing.assert_allclose(jackknife["se"], taylor["se"], rtol=1e-10)  # equal for totals


REFUSED = [
    ({"between": None}, "between must map one column to the two categories"),
    ({"between": {"g": ("f", "m"), "h": (0, 1)}}, "between must map one column"),
    ({"between": {"g": "fm"}}, "two different categories of 'g'"),
    ({"between": {"g": ("f", "f")}}, "two different categories of 'g'"),
    ({"between": {"g": ("f", "x")}}, "no record has the second category of 'g'"),
    ({"between": {"k": ("f", "m")}}, "no column 'k'"),
    ({"between": {"g": ("f", "m")}, "by": "g"}, "'g' is compared"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refusals(arguments, message):
    frame = pd.DataFrame({"w": 1.0, "y": [1.0, 2, 3, 4], "g": list("ffmm"), "h": [0, 1, 0, 1]})
    with pytest.raises(InputError, match=message):
        difference(SurveyDesign(frame, weights="w"), "y", **arguments)


def test_two_designs_that_cannot_be_compared():
    frame = pd.DataFrame({"w": 1.0, "y": [1.0, 2, 3, 4], "g": list("ffmm")})
    one, other = SurveyDesign(frame, weights="w"), SurveyDesign(frame.assign(g="f"), weights="w")
    with pytest.raises(InputError, match="do not have the same categories of g"):
        difference({"a": one, "b": other}, "y", "g")
    with pytest.raises(InputError, match="two designs are compared, not 1"):
        difference({"a": one}, "y")
    with pytest.raises(InputError, match="between= compares domains of one design"):
        difference({"a": one, "b": other}, "y", between={"g": ("f", "m")})
    with pytest.raises(InputError, match="need a SurveyDesign, not DataFrame"):
        ss.difference(frame, "y", between={"g": ("f", "m")})


def test_labels_of_designs_need_not_be_text_and_categories_not_of_one_type():
    frame = pd.DataFrame({"w": 1.0, "y": [1.0, 2, 3, 4], "g": [1, 1, 2, 2]})
    one, other = (SurveyDesign(frame.astype({"g": t}), weights="w") for t in (int, float))
    table = difference({2025: one, 2024: other}, "y", "g")
    assert table["contrast"].tolist() == ["2025 - 2024"] * 3 and (table["estimate"] == 0).all()
