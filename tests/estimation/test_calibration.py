"""Post-stratified and raked weights and their standard errors against R's postStratify, rake and calibrate."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_taylor import API, CLUS1, CLUS2, R_TABLE, STATISTICS, STRAT, assert_same, svydesign

from surveysynth import InputError, SurveyDesign, difference, estimate

ROLES = {
    "apistrat": STRAT | {"fpc": "fpc"},
    "apiclus1": CLUS1 | {"fpc": "fpc"},
    "apiclus2": CLUS2 | {"fpc": ["fpc1", "fpc2"]},
    "apisrs": {"weights": "pw"},
}
MARGINS = ["stype", "sch.wide", "awards"]


@pytest.fixture(scope="module", params=ROLES)
def surveys(request, r, r_frame, to_r):
    frame = r_frame(request.param)
    to_r("d", frame)
    r.globalenv["r_table"] = r.r(R_TABLE)
    r.r(f"design <- {svydesign(ROLES[request.param])}")
    return SurveyDesign(frame, **ROLES[request.param])


@pytest.fixture(scope="module")
def known(r_frame):
    """Numbers of schools in California, by one or several columns."""

    def totals(*names):
        crossed = r_frame(f"as.data.frame(xtabs(~{' + '.join(names)}, apipop))")
        keys = crossed[[n.replace("-", ".") for n in names]].itertuples(index=False, name=None)
        return {k if len(names) > 1 else k[0]: float(v) for k, v in zip(keys, crossed["Freq"], strict=True)}

    return totals


def r_tables(r_frame, design, outcome, by):
    """Every cell, margin and total of an R design."""
    return pd.concat([
        r_frame(f"r_table({design}, '{outcome}', c({', '.join(map(repr, names))}), '{statistic}')")
        .assign(**dict.fromkeys(set(by) - set(names), "all"))
        for statistic in STATISTICS
        for size in range(len(by) + 1)
        for names in combinations(by, size)
    ])  # fmt: skip


@pytest.mark.slow
def test_raked_weights_and_standard_errors_equal_r(surveys, known, r, r_frame):
    """Weights also R's rake, whose variance centres on one margin after the other ten times: not yet the end."""
    r.r(f"""
        margin <- function(name) xtabs(reformulate(name), apipop)
        population <- c(nrow(apipop), margin("stype")[c("H", "M")], margin("sch.wide")["Yes"], margin("awards")["Yes"])
        names(population) <- c("(Intercept)", "stypeH", "stypeM", "sch.wideYes", "awardsYes")
        raked <- calibrate(design, ~{' + '.join(MARGINS)}, population, calfun = "raking", epsilon = 1e-12, maxit = 500)
        in_turn <- rake(design, list({', '.join('~' + m for m in MARGINS)}), lapply({MARGINS!r}, margin),
                        control = list(maxit = 2000, epsilon = 1e-11))
    """.replace("['", "c('").replace("']", "')"))  # fmt: skip
    design = surveys.calibrate({m: known(m) for m in MARGINS})
    for name, rtol in (("raked", 1e-9), ("in_turn", 1e-7)):
        np.testing.assert_allclose(design.weights, np.array(r.r(f"as.numeric(weights({name}))")), rtol=rtol)
    by = ["sch.wide", "both"]
    table = estimate(design, "api00", by, STATISTICS)
    assert_same(table, r_tables(r_frame, "raked", "api00", by), by, rtol=1e-7)
    counts = table[(table["statistic"] == "count") & (table["both"] == "all")]
    assert (counts["se"] == 0).all()  # of sch.wide, and of all: known


@pytest.mark.slow
def test_poststratified_by_crossed_columns_equals_r(surveys, known, r, r_frame):
    names = ["sch.wide", "comp.imp"]
    if surveys._frame[names].drop_duplicates().shape[0] < 4:
        with pytest.raises(InputError, match="categories that no record has"):
            surveys.calibrate({tuple(names): known(*names)})
        totals = {k: v for k, v in known(*names).items() if k != ("No", "Yes")}
    else:
        totals = known(*names)
    r.r("""post <- postStratify(design, ~sch.wide + comp.imp,
             subset(as.data.frame(xtabs(~sch.wide + comp.imp, apipop)),
                    paste(sch.wide, comp.imp) %in% with(design$variables, paste(sch.wide, comp.imp))))""")
    design = surveys.calibrate({tuple(names): totals})
    np.testing.assert_allclose(design.weights, np.array(r.r("as.numeric(weights(post))")), rtol=1e-12)
    table = estimate(design, "enroll", API, STATISTICS, missing="drop")
    assert_same(table, r_tables(r_frame, "post", "enroll", API), API)
    assert design.calibration.margins[0].max() + 1 == len(totals) and design.roles()["poststrata"] == [names]


def test_an_estimate_of_the_public_margins_has_no_error(surveys, known):
    design = surveys.calibrate({"stype": known("stype"), "awards": known("awards")})
    for name in ("stype", "awards"):
        table = estimate(design, by=name, statistic="count").set_index(name)
        assert (table["se"] == 0).all()
        np.testing.assert_allclose(table["estimate"].drop("all"), pd.Series(known(name)).sort_index(), rtol=1e-11)
    apart = difference(design, statistic="count", between={"awards": ("Yes", "No")})
    assert apart["se"][0] < 1e-6


def test_calibration_gains_where_the_margin_explains_the_outcome(surveys, known):
    """The outcome is nearly the margin's own value: most of its variance goes."""
    value = surveys.column("awards").map({"Yes": 10.0, "No": 0.0}) + np.arange(surveys.n) % 3
    frame = surveys.frame.assign(y=value)
    plain = SurveyDesign(frame, **surveys.roles())
    before, after = (estimate(d, "y")["se"][0] for d in (plain, plain.calibrate({"awards": known("awards")})))
    assert after < 0.6 * before


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 1))
def test_permuted_rows_and_renamed_categories_do_not_matter(seed, crossed):
    rng = np.random.default_rng(seed)
    n = 60
    frame = pd.DataFrame({"w": rng.uniform(1, 5, n), "y": rng.normal(0, 1, n), "a": rng.integers(0, 3, n)})
    frame["b"] = rng.permutation(np.arange(n) % 2)
    frame["a"] = np.where(frame.index < 6, frame.index // 2, frame["a"])  # no empty cells
    frame.loc[:5, "b"] = [0, 1, 0, 1, 0, 1]
    a, b = {k: 100.0 * (k + 1) for k in range(3)}, {0: 250.0, 1: 350.0}
    both = {(i, j): float(rng.uniform(50, 150)) for i in range(3) for j in range(2)}
    totals = {("a", "b"): both} if crossed else {"a": a, "b": b}
    design = SurveyDesign(frame, weights="w").calibrate(totals)
    order = rng.permutation(n)
    other = frame.iloc[order].assign(a=lambda f: f["a"].map({0: "z", 1: "x", 2: "y"}))
    label = {0: "z", 1: "x", 2: "y"}
    renamed = {"a": {label[k]: v for k, v in a.items()}, "b": b}
    if crossed:
        renamed = {("a", "b"): {(label[i], j): v for (i, j), v in both.items()}}
    again = SurveyDesign(other, weights="w").calibrate(renamed)
    np.testing.assert_allclose(again.weights, design.weights[order], rtol=1e-9)
    one, two = (estimate(d, "y", "b", "total")[["estimate", "se"]].to_numpy() for d in (design, again))
    np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-7)


FRAME = pd.DataFrame({"w": 1.0, "p": 0.5, "g": list("aabb"), "k": list("xyxy"), "y": [1.0, 2, 3, 4]})
REFUSED = [
    ({"g": {"a": 5.0}}, r"totals of 'g' lack 1 of the 2 categories of the file: 2 rows \(row numbers 3, 4;"),
    ({"g": {"a": 5.0, "b": 4.0, "canary": 3.0}}, "totals of 'g' have 1 categories that no record has"),
    ({"g": {"a": 5.0, "b": -4.0}}, "must be positive, finite numbers"),
    ({"g": {"a": 5.0, "b": None}}, "must be positive, finite numbers"),
    ({"g": {"a": 5.0, "b": 4.0}, "k": {"x": 5.0, "y": 5.0}}, "different populations: 9, 10; scale them"),
    ({"h": {"a": 5.0}}, "no column 'h'"),
    ({"g": 5.0}, "must map each category to its total"),
    ({}, "must map columns to the totals"),
    ([("g", 1)], "must map columns to the totals"),
    ({("g", "k"): {("a", "x"): 1.0}}, "totals of 'g' x 'k' lack 3 of the 4 categories"),
]


@pytest.mark.parametrize(("totals", "message"), REFUSED)
def test_refusals(totals, message):
    with pytest.raises(InputError, match=message) as caught:
        SurveyDesign(FRAME, weights="w").calibrate(totals)
    assert "canary" not in str(caught.value)


def test_totals_that_contradict_each_other_are_refused():
    """Only the cells a-x and b-y hold records, so the totals of a and of x are those of the same people."""
    frame = FRAME.assign(k=list("xxyy"))
    with pytest.raises(InputError, match="raking did not meet the totals"):
        SurveyDesign(frame, weights="w").calibrate({"g": {"a": 5.0, "b": 4.0}, "k": {"x": 4.0, "y": 5.0}})


def test_weights_are_calibrated_once_and_kept():
    design = SurveyDesign(FRAME, probs="p").calibrate({"g": {"a": 5.0, "b": 4.0}})
    assert design.weights.tolist() == [2.5, 2.5, 2, 2] and design.base_weights.tolist() == [2] * 4
    assert design.weights_name == "weight_calibrated" and design.calibration.base_name == "weight"
    assert "calibrated to totals of 'g'" in repr(design)
    with pytest.raises(InputError, match="calibrated already"):
        design.calibrate({"k": {"x": 5.0, "y": 4.0}})
    with pytest.raises(InputError, match="already, where the weights go"):
        SurveyDesign(design.frame, probs="p").calibrate({"k": {"x": 5.0, "y": 4.0}})
    again = SurveyDesign(design.frame, **design.roles())
    pd.testing.assert_frame_equal(estimate(again, "y", "k"), estimate(design, "y", "k"))


def test_margins_that_agree_but_for_rounding():
    design = SurveyDesign(FRAME, weights="w").calibrate({"g": {"a": 2e8, "b": 2e8}, "k": {"x": 2e8 + 1, "y": 2e8}})
    assert design.weights.sum() == pytest.approx(4e8, rel=1e-12)
