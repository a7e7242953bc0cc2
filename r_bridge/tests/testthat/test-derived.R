session <- bridge$session

test_that("columns are derived on every data set, without Python", {
  release <- example()
  made <- update(release, poor = income < 20000, thousands = income / 1000, rich = !poor)
  for (i in seq_along(release$designs)) {
    frame <- release$designs[[i]]$variables
    expect_identical(made$designs[[i]]$variables[names(frame)], frame)
    expect_identical(made$designs[[i]]$variables$poor, frame$income < 20000)
    expect_identical(made$designs[[i]]$variables$rich, frame$income >= 20000)
  }
  expect_null(release$designs[[1]]$variables$poor)
  by_hand <- with_release(release, svymean(~poor, update(design, poor = as.numeric(income < 20000))))
  here <- with_release(made, svymean(~as.numeric(poor), design))
  expect_equal(as.data.frame(combine_release(here)), as.data.frame(combine_release(by_hand)), ignore_attr = TRUE)
  expect_output(print(made), "Derived: poor, thousands, rich")
})

test_that("what is not row-wise, or has a name that is taken, is refused", {
  release <- example()
  elsewhere <- seq_len(nrow(release$designs[[1]]$variables))
  expect_error(update(release, income < 5), "name the new columns")
  expect_error(update(release, income = 5), "a column .income. already")
  expect_error(update(release, a = income < median(income)), "not row-wise")
  expect_error(update(release, a = rank(income)), "not row-wise")
  expect_error(update(release, a = mean(income)), "not row-wise")
  expect_error(update(release, a = elsewhere), "gave .* values for .* records")
  expect_error(update(release, a = incom < 5), "stopped; there are the columns .*income")
  expect_error(update(release, a = list(1)), "must give one value a record")
  expect_identical(unique(update(release, one = 1)$designs[[1]]$variables$one), 1)
})

test_that("tables know derived columns and conditions, with the numbers of combine_release()", {
  need_python()
  release <- shared_release()
  line <- 650
  made <- update(release, low = api00 < line, half = api00 / 2)
  share <- tables(made, by = "stype", outcome = "low")
  expected <- as.data.frame(combine_release(with_release(made, svyby(~as.numeric(low), ~stype, design, svymean))))
  here <- share[share$category == "TRUE" & share$stype != "all", ]
  expect_equal(here$estimate, expected$estimate, tolerance = 1e-9)
  expect_equal(here$se, expected$se, tolerance = 1e-9)
  by_low <- tables(made, by = "low", outcome = "half", statistic = "mean")
  expect_setequal(by_low$low, c("TRUE", "FALSE", "all"))
  filtered <- tables(made, outcome = "half", statistic = "mean", where = ~ api00 < line)
  expect_equal(as.data.frame(unclass(filtered))[numbers],
               as.data.frame(unclass(by_low))[by_low$low == "TRUE", numbers], ignore_attr = TRUE, tolerance = 1e-9)
  expect_equal(tables(made, outcome = "half", statistic = "mean", where = "low"), filtered)
  expect_error(tables(release, where = ~ api00), "must be TRUE or FALSE for each record")
  expect_error(tables(release, where = ~ api00 < mean(api00)), "not row-wise")
  folder <- tempfile()
  write_release(made, folder, by = "low")
  again <- read_release(folder)
  expect_identical(again$designs[[2]]$variables$low, made$designs[[2]]$variables$low)
  expect_equal(tables(again, by = "low"), tables(made, by = "low"))
})

test_that("the new statistics and design effects are those of survey and laeken", {
  need_python()
  found <- estimate(strat, ~ api00, ~ stype, statistic = c("mean", "variance"), deff = TRUE)
  means <- svyby(~api00, ~stype, strat, svymean, deff = TRUE)
  expect_equal(found$deff[found$statistic == "mean"][1:3], unname(c(deff(means))), tolerance = 1e-8)
  variances <- svyvar(~api00, strat)
  whole <- found[found$statistic == "variance" & found$stype == "all", ]
  expect_equal(c(whole$estimate, whole$se), c(coef(variances), SE(variances)), ignore_attr = TRUE, tolerance = 1e-8)
  domain <- estimate(clus2, ~ api00, where = ~ stype == "E")
  mean <- svymean(~api00, subset(clus2, stype == "E"))
  expect_equal(c(domain$estimate, domain$se), c(coef(mean), SE(mean)), ignore_attr = TRUE, tolerance = 1e-8)
  skip_if_not_installed("laeken")
  indices <- estimate(strat, ~ enroll, statistic = c("gini", "poverty_rate"))
  expect_equal(indices$estimate[1], laeken::gini(apistrat$enroll, apistrat$pw)$value / 100, tolerance = 1e-9)
  expect_equal(indices$estimate[2], laeken::arpr(apistrat$enroll, apistrat$pw)$value / 100, tolerance = 1e-9)
  known <- estimate(strat, ~ enroll, statistic = "poverty_rate", poverty_line = 300)
  share <- svymean(~I(as.numeric(enroll < 300)), strat)
  expect_equal(c(known$estimate, known$se), c(coef(share), SE(share)), ignore_attr = TRUE, tolerance = 1e-8)
})

test_that("a wide table is that of reshape()", {
  table <- structure(data.frame(region = rep(c("north", "south", "all"), each = 2), sex = c("f", "m"),
                                statistic = "mean", outcome = "y", estimate = 1:6 / 2, se = 1:6 / 10, n = 1:6),
                     class = c("surveysynth_table", "data.frame"))
  found <- wide(table, "sex")
  expected <- stats::reshape(as.data.frame(unclass(table))[c("region", "sex", "estimate", "se")], direction = "wide",
                             idvar = "region", timevar = "sex", sep = "_")
  for (column in names(expected)) expect_equal(found[[column]], expected[[column]])
  expect_identical(names(wide(table[-2, ], "sex", "n")), c("region", "statistic", "outcome", "n_f", "n_m"))
  expect_identical(wide(table[-2, ], "sex", "n")$n_m, c(NA, 4L, 6L))
  expect_error(wide(table, "age"), "not a variable of the table")
  expect_error(wide(table, "sex", "deff"), "not a column of the table's cells")
  expect_error(wide(rbind(table, table), "sex"), "twice")
})

test_that("derived columns go with releases from noisy tables, in tables and in calls of survey", {
  need_python()
  made <- synthesize(strat, fbs(enroll ~ stype, weight = "public"), 12, population_total = 6194, bounds = c(1, 5000))
  made <- update(made, large = enroll > 600)
  made <- update(made, thousands = enroll / 1000)
  table <- tables(made, by = ~ stype + large, statistic = "mean", outcome = c("enroll", "thousands"))
  in_r <- as.data.frame(combine_release(with_release(made, svyby(~thousands, ~large, design, svymean))))
  for (kind in c("FALSE", "TRUE")) {
    cell <- table[table$stype == "all" & table$large == kind & table$outcome == "thousands", ]
    expect_equal(unlist(as.data.frame(unclass(cell))[c("estimate", "se")]), unlist(in_r[kind, c("estimate", "se")]),
                 tolerance = 1e-6)
  }
})

test_that("a limit is that of the time of update(), and what a function had is not looked for at the top level", {
  need_python()
  made <- synthesize(strat, fbs(enroll ~ stype, weight = "public"), 12, population_total = 6194, bounds = c(1, 5000))
  derive <- function(release) {
    limit <- 600
    above <- function(x, y) x > y
    release <- update(release, large = above(enroll, limit))
    limit <- 10000
    release
  }
  share <- function(release) as.data.frame(combine_release(with(release, svymean(~as.numeric(large)))))
  expected <- share(update(made, large = enroll > 600))
  expect_equal(share(derive(made)), expected)
  elsewhere <- derive(made)
  callers <- session$callers
  session$callers <- list() # as in another session
  on.exit(session$callers <- callers)
  expect_error(share(elsewhere), "expression of .large. stopped; .* must be at the top level here")
  limit <- 1
  expect_equal(share(update(made, large = enroll > 600)), expected)
})

test_that("mutate() is update() in dplyr's words", {
  skip_if_not_installed("dplyr")
  limit <- 20000
  made <- dplyr::mutate(example(), poor = income < limit)
  expect_identical(made$designs, update(example(), poor = income < limit)$designs)
})
