"""Estimates of the records that meet a condition, against R's subset(), and on releases."""

import numpy as np
import pandas as pd
import pytest
from surveys import PSEUDO, make_design, make_frame, model
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, svydesign

import surveysynth as ss
from surveysynth import InputError, SurveyDesign, difference, estimate

SCENARIOS = {
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, "api00", lambda f: f.enroll > 400, "enroll > 400"),
    "clus1": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "enroll", lambda f: f.stype == "H", "stype == 'H'"),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00", lambda f: f.both == "Yes", "both == 'Yes'"),
    "nhanes": ("na.omit(nhanes)", NHANES, "HI_CHOL", lambda f: f.race == 2, "race == 2"),
}
R_SUBSET = """
subset_table <- function(design, outcome, domain) {
  s <- subset(design, eval(parse(text = domain)))
  y <- reformulate(outcome)
  m <- svymean(y, s); t <- svytotal(y, s); n <- svytotal(~one, s)
  df <- degf(s)
  q <- svyquantile(y, s, 0.5003, df = df)[[1]]
  data.frame(statistic = c("mean", "total", "count", "quantile"), estimate = c(coef(m), coef(t), coef(n), q[1, 1]),
             se = c(SE(m), SE(t), SE(n), q[1, 4]), df)
}
"""
STATISTICS = ["mean", "total", "count", "quantile"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_filter_is_rs_subset(name, r, r_frame, to_r):
    dataset, roles, outcome, where, text = SCENARIOS[name]
    frame = r_frame(dataset)
    to_r("d", frame.assign(one=1.0))
    r.r(R_SUBSET)
    expected = r_frame(f"subset_table({svydesign(roles)}, '{outcome}', \"{text}\")")
    design = SurveyDesign(frame, **roles)
    for estimator in ("auto", "onepass"):
        table = estimate(design, outcome, statistic=STATISTICS, quantiles=0.5003, where=where, estimator=estimator)
        for column in ("estimate", "se", "df"):
            np.testing.assert_allclose(table[column], expected[column], rtol=1e-8, err_msg=f"{column} by {estimator}")
    assert table["n"].tolist() == [int(where(frame).sum())] * 4


def test_replicates_calibrated_weights_and_pps_have_rs_subset(r, r_frame, to_r):
    frame = r_frame("apiclus1")
    to_r("d", frame.assign(one=1.0))
    r.r("rep <- as.svrepdesign(svydesign(id = ~dnum, weights = ~pw, data = d), type = 'JK1', mse = TRUE)")
    r.r("""post <- postStratify(svydesign(id = ~dnum, weights = ~pw, data = d), ~stype,
                                data.frame(stype = c('E', 'H', 'M'), Freq = c(4421, 755, 1018)))""")
    plain = SurveyDesign(frame, **CLUS1)
    made = {"rep": plain.replicates("JK1"), "post": plain.calibrate({"stype": {"E": 4421, "H": 755, "M": 1018}})}
    for name, design in made.items():
        expected = r_frame(f"""local({{
            s <- subset({name}, enroll > 500)
            m <- svymean(~api00, s); t <- svytotal(~api00, s)
            data.frame(estimate = c(coef(m), coef(t)), se = c(SE(m), SE(t)))
        }})""")
        table = estimate(design, "api00", statistic=["mean", "total"], where=lambda f: f.enroll > 500)
        np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-7, err_msg=name)


def test_a_filter_is_the_domain_of_a_by_column_everywhere():
    """The estimates of where= are those of by= with that domain, for cells and margins, differences, pps and lonely."""
    frame = make_frame(300).assign(old=lambda f: f.hours > 40, age=lambda f: np.where(f.hours > 40, "old", "young"))
    designs = [
        SurveyDesign(frame, weights="wt", strata="field"),
        SurveyDesign(frame, weights="wt").replicates(R=30, seed=1),
        SurveyDesign(frame.assign(p=lambda f: 1 / f.wt.clip(1.5)), probs="p", pps="poisson"),
        SurveyDesign(frame.assign(p=lambda f: 1 / f.wt.clip(1.5)), probs="p", strata="field", pps="hajek"),
    ]
    statistics = ["mean", "total", "count", "quantile", "ratio"]
    for design in designs:
        asked = {"statistic": statistics, "denominator": "hours"}
        whole = estimate(design, "income", ["age", "gender"], **asked)
        expected = whole[whole["age"] == "old"].drop(columns="age").sort_values(["statistic", "gender"])
        for where in ("old", lambda f: f.hours > 40):
            table = estimate(design, "income", "gender", where=where, **asked).sort_values(["statistic", "gender"])
            pd.testing.assert_frame_equal(table.reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-10)
        gaps = difference(design, "income", "age", between={"gender": ("m", "f")})
        gap = difference(design, "income", between={"gender": ("m", "f")}, where="old")
        numbers = ["estimate", "se", "df", "n"]
        np.testing.assert_allclose(gap[numbers], gaps.loc[gaps["age"] == "old", numbers], rtol=1e-10)


def test_missing_values_outside_the_filter_do_not_matter():
    frame = make_frame(100)
    frame.loc[frame.gender == "m", "income"] = np.nan
    frame.loc[frame.gender == "m", "field"] = None
    design = SurveyDesign(frame, weights="wt")
    table = estimate(design, "income", "field", where=lambda f: f.gender == "f")
    assert table["n"].sum() == 2 * (frame.gender == "f").sum()
    with pytest.raises(InputError, match="outcome 'income' is missing in"):
        estimate(design, "income")
    with pytest.raises(InputError, match="'income' is missing in every record"):
        estimate(design, "income", where=lambda f: f.gender == "m")
    met = pd.array([True, None, False, True], dtype="boolean")
    small = SurveyDesign(pd.DataFrame({"w": 1.0, "y": [1.0, 5, 7, 3], "met": met}), weights="w")
    assert estimate(small, "y", where="met")["estimate"][0] == 2.0  # R's subset leaves NA out


WRONG = [
    ("income", "where must be True or False for each record, which the column 'income' is not"),
    ("nobody", "where: there is no column 'nobody'"),
    (lambda f: f.income, "where must be True or False"),
    (lambda f: f.income < 0, "no record meets the condition"),
    (lambda f: f.income > f.income.median(), "'where' is not row-wise"),
    (lambda f: f.missing > 1, "'where' stopped with AttributeError"),
    (7, "where must be a function of the frame"),
]


@pytest.mark.parametrize(("where", "message"), WRONG)
def test_what_is_no_condition_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        estimate(make_design(), "income", where=where)
    with pytest.raises(InputError, match=message):
        difference(make_design(), "income", between={"gender": ("m", "f")}, where=where)


def test_two_designs_are_compared_in_a_filter():
    one, other = make_design(), make_design(seed=4)
    table = difference({"a": one, "b": other}, "income", where=lambda f: f.gender == "f")
    means = [estimate(d, "income", "gender").set_index("gender").loc["f"] for d in (one, other)]
    assert table["estimate"][0] == pytest.approx(means[0]["estimate"] - means[1]["estimate"])
    assert table["se"][0] == pytest.approx(np.hypot(means[0]["se"], means[1]["se"]))


def test_filters_on_a_release_are_domains_of_each_data_set(tmp_path):
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    made = release.assign(low=lambda f: f.income < 20_000)
    table = made.tables("gender", where="low")
    by = made.tables(["low", "gender"])
    expected = by[by["low"] == True].drop(columns="low")  # noqa: E712
    keys = ["statistic", "gender"]
    for found in (table, release.tables("gender", where=lambda f: f.income < 20_000)):
        pd.testing.assert_frame_equal(
            found.drop(columns="flag").sort_values(keys).reset_index(drop=True),
            expected.drop(columns="flag").sort_values(keys).reset_index(drop=True), rtol=1e-10,
        )  # fmt: skip
    gap = made.differences({"gender": ("m", "f")}, where="low").iloc[0]
    means = table[table["statistic"] == "mean"].set_index("gender")["estimate"]
    assert gap["estimate"] == pytest.approx(means["m"] - means["f"])
    hidden = made.tables("gender", where="low", min_cell=1000)
    assert hidden["estimate"].isna().all()
    text = made.write_tables(tmp_path / "t.md", "gender", where="low").read_text()
    assert "Mean of income, where “low”, by gender" in text
    for write in (made.write_tables, made.plot):
        with pytest.raises(InputError, match="must say which records it is of"):
            write(tmp_path / "t.svg" if write == made.plot else tmp_path / "t.md", where=lambda f: f.low)
        with pytest.raises(InputError, match="have 95% intervals"):  # as headings say
            write(tmp_path / "t.svg" if write == made.plot else tmp_path / "t.md", level=0.9)


def test_the_count_of_a_part_is_no_calibrated_total():
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    whole, part = release.tables(statistic="count"), release.tables(statistic="count", where=lambda f: f.gender == "f")
    assert "fixed by construction" in whole["flag"][0] and part["flag"][0] == ""
    assert part["estimate"][0] < whole["estimate"][0] and part["se"][0] > 0
