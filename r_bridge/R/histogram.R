#' Synthetic values from a noisy histogram
#'
#' Values of one bounded outcome are drawn from a histogram with Laplace noise (Hu, Williams & Savitsky 2025, section
#' 2.3; Wasserman & Zhou 2010). The guarantee is strict, at any sample size; one noisy histogram makes all m data
#' sets, so `epsilon` does not grow with m. The files have the outcome and a weight, equal for all, and no predictors.
#'
#' @param design The confidential file, as for [synthesize()]; only its weights are used.
#' @param outcome A numeric column without missing values, by name or as a formula, `~ salary`.
#' @param epsilon Of the whole release, for one record that is blanked: counted in the histogram, or not; n is public.
#'   For one record's values replaced by others it is twice that.
#' @param bounds Public lowest and highest value, chosen without looking at the file; values outside are moved to
#'   the nearest.
#' @param population_total Public number of population units.
#' @param bins Number of bins of equal length, or their public limits from bound to bound; default: the square root of
#'   the number of records, rounded up.
#' @param m Number of synthetic data sets.
#' @param weight_bound Public largest survey weight; needed where the weights are not all equal. Larger ones are
#'   lowered to it, and the noise is as many times as large.
#' @param ledger By [ledger()]: both epsilons are entered there before this function returns, if the cap allows it.
#' @return A release, as by [synthesize()]. It is never seeded.
#' @references Hu, Williams & Savitsky (2025), Mechanisms for Global Differential Privacy under Bayesian Data
#'   Synthesis, Statistica Sinica 35, 563-584, \doi{10.5705/ss.202022.0162}. Wasserman & Zhou (2010), A statistical
#'   framework for differential privacy, JASA 105.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' release <- perturbed_histogram(design, ~ enroll, epsilon = 1, bounds = c(0, 4000),
#'                                population_total = 6194, weight_bound = 60)
#' privacy(release)
#' combine_release(with_release(release, survey::svyquantile(~enroll, design, quantiles = 0.5)))
perturbed_histogram <- function(design, outcome, epsilon, bounds, population_total, bins = NULL, m = 3,
                                weight_bound = NULL, ledger = NULL) {
  parts <- design_parts(design)
  parts$roles <- parts$roles[intersect(names(parts$roles), c("weights", "probs"))]
  outcome <- one_name(outcome)
  check_there(outcome, names(parts$frame))
  in_folder(function(folder) {
    given <- list(
      design = design_for_python(parts, outcome, folder), outcome = outcome, epsilon = epsilon, bounds = I(bounds),
      population_total = population_total, bins = if (length(bins) > 1) I(bins) else bins, m = m,
      weight_bound = weight_bound, ledger = if (!is.null(ledger)) check_ledger(ledger)
    )
    release_from_python(folder, kind_of_design(design), "perturbed_histogram", given)
  })
}
