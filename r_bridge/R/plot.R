#' Distribution of an outcome in the synthetic data sets
#'
#' The weighted distribution function of each data set, one line each: lines that lie together say
#' that the data sets tell the same.
#'
#' @param x A release.
#' @param outcome Name of an outcome; default: the first.
#' @param log Whether the axis is logarithmic; default: for outcomes that are positive and skewed.
#' @param col Colours of the data sets.
#' @param xlab,ylab,main Labels.
#' @param ... Further arguments of [graphics::plot()].
#' @return The release, invisibly.
#' @export
#' @examples
#' plot(read_release(system.file("example-release", package = "surveysynth")))
plot.surveysynth_release <- function(x, outcome = NULL, log = NULL, col = NULL, xlab = outcome,
                                     ylab = "Share of the population", main = NULL, ...) {
  if (is.null(outcome)) outcome <- x$manifest$synthesized[1]
  if (!outcome %in% x$manifest$synthesized) {
    refuse("the outcomes of this release are ", paste(x$manifest$synthesized, collapse = ", "))
  }
  curves <- lapply(x$designs, function(design) {
    distribution(design$variables[[outcome]], stats::weights(design, "sampling"))
  })
  all <- unlist(lapply(curves, `[[`, "value"))
  if (is.null(log)) log <- skewed(all)
  if (is.null(col)) col <- grDevices::hcl.colors(max(length(curves), 2), "Dark 3")
  col <- rep_len(col, length(curves))
  old <- graphics::par(mar = c(4.5, 4.5, if (is.null(main)) 1 else 3, 1) + 0.1, xaxt = "n") # we draw it, below
  on.exit(graphics::par(old))
  graphics::plot(range(all), c(0, 1), type = "n", log = if (log) "x" else "", xlab = xlab, ylab = ylab, main = main,
                 las = 1, bty = "l", ...)
  at <- graphics::axTicks(1)
  if (!identical(list(...)$xaxt, "n")) graphics::axis(1, at, vapply(at, in_plain, ""), xaxt = "s")
  graphics::grid(col = "grey90", lty = 1, equilogs = FALSE)
  for (i in seq_along(curves)) {
    graphics::lines(curves[[i]]$value, curves[[i]]$share, type = "s", col = col[i], lwd = 1.5)
  }
  if (length(curves) <= 10) {
    graphics::legend("bottomright", legend = paste("data set", seq_along(curves)), col = col, lwd = 1.5, bty = "n")
  }
  invisible(x)
}

in_plain <- function(number) format(number, big.mark = ",", scientific = FALSE, digits = 7)

# Positive, and with an upper tail of nearly twice the length of the lower one.
skewed <- function(y) {
  q <- stats::quantile(y, c(0.05, 0.5, 0.95), names = FALSE)
  min(y) > 0 && q[3] - q[2] > 1.8 * (q[2] - q[1])
}

# Steps of a weighted distribution function, from 0.
distribution <- function(y, w) {
  order <- order(y)
  list(value = y[order][c(1, seq_along(y))], share = c(0, cumsum(w[order]) / sum(w)))
}

#' Estimates with their intervals
#'
#' @param x From [combine_release()].
#' @param level Of the intervals.
#' @param labels Names of the estimates, from top to bottom.
#' @param xlab,main Labels.
#' @param ... Further arguments of [graphics::plot()].
#' @return `x`, invisibly.
#' @export
#' @examples
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' means <- with(release, survey::svyby(~income, ~region, FUN = survey::svymean))
#' plot(combine_release(means), xlab = "mean income")
plot.surveysynth_combined <- function(x, level = 0.95, labels = names(stats::coef(x)), xlab = "estimate",
                                      main = NULL, ...) {
  draw_intervals(stats::coef(x), stats::confint(x, level = level), labels, xlab, main, ...)
  invisible(x)
}

#' Estimates of a table with their intervals
#'
#' Draws the cells of a table, for one outcome and statistic: no margins, and no total where there are cells.
#'
#' @param x From [tables()] or [estimate()].
#' @param statistic,outcome Which to draw; default: means if there are any, and the first outcome.
#' @param xlab,main Labels.
#' @param ... Further arguments of [graphics::plot()].
#' @return `x`, invisibly.
#' @export
#' @examplesIf surveysynth_available()
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' plot(tables(release, by = ~ region + gender), statistic = "count")
plot.surveysynth_table <- function(x, statistic = NULL, outcome = NULL, xlab = NULL, main = NULL, ...) {
  cells <- cells_to_draw(x, statistic, one_name(outcome))
  if (is.null(xlab)) xlab <- cells$what
  draw_intervals(cells$estimate, cells$limits, cells$labels, xlab, main, ...)
  invisible(x)
}

cells_to_draw <- function(x, statistic, outcome) {
  needed <- c("statistic", "outcome", "estimate", "ci_low", "ci_high")
  if (!all(needed %in% names(x))) refuse("to draw a table, keep its columns ", paste(needed, collapse = ", "))
  shown <- as.data.frame(unclass(x), optional = TRUE)
  shown <- shown[one_of(statistic, shown$statistic, "statistic", "mean"), ]
  shown <- shown[one_of(outcome, shown$outcome, "outcome"), ]
  by <- shown[setdiff(names(shown), c(needed, "category", "prob", "se", "df", "n", "flag"))]
  cells <- !Reduce(`|`, lapply(by, `==`, "all"), logical(nrow(shown)))
  shown <- shown[cells, ]
  if (!any(is.finite(shown$estimate))) refuse("the table has no estimates of cells to draw")
  several <- function(column) length(unique(column)) > 1
  labels <- c(by[cells, , drop = FALSE], Filter(several, shown[intersect(c("category", "prob"), names(shown))]))
  labels <- if (length(labels)) do.call(paste, c(unname(labels), sep = ", ")) else rep("all", nrow(shown))
  list(estimate = shown$estimate, limits = as.matrix(shown[c("ci_low", "ci_high")]), labels = labels,
       what = trimws(paste(shown$statistic[1], shown$outcome[1])))
}

# Rows of one value of a column: the one that is asked for, else the preferred or the first.
one_of <- function(asked, column, name, preferred = NULL) {
  there <- unique(column)
  if (is.null(asked)) asked <- c(intersect(preferred, there), there)[1]
  if (length(asked) != 1 || !asked %in% there) refuse(name, " is one of ", paste(sQuote(there), collapse = ", "))
  column == asked
}

draw_intervals <- function(estimate, limits, labels, xlab, main, ...) {
  at <- rev(seq_along(estimate))
  old <- graphics::par(mar = c(4.5, min(1.5 + 0.55 * max(nchar(labels)), 16), if (is.null(main)) 1 else 3, 1) + 0.1)
  on.exit(graphics::par(old))
  graphics::plot(range(estimate, limits, na.rm = TRUE, finite = TRUE), c(0.5, length(at) + 0.5), type = "n",
                 yaxt = "n", ylab = "", xlab = xlab, main = main, bty = "l", ...)
  graphics::abline(h = at, col = "grey90")
  graphics::axis(2, at, labels, las = 1, tick = FALSE)
  graphics::segments(limits[, 1], at, limits[, 2], at, lwd = 2, col = "grey40")
  graphics::points(estimate, at, pch = 19)
}
