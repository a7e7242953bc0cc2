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
  old <- graphics::par(mar = c(4.5, 4.5, if (is.null(main)) 1 else 3, 1) + 0.1)
  on.exit(graphics::par(old))
  graphics::plot(range(all), c(0, 1), type = "n", log = if (log) "x" else "", xlab = xlab, ylab = ylab, main = main,
                 las = 1, bty = "l", ...)
  graphics::grid(col = "grey90", lty = 1, equilogs = FALSE)
  for (i in seq_along(curves)) {
    graphics::lines(curves[[i]]$value, curves[[i]]$share, type = "s", col = col[i], lwd = 1.5)
  }
  if (length(curves) <= 10) {
    graphics::legend("bottomright", legend = paste("data set", seq_along(curves)), col = col, lwd = 1.5, bty = "n")
  }
  invisible(x)
}

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
#' @param x From [combine()].
#' @param level Of the intervals.
#' @param labels Names of the estimates, from top to bottom.
#' @param xlab,main Labels.
#' @param ... Further arguments of [graphics::plot()].
#' @return `x`, invisibly.
#' @export
#' @examples
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' plot(combine(with(release, survey::svyby(~income, ~region, FUN = survey::svymean))), xlab = "mean income")
plot.surveysynth_combined <- function(x, level = 0.95, labels = names(stats::coef(x)), xlab = "estimate",
                                      main = NULL, ...) {
  limits <- stats::confint(x, level = level)
  estimate <- stats::coef(x)
  at <- rev(seq_along(estimate))
  old <- graphics::par(mar = c(4.5, min(1.5 + 0.55 * max(nchar(labels)), 16), if (is.null(main)) 1 else 3, 1) + 0.1)
  on.exit(graphics::par(old))
  graphics::plot(range(estimate, limits, na.rm = TRUE, finite = TRUE), c(0.5, length(at) + 0.5), type = "n",
                 yaxt = "n", ylab = "", xlab = xlab, main = main, bty = "l", ...)
  graphics::abline(h = at, col = "grey90")
  graphics::axis(2, at, labels, las = 1, tick = FALSE)
  graphics::segments(limits[, 1], at, limits[, 2], at, lwd = 2, col = "grey40")
  graphics::points(estimate, at, pch = 19)
  invisible(x)
}
