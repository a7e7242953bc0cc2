# Python: found, started once a session, and asked.
#
# R and Python hand each other text (json), folders with frames (exchange.R), and the release that Python
# keeps. reticulate converts nothing else, so its version does not matter. The other side is
# inst/python/surveysynth_bridge.py.

ENVNAME <- "r-surveysynth"
# `python`: the one that surveysynth_setup() found; `bridge`: once it runs; `callers`: frames of functions that called update()
session <- list2env(list(callers = list()), parent = emptyenv())

# Have Python do a task of the bridge; `objects` are Python's own. Its errors and warnings become R's, of classes by the
# code that Python gives, and what it says of its progress becomes messages. Warnings are internal where a task may see a
# confidential file.
ask_python <- function(task, ..., objects = list()) {
  answer <- do.call(python_bridge()$run, c(list(task, as_json(list(...)), teller()), objects))
  reply <- jsonlite::fromJSON(reticulate::py_to_r(answer$told), simplifyMatrix = FALSE)
  for (text in reply$internal) tell_internal(text)
  for (text in reply$warnings) if (task %in% ON_PUBLIC_FILES) warning(warning_of(text)) else warn_internal(text)
  if (!is.null(reply$error)) stop(condition_of(reply$error$message, reply$error$code))
  list(object = answer$value, value = reply$value)
}

ON_PUBLIC_FILES <- c("tables", "write_tables", "write_release", "read_release", "release_from_text", "assign", "redrawn",
                     "public_dossier", "inclusion_probabilities")

#' Errors, warnings and messages
#'
#' Every error that the package raises is a condition of class `surveysynth_error`, and of one of these, by its field
#' `code`, which comes from Python: `surveysynth_input_error` (data or arguments that cannot be used as they are),
#' `surveysynth_model_error` (the model cannot be fitted to this file), `surveysynth_privacy_error` (the guarantee that was
#' asked for cannot be given, or the ledger's cap is exceeded), `surveysynth_diagnostics_error` (a diagnostic failed, so
#' nothing is released), `surveysynth_engine_error` (Stan is missing or stopped), `surveysynth_setup_error` (there is no
#' Python that can be used), `surveysynth_internal_error` (a fault of ours; its message is withheld, because it may quote
#' the data). Rely on classes and codes: sentences change. Warnings of Python are of class `surveysynth_warning`.
#'
#' What is not for publication, such as how much of the file's information the privacy weights keep, is a message of class
#' `surveysynth_internal`; so are warnings of functions that see a confidential file. While knitr makes a page, both go to
#' the console (stderr), and never into the page.
#'
#' Long work says its stages and the seconds so far by `message()`, of class `surveysynth_message`; with the package cli,
#' an interactive session shows the stage in one line instead, and a page that knitr makes shows none. `suppressMessages()`
#' and `options(surveysynth.progress = FALSE)` silence it.
#' @name surveysynth_conditions
#' @examples
#' tryCatch(read_release("nowhere"), surveysynth_input_error = function(e) e$code)
NULL

# A function that says what work is at.
teller <- function() {
  if (!isTRUE(getOption("surveysynth.progress", TRUE))) return(function(text) invisible())
  if (in_a_page()) return(function(text) to_the_console(as_text(text)))
  if (!interactive() || !requireNamespace("cli", quietly = TRUE)) return(function(text) say(as_text(text)))
  bar <- NULL
  shown <- parent.frame() # the bar goes when the function that asks Python returns
  function(text) {
    text <- gsub("([{}])", "\\1\\1", as_text(text))
    if (is.null(bar)) bar <<- cli::cli_progress_message(text, .envir = shown) else cli::cli_progress_update(
      id = bar, status = text, .envir = shown)
    invisible()
  }
}

as_text <- function(text) if (inherits(text, "python.builtin.object")) reticulate::py_to_r(text) else text

say <- function(...) {
  message(structure(class = c("surveysynth_message", "message", "condition"),
                    list(message = paste0(..., "\n"), call = NULL)))
}

# What rests on the confidential file, and is not for publication.
tell_internal <- function(text) {
  if (!isTRUE(getOption("surveysynth.progress", TRUE))) return(invisible())
  if (in_a_page()) return(to_the_console(text))
  message(structure(class = c("surveysynth_internal", "surveysynth_message", "message", "condition"),
                    list(message = paste0(text, "\n"), call = NULL)))
}

warn_internal <- function(...) {
  text <- paste0(...)
  if (in_a_page()) to_the_console("Warning: ", text) else warning(warning_of(text, "surveysynth_internal"))
}

warning_of <- function(text, class = NULL) {
  structure(class = c(class, "surveysynth_warning", "warning", "condition"), list(message = text, call = NULL))
}

in_a_page <- function() isTRUE(getOption("knitr.in.progress"))

# Of messages and warnings knitr takes all, of stderr nothing.
to_the_console <- function(...) cat(..., "\n", sep = "", file = stderr())

# A call of one of Python's constructors, to be made there, and the name that it has in R:
# make("AsinhTransform", "asinh_transform", scale = 10).
make <- function(constructor, name, ..., class = NULL) {
  structure(list(constructor = constructor, name = name, arguments = without_null(list(...))),
            class = c(class, "surveysynth_made"))
}

without_null <- function(x) x[!vapply(x, is.null, NA)]

# Numbers with all their digits, which jsonlite has not; I() keeps a vector of one a list.
as_json <- function(x) {
  text <- jsonlite::toJSON(in_json(x), auto_unbox = TRUE, json_verbatim = TRUE, null = "null", na = "null")
  enc2utf8(as.character(text))
}

in_json <- function(x) {
  if (inherits(x, "surveysynth_made")) x <- c(list(`__make__` = x$constructor), x$arguments)
  if (is.list(x)) {
    x <- lapply(without_null(x), in_json)
    return(if (length(x) || is.null(names(x))) x else stats::setNames(list(), character()))
  }
  if (!is.double(x)) return(x)
  if (inherits(x, "Date")) x <- if (inherits(x, "AsIs")) I(as.numeric(x)) else as.numeric(x) # days
  text <- sprintf("%.17g", x)
  text[is.na(x)] <- "NaN"
  text[is.infinite(x)] <- ifelse(x[is.infinite(x)] > 0, "Infinity", "-Infinity")
  if (length(x) != 1 || inherits(x, "AsIs")) text <- paste0("[", paste(text, collapse = ","), "]")
  structure(text, class = "json")
}

# A folder that nobody else can read, nor what either language writes into it; gone when `use` has returned or failed.
in_folder <- function(use) {
  mask <- Sys.umask("077")
  on.exit(Sys.umask(mask))
  folder <- tempfile("surveysynth")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE, force = TRUE), add = TRUE)
  use(normalizePath(folder, "/"))
}

# A frame for Python, in a subfolder of its own.
frame_for_python <- function(frame, folder, name) {
  folder <- file.path(folder, name)
  dir.create(folder)
  save_frame(frame, folder)
  make("frame", "frame", folder = folder)
}

# A frame that a task of the bridge leaves in a folder.
frame_from_python <- function(task, folder, ..., objects = list()) {
  out <- file.path(folder, "result")
  dir.create(out)
  ask_python(task, folder = out, ..., objects = objects)
  loaded(out)
}

# A frame of R's own, without the types that it had in Python.
loaded <- function(folder) structure(load_frame(folder), pandas = NULL)

# ---- which Python

python_bridge <- function() {
  if (is.null(session$bridge)) {
    session$bridge <- start_python()
    # an object that lives as long as R does
    reg.finalizer(globalenv(), function(e) try(session$bridge$stop(), silent = TRUE), onexit = TRUE)
  }
  session$bridge
}

start_python <- function() {
  python <- python_of_session()
  old <- Sys.getenv("RETICULATE_PYTHON", NA)
  Sys.setenv(RETICULATE_PYTHON = python) # reticulate's own search starts and ends there
  on.exit(if (is.na(old)) Sys.unsetenv("RETICULATE_PYTHON") else Sys.setenv(RETICULATE_PYTHON = old))
  tryCatch(
    reticulate::import_from_path("surveysynth_bridge", system.file("python", package = "surveysynth"), convert = FALSE),
    error = function(e) {
      refuse("the Python at ", python, " cannot load surveysynth: ", strsplit(conditionMessage(e), "\n")[[1]][1],
             ". Run surveysynth_setup()", code = "setup")
    }
  )
}

# The Python that runs in this session, or the one that would.
python_of_session <- function() if (reticulate::py_available()) running_python() else first_usable(candidates())

running_python <- function() {
  python <- reticulate::py_config()$python
  fault <- fault_of(python)
  if (!is.null(fault)) {
    refuse("this R session runs the Python at ", python, " already, which ", fault,
           "; a session can run one Python only: restart R, then call surveysynth_setup()", code = "setup")
  }
  python
}

# Where Python with surveysynth may be, in the order in which it is looked for.
candidates <- function(python = session$python, envname = ENVNAME) {
  found <- list(
    "the argument python" = python,
    SURVEYSYNTH_PYTHON = Sys.getenv("SURVEYSYNTH_PYTHON"),
    RETICULATE_PYTHON = Sys.getenv("RETICULATE_PYTHON")
  )
  found[[paste0("the virtual environment ", envname)]] <- reticulate::virtualenv_python(envname)
  Filter(nzchar, without_null(found))
}

# The first that has surveysynth, or an error that says what is wrong with each.
first_usable <- function(candidates) {
  faults <- lapply(candidates, fault_of)
  usable <- vapply(faults, is.null, NA)
  if (any(usable)) return(candidates[[which(usable)[1]]])
  refuse("there is no Python with surveysynth; surveysynth_setup() finds or makes one. Looked at:",
         paste0("\n  ", names(candidates), ": ", candidates, " ", unlist(faults), collapse = ""), code = "setup")
}

#' Is there a Python with surveysynth?
#'
#' Looks where [surveysynth_setup()] and all other functions look, and starts nothing.
#'
#' @return `TRUE` or `FALSE`.
#' @export
#' @examples
#' surveysynth_available()
surveysynth_available <- function() {
  if (reticulate::py_available()) return(is.null(fault_of(reticulate::py_config()$python)))
  any(vapply(candidates(), function(python) is.null(fault_of(python)), NA))
}

# What keeps a Python from being used, or NULL; nothing is loaded into this session.
fault_of <- function(python) {
  if (dir.exists(python)) return("is a folder; name the interpreter in it (bin/python)")
  if (!file.exists(python)) return("is not there")
  found <- suppressWarnings(run_python(python, c("-c", shQuote(LOOK)), stdout = TRUE, stderr = FALSE))
  version <- sub("^surveysynth ", "", grep("^surveysynth ", found, value = TRUE))
  if (length(version) != 1) return("cannot be run")
  if (version == "none") return(LACKING)
  ours <- as.character(utils::packageVersion("surveysynth"))
  if (release_series(version) != release_series(ours)) {
    return(paste0("has surveysynth ", version, ", and this R package is ", ours, ": update the older one"))
  }
  NULL
}

# Run a Python under the search path of libraries that there was before R: R puts its own folders first, and a Python that
# brings its own libraries then finds others there.
run_python <- function(python, arguments, ...) {
  libraries <- Sys.getenv("LD_LIBRARY_PATH")
  set_by <- file.path(R.home("etc"), "ldpaths")
  if (!nzchar(libraries) || !file.exists(set_by)) return(system2(python, arguments, ...))
  ask <- c("unset LD_LIBRARY_PATH", paste0("R_HOME=", shQuote(R.home())), paste(".", shQuote(set_by)),
           "echo \"$LD_LIBRARY_PATH\"")
  of_r <- system(paste(ask, collapse = "; "), intern = TRUE)
  while (nzchar(of_r) && startsWith(libraries, of_r)) { # twice where R was started by R
    libraries <- sub("^:", "", substring(libraries, nchar(of_r) + 1))
  }
  system2(python, arguments, env = paste0("LD_LIBRARY_PATH=", shQuote(libraries)), ...)
}

LACKING <- "has no surveysynth"
LOOK <- paste0(
  "import sys, importlib.metadata as m, importlib.util as u; sys.path[:] = [p for p in sys.path if p]; ",
  "print('surveysynth', m.version('surveysynth') if u.find_spec('surveysynth') else 'none')"
)

release_series <- function(version) paste(strsplit(version, "[.]")[[1]][1:2], collapse = ".")
