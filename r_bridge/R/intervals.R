# Intervals of statistics that have intervals of their own: functions of estimates, standard errors and quantiles of t.

symmetric <- function(estimate, se, t, ...) cbind(estimate - t * se, estimate + t * se)

# The interval of combined results, NULL where it is the symmetric one. `added` is what the variance has beyond the mean
# of those of the data sets.
own_limits <- function(results, names, added) {
  svyby <- all(vapply(results, inherits, NA, "svyby"))
  of_each <- function(what) svyby && all(grepl(paste0(what, "$"), vapply(results, statistic_in, "")))
  if (of_each("svyciprop")) return(share_limits(method_in(results[[1]]), records_in(results, names)))
  if (all(vapply(results, inherits, NA, "svyciprop"))) return(share_limits(method_of(results)))
  limits <- if (of_each("svyquantile")) limits_in else if (all(vapply(results, inherits, NA, "newsvyquantile"))) stats::confint
  if (!is.null(limits)) return(quantile_limits(lapply(results, halves, limits), names, added))
  range <- attr(results[[1]], "range")
  if (!is.null(range)) function(estimate, se, t, ...) pmin(pmax(symmetric(estimate, se, t), range[1]), range[2])
}

statistic_in <- function(result) attr(result, "svyby")$statistic

# ---- shares, svyciprop()

# Scales, by the method of svyciprop(), whose intervals are symmetric there. Back from them no share is below 0 or above 1.
share_scale <- function(to, from, slope) list(to = to, from = from, slope = slope)
SHARE_SCALES <- list(
  logit = share_scale(stats::qlogis, stats::plogis, function(p) 1 / (p * (1 - p))),
  asin = share_scale(function(p) asin(sqrt(p)), function(x) sin(pmin(pmax(x, 0), pi / 2))^2,
                     function(p) 1 / (2 * sqrt(p * (1 - p)))),
  mean = share_scale(identity, function(x) pmin(pmax(x, 0), 1), function(p) rep(1, length(p)))
)

NOBODY <- 1e-9 # the share of a fit by glm() where there is no case

is_share <- function(result) {
  inherits(result, "svyciprop") || inherits(result, "svyby") && isTRUE(grepl("svyciprop$", statistic_in(result)))
}

# The least number of records of every share in any data set, NULL where it is not known.
records_in <- function(results, names) {
  records <- lapply(results, function(result) attr(result, "records")[names])
  if (!any(vapply(records, is.null, NA))) do.call(pmin, c(lapply(records, unname), na.rm = TRUE))
}

# That of the method, with the combined estimate, standard error and degrees of freedom. Of a share of 0 or 1 that of Clopper &
# Pearson (1934) by n min(1, (t_n-1 / t)^2) records, as in tables(); NA where n is not known.
share_limits <- function(method, records = NULL) {
  scale <- SHARE_SCALES[[if (method == "xlogit") "logit" else method]]
  if (is.null(scale)) {
    refuse("svyciprop(method = \"", method, "\") has no scale on which its intervals are symmetric, to combine them on; ",
           "write method = \"logit\", \"asin\" or \"mean\"")
  }
  function(estimate, se, t, level) {
    found <- scale$from(symmetric(scale$to(estimate), scale$slope(estimate) * se, t))
    found[which(se == 0), ] <- estimate[which(se == 0)]
    n <- if (is.null(records)) NA else records
    away <- 1 - ((1 - level) / 2)^(1 / (n * pmin(1, (stats::qt(0.5 + level / 2, n - 1) / t)^2)))
    none <- which(estimate == 0)
    all <- which(estimate == 1)
    found[none, ] <- cbind(0 * away, away)[none, ]
    found[all, ] <- cbind(1 - away, 1 + 0 * away)[all, ]
    found
  }
}

# The method of svyby(..., FUN = svyciprop), in its call.
method_in <- function(result) {
  method <- attr(result, "call")$method
  if (is.null(method)) return("logit")
  if (is.character(method)) method else refuse("write the method of svyciprop() as text: method = \"asin\"")
}

# The method of svyciprop(), which its results do not name: the scale on which their intervals are symmetric.
method_of <- function(results) {
  inner <- function(share) share > NOBODY && share < 1 - NOBODY
  has_interval <- function(result) all(is.finite(attr(result, "ci"))) && attr(result, "var") > 0 && inner(stats::coef(result))
  known <- Filter(has_interval, results)
  for (method in names(SHARE_SCALES)) {
    if (all(vapply(known, symmetric_on, NA, SHARE_SCALES[[method]]))) return(method)
  }
  refuse("the interval of svyciprop() by method = \"likelihood\" or \"beta\" is symmetric on no scale, to combine it on; ",
         "write method = \"logit\", \"asin\" or \"mean\"")
}

symmetric_on <- function(result, scale) {
  at <- suppressWarnings(scale$to(c(stats::coef(result), attr(result, "ci")))) # NaN beyond 0 and 1
  signs <- list(at, at * c(1, -1, 1), c(at[1:2], pi - at[3])) # asin goes on behind 0 and 1, and its sine comes back
  any(vapply(signs, function(at) isTRUE(abs(at[2] + at[3] - 2 * at[1]) < 1e-6 * abs(at[3] - at[2])), NA))
}

# ---- quantiles: each side of the interval has its own standard error

# Variances of the lower and the upper side of every estimate, from the limits of the result and its standard error.
halves <- function(result, limits_of) {
  q <- stats::coef(result)
  limits <- limits_of(result)
  if (is.null(limits)) return(NULL)
  se <- as.vector(as.matrix(survey::SE(result)))
  t <- ifelse(se > 0, (limits[, 2] - limits[, 1]) / (2 * se), 1)
  matrix(c(q - limits[, 1], limits[, 2] - q)^2 / t^2, ncol = 2, dimnames = list(names(q), NULL))
}

# The limits that svyby(vartype = c("se", "ci")) has beside the estimates, statistic by statistic.
limits_in <- function(result) {
  about <- attr(result, "svyby")
  columns <- as.data.frame(result)[-c(about$margins, length(about$margins) + seq_len(about$nstats))]
  side <- function(name) as.vector(as.matrix(columns[grepl(paste0("^", name, "([.]|$)"), names(columns))]))
  if (all(c("se", "ci") %in% about$vartype)) cbind(side("ci_l"), side("ci_u"))
}

# Square and add (Newcombe 1998): the side of the interval within data sets, and what the data sets differ by.
quantile_limits <- function(sides, names, added) {
  if (any(vapply(sides, is.null, NA))) return(NULL)
  within <- lapply(sides, function(side) side[match(names, rownames(side)), , drop = FALSE])
  mean_of <- function(k) rowMeans(do.call(cbind, lapply(within, function(side) side[, k])), na.rm = TRUE)
  width <- sqrt(cbind(mean_of(1), mean_of(2)) + added)
  function(estimate, se, t, ...) {
    found <- cbind(estimate - t * width[, 1], estimate + t * width[, 2])
    found[which(se == 0), ] <- estimate[which(se == 0)]
    found
  }
}

# Kappa has a range, which a symmetric interval may leave.
#' @exportS3Method survey::svykappa
svykappa.surveysynth_design <- function(formula, design, ...) structure(NextMethod(), range = c(-1, 1))
