#' Plan a release on a page, in a browser
#'
#' Opens a page on which a team plans a release together: the survey's file, what is public, outcomes, tables, epsilon and
#' what to expect for it. It writes the plan's file as you go, which [read_plan()] reads. R waits until you stop the page
#' by Ctrl-C. The plan is saved, and `run_app("plan.toml")` goes on with it.
#'
#' The page is on the machine that runs R alone (127.0.0.1), and for the one browser that opens its address, which works
#' once. It is a process of its own, of the Python that the session uses, or would use; that Python needs the package
#' shiny. Data of your session are not seen there: the page asks for the survey's file. As it shows what is computed from
#' the confidential file, it is for the agency alone.
#'
#' @param plan The plan's file (TOML), made if it is not there. Default: a new `plan.toml` in the working folder.
#' @param port Port on this machine; 0 is a free one.
#' @param browser Open the page in a browser; if not, open the address that is printed.
#' @return The path of the plan's file, invisibly, once the page is stopped.
#' @seealso [check_plan()] and [release_plan()], which take the plan from there.
#' @export
#' @examplesIf interactive()
#' plan <- read_plan(run_app("schools.toml"))
#' check_plan(plan)
run_app <- function(plan = NULL, port = 0, browser = interactive()) {
  file <- plan_file(plan)
  arguments <- app_arguments(file, port, browser)
  run_until_stopped(python_of_session(), arguments)
  invisible(file.path(normalizePath(dirname(file), "/"), basename(file)))
}

# What goes wrong becomes R's error, so stderr is kept, and shown at the end; the address goes to stdout. Not by in_folder(),
# whose umask would close what the page writes to everybody else.
run_until_stopped <- function(python, arguments) {
  if (run_python(python, c("-P", "-c", shQuote(LOOK_FOR_SHINY))) != 0) {
    stop_setup("the page needs the Python package shiny; this installs it: ", python, " -m pip install shiny")
  }
  kept <- tempfile("stderr")
  on.exit(unlink(kept))
  status <- run_python(python, arguments, stderr = kept)
  stop_for(readLines(kept, warn = FALSE, encoding = "UTF-8"), status)
}

PLAN_FILE <- "plan.toml"
LOOK_FOR_SHINY <- "import sys, importlib.util as u; sys.exit(u.find_spec('shiny') is None)"

plan_file <- function(plan) {
  if (is.null(plan)) {
    if (!file.exists(PLAN_FILE)) return(PLAN_FILE)
    refuse(sQuote(PLAN_FILE), " exists: run_app(\"", PLAN_FILE, "\") goes on with it, another name begins another plan")
  }
  if (!is.character(plan) || length(plan) != 1 || is.na(plan) || !nzchar(plan)) {
    refuse("plan is the path of the plan's file, such as \"plan.toml\"")
  }
  file <- path.expand(plan)
  if (dir.exists(file)) refuse("plan = ", sQuote(plan), " is a folder; name a file in it")
  if (!dir.exists(dirname(file))) refuse("there is no folder ", sQuote(dirname(file)))
  file
}

app_arguments <- function(file, port, browser) {
  if (!is.numeric(port) || length(port) != 1 || !port %in% 0:65535) refuse("port is a whole number from 0 to 65535")
  if (!isTRUE(browser) && !isFALSE(browser)) refuse("browser is TRUE or FALSE")
  # -P: modules of the working folder are not taken for Python's, as in the command surveysynth
  c("-P", "-m", "surveysynth", "app", shQuote(file), "--port", as.integer(port), if (!browser) "--no-browser")
}

# What the command said on stderr becomes an error, in words of R, unless the user stopped it. The status does not tell:
# after Ctrl-C it is 130, or 2 where a shell stands between R and Python, and 2 is bad input, too.
stop_for <- function(said, status) {
  if (!status %in% c(0, 130) && !any(startsWith(said, "Stopped: "))) {
    text <- sub("^Error: ", "", paste(said, collapse = " "))
    text <- gsub("surveysynth app (\\S+)", "run_app(\"\\1\")", gsub("--port", "port", text, fixed = TRUE))
    if (!nzchar(text)) text <- paste("the page ended with the status", status)
    refuse(text, code = if (status == 2) "input" else "internal")
  }
  if (length(said)) to_the_console(paste(said, collapse = "\n")) # warnings may tell of the file
}
