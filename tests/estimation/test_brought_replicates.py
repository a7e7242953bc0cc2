"""Replicate weights that a file brings: factors or full weights, negative ones, beside weights of 0; against R."""

import numpy as np
import pandas as pd
import pytest
from test_taylor import CLUS1, NHANES, STRAT, svydesign

from surveysynth import (
    InputError,
    SurveyDesign,
    correlations,
    difference,
    estimate,
    regression,
    with_replicates,
)
from surveysynth.design.guess import guess_roles

# factors as public files have them: of R's own replicates, and the arguments that svrepdesign() and we take for them
KINDS = {
    "BRR": ("subset(nhanes, SDMVPSU < 3)", NHANES, "BRR", "", "type = 'BRR'"),
    "Fay": ("subset(nhanes, SDMVPSU < 3)", NHANES, "Fay", ", fay.rho = 0.5", "type = 'Fay', rho = 0.5"),
    "JK1": ("apiclus1", CLUS1, "JK1", "", "type = 'JK1', scale = made$scale"),
    "JKn": ("apistrat", STRAT, "JKn", "", "type = 'JKn', scale = made$scale, rscales = made$rscales"),
    "bootstrap": ("apiclus1", CLUS1, "bootstrap", ", replicates = 80", "type = 'bootstrap'"),
}


@pytest.fixture(scope="module", params=KINDS)
def factors(request, r, r_frame, to_r):
    """A file with factors in columns, their names, and the roles of the file; ``theirs`` in R."""
    dataset, roles, kind, more, said = KINDS[request.param]
    to_r("d", r_frame(dataset))
    weight = roles["weights"]
    r.r(f"""
        set.seed(5)
        made <- suppressWarnings(as.svrepdesign({svydesign(roles)}, type = "{kind}"{more}))
        columns <- as.data.frame(as.matrix(weights(made, type = "replication")))
        names(columns) <- paste0("rep", seq_along(columns))
        theirs <- suppressWarnings(svrepdesign(data = cbind(d, columns), weights = ~{weight}, repweights = "rep[0-9]+",
                                               {said}, combined.weights = FALSE, mse = TRUE))
    """)
    frame = pd.concat([r_frame("d"), r_frame("columns")], axis=1)
    names = [c for c in frame if c.startswith("rep") and c[3:].isdigit()]
    scales = {"scale": r.r("theirs$scale")[0], "rscales": list(r.r("rep_len(theirs$rscales, ncol(columns))"))}
    return frame, names, {"weights": weight} | scales


def test_factors_times_the_weights_are_as_in_r(factors, r, r_frame):
    frame, names, roles = factors
    design = SurveyDesign(frame, **roles, replicate_weights="rep[0-9]+", combined=False)
    assert list(design.replication.names) == names
    outcome, by = ("HI_CHOL", "agecat") if "HI_CHOL" in frame else ("api00", "stype")
    for statistic in ("total", "mean"):
        table = estimate(design, outcome, by, statistic, missing="drop")
        expected = r_frame(f"""local({{s <- svyby(~{outcome}, ~{by}, theirs, svy{statistic}, na.rm = TRUE)
            a <- svy{statistic}(~{outcome}, theirs, na.rm = TRUE)
            data.frame(estimate = c(coef(s), coef(a)), se = c(SE(s), SE(a)))}})""")
        np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-10)
    assert design.degf == r.r("degf(theirs)")[0]
    again = SurveyDesign(design.frame, **design.roles())
    tables = [estimate(each, outcome, by, missing="drop") for each in (again, design)]
    pd.testing.assert_frame_equal(*tables)


def test_factors_and_full_weights_that_are_said_to_be_the_other_are_refused(factors):
    frame, names, roles = factors
    full = frame.assign(**{name: frame[name] * frame[roles["weights"]] for name in names})
    with pytest.raises(InputError, match=r"do not look like full weights.* Give combined=False"):
        SurveyDesign(frame, **roles, replicate_weights=names)
    with pytest.raises(InputError, match=r"look like full weights.* leave combined=False out"):
        SurveyDesign(full, **roles, replicate_weights=names, combined=False)
    ours = [
        estimate(SurveyDesign(f, **roles, replicate_weights=names, combined=combined), statistic="count")["se"][0]
        for f, combined in ((frame, False), (full, True))
    ]
    np.testing.assert_allclose(*ours, rtol=1e-12)


def test_replicates_on_another_scale_than_the_weights_are_refused(factors):
    """Weights of mean 1 beside replicate weights of the population give a total and an error of two scales."""
    frame, names, roles = factors
    w = roles["weights"]
    full = frame.assign(**{name: frame[name] * frame[w] for name in names})
    for combined, changed in (
        (True, full.assign(**{w: frame[w] / frame[w].mean()})),
        (True, full.assign(**{w: 1.0})),
        (True, full.assign(**{w: frame[w] * 1e6})),
        (False, frame.assign(**{name: frame[name] * 1000 for name in names})),
    ):
        with pytest.raises(InputError, match="on another scale"):
            SurveyDesign(changed, **roles, replicate_weights=names, combined=combined)


@pytest.mark.parametrize("spread", [0.5, 0.3, 0.0])
def test_weights_of_mean_1_tell_factors_by_record_or_not_at_all(spread):
    rng = np.random.default_rng(1)
    n, names = 400, [f"r{k}" for k in range(80)]
    w = np.exp(rng.normal(0, spread, n))
    w /= w.mean()
    factors = rng.poisson(1, (n, 80)).astype(float)  # those of a bootstrap
    frame = pd.DataFrame({"w": w, "y": rng.normal(5, 1, n)})
    as_factors = pd.concat([frame, pd.DataFrame(factors, columns=names)], axis=1)
    as_full = pd.concat([frame, pd.DataFrame(factors * w[:, None], columns=names)], axis=1)
    right = [(as_factors, False), (as_full, True)]
    a, b = (SurveyDesign(f, weights="w", replicate_weights=names, combined=combined) for f, combined in right)
    pd.testing.assert_frame_equal(estimate(a, "y", statistic="total"), estimate(b, "y", statistic="total"))
    for f, combined in right:
        if spread:
            with pytest.raises(InputError, match="look like full weights"):
                SurveyDesign(f, weights="w", replicate_weights=names, combined=not combined)
        else:  # both are the same
            other = SurveyDesign(f, weights="w", replicate_weights=names, combined=not combined)
            pd.testing.assert_frame_equal(estimate(other, "y"), estimate(a, "y"))


def test_few_replicates_of_weights_near_1_are_taken_as_said():
    frame = pd.DataFrame({"w": [0.9, 1.1, 1.0, 1.2], "y": [1.0, 2, 4, 8], "r1": [0.0, 2, 1, 1], "r2": [2.0, 1, 0, 1]})
    for combined in (True, False):
        design = SurveyDesign(frame, weights="w", replicate_weights=["r1", "r2"], combined=combined)
        full = frame[["r1", "r2"]] * (1 if combined else frame[["w"]].to_numpy())
        squares = (full.mul(frame["y"], axis=0).sum() - (frame["w"] * frame["y"]).sum()) ** 2
        table = estimate(design, "y", statistic="total")
        np.testing.assert_allclose(table["se"][0], np.sqrt(squares.mean()), rtol=1e-12)


SMALL = pd.DataFrame({
    "w": [100.0, 0, 250, 180, 0, 320, 90, 60], "y": [12.0, 40, 31, 8, 55, 23, 70, 2], "x": [1.0, 2, 2, 3, 5, 4, 7, 6],
    "g": list("ababbaba"), "h": list("uuuuvuuu"),
    "r1": [210.0, 80, -35, 170, 0, 310, 95, 120], "r2": [-20.0, 0, 480, 200, 0, 600, 60, 55],
    "r3": [90.0, 120, 260, -10, 0, 150, 180, 40], "r4": [120.0, 0, 230, 400, 0, 330, 85, -25],
})  # fmt: skip
BROUGHT = {"weights": "w", "replicate_weights": ["r1", "r2", "r3", "r4"], "scale": 0.5}


@pytest.fixture
def negative(r, to_r):
    """Negative replicate weights, and weights of 0 beside replicate weights: as in the ACS and the CPS."""
    to_r("d", SMALL)
    r.r("""theirs <- suppressWarnings(svrepdesign(data = d, weights = ~w, repweights = "r[0-9]", type = "other",
        combined.weights = TRUE, scale = 0.5, rscales = 1, mse = TRUE))""")
    return SurveyDesign(SMALL, **BROUGHT)


def test_negative_replicate_weights_and_weights_of_0_beside_replicate_weights(negative, r):
    w, W, y = SMALL["w"], SMALL[["r1", "r2", "r3", "r4"]].to_numpy(), SMALL["y"].to_numpy()
    total = estimate(negative, "y", statistic="total")
    np.testing.assert_allclose(total["estimate"][0], w @ y, rtol=1e-12)
    np.testing.assert_allclose(total["se"][0], np.sqrt(0.5 * ((y @ W - w @ y) ** 2).sum()), rtol=1e-12)
    np.testing.assert_allclose(total["se"][0], r.r("SE(svytotal(~y, theirs))")[0], rtol=1e-10)
    mean = estimate(negative, "y")
    by_hand = np.sqrt(0.5 * ((y @ W / W.sum(axis=0) - w @ y / w.sum()) ** 2).sum())
    np.testing.assert_allclose([mean["se"][0]] * 2, [by_hand, r.r("SE(svymean(~y, theirs))")[0]], rtol=1e-10)
    assert negative.degf == r.r("degf(theirs)")[0] == 3 and (mean["n"][0], negative.n) == (7, 8)
    assert repr(negative).startswith("SurveyDesign: 8 records, weights 'w' (2 of them 0), no strata")


def test_such_records_in_domains_ratios_differences_and_models(negative, r):
    by = estimate(negative, "y", ["g"], "total")
    expected = np.array([r.r("coef(svyby(~y, ~g, theirs, svytotal))"), r.r("SE(svyby(~y, ~g, theirs, svytotal))")])
    np.testing.assert_allclose(by[["estimate", "se"]].to_numpy(float)[:2].T, expected, rtol=1e-10)
    assert estimate(negative, "y", "h")["h"].tolist() == ["u", "all"]  # "v" has weight 0, and no row in svyby() either
    assert list(r.r("as.character(svyby(~y, ~h, theirs, svymean)$h)")) == ["u"]
    ratio = estimate(negative, "y", statistic="ratio", denominator="x")
    np.testing.assert_allclose(ratio["se"][0], r.r("SE(svyratio(~y, ~x, theirs))")[0], rtol=1e-10)
    less = difference(negative, "y", between={"g": ("a", "b")})
    np.testing.assert_allclose(less["se"][0], r.r("""local({s <- svyby(~y, ~g, theirs, svymean, covmat = TRUE)
        SE(svycontrast(s, c(1, -1)))})""")[0], rtol=1e-10)  # fmt: skip
    fitted = regression(negative, "y ~ x").table
    full, W, X = SMALL["w"].to_numpy(), SMALL[["r1", "r2", "r3", "r4"]].to_numpy().T, np.c_[np.ones(8), SMALL["x"]]
    b = np.array([np.linalg.solve(X.T @ (v[:, None] * X), X.T @ (v * SMALL["y"])) for v in (full, *W)])
    np.testing.assert_allclose(fitted["estimate"], b[0], rtol=1e-9)
    np.testing.assert_allclose(fitted["se"], np.sqrt(0.5 * ((b[1:] - b[0]) ** 2).sum(axis=0)), rtol=1e-8)
    own = with_replicates(negative, lambda frame, v: float(v @ frame["y"] / v.sum()))
    np.testing.assert_allclose(own.table["se"][0], estimate(negative, "y")["se"][0], rtol=1e-12)
    assert np.isfinite(correlations(negative, ["y", "x"]).table["estimate"]).all()
    known = negative.calibrate({"g": {"a": 500.0, "b": 450.0}}, "linear")
    R = known.replication.factors(0, 4) * known.multiplicand[:, None]
    np.testing.assert_allclose([R[SMALL["g"] == g].sum(axis=0) for g in "ab"], [[500.0] * 4, [450.0] * 4], rtol=1e-9)


def test_factors_beside_weights_of_0_multiply_these(r, to_r):
    rng = np.random.default_rng(2)
    frame = SMALL.assign(**{f"r{k}": rng.choice([0.3, 1, 1.7], 8) for k in range(1, 5)})
    to_r("d", frame)
    r.r("""theirs <- suppressWarnings(svrepdesign(data = d, weights = ~w, repweights = "r[0-9]", type = "other",
        combined.weights = FALSE, scale = 0.5, rscales = 1, mse = TRUE))""")
    design = SurveyDesign(frame, **BROUGHT, combined=False)
    for statistic in ("mean", "total"):
        ours = estimate(design, "y", statistic=statistic)
        np.testing.assert_allclose(ours["se"][0], r.r(f"SE(svy{statistic}(~y, theirs))")[0], rtol=1e-10)
    assert design.degf == r.r("degf(theirs)")[0] and ours["n"][0] == 6


def test_patterns_of_names(tmp_path):
    frame = SMALL.rename(columns={"w": "r0"})
    design = SurveyDesign(frame, weights="r0", replicate_weights="r[0-9]+", scale=0.5)
    assert design.replication.names == ("r1", "r2", "r3", "r4")
    frame.to_parquet(tmp_path / "small.parquet")
    scanned = SurveyDesign.scan(tmp_path / "small.parquet", weights="r0", replicate_weights=["r1", "r[2-4]"], scale=0.5)
    assert scanned.replication.names == design.replication.names
    pd.testing.assert_frame_equal(estimate(scanned, "y"), estimate(design, "y"))
    for given, message in {"q[0-9]+": r"no column 'q\[0-9\]\+'", "r[": "no column and no pattern of names"}.items():
        with pytest.raises(InputError, match=message):
            SurveyDesign(frame, weights="r0", replicate_weights=given)
    with pytest.raises(InputError, match=r"scale=, rscales= and combined= go with replicate_weights="):
        SurveyDesign(frame, weights="r0", combined=False)
    with pytest.raises(InputError, match="combined must be True or False"):
        SurveyDesign(frame, weights="r0", replicate_weights="r[0-9]+", combined=0)


NAMED = {  # the main weight, the replicate weights' names, and what is proposed
    "RECS": ("NWEIGHT", [f"BRRWT{k}" for k in range(1, 97)], {"replicate_weights": "BRRWT[0-9]+"}),
    "CES": ("FINLWT21", [f"WTREP{k:02}" for k in range(1, 45)],
            {"weights": "FINLWT21", "replicate_weights": "WTREP[0-9]+"}),
    "ACS": ("PWGTP", [f"PWGTP{k}" for k in range(1, 81)], {"weights": "PWGTP", "replicate_weights": "PWGTP[0-9]+"}),
    "CPS": ("ASECWT", [f"REPWTP{k}" for k in range(1, 161)], {"replicate_weights": "REPWTP[0-9]+"}),
    "SDR": ("wt", [f"RW{k:04}" for k in range(1, 105)], {"weights": "wt", "replicate_weights": "RW[0-9]+"}),
    "PIAAC": ("SPFWT0", [f"SPFWT{k}" for k in range(1, 81)],
              {"weights": "SPFWT0", "replicate_weights": "SPFWT(?!0+$)[0-9]+"}),
    "bootstrap": ("weight", [f"btwt_{k}" for k in range(1, 501)],
                  {"weights": "weight", "replicate_weights": "btwt_[0-9]+"}),
    "NHANES": ("WTMEC2YR", ["SEQN1"], {"weights": "WTMEC2YR"}),
    "answers": ("weight", [f"q{k}" for k in range(1, 41)], {"weights": "weight"}),
    "two weights": ("w", ["wt1", "wt2"], {"weights": "w"}),
}  # fmt: skip


@pytest.mark.parametrize("survey", NAMED)
def test_replicate_weights_are_proposed_by_their_names(survey):
    weight, names, expected = NAMED[survey]
    assert guess_roles(["income", weight, *names], {}) == expected
