# Tests of estimates that are combined over data sets.

#' Test that several coefficients are 0
#'
#' Wald's test of combined estimates, as `survey::regTermTest()` is for one data set. With m synthetic data sets
#' F = q' U^-1 q / (p (1 + r)), where q and U are the means of estimates and covariances, r = tr(B U^-1) / (m p), and B is
#' the covariance between data sets; on p and w degrees of freedom, with t = p (m - 1) and w = 4 + (t - 4) (1 + (1 - 2 / t)
#' / r)^2 where t > 4, else t (1 + 1 / p) (1 + 1 / r)^2 / 2; at most those of the design (Reiter 2005, section 2). The
#' covariance of noise that all data sets share is added to B / m; where it is estimated from pairs of data sets (see
#' [combine_release()]), r = tr(B U^-1) / (M p) + max(0, tr((B - w / 2) U^-1) / p), and t = p (M - 1).
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
  q <- do.call(rbind, lapply(object$each, function(r) unclass(r)[tested]))
  U <- lapply(complete, function(r) attr(r, "var")[tested, tested, drop = FALSE])
  noise <- if (length(object$redrawn)) noise_of(object$redrawn, tested)
  test <- reiter_test(q, U, noise, object$degf, object$pairs)
  if (is.null(test)) {
    refuse("there is no joint test of these estimates: they determine each other, are fixed by the design, or have no ",
           "covariances (svyby() has them with covmat = TRUE)")
  }
  as_test(test, if (length(complete) > 1) "Wald test of synthetic data sets" else "Wald test", toString(tested))
}

# Wald's test that p estimates are 0, of m data sets (Reiter 2005, section 2): estimates q (m x p), the covariances U of
# each data set that has all of them, and that of the noise that all share, or whether that is estimated from pairs of data
# sets. NULL where the covariances are singular or not known.
reiter_test <- function(q, U, noise, degf, pairs = FALSE) {
  m <- length(U)
  if (!m) return(NULL)
  p <- ncol(q)
  U <- Reduce(`+`, U) / m
  size <- sqrt(diag(U))
  if (anyNA(U) || any(size == 0) || rcond(U / outer(size, size)) < 1e-10) return(NULL)
  each <- q
  each[!stats::complete.cases(q), ] <- NA
  q <- q[stats::complete.cases(q), , drop = FALSE]
  mean_q <- colMeans(q)
  share <- function(B) sum(diag(solve(U, B))) / p # of U, over all directions
  if (pairs) {
    found <- of_pairs(t(each) - mean_q)
    M <- found$M[1, 1]
    if (is.na(M)) return(NULL)
    r <- share(found$B) / M + max(0, share(found$B - found$w))
    t <- p * (M - 1)
  } else {
    B <- if (m > 1) stats::cov(q) / m else matrix(0, p, p)
    if (!is.null(noise)) B <- B + noise
    r <- share(B)
    t <- p * (m - 1)
  }
  F <- drop(mean_q %*% solve(U, mean_q)) / p / (1 + r)
  w <- if (m == 1 || r == 0) Inf else if (t > 4) 4 + (t - 4) * (1 + (1 - 2 / t) / r)^2 else t * (1 + 1 / p) * (1 + 1 / r)^2 / 2
  list(F = F, df = p, ddf = min(w, degf))
}

as_test <- function(test, method, data) {
  p <- if (test$ddf > 0) stats::pf(test$F, test$df, test$ddf, lower.tail = FALSE) else NA_real_
  structure(list(statistic = c(F = test$F), parameter = c("num df" = test$df, "denom df" = test$ddf), p.value = p,
                 method = method, data.name = data), class = "htest")
}

tested_names <- function(object, terms) {
  there <- names(object$coefficients)
  model_terms <- object$model$terms
  if (is.null(terms)) return(setdiff(there, "(Intercept)"))
  if (inherits(terms, "formula")) {
    if (is.null(model_terms)) refuse("only a regression has terms: name the coefficients, of ", listing(there))
    asked <- attr(stats::terms(terms), "term.labels")
    sorted <- function(term) vapply(strsplit(term, ":", fixed = TRUE), function(x) paste(sort(x), collapse = ":"), "")
    absent <- !sorted(asked) %in% sorted(model_terms)
    if (any(absent)) {
      refuse("the model has no term ", asked[absent][1], "; it has ", listing(setdiff(model_terms, "(Intercept)")))
    }
    return(intersect(names(model_terms)[sorted(model_terms) %in% sorted(asked)], there))
  }
  absent <- setdiff(terms, there)
  if (length(absent)) refuse("there is no coefficient ", near_name(absent[1], there), "; there are ", listing(there))
  terms
}

# ---- tests of the survey package on every data set

# One test of those of m data sets, by the estimates behind them.
combine_tests <- function(results, degf, redrawn, pairs) {
  if (all(vapply(results, inherits, NA, "svyttest"))) {
    return(combined_t(results, lapply(results, difference_in), redrawn, pairs))
  }
  parts <- lapply(results, attr, "tested")
  kinds <- unique(vapply(parts, function(part) if (is.null(part)) "" else part$kind, ""))
  again <- lapply(redrawn, attr, "tested")
  if (identical(kinds, "independence")) return(combined_independence(parts, degf, again, pairs, results[[1]]$data.name))
  if (identical(kinds, "ranks")) return(combined_ranks(results, parts, again, pairs))
  refuse("tests of class ", class(results[[1]])[1], " have no coef() and vcov() to combine; of svychisq() and svyranktest() ",
         "only results of with_release() and with() keep the estimates behind them. Else", sub("^;", "", instead_of(results[[1]])))
}

# The difference of means, or the mean, that svyttest() tests, with its standard error, which is in its interval.
difference_in <- function(result) {
  half <- diff(as.vector(result$conf.int)) / 2
  t <- stats::qt(0.5 + attr(result$conf.int, "conf.level") / 2, result$parameter)
  structure(unname(result$estimate), names = names(result$estimate), var = matrix((half / t)^2), class = "svystat")
}

# A t test of the combined estimate, in the form of those of the data sets.
combined_t <- function(results, estimates, redrawn, pairs) {
  of_redrawn <- if (length(redrawn)) lapply(redrawn, difference_in)
  combined <- combine_release(estimates, min(vapply(results, `[[`, 0, "parameter")), of_redrawn, pairs)
  limits <- stats::confint(combined)
  test <- t_of(combined, results[[1]])
  test$conf.int <- structure(limits, conf.level = 0.95)
  test
}

t_of <- function(combined, test) {
  numbers <- coef.summary.surveysynth_combined(summary.surveysynth_combined(combined))
  test$statistic <- c(t = numbers[, "t value"])
  test$parameter <- c(df = numbers[, "df"])
  test$estimate[] <- numbers[, "Estimate"]
  test$p.value <- numbers[, "Pr(>|t|)"]
  test$method <- of_synthetic(test$method, combined$m)
  attr(test, "tested") <- NULL
  test
}

of_synthetic <- function(method, m) if (max(m) > 1) paste(method, "of synthetic data sets") else method

# ---- svychisq(): Wald's test

#' @exportS3Method survey::svychisq
svychisq.surveysynth_design <- function(formula, design, ...) {
  result <- NextMethod()
  result$data.name <- deparse1(formula)
  columns <- lapply(all.vars(formula), function(name) factor(design$variables[[name]]))
  structure(result, tested = list(kind = "independence", cells = cells_of(columns, design)))
}

# Estimated counts of the cells of two columns: a vector, row by row within columns, its covariance, and the categories.
cells_of <- function(columns, design) {
  cell <- interaction(columns, drop = FALSE, sep = "\r")
  inside <- outer(as.integer(cell), seq_along(levels(cell)), "==") + 0
  counts <- survey::svytotal(inside, design, na.rm = TRUE)
  list(counts = stats::setNames(as.vector(counts), levels(cell)), var = unname(as.matrix(stats::vcov(counts))),
       levels = lapply(columns, levels), degf = survey::degf(design))
}

# Wald's test of the differences between cells and what independence expects there (Koch, Freeman & Freeman 1975).
combined_independence <- function(parts, degf, again, pairs, data) {
  categories <- function(k) {
    found <- unlist(lapply(parts, function(part) {
      counts <- matrix(part$cells$counts, length(part$cells$levels[[1]]))
      part$cells$levels[[k]][(if (k == 1) rowSums(counts) else colSums(counts)) > 0]
    }))
    intersect(unique(unlist(lapply(parts, function(part) part$cells$levels[[k]]))), found)
  }
  levels <- lapply(1:2, categories)
  of_part <- function(part) interaction_of(part$cells, levels)
  each <- lapply(parts, of_part)
  q <- do.call(rbind, lapply(each, `[[`, "q"))
  noise <- if (length(again)) stats::cov(do.call(rbind, lapply(again, function(part) of_part(part)$q)))
  degf <- min(degf, vapply(parts, function(part) part$cells$degf, 0)) # of a subset, where the test is of one
  test <- reiter_test(q, lapply(each, `[[`, "u"), noise, degf, pairs)
  if (is.null(test)) {
    refuse("there is no test of independence: the covariance of the cells is singular, by empty cells or too few sampling ",
           "units; merge categories by update(release, ...)")
  }
  as_test(test, of_synthetic("Wald test of independence", length(parts)), data)
}

# Cells less row total times column total over the whole, without the first row and column, and their covariance.
interaction_of <- function(cells, levels) {
  size <- lengths(levels)
  names <- as.vector(outer(levels[[1]], levels[[2]], paste, sep = "\r"))
  at <- match(names, names(cells$counts))
  N <- matrix(ifelse(is.na(at), 0, cells$counts[at]), size[1], size[2])
  V <- cells$var[at, at]
  V[is.na(V)] <- 0
  whole <- sum(N)
  i <- as.vector(row(N))
  j <- as.vector(col(N))
  rows <- rowSums(N)
  columns <- colSums(N)
  expected <- as.vector(outer(rows, columns)) / whole
  J <- diag(prod(size)) - outer(i, i, "==") * columns[j] / whole - outer(j, j, "==") * rows[i] / whole + expected / whole
  u <- J %*% V %*% t(J)
  u[diag(u) <= (1e-9 * max(N))^2, ] <- 0 # rounding: the design fixes the cell
  use <- i > 1 & j > 1
  list(q = (as.vector(N) - expected)[use], u = u[use, use, drop = FALSE])
}

# ---- svyranktest(): differences of mean scores, with the variances that they have under the hypothesis

#' @exportS3Method survey::svyranktest
svyranktest.surveysynth_design <- function(formula, design, test = c("wilcoxon", "vanderWaerden", "median",
                                                                     "KruskalWallis"), ...) {
  result <- NextMethod()
  q <- result$estimate # of two groups
  known <- !is.null(q) && q != 0
  scores <- if (known) list(q = q, u = matrix((q / result$statistic)^2), degf = result$parameter)
  structure(result, tested = list(kind = "ranks", scores = if (known) scores else score_differences(formula, design, test)))
}

# Coefficients of the scores on the groups, of which the first is the reference (Lumley & Scott 2013).
score_differences <- function(formula, design, test) {
  frame <- stats::model.frame(formula, stats::model.frame(design), na.action = stats::na.pass)
  design$variables[c(".response", ".group")] <- list(frame[[1]], factor(frame[[2]]))
  design <- design[which(stats::complete.cases(frame)), ]
  w <- stats::weights(design, "sampling")
  y <- design$variables$.response
  sorted <- order(y)
  rank <- numeric(length(y))
  rank[sorted] <- stats::ave(cumsum(w[sorted]) - w[sorted] / 2, factor(y[sorted]))
  design$variables$.score <- score_function(test)(rank, sum(w))
  fit <- survey::svyglm(.score ~ .group, design)
  kept <- names(stats::coef(fit))[-1]
  list(q = stats::coef(fit)[kept], u = stats::vcov(fit)[kept, kept, drop = FALSE], degf = survey::degf(design) - length(kept))
}

# As svyranktest() has them.
score_function <- function(test) {
  if (is.function(test)) return(test)
  switch(match.arg(test[1], c("wilcoxon", "vanderWaerden", "median", "KruskalWallis")),
         vanderWaerden = function(r, N) stats::qnorm(r / N), median = function(r, N) as.numeric(r > N / 2),
         function(r, N) r / N)
}

combined_ranks <- function(results, parts, again, pairs) {
  scores <- lapply(parts, `[[`, "scores")
  groups <- unique(lapply(scores, function(score) if (length(score$q) > 1) names(score$q)))
  if (length(groups) > 1) {
    refuse("svyranktest() has other groups in some data sets, where a category was not drawn: merge categories by ",
           "update(release, ...), or take two groups by subset(design, ...)")
  }
  degf <- min(vapply(scores, `[[`, 0, "degf"))
  again <- lapply(again, `[[`, "scores")
  if (is.null(groups[[1]])) {
    as_estimate <- function(score) structure(unname(score$q), names = "difference", var = score$u, class = "svystat")
    return(t_of(combine_release(lapply(scores, as_estimate), degf, lapply(again, as_estimate), pairs), results[[1]]))
  }
  noise <- if (length(again)) stats::cov(do.call(rbind, lapply(again, `[[`, "q")))
  test <- reiter_test(do.call(rbind, lapply(scores, `[[`, "q")), lapply(scores, `[[`, "u"), noise, degf, pairs)
  if (is.null(test)) refuse("there is no test of these groups: the covariance of their mean scores is singular")
  as_test(test, of_synthetic(results[[1]]$method, length(parts)), results[[1]]$data.name)
}
