test_that("R and Python make the same release of the same file, to the last bit", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "awards", "api00", "api99", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  model <- fbs(cbind(api00, api99) ~ stype * awards, prior = "flat",
               transform = list(api00 = "log", api99 = identity_transform(7)))
  ours <- synthesize(design, model, epsilon = 1e2 / 7, m = 2, seed = 5, population_total = 6194,
                     mechanism = pseudo_posterior(c2 = 0.01))
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
model = ss.FBS(['api00', 'api99'], 'stype * awards', prior='flat', transform={'api00': 'log', 'api99': ss.IdentityTransform(7)})
mechanism = ss.PseudoPosterior(c2=0.01)
release = ss.synthesize(design, model, epsilon=100 / 7, m=2, seed=5, population_total=6194, mechanism=mechanism)
hexed = lambda x: x.hex() if isinstance(x, float) else x
print(json.dumps([{c: [hexed(x) for x in d.frame[c].tolist()] for c in d.frame} for d in release.datasets]))", csv)
  for (i in 1:2) {
    frame <- ours$designs[[i]]$variables
    expect_identical(names(frame), names(theirs[[i]]))
    expect_identical(as.character(frame$stype), theirs[[i]]$stype)
    for (name in c("api00", "api99", "pw")) expect_identical(frame[[name]], as.numeric(theirs[[i]][[name]]))
  }
})

test_that("population totals by stratum are kept, however the strata are numbered", {
  need_python()
  data <- transform(apistrat, s = c(E = 1, H = 2, M = 1e5)[as.character(stype)])
  design <- svydesign(ids = ~1, strata = ~s, weights = ~pw, data = data)
  totals <- c("1" = 4000, "2" = 800, "1e+05" = 1000)
  run <- function(total) {
    synthesize(design, fbs(api00 ~ s, prior = "flat"), 9, m = 2, seed = 1, population_total = total,
               mechanism = pseudo_posterior())
  }
  release <- run(totals)
  for (d in release$designs) {
    expect_equal(as.vector(tapply(weights(d), d$variables$s, sum)), c(4000, 800, 1000))
    expect_lt(max(unlist(SE(svyby(~I(s > 0), ~s, d, svytotal)))), 1e-6)
  }
  expect_error(run(totals[1:2]), "one total for each of the 3 strata")
})

test_that("only the columns that are needed are given to Python", {
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = apistrat)
  bridge$in_folder(function(folder) {
    public <- c("stype", "awards", "api99", "fpc", "cname")
    given <- bridge$model_arguments(folder, design, fbs(api00 ~ log(api99) + awards), NULL, NULL, public)
    written <- names(bridge$load_frame(file.path(folder, "confidential")))
    expect_setequal(written, c("stype", "pw", "fpc", "api00", "api99", "awards"))
    expect_identical(given$public, I(c("stype", "awards", "api99", "fpc")))
  })
  bridge$in_folder(function(folder) {
    given <- bridge$model_arguments(folder, design, quick, NULL, NULL, ~ stype + awards + fpc)
    expect_identical(given$public, I(c("stype", "awards", "fpc")))
  })
})

test_that("replicate weights stay in R: the synthetic designs get their own, and a warning says what is lost", {
  plain <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  replicated <- as.svrepdesign(plain, type = "bootstrap", replicates = 40)
  columns <- as.data.frame(as.matrix(weights(replicated, "analysis")))
  own <- svrepdesign(data = cbind(apistrat, columns), weights = ~pw, type = "bootstrap", repweights = columns,
                     combined.weights = TRUE)
  for (design in list(replicated, own)) {
    bridge$in_folder(function(folder) {
      expect_warning(given <- bridge$model_arguments(folder, design, quick, NULL, NULL, NULL),
                     "tell neither strata nor sampling units: .* give the svydesign\\(\\)")
      written <- names(bridge$load_frame(file.path(folder, "confidential")))
      expect_setequal(written, c("pw", "api00", "stype", "awards"))
      expect_length(list.files(folder, recursive = TRUE), 5)
      expect_setequal(names(given$design$arguments), c("frame", "weights"))
    })
  }
  need_python()
  set.seed(1)
  expect_warning(release <- synthesize(replicated, quick, 9, m = 2, seed = 1, mechanism = pseudo_posterior()),
                 "neither strata nor sampling units")
  expect_identical(release$count_designs, release$designs)
  expect_identical(deparse1(release$designs[[1]]$call[[2]]), "svydesign(ids = ~1, weights = ~pw, data = frame)")
  for (d in c(release$designs, release$count_designs)) {
    expect_s3_class(d, "svyrep.design")
    expect_identical(dim(weights(d, "analysis")), c(200L, 40L))
    linearized <- svydesign(ids = ~1, weights = ~pw, data = d$variables)
    # the variance of 40 replicates has a relative standard error of about sqrt(2 / 39) = 0.23
    expect_equal(unname(SE(svymean(~api00, d))[1]^2 / SE(svymean(~api00, linearized))[1]^2), 1, tolerance = 4 * 0.23)
  }
  expect_s3_class(combine_release(with(release, svymean(~api00))), "surveysynth_combined")
  expect_identical(nrow(tables(release, "stype")), 8L)
})

test_that("a design of srvyr has its frame taken as it is, and is answered by plain designs without srvyr", {
  need_python()
  tidy <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  class(tidy) <- c("tbl_svy", class(tidy))
  class(tidy$variables) <- c("tbl_df", "tbl", "data.frame")
  release <- synthesize(tidy, quick, 9, m = 2, seed = 1, mechanism = pseudo_posterior())
  expect_s3_class(release$designs[[1]], "survey.design2")
  expect_identical(inherits(release$designs[[1]], "tbl_svy"), isNamespaceLoaded("srvyr"))
})

test_that("a formula in the place of the model is fbs() of it", {
  need_python()
  made <- function(model) {
    synthesize(strat, model, 60, m = 2, population_total = 6194, mechanism = pseudo_posterior(), seed = 3)$designs[[1]]$variables
  }
  expect_identical(made(api00 ~ stype), made(fbs(api00 ~ stype)))
})

test_that("refusals of the design, of columns and of models come before anything is done", {
  expect_error(synthesize(subset(strat, awards == "Yes"), quick, 9), "a subset of a design")
  expect_error(synthesize(strat, fbs(api00 ~ nowhere), 9), "no column .nowhere.")
  expect_error(synthesize(strat, quick, 9, public = "nowhere"), "no column .nowhere.")
  expect_error(synthesize(strat, quick, 9, population_total = c(4421, 755, 1018)),
               "one number, or one for each stratum, named by it")
  expect_error(synthesize(strat, "FBS", 9), "fbs\\(salary ~ field \\+ gender\\)")
  expect_error(synthesize(strat, quick, 9, mechanism = "inverse"), "pseudo_posterior")
  expect_error(synthesize(strat, quick, 9, clusters = "perhaps"), "model")
  expect_error(synthesize(strat, quick, 9, unit = "household"), "no column .household.")
})

test_that("what Python refuses is refused in R", {
  need_python()
  run <- function(...) synthesize(..., mechanism = pseudo_posterior())
  expect_error(run(strat, quick, 9, public = "stype"), "public does not name")
  expect_error(run(clus1, fbp(api00 ~ stype), 9), "clusters = .ignore.")
  expect_error(run(strat, quick, 9, m = 2.5), "m must be a whole number")
  expect_error(run(strat, quick, -1), "epsilon must be a positive number")
  expect_error(run(strat, quick), "give the privacy budget")
  clustered <- run(clus1, fbs(api00 ~ stype, prior = "flat"), 9, m = 1, seed = 1, clusters = "ignore")
  expect_match(privacy(clustered)$assumptions, "clusters ignored", all = FALSE)
  expect_identical(names(clustered$designs[[1]]$cluster), "dnum")
})

test_that("without a mechanism releases are strict, and what that needs is said in words of R", {
  need_python()
  said <- function(...) tryCatch(synthesize(strat, ...), error = conditionMessage)
  needs <- said(fbs(api00 ~ stype), 9)
  expect_match(needs, "releases are strict unless mechanism says otherwise", fixed = TRUE)
  expect_match(needs, "Give population_total, the public number of population units", fixed = TRUE)
  expect_match(needs, "; the public bounds of 'api00', bounds = c(lowest, highest), ", fixed = TRUE)
  expect_match(needs, "Or use mechanism = pseudo_posterior()", fixed = TRUE)
  expect_no_match(needs, "Give epsilon", fixed = TRUE)
  expect_match(said(fbs(api00 ~ stype), population_total = 6194, bounds = c(200, 1000)), "Give epsilon, for the whole",
               fixed = TRUE)
  others <- list(
    negbin(enroll ~ stype), mixture(api00 ~ stype), beta_regression(api00 ~ stype, bounds = c(200, 1000)),
    gamma_regression(api00 ~ stype), multinomial_regression(awards ~ stype),
    in_sequence(fbs(api99 ~ stype), fbs(api00 ~ log(api99)))
  )
  for (model in others) expect_match(said(model, 9, population_total = 6194), "give the formula", fixed = TRUE)
})

test_that("a count has a strict release by its formula", {
  need_python()
  counts <- synthesize(strat, enroll ~ stype, 9, population_total = 6194, weight = "public", m = 4, seed = 1,
                       outcomes = list(enroll = outcome(bounds = c(0, 5000), whole = TRUE)))
  expect_identical(privacy(counts)$kind, "strict")
  y <- counts$designs[[1]]$variables$enroll
  expect_true(all(y == round(y)) && min(y) >= 0 && max(y) <= 5000)
})

test_that("sampling units have effects, and units of several records can be what epsilon protects", {
  need_python()
  modelled <- synthesize(clus1, fbs(api00 ~ stype, prior = "flat"), 9, m = 1, seed = 1, mechanism = pseudo_posterior())
  expect_match(privacy(modelled)$assumptions, "PSUs have normal effects", all = FALSE)
  households <- synthesize(strat, quick, 60, m = 1, seed = 1, unit = "dnum", mechanism = pseudo_posterior())
  expect_match(names(privacy(households)$neighbours), "add or remove all records of one 'dnum'", all = FALSE)
})

test_that("a privacy cost is epsilon for c1, or c1 for epsilon, as in Python", {
  need_python()
  asked <- privacy_cost(strat, quick, epsilon = 9, m = 2, seed = 1)
  expect_lte(asked$epsilon, 9)
  expect_gt(asked$epsilon, 9 * 0.99)
  given <- privacy_cost(strat, quick, epsilon = 9, c1 = 0.5, m = 2, seed = 1)
  csv <- tempfile()
  write.csv(apistrat[c("stype", "awards", "api00", "pw", "fpc")], csv, row.names = FALSE)
  theirs <- from_python("
import pandas as pd, surveysynth as ss
from dataclasses import asdict
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype', fpc='fpc')
model = ss.FBS('api00', 'stype + awards', prior='flat')
print(json.dumps([asdict(ss.privacy_cost(design, model, epsilon=9, c1=c1, m=2, seed=1)) for c1 in (None, 0.5)]))", csv)
  expect_equal(list(unclass(asked), unclass(given)), theirs, tolerance = 1e-14)
  expect_output(print(asked), "epsilon = [0-9.]+ for m = 2 data sets")
  expect_output(print(replace(asked, "weighted_down", 0.0625)), "privacy weight below 1: 6.25% of", fixed = TRUE)
  shown <- function(alpha) paste(capture.output(print(replace(asked, "mean_alpha", alpha))), collapse = " ")
  expect_match(shown(1), "weight: 1.000 (1: all of the file's information; more epsilon buys nothing)", fixed = TRUE)
  expect_match(shown(0.5), "weight: 0.500 (1: all of the file's information)", fixed = TRUE)
  expect_no_match(shown(0.3), "little")
  expect_match(shown(0.29), "little of the file's information is left")
  expect_error(privacy_cost(strat, quick, epsilon = 9, debias = TRUE), "privacy_cost\\(\\) has no argument .debias.$")
  expect_error(privacy_cost(strat, quick, epsilonn = 9),
               "privacy_cost\\(\\) has no argument .epsilonn. \\(did you mean .epsilon.\\?\\)")
  expect_error(privacy_cost(strat, quick, 9, warm_up = 9),
               "privacy_cost\\(\\) has no argument .warm_up. \\(did you mean .warmup.\\?\\)")
})

test_that("re-weighting leaves more of the file at the same epsilon", {
  need_python()
  linear <- function(...) privacy_cost(strat, quick, 9, m = 2, mechanism = pseudo_posterior("linear"), seed = 1, ...)
  again <- linear(reweight = 2)
  expect_gt(again$mean_alpha, linear()$mean_alpha)
  expect_lte(again$epsilon, 9)
})

test_that("records without an outcome are left out on request", {
  need_python()
  data <- apistrat
  data$api00[c(3, 50)] <- NA
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = data)
  run <- function(model) synthesize(design, model, 9, m = 1, seed = 1, mechanism = pseudo_posterior())
  expect_error(run(quick), "outcome 'api00' is missing in 2 rows")
  release <- run(fbs(api00 ~ stype, prior = "flat", missing = "drop"))
  expect_identical(nrow(release$designs[[1]]$variables), 198L)
  risk <- identification_risk(design, release, ~ stype, "api00")
  expect_identical(which(is.na(unname(risk))), c(3L, 50L))
})

test_that("diagnostics that failed stop a release, unless they are accepted by name", {
  need_python()
  run <- function(...) {
    synthesize(strat, fbs(api00 ~ stype), 9, m = 1, mechanism = pseudo_posterior(), seed = 1, draws = 20, warmup = 20,
               ...)
  }
  expect_error(run(), "accept_diagnostics = c\\(\"rhat\", \"ess_bulk\", \"ess_tail\"\\)")
  release <- run(accept_diagnostics = c("rhat", "ess_bulk", "ess_tail", "divergences"))
  expect_match(privacy(release)$assumptions, "accepted by name: .*rhat, ess_bulk, ess_tail", all = FALSE)
})

test_that("categories are synthesized, and tables can be broken down by them", {
  need_python()
  for (model in list(fbs(cbind(factor(awards), api00) ~ stype, prior = "flat"),
                     fbs(c("C(awards)", "api00"), ~ stype, prior = "flat"))) {
    release <- synthesize(strat, model, 30, m = 2, seed = 1, mechanism = pseudo_posterior())
    expect_identical(levels(release$designs[[1]]$variables$awards), levels(apistrat$awards))
    shares <- tables(release, by = ~ awards)
    expect_setequal(shares$awards, c("No", "Yes", "all"))
    expect_equal(sum(shares$estimate[shares$statistic == "count" & shares$awards != "all"]), sum(weights(strat)))
  }
  text <- update(strat, awards = as.character(awards))
  model <- fbs(cbind(factor(awards), api00) ~ stype, prior = "flat")
  expect_error(synthesize(text, model, 30, m = 2, mechanism = pseudo_posterior()),
               "levels = list(awards = c(\"...\", \"...\"))", fixed = TRUE)
  expect_error(synthesize(text, model, 30, m = 2, mechanism = pseudo_posterior(), levels = list(awards = "No")),
               "column 'awards' has values in [0-9]+ rows")
  release <- synthesize(text, model, 30, m = 2, mechanism = pseudo_posterior(), levels = list(awards = c("Yes", "No")))
  expect_identical(levels(release$designs[[1]]$variables$awards), c("Yes", "No"))
  expect_error(synthesize(strat, fbs(awards ~ stype, prior = "flat"), 9, mechanism = pseudo_posterior()),
               "factor\\(awards\\)")
})

test_that("a list of formulas and what is declared of outcomes make one strict release, the same as Python's", {
  need_python()
  data <- transform(apistrat, size = cut(enroll, c(0, 300, 600, 6000), labels = c("small", "middle", "large")))
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = data)
  totals <- c(E = 4421, H = 755, M = 1018)
  ours <- synthesize(
    design, list(size ~ stype + awards, api00 ~ stype * size, meals ~ .), epsilon = 12, m = 4, seed = 3,
    public = ~ stype + awards, mechanism = strict(delta = 1e-8), importance = list(api00 = 2),
    population_totals = list(stype = totals), weight_bounds = c(0.05, 10),
    outcomes = list(api00 = outcome(bounds = c(200, 1000), whole = TRUE),
                    meals = outcome(bounds = c(0, 100), applies = "awards == 'Yes'", elsewhere = 0))
  )
  csv <- tempfile()
  write.csv(data[c("stype", "awards", "size", "api00", "meals", "pw")], csv, row.names = FALSE)
  theirs <- from_python("
import pandas as pd, surveysynth as ss
frame = pd.read_csv(sys.argv[1])
frame['size'] = pd.Categorical(frame['size'], ['small', 'middle', 'large'])
design = ss.SurveyDesign(frame, weights='pw', strata='stype')
release = ss.synthesize(
    design, ['size ~ stype + awards', 'api00 ~ stype * size', 'meals ~ .'], epsilon=12, m=4, seed=3,
    public=['stype', 'awards'], mechanism=ss.Strict(delta=1e-8), importance={'api00': 2},
    population_totals={'stype': {'E': 4421, 'H': 755, 'M': 1018}}, weight_bounds=(0.05, 10),
    outcomes={'api00': ss.Outcome(bounds=(200, 1000), whole=True),
              'meals': ss.Outcome(bounds=(0, 100), whole=True, applies=\"awards == 'Yes'\", elsewhere=0)})
print(json.dumps([{c: [str(x) if c in ('stype', 'awards', 'size') else float(x) for x in d.frame[c]] for c in d.frame}
                  for d in release.datasets]))", csv)
  for (i in 1:4) {
    frame <- ours$designs[[i]]$variables
    expect_identical(names(frame), names(theirs[[i]]))
    for (name in c("stype", "awards", "size")) expect_identical(as.character(frame[[name]]), theirs[[i]][[name]])
    for (name in c("api00", "meals", "pw")) expect_equal(as.numeric(frame[[name]]), theirs[[i]][[name]])
    expect_identical(levels(frame$size), c("small", "middle", "large"))
    expect_true(all((frame$meals == 0)[frame$awards == "No"]))
    expect_equal(c(tapply(weights(ours$designs[[i]]), frame$stype, sum)), totals)
  }
  expect_equal(privacy(ours)$delta, 1e-8)
  expect_match(format(privacy(ours))[1], "epsilon = 12 (asked for: 12), strict, delta = 1e-08, m = 4", fixed = TRUE)
})

test_that("what is declared of outcomes is checked here", {
  expect_output(print(outcome(bounds = c(0, 1), zeros = TRUE)), "outcome(bounds = c(0, 1), zeros = TRUE)", fixed = TRUE)
  design <- svydesign(ids = ~1, weights = ~pw, data = apistrat)
  for (wrong in list(list(api00 = 5), list(outcome(bounds = 0:1)), outcome(bounds = 0:1))) {
    expect_error(synthesize(design, list(api00 ~ stype), 5, population_total = 6194, outcomes = wrong),
                 "outcomes is a list by outcome")
  }
  expect_error(synthesize(design, list(~stype), 5, population_total = 6194), "has no outcome")
  expect_error(synthesize(design, list(api00 ~ nowhere), 5, population_total = 6194), "nowhere")
})

test_that("a strict release of a post-stratified design has the counts of the strata", {
  need_python()
  expect_warning(
    release <- synthesize(poststratified, api00 ~ stype, epsilon = 5, bounds = c(200, 1000), m = 4, seed = 1),
    "population totals of 'stype' are those that the weights were calibrated to"
  )
  counts <- tables(release, by = ~stype, statistic = "count")
  expect_equal(counts$estimate, c(4421, 755, 1018, 6194), tolerance = 1e-9)
})
