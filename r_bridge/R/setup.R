#' Find or make the Python that does the work
#'
#' Synthesis and tables are computed by the Python package surveysynth. `surveysynth_setup()` finds a Python that has it:
#' `python`, if you name one; else the first that has it of the environment variables `SURVEYSYNTH_PYTHON` and
#' `RETICULATE_PYTHON`, and the virtual environment `envname`. Every other function of this package looks at the same
#' places, without making anything. If none has it, `install_surveysynth()` is called, which makes the virtual
#' environment: it looks whether the Python that it is made from is recent enough and can download (imports ssl), and names
#' another one if not. It says what will be made and where, asks, and removes a new environment whose making failed. In a
#' script nobody can be asked: nothing is made then unless `ask = FALSE` says so.
#' An R session can run one Python only, the first that it starts.
#'
#' @param python Path of a Python interpreter, 3.11 or later. No other is taken in its place. If it lacks
#'   surveysynth, nothing is installed into it: the virtual environment is made from it.
#' @param envname Name (below [reticulate::virtualenv_root()]) or path of the virtual environment.
#' @param package What pip installs if surveysynth is missing: the path of the folder or of the wheel of the Python
#'   package.
#' @param ask Whether to ask before anything is made; `FALSE` is your consent.
#' @return The path of the Python that is used from now on, invisibly; `NULL` if you said no. Errors are of class
#'   `surveysynth_setup_error`.
#' @export
#' @examplesIf surveysynth_available()
#' surveysynth_setup()
#' @examplesIf interactive()
#' install_surveysynth("surveysynth-0.3.0-py3-none-any.whl") # makes ~/.virtualenvs/r-surveysynth
#' surveysynth_setup(python = "~/work/.venv/bin/python")     # use this one
surveysynth_setup <- function(python = NULL, envname = "r-surveysynth", package = NULL, ask = TRUE) {
  if (!is.null(python)) {
    python <- path.expand(python)
    fault <- fault_of(python)
    if (!is.null(fault) && fault != LACKING) stop_setup("the Python that you name, ", python, ", ", fault)
  }
  looked_at <- if (is.null(python)) candidates(NULL, envname) else list("the argument python" = python)
  faults <- lapply(looked_at, fault_of)
  chosen <- Position(is.null, faults)
  for (i in seq_len(if (is.na(chosen)) length(faults) else chosen - 1)) {
    message(names(looked_at)[i], ": ", looked_at[[i]], " ", faults[[i]])
  }
  if (!is.na(chosen)) return(invisible(settle_on(looked_at[[chosen]])))
  install_surveysynth(package, envname, python, ask)
}

#' @rdname surveysynth_setup
#' @export
install_surveysynth <- function(package = NULL, envname = "r-surveysynth", python = NULL, ask = TRUE) {
  base <- base_python(if (!is.null(python)) path.expand(python))
  made <- reticulate::virtualenv_python(envname)
  folder <- dirname(dirname(made))
  if (is.null(package)) {
    stop_setup("say where the Python package is: install_surveysynth(\"path/to/surveysynth\"), a folder or a wheel; it ",
               "would go into ", folder, ", made from ", base)
  }
  if (file.exists(package)) {
    package <- normalizePath(package)
  } else if (grepl("[/\\\\]", package)) {
    stop_setup("package = ", sQuote(package), " is not there")
  }
  new <- !file.exists(made)
  fault <- unfit(if (new) base else made)
  if (!is.null(fault)) stop_setup("the Python at ", if (new) base else made, " ", fault, ": ", what_else(base, new, folder))
  if (new && file.exists(folder)) {
    stop_setup(folder, " is there and is no virtual environment: remove it, or give another envname")
  }
  steps <- list(if (new) c(base, "-m", "venv", shQuote(folder)), c(made, "-m", "pip", "install", shQuote(package)))
  steps <- without_null(steps)
  announcement <- paste0("This will be run:\n", paste0("  ", vapply(steps, paste, "", collapse = " "), collapse = "\n"))
  if (ask && !interactive() && is.null(getOption("askYesNo"))) {
    stop_setup("nobody can be asked here, so nothing was made; set ask = FALSE to make it. ", announcement)
  }
  message(announcement)
  if (ask && !isTRUE(utils::askYesNo("Go on?", default = FALSE))) {
    message("Nothing was made.")
    return(invisible(NULL))
  }
  whole <- FALSE
  if (new) on.exit(if (!whole) unlink(folder, recursive = TRUE, force = TRUE))
  for (step in steps) run_step(step, if (new) paste0("; ", folder, " was removed again"))
  fault <- fault_of(made)
  if (!is.null(fault)) stop_setup("the Python at ", made, " ", fault, ", although it was installed")
  whole <- TRUE
  invisible(settle_on(made))
}

stop_setup <- function(...) refuse(..., code = "setup")

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
  base <- if (is.null(python)) pythons_on_path() else python
  base <- base[file.exists(base)]
  if (!length(base)) stop_setup("there is no Python to make it from: install Python 3.11 or later, or give python =")
  base[1]
}

# All that the search path has, in its order.
pythons_on_path <- function() {
  folders <- strsplit(Sys.getenv("PATH"), .Platform$path.sep, fixed = TRUE)[[1]]
  names <- if (.Platform$OS.type == "windows") c("python3.exe", "python.exe") else c("python3", "python")
  found <- file.path(rep(folders, each = 2), names)
  found[file.access(found, 1) == 0 & !dir.exists(found)]
}

# What to do in the place of using an unfit Python.
what_else <- function(base, new, folder) {
  if (!new) return(paste0("remove ", folder, ", and it is made anew"))
  fit <- Find(function(python) is.null(unfit(python)), setdiff(pythons_on_path(), base))
  if (is.null(fit)) return("install Python 3.11 or later, and name it, python = \"/path/to/bin/python3\"")
  paste0("give another one, python = \"", fit, "\"")
}

# What keeps a virtual environment from being made from a Python, or NULL.
unfit <- function(python) {
  found <- suppressWarnings(run_python(python, c("-c", shQuote(ASK_BASE)), stdout = TRUE, stderr = FALSE))
  reason <- sub("^base ", "", grep("^base ", found, value = TRUE))
  if (length(reason) != 1) return("cannot be run")
  if (reason != "") reason
}

ASK_BASE <- "import sys, importlib.util as u
try:
    import ssl
except ImportError:
    ssl = None
v = sys.version_info
venv = u.find_spec('venv') and u.find_spec('ensurepip')
print('base', 'is %d.%d, and 3.11 or later is needed' % v[:2] if v < (3, 11) else
      'cannot import ssl, so pip cannot download packages' if ssl is None else
      '' if venv else 'has no venv (on Debian: apt-get install python3-venv)')"

run_step <- function(step, then = NULL) {
  status <- run_python(step[1], step[-1])
  if (status != 0) stop_setup("this failed, with the messages above: ", paste(step, collapse = " "), then)
}

# Newer versions of reticulate make environments of their own, and ask what these must have.
.onLoad <- function(libname, pkgname) {
  if ("py_require" %in% getNamespaceExports("reticulate")) {
    getExportedValue("reticulate", "py_require")(python_version = ">=3.11")
  }
}
