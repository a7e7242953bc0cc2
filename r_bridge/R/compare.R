#' A release beside the confidential file that it was made from
#'
#' For the agency alone: everything here is computed from the confidential file. A release is meant to give what the file
#' gives, but for its noise: its 95% intervals should hold the file's own estimate in 95% of the cells or more, as release
#' and file share their sampling error.
#'
#' @param design The confidential file, from `svydesign()`, `svrepdesign()` or srvyr's `as_survey()`. Records without an
#'   outcome are left out. Columns that [update()][update.surveysynth_release] gave the release are computed of it, too.
#' @param release By [synthesize()] or [read_release()].
#' @param by Variables of the cells, by name or as a formula, as for [tables()]; default its discrete predictors, at most
#'   three.
#' @param statistic,quantiles As for [tables()].
#' @param x A comparison.
#' @param ... Not used.
#' @return A list of class `surveysynth_comparison`, of data frames: `cells` (estimates of the file and of the release,
#'   `std_diff`, their difference in standard errors of the release, the `overlap` of the two intervals, whether the
#'   release's interval `holds` the file's estimate, `se_ratio`; of strict releases `modelled`, whether no noisy table counts
#'   its variables together), `summary` (misses, and how many chance allows),
#'   `distributions` (distances between weighted distribution functions), `curves` (these functions), `pmse` (propensity
#'   score mean squared errors) and `joint` (how columns go together).
#' @references Karr et al. (2006), A Framework for Evaluating the Utility of Data Altered to Protect Confidentiality,
#'   The American Statistician 60, 224-232, \doi{10.1198/000313006X124640}. Woo et al. (2009), Global Measures of Data
#'   Utility for Microdata Masked for Disclosure Limitation, Journal of Privacy and Confidentiality 1, 111-124,
#'   \doi{10.29012/jpc.v1i1.568}. Snoke et al. (2018), General and Specific Utility Measures for Synthetic Data, Journal
#'   of the Royal Statistical Society A 181, 663-688, \doi{10.1111/rssa.12358}.
#' @seealso [identification_risk()], for risks of records.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' release <- synthesize(design, enroll ~ stype + awards, epsilon = 5, population_total = 6194,
#'                       bounds = c(1, 5000), weight = "public")
#' comparison <- compare_release(design, release, by = ~ stype + awards)
#' comparison
#' head(comparison$cells)
compare_release <- function(design, release, by = NULL, statistic = NULL, quantiles = NULL) {
  if (!inherits(release, "surveysynth_release")) {
    refuse("the second argument of compare_release() is a release, after the confidential design: ",
           "compare_release(design, release)")
  }
  parts <- design_parts(design)
  by <- names_of(by)
  columns <- c(unlist(release$manifest[c("public_predictors", "synthesized")]), intersect(by, names(parts$frame)))
  check_there(columns, names(parts$frame))
  derived <- release$derived[setdiff(names(release$derived), names(parts$frame))]
  parts$frame <- with_columns(parts$frame, derived)
  columns <- c(columns, names(release$derived))
  in_folder(function(folder) {
    out <- file.path(folder, "result")
    dir.create(out)
    made <- ask_python(
      "compare", folder = out, design = design_for_python(parts, columns, folder), by = by,
      statistic = if (!is.null(statistic)) I(statistic), quantiles = if (!is.null(quantiles)) I(quantiles),
      objects = list(python_release(release))
    )$value
    frames <- list.files(out)
    tables <- stats::setNames(lapply(file.path(out, frames), loaded), frames)
    structure(c(tables[made$order], list(text = made$text)), class = "surveysynth_comparison")
  })
}

#' @rdname compare_release
#' @method print surveysynth_comparison
#' @export
print.surveysynth_comparison <- function(x, ...) {
  writeLines(strwrap(strsplit(x$text, "\n", fixed = TRUE)[[1]], getOption("width"), exdent = 2))
  invisible(x)
}
