same_errors <- function(design, by = NULL) {
  parts <- bridge$design_parts(design)
  again <- bridge$as_design(parts$frame, parts$roles, parts$joint)
  estimates <- list(
    function(d) svymean(~api00, d), function(d) svytotal(~enroll, d, na.rm = TRUE),
    function(d) svyby(~api00, ~awards, d, svymean), function(d) svyratio(~api00, ~api99, d)
  )
  for (estimate in estimates) {
    expect_equal(coef(estimate(again)), coef(estimate(design)), tolerance = 1e-12)
    expect_equal(unname(unlist(SE(estimate(again)))), unname(unlist(SE(estimate(design)))), tolerance = 1e-9)
  }
  expect_equal(degf(again), degf(design))
}

test_that("designs are taken apart into columns and roles", {
  roles <- bridge$design_parts(strat)$roles
  expect_identical(roles[c("weights", "strata", "fpc")], list(weights = "pw", strata = "stype", fpc = "fpc"))
  expect_null(roles$psu)
  expect_identical(bridge$design_parts(clus1)$roles$psu, "dnum")
  roles <- bridge$design_parts(clus2)$roles
  expect_identical(roles[c("psu", "fpc")], list(psu = c("dnum", "snum"), fpc = c("fpc1", "fpc2")))
  parts <- bridge$design_parts(poststratified)
  expect_equal(sum(parts$frame[[parts$roles$weights]]), 6194)
  expect_identical(parts$roles$base_weights, "pw")
})

test_that("designs put together again have the standard errors that they had", {
  same_errors(strat)
  same_errors(clus1)
  same_errors(clus2)
  same_errors(poststratified)
  same_errors(as.svrepdesign(clus1, type = "JK1"))
})

margins <- list(xtabs(~stype, apipop), xtabs(~sch.wide, apipop))
known <- c(6194, 755, 1018, 3914069)

test_that("calibrated designs keep their standard errors", {
  same_errors(calibrate(clus1, ~stype + api99, known))
  same_errors(calibrate(strat, ~stype * awards, colSums(model.matrix(~stype * awards, apipop))))
  same_errors(calibrate(clus1, ~stype + api99, known, calfun = "logit", bounds = c(0.5, 2.5)))
  same_errors(calibrate(clus2, ~stype + api99, known, calfun = "raking"))
  same_errors(trimWeights(calibrate(clus1, ~stype + api99, known), upper = 40, lower = 20))
  same_errors(rake(clus1, list(~stype, ~sch.wide), margins))
  same_errors(postStratify(poststratified, ~awards, xtabs(~awards, apipop)))
  same_errors(rake(calibrate(clus1, ~enroll, c(6194, 3811472)), list(~stype, ~sch.wide), margins))
  same_errors(rake(as.svrepdesign(clus1, type = "JK1"), list(~stype, ~sch.wide), margins))
})

test_that("calibrated designs are taken apart into the columns of their totals", {
  roles <- function(design) bridge$design_parts(design)$roles[c("poststrata", "auxiliary")]
  expect_identical(roles(calibrate(clus1, ~stype + api99, known)),
                   list(poststrata = list("stype"), auxiliary = "api99"))
  expect_identical(roles(rake(clus1, list(~stype, ~sch.wide), margins))$poststrata, list("stype", "sch.wide"))
  expect_identical(roles(poststratified)$poststrata, list("stype"))
  expect_identical(roles(survey::postStratify(design = clus1, ~stype + awards, xtabs(~stype + awards, apipop)))$poststrata,
                   list(c("stype", "awards")))
})

test_that("estimate() has the standard errors of calibrated designs", {
  need_python()
  same <- function(design) {
    here <- estimate(design, ~enroll, by = ~awards, statistic = c("mean", "total"))
    for (statistic in c("mean", "total")) {
      f <- if (statistic == "mean") svymean else svytotal
      there <- svyby(~enroll, ~awards, design, f)
      rows <- here[here$statistic == statistic, ]
      expect_equal(rows$estimate, c(there$enroll, coef(f(~enroll, design))[[1]]), tolerance = 1e-12)
      expect_equal(rows$se, c(SE(there), SE(f(~enroll, design))[[1]]), tolerance = 1e-9)
    }
  }
  same(calibrate(clus1, ~stype + api99, known))
  same(calibrate(clus1, ~api99, c(6194, 3914069)))
  same(rake(clus1, list(~stype, ~sch.wide), margins))
  same(poststratified)
  same(postStratify(calibrate(clus1, ~api99, c(6194, 3914069)), ~stype, xtabs(~stype, apipop)))
  same(rake(strat, list(~stype + awards, ~sch.wide, ~comp.imp),
            list(xtabs(~stype + awards, apipop), margins[[2]], xtabs(~comp.imp, apipop)), control = list(maxit = 100)))
})

test_that("estimate() has the standard errors of pps = \"brewer\"", {
  need_python()
  brewer <- svydesign(ids = ~1, fpc = ~p, data = election_pps, pps = "brewer")
  here <- estimate(brewer, ~Bush, statistic = c("mean", "total"))
  expect_equal(here$se, c(SE(svymean(~Bush, brewer)), SE(svytotal(~Bush, brewer))), tolerance = 1e-9)
})

test_that("designs that cannot be carried over are refused by name", {
  parts <- bridge$design_parts
  phases <- twophase(id = list(~1, ~1), subset = ~I(awards == "Yes"), strata = list(NULL, ~stype), data = apistrat)
  expect_error(parts(phases), "two-phase")
  negative <- calibrate(clus1, ~stype + api99 + ell, c(6194, 755, 1018, 3914069, 4e5))
  expect_error(parts(negative), "calibrate\\(\\) made negative.*bounds =")
  unequal <- svydesign(ids = ~1, fpc = ~p, data = election_pps, pps = ppsmat(election_jointprob))
  expect_error(parts(calibrate(unequal, ~votes, c(4600, 122e6))), "a calibrated design with pps =")
  brewer <- svydesign(ids = ~dnum, fpc = ~p, data = transform(apiclus1, p = 0.02), pps = "brewer")
  expect_error(parts(brewer), "brewer.*clusters")
  expect_error(parts(subset(strat, awards == "Yes")), "a subset of a design")
  nested <- data.frame(s = 1, u = rep(1:4, each = 4), t = rep(1:2, each = 2), e = 1:16, w = 1)
  later <- svydesign(ids = ~u + e, strata = ~s + t, weights = ~w, data = nested, nest = TRUE)
  expect_error(parts(later), "strata at a later stage")
  expect_error(parts(apistrat), "a design of the survey package was expected.*not a data.frame")
})

test_that("columns of haven are taken by their labels where every value has one", {
  skip_if_not_installed("haven")
  data <- transform(apistrat, kind = haven::labelled(as.numeric(stype), c(Elementary = 1, High = 2, Middle = 3), "Type"),
                    pupils = haven::labelled(enroll, c(refused = 9999)),
                    mark = haven::labelled_spss(c(1, 2, 9, 9)[1 + seq_len(200) %% 4], c(no = 1, yes = 2, gone = 9), 9))
  design <- svydesign(ids = ~1, strata = ~kind, weights = ~pw, data = data)
  frame <- bridge$design_parts(design)$frame
  expect_identical(levels(frame$kind), c("Elementary", "High", "Middle"))
  expect_identical(as.integer(frame$kind), as.integer(apistrat$stype))
  expect_identical(levels(frame$mark), c("no", "yes"))
  expect_identical(is.na(frame$mark), as.vector(data$mark) == 9)
  expect_identical(as.vector(frame$pupils), apistrat$enroll)
  expect_identical(bridge$variable_labels(frame), list(kind = "Type"))
  same <- bridge$by_label(haven::labelled(c(1, 3, 2, NA), c(yes = 1, no = 2, no = 3)))
  expect_identical(as.character(same), c("yes", "no (3)", "no (2)", NA))
  need_python()
  here <- estimate(design, ~api00, by = ~kind)
  expect_identical(as.character(here$kind), c("Elementary", "High", "Middle", "all"))
  expect_equal(here$estimate, estimate(strat, ~api00, by = ~stype)$estimate)
  data$pupils[c(3, 5)] <- 9999
  design <- svydesign(ids = ~1, strata = ~kind, weights = ~pw, data = data)
  expect_warning(estimate(design, ~pupils), "those in 2 rows \\(3, 5\\) carry a value label: 9999 = \"refused\"")
})
