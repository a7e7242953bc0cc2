#' Evaluate a call on every synthetic data set
#'
#' The call sees `design` replaced. A function of your own that it calls sees the `design` of your session, the
#' confidential one, unless that is an argument of it: `f(design)`. The result of such a function is the same in all
#' data sets. A result that is, and is the same on half of the units of one, too, is refused. So is what no data can
#' change, such as the names of columns: take it from `release$designs[[1]]`. This does not find a confidential result
#' of a release of one data set, one beside another that does come from `design`, one with random numbers, or one in an
#' object without a vector of its own, such as a function.
#'
#' @param release From [synthesize()] or [read_release()].
#' @param expr A call of the survey package, written with the name `design` for the design of
#'   each data set: `svyby(~salary, ~field, design, svymean)`. A function of your own must take it as an argument,
#'   `f(design)`. In `with()` a call without `design` gets it as an argument, as in mitools:
#'   `with(release, svymean(~salary))`. What would look for another `design` is refused.
#' @param counts `TRUE` for counts of population units: `design` then has the weights that give
#'   them their standard errors (see [read_release()]; the counts themselves are the same).
#' @details `options(survey.lonely.psu)` is that of the release while the call is evaluated. Under `"adjust"` survey
#'   before version 4.3 centres the total of a lonely PSU at 0, not at the mean: standard errors of totals and counts
#'   then are larger than those of [tables()].
#' @return A list of m results, of class `surveysynth_results`, for [combine_release()].
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' combine_release(with_release(release, svyby(~income, ~region, design, svymean)))
#' combine_release(with(release, svyglm(log(income) ~ region)))
#' units <- with_release(release, svytotal(~region, design), counts = TRUE)
#' combine_release(units)
with_release <- function(release, expr, counts = FALSE) {
  check_release(release)
  expr <- substitute(expr)
  if (!"design" %in% all.names(expr)) refuse(WRITE_DESIGN)
  caller <- parent.frame()
  on_designs(release, function(design) eval(expr, list(design = design), caller), counts)
}

# Without the name, a function in the expression would find the design of the caller, which is the confidential one.
WRITE_DESIGN <- paste("write \"design\" where the design of each data set shall stand:",
                      "with_release(release, svymean(~y, design))")

#' @rdname with_release
#' @param data A release.
#' @param ... Not used.
#' @export
with.surveysynth_release <- function(data, expr, counts = FALSE, ...) {
  caller <- parent.frame()
  expr <- with_design(substitute(expr), caller)
  on_designs(data, function(design) eval(expr, list(design = design), caller), counts)
}

# mitools' convention: a call without `design` gets it, if what is called takes one.
with_design <- function(expr, caller) {
  if ("design" %in% all.names(expr)) return(expr)
  if (!is.call(expr)) refuse(WRITE_DESIGN)
  name <- expr[[1]]
  called <- if (is.name(name)) get0(as.character(name), caller, mode = "function") else eval(name, caller)
  if (!is.null(called) && !"design" %in% names(formals(args(called)))) refuse(WRITE_DESIGN)
  expr$design <- quote(design)
  expr
}

# The m values of a function of a design, and the degrees of freedom of the designs.
on_designs <- function(release, f, counts = FALSE) {
  old <- options(survey.lonely.psu = release$manifest$design$lonely_psu)
  on.exit(options(old))
  results <- in_each(if (counts) release$count_designs else release$designs, f)
  structure(results, redrawn = if (!counts) lapply(redrawn_designs(release), f))
}

# The first data set under noise of private normal scores that was drawn again; that noise moves all data sets together.
redrawn_designs <- function(release) {
  scored <- names(release$manifest$private_scores)
  if (is.null(scored)) return(NULL)
  if (!exists("redrawn", release$python)) {
    values <- tryCatch(
      in_folder(function(folder) frame_from_python("redrawn", folder, objects = list(python_release(release)))),
      error = function(e) {
        warning("standard errors leave out the noise of private normal scores, for which Python is needed: ",
                conditionMessage(e), call. = FALSE)
        NULL
      }
    )
    if (is.null(values)) return(NULL)
    release$python$redrawn <- values
  }
  values <- release$python$redrawn
  lapply(seq_len(ncol(values) / length(scored)), function(number) {
    design <- release$designs[[1]]
    design$variables[scored] <- values[paste0(scored, "_", number)]
    plain <- design$variables[setdiff(names(design$variables), release$manifest$derived)]
    design$variables <- with_columns(plain, release$derived)
    design
  })
}

# A function that finds another design, the confidential one perhaps, gives the same in all data sets. So do public
# columns; but on half of a data set these give something else.
in_each <- function(designs, f) {
  results <- lapply(designs, f)
  values <- lapply(results, values_in)
  same <- length(designs) > 1 && length(values[[1]]) && all(vapply(values[-1], identical, NA, values[[1]]))
  if (same && identical(values_in(on_half(designs[[1]], f)), values[[1]])) {
    refuse("the result is the same in all ", length(designs), " data sets, and on half of one: it does not come from ",
           "what \"design\" stands for. A function in the expression may have found your own, confidential design: give ",
           "it this one as an argument, f(design). What no data can change, such as the names of columns, is in ",
           "release$designs[[1]]")
  }
  structure(results, degf = degf_of(designs, results), class = c("surveysynth_results", "list"))
}

# The vectors in a result, without what else it holds, such as the environments of formulas.
values_in <- function(result) {
  if (is.list(result)) return(do.call(c, lapply(unname(unclass(result)), values_in)))
  if (is.atomic(result) && length(result)) list(as.vector(result))
}

# The result on half of the units of a data set, NULL where it has none.
on_half <- function(design, f) {
  unit <- if (is.null(design$cluster)) seq_len(nrow(design$variables)) else numbered(design$cluster[[1]])
  tryCatch(suppressWarnings(f(design[unit <= max(unit) / 2, ])), error = function(e) NULL)
}

#' @method print surveysynth_results
#' @export
print.surveysynth_results <- function(x, ...) {
  print(plain_list(x), ...)
  invisible(x)
}

plain_list <- function(x) {
  attributes(x) <- list(names = names(x))
  x
}

#' @exportS3Method mitools::MIcombine
MIcombine.surveysynth_results <- function(results, ...) {
  warning("MIcombine() is Rubin's rule, for missing data: it overstates the variances of synthetic data. ",
          "Use combine_release()", call. = FALSE)
  mitools::MIcombine(plain_list(results), ...)
}

#' A release as mitools and survey know several data sets
#'
#' The synthetic designs as a `svyimputationList`, on which `with()` works as in mitools. Combine its
#' results by [combine_release()], **not** by `mitools::MIcombine()`, which warns: that is Rubin's rule for multiple
#' imputation of missing data, which adds (1 + 1/m) b to the variance where partially synthetic data have b / m, and
#' overstates the standard errors.
#'
#' @param release From [synthesize()] or [read_release()].
#' @param counts `TRUE` for the designs that counts of population units are estimated from.
#' @return An object of class `svyimputationList`.
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' combine_release(with(as_imputation_list(release), svymean(~income)))
as_imputation_list <- function(release, counts = FALSE) {
  check_release(release)
  designs <- if (counts) release$count_designs else release$designs
  structure(list(designs = designs, call = sys.call()), class = c("surveysynth_imputation_list", "svyimputationList"))
}

# As survey's own method, which forgets the degrees of freedom, and lets a `design` within the call be the caller's.
#' @export
with.surveysynth_imputation_list <- function(data, expr, fun, ...) {
  if (!missing(expr)) {
    caller <- parent.frame()
    expr <- with_design(substitute(expr), caller)
    fun <- function(design, ...) eval(expr, list(design = design), caller)
  }
  in_each(data$designs, function(design) fun(design, ...))
}

# Degrees of freedom of the designs; of svyby() those of each domain, as survey counts them in a subset.
degf_of <- function(designs, results) {
  whole <- min(vapply(designs, survey::degf, 0))
  if (!all(vapply(results, inherits, NA, "svyby"))) return(whole)
  each <- tryCatch(Map(degf_by, designs, results), error = function(e) NULL)
  if (is.null(each)) return(whole) # domains by an expression, or a design of which survey has no subsets
  named <- unlist(unname(each))
  vapply(split(named, factor(names(named), unique(names(named)))), min, 0)
}

# Degrees of freedom of every coefficient of a svyby(), which come statistic by statistic.
degf_by <- function(design, result) {
  groups <- as.data.frame(result)[attr(result, "svyby")$margins]
  held <- vapply(seq_len(nrow(groups)), function(row) {
    inside <- lapply(names(groups), function(by) as.character(design$variables[[by]]) == as.character(groups[row, by]))
    as.numeric(survey::degf(design[which(Reduce(`&`, inside)), ]))
  }, 0)
  named <- names(stats::coef(result))
  stats::setNames(rep_len(held, length(named)), named)
}

#' Combine results of m partially synthetic data sets
#'
#' The estimate is the mean of the m estimates, its variance `T = mean(u) + b / m` (Reiter and
#' Raghunathan 2007; Hu, Savitsky & Williams 2022a, appendix A), with t intervals on `(m - 1) (1 + mean(u) / (b / m))^2`
#' degrees of freedom, at most those of the design, or, of `svyby()`, those of the PSUs and strata that hold the domain;
#' give `degf` for an estimate on a `subset()`. This is not Rubin's rule, which mitools applies: that one is for
#' multiple imputation of missing data and overstates these variances.
#'
#' A coefficient that is missing from some data sets (a category that was not drawn) is combined over the
#' others, and `m` says how many these are. Where a data set has an estimate and no variance (one record in a
#' domain), there is no combined variance. Covariances are those of the results: `svyby()` has them with
#' `covmat = TRUE`, quantiles have none, and where they are not known they are `NA`.
#'
#' @param results From [with_release()], `with()`, or any list of results with `coef()` and `vcov()`:
#'   `svymean()`, `svytotal()`, `svyby()`, `svyratio()`, `svyquantile()`, `svyglm()`, `svycontrast()`, ...
#' @param degf Degrees of freedom of the design, or a vector of those of every coefficient, by name; known to results from
#'   [with_release()] and `with()`.
#' @param redrawn The same results for data sets under other noise, as a [strict()] release with `bounds` has it; known
#'   to results from [with_release()] and `with()`. That noise moves all data sets together: the variance over these is
#'   added.
#' @return An object of class `surveysynth_combined`, with methods for `coef()`, `vcov()`, `SE()`, `confint()`
#'   and `plot()`; `as.data.frame()` gives estimate, se, df and the 95\% interval.
#' @references Hu, Savitsky and Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' by_region <- combine_release(with(release, svyby(~income, ~region, FUN = svymean)))
#' by_region
#' confint(by_region, level = 0.9)
combine_release <- function(results, degf = attr(results, "degf"), redrawn = attr(results, "redrawn")) {
  if (inherits(results, "surveysynth_release") || !is.list(results) || !length(results)) {
    refuse("combine_release() takes results, one for each data set: ",
           "combine_release(with_release(release, svymean(~y, design)))")
  }
  if (is.null(degf)) degf <- Inf
  each <- lapply(results, estimates_of)
  names <- unique(unlist(lapply(each, function(r) names(r$q))))
  if (!is.null(names(degf))) degf <- unname(degf[names])
  q <- do.call(cbind, lapply(each, function(r) unname(r$q[names])))
  there <- !is.na(q)
  m <- rowSums(there)
  together <- tcrossprod(there) # data sets that have both of two coefficients
  mean_q <- rowMeans(q, na.rm = TRUE)
  residual <- ifelse(there & abs(q - mean_q) > FIXED * abs(mean_q), q - mean_q, 0)
  between <- tcrossprod(residual) / pmax(together - 1, 1) / together
  within <- Reduce(`+`, lapply(each, function(r) spread_out(r$u, names))) / together
  variance <- within + between
  dimnames(variance) <- list(names, names)
  b <- diag(between)
  df <- pmin(ifelse(b > 0 | is.na(diag(within)), (m - 1) * (1 + diag(within) / b)^2, Inf), degf)
  if (length(redrawn)) {
    again <- lapply(redrawn, function(r) unname(estimates_of(r)$q[names]))
    noise <- stats::cov(do.call(rbind, again))
    plain <- diag(variance)
    variance <- variance + noise
    shared <- diag(noise) # Satterthwaite's degrees of freedom
    df <- ifelse(shared > 0, pmin(diag(variance)^2 / (plain^2 / df + shared^2 / (length(redrawn) - 1)), degf), df)
  }
  structure(list(coefficients = stats::setNames(mean_q, names), variance = variance, df = df, m = m),
            class = "surveysynth_combined")
}

FIXED <- 1e-12 # standard error over estimate that is rounding: the design or a known total fixes it

# Estimates and their covariances, by name; NA where a covariance is not known.
estimates_of <- function(result) {
  q <- tryCatch(stats::coef(result), error = function(e) NULL)
  u <- tryCatch(as.matrix(suppressWarnings(stats::vcov(result))), error = function(e) NULL) # svyby may warn, see below
  if (is.matrix(q)) q <- stats::setNames(as.vector(q), outer(rownames(q), colnames(q), paste, sep = ":"))
  if (!is.numeric(q) || !is.numeric(u) || length(q) != nrow(u)) {
    refuse("a result of class ", class(result)[1], " has no coef() and vcov() to combine",
           if (inherits(result, "svyby")) "; svyby() has them with vartype = \"se\"",
           if (inherits(result, "htest")) "; a difference of groups has them in svyglm(y ~ group, design)")
  }
  if (is.null(names(q))) names(q) <- paste0("V", seq_along(q))
  q <- stats::setNames(as.vector(q), names(q))
  if (inherits(result, "svyby") && is.null(attr(result, "var"))) u[row(u) != col(u)] <- NA
  diag(u)[which(diag(u) < 0)] <- NA # Horvitz and Thompson's may be
  fixed <- which(diag(u) <= (FIXED * q)^2)
  u[fixed, ] <- 0
  u[, fixed] <- 0
  dimnames(u) <- list(names(q), names(q))
  present <- !is.na(q)
  list(q = q[present], u = u[present, present, drop = FALSE])
}

# A covariance matrix among more names, 0 where it has none of them.
spread_out <- function(u, names) {
  all <- matrix(0, length(names), length(names), dimnames = list(names, names))
  all[rownames(u), rownames(u)] <- u
  all
}

#' @export
coef.surveysynth_combined <- function(object, ...) object$coefficients

#' @export
vcov.surveysynth_combined <- function(object, ...) object$variance

#' @export
SE.surveysynth_combined <- function(object, ...) sqrt(diag(object$variance))

#' @export
confint.surveysynth_combined <- function(object, parm, level = 0.95, ...) {
  half <- half_width(object, level)
  limits <- cbind(object$coefficients - half, object$coefficients + half)
  colnames(limits) <- sprintf("%g %%", 100 * c(0.5 - level / 2, 0.5 + level / 2))
  if (missing(parm)) limits else limits[parm, , drop = FALSE]
}

# No degrees of freedom, no interval.
half_width <- function(object, level) {
  stats::qt(0.5 + level / 2, ifelse(object$df > 0, object$df, NA)) * SE.surveysynth_combined(object)
}

#' @export
as.data.frame.surveysynth_combined <- function(x, row.names = NULL, optional = FALSE, ...) {
  half <- half_width(x, 0.95)
  data.frame(estimate = x$coefficients, se = SE.surveysynth_combined(x), df = x$df, ci_low = x$coefficients - half,
             ci_high = x$coefficients + half, m = x$m,
             row.names = if (is.null(row.names)) names(x$coefficients) else row.names)
}

#' @method print surveysynth_combined
#' @export
print.surveysynth_combined <- function(x, digits = 4, ...) {
  print(as.data.frame(x), digits = digits, ...)
  invisible(x)
}

#' @method summary surveysynth_combined
#' @export
summary.surveysynth_combined <- function(object, ...) as.data.frame(object)
