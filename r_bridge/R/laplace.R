#' Tables with Laplace noise
#'
#' Counts and means of cells, margins and the total of a confidential file, with Laplace noise by OpenDP
#' (Hu, Savitsky & Williams 2022a, section 2.4).
#'
#' `"local"` is the comparison of the paper: its noise is scaled to sensitivities that are computed from the file, so it
#' has no guarantee. `"strict"` is epsilon-differentially private for two files that differ in the survey weight and the
#' outcomes of one record, within public bounds. How many records there are, and in which cells, is public. A record
#' whose values are taken out is covered only where the bounds of the weight begin at 0.
#'
#' @param design The confidential file, as for [synthesize()].
#' @param outcome Numeric columns without missing values, by name or as a formula, `~ salary`.
#' @param by Columns whose cells, margins and total are estimated, by name or as a formula; `NULL`: the total alone.
#' @param epsilon Of everything together.
#' @param kind Of sensitivity: `"local"` or `"strict"`.
#' @param point_share Part of the budget that goes to the points; the rest goes to the replicates.
#' @param replicates How many; they are drawn again in every call.
#' @param bounds For `"strict"`: a list with the lowest and highest value of `weight`, the survey weight, and of every
#'   outcome, chosen without looking at the file.
#' @param consistent Make counts, and means times counts, add up to their margins.
#' @param ledger By [ledger()]: what is protected is entered there before this function returns, if the cap allows it. Of
#'   the strict form it is epsilon for replacing a record's values, and for blanking it only where the bounds of the
#'   weight begin at 0; of the local form nothing.
#' @return A list of class `surveysynth_laplace`: `table`, with the columns of [estimate()]; `budget`, what each group
#'   of queries spends; `kind`, `epsilon`, `guarantee` (what is protected and what is not) and `postprocessing`.
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' laplace_tables(design, ~ enroll, by = ~ stype, epsilon = 5, kind = "strict",
#'                bounds = list(weight = c(0, 60), enroll = c(0, 4000)))
laplace_tables <- function(design, outcome, by = NULL, epsilon, kind = c("local", "strict"), point_share = 0.5,
                           replicates = 10, bounds = NULL, consistent = FALSE, ledger = NULL) {
  kind <- match.arg(kind)
  parts <- design_parts(design)
  outcome <- names_of(outcome)
  by <- names_of(by)
  columns <- c(outcome, by)
  check_there(columns, names(parts$frame))
  in_folder(function(folder) {
    out <- file.path(folder, "result")
    dir.create(out)
    made <- ask_python(
      "laplace_tables", folder = out, design = design_for_python(parts, columns, folder), outcome = outcome,
      by = if (is.null(by)) I(character()) else by, epsilon = epsilon, kind = kind, point_share = point_share,
      replicates = replicates, bounds = bounds, consistent = consistent,
      ledger = if (!is.null(ledger)) check_ledger(ledger)
    )$value
    table <- structure(loaded(file.path(out, "table")), class = c("surveysynth_table", "data.frame"))
    structure(c(list(table = table, budget = loaded(file.path(out, "budget"))), made), class = "surveysynth_laplace")
  })
}

#' @method print surveysynth_laplace
#' @export
print.surveysynth_laplace <- function(x, ...) {
  cat(sprintf("Tables with Laplace noise: %s, epsilon = %g\n", x$kind, x$epsilon))
  for (text in c(x$guarantee, x$postprocessing)) writeLines(strwrap(text))
  cat("\nBudget of a record:\n")
  print(x$budget, row.names = FALSE)
  cat("\n")
  print(x$table, ...)
  invisible(x)
}
