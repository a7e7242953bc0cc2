own <- as.character(utils::packageVersion("surveysynth"))

session <- bridge$session

# A Python of the tests' own, which notes what it is told; pip makes it have surveysynth.
make_python <- function(folder, has = "none", unfit = "") {
  bin <- file.path(folder, "bin")
  dir.create(bin, recursive = TRUE)
  file <- file.path(bin, "python")
  writeLines(c(
    "#!/bin/sh", "here=$(dirname \"$0\")", "log=\"${SURVEYSYNTH_TEST_LOG:-/dev/null}\"", "case \"$1 $2\" in",
    "  '-m venv') echo \"$@\" >> \"$log\"; mkdir -p \"$3/bin\"; cp \"$0\" \"$3/bin/python\" ;;",
    "  '-m pip') echo \"$@\" >> \"$log\"; [ \"$4\" != broken ] && touch \"$here/installed\" ;;",
    paste0("  '-c import sys, importlib.util'*) echo \"base ", unfit, "\" ;;"),
    paste0("  *) if [ -e \"$here/installed\" ]; then echo surveysynth ", own, "; else echo surveysynth ", has, "; fi ;;"),
    "esac"
  ), file)
  Sys.chmod(file, "755")
  file
}

# Nothing is found but what a test makes in `home`.
in_home <- function(code) {
  home <- tempfile("home")
  dir.create(home)
  old <- session$python
  session$python <- NULL
  on.exit({
    unlink(home, recursive = TRUE)
    session$python <- old
  })
  log <- file.path(home, "log")
  with_env(c(SURVEYSYNTH_PYTHON = NA, RETICULATE_PYTHON = NA, WORKON_HOME = home, SURVEYSYNTH_TEST_LOG = log),
           code(home, log))
}

test_that("the first Python that has surveysynth is taken, in the order that is documented", {
  in_home(function(home, log) {
    first <- make_python(file.path(home, "a"), own)
    second <- make_python(file.path(home, "b"), sub("[0-9]+$", "7", own))
    lacking <- make_python(file.path(home, "c"))
    third <- make_python(file.path(home, "r-surveysynth"), own)
    set <- function(a, b, quiet = TRUE) {
      hush <- if (quiet) suppressMessages else identity
      with_env(c(SURVEYSYNTH_PYTHON = a, RETICULATE_PYTHON = b), hush(surveysynth_setup()))
    }
    expect_identical(set(first, second), first)
    session$python <- NULL
    fault <- paste0("SURVEYSYNTH_PYTHON: ", lacking, " has no surveysynth")
    suppressMessages(expect_message(found <- set(lacking, second, quiet = FALSE), fault, fixed = TRUE))
    expect_identical(found, second)
    session$python <- NULL
    expect_identical(set(NA, lacking), third)
    expect_message(expect_message(found <- surveysynth_setup(python = second), "surveysynth is in "), "Other sessions")
    expect_identical(found, second)
    expect_identical(bridge$candidates()[[1]], second) # from now on
    expect_false(file.exists(log))
  })
})

test_that("a Python that is named and cannot be used is an error, and no other is taken", {
  in_home(function(home, log) {
    good <- make_python(file.path(home, "a"), own)
    make_python(file.path(home, "r-surveysynth"), own)
    with_env(c(SURVEYSYNTH_PYTHON = good), {
      setup <- function(...) suppressMessages(surveysynth_setup(..., ask = FALSE))
      expect_error(setup("/nonexistent"), "the Python that you name, /nonexistent, is not there")
      expect_error(setup(home), "is a folder; name the interpreter in it \\(bin/python\\)")
      expect_error(setup(make_python(file.path(home, "b"), "99.0")), "has surveysynth 99.0")
      expect_error(setup(make_python(file.path(home, "c"), "none")), "say where the Python package is")
    })
    expect_null(session$python)
  })
})

test_that("a version that does not match is named", {
  in_home(function(home, log) {
    expect_identical(bridge$fault_of(make_python(file.path(home, "a"), "99.0")),
                     paste0("has surveysynth 99.0, and this R package is ", own, ": update the older one"))
    expect_identical(bridge$fault_of(make_python(file.path(home, "b"), "")), "cannot be run")
  })
})

test_that("what would be made is said before it is made, and made only with consent", {
  in_home(function(home, log) {
    base <- make_python(file.path(home, "base"))
    made <- file.path(home, "r-surveysynth", "bin", "python")
    old <- options(askYesNo = function(...) FALSE)
    on.exit(options(old))
    said <- character()
    note <- function(m) {
      said <<- c(said, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
    expect_null(withCallingHandlers(surveysynth_setup(base, package = "the-wheel", ask = TRUE), message = note))
    expect_match(said[1], "the argument python: .* has no surveysynth")
    expect_match(said[2], "This will be run:\n.*-m venv .*r-surveysynth.*\n.*-m pip install 'the-wheel'")
    expect_match(said[3], "Nothing was made")
    expect_false(file.exists(log))
    expect_identical(suppressMessages(surveysynth_setup(base, package = "the-wheel", ask = FALSE)), made)
    expect_identical(readLines(log), c(paste("-m venv", dirname(dirname(made))), "-m pip install the-wheel"))
    expect_identical(bridge$candidates()[[1]], made)
  })
})

test_that("what cannot be made is an error that says why", {
  in_home(function(home, log) {
    base <- make_python(file.path(home, "base"))
    setup <- function(...) suppressMessages(surveysynth_setup(base, ..., ask = FALSE))
    expect_error(setup(), "say where the Python package is.*it would go into .*r-surveysynth, made from",
                 class = "surveysynth_setup_error")
    for (path in c("no/such", "no\\such")) expect_error(setup(package = path), "package = .no.+such. is not there")
    expect_error(setup(package = "broken"), "this failed, with the messages above: .*pip install.* was removed again")
    expect_false(file.exists(file.path(home, "r-surveysynth"))) # nothing half-made stays
    old <- make_python(file.path(home, "old"), unfit = "is 3.9, and 3.11 or later is needed")
    expect_error(suppressMessages(install_surveysynth("the-wheel", python = old, ask = FALSE)),
                 "old/bin/python is 3.9, and 3.11 or later is needed: give another one")
    expect_false(file.exists(file.path(home, "r-surveysynth")))
    dir.create(file.path(home, "r-surveysynth"))
    expect_error(setup(package = "the-wheel"), "is there and is no virtual environment")
  })
})

# A real Python that a script stands for, whose search path of libraries and modules may be spoilt.
real_python <- function(folder, before) {
  dir.create(folder)
  file <- file.path(folder, "python3")
  writeLines(c("#!/bin/sh", before, paste("exec", shQuote(python()), "\"$@\"")), file)
  Sys.chmod(file, "755")
  file
}

without_ssl <- function(folder) {
  dir.create(folder, recursive = TRUE)
  writeLines("raise ImportError('built without ssl')", file.path(folder, "ssl.py"))
  real_python(file.path(folder, "bin"), paste0("export PYTHONPATH=", shQuote(folder)))
}

test_that("a Python that cannot import ssl is refused before anything is made, and one that can is named", {
  skip_on_os("windows")
  need_python()
  in_home(function(home, log) {
    fit <- make_python(file.path(home, "fit"))
    file.rename(fit, fit <- file.path(dirname(fit), "python3"))
    unfit <- without_ssl(file.path(home, "unfit"))
    install <- function(...) suppressMessages(install_surveysynth("the-wheel", ask = FALSE, ...))
    fault <- paste0(unfit, " cannot import ssl, so pip cannot download packages: ")
    named <- paste0(fault, "give another one, python = \"", fit, "\"")
    with_env(c(PATH = paste(c(dirname(unfit), dirname(fit), Sys.getenv("PATH")), collapse = ":")), {
      expect_error(install(), named, fixed = TRUE)
      expect_error(install(python = unfit), named, fixed = TRUE)
    })
    alone <- file.path(home, "alone")
    dir.create(alone)
    for (name in c("sh", "cat")) file.symlink(Sys.which(name), file.path(alone, name))
    with_env(c(PATH = paste(c(dirname(unfit), alone), collapse = ":")), {
      expect_error(install(), paste0(fault, "install Python 3.11 or later, and name it, python = "), fixed = TRUE)
    })
    expect_false(file.exists(log))
    expect_false(file.exists(file.path(home, "r-surveysynth")))
    environment <- make_python(file.path(home, "r-surveysynth"), unfit = "cannot import ssl, so pip cannot download packages")
    expect_error(suppressMessages(install_surveysynth("the-wheel", python = fit, ask = FALSE)),
                 "r-surveysynth/bin/python cannot import ssl.*: remove .*r-surveysynth, and it is made anew")
    expect_true(file.exists(environment))
  })
})

test_that("Python does not search R's folders of libraries, and does those that were there before R", {
  skip_on_os("windows")
  shown <- tempfile("shown")
  dir.create(shown)
  file <- file.path(shown, "python3")
  writeLines(c("#!/bin/sh", "echo \"of Python: $LD_LIBRARY_PATH\""), file)
  Sys.chmod(file, "755")
  script <- tempfile(fileext = ".R")
  writeLines("cat(asNamespace('surveysynth')$run_python(commandArgs(TRUE), '-c', stdout = TRUE))", script)
  searched <- function(before) {
    with_env(c(LD_LIBRARY_PATH = before, R_LIBS = paste(.libPaths(), collapse = ":")),
             system2(file.path(R.home("bin"), "Rscript"), c(script, file), stdout = TRUE))
  }
  expect_identical(searched(NA), "of Python: ")
  expect_identical(searched("/opt/of mine:/opt/other"), "of Python: /opt/of mine:/opt/other")
  here <- searched(Sys.getenv("LD_LIBRARY_PATH")) # as R starts R
  expect_no_match(here, R.home("lib"), fixed = TRUE)
})

test_that("an environment that was there is not removed when pip fails", {
  in_home(function(home, log) {
    base <- make_python(file.path(home, "base"))
    there <- make_python(file.path(home, "r-surveysynth"))
    expect_error(suppressMessages(install_surveysynth("broken", python = base, ask = FALSE)), "this failed")
    expect_true(file.exists(there))
  })
})

test_that("a script makes nothing without being told to", {
  skip_if(interactive())
  in_home(function(home, log) {
    base <- make_python(file.path(home, "base"))
    expect_error(suppressMessages(surveysynth_setup(base, package = "the-wheel")),
                 "nobody can be asked here, so nothing was made; set ask = FALSE.*-m venv", class = "surveysynth_setup_error")
    expect_false(file.exists(log))
    expect_false(file.exists(file.path(home, "r-surveysynth")))
  })
})

test_that("a real Python is looked at before an environment is made of it", {
  need_python()
  expect_null(bridge$unfit(python()))
})
