text <- function(formula) bridge$formula_text(formula[[2]])

test_that("formulas keep their terms, and functions become Python's", {
  expect_identical(text(~ stype * awards), "stype * awards")
  expect_identical(text(~ field + gender - 1), "field + gender - 1")
  expect_identical(text(~ (a + b)^2 + a:b + c %in% a), "(a + b)**2 + a:b + c:a")
  expect_identical(text(~ factor(x) + as.factor(y)), "C(x) + C(y)")
  expect_identical(text(~ I(x^2) + log(x) + sqrt(x)), "I(np.float_power(x, 2)) + log(x) + np.sqrt(x)")
  expect_identical(text(~ I(x * y %% 2) + I(!(x > 2) & z == "a\"b")),
                   "I(x * (y % 2)) + I((~(x > 2)) & (z == \"a\\\"b\"))")
  expect_identical(text(~ poly(x, 2, raw = TRUE) + stats::poly(x, degree = 3)),
                   "poly(x, degree=2, raw=True) + poly(x, degree=3)")
  expect_identical(text(~ bs(x, knots = c(1, 2.5), intercept = TRUE)), "bs(x, knots=[1, 2.5], include_intercept=True)")
  expect_identical(text(~ 1), "1")
})

test_that("names that are no Python names are kept in backticks", {
  expect_identical(text(~ age.group + factor(`my col`)), "`age.group` + C(`my col`)")
  expect_identical(text(eval(parse(text = "~ \u00e9t\u00e9:x", encoding = "UTF-8")[[1]])), "`\u00e9t\u00e9`:x")
})

test_that("what has no counterpart is refused at once, by its name", {
  expect_error(fbs("y", ~ ns(x, 3)), "ns\\(\\), which cannot be carried over; make a column of it first")
  expect_error(fbs("y", ~ x + offset(z)), "offset\\(\\)")
  expect_error(fbs("y", ~ log(x, 2)), "log\\(\\) with arguments")
  expect_error(fbs("y", ~ factor(x, levels = 1:3)), "factor\\(\\) with arguments")
  expect_error(fbs("y", ~ .), "name the predictors")
  expect_error(fbs("y", ~ 2 + x), "the number 2")
  expect_error(fbs("y", ~ factor(class)), "class .*a word of Python")
  expect_error(fbs("y", ~ x > 2),
               "outside of I\\(\\): write I\\(x > 2\\), which publishes .*update\\(design, new = x > 2")
  expect_error(fbs("y", ~ g + (x == 2)), "write I\\(x == 2\\)")
  expect_error(fbs("y", ~ x + (1 | g)), "no random effects; write the predictors with \\+")
  expect_error(fbs("y", ~ poly(x, z)), "poly\\(\\) with arguments")
  expect_error(fbs("y", ~ jsonlite::log(x)), "jsonlite::log\\(\\)")
  for (predictors in list(~ I(x > 2):z, ~ I(x > 2) - 1, ~ 0 + z + I(x > 2), ~ I(x > 2) / z, ~ z %in% I(x > 2))) {
    expect_error(fbs("y", predictors), "has I\\(x > 2\\) without its main effect or .*update\\(design, new = x > 2\\)$")
  }
  expect_error(fbs("y", ~ d$x), "\\$\\(\\)")
  expect_error(fbs(log(y) ~ x), "say transform =")
  expect_error(fbs(cbind(y, log(z)) ~ x), "say transform =")
  expect_error(fbs(offset(y) ~ x), "say transform =")
  expect_error(fbs(~ x), "no outcome")
  expect_error(fbs("y"), "~ 1 for no predictors")
})

test_that("a formula that names columns can name nothing else", {
  columns <- function(formula) bridge$columns_of(formula)
  expect_identical(columns(~ a + (`my col` + b) + a), c("a", "my col", "b"))
  expect_identical(columns(~ 1), character())
  first <- "it can only name columns, joined by \\+; make a column of it first: design <- update\\(design, new = "
  terms <- list(~ log(a), ~ b + I(a > 500), ~ factor(a), ~ offset(a), ~ a^2, ~ d$a, ~ a %in% b)
  for (formula in terms) expect_error(columns(formula), first)
  for (formula in list(~ a - b, ~ a - 1, ~ -1, ~ a + 0, ~ a + 1)) {
    expect_error(columns(formula), "it can only name columns, joined by \\+$")
  }
  expect_error(columns(~ b + log(a)), "the formula has log\\(a\\), and .*new = log\\(a\\)\\)$")
  expect_error(columns(~ I(a > 5)), "has I\\(a > 5\\), and .*new = a > 5\\)$")
  expect_error(columns(~ a:b), "has a:b: join columns by \\+")
  expect_error(columns(~ a * b), "has a \\* b: join columns by \\+")
  expect_error(columns(~ .), "name the columns")
  expect_error(columns(a ~ b), "a ~ b has two sides")
})

test_that("no function takes the column of a term for the term", {
  refused <- function(code) expect_error(code, "has log\\(enroll\\), and it can only name columns")
  what <- ~ log(enroll)
  refused(estimate(strat, what))
  refused(estimate(strat, ~ api00, by = what))
  refused(estimate(strat, ~ api00, statistic = "ratio", denominator = what))
  refused(perturbed_histogram(strat, what, epsilon = 1, bounds = c(4, 9), population_total = 6194, weight_bound = 60))
  refused(laplace_tables(strat, what, epsilon = 1))
  refused(laplace_tables(strat, ~ api00, by = what, epsilon = 1))
  refused(identification_risk(apistrat, apistrat, known = what, value = "api00"))
  refused(identification_risk(apistrat, apistrat, known = ~ stype, value = what))
  refused(pairwise_weights(apistrat, apistrat, known = what, value = "api00"))
  refused(attribute_risk(apistrat, apistrat, known = what, value = "api00"))
  refused(identification_rule(what))
  refused(marginal_risk(what))
  refused(pairwise_risk(what))
  refused(synthesize(strat, quick, epsilon = 9, public = what))
  refused(synthesize(strat, quick, epsilon = 9, unit = what))
  refused(privacy_cost(strat, quick, epsilon = 9, unit = what))
  release <- read_release(system.file("example-release", package = "surveysynth"))
  refused(tables(release, by = what))
  refused(tables(release, outcome = what))
  refused(tables(release, statistic = "ratio", denominator = what))
  refused(write_release(release, tempfile(), by = what))
  expect_error(estimate(strat, ~ api00, statistic = "ratio", denominator = ~ enroll + api99),
               "one column is taken here, not 2")
})

test_that("the formulas of a design are survey's own, functions and all", {
  need_python()
  data <- transform(apistrat, district = dnum %/% 100)
  designs <- list(
    svydesign(ids = ~1, strata = ~ factor(stype), weights = ~ I(pw / 2), fpc = ~ I(fpc * 2), data = data),
    svydesign(ids = ~ interaction(district, stype), weights = ~ sqrt(pw), data = data),
    svydesign(ids = ~1, strata = ~ interaction(stype, awards), probs = ~ I(1 / pw), data = data)
  )
  for (design in designs) {
    theirs <- svytotal(~enroll, design)
    ours <- estimate(design, ~enroll, statistic = "total")
    expect_equal(c(ours$estimate, ours$se, ours$df), c(coef(theirs), SE(theirs), degf(design)), tolerance = 1e-9,
                 ignore_attr = TRUE)
  }
})

test_that("columns of TRUE and FALSE are categories in a model, as in R", {
  need_python()
  expect_identical(bridge$formula_text(quote(old:x + log(old + x) + (old - 1)), "old"),
                   "C(old):x + log(0 + old + x) + (C(old) - 1)")
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, big = enroll > 500))
  release <- synthesize(design, fbs(api00 ~ big - 1, prior = "flat"), 50, m = 1, seed = 1, population_total = 6194,
                        mechanism = pseudo_posterior())
  means <- svyby(~api00, ~big, release$designs[[1]], svymean)$api00
  expect_lt(max(abs(means / svyby(~api00, ~big, design, svymean)$api00 - 1)), 0.1) # 8 standard errors; TRUE and 1: 0.99
})

test_that("the model matrix has the column space that R's has", {
  need_python()
  set.seed(3)
  frame <- data.frame(x = round(rexp(60), 2), z = sample(4, 60, TRUE), g = sample(c("a", "b", "c"), 60, TRUE),
                      `my.h` = factor(sample(c("u", "v"), 60, TRUE)), k = sample(c(TRUE, FALSE), 60, TRUE),
                      l = sample(c(TRUE, FALSE), 60, TRUE), u = sample(0:1, 60, TRUE), large = sample(1e6L, 60))
  formulas <- list(
    ~ g * my.h, ~ g + x - 1, ~ factor(z):x, ~ (g + my.h + factor(z))^2, ~ g / x, ~ poly(x, 3), ~ scale(x) + I(x^2 %% 3),
    ~ splines::bs(x, df = 5), ~ splines::bs(x, knots = c(0.5, 1.5), degree = 2), ~ log1p(x) + I(x > 1 & z != 2),
    ~ factor(my.h) - x, ~ sqrt(x) + abs(x - 1) + ceiling(x) + exp(-x) + I(x %/% 0.5),
    ~ poly(x, degree = 2, raw = TRUE):g, ~ 0 + g, ~ -1 + x + g, ~ x + 0, ~ x - 0, ~ 1 + x - 1 + 1, ~ x %in% g,
    ~ g:my.h - 1, ~ x * g - x, ~ (g + my.h) / x, ~ base::log(x + 1):g, ~ I(k + l), ~ I((x > 1) + (z > 1)), ~ I(k * l):x,
    ~ I(k - l), ~ I(-k), ~ I(z & u), ~ I(z | u), ~ I(!u) + x, ~ I(!u) * x, ~ I(k & (x > 1)), ~ I(large^4), ~ I(z^-1),
    ~ I(2^z), ~ k:x, ~ k - 1, ~ k * l
  )
  csv <- tempfile()
  write.csv(frame, csv, row.names = FALSE)
  matrices <- from_python("
import formulaic, numpy as np, pandas as pd
frame = pd.read_csv(sys.argv[1])
print(json.dumps([np.asarray(formulaic.model_matrix('1 + ' + f, frame), dtype=float).tolist() for f in sys.argv[2:]]))
", csv, vapply(formulas, function(f) bridge$formula_text(f[[2]], c("k", "l")), ""))
  for (i in seq_along(formulas)) {
    ours <- qr(matrices[[i]])
    theirs <- qr(model.matrix(formulas[[i]], frame))
    expect_identical(ours$rank, theirs$rank, label = deparse1(formulas[[i]]))
    matrix <- model.matrix(formulas[[i]], frame)
    expect_equal(qr.fitted(ours, matrix), matrix, tolerance = 1e-8, ignore_attr = TRUE, label = deparse1(formulas[[i]]))
  }
})
