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
    combined <- combine(with(release, svyby(~income, ~region, FUN = svymean)))
    expect_identical(plot(combined, level = 0.9), combined)
    expect_identical(graphics::par("mar"), before)
  })
  expect_true(bridge$skewed(exp(qnorm(ppoints(100)))))
  expect_false(bridge$skewed(qnorm(ppoints(100)) + 100))
})
