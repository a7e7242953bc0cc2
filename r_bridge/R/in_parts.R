#' Files larger than memory
#'
#' `synthesize_in_parts()` is [synthesize()] for parquet files that are never in memory as a whole, R's or Python's: every
#' pass is over parts of about a million records, by processes of this machine (`workers`) or those of a Dask cluster
#' (`scheduler`). `scan_release()` opens a release whose data sets are parquet files, of whatever mechanism, where it lies.
#' Either way [tables()], [compare_release()] and [write_release()] make passes over the files; [privacy()] says what is
#' guaranteed.
#'
#' For amounts by [fbs()], and a weight that is modelled, under [strict()] or [pseudo_posterior()]; under [strict()] an
#' amount can have zeros of its own (`zeros = TRUE`) and categories beside it. Every record is a sampling unit of its own,
#' within strata that are predictors. Other models, mechanisms and designs are refused by name: [synthesize()] has them, in
#' memory. A release that `scan_release()` opens can have strata and sampling units of any kind, but no finite population
#' corrections, derived columns or calibrated weights.
#'
#' @param files Parquet files, or a folder of such. `surveysynth convert` makes them of csv, Stata, SPSS and SAS, in a
#'   terminal.
#' @param synthesizer A model by [fbs()], or a formula. Predictors and categories have up to a million combinations; a
#'   column of `TRUE` and `FALSE` enters as 1 and 0.
#' @param weights,strata Columns, by name or as a formula; strata are predictors.
#' @param epsilon,population_total,m,bounds,accept_diagnostics,chains,warmup,draws,seed,levels As for [synthesize()]; the total is
#'   one number.
#' @param mechanism [strict()], the default, or [pseudo_posterior()] with [lipschitz_risk()].
#' @param public As for [synthesize()].
#' @param labels Headings of columns, a named vector; default those in the files.
#' @param workers Processes of this machine.
#' @param scheduler Address of a Dask scheduler, `"tcp://10.0.0.1:8786"`, whose workers compute instead; they read the same
#'   paths.
#' @param scratch Folder in which data sets are made, which all workers can write to; it needs three to four times their
#'   size. Default that of the system for temporary files; a scheduler needs one.
#' @param folder `surveysynth-...` in `scratch`, of a run that was cut off once its draws were chosen.
#' @param path The folder of a release, or its `public` folder as it was published.
#' @return An object of class `surveysynth_release_in_files`: a list with `manifest`, as [read_release()] has it, and `n`,
#'   the records of a data set. It lives as long as the R session; [write_release()] keeps it, and `scan_release()` opens it
#'   again.
#' @seealso [read_plan()]: a plan with a section `[parts]` does the same.
#' @export
#' @examples
#' \dontrun{
#' release <- synthesize_in_parts(
#'   "census/", pay ~ region + sex, weights = ~w, epsilon = 5, bounds = c(0, 1e6),
#'   population_total = 5e7, workers = 2
#' )
#' tables(release, by = ~ region + sex)
#' write_release(release, "release")
#' tables(scan_release("release"), by = ~ region, statistic = "total")
#' compare_release("census/", release, by = ~ region)
#' }
synthesize_in_parts <- function(files, synthesizer, weights, epsilon, population_total, bounds = NULL, strata = NULL,
                                mechanism = NULL, m = NULL, accept_diagnostics = NULL, public = NULL, labels = NULL,
                                workers = 1, scheduler = NULL, scratch = NULL, chains = 4, warmup = NULL, draws = NULL,
                                seed = NULL, levels = NULL) {
  synthesizer <- as_model(synthesizer)
  check_mechanism(mechanism)
  new_release_in_files(
    "synthesize_in_parts", source = paths_of(files), synthesizer = synthesizer, weights = one_name(weights),
    epsilon = epsilon, population_total = population_total, strata = one_name(strata), mechanism = mechanism, m = m,
    bounds = if (is.list(bounds)) lapply(bounds, I) else bounds,
    levels = if (!is.null(levels)) lapply(as.list(levels), I),
    accept_diagnostics = I(as.character(accept_diagnostics)), public = names_of(public),
    labels = if (!is.null(labels)) as.list(labels), workers = workers, scheduler = scheduler,
    scratch = if (!is.null(scratch)) path.expand(scratch), chains = chains, warmup = warmup, draws = draws, seed = seed
  )
}

#' @rdname synthesize_in_parts
#' @export
resume_in_parts <- function(folder, workers = 1, scheduler = NULL) {
  folder <- path.expand(check_path(folder, "folder names the folder of a run that was cut off"))
  new_release_in_files("resume_in_parts", folder = folder, workers = workers, scheduler = scheduler)
}

#' @rdname synthesize_in_parts
#' @export
scan_release <- function(path, workers = 1, scheduler = NULL) {
  path <- path.expand(check_folder(path))
  new_release_in_files("scan_release", path = path, workers = workers, scheduler = scheduler)
}

new_release_in_files <- function(task, ...) {
  made <- ask_python(task, ...)
  structure(c(made$said, list(python = list2env(list(object = made$object)))), class = "surveysynth_release_in_files")
}

in_files <- function(release) inherits(release, "surveysynth_release_in_files")

# Python's own object of a release in files.
python_in_files <- function(release) {
  object <- release$python$object
  if (reticulate::py_is_null_xptr(object)) {
    refuse("this release was opened in an R session that has ended: open its folder again by scan_release()")
  }
  object
}

# Paths as Python sees them.
paths_of <- function(files, argument = "files") {
  if (!is.character(files) || !length(files) || anyNA(files)) {
    refuse(argument, " names parquet files, or a folder of such, and is not an object of class ", class(files)[1])
  }
  path.expand(files)
}

# Refuse arguments that a function has, and not for releases in files.
refuse_in_files <- function(call, known) {
  beyond <- setdiff(names(call)[-1], c("design", "release", known))
  if (length(beyond)) {
    refuse("of a release in files there is no ", paste(beyond, collapse = ", "), ", but ", paste(known, collapse = ", "),
           "; a release that is written with format = \"csv\" has them all, by read_release()")
  }
}

#' @method print surveysynth_release_in_files
#' @export
print.surveysynth_release_in_files <- function(x, ...) {
  show_release(x$manifest, x$manifest$m, x$n, " in files")
  invisible(x)
}
