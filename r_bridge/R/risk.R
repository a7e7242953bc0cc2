#' Identification risk of synthetic records
#'
#' An intruder knows some columns of a record that were not synthesized, and its true value. IR is the probability
#' that the record is identified among those that are alike in what is known (E, equation 8), averaged over the
#' data sets: high where its synthetic value is near the true one and few others are. It is computed from the
#' confidential file: for the agency only.
#'
#' @param original The confidential file, a data frame or a design.
#' @param synthetic A release that [synthesize()] made in this session (whose records are in an order of their
#'   own, which only it knows), or synthetic data frames or designs, one or a list, whose row i stands for row
#'   i of `original`.
#' @param known What the intruder knows: columns that were not synthesized, by name or as a formula.
#' @param value The synthesized numbers that the intruder knows; with several, a record is near when each of them is.
#' @param radius How near: a share of the true value, or in its unit where not `relative`; one, or one for each value.
#' @param relative Whether `radius` is a share.
#' @param floor Least radius, in the unit of the value.
#' @return A number in \[0, 1) for each record of `original`, `NA` for those that the release left out.
#' @references E: Hu, Savitsky and Williams, Risk-Efficient Bayesian Data Synthesis for Privacy Protection.
#' @export
#' @examples
#' \dontrun{
#' risk <- identification_risk(design, release, known = ~ field + gender, value = "salary")
#' summary(risk)
#' }
identification_risk <- function(original, synthetic, known, value, radius = 0.2, relative = TRUE, floor = 0) {
  known <- names_of(known)
  value <- names_of(value)
  released <- inherits(synthetic, "surveysynth_release")
  # with a release Python looks whether this is the file that it was made from
  columns <- c(known, value, if (released) unlist(synthetic$manifest[c("public_predictors", "synthesized")]))
  in_folder(function(folder) {
    given <- function(file, name) {
      frame <- variables_of(file)
      check_there(c(known, value), names(frame))
      frame_for_python(frame[names(frame) %in% columns], folder, name)
    }
    files <- if (!released) files_of(synthetic)
    frame_from_python(
      "identification_risk", folder, original = given(original, "original"),
      synthetic = if (!released) Map(given, files, paste0("synthetic", seq_along(files)), USE.NAMES = FALSE),
      known = known, value = value, radius = radius, relative = relative, floor = floor,
      objects = if (released) list(python_release(synthetic)) else list()
    )$risk
  })
}

variables_of <- function(file) {
  if (inherits(file, c("survey.design", "svyrep.design"))) file <- file$variables
  if (!is.data.frame(file)) refuse("a data frame or a survey design was expected, not a ", class(file)[1])
  as.data.frame(file)
}

# One file or a list of files, as a list.
files_of <- function(files) {
  if (is.data.frame(files) || inherits(files, c("survey.design", "svyrep.design"))) list(files) else files
}
