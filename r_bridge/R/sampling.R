#' Inclusion probabilities proportional to size
#'
#' pi = n size / sum(size); units that come out at 1 or more are taken with certainty and the rest are computed
#' again, until none exceeds 1. The values are those of `sampling::inclusionprobabilities()`, to the last bit,
#' and take a fraction of the time in large populations.
#'
#' @param size Size of each unit, not negative; a unit of size 0 gets probability 0, with a warning.
#' @param n Sample size; with strata, that of each stratum, named by it.
#' @param strata Stratum of each unit, if there are strata.
#' @return A numeric vector that adds up to n (in each stratum).
#' @export
#' @examplesIf surveysynth_available()
#' inclusion_probabilities(c(1, 2, 3, 10), n = 2)
#' inclusion_probabilities(c(10, 20, 30, 40), n = c(E = 1, H = 1), strata = c("E", "E", "H", "H"))
inclusion_probabilities <- function(size, n, strata = NULL) {
  if (!is.numeric(size)) refuse("size is not a vector of numbers")
  if (!is.null(strata) && length(strata) != length(size)) {
    refuse("strata and size differ in length: ", length(strata), " and ", length(size))
  }
  units <- without_null(list(size = as.double(size), stratum = if (!is.null(strata)) as.character(strata)))
  in_folder(function(folder) {
    frame_from_python("inclusion_probabilities", folder, frame = frame_for_python(list2DF(units), folder, "units"),
                      n = if (is.null(names(n))) n else as.list(n))$pi
  })
}
