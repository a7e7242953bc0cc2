# A Python of the tests' own, which notes what it is called with, and ends as a test asks; it has shiny, or not.
app_python <- function(folder, shiny, said, status) {
  file <- file.path(folder, "python")
  writeLines(c(
    "#!/bin/sh", paste0("case \"$*\" in *shiny*) exit ", if (shiny) 0 else 1, " ;; esac"),
    "{ pwd; umask; for argument; do echo \"$argument\"; done; } > \"$0.log\"",
    if (!is.null(said)) paste("echo", shQuote(said), ">&2"), paste("exit", status)
  ), file)
  Sys.chmod(file, "755")
  file
}

# What that Python was called with, in a new working folder.
called <- function(file, port = 0, browser = FALSE, shiny = TRUE, said = NULL, status = 130) {
  skip_on_os("windows") # whose system2() runs no scripts of sh
  folder <- tempfile("app")
  dir.create(folder)
  here <- setwd(folder)
  on.exit({
    setwd(here)
    unlink(folder, recursive = TRUE)
  })
  python <- app_python(getwd(), shiny, said, status)
  bridge$run_until_stopped(python, bridge$app_arguments(file, port, browser))
  begin <- c(getwd(), system("umask", intern = TRUE)) # what the page writes is as open as what R writes
  expect_identical(readLines("python.log")[1:2], begin)
  readLines("python.log")[-(1:2)]
}

test_that("the page is the command surveysynth app, in the working folder", {
  command <- c("-P", "-m", "surveysynth", "app")
  expect_identical(called("plan.toml"), c(command, "plan.toml", "--port", "0", "--no-browser"))
  expect_identical(called("it's a plan.toml", 8000, TRUE), c(command, "it's a plan.toml", "--port", "8000"))
  expect_identical(called("plan.toml", 1e4)[7], "10000")
  expect_identical(bridge$plan_file("~/plan.toml"), path.expand("~/plan.toml"))
})

test_that("Ctrl-C is no error, whether Python's status comes or the shell's", {
  for (status in c(130, 2)) expect_length(called("plan.toml", said = "Stopped: nothing is lost", status = status), 8)
})

test_that("what cannot be a plan, a port or a choice is refused", {
  refused <- function(code, text) expect_error(code, text, fixed = TRUE, class = "surveysynth_input_error")
  refused(run_app(file.path("nowhere", "plan.toml")), "there is no folder")
  refused(run_app("."), "is a folder; name a file in it")
  for (plan in list(NA_character_, "", c("a", "b"), 1, structure(list(), class = "surveysynth_plan"))) {
    refused(run_app(plan), "plan is the path of the plan's file")
  }
  folder <- tempfile("app")
  dir.create(folder)
  here <- setwd(folder)
  on.exit(setwd(here))
  expect_identical(bridge$plan_file(NULL), "plan.toml")
  for (port in list(-1, 80.5, 65536, NA, "80", c(1, 2))) refused(run_app(port = port), "port is a whole number")
  refused(run_app(browser = NA), "browser is TRUE or FALSE")
  file.create("plan.toml")
  refused(run_app(), "run_app(\"plan.toml\") goes on with it")
})

test_that("what the command refuses is an error in words of R", {
  said <- "Error: port 80 is not free: leave out --port, or give another (Address already in use)"
  expect_error(called("plan.toml", 80, said = said, status = 2), class = "surveysynth_input_error",
               "^port 80 is not free: leave out port, or give another [(]Address already in use[)]$")
  expect_error(called("plan.toml", said = "Error: surveysynth is at fault", status = 1), "^surveysynth is at fault$",
               class = "surveysynth_internal_error")
  expect_error(called("plan.toml", status = 137), "^the page ended with the status 137$",
               class = "surveysynth_internal_error")
})

test_that("a Python that has no shiny, or is missing, is an error of the setup", {
  expect_error(called("plan.toml", shiny = FALSE), "/python -m pip install shiny$", class = "surveysynth_setup_error")
  skip_if(reticulate::py_available(), "another test has started Python")
  session <- bridge$session
  old <- session$python
  session$python <- NULL
  on.exit(session$python <- old)
  with_env(c(SURVEYSYNTH_PYTHON = NA, RETICULATE_PYTHON = NA, WORKON_HOME = tempfile()), {
    expect_error(run_app(tempfile()), "there is no Python with surveysynth", class = "surveysynth_setup_error")
  })
})

test_that("a file that is no plan is refused by the page itself", {
  need_python()
  shiny <- bridge$run_python(python(), c("-P", "-c", shQuote(bridge$LOOK_FOR_SHINY)))
  skip_if(shiny != 0, "that Python has no shiny")
  file <- tempfile(fileext = ".toml")
  on.exit(unlink(file))
  writeLines("no plan", file)
  expect_error(run_app(file, browser = FALSE), "is not a plan", class = "surveysynth_input_error")
})
