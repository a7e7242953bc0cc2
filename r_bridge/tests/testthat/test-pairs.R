# The noise that all data sets of a strict release share, estimated from pairs of data sets where there is no Python.

# Six estimates of two quantities, in pairs, with their covariance: results as those of svymean().
q <- rbind(c(3, 5, 4, 8, 1, 2), c(10, 9, 8, 4, 5, 9))
u <- lapply(1:6, function(i) matrix(c(1, 0.5, 0.5, 2) * (1 + i / 10), 2))
results_of <- function(q, u) {
  lapply(seq_along(u), function(i) structure(stats::setNames(q[, i], c("a", "b")), var = u[[i]], class = "svystat"))
}

# T = mean(u) + N + B / M and its degrees of freedom, by the lines of docs/analysing.md.
pair_rule <- function(q, u, d) {
  pairs <- matrix(q, nrow = 2)
  M <- ncol(pairs)
  w <- mean(diff(pairs)^2) / 2
  B <- var(colMeans(pairs))
  T <- mean(u) + max(0, B - w / 2) + B / M
  c(mean(q), T, min(T^2 / (((1 + 1 / M) * B)^2 / (M - 1) + (w / 2)^2 / M + mean(u)^2 / d), d))
}

test_that("variances and degrees of freedom from pairs of data sets are those of the manual", {
  for (d in c(8, 50, Inf)) {
    combined <- combine_release(results_of(q, u), degf = d, pairs = TRUE)
    hand <- sapply(1:2, function(k) pair_rule(q[k, ], sapply(u, function(u) u[k, k]), d))
    expect_equal(unname(rbind(coef(combined), diag(vcov(combined)), combined$df)), hand, tolerance = 1e-12)
  }
  expect_output(print(combined), "all data sets share is estimated from pairs")
  expect_output(print(summary(combined)), "all data sets share is estimated from pairs")
  means <- rbind(c(4, 6, 1.5), c(9.5, 6, 7)) # by hand: covariances of pair means, and of halves of differences
  half <- rbind(c(-1, -2, -0.5), c(0.5, 2, -2))
  expected <- 1.35 * 0.5 + cov(means[1, ], means[2, ]) * (1 + 1 / 3) - sum(half[1, ] * half[2, ]) / 3
  expect_equal(vcov(combined)[1, 2], expected, tolerance = 1e-12)
  expect_output(print(combine_release(results_of(q, u))), "data sets$")
})

test_that("a contrast of combined estimates has the variance of its own pairs", {
  combined <- combine_release(results_of(q, u), degf = 8, pairs = TRUE)
  contrast <- svycontrast(combined, c(a = 1, b = -1))
  hand <- pair_rule(q[1, ] - q[2, ], sapply(u, function(u) u[1, 1] + u[2, 2] - 2 * u[1, 2]), 8)
  expect_equal(unname(c(coef(contrast), vcov(contrast), contrast$df)), hand, tolerance = 1e-12)
})

test_that("noise below 0 is 0, and covariances of noise have no negative eigenvalues", {
  within <- q[, c(1, 3, 2, 5, 4, 6)] + 10 * rep(c(1, -1), each = 2) # pairs that differ more than their means
  combined <- combine_release(results_of(within, u), pairs = TRUE)
  hand <- sapply(1:2, function(k) pair_rule(within[k, ], sapply(u, function(u) u[k, k]), Inf))
  expect_equal(unname(rbind(diag(vcov(combined)), combined$df)), hand[2:3, ], tolerance = 1e-12)
  set.seed(8)
  for (case in 1:20) {
    found <- bridge$of_pairs(matrix(rnorm(5 * 8), 5) * c(1, 10, 0.1, 1, 1e4))
    N <- bridge$shared_noise(found)
    size <- sqrt(diag(found$B) + diag(found$w))
    expect_equal(diag(N), pmax(diag(found$B - found$w), 0))
    expect_gt(min(eigen(N / outer(size, size), symmetric = TRUE)$values), -1e-12)
  }
  fine <- list(B = diag(3) + 0.2, w = diag(3) / 4) # nothing to change
  expect_equal(bridge$shared_noise(fine), fine$B - fine$w)
  one <- combine_release(lapply(1:6, function(i) structure(c(a = 2), var = matrix(0), class = "svystat")), 7, pairs = TRUE)
  expect_identical(c(SE(one), one$df), c(a = 0, 7))
})

test_that("a pair that lacks an estimate in one data set is left out of the noise, but not of the estimate", {
  wide <- cbind(q, q + 5)
  more <- c(u, u)
  results <- results_of(wide, more)
  results[[4]] <- structure(c(a = 8), var = matrix(1.4), class = "svystat")
  combined <- combine_release(results, degf = 60, pairs = TRUE)
  kept <- wide[2, -(3:4)]
  w <- mean(diff(matrix(kept, nrow = 2))^2) / 4
  B <- var(colMeans(matrix(kept, nrow = 2)))
  expect_equal(coef(combined)[["b"]], mean(wide[2, -4]))
  expect_equal(vcov(combined)[2, 2], mean(sapply(more[-4], function(u) u[2, 2])) + B - w + B / 5)
  expect_equal(SE(combined)[["a"]], sqrt(pair_rule(wide[1, ], sapply(more, function(u) u[1, 1]), 60)[2]), tolerance = 0.01)
  few <- results_of(q, u)
  for (i in c(1, 3)) few[[i]] <- structure(c(a = q[1, i]), var = u[[i]][1, 1, drop = FALSE], class = "svystat")
  expect_identical(unname(is.na(SE(combine_release(few, pairs = TRUE)))), c(FALSE, TRUE)) # one pair is left
})

test_that("joint tests take the noise from pairs of data sets", {
  combined <- combine_release(results_of(q, u), pairs = TRUE)
  one <- wald_test(combined, "b")
  expect_equal(one$statistic[["F"]], coef(combined)[["b"]]^2 / vcov(combined)[2, 2], tolerance = 1e-12)
  U <- Reduce(`+`, u) / 6
  means <- rbind(c(4, 6, 1.5), c(9.5, 6, 7))
  half <- rbind(c(-1, -2, -0.5), c(0.5, 2, -2))
  relative <- function(V) sum(diag(solve(U) %*% V)) / 2
  r <- relative(cov(t(means))) / 3 + max(0, relative(cov(t(means)) - half %*% t(half) / 3))
  both <- wald_test(combined, c("a", "b"))
  expect_equal(both$statistic[["F"]], drop(rowMeans(q) %*% solve(U) %*% rowMeans(q)) / 2 / (1 + r), tolerance = 1e-12)
  expect_equal(both$parameter[["denom df"]], 4 * (1 + 1 / 2) * (1 + 1 / r)^2 / 2) # t = p (M - 1) = 4
})

test_that("fewer than four data sets have too few pairs, as a warning says", {
  expect_warning(few <- combine_release(results_of(q, u[1:3]), pairs = TRUE), "it takes Python, or 4 data sets or more")
  expect_equal(vcov(few), vcov(combine_release(results_of(q, u[1:3]))))
})

# A strict release of 40 data sets, so of M = 20 pairs, with much noise. It has 2000 records, as N by Python is what moves
# one data set whose random numbers are kept: of few records in a domain it is more than what all data sets share.
strict_release <- local({
  made <- NULL
  function() {
    if (is.null(made)) {
      need_python()
      frame <- apipop[seq(1, nrow(apipop), length.out = 2000), ]
      frame$pw <- nrow(apipop) / 2000
      design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = frame)
      made <<- synthesize(design, api00 ~ stype + awards, epsilon = 1, m = 40, population_total = 6194, bounds = c(200, 1000),
                          seed = 5)
    }
    made
  }
})

test_that("the noise from pairs of data sets and that from Python agree within Monte Carlo error", {
  release <- strict_release()
  calls <- list(
    with_release(release, svyby(~api00, ~ stype + awards, design, svymean, covmat = TRUE)),
    with_release(release, svyglm(api00 ~ stype + awards, design)), with_release(release, svymean(~api00, design)),
    with_release(release, svyby(~I(api00 < 600), ~stype, design, svyciprop, vartype = "se")),
    with_release(release, svytotal(~api00, design)), with_release(release, svyquantile(~api00, design, c(0.25, 0.5, 0.75)))
  )
  # T less mean(u) is mostly noise. By the pairs it is a chi-square of M - 1 = 19 degrees of freedom, or of M / 2 = 10, as errors
  # of draws come with both signs; by Python one of 23, of 24 draws. So their ratio is about F on (10, 23): the quantiles of
  # 0.0005 and 0.9995.
  limits <- qf(c(0.0005, 0.9995), 10, 23)
  ratios <- unlist(lapply(calls, function(results) {
    by_python <- combine_release(results)
    by_pairs <- combine_release(results, redrawn = NULL)
    expect_equal(coef(by_pairs), coef(by_python))
    within <- colMeans(do.call(rbind, lapply(by_python$each, function(one) diag(attr(one, "var")))))
    (diag(vcov(by_pairs)) - within) / (diag(vcov(by_python)) - within)
  }))
  expect_length(ratios, 6 + 4 + 1 + 3 + 1 + 3)
  expect_true(all(ratios > limits[1] & ratios < limits[2]))
  expect_true(abs(mean(log(ratios))) < log(2))
})

test_that("without Python a strict release is combined by pairs, without a warning", {
  release <- strict_release()
  folder <- tempfile("release")
  write_release(release, folder)
  results <- with_release(release, svyglm(api00 ~ stype + awards, design))
  here <- combine_release(results, redrawn = NULL)
  tests <- lapply(list(with_release(release, svyttest(api00 ~ awards, design)),
                       with_release(release, svychisq(~ stype + awards, design)),
                       with_release(release, svyranktest(api00 ~ stype, design))), combine_release, redrawn = NULL)
  file <- tempfile(fileext = ".R")
  writeLines(c("
options(warn = 2)
suppressMessages({ library(survey); library(surveysynth) })
release <- read_release(commandArgs(TRUE))
fits <- with_release(release, svyglm(api00 ~ stype + awards, design))
model <- combine_release(fits)
predicted <- predict(model, data.frame(stype = 'H', awards = 'Yes'))
tests <- list(combine_release(with_release(release, svyttest(api00 ~ awards, design))),
              combine_release(with_release(release, svychisq(~ stype + awards, design))),
              combine_release(with_release(release, svyranktest(api00 ~ stype, design))))
of_list <- combine_release(with(as_imputation_list(release), svyglm(api00 ~ stype + awards)))
stopifnot(reticulate::py_available() == FALSE)
cat(jsonlite::toJSON(list(se = SE(model), df = model$df, listed = SE(of_list), wald = wald_test(model)$statistic,
                          predicted = SE(predicted), tests = sapply(tests, function(test) test$statistic),
                          sets = combine_release(with(release, svymean(~api00)))$m), digits = NA))"), file)
  nowhere <- tempfile()
  said <- with_env(c(SURVEYSYNTH_PYTHON = nowhere, RETICULATE_PYTHON = NA, WORKON_HOME = nowhere,
                     R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)), {
    system2(file.path(R.home("bin"), "Rscript"), c(file, shQuote(file.path(folder, "public"))), stdout = TRUE)
  })
  there <- jsonlite::fromJSON(said[length(said)])
  expect_equal(there$se, unname(SE(here)), tolerance = 1e-9)
  expect_equal(there$listed, there$se, tolerance = 1e-12)
  expect_equal(there$df, here$df, tolerance = 1e-9)
  expect_equal(there$wald, unname(wald_test(here)$statistic), tolerance = 1e-9)
  expect_equal(there$predicted, unname(SE(predict(here, data.frame(stype = "H", awards = "Yes")))), tolerance = 1e-9)
  expect_equal(there$tests, unname(sapply(tests, function(test) test$statistic)), tolerance = 1e-9)
  expect_identical(there$sets, 40L)
})
