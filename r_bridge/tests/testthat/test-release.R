library(survey)

# A release folder with known numbers, as the Python package lays one out.
make_release <- function(frames, design = list(weights = "wt", strata = "field")) {
  folder <- tempfile("release")
  dir.create(file.path(folder, "public"), recursive = TRUE)
  for (i in seq_along(frames)) {
    write.csv(frames[[i]], file.path(folder, "public", sprintf("synthetic_%d.csv", i)), row.names = FALSE)
  }
  manifest <- list(
    method = "FBS", m = length(frames), epsilon = 10.8, kind = "asymptotic", publication = "for tests",
    synthesized = "y", public_predictors = c("field", "size"), design = design,
    dtypes = list(field = "str", size = "category", y = "float64", wt = "float64"),
    levels = list(size = list(categories = c("small", "large"), ordered = TRUE))
  )
  jsonlite::write_json(manifest, file.path(folder, "public", "manifest.json"), auto_unbox = TRUE)
  folder
}

frame <- function(shift) {
  data.frame(field = rep(c("01", "02"), each = 4), size = rep(c("small", "large"), 4),
             y = c(1, 2, 4, 8, 3, 5, 7, 9) + shift, wt = c(2, 1, 1, 3, 2, 2, 1, 1))
}

test_that("files become designs, text stays text and categories keep their order", {
  release <- read_release(make_release(list(frame(0), frame(1))))
  expect_length(release$designs, 2)
  expect_identical(release$designs[[1]]$variables$field[1], "01")
  expect_identical(levels(release$designs[[1]]$variables$size), c("small", "large"))
  expect_equal(degf(release$designs[[1]]), 6)
  expect_output(print(release), "2 synthetic data sets of 8 records by FBS, epsilon = 10.8")
})

test_that("combine() is the partial-synthesis rule, by hand", {
  release <- read_release(make_release(list(frame(0), frame(0.5), frame(2))))
  each <- lapply(release$designs, function(d) svymean(~y, d))
  q <- vapply(each, function(x) coef(x)[["y"]], 0)
  u <- vapply(each, function(x) SE(x)[[1]]^2, 0)
  got <- as.data.frame(combine(with_release(release, svymean(~y, design))))
  expect_equal(got$estimate, mean(q))
  expect_equal(got$se, sqrt(mean(u) + var(q) / 3))
  expect_equal(got$df, min(2 * (1 + mean(u) / (var(q) / 3))^2, 6))
  rubin <- sqrt(mean(u) + (1 + 1 / 3) * var(q))
  expect_gt(rubin / got$se, 1.05)
  limits <- confint(combine(with_release(release, svymean(~y, design))))
  expect_equal(unname(limits[1, ]), c(got$ci_low, got$ci_high))
})

test_that("a category that is missing from one data set is combined over the others", {
  lacking <- subset(frame(1), size == "small")
  release <- read_release(make_release(list(frame(0), lacking, frame(3))))
  got <- as.data.frame(combine(with_release(release, svyby(~y, ~size, design, svymean))))
  expect_identical(got$m, c(3, 2))
  large <- vapply(release$designs[c(1, 3)], function(d) coef(svymean(~y, subset(d, size == "large")))[["y"]], 0)
  expect_equal(got["large", "estimate"], mean(large))
})

test_that("variables of the caller are seen, and one data set has no between variance", {
  release <- read_release(make_release(list(frame(0))))
  what <- ~y
  got <- as.data.frame(combine(with_release(release, svytotal(what, design))))
  expect_equal(got$se, unname(SE(svytotal(~y, release$designs[[1]]))[[1]]))
  expect_equal(got$df, 6)
})

test_that("a folder that is no release is refused", {
  expect_error(read_release(tempdir()), "not a release")
})
