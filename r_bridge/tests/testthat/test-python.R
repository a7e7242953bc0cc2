test_that("a Python error arrives as its message alone, in words of R", {
  need_python()
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, growth = api00 - api99))
  run <- function(...) synthesize(design, ..., mechanism = pseudo_posterior())
  message <- tryCatch(run(fbs(growth ~ awards, prior = "flat"), 9), error = conditionMessage)
  expect_match(message, "^outcome 'growth' has no log in 27 rows")
  expect_match(message, "use transform=asinh_transform(...)", fixed = TRUE)
  expect_no_match(message, "InputError|Traceback|surveysynth\\.")
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, x = seq_len(200) / 7))
  message <- tryCatch(run(fbp(api00 ~ x, prior = "flat"), 9), error = conditionMessage)
  expect_match(message, "public limits, bands=list(x = c(...)), or use fbs()", fixed = TRUE)
})

test_that("of an error that is not surveysynth's own only the type is shown", {
  need_python()
  message <- tryCatch(bridge$ask_python("privacy_cost", secret_4711 = 1), error = conditionMessage)
  expect_match(message, "^(Type|Key)Error in Python")
  expect_no_match(message, "secret|Traceback")
})

test_that("Python's words are put into R's", {
  models <- list(
    FBS = list(name = "FBS", in_r = "fbs"), FBP = list(name = "FBP", in_r = "fbp"),
    NegativeBinomialRegression = list(name = "NegativeBinomial", in_r = "negbin"),
    PoissonRegression = list(name = "Poisson", in_r = "poisson_counts"),
    BetaRegression = list(name = "Beta", in_r = "beta_regression"),
    Mixture = list(name = "Mixture", in_r = "mixture")
  )
  words <- function(text) bridge$in_words_of_r(text, models)
  expect_identical(words("base must be one of surveysynth.LogTransform(), AsinhTransform(scale=...), IdentityTransform(scale=...)"),
                   "base must be one of \"log\", asinh_transform(...), identity_transform(...)")
  expect_identical(words("by name: accept_diagnostics=['rhat', 'ess_bulk']"),
                   "by name: accept_diagnostics = c('rhat', 'ess_bulk')")
  expect_identical(words("bands={'age': [25, 45, 65]}"), "bands=list(age = c(25, 45, 65))")
  expect_identical(words("or choose lonely_psu='remove'"), "or set options(survey.lonely.psu = \"remove\")")
  expect_identical(words("or use prior='flat'; missing='drop'"), "or use prior = \"flat\"; missing = \"drop\"")
  expect_identical(words("how much: epsilon=, or a larger epsilon= here"),
                   "how much: epsilon, or a larger epsilon here")
  expect_identical(words("more draws (draws=, warmup=)"), "more draws (draws, warmup)")
  expect_identical(words("or overwrite=True for a release"), "or overwrite = TRUE for a release")
  expect_identical(words("bounds=(lowest, highest) of pay, or mechanism=Strict(reference=). Or bounds=(0, 1_000_000)"),
                   "bounds = c(lowest, highest) of pay, or mechanism = strict(reference = ). Or bounds = c(0, 1e6)")
  expect_identical(words("of PseudoPosterior() or the clamp of Censored(weighted=False)"),
                   "of pseudo_posterior() or the clamp of censored(weighted = FALSE)")
  expect_identical(words("weight: use FBS, or put"), "weight: use fbs(), or put")
  expect_identical(words("PerInstance() has no bound for categories: say mechanism=PseudoPosterior()"),
                   "per_instance() has no bound for categories: say mechanism = pseudo_posterior()")
  expect_identical(words("use PseudoPosterior or WeightedE"), "use pseudo_posterior() or weighted_e()")
  expect_identical(words("NegativeBinomial has no debias for it: use FBS or FBP"),
                   "negbin() has no debias for it: use fbs() or fbp()")
  expect_identical(words("Poisson has no debias: leave it out, or use FBS"),
                   "poisson_counts() has no debias: leave it out, or use fbs()")
  expect_identical(words("Mixture has no debias: leave it out"), "mixture() has no debias: leave it out")
  expect_identical(words("and Beta models the outcome alone"), "and beta_regression() models the outcome alone")
  expect_identical(words("the paper's prior of FBP is for one; use surveysynth.FBS('y', 'x')"),
                   "the paper's prior of fbp() is for one; use fbs('y', 'x')")
  expect_identical(words("use FBP(...) instead of FBP.paper(...)"), "leave weights and variance of fbp() alone")
  expect_identical(words("outcome 'FBS' is missing"), "outcome 'FBS' is missing")
  expect_identical(words("c1 of a WeightedE is given to it: WeightedE(c1=...)"),
                   "c1 of a weighted_e() is given to it: weighted_e(c1=...)")
  expect_identical(words("WeightedE needs a c1; c1 of a Censored is given to it: Censored(c1=...)"),
                   "weighted_e() needs a c1; c1 of a censored() is given to it: censored(c1=...)")
  expect_identical(words("bounds={'weight': (low, high), ...}"), "bounds=list(weight = c(low, high), ...)")
  expect_identical(words("rows 1, 2; Poisson is a model of counts"), "rows 1, 2; poisson_counts() is a model of counts")
  expect_identical(words("Poisson selection"), "Poisson selection")
  expect_identical(words("CountRisk(radius=2) or LipschitzRisk()"), "count_risk(radius=2) or lipschitz_risk()")
  expect_identical(words("MarginalRisk(known) or PairwiseRisk(known) under map='linear'"),
                   "marginal_risk(known) or pairwise_risk(known) under map = \"linear\"")
  expect_identical(words("MarginalRisk looks at, IdentificationRule looks at"),
                   "marginal_risk() looks at, identification_rule() looks at")
  expect_identical(words("reweight=True; relative must be True or False"),
                   "reweight = TRUE; relative must be TRUE or FALSE")
  expect_identical(words("epsilon must be None for kind='none'"), "epsilon must be NULL for kind = \"none\"")
  expect_identical(words("for example [0.25, 0.5]"), "for example c(0.25, 0.5)")
})

test_that("neither errors nor warnings of other libraries are quoted", {
  need_python()
  told <- from_python("
sys.path.insert(0, sys.argv[1])
import warnings
import surveysynth_bridge as bridge
import surveysynth.errors
def leak(**given):
    warnings.warn('secret 4711', RuntimeWarning)
    exec(\"warnings.warn('our own')\", vars(surveysynth.errors) | {'warnings': warnings})
    float('secret 4711')
bridge.leak = leak
print(bridge.run('leak', '{}').told)", system.file("python", package = "surveysynth"))
  expect_match(told$error, "^ValueError in Python")
  expect_identical(told$warnings, c("RuntimeWarning in Python", "our own"))
  expect_no_match(unlist(told), "4711")
})

test_that("Python warnings arrive as R warnings", {
  need_python()
  expect_warning(inclusion_probabilities(c(0, 1, 2), 1), "1 units have size 0 and are never selected")
})

test_that("the folder of confidential data is private, and gone also after an error", {
  expect_identical(format(bridge$in_folder(function(folder) file.info(folder)$mode)), "700")
  modes <- function(folder) {
    bridge$frame_for_python(apistrat, folder, "confidential")
    format(file.info(list.files(folder, recursive = TRUE, include.dirs = TRUE, full.names = TRUE))$mode)
  }
  mask <- Sys.umask("000")
  expect_setequal(bridge$in_folder(modes), c("700", "600"))
  expect_identical(format(Sys.umask(mask)), "0") # as it was
  kept <- NULL
  expect_error(bridge$in_folder(function(folder) {
    kept <<- folder
    bridge$frame_for_python(apistrat, folder, "confidential")
    expect_true(file.exists(file.path(folder, "confidential", "columns.json")))
    stop("on the way")
  }), "on the way")
  expect_false(dir.exists(kept))
  need_python()
  expect_error(synthesize(strat, fbp(api00 ~ awards), 9, mechanism = pseudo_posterior()), "strata")
  expect_length(list.files(tempdir(), "^surveysynth"), 0)
})

test_that("the files of confidential data are this user's, and gone once Python has them", {
  umask <- Sys.umask("000")
  on.exit(Sys.umask(umask))
  bridge$in_folder(function(folder) {
    bridge$frame_for_python(apistrat, folder, "confidential")
    modes <- file.info(list.files(folder, full.names = TRUE, recursive = TRUE))$mode
    expect_length(modes, ncol(apistrat) + 1)
    expect_identical(unique(format(modes)), "600")
  })
  expect_identical(format(Sys.umask("000")), "0")
  need_python()
  bridge$in_folder(function(folder) {
    sizes <- bridge$frame_for_python(data.frame(size = c(1, 2, 3, 4)), folder, "confidential")
    drawn <- bridge$frame_from_python("inclusion_probabilities", folder, frame = sizes, n = 1)
    expect_equal(drawn$pi, c(1, 2, 3, 4) / 10)
    expect_identical(list.files(folder), "result")
    expect_identical(unique(format(file.info(list.files(folder, full.names = TRUE, recursive = TRUE))$mode)), "600")
  })
})

test_that("where there is no Python with surveysynth, it is said what was looked at, and how to get one", {
  nowhere <- tempfile()
  with_env(c(SURVEYSYNTH_PYTHON = nowhere, RETICULATE_PYTHON = NA, WORKON_HOME = nowhere), {
    looked_at <- bridge$candidates(NULL)
    expect_identical(names(looked_at), c("SURVEYSYNTH_PYTHON", "the virtual environment r-surveysynth"))
    expect_error(bridge$first_usable(looked_at),
                 "surveysynth_setup\\(\\) finds or makes one.*SURVEYSYNTH_PYTHON: .* is not there")
  })
})

test_that("a session that runs another Python says so", {
  need_python()
  other <- tempfile("other")
  on.exit(unlink(other, recursive = TRUE))
  system2(python(), c("-m", "venv", "--without-pip", shQuote(other)))
  script <- tempfile(fileext = ".R")
  writeLines("
    reticulate::use_python(commandArgs(TRUE), required = TRUE)
    invisible(reticulate::py_config())
    tryCatch(surveysynth::inclusion_probabilities(1:3, 1), error = function(e) cat(conditionMessage(e)))", script)
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  said <- with_env(c(R_LIBS = libraries, RETICULATE_PYTHON = NA, PYTHONPATH = NA), {
    system2(file.path(R.home("bin"), "Rscript"), c(script, shQuote(file.path(other, "bin", "python"))), stdout = TRUE)
  })
  expect_match(paste(said, collapse = " "), "runs the Python at .* already, which has no surveysynth; .* restart R")
})

test_that("errors tell R's names of the models", {
  need_python()
  design <- svydesign(ids = ~1, weights = ~pw, data = apistrat)
  run <- function(...) synthesize(..., mechanism = pseudo_posterior())
  expect_error(run(design, beta_regression(api00 ~ awards, bounds = c(0, 1000)), 9),
               "and beta_regression\\(\\) models the outcome alone")
  expect_error(run(design, mixture(api00 ~ stype + awards), 9, debias = TRUE),
               "^mixture\\(\\) has no debias: leave it out, or use fbs\\(\\)$")
  expect_error(run(clus1, negbin(enroll ~ stype), 9), "and negbin\\(\\) has no effects of them: use fbs\\(\\)")
})
