#' The privacy report of a release
#'
#' What is guaranteed, to whom, under what assumptions, and what is not: the public part, as it is in the manifest.
#'
#' @param release From [synthesize()] or [read_release()]; no Python is needed.
#' @return A list of class `surveysynth_privacy`: `epsilon` (of the whole release, for the first of
#'   `neighbours`: what was asked for, for this m, as the one that was reached depends on the file; the latter where
#'   none was asked for; `NULL` where there is none), `epsilon_requested`, `kind`, `m`, `guarantee`, `neighbours`
#'   (epsilon by neighbour relation), `mechanism`, `draws` (behind the maximum, 0 where epsilon needs none),
#'   `diagnostics`, `assumptions` (taken as public or as given), `data_dependent` (computed from the confidential file
#'   and not covered by epsilon) and `publication`. Under `strict(delta = )` also `delta`.
#' @export
#' @examples
#' privacy(read_release(system.file("example-release", package = "surveysynth")))
privacy <- function(release) {
  check_release(release)
  manifest <- release$manifest
  list_of <- c("epsilon", "epsilon_requested", "kind", "m", "guarantee", "neighbours", "mechanism", "diagnostics",
               "assumptions", "data_dependent", "publication", "delta")
  structure(c(manifest[intersect(list_of, names(manifest))], list(draws = manifest$draws_behind_the_maximum)),
            class = "surveysynth_privacy")
}

#' @method format surveysynth_privacy
#' @export
format.surveysynth_privacy <- function(x, ...) {
  promised <- !identical(x$kind, "none")
  asked <- if (is.null(x$epsilon_requested)) "" else sprintf(" (asked for: %g)", x$epsilon_requested)
  up_to <- if (is.null(x$delta)) "" else sprintf(", delta = %.3g", x$delta)
  spent <- if (promised) sprintf("epsilon = %g%s, %s%s", x$epsilon, asked, x$kind, up_to) else "no epsilon"
  dashed <- function(lines) if (length(lines)) paste0("  - ", lines)
  c(
    sprintf("Privacy of this release: %s, m = %d", spent, as.integer(x$m)),
    x$guarantee,
    if (promised) "Neighbour relations:",
    dashed(sprintf("%s: epsilon = %g", names(x$neighbours), unlist(x$neighbours))),
    if (identical(as.integer(x$draws), 0L)) x$diagnostics else {
      sprintf("Maximum over %s posterior draws, the released ones among them. %s", format(x$draws, big.mark = ","),
              x$diagnostics)
    },
    "Taken as public or as given:",
    dashed(x$assumptions),
    paste0("Computed from the confidential file", if (promised) ", and not covered by epsilon", ":"),
    dashed(if (length(x$data_dependent)) x$data_dependent else "nothing"),
    sprintf("Publication: %s.", x$publication)
  )
}

#' @method print surveysynth_privacy
#' @export
print.surveysynth_privacy <- function(x, ...) {
  for (line in format(x)) {
    writeLines(strwrap(line, width = getOption("width"), indent = if (startsWith(line, "  ")) 2 else 0, exdent = 4))
  }
  invisible(x)
}
