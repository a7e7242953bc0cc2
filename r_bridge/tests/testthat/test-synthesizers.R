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
  shows(fbs(y ~ age, weight = "public"), "missing = \"fail\", weight = \"public\"")
  shows(pseudo_posterior("linear"), "pseudo_posterior(map = \"linear\", c2 = 0, risk = lipschitz_risk())")
  expect_equal(negbin(y ~ a + b)$arguments, negbin("y", c("a", "b"))$arguments)
  shows(negbin(y ~ a + b), "NegativeBinomialRegression: y ~ a + b\nprior = \"paper\", missing = \"fail\"")
  expect_equal(mixture(y ~ a + b)$arguments, mixture("y", c("a", "b"))$arguments)
  shows(mixture(y ~ a), "Mixture: y ~ a\ntransform = \"log\", zeros = FALSE, components = 20, prior = \"common\",")
  shows(mixture("y", ~ 1, transform = asinh_transform(9), bounds = c(-5, 1e3), allocation = "posterior"),
        "asinh_transform(scale = 9)")
  shows(gamma_regression(y ~ a), "GammaRegression: y ~ a\nmissing = \"fail\"")
  shows(multinomial_regression(factor(job) ~ a), "MultinomialRegression: job ~ a\nmissing = \"fail\"")
  expect_equal(multinomial_regression(job ~ a)$arguments, multinomial_regression("job", "a")$arguments)
  expect_error(multinomial_regression(cbind(job, y) ~ a), "synthesizes one category")
  shows(python_model("pay.py:pay", y ~ a + b), "python_model: y ~ a + b\nfile = \"pay.py:pay\"")
  expect_equal(python_model("pay.py:pay", y ~ a)$arguments, python_model("pay.py:pay", "y", "a")$arguments)
  shows(poisson_counts("y", ~ 1, "independent", "drop"), "PoissonRegression: y ~ 1\nprior = \"independent\", missing = \"drop\"")
})

test_that("what is no model is refused at once", {
  expect_error(fbs(y ~ x, ~ z), "leave predictors out")
  expect_error(fbs(y ~ x, prior = "jeffreys"), "independent")
  expect_error(fbs(y ~ x, missing = "category"), "should be one of .*fail.*drop")
  expect_error(fbs(y ~ x, transform = "sqrt"), "a transform is \"log\"")
  expect_error(fbs(cbind(a, b) ~ x, transform = list(a = "log", c = "log")), "by the names of the outcomes")
  expect_error(asinh_transform(-1), "scale must be a positive number")
  expect_error(pseudo_posterior("cubic"), "inverse")
  expect_error(negbin(cbind(y, z) ~ x), "synthesizes one count: negbin\\(visits ~ age \\+ sex\\)")
  expect_error(poisson_counts(factor(y) ~ x), "synthesizes one count: poisson_counts\\(visits ~ age \\+ sex\\)")
  expect_error(negbin(y ~ x, prior = "normal"), "independent")
  expect_error(negbin(log(y) ~ x), "an outcome is a column")
  expect_error(fbs(a + b ~ x), "Several outcomes are cbind")
  expect_error(gamma_regression(cbind(y, z) ~ x), "synthesizes one number: gamma_regression\\(pay ~ group \\+ age\\)")
  expect_error(python_model("pay.py", y ~ x), "a file and a name in it: python_model\\(")
  expect_error(mixture(cbind(y, z) ~ x), "synthesizes one number: mixture\\(income ~ age \\+ sex\\)")
  expect_error(mixture(factor(y) ~ x), "synthesizes one number")
  expect_error(mixture(y ~ x, prior = "flat"), "common")
  expect_error(mixture(y ~ x, allocation = "both"), "posterior")
  expect_error(mixture(y ~ x, transform = "sqrt"), "a transform is \"log\"")
  expect_error(mixture(y ~ x, bounds = 9), "bounds are two numbers, lowest and highest, which are public")
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
  release <- synthesize(design, fbs(api00 ~ awards, prior = "flat", transform = scores), 9, seed = 1,
                        mechanism = pseudo_posterior())
  expect_match(release$manifest$transform, "normal-score of last year")
  expect_error(historical_scores(values, "last year", weights = 1), "differ in length")
})

test_that("a model in a Python file serves, and releases what the package's own does", {
  need_python()
  file <- tempfile(fileext = ".py")
  on.exit(unlink(file))
  writeLines(c(
    "import surveysynth as ss",
    "ready = ss.FBS('api00', 'stype + awards', prior='flat')",
    "def make(outcome, predictors):",
    "    return ss.FBS(outcome, predictors, prior='flat')",
    "def broken(outcome, predictors):",
    "    raise ValueError('secret 4711')",
    "nothing = 1"
  ), file)
  own <- function(name, formula = api00 ~ stype + awards) python_model(paste0(file, ":", name), formula)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  released <- function(model) {
    synthesize(design, model, epsilon = 9, m = 1, population_total = 6194, mechanism = pseudo_posterior(), seed = 1)
  }
  expected <- released(quick)
  for (name in c("ready", "make")) expect_equal(released(own(name))$designs, expected$designs)
  refused <- function(model) tryCatch(released(model), error = conditionMessage)
  expect_match(refused(own("ready", api00 ~ stype)),
               "is a model of api00 given 'stype + awards', and one of api00 given 'stype'", fixed = TRUE)
  expect_match(refused(own("broken")), "broken: ValueError in line 6$")
  expect_match(refused(own("nothing")), "nothing is neither a synthesizer nor a function that makes one", fixed = TRUE)
  expect_match(refused(python_model("no.py:pay", api00 ~ stype)), "there is no file 'no.py'", fixed = TRUE)
})
