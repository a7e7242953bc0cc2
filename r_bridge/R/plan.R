#' A plan: one reviewable file from the survey to the release
#'
#' A plan says everything that a release is made of: the survey's file and design, model, privacy, tables, what is
#' written where. `surveysynth plan survey.csv > plan.toml` drafts one in a terminal, with a comment at every entry; what
#' only the agency can know stands there as FILL IN. `check_plan()` says what to expect: what is published as it is,
#' standard errors, time, warnings; no budget is spent. `release_plan()` makes the release. The same file makes the same
#' release in a terminal, in Python and here.
#'
#' @param path The plan's file (TOML). Paths in it are seen from its folder.
#' @param set Entries to override, by name: `list(privacy.epsilon = 3)`.
#' @param plan By `read_plan()`.
#' @param inside Look at the confidential values, too: heaps, the shape of residuals, expected coefficients of variation.
#'   What it says is for the agency alone.
#' @param out Another folder than the plan's.
#' @param overwrite Replace a release that is there.
#' @param seed For tests only: the release is marked not for publication.
#' @return `read_plan()`: the plan, of class `surveysynth_plan`; it lives as long as the R session. `check_plan()`: what it
#'   prints, invisibly. `release_plan()`: the release that it wrote, as [read_release()] reads it; where its synthetic
#'   files are parquet, its folder, invisibly.
#' @seealso [synthesize()], which takes a design of this session.
#' @export
#' @examplesIf surveysynth_available()
#' folder <- tempfile("survey")
#' dir.create(folder)
#' data(api, package = "survey")
#' schools <- apistrat[c("stype", "enroll", "pw")]
#' utils::write.csv(schools, file.path(folder, "schools.csv"), row.names = FALSE)
#' writeLines(c(
#'   '[survey]', 'file = "schools.csv"', 'weights = "pw"', 'strata = "stype"',
#'   '[model]', 'formula = "enroll ~ stype"', 'prior = "flat"',
#'   '[privacy]', 'epsilon = 12', 'mechanism = "pseudo-posterior"', 'population_total = 6194'
#' ), file.path(folder, "plan.toml"))
#' plan <- read_plan(file.path(folder, "plan.toml"))
#' check_plan(plan)
#' release <- release_plan(plan)
#' tables(release, by = ~ stype)
#' unlink(folder, recursive = TRUE)
read_plan <- function(path, set = list()) {
  made <- ask_python("read_plan", path = path.expand(path), set = if (length(set)) set)
  structure(c(made$value, list(object = made$object)), class = "surveysynth_plan")
}

#' @rdname read_plan
#' @export
check_plan <- function(plan, inside = FALSE) {
  text <- ask_python("check_plan", inside = inside, objects = list(python_plan(plan)))$value
  writeLines(text)
  invisible(text)
}

#' @rdname read_plan
#' @export
release_plan <- function(plan, out = NULL, overwrite = FALSE, seed = NULL) {
  out <- if (!is.null(out)) path.expand(out)
  folder <- ask_python("release_plan", out = out, overwrite = overwrite, seed = seed,
                       objects = list(python_plan(plan)))$value
  if (length(list.files(file.path(folder, "public"), "[.]parquet$"))) return(invisible(folder))
  read_release(folder)
}

# Python's own object of a plan.
python_plan <- function(plan) {
  if (!inherits(plan, "surveysynth_plan")) refuse("a plan is what read_plan() returns")
  if (reticulate::py_is_null_xptr(plan$object)) refuse("this plan was read in an R session that has ended: read it again")
  plan$object
}

#' @method print surveysynth_plan
#' @export
print.surveysynth_plan <- function(x, ...) {
  writeLines(x$text)
  invisible(x)
}
