test_that("tables have the numbers of survey and combine_release(), cell by cell", {
  need_python()
  release <- shared_release()
  table <- tables(release, by = ~ stype + awards)
  expect_s3_class(table, c("surveysynth_table", "data.frame"), exact = TRUE)
  expect_equal(tables(release, by = c("stype", "awards")), table)
  means <- as.data.frame(combine_release(with(release, svyby(~api00, ~ stype + awards, FUN = svymean))))
  in_cells <- function(design) svyby(~one, ~ stype + awards, update(design, one = 1), svytotal)
  counts <- as.data.frame(combine_release(with_release(release, in_cells(design), counts = TRUE)))
  cells <- table[table$stype != "all" & table$awards != "all", ]
  numbers <- c("estimate", "se", "df", "ci_low", "ci_high")
  key <- paste(cells$stype, cells$awards, sep = ".")
  for (statistic in c("mean", "count")) {
    here <- cells$statistic == statistic
    expected <- if (statistic == "mean") means else counts
    expect_equal(as.data.frame(unclass(cells))[here, numbers], expected[key[here], numbers], ignore_attr = TRUE,
                 tolerance = 1e-9)
  }
  expect_identical(cells$n[1:6], as.vector(t(table(apistrat$stype, apistrat$awards))))
})

test_that("arguments of tables reach Python", {
  need_python()
  release <- shared_release()
  quantiles <- tables(release, statistic = "quantile", quantiles = c(0.25, 0.75))
  expect_identical(quantiles$prob, c(0.25, 0.75))
  expect_lt(quantiles$estimate[1], quantiles$estimate[2])
  suppressed <- tables(release, by = "stype", min_cell = 60)
  expect_true(all(is.na(suppressed$estimate[suppressed$n < 60])))
  expect_match(suppressed$flag[is.na(suppressed$estimate)],
               "suppressed: fewer than 60 records, or would give away such a cell$")
  expect_match(tables(release, by = "stype", cv_limit = 1e-4)$flag, "CV above", all = FALSE)
  expect_error(tables(release, by = "cname"), "not a predictor of this release")
  expect_error(tables(release, estimator = "fast"), "onepass")
})

test_that("missing outcomes are left out by record, as by na.rm, or by outcome", {
  need_python()
  holes <- apistrat
  holes$api00[1:20] <- NA
  holes$api99[11:40] <- NA
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = holes)
  theirs <- svymean(~ api00 + api99, design, na.rm = TRUE)
  ours <- estimate(design, ~ api00 + api99, missing = "drop")
  expect_equal(ours$estimate, as.numeric(coef(theirs)), tolerance = 1e-10)
  expect_equal(ours$se, as.numeric(SE(theirs)), tolerance = 1e-10)
  one <- svymean(~api00, design, na.rm = TRUE)
  expect_equal(estimate(design, ~ api00 + api99, missing = "available")$estimate[1], coef(one)[[1]], tolerance = 1e-10)
  expect_error(estimate(strat, ~api00, quantiles = 0.9), "has no effect on")
})

test_that("tables with Laplace noise are those of the file where the noise is none to speak of", {
  need_python()
  made <- laplace_tables(strat, c("api00", "api99"), ~ stype, epsilon = 1e9, kind = "strict", replicates = 2,
                         bounds = list(weight = c(0, 50), api00 = c(200, 1000), api99 = c(200, 1000)))
  exact <- estimate(strat, c("api00", "api99"), ~ stype, statistic = c("count", "mean"))
  expect_s3_class(made$table, c("surveysynth_table", "data.frame"), exact = TRUE)
  key <- function(table) paste(table$stype, table$statistic, table$outcome)
  expect_setequal(key(made$table), key(exact))
  expect_equal(made$table$estimate, exact$estimate[match(key(made$table), key(exact))], tolerance = 1e-4)
  expect_equal(sum(made$budget$epsilon_each * made$budget$queries), 1e9)
  expect_match(made$guarantee, "differ in the survey weight and the outcome (api00, api99) of one record", fixed = TRUE)
  expect_output(print(made), "Tables with Laplace noise: strict, epsilon = 1e\\+09")
  total <- laplace_tables(strat, "api00", epsilon = 5, consistent = TRUE)
  expect_identical(c(total$kind, total$table$statistic), c("local", "count", "mean"))
  expect_match(total$guarantee, "no guarantee is given")
  expect_error(laplace_tables(strat, "nowhere", epsilon = 1), "no column .nowhere.")
  expect_error(laplace_tables(strat, "api00", epsilon = 1, kind = "strict"), "needs bounds for 'weight', 'api00'")
})

test_that("a table is shown in short, with its notes below", {
  shown <- structure(data.frame(
    g = c("a", "all"), statistic = "count", outcome = "", estimate = c(1234567.8, NA), se = c(0.0123456, NA),
    df = c(999992, NA), ci_low = c(1, NA), ci_high = c(2, NA), n = c(12L, NA), flag = c("one; two", "two")
  ), class = c("surveysynth_table", "data.frame"))
  text <- capture.output(print(shown))
  expect_identical(text[1], "count")
  text <- text[-1]
  expect_match(text[2], "a +1,234,568 0.01235 999,992 +1.000 +2.000 12 \\[1\\]\\[2\\]$")
  expect_match(text[3], "all +\\[2\\]$")
  expect_identical(text[4:5], c("[1] one", "[2] two"))
  expect_identical(capture.output(print(shown[c("g", "estimate")])),
                   c("   g  estimate", "   a 1,234,568", " all          "))
  expect_identical(names(shown[c("g", "flag")]), c("g", "flag"))
  expect_match(capture.output(print(shown[c("g", "flag")])), "[1] one", fixed = TRUE, all = FALSE)
})

test_that("numbers keep their digits, also those that are zero", {
  expect_identical(bridge$in_digits(c(0, 12.5, 1234, 0.1, 100000, 0.00001234, -3, NA, Inf), 4),
                   c("0", "12.50", "1,234", "0.1000", "100,000", "1.234e-05", "-3.000", "", "Inf"))
  expect_identical(bridge$in_digits(c(7, 1234567), 1), c("7", "1,234,567"))
})

test_that("labels of cells are those that R prints", {
  need_python()
  data <- transform(apistrat, big = api00 > 650, code = ifelse(stype == "E", 1, 2.5))
  table <- estimate(svydesign(ids = ~1, weights = ~pw, data = data), statistic = "count", by = ~ big + code)
  expect_setequal(table$big, c("TRUE", "FALSE", "all"))
  expect_setequal(table$code, c("1", "2.5", "all"))
})

test_that("estimates of a design are those of survey, for every kind of design", {
  need_python()
  designs <- list(strat, clus1, clus2, poststratified, as.svrepdesign(clus1), as.svrepdesign(strat, type = "JKn"))
  for (design in designs) {
    ours <- estimate(design, ~api00, by = ~stype)
    theirs <- svyby(~api00, ~stype, design, svymean)
    expect_equal(ours$estimate[1:3], unname(coef(theirs)), tolerance = 1e-9)
    expect_equal(ours$se[1:3], unname(SE(theirs)), tolerance = 1e-9)
    types <- sort(unique(as.character(design$variables$stype)))
    held <- vapply(types, function(type) as.numeric(degf(subset(design, stype == type))), 0)
    expect_equal(ours$df, c(held, degf(design)), ignore_attr = TRUE)
    all <- svymean(~api00, design)
    expect_equal(c(ours$estimate[4], ours$se[4]), c(coef(all), SE(all)), tolerance = 1e-9, ignore_attr = TRUE)
  }
  ratio <- estimate(strat, "api.stu", statistic = "ratio", denominator = "enroll")
  expect_equal(estimate(strat, "api.stu", statistic = "ratio", denominator = ~enroll), ratio)
  theirs <- svyratio(~api.stu, ~enroll, strat)
  expect_equal(c(ratio$estimate, ratio$se), c(coef(theirs), SE(theirs)), ignore_attr = TRUE)
})

test_that("joint inclusion probabilities stay with survey, and are refused by name", {
  pps <- svydesign(ids = ~1, fpc = ~p, data = election_pps, pps = ppsmat(election_jointprob))
  expect_error(estimate(pps, "Bush"), "ppsmat\\(\\).*svymean\\(\\)")
  expect_error(estimate(strat, ~ api00 + nowhere), "no column .nowhere.;")
  expect_error(estimate(strat, ~api0), "no column .api0. \\(did you mean .api00.\\?\\); it has")
  expect_error(estimate(shared_release(), ~api00), "tables\\(release\\)")
})

test_that("a file without a header line is told so, and its first record is not quoted", {
  csv <- tempfile(fileext = ".csv") # the weights of the design become a sixth column
  writeLines(c("d,m,23.764247068640294,26357,-5", "e,f,2,3,4", "d,f,2,3,5"), csv)
  data <- read.csv(csv)
  refused <- function(data) {
    design <- svydesign(ids = ~1, weights = rep(2, nrow(data)), data = data)
    tryCatch(estimate(design, ~wt), error = conditionMessage)
  }
  said <- refused(data)
  expect_match(said, "no column .wt.; it has 6 columns, 3 whose names look like values: where there is no header line")
  expect_false(grepl("23.76|26357|X.5|\\b[dm]\\b", said, perl = TRUE))
  names(data) <- c("id", "x", "X1", "X12", "X2019")
  expect_match(refused(data), "it has 6 columns, 1 whose name looks like a value: ")
  names(data) <- c("id", "x", "w", "y", "wt.2")
  expect_match(refused(data), "no column .wt. \\(did you mean .w.\\?\\); it has id, x, w, y, wt.2, weight$")
})

test_that("inclusion probabilities are those of sampling, to the last bit", {
  need_python()
  size <- apipop$enroll
  size[is.na(size)] <- 1
  pi <- inclusion_probabilities(size, 200)
  expect_equal(sum(pi), 200)
  expect_equal(pi[pi < 1] / size[pi < 1], rep((200 - sum(pi == 1)) / sum(size[pi < 1]), sum(pi < 1)))
  by_type <- inclusion_probabilities(size, c(M = 10, E = 30, H = 20), apipop$stype)
  for (type in c("E", "H", "M")) {
    alone <- inclusion_probabilities(size[apipop$stype == type], c(E = 30, H = 20, M = 10)[[type]])
    expect_identical(by_type[apipop$stype == type], alone)
  }
  expect_error(inclusion_probabilities(c(1, -1), 1), "negative")
  expect_error(inclusion_probabilities(1:3, 1, "a"), "differ in length: 1 and 3")
})

test_that("identification, of records and pairs, and attribute risk are the shares that they are defined as", {
  need_python()
  original <- data.frame(g = rep(c("a", "b"), c(7, 5)), y = c(10, 11, 12, 20, 30, 31, 100, 5, 5, 6, 50, 52))
  row.names(original) <- letters[1:12]
  synthetic <- transform(original, y = y[c(2, 1, 4, 3, 6, 5, 7, 9, 8, 12, 11, 10)] * 1.05)
  other <- transform(original, y = rev(y))
  named <- function(x) setNames(x, letters[1:12])
  near <- function(s, i) abs(s$y - original$y[i]) <= 0.2 * original$y[i]
  alike <- function(i) original$g == original$g[i]
  share <- function(s) named(vapply(1:12, function(i) mean(near(s, i)[alike(i)]), 0))
  risk <- function(s) named(vapply(1:12, function(i) near(s, i)[i] * mean(!near(s, i)[alike(i)]), 0))
  weight <- function(s) named(vapply(1:12, function(i) {
    pairs <- vapply(setdiff(which(alike(i)), i), function(j) {
      near(s, i)[i] * near(s, j)[j] * mean((!near(s, i) & !near(s, j))[alike(i)])
    }, 0)
    1 - mean(pairs)
  }, 0))
  expect_equal(identification_risk(original, synthetic, "g", "y"), risk(synthetic))
  expect_equal(identification_risk(original, list(synthetic, other), ~g, ~y), (risk(synthetic) + risk(other)) / 2)
  expect_equal(pairwise_weights(original, list(synthetic, other), ~g, ~y), (weight(synthetic) + weight(other)) / 2)
  expect_lt(min(weight(synthetic)), 0.9)
  expect_equal(attribute_risk(original, synthetic, ~g, "y"), share(synthetic))
  design <- svydesign(ids = ~1, weights = rep(1, 12), data = original)
  expect_equal(identification_risk(design, synthetic, "g", "y"), risk(synthetic))
  expect_true(all(identification_risk(original, synthetic, "g", "y", radius = 0, relative = FALSE, floor = 1e6) == 0))
  original$g <- synthetic$g <- "all"
  expect_equal(identification_risk(original, transform(synthetic, g = 1:12), ~ 1, "y"), risk(synthetic))
  expect_error(identification_risk(original, synthetic, "h", "y"), "no column .h.")
  expect_error(pairwise_weights(original, synthetic, "g", "z"), "no column .z.")
  expect_error(attribute_risk(1, synthetic, "g", "y"), "a data frame or a survey design was expected")
})

test_that("known columns may be synthesized: a factor is the same, a number near, in each data set", {
  need_python()
  original <- data.frame(
    sex = rep(c("f", "m"), c(4, 1)), activity = factor(c("work", "work", "none", "work", "work")),
    rent = c(100, 110, 100, 500, 100), pay = c(10, 20, 30, 40, 10)
  )
  synthetic <- transform(original, rent = c(110, 100, 95, 500, 89), pay = c(11, 21, 12, 40, 10))
  synthetic$activity <- factor(c("work", "work", "work", "none", "work"), levels = c("work", "none"))
  found <- function(measure, files = synthetic) {
    unname(measure(original, files, ~ sex + activity + rent, ~ pay, radius = c(0.2, 0.1),
                   synthesized = ~ rent + activity))
  }
  # the first matches the first three, of which two pay about as much; the second the first two; the others nobody
  expect_equal(found(identification_risk), c(1 / 3, 1 / 2, 0, 0, 0))
  expect_equal(found(attribute_risk), c(2 / 3, 1 / 2, 0, 0, 0))
  expect_equal(found(match_risk), c(1 / 2, 1, 0, 0, 0))
  other <- transform(synthetic, activity = "study")
  expect_equal(found(match_risk, list(synthetic, other)), c(1 / 4, 1 / 2, 0, 0, 0))
  expect_error(match_risk(original, synthetic, "sex", "pay", synthesized = "rent"), "is not in known")
  expect_error(identification_risk(original, synthetic, ~ sex + rent, "pay"), "differs from the original")
  expect_error(match_risk(apistrat, shared_release(), ~ stype, "api00", synthesized = ~ stype), "elease knows")
})

test_that("a release knows the order of its records, and that another file is not its own", {
  need_python()
  risk <- identification_risk(apistrat, shared_release(), ~ stype + awards, "api00")
  expect_length(risk, 200)
  expect_identical(names(risk), row.names(apistrat))
  expect_true(all(risk >= 0 & risk < 1))
  reversed <- apistrat[200:1, ]
  expect_error(identification_risk(reversed, shared_release(), ~ stype + awards, "api00"), "differs from the original")
})

test_that("a proportion stands beside other statistics, of outcomes of every type", {
  need_python()
  design <- update(strat, whole = as.integer(api00 > 650), double = as.numeric(api00 > 650), truth = api00 > 650)
  for (name in c("whole", "double")) {
    table <- estimate(design, name, by = ~ stype, statistic = c("mean", "count", "proportion"))
    expect_identical(table$category, rep(c("", "", "0", "1"), each = 4))
    ones <- table$category == "1"
    expect_equal(table$estimate[ones], table$estimate[table$statistic == "mean"])
    expect_equal(table$estimate[ones][1:3], coef(svyby(reformulate(name), ~stype, design, svymean)), ignore_attr = TRUE)
  }
  shares <- estimate(design, c("whole", "truth", "awards"), statistic = "proportion")
  expect_identical(shares$category, c("0", "1", "FALSE", "TRUE", "No", "Yes"))
  expect_equal(shares$estimate[3:4], shares$estimate[1:2])
  data <- transform(apistrat, good = as.numeric(api00 > 650), fine = api00 > 600)
  model <- fbs(cbind(factor(good), factor(fine), enroll) ~ stype)
  release <- synthesize(svydesign(ids = ~1, weights = ~pw, data = data), model, 50, m = 2, seed = 1,
                        population_total = 6194, mechanism = pseudo_posterior(), levels = list(good = 0:1))
  table <- tables(release)
  expect_identical(table$category, c("", "", "0", "1", "FALSE", "TRUE"))
  write_release(release, folder <- tempfile("release"))
  expect_identical(tables(read_release(folder))$category, table$category)
})

test_that("a subset without records is named", {
  none <- "^the design has no records: where it is a subset, none meets its condition$"
  designs <- list(strat, clus1, clus2, poststratified, as.svrepdesign(clus1))
  for (design in designs) {
    empty <- subset(design, enroll > 1e6)
    expect_error(expect_no_warning(estimate(empty, ~enroll, by = ~stype)), none)
    expect_error(synthesize(empty, quick, epsilon = 9), none)
  }
  expect_error(laplace_tables(strat[0, ], ~enroll, epsilon = 1), none)
})

test_that("tables are written as they are printed, with the numbers of tables()", {
  need_python()
  release <- shared_release()
  folder <- tempfile("printed")
  dir.create(folder)
  table <- tables(release, by = "stype", min_cell = 60)
  for (form in c("csv", "xlsx", "html", "tex", "md")) {
    path <- write_tables(release, file.path(folder, paste0("t.", form)), by = ~stype, min_cell = 60)
    expect_gt(file.size(path), 1000 * (form != "csv"))
  }
  plain <- read.csv(file.path(folder, "t.csv"))
  expect_equal(plain$estimate, table$estimate, tolerance = 1e-12)
  text <- paste(readLines(file.path(folder, "t.md"), encoding = "UTF-8"), collapse = "\n")
  expect_match(text, "Mean of api00, by stype", fixed = TRUE)
  expect_match(text, "suppressed: fewer than 60 records", fixed = TRUE)
  own <- write_tables(release, file.path(folder, "own.md"), by = ~stype, min_cell = 60,
                      symbols = list(suppressed = "hidden here"))
  expect_match(paste(readLines(own), collapse = "\n"), "hidden here", fixed = TRUE)
  figure <- write_tables(release, file.path(folder, "f.svg"), by = ~stype)
  expect_match(readLines(sub("svg$", "txt", figure)), "a dot and its 95% interval for each of 4 estimates", fixed = TRUE)
  expect_error(write_tables(release, file.path(folder, "f.png"), statistic = c("mean", "count")), "one statistic, not 2")
  expect_error(write_tables(release, file.path(folder, "t.pdf")), "'t.pdf' ends in none of these")
  expect_error(write_tables(release, file.path(folder, "t.md"), symbols = "us"), "symbols = \"us\" is not one of")
})

test_that("tables of two variables fit 80 columns, a block for each statistic", {
  old <- options(width = 80)
  on.exit(options(old))
  cells <- expand.grid(region = c("north", "east", "south", "west", "all"), sector = c("public services", "trade", "all"),
                       stringsAsFactors = FALSE)
  table <- do.call(rbind, lapply(c("count", "mean", "total"), function(statistic) {
    data.frame(cells, statistic = statistic, outcome = if (statistic == "count") "" else "income",
               estimate = 1234567.8 + seq_len(15), se = 12345.6, df = 1234, ci_low = 1200000, ci_high = 1300000, n = 1234L,
               flag = "")
  }))
  class(table) <- c("surveysynth_table", "data.frame")
  text <- capture.output(print(table))
  expect_identical(text[c(1, 19, 37)], c("count", "mean income", "total income"))
  expect_lte(max(nchar(text)), 80)
  expect_length(text, 3 * 17 + 2)
  flat <- capture.output(print(wide(table, ~region)))
  expect_lte(max(nchar(flat)), 80)
  expect_match(flat, "^ +sector +north +east +south +west +all$", all = FALSE)
  expect_identical(wide(table, "region")$estimate_north, table$estimate[table$region == "north"])
})

test_that("intervals have the level and degrees of freedom that are asked for", {
  need_python()
  release <- shared_release()
  usual <- tables(release, by = "stype", statistic = "mean")
  wider <- tables(release, by = "stype", statistic = "mean", level = 0.99)
  expect_equal(wider$ci_low, with(usual, estimate - qt(0.995, df) * se))
  normal <- tables(release, by = "stype", statistic = "mean", level = 0.9, df = Inf)
  expect_equal(normal$ci_high, with(usual, estimate + qnorm(0.95) * se))
  expect_error(tables(release, level = 95), "between 0 and 1")
  here <- estimate(strat, ~api00, level = 0.9)
  theirs <- confint(svymean(~api00, strat), level = 0.9, df = degf(strat))
  expect_equal(c(here$ci_low, here$ci_high), unname(theirs[1, ]))
})

test_that("printed tables say the condition that they are of", {
  need_python()
  release <- shared_release()
  file <- tempfile(fileext = ".csv")
  page <- tempfile(fileext = ".html")
  on.exit(unlink(c(file, page)))
  write_tables(release, file, by = ~awards, statistic = "mean", where = ~ stype == "E")
  write_tables(release, page, by = ~awards, statistic = "mean", where = ~ stype == "E")
  written <- read.csv(file)
  asked <- tables(release, by = ~awards, statistic = "mean", where = ~ stype == "E")
  expect_equal(written$estimate, asked$estimate)
  expect_match(paste(readLines(page, warn = FALSE), collapse = " "), "stype == &#34;E&#34;", fixed = TRUE)
})

test_that("tables have an autoplot()", {
  table <- structure(data.frame(g = c("a", "b", "all"), statistic = "mean", outcome = "y", estimate = 1:3, se = 0.1, df = 9,
                                ci_low = 0:2, ci_high = 2:4, n = 5L, flag = ""), class = c("surveysynth_table", "data.frame"))
  skip_if_not_installed("ggplot2")
  drawn <- ggplot2::layer_data(ggplot2::autoplot(table))
  expect_equal(drawn[order(-drawn$y), c("x", "xmin", "xmax")], data.frame(x = 1:2, xmin = 0:1, xmax = 2:3),
               ignore_attr = TRUE)
})

test_that("a subset of a design is a domain of it, as in survey", {
  need_python()
  nested <- svydesign(ids = ~dnum, strata = ~stype, weights = ~pw, data = apiclus1, nest = TRUE)
  old <- options(survey.lonely.psu = "adjust")
  on.exit(options(old))
  for (design in list(subset(strat, awards == "Yes"), subset(strat, awards == "Yes" & stype != "E"), subset(strat, stype == "E"),
                      subset(clus1, awards == "Yes"), subset(clus1, awards == "Yes" & dnum > 200),
                      subset(clus2, awards == "Yes"), subset(clus2, dnum > 200), subset(nested, awards == "Yes"))) {
    ours <- estimate(design, ~api00, statistic = c("mean", "total", "count"))
    theirs <- list(svytotal(~one, update(design, one = 1)), svymean(~api00, design), svytotal(~api00, design))
    at <- match(c("count", "mean", "total"), ours$statistic)
    expect_equal(ours$estimate[at], vapply(theirs, coef, 0), tolerance = 1e-9, ignore_attr = TRUE)
    expect_equal(ours$se[at], vapply(theirs, SE, 0), tolerance = 1e-9, ignore_attr = TRUE)
    expect_identical(unique(ours$df), as.numeric(degf(design)))
    expect_identical(unique(ours$n), nrow(design$variables))
    cells <- estimate(design, ~api00, by = ~comp.imp)
    cells <- cells[cells$comp.imp != "all", ]
    by <- svyby(~api00, ~comp.imp, design, svymean)
    expect_equal(cells$estimate, unname(coef(by)), tolerance = 1e-9)
    expect_equal(cells$se, unname(SE(by)), tolerance = 1e-9)
    expect_equal(estimate(design, ~api00, statistic = "quantile")$se, unname(c(SE(svyquantile(~api00, design, 0.5)))), tolerance = 1e-9)
    within <- svymean(~api00, subset(design, api99 > 600))
    for (where in list(~ api99 > 600, "high")) {
      ours <- estimate(update(design, high = api99 > 600), ~api00, where = where)
      expect_equal(c(ours$estimate, ours$se), c(coef(within), SE(within)), tolerance = 1e-9, ignore_attr = TRUE)
    }
  }
  some <- subset(strat, awards == "Yes")
  expect_equal(estimate(some, ~api00, deff = TRUE)$deff, unname(deff(svymean(~api00, some, deff = TRUE))), tolerance = 1e-9)
  expect_error(estimate(some, ~api00, statistic = "poverty_rate"), "give poverty_line =")
  line <- estimate(some, ~api00, statistic = "poverty_rate", poverty_line = 600)
  expect_equal(line$estimate, unname(coef(svymean(~I(api00 < 600), some))[2]), tolerance = 1e-9)
  expect_error(estimate(subset(strat, api00 > 2000), ~api00), "no records")
  expect_error(synthesize(some, quick, epsilon = 9, population_total = 6194), "a subset of a design")
})

test_that("levels without records have rows where they are asked for", {
  need_python()
  scale <- c("E", "K", "M", "H")
  design <- update(strat, level = factor(stype, levels = scale, ordered = TRUE))
  ours <- estimate(design, ~level, statistic = "proportion", empty = TRUE)
  theirs <- svymean(~level, design)
  expect_identical(ours$category, scale)
  expect_equal(ours$estimate, unname(coef(theirs)), tolerance = 1e-12)
  expect_equal(ours$se, unname(SE(theirs)), tolerance = 1e-12)
  counts <- estimate(design, by = ~level, statistic = "count", empty = TRUE)
  expect_identical(as.character(counts$level), c(scale, "all"))
  expect_equal(counts$estimate[1:4], unname(coef(svytotal(~level, design))), tolerance = 1e-12)
  expect_equal(nrow(estimate(design, by = ~ level + awards, statistic = "count", empty = TRUE)), 5 * 3)
  expect_identical(as.character(estimate(design, by = ~level, statistic = "count")$level), c("E", "M", "H", "all"))
})
