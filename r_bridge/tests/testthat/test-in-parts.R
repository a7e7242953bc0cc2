# A file of 2,000 people in parquet, whose pay and weights go with the region.
census <- local({
  folder <- NULL
  function() {
    if (is.null(folder)) {
      folder <<- tempfile("census")
      dir.create(folder)
      from_python("
import numpy as np, pandas as pd
rng, n = np.random.default_rng(1), 2_000
people = pd.DataFrame({'region': rng.choice(['east', 'west'], n), 'sex': rng.choice(['f', 'm'], n)})
people['pay'] = np.exp(9 + 0.3 * (people['region'] == 'east') + 0.6 * rng.standard_normal(n))
people['w'] = 25 * np.exp(0.2 * (people['region'] == 'west') + 0.4 * rng.standard_normal(n))
people['area'] = rng.integers(0, 20, n)
for k in range(2):
    people[k::2].to_parquet(f'{sys.argv[1]}/{k}.parquet')
print('{}')", folder)
    }
    folder
  }
})

in_memory <- function() {
  people <- from_python("
import pandas as pd
print(json.dumps(pd.read_parquet(sys.argv[1]).to_dict('list')))", census())
  svydesign(ids = ~area, strata = ~region, weights = ~w, data = as.data.frame(people), nest = TRUE)
}

test_that("a file in parts is released as Python releases it, tabulated, written and opened again", {
  need_python()
  release <- synthesize_in_parts(census(), pay ~ region + sex, weights = ~w, epsilon = 20, population_total = 5e4, m = 2,
                                 mechanism = pseudo_posterior(), seed = 3, labels = c(pay = "Pay a year"))
  expect_output(print(release), "2 synthetic data sets of 2000 records in files by FBS, epsilon = 20 \\(asymptotic\\)")
  expect_identical(privacy(release)$kind, "asymptotic")
  here <- tables(release, by = ~ region, statistic = c("count", "mean"))
  there <- from_python("
import surveysynth as ss
release = ss.synthesize_in_parts(sys.argv[1], 'pay ~ region + sex', weights='w', epsilon=20, population_total=5e4, m=2,
                                 mechanism=ss.PseudoPosterior(), seed=3)
table = release.tables(by='region', statistic=['count', 'mean'])
print(json.dumps({c: table[c].tolist() for c in ['region', 'estimate', 'se']}))", census())
  expect_identical(here$region, there$region)
  expect_equal(here$estimate, there$estimate, tolerance = 1e-12)
  expect_equal(here$se, there$se, tolerance = 1e-12)

  folder <- tempfile("release")
  expect_identical(write_release(release, folder, by = ~ region), folder)
  again <- scan_release(folder)
  expect_equal(tables(again, by = ~ region, statistic = c("count", "mean"))$se, here$se, tolerance = 1e-12)
  beside <- compare_release(census(), again, by = ~ region)
  means <- subset(beside$cells, statistic == "mean" & region != "all")
  own <- svyby(~ pay, ~ region, svydesign(ids = ~1, weights = ~w, data = in_memory()$variables), svymean)
  expect_equal(means$estimate[match(own$region, means$region)], unname(coef(own)), tolerance = 1e-9)
  expect_equal(means$se[match(own$region, means$region)], unname(SE(own)), tolerance = 1e-9)
})

test_that("sampling units of a release in files give the standard errors of the survey package", {
  need_python()
  design <- in_memory()
  release <- synthesize(design, fbs(pay ~ region + sex, prior = "flat"), 20, m = 2, population_total = 5e4, seed = 1,
                        mechanism = pseudo_posterior())
  folder <- tempfile("release")
  write_release(release, folder, format = "parquet", by = ~ region)
  here <- tables(scan_release(folder), by = ~ region, statistic = "mean")
  there <- combine_release(with_release(release, svyby(~ pay, ~ region, design, svymean)))
  at <- match(c("east", "west"), here$region)
  expect_equal(here$estimate[at], unname(coef(there)), tolerance = 1e-9)
  expect_equal(here$se[at], unname(SE(there)), tolerance = 1e-9)
  beside <- compare_release(census(), scan_release(folder), by = ~ region, statistic = "total")
  own <- svyby(~ pay, ~ region, design, svytotal)
  expect_equal(beside$cells$se[match(own$region, beside$cells$region)], unname(SE(own)), tolerance = 1e-9)
})

test_that("what is not for files in parts is refused", {
  need_python()
  expect_error(synthesize_in_parts(apistrat, pay ~ region, ~w, 20, 5e4), "files names parquet files, or a folder of such")
  expect_error(synthesize_in_parts(census(), negbin(pay ~ region), ~w, 20, 5e4), class = "surveysynth_input_error")
  expect_error(scan_release(shared_release()), "path names the folder of a release")
  folder <- tempfile("release")
  write_release(shared_release(), folder, format = "parquet", by = ~ stype)
  release <- scan_release(folder)
  expect_error(tables(release, by = ~ stype, where = ~ awards == "Yes", level = 0.9), "of a release in files there is no where, level, but by, outcome")
  expect_error(compare_release(strat, release), "design names parquet files")
  expect_error(write_release(release, tempfile(), format = "csv"), "are parquet files")
  expect_error(with_release(release, svymean(~api00, design)), class = "surveysynth_input_error")
  expect_error(resume_in_parts(tempfile()), class = "surveysynth_input_error")
})

test_that("what was not written goes where R ends", {
  need_python()
  scratch <- tempfile("scratch")
  dir.create(scratch)
  census()
  code <- bquote({
    .libPaths(.(.libPaths()))
    library(surveysynth)
    release <- synthesize_in_parts(.(census()), pay ~ region, ~w, 20, 5e4, m = 2, mechanism = pseudo_posterior(),
                                   scratch = .(scratch))
    cat(length(list.files(.(scratch))), nrow(tables(release, by = ~ region)))
  })
  file <- tempfile(fileext = ".R")
  writeLines(deparse(code), file)
  said <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(file)), stdout = TRUE, stderr = TRUE)
  expect_identical(utils::tail(said, 1), "1 6")
  expect_identical(list.files(scratch), character())
})

test_that("a run that was cut off goes on", {
  need_python()
  scratch <- tempfile("scratch")
  dir.create(scratch)
  from_python("
import surveysynth as ss
from surveysynth.synthesis import in_parts
in_parts.Unfinished.finished = lambda self, team: print('{}')  # cut off here
ss.synthesize_in_parts(sys.argv[1], 'pay ~ region', weights='w', epsilon=20, population_total=5e4, m=2, scratch=sys.argv[2],
                       mechanism=ss.PseudoPosterior())", census(), scratch)
  folder <- list.files(scratch, "^surveysynth-", full.names = TRUE)
  release <- resume_in_parts(folder)
  expect_identical(release$n, 2000L)
  expect_identical(tables(release, statistic = "count")$n, 2000L)
})
