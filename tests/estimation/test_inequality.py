"""Variance, Gini, quintile share ratio, poverty rate and design effects: against R's laeken and survey, and samples."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surveys import PSEUDO, make_design, model
from test_taylor import CLUS1, CLUS2, NHANES, STRAT, svydesign

import surveysynth as ss
from surveysynth import InputError, SurveyDesign, difference, estimate

INDICES = ["gini", "quintile_share_ratio", "poverty_rate"]

# The linearized values by their published formulas, a record at a time, and R's variance of their total.
R_INDICES = """
suppressPackageStartupMessages(library(laeken))
quantile_of <- function(y, w, p) { o <- order(y); y[o][which(cumsum(w[o]) >= p * sum(w) * (1 - 1e-12))[1]] }
linear_gini <- function(y, w) {
  N <- sum(w); Y <- sum(w * y)
  G <- sum(outer(w, w) * abs(outer(y, y, "-"))) / (2 * N * Y)
  u <- sapply(y, function(t) {
    n <- sum(w[y <= t]); m <- sum((w * y)[y <= t]) / n
    (2 * n * (t - m) + Y - N * t - G * (Y + t * N)) / (N * Y)
  })
  list(value = G, u = u)
}
linear_qsr <- function(y, w) {
  q <- c(quantile_of(y, w, 0.2), quantile_of(y, w, 0.8))
  s20 <- sum(w * y * (y <= q[1])); s80 <- sum(w * y * (y > q[2]))
  i20 <- y * (y <= q[1]) + q[1] * (0.2 - (y <= q[1]))
  i80 <- y * (y > q[2]) + q[2] * ((y <= q[2]) - 0.8)
  list(value = s80 / s20, u = i80 / s20 - s80 * i20 / s20^2)
}
linear_arpr <- function(y, w, inside = rep(TRUE, length(y))) {
  N <- sum(w); h <- sqrt((sum(w * y^2) - sum(w * y)^2 / N) / N) / exp(0.2 * log(N))
  density <- function(at, y, w) sum(w * dnorm((at - y) / h)) / (sum(w) * h)
  median <- quantile_of(y, w, 0.5); line <- 0.6 * median
  u_line <- -0.6 / (N * density(median, y, w)) * ((y <= median) - 0.5)
  M <- sum(w[inside]); P <- sum((w * (y < line))[inside]) / M
  list(value = P, u = inside * ((y < line) - P) / M + density(line, y[inside], w[inside]) * u_line)
}
with_se <- function(design, linear, u = linear$u) {
  design$variables$u <- u
  c(linear$value, SE(svytotal(~u, design)))
}
"""


@pytest.fixture(scope="module")
def laeken(r):
    r.r(R_INDICES)


@pytest.fixture(scope="module")
def eusilc(laeken, r_frame):
    return r_frame("{ data(eusilc); eusilc[c('db030', 'db040', 'rb090', 'eqIncome', 'rb050')] }")


def test_estimates_equal_laeken(eusilc, r_frame):
    """As shares, where laeken has percentages; the poverty line of a region is that of the country."""
    expected = r_frame("""{
      one <- function(x) data.frame(region = c(as.character(x$valueByStratum$stratum), "all"),
                                    value = c(x$valueByStratum$value, x$value))
      rbind(cbind(statistic = "gini", one(gini("eqIncome", weights = "rb050", breakdown = "db040", data = eusilc))),
            cbind(statistic = "poverty_rate",
                  one(arpr("eqIncome", weights = "rb050", breakdown = "db040", data = eusilc))),
            cbind(statistic = "quintile_share_ratio",
                  one(qsr("eqIncome", weights = "rb050", breakdown = "db040", data = eusilc))))
    }""").set_index(["statistic", "region"])["value"]
    expected[expected.index.get_level_values("statistic") != "quintile_share_ratio"] /= 100
    table = estimate(SurveyDesign(eusilc, weights="rb050", strata="db040"), "eqIncome", "db040", INDICES)
    found = table.set_index(["statistic", "db040"])["estimate"]
    assert len(found) == 30
    np.testing.assert_allclose(found[expected.index], expected, rtol=1e-12)


def test_a_known_line_gives_a_proportion(eusilc, r_frame):
    line = 10_859
    expected = r_frame(f"""local({{
      d <- svydesign(id = ~db030, strata = ~db040, weights = ~rb050, data = transform(eusilc, poor = eqIncome < {line}))
      p <- svymean(~as.numeric(poor), d)
      data.frame(laeken = arpr("eqIncome", weights = "rb050", data = eusilc, threshold = {line})$value / 100,
                 estimate = coef(p), se = SE(p)[[1]])
    }})""").iloc[0]
    design = SurveyDesign(eusilc, weights="rb050", strata="db040", psu="db030")
    row = estimate(design, "eqIncome", statistic="poverty_rate", poverty_line=line).iloc[0]
    assert row["estimate"] == pytest.approx(expected["laeken"], rel=1e-12)
    assert (row["estimate"], row["se"]) == pytest.approx(tuple(expected[["estimate", "se"]]), rel=1e-9)
    share = estimate(design.assign(poor=lambda f: f.eqIncome < line), "poor", statistic="proportion").iloc[1]
    numbers = ["estimate", "se", "df", "ci_low", "ci_high"]
    np.testing.assert_allclose(row[numbers].astype(float), share[numbers].astype(float), rtol=1e-9)


DESIGNS = {
    "strat fpc": ("apistrat", STRAT | {"fpc": "fpc"}, "enroll"),
    "clus1": ("apiclus1", CLUS1 | {"fpc": "fpc"}, "enroll"),
    "clus2 fpc": ("apiclus2", CLUS2 | {"fpc": ["fpc1", "fpc2"]}, "api00"),
    "nhanes": ("na.omit(nhanes)[1:3000, ]", NHANES, "WTMEC2YR"),
}


@pytest.fixture(scope="module", params=DESIGNS)
def scenario(request, laeken, r, r_frame, to_r):
    dataset, roles, outcome = DESIGNS[request.param]
    frame = r_frame(dataset).dropna(subset=[outcome])
    frame["half"] = np.where(np.arange(len(frame)) % 3 == 0, "a", "b")
    to_r("d", frame)
    r.r(f"design <- {svydesign(roles)}; y <- as.numeric(d${outcome}); w <- weights(design); a <- d$half == 'a'")
    return frame, SurveyDesign(frame, **roles), outcome


def test_standard_errors_are_those_of_the_published_linearization(scenario, r_frame):
    """Clusters, strata, fpc and two stages: R's svytotal of linearized values, written out in R."""
    _, design, outcome = scenario
    expected = r_frame("""data.frame(rbind(with_se(design, linear_gini(y, w)), with_se(design, linear_qsr(y, w)),
                                           with_se(design, linear_arpr(y, w))))""")
    table = estimate(design, outcome, statistic=INDICES)
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-8)


def test_calibrated_weights_leave_the_residuals_of_the_linearized_values(laeken, r, r_frame, to_r):
    """R's postStratify, and svytotal of the linearized values under the weights that it makes."""
    frame = r_frame("apiclus1")
    to_r("d", frame)
    r.r("""post <- postStratify(svydesign(id = ~dnum, weights = ~pw, data = d), ~stype,
                                data.frame(stype = c('E', 'H', 'M'), Freq = c(4421, 755, 1018)))""")
    expected = r_frame("""local({
      y <- as.numeric(d$enroll); w <- weights(post)
      data.frame(t(sapply(list(linear_gini, linear_qsr, linear_arpr), function(f) with_se(post, f(y, w)))))
    })""")
    design = SurveyDesign(frame, **CLUS1).calibrate({"stype": {"E": 4421, "H": 755, "M": 1018}})
    table = estimate(design, "enroll", statistic=INDICES)
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-7)


def test_domains_have_the_line_of_all_and_the_rest_of_their_own(scenario, r_frame):
    _, design, outcome = scenario
    expected = r_frame("""local({
      spread <- function(linear) { u <- numeric(length(y)); u[a] <- linear$u; with_se(design, linear, u) }
      data.frame(rbind(spread(linear_gini(y[a], w[a])), spread(linear_qsr(y[a], w[a])),
                       with_se(design, linear_arpr(y, w, a))))
    })""")
    table = estimate(design, outcome, "half", INDICES)
    np.testing.assert_allclose(table.loc[table["half"] == "a", ["estimate", "se"]], expected, rtol=1e-8)
    filtered = estimate(design, outcome, statistic=INDICES, where=lambda f: f.half == "a")
    np.testing.assert_allclose(filtered[["estimate", "se"]], expected, rtol=1e-8)


def test_differences_of_domains_share_the_line_and_the_psus(scenario, r_frame):
    _, design, outcome = scenario
    expected = r_frame("""local({
      two <- function(f) {
        one <- f(y[a], w[a]); other <- f(y[!a], w[!a])
        u <- numeric(length(y)); u[a] <- one$u; u[!a] <- -other$u
        with_se(design, list(value = one$value - other$value, u = u))
      }
      p <- linear_arpr(y, w, a); q <- linear_arpr(y, w, !a)
      data.frame(rbind(two(linear_gini), two(linear_qsr),
                       with_se(design, list(value = p$value - q$value, u = p$u - q$u))))
    })""")
    table = difference(design, outcome, statistic=INDICES, between={"half": ("a", "b")})
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-8)


def test_replicates_equal_withreplicates_of_laeken(laeken, r_frame, to_r, r):
    """Jackknife: every replicate's Gini, poverty rate and quintile share ratio by laeken."""
    frame = r_frame("apiclus1")
    to_r("d", frame)
    r.r("jack <- as.svrepdesign(svydesign(id = ~dnum, weights = ~pw, data = d), type = 'JK1', mse = TRUE)")
    expected = r_frame("""local({
      value <- function(f) function(w, data) f(data$enroll[w > 0], w[w > 0])
      each <- list(function(y, w) gini(y, w)$value / 100, function(y, w) qsr(y, w)$value,
                   function(y, w) arpr(y, w)$value / 100)
      data.frame(t(sapply(each, function(f) {
        x <- withReplicates(jack, value(f))
        c(coef(x), sqrt(vcov(x)))
      })))
    })""")
    design = SurveyDesign(frame, **CLUS1).replicates("JK1")
    table = estimate(design, "enroll", statistic=INDICES)
    assert table.attrs["estimator"] == "replicates"
    # where a share is reached exactly, which equal weights do, laeken has the next value for its quantile
    np.testing.assert_allclose(table.loc[0, ["estimate", "se"]].astype(float), expected.iloc[0], rtol=1e-9)
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=0.05)


def test_replicates_equal_withreplicates_of_laeken_where_weights_differ(laeken, r_frame, to_r, r):
    frame = r_frame("apistrat")
    frame["pw"] *= np.random.default_rng(4).uniform(0.5, 1.5, len(frame))
    to_r("d", frame)
    r.r("strata <- svydesign(id = ~1, strata = ~stype, weights = ~pw, data = d)")
    r.r("jack <- as.svrepdesign(strata, type = 'JKn', mse = TRUE)")
    expected = r_frame("""local({
      value <- function(f) function(w, data) f(data$enroll[w > 0], w[w > 0])
      each <- list(function(y, w) gini(y, w)$value / 100, function(y, w) qsr(y, w)$value,
                   function(y, w) arpr(y, w)$value / 100)
      data.frame(t(sapply(each, function(f) { x <- withReplicates(jack, value(f)); c(coef(x), sqrt(vcov(x))) })))
    })""")
    design = SurveyDesign(frame, weights="pw", strata="stype").replicates("JKn")
    np.testing.assert_allclose(estimate(design, "enroll", statistic=INDICES)[["estimate", "se"]], expected, rtol=1e-9)


@pytest.mark.slow
def test_standard_errors_are_the_spread_over_samples(eusilc):
    """600 samples of 1,500 persons of eusilc: mean variance over variance of estimates, up to Monte Carlo error."""
    rng, size, samples = np.random.default_rng(1), 1500, 600
    statistics = [*INDICES, "variance"]
    found = np.array([
        estimate(SurveyDesign(eusilc.iloc[rng.choice(len(eusilc), size)].assign(w=8e6 / size), weights="w"),
                 "eqIncome", "rb090", statistics)[["estimate", "se"]].to_numpy()
        for _ in range(samples)
    ])  # fmt: skip
    ratio = (found[..., 1] ** 2).mean(axis=0) / found[..., 0].var(axis=0, ddof=1)
    # a variance of 600 estimates is within 12% of its expectation (two standard errors), of heavy tails within more
    np.testing.assert_allclose(ratio, 1, atol=0.2)


@pytest.mark.slow
def test_differences_of_quantiles_have_the_spread_over_samples(eusilc):
    """Households with both sexes: medians of men and women are correlated, which the difference must hold."""
    rng, samples = np.random.default_rng(2), 400
    households = list(eusilc.reset_index(drop=True).groupby("db030").indices.values())
    found = np.empty((samples, 2))
    apart = np.empty(samples)
    for i in range(samples):
        drawn = [households[k] for k in rng.choice(len(households), 400)]
        home = np.repeat(np.arange(400), [len(rows) for rows in drawn])
        frame = eusilc.iloc[np.concatenate(drawn)].reset_index(drop=True).assign(home=home, w=1.0)
        design = SurveyDesign(frame, weights="w", psu="home")
        gap = difference(design, "eqIncome", statistic="quantile", between={"rb090": ("male", "female")})
        found[i] = gap[["estimate", "se"]].iloc[0]
        apart[i] = (estimate(design, "eqIncome", "rb090", "quantile")["se"].iloc[:2] ** 2).sum()
    ratio = (found[:, 1] ** 2).mean() / found[:, 0].var(ddof=1)
    assert ratio == pytest.approx(1, abs=0.25)
    assert (found[:, 1] ** 2).mean() < 0.5 * apart.mean()  # as if independent, it would be twice as large


def test_quantiles_of_domains_in_different_strata_are_independent(r_frame, to_r, r):
    """The variances of R's svyquantile add up."""
    frame = r_frame("apistrat")
    to_r("d", frame)
    expected = r_frame("""local({
      d <- svydesign(id = ~1, strata = ~stype, weights = ~pw, data = d)
      q <- sapply(c("E", "H"), function(s) {
        s <- subset(d, stype == s)
        svyquantile(~api00, s, 0.4003, df = degf(s))[[1]][c(1, 4)]
      })
      data.frame(estimate = q[1, 1] - q[1, 2], se = sqrt(sum(q[2, ]^2)))
    })""")
    table = difference(SurveyDesign(frame, weights="pw", strata="stype"), "api00", statistic="quantile",
                       quantiles=0.4003, between={"stype": ("E", "H")})  # fmt: skip
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-9)


def test_a_difference_of_quantiles_by_replicates():
    """The jackknife agrees with linearization, and each difference has its sign."""
    taylor = make_design(600, strata=None)
    asked = {"statistic": "quantile", "quantiles": [0.3, 0.5], "between": {"gender": ("m", "f")}}
    one, other = (difference(d, "income", **asked) for d in (taylor, taylor.replicates("JK1")))
    assert (one.attrs["estimator"], other.attrs["estimator"]) == ("onepass", "replicates")
    np.testing.assert_allclose(one["estimate"], other["estimate"])
    np.testing.assert_allclose(one["se"], other["se"], rtol=0.02)
    back = difference(taylor, "income", **asked | {"between": {"gender": ("f", "m")}})
    np.testing.assert_allclose(back[["estimate", "se"]], one[["estimate", "se"]] * [-1, 1], rtol=1e-12)
    assert one["prob"].tolist() == [0.3, 0.5]


# variances of the population, and design effects, are R's


@pytest.mark.parametrize("name", DESIGNS)
def test_variances_equal_svyvar(name, r, r_frame, to_r):
    dataset, roles, outcome = DESIGNS[name]
    frame = r_frame(dataset).dropna(subset=[outcome])
    frame["half"] = np.where(np.arange(len(frame)) % 3 == 0, "a", "b")
    to_r("d", frame)
    expected = r_frame(f"""local({{
      d <- {svydesign(roles)}
      each <- list(subset(d, half == "a"), subset(d, half == "b"), d)
      data.frame(t(sapply(each, function(s) {{ v <- svyvar(~{outcome}, s); c(coef(v), SE(v)) }})))
    }})""")
    table = estimate(SurveyDesign(frame, **roles), outcome, "half", "variance")
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-8)


def test_variances_by_replicates_equal_svyvar(r, r_frame, to_r):
    frame = r_frame("apiclus1")
    to_r("d", frame)
    r.r("jack <- as.svrepdesign(svydesign(id = ~dnum, weights = ~pw, data = d), type = 'JK1', mse = TRUE)")
    expected = r_frame("{ v <- svyvar(~api00, jack); data.frame(c(v), sqrt(attr(v, 'var'))) }")
    table = estimate(SurveyDesign(frame, **CLUS1).replicates("JK1"), "api00", statistic="variance")
    np.testing.assert_allclose(table[["estimate", "se"]], expected, rtol=1e-8)


@pytest.mark.parametrize("deff", [True, "replace"])
@pytest.mark.parametrize("name", DESIGNS)
def test_design_effects_equal_r(name, deff, r, r_frame, to_r):
    dataset, roles, outcome = DESIGNS[name]
    frame = r_frame(dataset).dropna(subset=[outcome])
    frame["half"], frame["x"] = np.where(np.arange(len(frame)) % 3 == 0, "a", "b"), frame[outcome] + 10.0
    to_r("d", frame)
    said = "TRUE" if deff is True else "'replace'"
    expected = r_frame(f"""local({{
      d <- {svydesign(roles)}
      each <- list(subset(d, half == "a"), subset(d, half == "b"), d)
      f <- ~{outcome}
      data.frame(mean = sapply(each, function(s) deff(svymean(f, s, deff = {said}))),
                 total = sapply(each, function(s) deff(svytotal(f, s, deff = {said}))),
                 ratio = sapply(each, function(s) c(deff(svyratio(f, ~x, s, deff = {said})))))
    }})""")
    design = SurveyDesign(frame, **roles)
    asked = {"statistic": ["mean", "total", "ratio", "count"], "denominator": "x", "deff": deff}
    table = estimate(design, outcome, "half", **asked).set_index("statistic")["deff"]
    for statistic in ("mean", "total", "ratio"):
        np.testing.assert_allclose(table[statistic], expected[statistic], rtol=1e-8, err_msg=statistic)
    assert table["count"].isna().all()
    assert "deff" not in estimate(design, outcome)


def test_design_effects_by_replicates_equal_r(r, r_frame, to_r):
    frame = r_frame("apiclus1")
    to_r("d", frame)
    r.r("jack <- as.svrepdesign(svydesign(id = ~dnum, weights = ~pw, data = d), type = 'JK1', mse = TRUE)")
    expected = r_frame("""data.frame(c(deff(svymean(~api00, jack, deff = TRUE))),
                                     c(deff(svytotal(~api00, jack, deff = TRUE))))""")
    table = estimate(SurveyDesign(frame, **CLUS1).replicates("JK1"), "api00", statistic=["mean", "total"], deff=True)
    np.testing.assert_allclose(table["deff"], expected.iloc[0], rtol=1e-8)


# what holds of every file


@st.composite
def files(draw):
    n = draw(st.integers(12, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ties = draw(st.booleans())
    y = np.exp(rng.normal(10, 1, n))
    return pd.DataFrame({
        "y": np.round(y, -4) + 5_000 if ties else y, "w": rng.uniform(1, 9, n), "h": np.arange(n) % 3,
        "g": rng.choice(["a", "b"], n),
    })  # fmt: skip


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(files(), st.floats(0.01, 1000), st.integers(0, 1000))
def test_rescaled_weights_and_permuted_rows_change_nothing(frame, factor, seed):
    """But for standard errors of poverty rates: the published bandwidth goes with the sum of the weights."""
    statistics = [*INDICES, "variance"]

    def numbers(frame):
        table = estimate(SurveyDesign(frame, weights="w", strata="h"), "y", "g", statistics, deff="replace")
        return table.sort_values(["statistic", "g"])

    plain, scaled = numbers(frame), numbers(frame.assign(w=frame["w"] * factor))
    np.testing.assert_allclose(scaled["estimate"], plain["estimate"], rtol=1e-8, atol=1e-12)
    other = (plain["statistic"] != "poverty_rate").to_numpy()
    np.testing.assert_allclose(scaled["se"][other], plain["se"][other], rtol=1e-6, atol=1e-12)
    shuffled = numbers(frame.sample(frac=1, random_state=seed))
    columns = ["estimate", "se", "df", "n"]
    np.testing.assert_allclose(shuffled[columns], plain[columns], rtol=1e-7, atol=1e-12)
    gini = plain.loc[plain["statistic"] == "gini", "estimate"]
    assert ((gini > -1e-12) & (gini < 1)).all()
    assert plain.loc[plain["statistic"] == "poverty_rate", "estimate"].between(0, 1).all()


@settings(max_examples=25, deadline=None)
@given(files(), st.floats(0.1, 100))
def test_the_currency_does_not_matter_and_everybody_equal_has_gini_0(frame, unit):
    design, other = (SurveyDesign(frame.assign(y=frame["y"] * k), weights="w") for k in (1.0, unit))
    one, two = (estimate(d, "y", statistic=INDICES)[["estimate", "se"]] for d in (design, other))
    np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-12)
    equal = estimate(SurveyDesign(frame.assign(y=7.0), weights="w"), "y", statistic=["gini", "variance"])
    np.testing.assert_allclose(equal[["estimate", "se"]], 0, atol=1e-10)


def test_small_and_odd_domains_have_no_estimate_rather_than_a_wrong_one():
    frame = pd.DataFrame({"w": 1.0, "y": [5.0, 1, 2, 3, 0, 0], "g": list("abbbcc")})
    table = estimate(SurveyDesign(frame, weights="w"), "y", "g", ["variance", "gini", "quintile_share_ratio"])
    found = table.set_index(["statistic", "g"])["estimate"]
    assert np.isnan(found["variance", "a"]) and found["variance", "b"] == pytest.approx(1.0)
    assert np.isnan(found["gini", "c"]) and np.isnan(found["quintile_share_ratio", "c"])
    assert found["gini", "b"] == pytest.approx(2 * (1 + 2 + 1) / (2 * 3 * 6))  # all pairs by hand
    assert np.isnan(found["quintile_share_ratio", "a"]) or found["quintile_share_ratio", "a"] == 0


def test_what_cannot_be_asked():
    frame = pd.DataFrame({"w": 1.0, "y": [5.0, 1, 2, 3, np.nan, 0], "g": list("aabbcc")})
    design = SurveyDesign(frame, weights="w")
    for settings_, message in [
        ({"statistic": "poverty_rate", "where": lambda f: f.g == "a"}, "outcome 'y' is missing in"),  # the line's
        ({"statistic": "mean", "poverty_line": 5.0}, "poverty_line= goes with statistic='poverty_rate'"),
        ({"statistic": "poverty_rate", "poverty_line": -5.0}, "poverty_line must be a positive number"),
        ({"statistic": "gini", "estimator": "samplics", "missing": "drop"}, "samplics has no variance of statistic="),
        ({"statistic": "gini", "estimator": "survey", "missing": "drop"}, "R's survey has no statistic='gini'"),
        ({"statistic": "mean", "deff": "yes"}, "deff='yes' is not one of False, True, replace"),
    ]:
        with pytest.raises(InputError, match=message):
            estimate(design, "y", **settings_)
    assert estimate(design, "y", statistic=INDICES, missing="drop")["n"].tolist() == [5, 5, 5]


def test_on_a_release_they_are_combined(tmp_path):
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    statistics = [*INDICES, "variance", "mean"]
    table = release.tables("gender", statistic=statistics, deff=True)
    each = [estimate(d, "income", "gender", statistics, deff=True) for d in release.datasets]
    q, u = (np.array([t[column] for t in each]) for column in ("estimate", "se"))
    np.testing.assert_allclose(table["estimate"], q.mean(axis=0))
    np.testing.assert_allclose(table["se"] ** 2, (u**2).mean(axis=0) + q.var(axis=0, ddof=1) / 3)
    np.testing.assert_allclose(table["deff"], np.mean([t["deff"] for t in each], axis=0))
    gaps = release.differences({"gender": ("m", "f")}, statistic=[*INDICES, "quantile"], quantiles=[0.25, 0.5])
    assert (gaps["se"] > 0).all() and len(gaps) == 5
    text = release.write_tables(tmp_path / "t.md", "gender", statistic=[*INDICES, "variance"]).read_text()
    for title in ("Gini coefficient of income", "S80/S20", "share below the poverty line, in percent", "Variance of"):
        assert title in text
    assert release.plot(tmp_path / "g.svg", "gender", statistic="gini").exists()
