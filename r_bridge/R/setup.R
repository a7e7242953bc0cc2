#' Find or make the Python that does the work
#'
#' Synthesis and tables are computed by the Python package surveysynth. This finds a Python that has it:
#' `python`, if you name one; else the first that has it of the environment variables `SURVEYSYNTH_PYTHON` and
#' `RETICULATE_PYTHON`, and the virtual environment `envname`. Every other function of this package looks at the same
#' places, without making anything. If none has it, a virtual environment is made, after saying what will be made and
#' where.
#' An R session can run one Python only, the first that it starts.
#'
#' @param python Path of a Python interpreter, 3.11 or later. No other is taken in its place. If it lacks
#'   surveysynth, nothing is installed into it: the virtual environment is made from it.
#' @param envname Name (below [reticulate::virtualenv_root()]) or path of the virtual environment.
#' @param package What pip installs if surveysynth is missing: the path of the folder or of the wheel of the Python
#'   package.
#' @param ask Whether to ask before anything is made; `FALSE` makes it without asking.
#' @return The path of the Python that is used from now on, invisibly; `NULL` if you said no.
#' @export
#' @examples
#' \dontrun{
#' surveysynth_setup()                                      # is everything there?
#' surveysynth_setup(package = "path/to/surveysynth")       # makes ~/.virtualenvs/r-surveysynth
#' surveysynth_setup(python = "~/work/.venv/bin/python")    # use this one
#' }
surveysynth_setup <- function(python = NULL, envname = "r-surveysynth", package = NULL, ask = interactive()) {
  if (!is.null(python)) {
    python <- path.expand(python)
    fault <- fault_of(python)
    if (!is.null(fault) && fault != LACKING) refuse("the Python that you name, ", python, ", ", fault)
  }
  looked_at <- if (is.null(python)) candidates(NULL, envname) else list("the argument python" = python)
  faults <- lapply(looked_at, fault_of)
  chosen <- Position(is.null, faults)
  for (i in seq_len(if (is.na(chosen)) length(faults) else chosen - 1)) {
    message(names(looked_at)[i], ": ", looked_at[[i]], " ", faults[[i]])
  }
  if (!is.na(chosen)) return(invisible(settle_on(looked_at[[chosen]])))
  invisible(make_environment(base_python(python), envname, package, ask))
}

settle_on <- function(python) {
  session$python <- python
  message("surveysynth is in ", python)
  if (!python %in% candidates(NULL)) {
    message("Other sessions find it with SURVEYSYNTH_PYTHON=", python, " in ~/.Renviron")
  }
  if (reticulate::py_available() && is.null(session$bridge)) {
    running <- reticulate::py_config()$python
    if (normalizePath(running) != normalizePath(python)) message("This session runs ", running, " already: restart R")
  }
  python
}

base_python <- function(python) {
  base <- if (is.null(python)) Sys.which(c("python3", "python")) else python
  base <- unname(base[nzchar(base) & file.exists(base)])
  if (!length(base)) refuse("there is no Python to make it from: install Python 3.11 or later, or give python=")
  base[1]
}

make_environment <- function(base, envname, package, ask) {
  python <- reticulate::virtualenv_python(envname)
  if (is.null(package)) {
    refuse("say where the Python package is: surveysynth_setup(package = \"path/to/surveysynth\"), a folder or a ",
           "wheel; it would go into ", dirname(dirname(python)), ", made from ", base)
  }
  if (file.exists(package)) {
    package <- normalizePath(package)
  } else if (grepl("[/\\\\]", package)) {
    refuse("package = ", sQuote(package), " is not there")
  }
  steps <- list(
    if (!file.exists(python)) c(base, "-m", "venv", shQuote(dirname(dirname(python)))),
    c(python, "-m", "pip", "install", shQuote(package))
  )
  steps <- without_null(steps)
  message("This will be run:\n", paste0("  ", vapply(steps, paste, "", collapse = " "), collapse = "\n"))
  if (ask && !isTRUE(utils::askYesNo("Go on?", default = FALSE))) {
    message("Nothing was made.")
    return(NULL)
  }
  for (step in steps) run_step(step)
  fault <- fault_of(python)
  if (!is.null(fault)) refuse("the Python at ", python, " ", fault, ", although it was installed")
  settle_on(python)
}

run_step <- function(step) {
  status <- system2(step[1], step[-1])
  if (status != 0) {
    refuse("this failed, with the messages above: ", paste(step, collapse = " "))
  }
}
