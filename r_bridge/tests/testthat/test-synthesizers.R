test_that("a model can be written in three ways", {
  a <- fbs("salary", ~ field + gender)
  expect_equal(a$arguments, fbs(salary ~ field + gender)$arguments)
  expect_equal(a$arguments, fbs("salary", c("field", "gender"))$arguments)
  shows <- function(x, text) expect_output(print(x), text, fixed = TRUE)
  shows(a, "FBS: salary ~ field + gender\ntransform = \"log\", prior = \"paper\", missing = \"fail\"")
  two <- fbp(cbind(wage, bonus) ~ field, prior = "flat", transform = list(wage = "log", bonus = asinh_transform(100)))
  expect_identical(two$outcomes, c("wage", "bonus"))
  shows(two, "FBP: cbind(wage, bonus) ~ field\ntransform = list(wage = \"log\", bonus = asinh_transform(scale = 100))")
  shows(fbp(y ~ age, bands = list(age = c(25, 50))), "bands = list(age = c(25, 50))")
  shows(pseudo_posterior("linear"), "pseudo_posterior(map = \"linear\", c2 = 0)")
})

test_that("what is no model is refused at once", {
  expect_error(fbs(y ~ x, ~ z), "leave predictors out")
  expect_error(fbs(y ~ x, prior = "jeffreys"), "independent")
  expect_error(fbs(y ~ x, transform = "sqrt"), "a transform is \"log\"")
  expect_error(fbs(cbind(a, b) ~ x, transform = list(a = "log", c = "log")), "by the names of the outcomes")
  expect_error(asinh_transform(-1), "scale must be a positive number")
  expect_error(pseudo_posterior("cubic"), "inverse")
})

test_that("normal scores from a historical file have the knots that Python has, and serve as a transform", {
  need_python()
  values <- sort(exp(qnorm(ppoints(1500), 6, 0.4)))
  scores <- historical_scores(values, "last year", knots = 20)
  theirs <- from_python("
import numpy as np, scipy.stats as st, surveysynth as ss
p = (np.arange(1, 1501) - 0.5) / 1500
s = ss.NormalScores.from_historical(np.exp(6 + 0.4 * st.norm.ppf(p)), source='last year', knots=20)
print(json.dumps([s.amounts, s.probabilities]))")
  expect_equal(scores$arguments$amounts, I(theirs[1, ]))
  expect_equal(scores$arguments$probabilities, I(theirs[2, ]))
  expect_output(print(scores), "normal_scores(amounts = <20 numbers>, probabilities = <20 numbers>, ", fixed = TRUE)
  again <- normal_scores(theirs[1, ], theirs[2, ], "last year")
  expect_equal(again, scores)
  design <- svydesign(ids = ~1, weights = ~pw, data = apistrat)
  release <- synthesize(design, fbs(api00 ~ awards, prior = "flat", transform = scores), 9, seed = 1)
  expect_match(release$manifest$transform, "normal-score of last year")
  expect_error(historical_scores(values, "last year", weights = 1), "differ in length")
})
