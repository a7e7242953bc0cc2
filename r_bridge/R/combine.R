#' Evaluate a call on every synthetic data set
#'
#' The call sees `design` replaced. A function of your own that it calls sees the `design` of your session, the
#' confidential one, unless that is an argument of it: `f(design)`. The result of such a function is the same in all
#' data sets. A result that is, and is the same on half of the units of one, too, is refused. So is what no data can
#' change, such as the names of columns: take it from `release$designs[[1]]`. A call that draws a plot may return what it
#' likes, and any call `NULL`, `TRUE` or `FALSE`. This does not find a confidential result
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
  structure(results, redrawn = lapply(redrawn_designs(release), function(design) f(marked(design))),
            pairs = drawn_in_pairs(release))
}

# Whether all data sets come from noisy tables, and share their noise: data sets 2k - 1 and 2k are of one draw.
drawn_in_pairs <- function(release) !is.null(release$manifest$combining)

# The first data set under other noise of the noisy tables that all data sets are drawn from; NULL where there are none, or
# where Python cannot draw them.
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
      error = function(e) NULL
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
  on_marked <- function(design) f(marked(design))
  drawn <- draws(results <- lapply(designs, on_marked))
  values <- lapply(results, values_in)
  same <- length(designs) > 1 && length(values[[1]]) && all(vapply(values[-1], identical, NA, values[[1]]))
  estimated <- !is.logical(results[[1]]) && !(drawn && is.atomic(results[[1]])) # not TRUE, nor what a plot gives
  if (same && estimated && identical(values_in(on_half(designs[[1]], on_marked)), values[[1]])) {
    numbers <- any(vapply(values[[1]], is.numeric, NA))
    refuse("the result is the same in all ", length(designs), " data sets, and on half of one: it does not come from ",
           "what \"design\" stands for. ",
           if (numbers) paste("A function in the expression may have found your own, confidential design: give it this",
                              "one as an argument, f(design). "),
           "What no data can change, such as the names of columns, is in release$designs[[1]]")
  }
  structure(results, degf = degf_of(designs, results), class = c("surveysynth_results", "list"))
}

# Whether code draws a plot: what it returns then, such as the positions of bars, is no estimate.
draws <- function(code) {
  drawn <- FALSE
  hooks <- c("before.plot.new", "before.grid.newpage")
  old <- lapply(hooks, getHook)
  on.exit(Map(setHook, hooks, old, "replace"))
  for (hook in hooks) setHook(hook, function(...) drawn <<- TRUE)
  force(code)
  drawn
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
  structure(list(designs = designs, call = sys.call(), pairs = drawn_in_pairs(release)),
            class = c("surveysynth_imputation_list", "svyimputationList"))
}

# As survey's own method, which forgets the degrees of freedom, and lets a `design` within the call be the caller's.
#' @export
with.surveysynth_imputation_list <- function(data, expr, fun, ...) {
  if (!missing(expr)) {
    caller <- parent.frame()
    expr <- with_design(substitute(expr), caller)
    fun <- function(design, ...) eval(expr, list(design = design), caller)
  }
  structure(in_each(data$designs, function(design) fun(design, ...)), pairs = data$pairs)
}

# Degrees of freedom of the designs; of svyglm() the residual ones, as its summary() has them, and of svyby() those of
# each domain.
degf_of <- function(designs, results) {
  if (all(vapply(results, inherits, NA, "svyglm"))) return(min(vapply(results, `[[`, 0, "df.residual")))
  each <- lapply(results, attr, "degf")
  if (any(vapply(each, is.null, NA))) return(min(vapply(designs, survey::degf, 0)))
  named <- unlist(unname(each))
  vapply(split(named, factor(names(named), unique(names(named)))), min, 0)
}

# A design on which calls keep what their results are combined by.
marked <- function(design) {
  class(design) <- c("surveysynth_design", class(design))
  design
}

unmarked <- function(design) {
  class(design) <- setdiff(class(design), "surveysynth_design")
  design
}

# Degrees of freedom of every coefficient of a svyby(), which come statistic by statistic: those of a subset of the
# design, whatever the terms of `by`. Of shares the number of records, too; and that glm.fit() warns of a share of 0 or 1,
# which it fits, is nothing that the user can change.
#' @exportS3Method survey::svyby
svyby.surveysynth_design <- function(formula, by, design, ...) {
  held <- list()
  result <- withCallingHandlers(NextMethod(), warning = function(w) {
    if (grepl("^glm.fit: ", conditionMessage(w))) {
      held[[length(held) + 1]] <<- w
      invokeRestart("muffleWarning")
    }
  })
  share <- is_share(result)
  if (!share) for (w in held) warning(w)
  terms <- if (inherits(by, "formula")) stats::model.frame(by, stats::model.frame(design), na.action = stats::na.pass) else by
  keys <- function(groups) do.call(paste, c(unname(lapply(as.data.frame(groups), as.character)), sep = "\r"))
  domain <- keys(terms)
  rows <- keys(as.data.frame(result)[attr(result, "svyby")$margins])
  degf <- vapply(rows, function(row) as.numeric(survey::degf(design[which(domain == row), ])), 0)
  named <- names(stats::coef(result))
  if (share) {
    there <- stats::complete.cases(stats::model.frame(formula, stats::model.frame(design), na.action = stats::na.pass))
    attr(result, "records") <- stats::setNames(vapply(rows, function(row) sum(there & domain == row), 0), named)
  }
  structure(result, degf = stats::setNames(rep_len(degf, length(named)), named))
}

#' Combine results of m partially synthetic data sets
#'
#' The estimate is the mean of the m estimates, its variance `T = mean(u) + b / m` (Reiter &
#' Raghunathan 2007; Hu, Savitsky & Williams 2022a, appendix A). This is not Rubin's rule, which mitools
#' applies: that one is for multiple imputation of missing data and overstates these variances.
#'
#' A coefficient that is missing from some data sets (a category that was not drawn) is combined over the
#' others, and `m` says how many these are. Where a data set has an estimate and no variance (one record in a
#' domain), there is no combined variance. Covariances are those of the results: `svyby()` has them with
#' `covmat = TRUE`, quantiles have none, and where they are not known they are `NA`.
#'
#' @section The noise that all data sets share:
#' The data sets of a [strict()] release are drawn from noisy tables, whose noise moves all of them together. Its variance N is
#' added, `T = mean(u) + b / m + N`. Python makes data set 1 again under 24 other draws of the noise, and N is the variance
#' over these. Where there is no Python, N comes from the data sets alone, as the manifest says: data sets 1 and 2, 3 and 4,
#' ... are pairs of one draw. Let w be half the mean squared difference within pairs, and B the variance of the M = m / 2 pair
#' means. Then `N = max(0, B - w / 2)` and `T = mean(u) + N + B / M`. Of several estimates N is the covariance with these
#' variances; negative eigenvalues of its correlations are set to 0. A pair that lacks an estimate in one data set is left out
#' of B and w; with fewer than two pairs there is no variance. The printed result says which way N was found: the way of pairs
#' has fewer degrees of freedom, so it is the less precise one. Of fewer than 4 data sets there is no N without Python, as a
#' warning says. `combine_release(results, redrawn = NULL)` takes the way of pairs where there is Python.
#'
#' @section Degrees of freedom:
#' Intervals and t tests have `(m - 1) (1 + mean(u) / (b / m))^2` degrees of freedom, at most those of the design, `degf`:
#' the least of the data sets, each the number of PSUs less the number of strata, as `survey::degf()` counts them. Of
#' `svyglm()` these are the residual ones, of `svyby()` those of the PSUs and strata that hold the domain, whatever the
#' terms of `by` are. An estimate on a `subset()` without `svyby()` has those of the whole design: give `degf`. A list of
#' results that [with_release()] did not make has no limit, `Inf`, unless you give `degf`. `confint(df = )` and
#' `summary(df = )` take others. Where there are 0, as in a domain of one PSU, there is no interval. With the noise of a
#' strict release they are Satterthwaite's; by pairs, `T^2 / (((1 + 1 / M) B)^2 / (M - 1) + (w / 2)^2 / M + mean(u)^2 / degf)`,
#' at most `degf`.
#'
#' @section Intervals:
#' They are symmetric, but for statistics that have intervals of their own.
#' * `svyciprop()`, by itself and as `FUN` of `svyby()`: on the scale of its method (`"logit"`, `"xlogit"`, `"asin"` or
#'   `"mean"`), with the combined estimate, variance and degrees of freedom; under `"logit"` logit(p) plus or minus
#'   t sqrt(T) / (p (1 - p)), as in [tables()]. No limit is below 0 or above 1. `"likelihood"` and `"beta"` have no such
#'   scale and are refused. A share of 0 or 1 in all data sets has the limits of Clopper and Pearson in `svyby()`, as in
#'   [tables()], and no interval in `svyciprop()` by itself, which keeps no number of records.
#' * `svyquantile()`, and `svyby(FUN = svyquantile, vartype = c("se", "ci"))`: each side has its own width. Its square is
#'   the mean over data sets of the squared distance from the estimate to the limit, over that of t, and b / m (square
#'   and add, Newcombe 1998). Without `"ci"` `svyby()` has symmetric ones, as in survey.
#' * `svykappa()`: cut at -1 and 1.
#'
#' @section Tests:
#' Those of [with_release()] and `with()` are combined by the estimates behind them, and come back as one `htest`.
#' * `svyttest()`: the t test of the combined difference of means, or of the mean.
#' * `svychisq()`, whatever its `statistic`: Wald's test of the differences between cells and what independence expects
#'   there (Koch, Freeman & Freeman 1975), by the rule of [wald_test()]. Pearson's statistic, and Rao and Scott's
#'   corrections of it, have no combining rule.
#' * `svyranktest()`: of two groups the t test of the combined difference in mean scores, of more the test of
#'   [wald_test()]. Variances are those under the hypothesis (Lumley & Scott 2013), so there is no interval.
#'
#' `regTermTest()` and `anova()` of the fits keep no estimates: combine the fits, and use [wald_test()] or
#' [anova()][anova.surveysynth_combined].
#'
#' @param results From [with_release()], `with()`, or any list of results with `coef()` and `vcov()`:
#'   `svymean()`, `svytotal()`, `svyby()`, `svyratio()`, `svyquantile()`, `svyglm()`, `svycontrast()`, ...; of the tests
#'   below; or of data frames as srvyr's `summarise()` makes them, with a column `mean_se` beside `mean`.
#' @param degf Degrees of freedom of the design, or a vector of those of every coefficient, by name; known to results from
#'   [with_release()] and `with()`.
#' @param redrawn The same results for data sets under other noise, as a [strict()] release has it; known
#'   to results from [with_release()] and `with()`.
#' @param pairs Whether data sets 1 and 2, 3 and 4, ... are pairs of one draw from noisy tables, as in a [strict()] release;
#'   known to results from [with_release()] and `with()`. For a list of results of your own from such a release write
#'   `TRUE`. It has no effect where there is `redrawn`.
#' @return An object of class `surveysynth_combined`, with methods for `coef()`, `vcov()`, `SE()`, `confint()`,
#'   `summary()` (with t and p values), `plot()`, survey's `svycontrast()`, `tidy()`, `glance()` and `autoplot()` (see
#'   [tidy.surveysynth_combined()]), [wald_test()], and for regressions
#'   [predict()][predict.surveysynth_combined] and `anova()`; `as.data.frame()` gives the groups of `svyby()`, estimate, se,
#'   df and the interval. Of tests an object of class `htest`.
#' @references Reiter & Raghunathan (2007), The Multiple Adaptations of Multiple Imputation, Journal of the American
#'   Statistical Association 102, 1462-1471, \doi{10.1198/016214507000000932}. Hu, Savitsky & Williams (2022a), Private
#'   Tabular Survey Data Products through Synthetic Microdata Generation, Journal of Survey Statistics and Methodology
#'   10, 720-752, \doi{10.1093/jssam/smac001}. Newcombe (1998), Interval Estimation for the Difference between Independent
#'   Proportions, Statistics in Medicine 17, 873-890, \doi{10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I}.
#'   Koch, Freeman & Freeman (1975), Strategies in the Multivariate Analysis of Data from Complex Surveys, International
#'   Statistical Review 43, 59-78, \doi{10.2307/1402660}. Lumley & Scott (2013), Two-Sample Rank Tests under Complex
#'   Sampling, Biometrika 100, 831-842, \doi{10.1093/biomet/ast027}.
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' by_region <- combine_release(with(release, svyby(~income, ~region, FUN = svymean, covmat = TRUE)))
#' by_region
#' confint(by_region, level = 0.9)
#' svycontrast(by_region, list(gap = c(north = 1, south = -1)))
#' summary(combine_release(with(release, svyglm(log(income) ~ region))))
#' combine_release(with(release, svyciprop(~I(income > 60000))))
#' combine_release(with(release, svyttest(log(income) ~ gender)))
combine_release <- function(results, degf = attr(results, "degf"), redrawn = attr(results, "redrawn"),
                            pairs = attr(results, "pairs")) {
  if (inherits(results, c("surveysynth_release", "data.frame")) || !is.list(results) || !length(results)) {
    refuse("combine_release() takes results, one for each data set: ",
           "combine_release(with_release(release, svymean(~y, design)))")
  }
  if (is.null(degf)) degf <- Inf
  pairs <- by_pairs(pairs, redrawn, length(results))
  if (all(vapply(results, inherits, NA, "htest"))) return(combine_tests(results, min(degf), redrawn, pairs))
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
  if (pairs) {
    found <- of_pairs(ifelse(there, residual, NA))
    M <- diag(found$M)
    B <- diag(found$B)
    variance[] <- within + shared_noise(found) + found$B / found$M
    each_df <- ((1 + 1 / M) * B)^2 / (M - 1) + diag(found$w)^2 / M + diag(within)^2 / degf # w is half of the manual's
    df <- ifelse(B > 0 | is.na(B), pmin(diag(variance)^2 / each_df, degf), degf)
  }
  extreme <- all(vapply(results, is_share, NA)) && any(mean_q %in% 0:1)
  notes <- c(if (pairs) BY_PAIRS, if (extreme && is.null(records_in(results, names))) NO_RECORDS)
  structure(
    list(coefficients = stats::setNames(mean_q, names), variance = variance, df = unname(df), m = m,
         degf = min(degf), groups = groups_of(results, names), model = model_of(results), each = each,
         redrawn = again, pairs = pairs, notes = notes, limits = own_limits(results, names, diag(variance) - diag(within))),
    class = "surveysynth_combined"
  )
}

# Whether the noise that all data sets share is estimated from their pairs, because there are none under other noise.
by_pairs <- function(pairs, redrawn, m) {
  if (!isTRUE(pairs) || length(redrawn)) return(FALSE)
  if (m < 4) {
    warning("standard errors leave out the noise that all data sets share: it takes Python, or 4 data sets or more, to ",
            "estimate it", call. = FALSE)
  }
  m >= 4
}

# Of estimates (p x m, NA where there are none) in pairs of data sets of one draw: the covariance B of pair means, half the
# covariance w within pairs, and the number M of pairs, for each two estimates.
of_pairs <- function(q) {
  first <- seq(1, ncol(q) - 1, by = 2)
  half <- (q[, first, drop = FALSE] - q[, first + 1, drop = FALSE]) / 2
  mean <- (q[, first, drop = FALSE] + q[, first + 1, drop = FALSE]) / 2
  M <- tcrossprod(!is.na(half))
  M[M < 2] <- NA
  of <- function(x) tcrossprod(ifelse(is.na(x), 0, x))
  list(B = of(mean - rowMeans(mean, na.rm = TRUE)) / (M - 1), w = of(half) / M, M = M)
}

# Covariance N of the noise that all data sets share: B - w / 2, with its variances, or 0 for those below 0, and with the
# correlations from which negative eigenvalues are taken out.
shared_noise <- function(found) {
  N <- found$B - found$w
  size <- sqrt(pmax(diag(N), 0))
  R <- N / outer(size, size)
  use <- which(size > 0)
  R[which(size == 0), ] <- R[, which(size == 0)] <- 0
  known <- !is.na(R)
  R[!known] <- 0
  if (length(use)) {
    e <- eigen(R[use, use, drop = FALSE], symmetric = TRUE)
    R[use, use] <- stats::cov2cor(e$vectors %*% (pmax(e$values, 0) * t(e$vectors)))
  }
  ifelse(known, outer(size, size) * R, NA)
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
  if (length(q) > 1 && length(u) == length(q)) u <- variances(u) # those of predict()
  if (!is.numeric(q) || !is.numeric(u) || length(q) != nrow(u)) {
    refuse("a result of class ", class(result)[1], " has no coef() and vcov() to combine",
           instead_of(result))
  }
  if (is.null(names(q))) names(q) <- paste0("V", seq_along(q))
  if (inherits(result, "svyby") && is.null(attr(result, "var"))) u[row(u) != col(u)] <- NA
  if (is_share(result)) { # svyciprop() ends near 0 and 1, where nobody or everybody is a case
    extreme <- which(q < NOBODY | q > 1 - NOBODY)
    q[extreme] <- round(q[extreme])
    u[extreme, ] <- u[, extreme] <- 0
  }
  statistic_of(stats::setNames(as.vector(q), names(q)), u)
}

# What to combine in its place.
instead_of <- function(result) {
  if (inherits(result, "svyby")) return("; svyby() has them with vartype = \"se\"")
  if (inherits(result, "table")) {
    return("; counts of a table have them in svytotal(~interaction(a, b), design), shares in svymean()")
  }
  if (inherits(result, c("regTermTest", "regTermTestLRT", "seqanova.svyglm"))) {
    return("; combine the models, and test their terms: wald_test(combine_release(models), ~ group)")
  }
  if (inherits(result, "htest")) {
    return(paste0("; test what has them: a difference of groups in svyglm(y ~ group, design), several coefficients at ",
                  "once by wald_test()"))
  }
  if (is.numeric(result) && any(c("AIC", "BIC") %in% names(result))) {
    return("; AIC and BIC of several data sets have no rule: compare models by anova(small, large) of combined ones")
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
  statistic_of(stats::setNames(q, name), variances(se^2))
}

# A covariance matrix of which the diagonal alone is known.
variances <- function(v) {
  u <- diag(as.vector(v), length(v))
  u[row(u) != col(u)] <- NA
  u
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
  check_level(level)
  if (is.null(df)) df <- object$df
  t <- stats::qt(0.5 + level / 2, ifelse(df > 0, df, NA)) # no degrees of freedom, no interval
  se <- SE.surveysynth_combined(object)
  limits <- if (is.null(object$limits)) symmetric else object$limits
  found <- limits(object$coefficients, se, t, level)
  dimnames(found) <- list(names(object$coefficients), sprintf("%g %%", 100 * c(0.5 - level / 2, 0.5 + level / 2)))
  if (missing(parm)) found else found[parm, , drop = FALSE]
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
  if (length(x$notes)) cat(x$notes, sep = "\n")
  invisible(x)
}

NO_RECORDS <- paste("A share of 0 or 1 has no interval, as svyciprop() keeps no number of records; svyby(..., FUN = svyciprop)",
                    "has one")
BY_PAIRS <- "The noise that all data sets share is estimated from pairs of data sets (?combine_release)"

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
  structure(list(coefficients = table, formula = object$model$formula, family = object$model$family, m = object$m,
                 notes = object$notes),
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
  if (length(x$notes)) cat(x$notes, sep = "\n")
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
  combine_release(lapply(stat$each, contrast), degf = stat$degf, redrawn = lapply(stat$redrawn, contrast),
                  pairs = stat$pairs)
}
