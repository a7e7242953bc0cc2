test_that("a Python error arrives as its message alone, in words of R", {
  need_python()
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, growth = api00 - api99))
  run <- function(...) synthesize(design, ..., mechanism = pseudo_posterior())
  message <- tryCatch(run(fbs(growth ~ awards, prior = "flat"), 9), error = conditionMessage)
  expect_match(message, "^outcome 'growth' has no log in 27 rows")
  expect_match(message, "use transform = asinh_transform(scale = ...)", fixed = TRUE)
  expect_no_match(message, "InputError|Traceback|surveysynth\\.")
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, x = seq_len(200) / 7))
  message <- tryCatch(run(fbp(api00 ~ x, prior = "flat"), 9), error = conditionMessage)
  expect_match(message, "public limits, bands = list(x = c(...)), or use fbs()", fixed = TRUE)
})

test_that("of an error that is not surveysynth's own only the type is shown", {
  need_python()
  message <- tryCatch(bridge$ask_python("privacy_cost", secret_4711 = 1), error = conditionMessage)
  expect_match(message, "^(Type|Key)Error in Python")
  expect_no_match(message, "secret|Traceback")
})

test_that("errors are conditions of classes and codes that come from Python", {
  need_python()
  class_of <- function(code) tryCatch(code, surveysynth_error = function(e) c(class(e)[1], e$code))
  expect_identical(class_of(synthesize(strat, quick, -1, mechanism = pseudo_posterior())),
                   c("surveysynth_input_error", "input"))
  expect_identical(class_of(synthesize(strat, quick, 9, unit = "household")), c("surveysynth_input_error", "input")) # R's
  file <- tempfile(fileext = ".jsonl")
  on.exit(unlink(file))
  budget <- ledger(file, "schools", cap = 1, create = TRUE)
  expect_identical(class_of(spend(budget, 2, 4, "strict", "too much")), c("surveysynth_privacy_error", "privacy"))
  expect_identical(class_of(synthesize(strat, quick, 9, mechanism = pseudo_posterior(), draws = 10, chains = 4)),
                   c("surveysynth_diagnostics_error", "diagnostics"))
  expect_identical(class_of(bridge$ask_python("privacy_cost", secret_4711 = 1)),
                   c("surveysynth_internal_error", "internal"))
  warned <- tryCatch(inclusion_probabilities(c(0, 1, 2), 1), warning = class)
  expect_identical(warned[1], "surveysynth_warning")
})

test_that("long work says its stages by message(), which can be silenced", {
  need_python()
  heard <- character()
  run <- function() {
    heard <<- character()
    withCallingHandlers(privacy_cost(strat, quick, epsilon = 9, m = 2, seed = 1), surveysynth_message = function(m) {
      heard <<- c(heard, conditionMessage(m))
      invokeRestart("muffleMessage")
    })
  }
  old <- options(surveysynth.progress = TRUE)
  on.exit(options(old))
  shown <- capture.output(run(), type = "message")
  expect_match(heard[1], "^0 s  1 of [0-9]: reading the file\n$")
  expect_match(heard, "^[0-9]+ s  3 of 3: fits under privacy weights\n$", all = FALSE)
  expect_identical(shown, character())
  options(surveysynth.progress = FALSE)
  run()
  expect_identical(heard, character())
})

test_that("what is not for publication is a condition of its own", {
  need_python()
  old <- options(surveysynth.progress = TRUE)
  on.exit(options(old))
  internal <- list()
  note <- function(condition) {
    internal[[length(internal) + 1]] <<- condition
    invokeRestart(if (inherits(condition, "warning")) "muffleWarning" else "muffleMessage")
  }
  run <- function() synthesize(strat, quick, 9, m = 1, population_total = 12000, mechanism = pseudo_posterior())
  suppressMessages(withCallingHandlers(run(), surveysynth_internal = note))
  said <- vapply(internal, conditionMessage, "")
  expect_match(said, "^The privacy weights keep [0-9]+% of the file's information \\(not for publication\\)[.]\n$", all = FALSE)
  expect_match(said, "^population_total is far from what the survey weights add up to", all = FALSE)
  kinds <- vapply(internal, function(condition) if (inherits(condition, "warning")) "warning" else "message", "")
  expect_setequal(kinds, c("message", "warning"))
  expect_message(suppressWarnings(run()), "The privacy weights keep") # suppressMessages() has it, too
})

test_that("a page of knitr shows nothing that is internal and no progress, and the console does", {
  skip_if_not_installed("knitr")
  skip_if_not_installed("haven")
  need_python()
  folder <- tempfile("page")
  dir.create(folder)
  writeLines(c(
    "```{r}", "suppressMessages(library(survey)); library(surveysynth); data(api)",
    "coded <- transform(apistrat, api00 = haven::labelled(api00, c(refused = api00[3])))",
    "release <- synthesize(svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = coded),",
    "                      fbs(api00 ~ stype, prior = 'flat'), 9, m = 2, population_total = 12000,",
    "                      mechanism = pseudo_posterior())",
    "```", "", "```{r}", "release", "summary(release)", "update(release, low = api00 < 600)", "```"
  ), file.path(folder, "page.Rmd"))
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  here <- setwd(folder)
  on.exit(setwd(here))
  with_env(c(R_LIBS = libraries), {
    system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote("knitr::knit('page.Rmd', quiet = TRUE)")),
            stdout = "stdout", stderr = "stderr")
  })
  page <- readLines("page.md")
  expect_match(page, "2 synthetic data sets of 200 records by FBS", all = FALSE)
  internal <- c("privacy weights keep [0-9]+%", "not for publication", "population_total is far", "carry a value label")
  for (text in c(internal, "[0-9] s  [0-9] of [0-9]: [a-z]")) { # and stages with their seconds
    expect_no_match(c(page, readLines("stdout")), text)
    expect_match(readLines("stderr"), text, all = FALSE)
  }
  expect_no_match(page, "Warning|refused [(]|rows [(]")
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
print(bridge.run('leak', '{}', print).told)", system.file("python", package = "surveysynth"))
  expect_match(told$error$message, "^ValueError in Python")
  expect_identical(told$error$code, "internal")
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
