planned <- function(folder) {
  dir.create(folder)
  write.csv(apistrat[c("stype", "api00", "awards", "pw")], file.path(folder, "schools.csv"), row.names = FALSE)
  writeLines(c(
    "[survey]", "file = \"schools.csv\"", "weights = \"pw\"", "strata = \"stype\"",
    "[model]", "formula = \"api00 ~ stype + awards\"", "prior = \"flat\"",
    "[privacy]", "epsilon = 30", "mechanism = \"pseudo-posterior\"", "population_total = 6194",
    "[tables]", "by = [\"stype\"]", "[release]", "m = 2", "title = \"Schools\""
  ), file.path(folder, "plan.toml"))
  file.path(folder, "plan.toml")
}

test_that("a plan makes the same release from R and from Python, byte by byte", {
  need_python()
  file <- planned(folder <- tempfile("plan"))
  plan <- read_plan(file)
  expect_output(print(plan), "asymptotic", fixed = TRUE)
  expect_output(said <- check_plan(plan, inside = TRUE), "for the agency alone", fixed = TRUE)
  expect_match(said, "6,194", fixed = TRUE)
  release <- release_plan(plan, seed = 7)
  expect_identical(release$manifest$title, "Schools")
  expect_s3_class(tables(release, by = ~stype), "surveysynth_table")
  theirs <- from_python("
import json, sys, surveysynth as ss
plan = ss.Plan.read(sys.argv[1])
print(json.dumps(str(plan.write(plan.release(seed=7), sys.argv[2]))))", file, file.path(folder, "python"))
  public <- function(of) {
    files <- list.files(file.path(of, "public"), full.names = TRUE)
    stats::setNames(tools::md5sum(files), basename(files))
  }
  expect_true(all(c("manifest.json", "tables.csv", "tables.xlsx", "synthetic_1.csv") %in% names(public(theirs))))
  expect_identical(public(file.path(folder, "release")), public(theirs))
})

test_that("entries of a plan can be overridden, and wrong ones are refused", {
  need_python()
  file <- planned(tempfile("plan"))
  expect_match(read_plan(file, list(privacy.epsilon = 40))$text, "epsilon = 40", fixed = TRUE)
  expect_error(read_plan(file, list(privacy.epsilo = 40)), "did you mean epsilon", fixed = TRUE)
  expect_error(read_plan(tempfile()), "there is no file")
  expect_error(check_plan("plan.toml"), "a plan is what read_plan() returns", fixed = TRUE)
})

test_that("a table says what epsilons and numbers of data sets buy", {
  need_python()
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  costs <- privacy_cost(design, fbs(api00 ~ stype, prior = "flat"))
  expect_named(costs, c("m", "epsilon", "information", "se_ratio", "verdict"))
  expect_identical(is.na(costs$se_ratio), costs$verdict == "refused")
  expect_lte(max(diff(subset(costs, m == 3 & verdict != "refused")$se_ratio)), 0)
  expect_error(privacy_cost(design, fbs(api00 ~ stype), bounds = c(200, 1000)), "has no argument .bounds.")
})

test_that("what a strict release will be worth is the same from R and from Python, and needs no outcome", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "api00", "enroll", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  ours <- expected_errors(design, list(api00 ~ stype, enroll ~ stype + api00), 5, by = ~stype, delta = 1e-10, m = 4,
                          population_totals = list(stype = c(E = 4421, H = 755, M = 1018)),
                          bounds = list(api00 = c(200, 1000), enroll = c(0, 4000)))
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
expected = ss.expected_errors(design, ['api00 ~ stype', 'enroll ~ stype + api00'], epsilon=5, by='stype', delta=1e-10, m=4,
                              population_totals={'stype': {'E': 4421, 'H': 755, 'M': 1018}},
                              outcomes={'api00': ss.Outcome(bounds=(200, 1000), whole=True),  # columns of integers
                                        'enroll': ss.Outcome(bounds=(0, 4000), whole=True)})
print(json.dumps(expected.astype({'stype': str}).to_dict('list')))", csv)
  expect_equal(lapply(as.list(ours), function(x) if (is.factor(x)) as.character(x) else x), theirs, tolerance = 1e-12)
  hidden <- update(design, api00 = rev(api00))
  asked <- function(design) {
    expected_errors(design, api00 ~ stype, 5, m = 4, population_total = 6194, bounds = c(200, 1000), weight = "public")
  }
  expect_identical(asked(design), asked(hidden))
})

test_that("a plan whose synthetic files are parquet gives their folder", {
  need_python()
  plan <- read_plan(planned(folder <- tempfile("plan")), set = list(release.format = "parquet"))
  place <- release_plan(plan, seed = 7)
  expect_true(file.exists(file.path(place, "public", "synthetic_1.parquet")))
  unlink(folder, recursive = TRUE)
})
