"""Missing outcomes left out record by record, as R's na.rm = TRUE does, or by outcome; missing categories of ``by``."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from test_zero_weights import ROLES, also_in_r
from test_zero_weights import same as equal_to_r

from surveysynth import InputError, SurveyDesign, correlations, difference, estimate, joint_estimates

same = partial(equal_to_r, rtol=1e-10)


@pytest.fixture(scope="module", params=[*ROLES, "replicates"])
def holes(request, r, r_frame, to_r):
    """Two outcomes, each missing elsewhere, and a category that is missing in other records."""
    name = "apistrat" if request.param == "replicates" else request.param
    frame, rng = r_frame(name), np.random.default_rng(5)
    for column, share in {"api00": 0.2, "api99": 0.25, "meals": 0.1, "awards": 0.15}.items():
        frame[column] = frame[column].where(rng.random(len(frame)) > share)
    return also_in_r(name, frame, r, to_r, replicates=request.param == "replicates")


BOTH = ["api00", "api99"]


@pytest.mark.parametrize("statistic", ["mean", "total"])
def test_drop_leaves_out_the_record_as_r_does(holes, r, statistic):
    table = estimate(holes, BOTH, statistic=statistic, missing="drop")
    same(table, r, f"svy{statistic}(~api00 + api99, design, na.rm = TRUE)")
    both = holes.frame[BOTH].notna().all(axis=1)
    assert table["n"].tolist() == [both.sum()] * 2 and table.attrs["missing"] == "drop"
    domain = estimate(holes, BOTH, where=lambda f: f.stype == "E", statistic=statistic, missing="drop")
    same(domain, r, f"svy{statistic}(~api00 + api99, subset(design, stype == 'E'), na.rm = TRUE)")


def test_available_leaves_out_by_outcome(holes, r):
    table = estimate(holes, BOTH, missing="available")
    for i, outcome in enumerate(BOTH):
        same(table.iloc[[i]], r, f"svymean(~{outcome}, design, na.rm = TRUE)")
    assert table["n"].tolist() == holes.frame[BOTH].notna().sum().tolist() and table.attrs["missing"] == "available"
    dropped = estimate(holes, BOTH, missing="drop")
    assert (table["estimate"] != dropped["estimate"]).all() and (table["n"] > dropped["n"]).all()


@pytest.mark.parametrize("missing", ["drop", "available"])
def test_of_one_outcome_both_are_the_same(holes, missing):
    one, other = (estimate(holes, "api00", ["stype"], missing=m) for m in ("drop", missing))
    pd.testing.assert_frame_equal(one, other)


def test_by_domain_as_svyby(holes, r):
    table = estimate(holes, BOTH, "stype", missing="drop")
    same(table[table["stype"] != "all"], r, "svyby(~api00 + api99, ~stype, design, svymean, na.rm = TRUE)")
    same(table[table["stype"] == "all"], r, "svymean(~api00 + api99, design, na.rm = TRUE)")


def test_medians_and_ratios(holes, r):
    table = estimate(holes, BOTH, statistic="quantile", missing="drop")
    r.r("q <- svyquantile(~api00 + api99, design, .5, na.rm = TRUE)")
    theirs = np.array([r.r(f"as.numeric(q[[{i}]])") for i in (1, 2)])
    np.testing.assert_allclose(table[["estimate", "ci_low", "ci_high", "se"]], theirs, rtol=1e-10)
    ratios = estimate(holes, BOTH, statistic="ratio", denominator="meals", missing="drop")
    same(ratios, r, "svyratio(~api00 + api99, ~meals, design, na.rm = TRUE)")
    assert ratios["n"].nunique() == 1


def test_joint_estimates_have_r_s_covariances(holes, r):
    joint = joint_estimates(holes, BOTH, missing="drop")
    r.r("m <- svymean(~api00 + api99, design, na.rm = TRUE)")
    np.testing.assert_allclose(joint.estimates[0], r.r("as.numeric(coef(m))"), rtol=1e-10)
    np.testing.assert_allclose(joint.covariance, np.array(r.r("matrix(vcov(m), 2)")), rtol=1e-10)
    by = joint_estimates(holes, BOTH, "stype", missing="drop")
    r.r("s <- svyby(~api00 + api99, ~stype, subset(design, !is.na(api00 + api99)), svymean, covmat = TRUE)")
    np.testing.assert_allclose(by.estimates[0], r.r("as.numeric(coef(s))"), rtol=1e-10)
    np.testing.assert_allclose(by.table["se"], r.r("as.numeric(unlist(SE(s)))"), rtol=1e-10)


def test_differences_drop_the_record(holes, r):
    gap = difference(holes, BOTH, between={"stype": ("E", "H")}, missing="drop")
    complete = holes.frame[BOTH].notna().all(axis=1) & holes.frame["stype"].isin(["E", "H"])
    assert gap["n"].tolist() == [complete.sum()] * 2
    means = estimate(holes, BOTH, "stype", missing="drop").set_index(["outcome", "stype"])["estimate"]
    np.testing.assert_allclose(gap["estimate"], [means[o, "E"] - means[o, "H"] for o in BOTH], rtol=1e-12)


def test_counts_are_of_all_records(holes):
    table = estimate(holes, BOTH, statistic=["count", "mean"], missing="drop")
    alone = estimate(holes, statistic="count")
    np.testing.assert_array_equal(table.loc[:0, ["estimate", "se", "n"]], alone[["estimate", "se", "n"]])


# missing categories of by


def test_the_row_all_is_of_all_records(holes, r):
    """R's svyby has no row for who lacks the category, and svymean is of everybody."""
    gone = int(holes.frame["awards"].isna().sum())
    for missing in ("drop", "available"):
        with pytest.warns(UserWarning, match=rf"rows 'all' include all records, also {gone} without 'awards'"):
            table = estimate(holes, "api.stu", "awards", missing=missing)
        same(table[table["awards"] == "all"], r, "svymean(~api.stu, design)")
        same(table[table["awards"] != "all"], r, "svyby(~api.stu, ~awards, design, svymean)")
        assert table.attrs["without"] == {"awards": gone}
        assert table["n"].tolist()[-1] - table["n"].iloc[:-1].sum() == gone
    with pytest.warns(UserWarning, match="'awards'"):
        crossed = estimate(holes, "api.stu", ["awards", "stype"], missing="drop")
    assert set(crossed["stype"]) == {"E", "H", "M", "all"}
    by_type = crossed[(crossed["awards"] == "all") & (crossed["stype"] != "all")]
    same(by_type, r, "svyby(~api.stu, ~stype, design, svymean)")
    with pytest.warns(UserWarning, match="'awards'"):
        gap = difference(holes, "api.stu", "awards", between={"stype": ("E", "H")}, missing="drop")
    sides = holes.frame["stype"].isin(["E", "H"])
    assert gap.attrs["without"] == {"awards": int((holes.frame["awards"].isna() & sides).sum())}


def test_where_no_category_is_missing_nothing_is_said(holes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate(holes, BOTH, "stype", missing="drop").attrs["without"] == {}
        assert estimate(holes, "api.stu", "stype").attrs["missing"] == "fail"
    with pytest.raises(InputError, match="by column 'awards' is missing in"):
        estimate(holes, "api.stu", "awards")


FRAME = pd.DataFrame({"a": [1.0, np.nan, 3, np.nan], "b": [np.nan, 2.0, np.nan, 4], "w": 1.0})


def test_refusals():
    design = SurveyDesign(FRAME, weights="w")
    with pytest.raises(InputError, match=r"no record has all outcomes: .*missing='available'"):
        estimate(design, ["a", "b"], missing="drop")
    assert estimate(design, ["a", "b"], missing="available")["estimate"].tolist() == [2, 3]
    with pytest.raises(InputError, match=r"'a' is missing in 2 rows .*missing='drop' .*'available'"):
        estimate(design, ["a", "b"])
    with pytest.raises(InputError, match="missing='ignore' is not one of fail, drop, available"):
        estimate(design, "a", missing="ignore")
    with pytest.raises(InputError, match="missing='available' is not one of fail, drop"):
        correlations(design, ["a", "b"], missing="available")
