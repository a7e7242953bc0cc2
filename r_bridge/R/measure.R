#' Count a confidential survey once, and draw releases from the counts
#'
#' `measure()` counts the file by public columns and adds noise to the counts: the one step of a strict release that reads
#' confidential values, and that spends epsilon. `release()` draws data sets from the noisy tables, as often as you like, at
#' no more epsilon. [synthesize()] under [strict()] is both in one call.
#'
#' @param design The confidential file, as `svydesign()`, `svrepdesign()` or srvyr's `as_survey()` made it.
#' @param formula A formula, `income ~ region + sex`, or a list of formulas, each outcome given those before it; or [fbs()]
#'   or [fbp()] of a formula.
#' @param epsilon What the file spends.
#' @param delta As for [strict()].
#' @param population_total,population_totals,bounds,outcomes,weight,weight_bounds,clusters,unit,public As for [synthesize()].
#' @param importance,edits,earlier As for [synthesize()].
#' @param ledger By [ledger()]: it is charged as soon as the file is counted. The measurements are kept next to it until a
#'   release of them is written.
#' @param seed For tests only: whoever knows the seed of `measure()` can take the noise away, and nothing that is made with
#'   it is for publication. That of `release()` is harmless: it repeats the draws from the noisy tables.
#' @param measured By `measure()` or `read_measurements()`.
#' @param m Number of data sets: even, at least 4.
#' @param path The folder of the measurements. `read_measurements()` also takes the folder of a strict release, which holds
#'   the measurements that it was drawn from.
#' @param overwrite Replace measurements that are there; nothing else is ever replaced.
#' @return `measure()` and `read_measurements()`: measurements, of class `surveysynth_measurements`, which live as long as
#'   the R session; `write_measurements()` keeps them, and returns `path`, invisibly. `as.data.frame()` of measurements is
#'   a data frame of all noisy counts, one a row, with the standard deviation of their noise. `release()`: a release, as by
#'   [synthesize()].
#' @references McKenna, Miklau & Sheldon (2021), Winning the NIST Contest: A Scalable and General Approach to
#'   Differentially Private Synthetic Data, Journal of Privacy and Confidentiality 11, \doi{10.29012/jpc.778}.
#' @seealso [synthesize()], [expected_errors()]
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' measured <- measure(design, api00 ~ stype, epsilon = 5, population_total = 6194,
#'                     bounds = c(200, 1000))
#' measured
#' head(as.data.frame(measured))
#' small <- release(measured, m = 4)
#' tables(small, by = ~ stype)
measure <- function(design, formula, epsilon = NULL, delta = NULL, population_total = NULL, population_totals = NULL,
                    bounds = NULL, outcomes = NULL, weight = NULL, weight_bounds = NULL,
                    clusters = c("model", "ignore"), unit = NULL, public = NULL, importance = NULL, edits = NULL,
                    earlier = NULL, ledger = NULL, seed = NULL) {
  unit <- one_name(unit)
  settings <- list(
    epsilon = epsilon, delta = delta, weight = weight, weight_bounds = weight_bounds, clusters = match.arg(clusters),
    unit = unit, edits = if (!is.null(edits)) I(as.character(edits)),
    ledger = if (!is.null(ledger)) check_ledger(ledger), seed = seed
  )
  in_folder(function(folder) {
    declared <- declarations(bounds, outcomes, population_totals, importance)
    given <- model_arguments(folder, design, formula, NULL, population_total, public, unit, declared = declared)
    past <- earlier_for_python(earlier)
    made <- do.call(ask_python, c(list("measure"), given, settings, past$given, list(objects = past$objects)))
    new_measurements(made, kind_of_design(design))
  })
}

#' @rdname measure
#' @export
release <- function(measured, m = 20, seed = NULL) {
  check_measurements(measured)
  in_folder(function(folder) {
    release_from_python(folder, measured$kind, "release", list(m = m, seed = seed), list(python_measurements(measured)))
  })
}

#' @rdname measure
#' @export
write_measurements <- function(measured, path, overwrite = FALSE) {
  check_measurements(measured)
  path <- path.expand(check_path(path, "path names the folder to make, such as \"measurements\""))
  ask_python("write_measurements", path = path, overwrite = overwrite, objects = list(python_measurements(measured)))
  invisible(path)
}

#' @rdname measure
#' @export
read_measurements <- function(path) {
  path <- path.expand(check_path(path, "path names the folder of measurements or of a release, such as \"measurements\""))
  new_measurements(ask_python("read_measurements", path = path), list(srvyr = FALSE))
}

# Python's object of measurements, what it says of itself, and the kind of designs that releases are to have.
new_measurements <- function(made, kind) {
  structure(list(text = made$value, object = made$object, kind = kind), class = "surveysynth_measurements")
}

check_measurements <- function(measured) {
  if (!inherits(measured, "surveysynth_measurements")) {
    refuse("measurements are what measure() and read_measurements() return")
  }
}

python_measurements <- function(measured) {
  if (reticulate::py_is_null_xptr(measured$object)) {
    refuse("these measurements were made in an R session that has ended: only write_measurements() keeps them for another ",
           "session, where read_measurements() reads them")
  }
  measured$object
}

# What a release of an earlier year is to Python: an object that it has, or the folder that it reads.
earlier_for_python <- function(earlier) {
  if (is.null(earlier)) return(NULL)
  if (inherits(earlier, "surveysynth_measurements")) return(list(objects = list(earlier = python_measurements(earlier))))
  if (inherits(earlier, "surveysynth_release")) return(list(objects = list(earlier = python_release(earlier))))
  path <- check_path(earlier, "earlier is what measure() or synthesize() returned for an earlier year, or its folder")
  list(given = list(earlier = make("measurements", "earlier", path = path.expand(path))))
}

#' @method print surveysynth_measurements
#' @export
print.surveysynth_measurements <- function(x, ...) {
  cat(strwrap(x$text, exdent = 2), sep = "\n")
  invisible(x)
}

#' @rdname measure
#' @param x Measurements.
#' @param row.names,optional,... Not used.
#' @export
as.data.frame.surveysynth_measurements <- function(x, row.names = NULL, optional = FALSE, ...) {
  in_folder(function(folder) frame_from_python("measured_table", folder, objects = list(python_measurements(x))))
}
