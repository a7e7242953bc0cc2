#' Identification risk of synthetic records
#'
#' An intruder knows some columns of a record, and its true value. `identification_risk()` is the probability that the
#' record is identified among the records with the same known columns (Hu, Savitsky & Williams 2022b, eq. 8): high where
#' its synthetic value is near the true one and few others are. `pairwise_weights()` are privacy weights from the
#' probability that it is identified together with another one (Hu, Savitsky & Williams 2022b, eq. 14), before scale and
#' shift; those from the marginal risk are `1 - identification_risk(...)`. `attribute_risk()` is the share of the
#' synthetic values of these records that are near the true value, whichever record they stand for. `match_risk()` is
#' the probability that who takes one of the synthetic records that match in all of this at random takes the record's
#' own (Reiter & Mitra 2009): its sum is the expected match risk. All are averaged over the data sets, and computed from
#' the confidential file: for the agency only.
#'
#' Known columns may be synthesized themselves. The records with the same known columns are then, in each data set, the
#' synthetic records that match the true values: the same text or factor level, and a number within its radius (Hornby &
#' Hu 2021). Where the record's own does not match its risks of identification and of a match are 0. Look at
#' `match_risk()` too: where few records match `identification_risk()` is low, for a single one 0.
#'
#' @param original The confidential file, a data frame or a design.
#' @param synthetic A release that [synthesize()] made in this session (whose records are shuffled in an order that only
#'   it knows), or synthetic data frames or designs, one or a list, whose row i stands for row i of `original`.
#' @param known What the intruder knows: columns, by name or as a formula; `~ 1` for none. `pairwise_weights()` takes
#'   those that were not synthesized.
#' @param value The synthesized numbers that the intruder knows; with several, a record is near when each of them is.
#' @param radius How near: a share of the true value, or in its unit where not `relative`; one, or one for each value
#'   and then for each synthesized number in `known`.
#' @param relative Whether `radius` is a share.
#' @param floor Least radius, in the unit of the value; one, or as many as of `radius`.
#' @param synthesized The known columns that were synthesized, by name or as a formula, where `synthetic` are data
#'   frames or designs; make codes of categories a factor. A release knows its own.
#' @return A number in \[0, 1\] for each record of `original`, named by its row; `NA` for those that the release left
#'   out.
#' @references Hu, Savitsky & Williams (2022b), Risk-Efficient Bayesian Data Synthesis for Privacy Protection, Journal
#'   of Survey Statistics and Methodology 10, 1370-1399, \doi{10.1093/jssam/smab013}.
#'
#'   Reiter & Mitra (2009), Estimating Risks of Identification Disclosure in Partially Synthetic Data, Journal of
#'   Privacy and Confidentiality 1, 99-110.
#'
#'   Hornby & Hu (2021), Identification Risks Evaluation of Partially Synthetic Data with the
#'   IdentificationRiskCalculation R Package, Transactions on Data Privacy 14, 37-52.
#' @seealso [identification_rule()], [marginal_risk()]
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' model <- fbs(enroll ~ stype, prior = "flat")
#' release <- synthesize(design, model, epsilon = 12, population_total = 6194,
#'                       mechanism = pseudo_posterior())
#' risk <- identification_risk(design, release, known = ~ stype, value = ~ enroll)
#' summary(risk)
identification_risk <- function(original, synthetic, known, value, radius = 0.2, relative = TRUE, floor = 0,
                                synthesized = NULL) {
  risk_of_records("identification_risk", original, synthetic, known, value, radius, relative, floor, synthesized)
}

#' @rdname identification_risk
#' @export
pairwise_weights <- function(original, synthetic, known, value, radius = 0.2, relative = TRUE, floor = 0) {
  risk_of_records("pairwise_weights", original, synthetic, known, value, radius, relative, floor)
}

#' @rdname identification_risk
#' @export
attribute_risk <- function(original, synthetic, known, value, radius = 0.2, relative = TRUE, floor = 0,
                           synthesized = NULL) {
  risk_of_records("attribute_risk", original, synthetic, known, value, radius, relative, floor, synthesized)
}

#' @rdname identification_risk
#' @export
match_risk <- function(original, synthetic, known, value, radius = 0.2, relative = TRUE, floor = 0,
                       synthesized = NULL) {
  risk_of_records("match_risk", original, synthetic, known, value, radius, relative, floor, synthesized)
}

# One of Python's measures, for each record; that of pairs has no `synthesized`.
risk_of_records <- function(measure, original, synthetic, known, value, radius, relative, floor, synthesized = NULL) {
  known <- what_is_known(known)
  value <- names_of(value)
  released <- inherits(synthetic, "surveysynth_release")
  # with a release Python looks whether this is the file that it was made from
  columns <- c(known, value, if (released) unlist(synthetic$manifest[c("public_predictors", "synthesized")]))
  found <- in_folder(function(folder) {
    given <- function(file, name) {
      frame <- variables_of(file)
      check_there(c(known, value), names(frame))
      frame_for_python(frame[names(frame) %in% columns], folder, name)
    }
    files <- if (!released) files_of(synthetic)
    frame_from_python(
      "risk_of_records", folder, measure = measure, original = given(original, "original"),
      synthetic = if (!released) Map(given, files, paste0("synthetic", seq_along(files)), USE.NAMES = FALSE),
      known = known, value = value, radius = radius, relative = relative, floor = floor,
      synthesized = names_of(synthesized), objects = if (released) list(python_release(synthetic)) else list()
    )$risk
  })
  stats::setNames(found, row.names(variables_of(original)))
}

# Columns that an intruder knows, as a list for Python; there may be none.
what_is_known <- function(known) {
  known <- names_of(known)
  if (is.null(known)) I(character()) else known
}

#' A rule that a release must pass
#'
#' No record's marginal probability of identification (Hu, Savitsky & Williams 2022b, eq. 8) may be above a limit,
#' averaged over the data sets of the release. If one is, [synthesize()] stops, nothing is released, and no epsilon is
#' spent.
#'
#' The rule looks at the confidential file, and epsilon does not cover what follows from it. Whether a release was
#' blocked depends on the file: do not publish that one was. Epsilon does not cover data sets that are drawn again until
#' they pass, either: the file chooses them. The rule and its numbers are published.
#' @param known Columns that the intruder knows and that are not synthesized, by name or as a formula; `~ 1` for none.
#' @param max_risk The limit, from 0 to below 1.
#' @param radius,relative,floor How near is near, as for [count_risk()].
#' @return A rule, for the argument `rule` of [synthesize()] under [pseudo_posterior()] or [weighted_e()].
#' @references Hu, Savitsky & Williams (2022b), Risk-Efficient Bayesian Data Synthesis for Privacy Protection, Journal
#'   of Survey Statistics and Methodology 10, 1370-1399, \doi{10.1093/jssam/smab013}.
#' @export
#' @examples
#' identification_rule(~ field + gender, max_risk = 0.5)
identification_rule <- function(known, max_risk = 0.5, radius = 0.2, relative = TRUE, floor = 0) {
  if (!is.numeric(max_risk) || length(max_risk) != 1 || is.na(max_risk) || max_risk < 0 || max_risk >= 1) {
    refuse("max_risk is a number from 0 to below 1: the largest risk that a record may have")
  }
  check_near("identification_rule()", radius, floor)
  make("IdentificationRule", "identification_rule", known = what_is_known(known), max_risk = max_risk, radius = radius,
       relative = relative, floor = floor, class = "surveysynth_rule")
}

check_rule <- function(rule) {
  if (!inherits(rule, "surveysynth_rule")) refuse("a rule is identification_rule(~ field + gender, max_risk = 0.5)")
  rule
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
