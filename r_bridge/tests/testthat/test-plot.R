on_a_page <- function(draw) {
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  on.exit({
    grDevices::dev.off()
    unlink(file)
  })
  force(draw)
}

test_that("a distribution function steps up by the weights", {
  steps <- bridge$distribution(c(3, 1, 2), c(1, 2, 1))
  expect_identical(steps$value, c(1, 1, 2, 3))
  expect_identical(steps$share, c(0, 0.5, 0.75, 1))
})

test_that("plots return what they show and leave the page's settings alone", {
  release <- read_release(system.file("example-release", package = "surveysynth"))
  on_a_page({
    before <- graphics::par("mar")
    expect_identical(plot(release), release)
    expect_identical(plot(release, log = TRUE, main = "income"), release)
    expect_error(plot(release, "region"), "the outcomes of this release are income")
    combined <- combine_release(with(release, svyby(~income, ~region, FUN = svymean)))
    expect_identical(plot(combined, level = 0.9), combined)
    expect_identical(graphics::par("mar"), before)
  })
  expect_identical(vapply(c(0.5, 1e5, 2e6), bridge$in_plain, ""), c("0.5", "100,000", "2,000,000"))
  expect_true(bridge$skewed(exp(qnorm(ppoints(100)))))
  expect_false(bridge$skewed(qnorm(ppoints(100)) + 100))
})

test_that("a table is drawn by its cells, one outcome and statistic at a time", {
  table <- structure(data.frame(
    g = rep(c("a", "b", "all"), 3), statistic = rep(c("count", "mean", "mean"), each = 3),
    outcome = rep(c("", "x", "y"), each = 3), estimate = 1:9, se = 1, df = 5, ci_low = 0:8, ci_high = 2:10, n = 9L
  ), class = c("surveysynth_table", "data.frame"))
  drawn <- function(statistic = NULL, outcome = NULL) {
    cells <- bridge$cells_to_draw(table, statistic, outcome)
    list(cells$estimate, unname(cells$limits[, 1]), cells$labels, cells$what)
  }
  expect_equal(drawn(), list(4:5, 3:4, c("a", "b"), "mean x"))
  expect_equal(drawn(outcome = "y"), list(7:8, 6:7, c("a", "b"), "mean y"))
  expect_equal(drawn("count"), list(1:2, 0:1, c("a", "b"), "count"))
  on_a_page({
    expect_identical(plot(table), table)
    expect_error(plot(table, "total"), "statistic is one of .count., .mean.")
    expect_error(plot(table[c("g", "estimate")]), "keep its columns statistic")
  })
})
