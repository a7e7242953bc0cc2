# Combined regressions: what is kept of the fits, predictions, and what needs the records or the likelihood of one fit.

# What summaries say of regressions, the term that each coefficient belongs to, and what predict() makes new rows by.
model_of <- function(results) {
  result <- results[[1]]
  if (!inherits(result, "glm")) return(NULL)
  terms <- c("(Intercept)", attr(stats::terms(result), "term.labels"))
  assigned <- terms[attr(stats::model.matrix(result), "assign") + 1]
  levels <- lapply(results, `[[`, "xlevels")
  categories <- stats::setNames(nm = names(levels[[1]]))
  # the frame of a function that called svyglm() may hold the confidential design: no formula keeps it
  formula <- stats::formula(result)
  rows <- stats::delete.response(stats::terms(result))
  environment(formula) <- environment(rows) <- globalenv()
  list(formula = formula, family = stats::family(result), n = stats::nobs(result),
       terms = stats::setNames(assigned, names(stats::coef(result))),
       rows = list(terms = rows, contrasts = result$contrasts,
                   levels = lapply(categories, function(name) unique(unlist(lapply(levels, `[[`, name))))))
}

# anova() and step() fit smaller models by the call of the fit. Where they look for its `design` is no data set, but the
# session of the user, with the confidential one. So the call that they get has the data set in it.
#' @exportS3Method survey::svyglm
svyglm.surveysynth_design <- function(formula, design, ...) {
  call <- match.call()
  written <- call$design
  call[[1]] <- quote(survey::svyglm)
  call$design <- quote(.data_set)
  fit <- eval(call, list(.data_set = unmarked(design)), parent.frame())
  fit$call$design <- if (is.language(written)) written else quote(design)
  class(fit) <- c("surveysynth_fit", class(fit))
  fit
}

#' @export
getCall.surveysynth_fit <- function(x, ...) {
  call <- x$call
  call$design <- marked(x$survey.design)
  call
}

#' Predictions and comparisons of combined regressions
#'
#' `predict()` is that of [survey::svyglm()] with the combined coefficients and their covariance: on the scale of the
#' linear predictor each prediction is combined as any estimate is, and `type = "response"` is its inverse link, with the
#' standard error of the delta method, and an interval that is the inverse link of that of the linear predictor.
#' `anova()` of two nested regressions of the same response is [wald_test()] of the terms that the larger one has more.
#'
#' Fitted values and residuals belong to the records of one data set, and likelihoods, AIC and BIC to one fit: those of
#' combined regressions are refused. `regTermTest()` takes one fit; [wald_test()] is for several.
#'
#' @param object,object2 Regressions from [combine_release()].
#' @param newdata A data frame of predictors.
#' @param type `"link"` or `"response"`.
#' @param ... Not used.
#' @return `predict()`: as [combine_release()]; `anova()`: as [wald_test()].
#' @method predict surveysynth_combined
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' large <- combine_release(
#'   with(release, svyglm(income > 20000 ~ region + gender, family = quasibinomial))
#' )
#' small <- combine_release(with(release, svyglm(income > 20000 ~ gender, family = quasibinomial)))
#' predict(large, data.frame(region = c("north", "south"), gender = "f"), type = "response")
#' anova(large, small)
predict.surveysynth_combined <- function(object, newdata = NULL, type = c("link", "response"), ...) {
  type <- match.arg(type)
  check_regression(object, "predict()")
  if (!is.data.frame(newdata)) {
    refuse("newdata is a data frame of predictors: the records of synthetic data sets are not the same persons, so they ",
           "have no combined predictions")
  }
  rows <- object$model$rows
  frame <- stats::model.frame(rows$terms, newdata, xlev = rows$levels)
  X <- stats::model.matrix(rows$terms, frame, contrasts.arg = rows$contrasts)
  eta <- function(fit) {
    if (!all(colnames(X) %in% names(fit))) return(statistic_of(stats::setNames(numeric(), character()), diag(0)))
    u <- X %*% attr(fit, "var")[colnames(X), colnames(X)] %*% t(X)
    statistic_of(stats::setNames(drop(X %*% unclass(fit)[colnames(X)]), rownames(X)), u)
  }
  link <- combine_release(lapply(object$each, eta), object$degf, Filter(length, lapply(object$redrawn, eta)), object$pairs)
  if (type == "link") link else on_response(link, object$model$family)
}

# Estimates on the scale of the link, back on that of the response.
on_response <- function(link, family) {
  slope <- family$mu.eta(link$coefficients)
  back <- function(combined, slope) {
    combined$coefficients <- stats::setNames(family$linkinv(combined$coefficients), names(combined$coefficients))
    combined$variance <- combined$variance * outer(slope, slope)
    combined
  }
  of_each <- function(fit) {
    structure(stats::setNames(family$linkinv(unclass(fit)), names(fit)),
              var = attr(fit, "var") * outer(family$mu.eta(unclass(fit)), family$mu.eta(unclass(fit))),
              statistic = "response", class = "svystat")
  }
  eta <- link$coefficients
  se <- SE.surveysynth_combined(link)
  found <- back(link, slope)
  found$each <- lapply(link$each, of_each)
  found$redrawn <- lapply(link$redrawn, of_each)
  found$limits <- function(estimate, se_of_response, t, ...) {
    ends <- family$linkinv(symmetric(eta, se, t))
    cbind(pmin(ends[, 1], ends[, 2]), pmax(ends[, 1], ends[, 2])) # of an inverse link the ends change places
  }
  found
}

#' @rdname predict.surveysynth_combined
#' @method anova surveysynth_combined
#' @export
anova.surveysynth_combined <- function(object, object2 = NULL, ...) {
  check_regression(object, "anova()")
  if (is.null(object2)) {
    refuse("anova() of one combined regression has no smaller regressions to compare it with: give two, ",
           "anova(small, large), or test a term of this one: wald_test(object, ~ term)")
  }
  check_regression(object2, "anova()")
  labels <- function(model) setdiff(unique(model$model$terms), "(Intercept)")
  ordered <- list(object, object2)[order(c(length(labels(object)), length(labels(object2))))]
  more <- setdiff(labels(ordered[[2]]), labels(ordered[[1]]))
  nested <- length(more) && all(labels(ordered[[1]]) %in% labels(ordered[[2]]))
  if (!nested || !identical(object$model$formula[[2]], object2$model$formula[[2]])) {
    refuse("anova() compares two regressions of one response, of which one has all terms of the other and more")
  }
  wald_test(ordered[[2]], stats::reformulate(more))
}

check_regression <- function(object, what) {
  if (!inherits(object, "surveysynth_combined") || is.null(object$model)) {
    refuse(what, " takes a combined regression: combine_release(with_release(release, svyglm(y ~ x, design)))")
  }
}

# ---- what combined results have not

OF_RECORDS <- paste0(" belong to the records of one data set: synthetic data sets have other records each. Take those of one, ",
                "or predict(object, newdata) for persons that you describe")
OF_FIT <- paste0(" is of one fit: synthetic data sets have no common likelihood. Compare nested regressions by ",
            "anova(small, large), or test a term by wald_test(object, ~ term)")

#' @export
fitted.surveysynth_combined <- function(object, ...) refuse("fitted values", OF_RECORDS)

#' @export
residuals.surveysynth_combined <- function(object, ...) refuse("residuals", OF_RECORDS)

#' @exportS3Method generics::augment
augment.surveysynth_combined <- function(x, ...) refuse("the columns of augment()", OF_RECORDS)

#' @export
AIC.surveysynth_combined <- function(object, ..., k = 2) refuse("AIC", OF_FIT)

#' @export
BIC.surveysynth_combined <- function(object, ...) refuse("BIC", OF_FIT)

#' @export
logLik.surveysynth_combined <- function(object, ...) refuse("the likelihood", OF_FIT)

#' @export
deviance.surveysynth_combined <- function(object, ...) refuse("deviance", OF_FIT)

# Which regTermTest() asks for.
#' @export
terms.surveysynth_combined <- function(x, ...) {
  refuse("tests of one fit, such as regTermTest(), do not know combined results: use wald_test(object, ~ term); the formula ",
         "of a combined regression is formula(object)")
}
