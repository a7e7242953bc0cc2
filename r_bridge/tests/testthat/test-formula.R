text <- function(formula) bridge$formula_text(formula[[2]])

test_that("formulas keep their terms, and functions become Python's", {
  expect_identical(text(~ stype * awards), "stype * awards")
  expect_identical(text(~ field + gender - 1), "field + gender - 1")
  expect_identical(text(~ (a + b)^2 + a:b + c %in% a), "(a + b)**2 + a:b + c:a")
  expect_identical(text(~ factor(x) + as.factor(y)), "C(x) + C(y)")
  expect_identical(text(~ I(x^2) + log(x) + sqrt(x)), "I(x ** 2) + log(x) + np.sqrt(x)")
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
  expect_error(fbs(log(y) ~ x), "say transform =")
  expect_error(fbs(~ x), "no outcome")
  expect_error(fbs("y"), "~ 1 for no predictors")
})

test_that("the model matrix has the column space that R's has", {
  need_python()
  set.seed(3)
  frame <- data.frame(x = round(rexp(60), 2), z = sample(4, 60, TRUE), g = sample(c("a", "b", "c"), 60, TRUE),
                      `my.h` = factor(sample(c("u", "v"), 60, TRUE)))
  formulas <- list(
    ~ g * my.h, ~ g + x - 1, ~ factor(z):x, ~ (g + my.h + factor(z))^2, ~ g / x, ~ poly(x, 3), ~ scale(x) + I(x^2 %% 3),
    ~ splines::bs(x, df = 5), ~ splines::bs(x, knots = c(0.5, 1.5), degree = 2), ~ log1p(x) + I(x > 1 & z != 2),
    ~ factor(my.h) - x, ~ sqrt(x) + abs(x - 1) + ceiling(x) + exp(-x) + I(x %/% 0.5),
    ~ poly(x, degree = 2, raw = TRUE):g
  )
  csv <- tempfile()
  write.csv(frame, csv, row.names = FALSE)
  matrices <- from_python("
import formulaic, numpy as np, pandas as pd
frame = pd.read_csv(sys.argv[1])
print(json.dumps([np.asarray(formulaic.model_matrix('1 + ' + f, frame), dtype=float).tolist() for f in sys.argv[2:]]))
", csv, vapply(formulas, function(f) text(f), ""))
  for (i in seq_along(formulas)) {
    ours <- qr(matrices[[i]])
    theirs <- qr(model.matrix(formulas[[i]], frame))
    expect_identical(ours$rank, theirs$rank, label = deparse1(formulas[[i]]))
    matrix <- model.matrix(formulas[[i]], frame)
    expect_equal(qr.fitted(ours, matrix), matrix, tolerance = 1e-8, ignore_attr = TRUE, label = deparse1(formulas[[i]]))
  }
})
