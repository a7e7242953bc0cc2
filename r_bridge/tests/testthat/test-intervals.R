# Intervals of the statistics that have one of their own: survey's for one data set, and the rule by hand for several.

alone <- function(release) {
  release$designs <- release$designs[1]
  release
}

test_that("the interval of one data set is that of svyciprop(), by every method that has a scale", {
  release <- alone(small_release())
  for (method in c("logit", "xlogit", "asin", "mean")) {
    ours <- combine_release(with_release(release, svyciprop(~I(x > 1.8), design, method = method)))
    for (level in c(0.95, 0.8)) {
      theirs <- confint(svyciprop(~I(x > 1.8), release$designs[[1]], method = method, level = level))
      expect_equal(as.vector(confint(ours, level = level)), as.vector(theirs), tolerance = 1e-9)
    }
  }
  for (method in c("likelihood", "beta")) {
    expect_error(combine_release(with_release(release, svyciprop(~I(x > 1.8), design, method = method))),
                 "write method = \"logit\", \"asin\" or \"mean\"")
  }
})

test_that("shares are combined on the scale of their method, and no limit is below 0 or above 1", {
  release <- small_release()
  scales <- list(logit = list(qlogis, plogis, function(p) 1 / (p * (1 - p))),
                 asin = list(function(p) asin(sqrt(p)), function(x) sin(x)^2, function(p) 1 / (2 * sqrt(p * (1 - p)))),
                 mean = list(identity, identity, function(p) 1))
  for (method in names(scales)) {
    each <- lapply(release$designs, function(d) svymean(~I(as.numeric(x > 1.8)), d))
    hand <- by_hand(vapply(each, coef, 0), vapply(each, SE, 0), 18)
    scale <- scales[[method]]
    expected <- scale[[2]](scale[[1]](hand[1]) + c(-1, 1) * qt(0.975, hand[3]) * scale[[3]](hand[1]) * hand[2])
    results <- with_release(release, svyciprop(~I(x > 1.8), design, method = method))
    expect_equal(as.vector(confint(combine_release(results))), expected, tolerance = 1e-9)
    expect_equal(as.vector(confint(combine_release(lapply(results, identity), degf = 18))), expected, tolerance = 1e-9)
    got <- as.data.frame(combine_release(with_release(release, svyciprop(~I(x > 4), design, method = method))))
    expect_true(got$estimate > 0 && got$estimate < 0.1 && got$df > 0 && got$ci_low >= 0 && got$ci_low < got$estimate)
    if (method == "logit") expect_gt(got$ci_low, 0)
  }
  expect_lt(confint(combine_release(with_release(release, svymean(~I(x > 4), design))))[2, 1], 0)
})

test_that("the method of svyciprop() within svyby() counts, too", {
  release <- small_release()
  one <- release$designs[[1]]
  for (method in c("logit", "asin", "mean")) {
    results <- eval(bquote(with_release(alone(release), svyby(~I(y > 11), ~s, design, svyciprop, method = .(method)))))
    theirs <- vapply(c("a", "b"), function(s) confint(svyciprop(~I(y > 11), one[one$variables$s == s, ], method = method)), c(0, 0))
    expect_equal(unname(confint(combine_release(results))), unname(t(pmin(theirs, 1))), tolerance = 1e-9)
  }
  default <- combine_release(with_release(release, svyby(~I(y > 11), ~s, design, svyciprop)))
  expect_equal(confint(default), confint(combine_release(with_release(release, svyby(~I(y > 11), ~s, design, svyciprop, method = "logit")))))
  expect_error(combine_release(with_release(release, svyby(~I(y > 11), ~s, design, svyciprop, method = "beta"))),
               "write method = \"logit\"")
  method <- "asin"
  expect_error(combine_release(with_release(release, svyby(~I(y > 11), ~s, design, svyciprop, method = method))), "as text")
})

test_that("shares have the intervals of tables()", {
  need_python()
  release <- update(shared_release(), good = api00 > 750)
  table <- tables(release, by = ~stype, outcome = "good", statistic = "proportion")
  table <- table[table$category == "TRUE" & table$stype != "all", ]
  ours <- as.data.frame(combine_release(with(release, svyby(~good, ~stype, FUN = svyciprop))))
  expect_equal(ours[c("estimate", "se", "df", "ci_low", "ci_high")],
               as.data.frame(unclass(table))[c("estimate", "se", "df", "ci_low", "ci_high")], ignore_attr = TRUE, tolerance = 1e-8)
})

test_that("shares of 0 and 1 have the limits of tables(), and no warnings", {
  release <- update(example(), rich = income > 60000 & region == "north", other = !rich, none = income > 1e9)
  records <- vapply(c("south", "west"), function(r) min(vapply(release$designs, function(d) sum(d$variables$region == r), 0L)), 0L)
  for (method in c("logit", "mean", "asin")) {
    call <- bquote(with_release(release, svyby(~rich, ~region, design, svyciprop, method = .(method))))
    shares <- expect_no_warning(combine_release(eval(call)))
    expect_true(coef(shares)[[1]] > 0 && SE(shares)[[1]] > 0)
    expect_identical(unname(c(coef(shares)[-1], SE(shares)[-1])), rep(0, 4))
    n_eff <- records * pmin(1, (qt(0.95, records - 1) / qt(0.95, shares$df[-1]))^2)
    expect_equal(unname(confint(shares, level = 0.9)[-1, ]), unname(cbind(0, 1 - 0.05^(1 / n_eff))), tolerance = 1e-12)
    call[[3]][[2]] <- ~other
    expect_equal(unname(confint(combine_release(eval(call)))), unname(1 - confint(shares)[, 2:1]), tolerance = 1e-9)
  }
  alone <- combine_release(suppressWarnings(with_release(release, svyciprop(~none, design))))
  expect_identical(unname(c(coef(alone), SE(alone))), c(0, 0))
  expect_true(all(is.na(confint(alone))))
  expect_output(print(alone), "svyby(..., FUN = svyciprop) has one", fixed = TRUE)
  expect_false(any(grepl("records", capture.output(print(shares)))))
  need_python()
  table <- as.data.frame(tables(release, by = ~region, outcome = "rich", statistic = "proportion"))
  table <- table[table$category == "TRUE" & table$region != "all", ]
  ours <- as.data.frame(combine_release(with_release(release, svyby(~rich, ~region, design, svyciprop))))
  expect_equal(ours[numbers], table[numbers], ignore_attr = TRUE, tolerance = 1e-8)
})

test_that("each side of a quantile's interval has its own width", {
  release <- small_release()
  one <- release$designs[[1]]
  for (type in c("mean", "xlogit", "asin", "beta", "score")) {
    ours <- combine_release(with_release(alone(release), svyquantile(~ y + x, design, c(0.25, 0.6), interval.type = type)))
    theirs <- confint(svyquantile(~ y + x, one, c(0.25, 0.6), interval.type = type))
    expect_equal(unname(confint(ours)), unname(theirs), tolerance = 1e-9)
  }
  expect_true(any(abs(rowMeans(theirs) - coef(ours)) > 0.01)) # not symmetric

  each <- lapply(release$designs, function(d) svyquantile(~x, d, 0.6))
  q <- vapply(each, coef, 0)
  limits <- vapply(each, confint, c(0, 0))
  hand <- by_hand(q, vapply(each, SE, 0), 18)
  within <- rowMeans((limits - rep(q, each = 2))^2) / qt(0.975, 18)^2
  expected <- mean(q) + c(-1, 1) * qt(0.975, hand[3]) * sqrt(within + var(q) / 3)
  combined <- combine_release(with_release(release, svyquantile(~x, design, 0.6)))
  expect_equal(as.vector(confint(combined)), expected, tolerance = 1e-9)
  expect_equal(unlist(as.data.frame(combined)[c("estimate", "se", "df")], use.names = FALSE), hand, tolerance = 1e-9)

  results <- with_release(alone(release), svyby(~ y + x, ~s, design, svyquantile, quantiles = c(0.4, 0.6), vartype = c("se", "ci")))
  own <- as.data.frame(results[[1]])
  ours <- confint(combine_release(results))
  there <- which(!is.na(coef(results[[1]]) + SE(combine_release(results)))) # Woodruff's limits may be beyond the data
  expect_gt(length(there), 4)
  expect_equal(ours[there, 1], unlist(own[grep("^ci_l", names(own))])[there], ignore_attr = TRUE, tolerance = 1e-9)
  by_domain <- vapply(c("a", "b"), function(s) {
    d <- one[one$variables$s == s, ]
    c(confint(svyquantile(~y, d, 0.4)))
  }, c(0, 0))
  expect_equal(unname(confint(combine_release(results))[1:2, ]), unname(t(by_domain)), tolerance = 1e-9)
})

test_that("kappa stays between -1 and 1", {
  release <- small_release()
  for (i in 1:3) {
    f <- release$designs[[i]]$variables
    release$designs[[i]]$variables <- transform(f, a = factor(y > 11), b = factor(replace(y > 11, i, f$y[i] <= 11)))
  }
  each <- lapply(release$designs, function(d) svykappa(~ a + b, d))
  hand <- by_hand(vapply(each, coef, 0), vapply(each, SE, 0), 18)
  got <- as.data.frame(combine_release(with_release(release, svykappa(~ a + b, design))))
  expect_equal(unlist(got[c("estimate", "se", "df")], use.names = FALSE), hand, tolerance = 1e-9)
  symmetric <- hand[1] + c(-1, 1) * qt(0.975, hand[3]) * hand[2]
  expect_gt(symmetric[2], 1)
  expect_equal(c(got$ci_low, got$ci_high), c(symmetric[1], 1), tolerance = 1e-9)
})
