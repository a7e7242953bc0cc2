suppressMessages(library(survey))
data(api, package = "survey")
data(election, package = "survey")

bridge <- asNamespace("surveysynth")
options(surveysynth.progress = FALSE)

python <- local({
  found <- NULL
  function() {
    if (is.null(found)) found <<- tryCatch(bridge$first_usable(bridge$candidates()), error = function(e) "")
    found
  }
})

need_python <- function() {
  skip_if(python() == "", "there is no Python with surveysynth: surveysynth_setup(), or set SURVEYSYNTH_PYTHON")
}

# What a Python script prints as json; its arguments are in sys.argv.
from_python <- function(script, ...) {
  file <- tempfile(fileext = ".py")
  on.exit(unlink(file))
  writeLines(c("import json, sys", script), file, useBytes = TRUE)
  # R's own search path of libraries would come before that of a Python that brings its own
  said <- with_env(c(LD_LIBRARY_PATH = NA), system2(python(), c(file, shQuote(c(...))), stdout = TRUE))
  if (!is.null(attr(said, "status"))) stop("the Python script failed, with the messages above")
  jsonlite::fromJSON(paste(said, collapse = "\n"), simplifyDataFrame = FALSE)
}

# Run code with environment variables; NA unsets one.
with_env <- function(variables, code) {
  old <- Sys.getenv(names(variables), NA, names = TRUE)
  change <- function(to) {
    if (any(is.na(to))) Sys.unsetenv(names(to)[is.na(to)])
    if (any(!is.na(to))) do.call(Sys.setenv, as.list(to[!is.na(to)]))
  }
  on.exit(change(old))
  change(variables)
  code
}

strat <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = apistrat)
clus1 <- svydesign(ids = ~dnum, weights = ~pw, fpc = ~fpc, data = apiclus1)
poststratified <- postStratify(clus1, ~stype, data.frame(stype = c("E", "H", "M"), Freq = c(4421, 755, 1018)))
clus2 <- svydesign(ids = ~dnum + snum, fpc = ~fpc1 + fpc2, data = apiclus2)

quick <- fbs(api00 ~ stype + awards, prior = "flat") # drawn without Markov chains

# One release for all tests that need one.
shared_release <- local({
  made <- NULL
  function() {
    if (is.null(made)) {
      need_python()
      design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
      made <<- synthesize(design, quick, epsilon = 9, m = 3, population_total = 6194, mechanism = pseudo_posterior(),
                          seed = 1)
    }
    made
  }
})

# The release that comes with the package.
example <- function() read_release(system.file("example-release", package = "surveysynth"))
numbers <- c("estimate", "se", "df", "ci_low", "ci_high")
