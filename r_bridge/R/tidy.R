# What other packages expect of results, registered when these packages are loaded.

#' Combined estimates and tables for broom, dplyr, ggplot2 and flextable
#'
#' `tidy()` and `glance()`, of the generics package (which broom exports), follow broom's conventions. `autoplot()`, of
#' ggplot2, draws estimates with their intervals. `as_flextable()`, of flextable, makes a table for Word. gt takes the
#' data frames themselves: `gt::gt(as.data.frame(table))`; that was not tried, nor were the methods for srvyr's generics,
#' because gt and srvyr are not in Debian.
#'
#' @param x,object From [combine_release()]; for `autoplot()` and `as_flextable()` also from [tables()] or [estimate()].
#' @param conf.int,conf.level Whether there are columns `conf.low` and `conf.high`, and their level.
#' @param exponentiate Whether estimates and their intervals are exponentiated, as of a log or logit model; standard
#'   errors stay as they are.
#' @param level Of the intervals that are drawn.
#' @param ... For `autoplot()` of a table `statistic` and `outcome`, as for [plot()][plot.surveysynth_table]; for others
#'   not used.
#' @return `tidy()`: a tibble (a data frame where tibble is not installed) with the groups of `svyby()`, if there are
#'   any, `term`, `estimate`, `std.error`, `statistic`, `df`, `p.value`. `glance()`: one row with `nobs` and `family` of a
#'   regression, `df.residual` (of the design) and `m`. `autoplot()`: a ggplot. `as_flextable()`: a flextable.
#' @name tidy.surveysynth_combined
#' @examplesIf requireNamespace("generics", quietly = TRUE)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' model <- combine_release(with(release, survey::svyglm(log(income) ~ region)))
#' generics::tidy(model, conf.int = TRUE)
#' generics::glance(model)
NULL

#' @rdname tidy.surveysynth_combined
#' @exportS3Method generics::tidy
tidy.surveysynth_combined <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  rows <- summary.surveysynth_combined(x)$coefficients
  found <- data.frame(term = rownames(rows), estimate = rows[, "Estimate"], std.error = rows[, "Std. Error"],
                      statistic = rows[, "t value"], df = rows[, "df"], p.value = rows[, "Pr(>|t|)"])
  if (conf.int) found[c("conf.low", "conf.high")] <- as.data.frame(confint.surveysynth_combined(x, level = conf.level))
  if (exponentiate) {
    scale <- intersect(c("estimate", "conf.low", "conf.high"), names(found))
    found[scale] <- lapply(found[scale], exp)
  }
  if (!is.null(x$groups)) found <- cbind(x$groups, found)
  as_tidy(found)
}

#' @rdname tidy.surveysynth_combined
#' @exportS3Method generics::glance
glance.surveysynth_combined <- function(x, ...) {
  model <- if (!is.null(x$model)) list(nobs = x$model$n, family = x$model$family$family)
  as_tidy(as.data.frame(c(model, list(df.residual = x$degf, m = max(x$m)))))
}

as_tidy <- function(frame) {
  row.names(frame) <- NULL
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(frame) else frame
}

#' @rdname tidy.surveysynth_combined
#' @exportS3Method ggplot2::autoplot
autoplot.surveysynth_combined <- function(object, level = 0.95, ...) {
  limits <- confint.surveysynth_combined(object, level = level)
  intervals_plot(object$coefficients, limits, names(object$coefficients), "estimate")
}

#' @rdname tidy.surveysynth_combined
#' @exportS3Method ggplot2::autoplot
autoplot.surveysynth_table <- function(object, ...) {
  cells <- cells_to_draw(object, list(...)$statistic, one_name(list(...)$outcome))
  intervals_plot(cells$estimate, cells$limits, cells$labels, cells$what)
}

intervals_plot <- function(estimate, limits, labels, what) {
  shown <- data.frame(label = factor(labels, rev(unique(labels))), estimate = unname(estimate), low = limits[, 1],
                      high = limits[, 2])
  .data <- NULL # ggplot2's pronoun, in its own evaluation
  ggplot2::ggplot(shown, ggplot2::aes(x = .data[["estimate"]], y = .data[["label"]])) +
    ggplot2::geom_pointrange(ggplot2::aes(xmin = .data[["low"]], xmax = .data[["high"]])) +
    ggplot2::labs(x = what, y = NULL)
}

#' @rdname tidy.surveysynth_combined
#' @exportS3Method flextable::as_flextable
as_flextable.surveysynth_combined <- function(x, ...) as_text_table(as.data.frame(x))

#' @rdname tidy.surveysynth_combined
#' @exportS3Method flextable::as_flextable
as_flextable.surveysynth_table <- function(x, ...) as_text_table(plain_table(x))

# flextable may be there or not.
as_text_table <- function(frame) getExportedValue("flextable", "flextable")(in_text(frame))

# Numbers as they are printed.
in_text <- function(frame, digits = 4) {
  kept <- c(estimate = digits, se = digits, df = 3, ci_low = digits, ci_high = digits, n = 1)
  for (name in intersect(names(kept), names(frame))) frame[[name]] <- in_digits(frame[[name]], kept[[name]])
  frame
}

plain_table <- function(x) as.data.frame(unclass(x), optional = TRUE)

#' A release with dplyr and srvyr
#'
#' `mutate()` is [update()][update.surveysynth_release] in dplyr's words. `as_survey()` is srvyr's: the designs of the
#' release become srvyr's, on which `with_release(release, design |> group_by(region) |> summarise(mean =
#' survey_mean(income)))` works, and [combine_release()] combines what it gives. The methods are registered when dplyr or
#' srvyr is loaded. srvyr is not in Debian, and its method was not tried with srvyr itself.
#'
#' @param .data A release.
#' @param ... For `mutate()` new columns, as for [update()][update.surveysynth_release].
#' @return The release.
#' @name mutate.surveysynth_release
#' @examplesIf requireNamespace("dplyr", quietly = TRUE)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' dplyr::mutate(release, poor = income < 20000)
NULL

#' @rdname mutate.surveysynth_release
#' @exportS3Method dplyr::mutate
mutate.surveysynth_release <- function(.data, ...) {
  derived_on(.data, new_columns(substitute(list(...)), parent.frame()))
}

#' @rdname mutate.surveysynth_release
#' @exportS3Method srvyr::as_survey
as_survey.surveysynth_release <- function(.data, ...) {
  .data$designs <- lapply(.data$designs, as_srvyr)
  .data$count_designs <- lapply(.data$count_designs, as_srvyr)
  .data
}

# srvyr may be there or not.
as_srvyr <- function(design) getExportedValue("srvyr", "as_survey")(design)
