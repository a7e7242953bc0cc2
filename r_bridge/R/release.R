#' Read a release of synthetic survey data
#'
#' Reads the public files of a release folder; nothing of `internal/` is touched.
#'
#' @param path The release folder, or its `public` folder as it was published. The synthetic
#'   files must be csv.
#' @return An object of class `surveysynth_release`: a list with `designs`, the m synthetic data
#'   sets as `survey.design` objects; `count_designs`, the same as counts of population units are
#'   estimated from them (other weights under FBP, else the same designs); and `manifest`, a list
#'   with the method, epsilon, its kind, and the assumptions.
#' @export
read_release <- function(path) {
  folder <- if (dir.exists(file.path(path, "public"))) file.path(path, "public") else path
  file <- file.path(folder, "manifest.json")
  if (!file.exists(file)) {
    stop(sQuote(path), " is not a release: it has no public/manifest.json", call. = FALSE)
  }
  manifest <- jsonlite::fromJSON(file, simplifyMatrix = FALSE) # a margin of several columns stays one
  frames <- lapply(seq_len(manifest$m), function(i) {
    csv <- file.path(folder, sprintf("synthetic_%d.csv", i))
    if (!file.exists(csv)) {
      stop("the release has no ", basename(csv), "; write it with format = \"csv\"", call. = FALSE)
    }
    read_synthetic(csv, manifest)
  })
  designs <- lapply(frames, as_design, manifest$design)
  counts <- if (is.null(manifest$count_design)) designs else lapply(frames, as_design, manifest$count_design)
  structure(list(designs = designs, count_designs = counts, manifest = manifest), class = "surveysynth_release")
}

# Text stays text, even where it looks like a number or like NA; categories keep their order.
read_synthetic <- function(file, manifest) {
  text <- c("str", "string", "object", "category")
  kind <- vapply(manifest$dtypes, function(t) if (t %in% text) "character" else NA_character_, "")
  frame <- utils::read.csv(file, colClasses = kind, check.names = FALSE, na.strings = character(),
                           encoding = "UTF-8")
  for (name in names(manifest$levels)) {
    kind <- manifest$levels[[name]]
    frame[[name]] <- factor(frame[[name]], as.character(kind$categories), ordered = kind$ordered)
  }
  frame
}

#' Evaluate a call on every synthetic data set
#'
#' @param release From [read_release()].
#' @param expr A call of the survey package, written with the name `design` for the design of
#'   each data set: `svyby(~salary, ~field, design, svymean)`.
#' @param counts `TRUE` for counts of population units: `design` then has the weights that give
#'   them their standard errors (see [read_release()]; the counts themselves are the same).
#' @return A list of m results, for [combine()].
#' @export
with_release <- function(release, expr, counts = FALSE) {
  expr <- substitute(expr)
  caller <- parent.frame()
  old <- options(survey.lonely.psu = release$manifest$design$lonely_psu)
  on.exit(options(old))
  designs <- if (counts) release$count_designs else release$designs
  results <- lapply(designs, function(design) eval(expr, list(design = design), caller))
  attr(results, "degf") <- min(vapply(designs, survey::degf, 0))
  results
}

#' Combine results of m partially synthetic data sets
#'
#' The estimate is the mean of the m estimates, its variance `T = mean(u) + b / m` (Reiter and
#' Raghunathan 2007), with t intervals on `(m - 1) (1 + mean(u) / (b / m))^2` degrees of freedom,
#' at most those of the design. This is not Rubin's rule, which mitools applies: that one is for
#' multiple imputation of missing data and overstates these variances.
#'
#' @param results From [with_release()]: anything with `coef()` and `vcov()`.
#' @param degf Degrees of freedom of the design.
#' @return An object of class `surveysynth_combined`; `as.data.frame()` gives estimate, se, df
#'   and the 95\% interval. A coefficient that is missing from some data set (a category that was
#'   not drawn) is combined over the others, and `m` says how many these are.
#' @export
combine <- function(results, degf = attr(results, "degf")) {
  if (is.null(degf)) degf <- Inf
  names <- unique(unlist(lapply(results, function(r) names(stats::coef(r)))))
  q <- vapply(results, function(r) unname(stats::coef(r)[names]), numeric(length(names)))
  q <- matrix(q, nrow = length(names))
  u <- vapply(results, function(r) {
    v <- diag(as.matrix(suppressWarnings(stats::vcov(r)))) # svyby warns that it has variances only
    unname(stats::setNames(v, names(stats::coef(r)))[names])
  }, numeric(length(names)))
  u <- matrix(u, nrow = length(names))
  m <- rowSums(!is.na(q))
  mean_q <- rowMeans(q, na.rm = TRUE)
  mean_u <- rowMeans(u, na.rm = TRUE)
  between <- rowSums((q - mean_q)^2, na.rm = TRUE) / pmax(m - 1, 1) / m
  df <- ifelse(between > 0, (m - 1) * (1 + mean_u / between)^2, Inf)
  structure(
    list(coefficients = stats::setNames(mean_q, names), variance = mean_u + between, df = pmin(df, degf), m = m),
    class = "surveysynth_combined"
  )
}

#' @export
coef.surveysynth_combined <- function(object, ...) object$coefficients

#' @export
vcov.surveysynth_combined <- function(object, ...) {
  v <- diag(object$variance, nrow = length(object$variance))
  dimnames(v) <- list(names(object$coefficients), names(object$coefficients))
  v
}

#' @export
confint.surveysynth_combined <- function(object, parm, level = 0.95, ...) {
  half <- stats::qt(0.5 + level / 2, object$df) * sqrt(object$variance)
  limits <- cbind(object$coefficients - half, object$coefficients + half)
  colnames(limits) <- sprintf("%g %%", 100 * c(0.5 - level / 2, 0.5 + level / 2))
  if (missing(parm)) limits else limits[parm, , drop = FALSE]
}

#' @export
as.data.frame.surveysynth_combined <- function(x, row.names = NULL, optional = FALSE, ...) {
  se <- sqrt(x$variance)
  half <- stats::qt(0.975, x$df) * se
  data.frame(estimate = x$coefficients, se = se, df = x$df, ci_low = x$coefficients - half,
             ci_high = x$coefficients + half, m = x$m,
             row.names = if (is.null(row.names)) names(x$coefficients) else row.names)
}

#' @export
print.surveysynth_combined <- function(x, ...) {
  print(as.data.frame(x), ...)
  invisible(x)
}

#' @export
print.surveysynth_release <- function(x, ...) {
  said <- x$manifest
  cat(sprintf("%d synthetic data sets of %d records by %s, epsilon = %g (%s)\n",
              length(x$designs), nrow(x$designs[[1]]$variables), said$method, said$epsilon, said$kind))
  cat("Outcomes: ", paste(said$synthesized, collapse = ", "), "; predictors: ",
      paste(said$public_predictors, collapse = ", "), "\n", sep = "")
  cat(said$publication, "\n", sep = "")
  invisible(x)
}
