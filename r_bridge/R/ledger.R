#' The privacy ledger of a survey
#'
#' Epsilons of releases about the same people add up. The ledger is a file that has what was spent, entry by entry, and
#' a cap that they cannot exceed; `synthesize(ledger = )` enters an epsilon **before** any data set is drawn, and stops
#' where the cap is exceeded. What was entered stays spent, also where the release then fails.
#'
#' `spend()` enters what was released in another way; call it before you release. Local Laplace tables, say, have no
#' guarantee that adds up: `kind = "none"` and `epsilon = NULL`. [as.data.frame()] gives the entries.
#'
#' @param path The file; it is made where there is none, for you alone to read. It may hold several surveys.
#' @param survey Name of the survey; what is about the same people belongs under one name.
#' @param cap The most that may be spent on the survey. It is recorded by the first call that names it; others may leave
#'   it out. `set_cap()` changes it, and the old one stays on record.
#' @param ledger By `ledger()`.
#' @param epsilon For one record (one unit) added or removed.
#' @param kind Of guarantee: `"asymptotic"`, `"strict"`, `"strict given alpha"` or `"none"`; a release says it in
#'   `privacy(release)$kind`.
#' @param what The release, or why the cap is changed, in a few words, which are written to the ledger as they are.
#' @param unit What one is protected as: `"record"`, or the column of households, say.
#' @return A ledger, of class `surveysynth_ledger`, from the last two invisibly.
#' @export
#' @examples
#' \dontrun{
#' budget <- ledger("budget.jsonl", "labour force 2025", cap = 20)
#' release <- synthesize(design, fbs(salary ~ field), epsilon = 10.8, ledger = budget)
#' budget
#' as.data.frame(budget)
#' spend(budget, 1, kind = "strict", what = "histogram of hours")
#' set_cap(budget, 30, what = "the board, in May")
#' }
ledger <- function(path, survey, cap = NULL) {
  path <- path.expand(path)
  ask_python("ledger", ledger = make("Ledger", "ledger", path = path, survey = survey, cap = cap))
  make("Ledger", "ledger", path = normalizePath(path), survey = survey, class = "surveysynth_ledger")
}

#' @rdname ledger
#' @export
spend <- function(ledger, epsilon, kind, what, unit = "record") {
  ask_python("spend", ledger = check_ledger(ledger), epsilon = epsilon, kind = kind, what = what, unit = unit)
  invisible(ledger)
}

#' @rdname ledger
#' @export
set_cap <- function(ledger, cap, what) {
  ask_python("set_cap", ledger = check_ledger(ledger), cap = cap, what = what)
  invisible(ledger)
}

# Python would make a file that is gone anew, and with nothing in it.
check_ledger <- function(ledger) {
  if (!inherits(ledger, "surveysynth_ledger")) refuse("a ledger is what ledger(path, survey) returns")
  path <- ledger$arguments$path
  if (!file.exists(path)) refuse("the ledger ", sQuote(path), " is gone: put back a copy, with what was spent since")
  ledger
}

#' @method print surveysynth_ledger
#' @export
print.surveysynth_ledger <- function(x, ...) {
  writeLines(ask_python("ledger", ledger = check_ledger(x))$said)
  invisible(x)
}

#' @rdname ledger
#' @param x A ledger.
#' @param row.names,optional,... Not used.
#' @method as.data.frame surveysynth_ledger
#' @export
as.data.frame.surveysynth_ledger <- function(x, row.names = NULL, optional = FALSE, ...) {
  in_folder(function(folder) frame_from_python("entries", folder, ledger = check_ledger(x)))
}
