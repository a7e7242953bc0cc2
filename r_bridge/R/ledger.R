#' The privacy ledger of a survey
#'
#' Epsilons of releases about the same people add up. The ledger is a file that has what was spent, entry by entry, and
#' a cap that they cannot exceed; with `ledger = `, [synthesize()], [perturbed_histogram()] and [laplace_tables()] enter
#' theirs last, when everything is computed and **before** they return, and stop where the cap is exceeded;
#' [write_release()] when all files are on the disk beside their place. A run that is killed after that is finished by
#' [resume_release()], and nothing is spent twice; a release that was entered when it was made is kept beside the ledger
#' until it is written.
#'
#' An entry has two epsilons: `blank`, for one record's (one unit's) confidential values taken out of the file or put
#' into it, or the record added or removed; and `replace`, for these values being others. Each is summed by itself.
#' Where an entry has no number for one of them, that sum is unknown: it is not 0.
#'
#' `spend()` enters what was released in another way; call it before you release. Local Laplace tables, say, have no
#' guarantee that adds up: `kind = "none"`, and `NULL` for both epsilons. [as.data.frame()] gives the entries, an
#' epsilon that is missing and a sum that is unknown as `NaN`, and infinite sums from an entry without a guarantee on.
#'
#' Entries are numbered, and each has a hash (SHA-256) of the ledger up to it, its head. A release names number and
#' head of its entry in the manifest, so `verify_ledger()` finds a ledger that was cut off, edited or put back from an
#' old copy, and a release that was never entered. This finds accidents, and does not stop a determined editor, who can
#' compute all heads again; lines after the last entry that a release names can be cut off unseen.
#'
#' @param path The file, for you alone to read. It may hold several surveys.
#' @param survey Name of the survey; what is about the same people belongs under one name.
#' @param cap The most that may be spent on the survey under blanking; what has no number there does not fit under a
#'   cap. It is recorded by the first call that names it; others may leave it out. `set_cap()` changes it, and the old
#'   one stays on record.
#' @param create `TRUE` begins the survey, and the file if needed; once only. Without it, a name that is not in
#'   the ledger is an error, which names those that are near.
#' @param ledger By `ledger()`.
#' @param blank Epsilon for one unit's confidential values taken out or put in, or the unit removed or added; `NULL`
#'   where it is not known.
#' @param replace Epsilon for these values replaced by others: twice `blank`, unless the release says another; `NULL`
#'   where it is not known.
#' @param kind Of guarantee: `"asymptotic"`, `"strict"`, `"strict given alpha"` or `"none"`; a release says it in
#'   `privacy(release)$kind`.
#' @param what The release, or why the cap is changed, in a few words, which are written to the ledger as they are.
#' @param unit What one is protected as: `"record"`, or the column of households, say.
#' @param releases A release, a list of releases, or the folders of some; none: the ledger alone is checked.
#' @return A ledger, of class `surveysynth_ledger`, from `spend()` and `set_cap()` invisibly; `verify_ledger()` returns
#'   the entries, and in the column `release` which release goes with each, or stops.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' file <- tempfile(fileext = ".jsonl")
#' budget <- ledger(file, "schools", cap = 20, create = TRUE)
#' model <- fbs(enroll ~ stype, prior = "flat")
#' release <- synthesize(design, model, epsilon = 10.8, population_total = 6194,
#'                       mechanism = pseudo_posterior(), ledger = budget)
#' spend(budget, 1, 2, kind = "strict", what = "histogram of scores")
#' set_cap(budget, 30, what = "the board, in May")
#' budget
#' as.data.frame(budget)
#' verify_ledger(budget, release)
#' unlink(file)
ledger <- function(path, survey, cap = NULL, create = FALSE) {
  if (missing(survey)) refuse("name the survey: ledger(path, \"schools\"); what is about the same people is under one name")
  path <- path.expand(path)
  ask_python("ledger", ledger = make("Ledger", "ledger", path = path, survey = survey, cap = cap, create = create))
  make("Ledger", "ledger", path = normalizePath(path), survey = survey, class = "surveysynth_ledger")
}

#' @rdname ledger
#' @export
spend <- function(ledger, blank, replace, kind, what, unit = "record") {
  ask_python("spend", ledger = check_ledger(ledger), blank = blank, replace = replace, kind = kind, what = what,
             unit = unit)
  invisible(ledger)
}

#' @rdname ledger
#' @export
set_cap <- function(ledger, cap, what) {
  ask_python("set_cap", ledger = check_ledger(ledger), cap = cap, what = what)
  invisible(ledger)
}

#' @rdname ledger
#' @export
verify_ledger <- function(ledger, releases = NULL) {
  if (inherits(releases, "surveysynth_release")) releases <- list(releases)
  folders <- if (is.character(releases)) I(path.expand(releases))
  objects <- if (is.list(releases)) lapply(releases, function(release) python_release(check_release(release)))
  in_folder(function(folder) {
    frame_from_python("verify_ledger", folder, ledger = check_ledger(ledger), folders = folders, objects = objects)
  })
}

# A ledger that has disappeared must not start again as an empty file.
check_ledger <- function(ledger) {
  if (!inherits(ledger, "surveysynth_ledger")) refuse("a ledger is what ledger(path, survey) returns")
  path <- ledger$arguments$path
  if (!file.exists(path)) refuse("the ledger ", sQuote(path), " is gone: put back a copy, with what was spent since")
  ledger
}

#' @method print surveysynth_ledger
#' @export
print.surveysynth_ledger <- function(x, ...) {
  lines <- strsplit(ask_python("ledger", ledger = check_ledger(x))$value, "\n", fixed = TRUE)[[1]]
  lines <- sub("surveysynth resume (--ledger, --survey)", "resume_release()", lines, fixed = TRUE)
  after <- match("By kind:", lines)
  wrapped <- function(text) {
    for (line in text) writeLines(strwrap(line, getOption("width"), if (startsWith(line, "  ")) 2 else 0, 4))
  }
  if (is.na(after)) {
    wrapped(lines)
    return(invisible(x))
  }
  wrapped(lines[1])
  entries <- as.data.frame(x)
  entries$time <- substr(as.character(entries$time), 1, 10)
  shown <- c("number", "time", "kind", if (any(entries$unit != "record")) "unit", "blank", "replace", "what")
  entries$what <- ifelse(nchar(entries$what) > 32, paste0(substr(entries$what, 1, 29), "..."), entries$what)
  print(entries[intersect(shown, names(entries))], row.names = FALSE, right = FALSE)
  wrapped(lines[after:length(lines)])
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
