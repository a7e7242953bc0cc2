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
  structure(results, redrawn = lapply(redrawn_designs(release), f))
}

# The first data set under other noise of the noisy tables that all data sets are drawn from; NULL where there are none.
redrawn_designs <- function(release) {
  manifest <- release$manifest
  if (is.null(manifest$combining)) return(NULL)
  weight <- if (manifest$weights != "public") manifest$design$weights
  drawn <- c(manifest$synthesized, weight)
  first <- release
  while (!is.null(first$python$before)) first <- first$python$before
  if (!exists("redrawn", first$python)) {
    values <- tryCatch(
      in_folder(function(folder) frame_from_python("redrawn", folder, objects = list(python_release(first)))),
      error = function(e) {
        warning("standard errors leave out the noise that all data sets share, for which Python is needed: ",
                conditionMessage(e), call. = FALSE)
        NULL
      }
    )
    if (is.null(values)) return(NULL)
    first$python$redrawn <- values
  }
  values <- first$python$redrawn
  lapply(seq_len(ncol(values) / length(drawn)), function(number) {
    design <- release$designs[[1]]
    design$variables[drawn] <- as_they_were(stats::setNames(values[paste0(drawn, "_", number)], drawn), manifest)
    if (!is.null(weight)) {
      design$prob <- 1 / design$variables[[weight]]
      design$allprob[[1]] <- design$prob
    }
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

# Degrees of freedom of the designs; of svyglm() the residual ones, as its summary() has them, and of svyby() those of
# each domain, as survey counts them in a subset.
degf_of <- function(designs, results) {
  if (all(vapply(results, inherits, NA, "svyglm"))) return(min(vapply(results, `[[`, 0, "df.residual")))
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
#' The estimate is the mean of the m estimates, its variance `T = mean(u) + b / m` (Reiter &
#' Raghunathan 2007; Hu, Savitsky & Williams 2022a, appendix A), with t intervals on `(m - 1) (1 + mean(u) / (b / m))^2`
#' degrees of freedom, at most those of the design; of `svyglm()` its residual ones, and of `svyby()` those of the PSUs
#' and strata that hold the domain. Give `degf` for an estimate on a `subset()`. This is not Rubin's rule, which mitools
#' applies: that one is for multiple imputation of missing data and overstates these variances.
#'
#' A coefficient that is missing from some data sets (a category that was not drawn) is combined over the
#' others, and `m` says how many these are. Where a data set has an estimate and no variance (one record in a
#' domain), there is no combined variance. Covariances are those of the results: `svyby()` has them with
#' `covmat = TRUE`, quantiles have none, and where they are not known they are `NA`.
#'
#' @param results From [with_release()], `with()`, or any list of results with `coef()` and `vcov()`:
#'   `svymean()`, `svytotal()`, `svyby()`, `svyratio()`, `svyquantile()`, `svyglm()`, `svycontrast()`, ...; or of data
#'   frames as srvyr's `summarise()` makes them, with a column `mean_se` beside `mean`.
#' @param degf Degrees of freedom of the design, or a vector of those of every coefficient, by name; known to results from
#'   [with_release()] and `with()`.
#' @param redrawn The same results for data sets under other noise, as a [strict()] release has it; known
#'   to results from [with_release()] and `with()`. That noise moves all data sets together: the variance over these is
#'   added.
#' @return An object of class `surveysynth_combined`, with methods for `coef()`, `vcov()`, `SE()`, `confint()`,
#'   `summary()` (with t and p values), `plot()`, survey's `svycontrast()`, `tidy()`, `glance()` and `autoplot()` (see
#'   [tidy.surveysynth_combined()]) and [wald_test()]; `as.data.frame()` gives the groups of `svyby()`, estimate, se, df
#'   and the interval.
#' @references Reiter & Raghunathan (2007), The Multiple Adaptations of Multiple Imputation, Journal of the American
#'   Statistical Association 102, 1462-1471, \doi{10.1198/016214507000000932}. Hu, Savitsky & Williams (2022a), Private
#'   Tabular Survey Data Products through Synthetic Microdata Generation, Journal of Survey Statistics and Methodology
#'   10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' by_region <- combine_release(with(release, svyby(~income, ~region, FUN = svymean, covmat = TRUE)))
#' by_region
#' confint(by_region, level = 0.9)
#' svycontrast(by_region, list(gap = c(north = 1, south = -1)))
#' summary(combine_release(with(release, svyglm(log(income) ~ region))))
combine_release <- function(results, degf = attr(results, "degf"), redrawn = attr(results, "redrawn")) {
  if (inherits(results, c("surveysynth_release", "data.frame")) || !is.list(results) || !length(results)) {
    refuse("combine_release() takes results, one for each data set: ",
           "combine_release(with_release(release, svymean(~y, design)))")
  }
  if (is.null(degf)) degf <- Inf
  each <- lapply(results, estimates_of)
  names <- unique(unlist(lapply(each, names)))
  if (!is.null(names(degf))) degf <- unname(degf[names])
  q <- do.call(cbind, lapply(each, function(r) unclass(r)[names]))
  there <- !is.na(q)
  m <- unname(rowSums(there))
  together <- tcrossprod(there) # data sets that have both of two coefficients
  mean_q <- rowMeans(q, na.rm = TRUE)
  residual <- ifelse(there & abs(q - mean_q) > FIXED * abs(mean_q), q - mean_q, 0)
  between <- tcrossprod(residual) / pmax(together - 1, 1) / together
  within <- Reduce(`+`, lapply(each, function(r) spread_out(attr(r, "var"), names))) / together
  variance <- within + between
  dimnames(variance) <- list(names, names)
  b <- diag(between)
  df <- pmin(ifelse(b > 0 | is.na(diag(within)), (m - 1) * (1 + diag(within) / b)^2, Inf), degf)
  again <- lapply(redrawn, estimates_of)
  if (length(again)) {
    noise <- noise_of(again, names)
    plain <- diag(variance)
    variance <- variance + noise
    shared <- diag(noise) # Satterthwaite's degrees of freedom
    df <- ifelse(shared > 0, pmin(diag(variance)^2 / (plain^2 / df + shared^2 / (length(again) - 1)), degf), df)
  }
  structure(
    list(coefficients = stats::setNames(mean_q, names), variance = variance, df = unname(df), m = m,
         degf = min(degf), groups = groups_of(results, names), model = model_of(results[[1]]), each = each,
         redrawn = again),
    class = "surveysynth_combined"
  )
}

FIXED <- 1e-12 # standard error over estimate that is rounding: the design or a known total fixes it

# Covariance of estimates over the data sets under other noise.
noise_of <- function(again, names) stats::cov(do.call(rbind, lapply(again, function(r) unname(unclass(r)[names]))))

# Estimates with their covariances as survey's own class; NA where a covariance is not known.
estimates_of <- function(result) {
  if (is.data.frame(result) && !inherits(result, "svyby")) return(estimates_in(result))
  q <- tryCatch(stats::coef(result), error = function(e) NULL)
  u <- tryCatch(as.matrix(suppressWarnings(stats::vcov(result))), error = function(e) NULL) # svyby may warn, see below
  if (is.matrix(q)) q <- stats::setNames(as.vector(q), outer(rownames(q), colnames(q), paste, sep = ":"))
  if (!is.numeric(q) || !is.numeric(u) || length(q) != nrow(u)) {
    refuse("a result of class ", class(result)[1], " has no coef() and vcov() to combine",
           instead_of(result))
  }
  if (is.null(names(q))) names(q) <- paste0("V", seq_along(q))
  if (inherits(result, "svyby") && is.null(attr(result, "var"))) u[row(u) != col(u)] <- NA
  statistic_of(stats::setNames(as.vector(q), names(q)), u)
}

# What to combine in its place.
instead_of <- function(result) {
  if (inherits(result, "svyby")) return("; svyby() has them with vartype = \"se\"")
  if (inherits(result, "table")) {
    return("; counts of a table have them in svytotal(~interaction(a, b), design), shares in svymean()")
  }
  if (inherits(result, "htest")) {
    return(paste0("; test what has them: a difference of groups in svyglm(y ~ group, design), several coefficients at ",
                  "once by wald_test()"))
  }
  if (is.numeric(result)) "; combine the estimates themselves, and take confint() or SE() of what comes out" else ""
}

statistic_of <- function(q, u) {
  diag(u)[which(diag(u) < 0)] <- NA # Horvitz and Thompson's may be
  fixed <- which(diag(u) <= (FIXED * q)^2)
  u[fixed, ] <- 0
  u[, fixed] <- 0
  dimnames(u) <- list(names(q), names(q))
  present <- !is.na(q)
  structure(q[present], var = u[present, present, drop = FALSE], statistic = "estimate", class = "svystat")
}

# Those of a data frame of srvyr's summarise(), whose other columns are groups.
estimates_in <- function(result) {
  found <- srvyr_columns(result)
  if (!length(found$estimates)) {
    refuse("a data frame of results has a column of standard errors, such as mean_se, beside each column of estimates: ",
           "summarise(mean = survey_mean(y))")
  }
  name <- srvyr_names(result, found)
  q <- unlist(lapply(found$estimates, function(column) result[[column]]))
  se <- unlist(lapply(found$estimates, function(column) result[[paste0(column, "_se")]]))
  u <- diag(se^2, length(se))
  u[row(u) != col(u)] <- NA
  statistic_of(stats::setNames(q, name), u)
}

srvyr_columns <- function(result) {
  estimates <- names(result)[paste0(names(result), "_se") %in% names(result)]
  about <- as.vector(outer(estimates, c("", "_se", "_low", "_upp", "_var", "_cv", "_deff"), paste0))
  list(estimates = estimates, groups = setdiff(names(result), about))
}

srvyr_names <- function(result, found) {
  group <- do.call(paste, c(lapply(found$groups, function(name) as.character(result[[name]])), sep = "."))
  if (!length(found$groups)) return(found$estimates)
  one <- length(found$estimates) == 1
  unlist(lapply(found$estimates, function(name) if (one) group else paste(group, name, sep = ":")))
}

# The columns that tell the coefficients of svyby() or of srvyr's summarise() apart, a row for each; NULL of others.
groups_of <- function(results, names) {
  kept <- lapply(results, function(result) {
    groups <- NULL
    if (inherits(result, "svyby")) {
      groups <- as.data.frame(result)[attr(result, "svyby")$margins]
      named <- names(stats::coef(result))
    } else if (is.data.frame(result)) {
      found <- srvyr_columns(result)
      groups <- as.data.frame(result)[found$groups]
      named <- srvyr_names(result, found)
    }
    if (is.null(groups) || !ncol(groups)) return(NULL)
    frame <- groups[rep_len(seq_len(nrow(groups)), length(named)), , drop = FALSE]
    variable <- sub("^.*:", "", named)
    if (length(named) > nrow(groups)) frame[[free_name("variable", frame)]] <- variable
    frame[] <- lapply(frame, function(x) if (is.factor(x)) as.character(x) else x)
    frame$.named <- named
    frame
  })
  if (any(vapply(kept, is.null, NA))) return(NULL)
  all <- do.call(rbind, kept)
  found <- all[match(names, all$.named), setdiff(names(all), ".named"), drop = FALSE]
  row.names(found) <- NULL
  found
}

# What summaries say of a regression, and the term that each of its coefficients belongs to.
model_of <- function(result) {
  if (!inherits(result, "glm")) return(NULL)
  terms <- c("(Intercept)", attr(stats::terms(result), "term.labels"))
  assigned <- terms[attr(stats::model.matrix(result), "assign") + 1]
  list(formula = stats::formula(result), family = stats::family(result), n = stats::nobs(result),
       terms = stats::setNames(assigned, names(stats::coef(result))))
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
nobs.surveysynth_combined <- function(object, ...) {
  if (is.null(object$model)) refuse("only a regression knows how many records it has")
  object$model$n
}

#' @export
formula.surveysynth_combined <- function(x, ...) x$model$formula

#' @export
df.residual.surveysynth_combined <- function(object, ...) object$degf

#' @export
confint.surveysynth_combined <- function(object, parm, level = 0.95, df = NULL, ...) {
  half <- half_width(object, level, df)
  limits <- cbind(object$coefficients - half, object$coefficients + half)
  colnames(limits) <- sprintf("%g %%", 100 * c(0.5 - level / 2, 0.5 + level / 2))
  if (missing(parm)) limits else limits[parm, , drop = FALSE]
}

# No degrees of freedom, no interval.
half_width <- function(object, level, df = NULL) {
  check_level(level)
  if (is.null(df)) df <- object$df
  stats::qt(0.5 + level / 2, ifelse(df > 0, df, NA)) * SE.surveysynth_combined(object)
}

check_level <- function(level) {
  if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level >= 1) {
    refuse("level is a number between 0 and 1, for example 0.95")
  }
}

#' @export
as.data.frame.surveysynth_combined <- function(x, row.names = NULL, optional = FALSE, level = 0.95, ...) {
  limits <- unname(confint.surveysynth_combined(x, level = level))
  found <- data.frame(estimate = x$coefficients, se = SE.surveysynth_combined(x), df = x$df, ci_low = limits[, 1],
                      ci_high = limits[, 2], m = x$m,
                      row.names = if (is.null(row.names)) names(x$coefficients) else row.names)
  if (is.null(x$groups)) return(found)
  both <- cbind(x$groups, found)
  row.names(both) <- row.names(found)
  both
}

#' @method print surveysynth_combined
#' @export
print.surveysynth_combined <- function(x, digits = 4, level = 0.95, ...) {
  shown <- as.data.frame(x, level = level)
  kept <- c(estimate = digits, se = digits, df = 3, ci_low = digits, ci_high = digits)
  for (name in names(kept)) shown[[name]] <- in_digits(shown[[name]], kept[[name]])
  if (all(x$m == x$m[1])) shown$m <- NULL
  print(shown, row.names = is.null(x$groups), ...)
  cat(sprintf("%g%% intervals, ", 100 * level), data_sets(x$m), "\n", sep = "")
  invisible(x)
}

data_sets <- function(m) {
  if (max(m) == 1) "from 1 data set" else paste("combined over", max(m), "synthetic data sets")
}

#' Estimates with t and p values
#'
#' As `summary()` of a model: each estimate with its standard error, t value and the p value of the hypothesis that it is
#' 0, on the degrees of freedom of [combine_release()], which may differ from coefficient to coefficient.
#'
#' @param object From [combine_release()].
#' @param df Degrees of freedom instead, `Inf` for z tests.
#' @param x A summary.
#' @param digits,signif.stars,... As for [stats::printCoefmat()].
#' @return A list of class `summary.surveysynth_combined`; its `coefficients` are a matrix of estimate, standard error, t
#'   value, degrees of freedom and p value. `coef()` gives that matrix.
#' @method summary surveysynth_combined
#' @export
#' @examples
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' summary(combine_release(with(release, survey::svyglm(log(income) ~ region))))
summary.surveysynth_combined <- function(object, df = NULL, ...) {
  if (is.null(df)) df <- object$df
  se <- SE.surveysynth_combined(object)
  t <- ifelse(se > 0, object$coefficients / se, NA)
  p <- 2 * stats::pt(-abs(t), ifelse(df > 0, df, NA))
  table <- cbind(Estimate = object$coefficients, "Std. Error" = se, df = df, "t value" = t, "Pr(>|t|)" = p)
  structure(list(coefficients = table, formula = object$model$formula, family = object$model$family, m = object$m),
            class = "summary.surveysynth_combined")
}

#' @rdname summary.surveysynth_combined
#' @method print summary.surveysynth_combined
#' @export
print.summary.surveysynth_combined <- function(x, digits = max(3, getOption("digits") - 3),
                                               signif.stars = getOption("show.signif.stars"), ...) {
  if (!is.null(x$formula)) cat("\n", deparse1(x$formula), " (", x$family$family, ")\n", sep = "")
  cat("\nEstimates, ", data_sets(x$m), ":\n", sep = "")
  table <- x$coefficients
  df <- in_digits(table[, "df"], 3)
  shown <- table[, c("Estimate", "Std. Error", "t value", "Pr(>|t|)"), drop = FALSE]
  stats::printCoefmat(shown, digits = digits, signif.stars = signif.stars, has.Pvalue = TRUE, P.values = TRUE,
                      na.print = "", ...)
  cat("t tests on ", if (length(unique(df)) == 1) df[1] else paste(df[which.min(table[, "df"])], "to",
      df[which.max(table[, "df"])]), " degrees of freedom\n", sep = "")
  invisible(x)
}

#' @method coef summary.surveysynth_combined
#' @export
coef.summary.surveysynth_combined <- function(object, ...) object$coefficients

#' Linear and other functions of combined estimates
#'
#' `survey::svycontrast()` of every data set, combined as in [combine_release()].
#'
#' @param stat From [combine_release()].
#' @param contrasts,... As for [survey::svycontrast()]: a named vector or a list of them, or an expression,
#'   `quote(south / north)`.
#' @return As [combine_release()].
#' @exportS3Method survey::svycontrast
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' means <- combine_release(with(release, svyby(~income, ~region, FUN = svymean, covmat = TRUE)))
#' svycontrast(means, quote(south / north))
svycontrast.surveysynth_combined <- function(stat, contrasts, ...) {
  if (anyNA(stat$variance)) {
    refuse("covariances of these estimates are not known: make them by svyby(..., covmat = TRUE), or the contrast on ",
           "each data set, with_release(release, svycontrast(svymean(~y, design), ...))")
  }
  contrast <- function(result) survey::svycontrast(result, contrasts, ...)
  combine_release(lapply(stat$each, contrast), degf = stat$degf, redrawn = lapply(stat$redrawn, contrast))
}

#' Test that several coefficients are 0
#'
#' Wald's test of combined estimates, as `survey::regTermTest()` is for one data set. With m synthetic data sets
#' F = q' U^-1 q / (p (1 + r)), where q and U are the means of estimates and covariances, r = tr(B U^-1) / (m p), and B is
#' the covariance between data sets; on p and w degrees of freedom, with t = p (m - 1) and w = 4 + (t - 4) (1 + (1 - 2 / t)
#' / r)^2 where t > 4, else t (1 + 1 / p) (1 + 1 / r)^2 / 2; at most those of the design (Reiter 2005, section 2). The
#' covariance of noise that all data sets share is added to B / m.
#'
#' @param object From [combine_release()].
#' @param terms Terms of the model as a formula, `~ stype`, or names of coefficients; default all but the intercept.
#' @return An object of class `htest`: F, its degrees of freedom and p.
#' @references Reiter (2005), Significance Tests for Multi-Component Estimands from Multiply Imputed, Synthetic
#'   Microdata, Journal of Statistical Planning and Inference 131, 365-377, \doi{10.1016/j.jspi.2004.02.003}.
#' @export
#' @examples
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' model <- combine_release(with(release, survey::svyglm(log(income) ~ region)))
#' wald_test(model, ~ region)
wald_test <- function(object, terms = NULL) {
  if (!inherits(object, "surveysynth_combined")) refuse("wald_test() takes what combine_release() returns")
  tested <- tested_names(object, terms)
  complete <- Filter(function(r) all(tested %in% names(r)), object$each)
  m <- length(complete)
  p <- length(tested)
  q <- do.call(rbind, lapply(complete, function(r) unclass(r)[tested]))
  U <- Reduce(`+`, lapply(complete, function(r) attr(r, "var")[tested, tested, drop = FALSE])) / m
  size <- sqrt(diag(U))
  if (m == 0 || anyNA(U) || any(size == 0) || rcond(U / outer(size, size)) < 1e-10) {
    refuse("there is no joint test of these estimates: they determine each other, are fixed by the design, or have no ",
           "covariances (svyby() has them with covmat = TRUE)")
  }
  B <- if (m > 1) stats::cov(q) / m else matrix(0, p, p)
  if (length(object$redrawn)) B <- B + noise_of(object$redrawn, tested)
  mean_q <- colMeans(q)
  r <- sum(diag(solve(U, B))) / p
  F <- drop(mean_q %*% solve(U, mean_q)) / p / (1 + r)
  t <- p * (m - 1)
  w <- if (m == 1 || r == 0) Inf else if (t > 4) 4 + (t - 4) * (1 + (1 - 2 / t) / r)^2 else t * (1 + 1 / p) * (1 + 1 / r)^2 / 2
  ddf <- min(w, object$degf)
  structure(
    list(statistic = c(F = F), parameter = c("num df" = p, "denom df" = ddf),
         p.value = stats::pf(F, p, ddf, lower.tail = FALSE),
         method = if (m > 1) "Wald test of synthetic data sets" else "Wald test", data.name = toString(tested)),
    class = "htest"
  )
}

tested_names <- function(object, terms) {
  there <- names(object$coefficients)
  of <- object$model$terms
  if (is.null(terms)) return(setdiff(there, "(Intercept)"))
  if (inherits(terms, "formula")) {
    if (is.null(of)) refuse("only a regression has terms: name the coefficients, of ", listing(there))
    asked <- attr(stats::terms(terms), "term.labels")
    sorted <- function(term) vapply(strsplit(term, ":", fixed = TRUE), function(x) paste(sort(x), collapse = ":"), "")
    lacking <- !sorted(asked) %in% sorted(of)
    if (any(lacking)) refuse("the model has no term ", asked[lacking][1], "; it has ", listing(setdiff(unique(of), "(Intercept)")))
    return(intersect(names(of)[sorted(of) %in% sorted(asked)], there))
  }
  lacking <- setdiff(terms, there)
  if (length(lacking)) refuse("there is no coefficient ", near_name(lacking[1], there), "; there are ", listing(there))
  terms
}
