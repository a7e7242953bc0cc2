classes <- local({
  data <- apistrat[c("stype", "pw", "api00", "enroll", "awards")]
  data$grade <- factor(ifelse(data$api00 > 700, "high", ifelse(data$api00 > 500, "mid", "low")), c("mid", "low", "high"), ordered = TRUE)
  data$letter <- factor(substr(apistrat$cname, 1, 1) > "M", c(TRUE, FALSE, NA), c("z", "a", "never"), exclude = character())
  data$ok <- data$api00 > 600
  data$day <- as.Date("2020-02-28") + data$enroll
  data$place <- factor(data$stype, c("M", "E", "H"))
  attr(data$enroll, "label") <- "Number of pupils"
  svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = data)
})
outcomes <- c("grade", "letter", "ok", "day", "enroll")

test_that("outcomes come back in the classes that they had, also from a folder", {
  need_python()
  made <- synthesize(
    classes, list(grade ~ place, letter ~ place, ok ~ place + grade, day ~ place, enroll ~ place + ok), epsilon = 20, m = 4,
    population_total = 6194, bounds = list(day = as.Date(c("2020-01-01", "2035-01-01")), enroll = c(0, 5000))
  )
  folder <- tempfile("release")
  on.exit(unlink(folder, recursive = TRUE))
  write_release(made, folder)
  for (each in list(made, read_release(folder))) {
    for (design in each$designs) {
      frame <- design$variables
      original <- classes$variables
      for (name in outcomes) {
        expect_identical(class(frame[[name]]), class(original[[name]]))
        expect_identical(levels(frame[[name]]), levels(original[[name]]))
        expect_identical(attr(frame[[name]], "label"), attr(original[[name]], "label"))
      }
      expect_true(all(frame$day >= as.Date("2020-01-01") & frame$day <= as.Date("2035-01-01")))
      expect_identical(levels(frame$place), c("M", "E", "H"))
    }
  }
  expect_identical(made$designs[[3]]$variables, read_release(folder)$designs[[3]]$variables)
  # R's survey and the tables agree on each class, in the order of levels
  by_grade <- tables(made, by = ~ grade, outcome = "enroll", statistic = "mean")
  expect_identical(as.character(by_grade$grade), c("mid", "low", "high", "all"))
  expect_identical(levels(by_grade$grade), c("mid", "low", "high", "all"))
  ours <- as.data.frame(combine_release(with_release(made, svyby(~enroll, ~grade, design, svymean))))
  expect_identical(as.character(ours$grade), c("mid", "low", "high"))
  expect_equal(ours$se, by_grade$se[1:3])
  shares <- tables(made, outcome = "ok")
  expect_identical(shares$category[shares$statistic == "proportion"], c("FALSE", "TRUE"))
  share <- combine_release(with_release(made, svymean(~ok, design)))
  expect_equal(unname(coef(share)), shares$estimate[shares$statistic == "proportion"])
  expect_equal(unname(SE(share)), shares$se[shares$statistic == "proportion"])
})

test_that("missing answers are a level where they are declared, and NA among numbers", {
  need_python()
  data <- transform(classes$variables, ok = replace(ok, 1:40, NA), letter = replace(letter, 1:40, NA),
                    enroll = replace(enroll, 1:40, NA))
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = data)
  expect_error(synthesize(design, letter ~ stype, epsilon = 5, population_total = 6194),
               "outcomes = list(letter = outcome(..., missing = \"category\"))", fixed = TRUE)
  made <- synthesize(
    design, list(ok ~ stype, letter ~ stype, enroll ~ stype), epsilon = 20, m = 4, population_total = 6194,
    outcomes = list(ok = outcome(missing = "category"), letter = outcome(missing = "category"),
                    enroll = outcome(bounds = c(0, 5000), missing = "category"))
  )
  folder <- tempfile("release")
  on.exit(unlink(folder, recursive = TRUE))
  write_release(made, folder)
  for (each in list(made, read_release(folder))) {
    frame <- each$designs[[1]]$variables
    expect_identical(levels(frame$ok), c("FALSE", "TRUE", "missing"))
    expect_identical(levels(frame$letter), c("z", "a", "never", "missing"))
    expect_false(anyNA(frame$ok))
    expect_type(frame$enroll, "integer")
    expect_true(anyNA(frame$enroll))
  }
  expect_setequal(tables(made, outcome = "ok")$category, c("", "FALSE", "TRUE", "missing"))
})

test_that("classes declare nothing that the call declares otherwise", {
  need_python()
  strictly <- function(...) {
    synthesize(classes, enroll ~ stype, epsilon = 20, m = 4, population_total = 6194, ...)$designs[[1]]$variables$enroll
  }
  expect_type(strictly(bounds = c(0, 5000)), "integer")
  expect_type(strictly(outcomes = list(enroll = outcome(bounds = c(0, 5000), whole = FALSE))), "double")
})

test_that("dates and times that cannot be used are refused in words of R", {
  data <- transform(classes$variables, time = as.POSIXct(day))
  design <- svydesign(ids = ~1, weights = ~pw, data = data)
  expect_error(synthesize(design, time ~ stype, 5), "column .time. has times: .* time = as.Date\\(time\\)")
  expect_error(synthesize(design, day ~ stype, 5, mechanism = pseudo_posterior()), "only strict releases synthesize dates")
  expect_error(synthesize(design, api00 ~ day, 5), "has .day., a date, among the predictors")
})
