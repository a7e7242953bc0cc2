expect_by_hand <- function(release, call, most = 18) {
  call <- substitute(call)
  results <- lapply(release$designs, function(design) eval(call, list(design = design), parent.frame(3)))
  got <- as.data.frame(combine_release(eval(bquote(with_release(release, .(call))))))
  q <- do.call(rbind, lapply(results, function(r) as.vector(coef(r))))
  se <- do.call(rbind, lapply(results, function(r) sqrt(diag(as.matrix(suppressWarnings(vcov(r)))))))
  for (j in seq_len(ncol(q))) {
    expect_equal(unlist(got[j, c("estimate", "se", "df")], use.names = FALSE), by_hand(q[, j], se[, j], most[(j - 1) %% length(most) + 1]))
  }
  expect_identical(nrow(got), ncol(q))
}

test_that("every kind of result of the survey package is combined, each estimate by hand", {
  release <- small_release()
  expect_by_hand(release, svymean(~ y + x, design))
  expect_by_hand(release, svymean(~g, design))
  expect_by_hand(release, svytotal(~ y + g, design))
  of_g <- left(release, g = c("u", "v", "w"))
  of_s <- left(release, s = c("a", "b"))
  expect_true(all(of_g < 18) && all(of_s < 18) && length(unique(c(of_g, of_s))) > 1)
  expect_by_hand(release, svyby(~y, ~g, design, svymean), of_g)
  expect_by_hand(release, svyby(~ y + x, ~ g + s, design, svymean), left(release, g = c("u", "v", "w"), s = c("a", "b")))
  expect_by_hand(release, svyby(~g, ~s, design, svymean), of_s)
  expect_by_hand(release, svyby(~y, ~s, design, svyquantile, quantiles = c(0.25, 0.5), ci = TRUE), of_s)
  expect_by_hand(release, svyby(~y, ~s, denominator = ~x, design, svyratio), of_s)
  expect_by_hand(release, svyquantile(~ y + x, design, c(0.25, 0.75)))
  expect_by_hand(release, svyratio(~ y + w, ~ x, design))
  expect_by_hand(release, svycontrast(svymean(~ y + x, design), list(gap = c(1, -1), sum = c(1, 1))))
  expect_by_hand(release, svyglm(y ~ x + s, design), 16) # the residual degrees of freedom of its summary()
  expect_by_hand(release, svyvar(~y, design))
  expect_by_hand(release, svyciprop(~I(y > 12), design))
})

test_that("domains have their own degrees of freedom, whatever the terms of by", {
  release <- small_release()
  for (i in 1:3) release$designs[[i]]$variables$old <- release$designs[[i]]$variables$x > 2
  of_g <- left(release, g = c("u", "v", "w"))
  cut_at <- c(-Inf, 2, Inf)
  of_old <- left(release, old = c(FALSE, TRUE))
  expect_true(all(of_old < 18) && !identical(of_old[1], of_old[2]))
  expect_by_hand(release, svyby(~y, ~factor(g), design, svymean), of_g)
  expect_by_hand(release, svyby(~y, ~as.character(g), design, svymean), of_g)
  expect_by_hand(release, svyby(~y, ~I(x > 2), design, svymean), of_old)
  expect_equal(as.data.frame(combine_release(with(release, svyby(~y, ~cut(x, cut_at), FUN = svymean))))$df,
               as.data.frame(combine_release(with(release, svyby(~y, ~old, FUN = svymean))))$df)
  expect_by_hand(release, svyby(~y, ~cut(x, c(-Inf, 2, Inf)), design, svymean), of_old)
  expect_by_hand(release, svyby(~y, design$variables["g"], design, svymean), of_g)
  expect_by_hand(release, svyby(~y, list(group = design$variables$g), design, svymean), of_g)
  expect_by_hand(release, svyby(~ y + x, ~interaction(s, old), design, svymean),
                 left(release, s = c("a", "b"), old = c(FALSE, TRUE)))
  inside <- release # those of a subset are of what it has of the domain
  inside$designs <- lapply(release$designs, subset, old)
  expect_by_hand(release, svyby(~y, ~factor(s), subset(design, old), svymean), left(inside, s = c("a", "b")))
  replicates <- release
  replicates$designs <- lapply(release$designs, function(d) as.svrepdesign(d, type = "JKn"))
  degf <- vapply(c("a", "b"), function(s) min(vapply(replicates$designs, function(d) degf(d[d$variables$s == s, ]), 0)), 0)
  expect_by_hand(replicates, svyby(~y, ~factor(s), design, svymean), unname(degf))
})

test_that("names tell the estimates apart", {
  release <- small_release()
  names_of <- function(results) names(coef(combine_release(results)))
  expect_setequal(names_of(with(release, svyby(~ y + x, ~g, FUN = svymean))),
                  c("u:y", "v:y", "w:y", "u:x", "v:x", "w:x"))
  expect_setequal(names_of(with(release, svyby(~g, ~s, FUN = svymean))),
                  c("a:gu", "b:gu", "a:gv", "b:gv", "a:gw", "b:gw"))
  expect_identical(names_of(with(release, svyratio(~ y + x, ~ x))), c("y/x", "x/x"))
})

test_that("covariances are combined where they are known", {
  release <- small_release()
  each <- lapply(release$designs, function(d) svymean(~ y + x, d))
  q <- vapply(each, coef, c(y = 0, x = 0))
  u <- Reduce(`+`, lapply(each, vcov)) / 3
  combined <- combine_release(with(release, svymean(~ y + x)))
  expect_equal(vcov(combined), u + cov(t(q)) / 3, ignore_attr = TRUE)
  expect_equal(SE(combined), sqrt(diag(vcov(combined))))
  by_group <- combine_release(with(release, svyby(~y, ~s, FUN = svymean)))
  expect_identical(unname(is.na(vcov(by_group))), matrix(c(FALSE, TRUE, TRUE, FALSE), 2))
  expect_false(anyNA(vcov(combine_release(with(release, svyby(~y, ~s, FUN = svymean, covmat = TRUE))))))
})

test_that("a category that is missing from a data set is combined over the others, with their number", {
  release <- small_release()
  lacking <- release$designs[[2]]$variables
  lacking$g[lacking$g == "w"] <- "u"
  release$designs[[2]] <- svydesign(ids = ~1, strata = ~s, weights = ~w, data = lacking)
  got <- as.data.frame(combine_release(with(release, svyby(~y, ~g, FUN = svymean))))
  expect_identical(got[c("u", "v", "w"), "m"], c(3, 3, 2))
  each <- lapply(release$designs[c(1, 3)], function(d) svyby(~y, ~g, d, svymean)["w", ])
  expect_equal(unlist(got["w", c("estimate", "se", "df")], use.names = FALSE), 
               by_hand(vapply(each, coef, 0), vapply(each, SE, 0), left(list(designs = release$designs[c(1, 3)]), g = "w")))
})

test_that("an estimate without a variance in one data set has no combined variance", {
  results <- lapply(c(1, NA, 2), function(v) structure(5, var = matrix(v), class = "svystat", names = "y"))
  got <- as.data.frame(combine_release(results))
  expect_identical(got$estimate, 5)
  expect_true(is.na(got$se) && is.na(got$df) && is.na(got$ci_low))
})

test_that("what a design fixes has no variance, whatever the rounding", {
  results <- lapply(c(0, 1, -1) * 1e-9, function(noise) {
    structure(6194 + noise, var = matrix(1e-20), class = "svystat", names = "N")
  })
  got <- as.data.frame(combine_release(results, degf = 10))
  expect_identical(got$se, 0)
  expect_identical(got$df, 10)
})

test_that("survey's and mitools' ways of several data sets lead to the same numbers", {
  release <- small_release()
  expected <- combine_release(with_release(release, svymean(~y, design)))
  expect_equal(combine_release(with(release, svymean(~y))), expected)
  expect_equal(combine_release(with(release, svymean(~y, design = design))), expected)
  list <- as_imputation_list(release)
  expect_s3_class(list, "svyimputationList")
  what <- ~y
  results <- with(list, svymean(what))
  expect_equal(combine_release(results), expected)
  expect_equal(combine_release(with(list, fun = function(d) svymean(~y, d))), expected)
  skip_if_not_installed("mitools")
  expect_warning(rubin <- mitools::MIcombine(results), "Rubin's rule.*overstates.*Use combine_release\\(\\)")
  plain <- mitools::MIcombine(lapply(results, identity))
  expect_equal(rubin[setdiff(names(rubin), "call")], plain[setdiff(names(plain), "call")])
  expect_equal(coef(rubin), coef(expected))
  q <- vapply(results, coef, 0)
  expect_equal(unname(vcov(rubin)[1] - vcov(expected)[1]), var(q)) # (1 + 1/m) b, less b / m
})

test_that("the option for lonely units is that of the release, and is restored", {
  release <- small_release()
  old <- options(survey.lonely.psu = "certainty")
  on.exit(options(old))
  option_at <- function(design) list(getOption("survey.lonely.psu"), svymean(~y, design))
  seen <- with_release(release, option_at(design))
  expect_identical(unique(lapply(seen, `[[`, 1)), list("fail"))
  expect_identical(getOption("survey.lonely.psu"), "certainty")
})

test_that("what cannot be combined is refused", {
  release <- small_release()
  expect_error(combine_release(release), "one for each data set")
  expect_error(combine_release(lapply(release$designs, function(d) svychisq(~ g + s, d))),
               "class htest have no coef\\(\\) and vcov\\(\\) to combine; .*results of with_release\\(\\)")
  expect_error(combine_release(with(release, svyby(~y, ~s, FUN = svymean, vartype = "ci"))), "vartype = \"se\"")
  expect_error(combine_release(with(release, regTermTest(svyglm(y ~ g, design), ~g))), "wald_test\\(combine_release\\(models\\)")
  expect_error(combine_release(with_release(release, anova(svyglm(y ~ g + x, design)))), "wald_test\\(combine_release\\(models\\)")
  expect_error(combine_release(with_release(release, AIC(svyglm(y ~ g, design)))), "AIC and BIC of several data sets have no rule")
  expect_error(combine_release(with(release, svytable(~ g + s))), "svytotal\\(~interaction\\(a, b\\), design\\)")
  expect_error(combine_release(with_release(release, confint(svymean(~y, design)))), "combine the estimates themselves")
  expect_error(with_release(release$designs, svymean(~y, design)), "a release is what")
})

test_that("no expression finds the caller's own design", {
  release <- small_release()
  design <- strat # confidential
  f <- function(...) svymean(~api00, design)
  how <- "write \"design\" where the design of each data set shall stand: with_release\\(release, svymean"
  expect_error(with_release(release, f()), how)
  expect_error(with_release(release, svymean(~api00, strat)), how)
  given <- f()
  list <- as_imputation_list(release)
  for (x in list(release, list)) {
    expect_error(with(x, f()), how)
    expect_error(with(x, given), how)
    expect_error(with(x, svycontrast(f(), c(api00 = 2))), how)
    expected <- combine_release(lapply(release$designs, function(d) svymean(~y, d)), degf = 18)
    expect_equal(combine_release(with(x, svymean(~y))), expected)
    expect_equal(combine_release(with(x, svymean(~y, design = strat))), expected) # mitools' convention, too
    expect_equal(coef(combine_release(with(x, svycontrast(svymean(~y, design), c(y = 2))))), 2 * coef(expected),
                 ignore_attr = TRUE)
  }
})

test_that("fits that a call makes again are made on the data set, not on the caller's own design", {
  release <- small_release()
  own <- strat # confidential
  own$variables[c("y", "g", "s")] <- own$variables[c("api00", "stype", "awards")]
  assign("design", own, globalenv())
  on.exit(rm("design", envir = globalenv()))
  results <- with_release(release, anova(svyglm(y ~ g + s, design)))
  for (i in 1:3) {
    design <- release$designs[[i]]
    assign("design", design, globalenv())
    expected <- anova(svyglm(y ~ g + s, design))
    for (term in 1:2) expect_equal(results[[i]][[term]][c("chisq", "df", "ddf", "p")], expected[[term]][c("chisq", "df", "ddf", "p")])
  }
  fit <- with_release(release, svyglm(y ~ g + s, design))[[1]]
  expect_identical(deparse1(fit$call), "svyglm(formula = y ~ g + s, design = design)")
  expect_equal(coef(update(fit, . ~ . - s)), coef(svyglm(y ~ g, release$designs[[1]])))
})

test_that("calls give on a data set what they give on its design", {
  calls <- expression(
    svymean(~ api00 + stype, d), svytotal(~enroll, d, na.rm = TRUE), svyvar(~ api00 + api99, d), svyratio(~api00, ~api99, d),
    svyquantile(~api00, d, c(0.1, 0.5)), svyby(~api00, ~ stype + awards, d, svymean, covmat = TRUE),
    svyby(~api00, ~stype, d, svyquantile, quantiles = 0.5, vartype = c("se", "ci")), svyciprop(~I(api00 > 700), d),
    svyby(~api99, ~stype, denominator = ~api00, d, svyratio), svyglm(api00 ~ ell + stype, d, subset = api99 > 500),
    summary(svyglm(I(api00 > 700) ~ ell, d, family = quasibinomial())), svytable(~ stype + awards, d),
    svychisq(~ stype + awards, d), svychisq(~ stype + awards, d, statistic = "adjWald"), svyranktest(api00 ~ stype, d),
    svyranktest(api00 ~ awards, d, test = "median"), svyttest(api00 ~ awards, d), svykappa(~ awards + sch.wide, d),
    svyloglin(~ stype + awards, d), svyolr(cut(api00, c(0, 500, 700, 1000)) ~ ell, d), svysmooth(api00 ~ api99, d),
    svyprcomp(~ api00 + api99, d), predict(svyglm(api00 ~ ell, d), data.frame(ell = 1:2)), AIC(svyglm(api00 ~ ell, d)),
    svycontrast(svymean(~ api00 + api99, d), c(1, -1)), trimWeights(d, upper = 40), subset(d, api00 > 600), degf(d),
    as.svrepdesign(d), calibrate(d, ~api99, c(6194, 3914069)), svystandardize(d, ~stype, over = ~awards, population = c(1, 1, 1))
  )
  numbers <- function(value) {
    if (is.list(value)) return(unlist(lapply(unclass(value)[setdiff(names(value), "call")], numbers)))
    if (is.numeric(value)) c(value, attr(value, "var"))
  }
  of_call <- function(call, d) suppressWarnings(tryCatch(numbers(eval(call, list(d = d), globalenv())), error = function(e) "stopped"))
  for (design in list(strat, clus2, poststratified, as.svrepdesign(strat))) {
    for (k in seq_along(calls)) {
      expect_equal(of_call(calls[[k]], bridge$marked(design)), of_call(calls[[k]], design), tolerance = 1e-12, label = deparse1(calls[[k]]))
    }
  }
})

test_that("a plot, and what it returns, is no result of another design", {
  release <- small_release()
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  hooks <- getHook("before.plot.new")
  expect_length(with_release(release, svyboxplot(y ~ s, design)), 3)
  expect_length(with_release(release, barplot(svymean(~s, design))), 3) # positions of bars
  expect_length(with_release(release, {plot(x ~ y, design$variables); TRUE}), 3)
  expect_length(with_release(release, {nrow(design); TRUE}), 3)
  expect_length(with_release(release, {nrow(design); NULL}), 3)
  expect_identical(getHook("before.plot.new"), hooks)
  own <- svymean(~api00, strat)
  expect_error(with_release(release, {plot(x ~ y, design$variables); own}), NA) # atomic: what a plot may return
  expect_error(with_release(release, {nrow(design); own}), "own, confidential design")
  names <- tryCatch(with_release(release, names(design$variables)), error = conditionMessage)
  expect_no_match(names, "confidential")
})

test_that("results are shown as a list of results, and their subsets can be combined", {
  release <- small_release()
  results <- with_release(release, svymean(~y, design))
  expect_s3_class(results, c("surveysynth_results", "list"), exact = TRUE)
  expect_identical(capture.output(print(results)), capture.output(print(lapply(results, identity))))
  expect_no_match(capture.output(print(results)), "attr|degf")
  expect_equal(coef(combine_release(results[1:2])), c(y = mean(vapply(results[1:2], coef, 0))))
})

test_that("a result that does not come from the data sets is refused, and those that are the same by right are not", {
  release <- small_release()
  design <- strat # confidential
  mean_of_mine <- function() svymean(~api00, design)
  model_of_mine <- function() svyglm(api00 ~ stype, design)
  list <- as_imputation_list(release)
  replicates <- release
  replicates$designs <- lapply(release$designs, as.svrepdesign)
  how <- "same in all 3 data sets, and on half of one: .*own, confidential design: give it this one as an argument"
  for (x in list(release, list, replicates)) {
    expect_error(with(x, {x <- design; mean_of_mine()}), how)
    expect_error(with(x, {x <- subset(design, y > 11); coef(model_of_mine())}), how)
    expect_error(with(x, {x <- design; model_of_mine()}), how) # whose formula has another environment each time
    expect_identical(unlist(lapply(with(x, nrow(design)), identity)), rep(20L, 3))
    expect_length(with(x, {x <- design; NULL}), 3) # a plot
    public <- with(x, svytotal(~s, design)) # weights and strata are the same in all
    expect_identical(unique(lapply(public, coef)), list(c(sa = 25, sb = 25)))
  }
  expect_identical(unique(unlist(with_release(release, degf(design)))), 18L)
  expect_error(with_release(release, names(design$variables)), "the names of columns, is in release\\$designs\\[\\[1\\]\\]")
  said <- tryCatch(with_release(release, {x <- design; mean_of_mine()}), error = conditionMessage)
  expect_no_match(said, "662|api00")
  expect_length(with_release(structure(list(designs = release$designs[1], manifest = release$manifest),
                                       class = "surveysynth_release"), {x <- design; mean_of_mine()}), 1)
})

test_that("dplyr's combine() does not come in between", {
  expect_false("combine" %in% getNamespaceExports("surveysynth"))
  release <- small_release()
  dplyr <- attach(list(combine = function(...) do.call(c, unname(lapply(list(...), unlist)))), name = "like dplyr")
  on.exit(detach("like dplyr"))
  expect_s3_class(combine_release(with(release, svymean(~y))), "surveysynth_combined")
})

test_that("groups of svyby() stay columns", {
  release <- small_release()
  got <- as.data.frame(combine_release(with(release, svyby(~ y + x, ~ g + s, FUN = svymean))))
  expect_identical(names(got), c("g", "s", "variable", "estimate", "se", "df", "ci_low", "ci_high", "m"))
  expect_identical(rownames(got), paste0(got$g, ".", got$s, ":", got$variable))
  one <- as.data.frame(combine_release(with(release, svyby(~y, ~g, FUN = svymean))))
  expect_identical(one$g, rownames(one))
  expect_null(as.data.frame(combine_release(with(release, svymean(~y))))$g)
})

test_that("results of srvyr's summarise() are combined as those of svyby()", {
  release <- small_release()
  results <- with_release(release, {
    by <- svyby(~ y + x, ~s, design, svymean)
    data.frame(s = by$s, y = by$y, y_se = by[["se.y"]], x = by$x, x_se = by[["se.x"]], x_low = 0)
  })
  ours <- combine_release(results, degf = 18)
  theirs <- combine_release(with(release, svyby(~ y + x, ~s, FUN = svymean)), degf = 18)
  expect_equal(ours[c("coefficients", "variance", "df", "groups")], theirs[c("coefficients", "variance", "df", "groups")])
  expect_error(combine_release(list(data.frame(s = "a", y = 1))), "survey_mean")
})

test_that("summaries have the t and p values of survey's for a single data set, and printCoefmat() shows them", {
  release <- small_release()
  release$designs <- release$designs[1]
  combined <- combine_release(with(release, svyglm(y ~ x + s)))
  theirs <- summary(svyglm(y ~ x + s, release$designs[[1]]))$coefficients
  ours <- coef(summary(combined))
  expect_equal(ours[, c("Estimate", "Std. Error", "t value", "Pr(>|t|)")], theirs)
  text <- capture.output(print(summary(combined)))
  expect_match(text, "^y ~ x \\+ s \\(gaussian\\)$", all = FALSE)
  expect_match(text, "Estimate Std. Error t value Pr\\(>\\|t\\|\\)", all = FALSE)
  expect_match(text, "t tests on 16.0 degrees of freedom", all = FALSE)
  z <- coef(summary(combined, df = Inf))
  expect_equal(z[, "Pr(>|t|)"], 2 * pnorm(-abs(z[, "t value"])))
  expect_equal(confint(combined), confint(svyglm(y ~ x + s, release$designs[[1]])), ignore_attr = TRUE)
  expect_identical(nobs(combined), 20L)
  expect_identical(df.residual(combined), 16)
})

test_that("the Wald test is regTermTest() for a single data set, and Reiter's rule by hand for several", {
  release <- small_release()
  alone <- release
  alone$designs <- release$designs[1]
  model <- with(alone, svyglm(y ~ x + g))
  ours <- wald_test(combine_release(model), ~g)
  theirs <- regTermTest(svyglm(y ~ x + g, release$designs[[1]]), ~g)
  expect_equal(unname(ours$statistic), drop(theirs$Ftest))
  expect_equal(ours$p.value, drop(theirs$p))
  expect_identical(unname(ours$parameter), c(2, theirs$ddf))

  combined <- combine_release(with(release, svyglm(y ~ x + g)))
  each <- lapply(release$designs, function(d) svyglm(y ~ x + g, d))
  q <- t(vapply(each, function(fit) coef(fit)[3:4], c(0, 0)))
  U <- Reduce(`+`, lapply(each, function(fit) vcov(fit)[3:4, 3:4])) / 3
  r <- sum(diag((var(q) / 3) %*% solve(U))) / 2
  F <- drop(t(colMeans(q)) %*% solve(U) %*% colMeans(q)) / 2 / (1 + r)
  w <- 4 * (1 + 1 / 2) * (1 + 1 / r)^2 / 2 # t = 2 (3 - 1), which is not above 4
  test <- wald_test(combined, ~g)
  expect_equal(unname(test$statistic), F)
  expect_equal(unname(test$parameter), c(2, min(w, 15)))
  expect_equal(test, wald_test(combined, c("gv", "gw")))
  expect_error(wald_test(combined, ~z), "no term z; it has x, g")
  expect_error(wald_test(combined, "gx"), "no coefficient")
  expect_error(wald_test(combine_release(with(release, svymean(~g)))), "determine each other")
})

test_that("contrasts are survey's of each data set, combined", {
  release <- small_release()
  means <- combine_release(with(release, svyby(~y, ~s, FUN = svymean, covmat = TRUE)))
  for (contrast in list(list(gap = c(a = 1, b = -1)), quote(b / a))) {
    ours <- svycontrast(means, contrast)
    theirs <- combine_release(lapply(release$designs, function(d) {
      svycontrast(svyby(~y, ~s, d, svymean, covmat = TRUE), contrast)
    }), degf = means$degf)
    expect_equal(as.data.frame(ours), as.data.frame(theirs), ignore_attr = TRUE)
  }
  expect_error(svycontrast(combine_release(with(release, svyby(~y, ~s, FUN = svymean))), c(a = 1, b = -1)),
               "covmat = TRUE")
})

test_that("tidy() and glance() follow broom's conventions", {
  skip_if_not_installed("generics")
  release <- small_release()
  combined <- combine_release(with(release, svyglm(y ~ x + s)))
  tidied <- as.data.frame(generics::tidy(combined, conf.int = TRUE, conf.level = 0.9))
  expect_identical(names(tidied), c("term", "estimate", "std.error", "statistic", "df", "p.value", "conf.low", "conf.high"))
  expect_equal(tidied$conf.low, unname(confint(combined, level = 0.9)[, 1]))
  logged <- as.data.frame(generics::tidy(combined, exponentiate = TRUE))
  expect_equal(logged$estimate, exp(tidied$estimate))
  expect_equal(as.data.frame(generics::glance(combined)), data.frame(nobs = 20L, family = "gaussian", df.residual = 16, m = 3))
  expect_identical(generics::tidy(combine_release(with(release, svyby(~y, ~g, FUN = svymean))))$g, c("u", "v", "w"))
})

test_that("intervals of a level that is none are refused", {
  combined <- combine_release(with(small_release(), svymean(~y)))
  for (level in list(95, 0, NA, "a", c(0.9, 0.95))) expect_error(confint(combined, level = level), "between 0 and 1")
  expect_equal(as.data.frame(combined, level = 0.9)$ci_low, unname(confint(combined, level = 0.9)[1, 1]))
})
