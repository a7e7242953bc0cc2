library(survey)

# A release folder with known numbers, as the Python package lays one out.
# A manifest that ends with the MD5 sum of the text before it, as Python writes one.
write_manifest <- function(manifest, file) {
  manifest$checksum <- NULL
  text <- sub("\n}$", "", jsonlite::toJSON(manifest, auto_unbox = TRUE, pretty = TRUE))
  writeBin(charToRaw(enc2utf8(text)), file)
  end <- sprintf(",\n  \"checksum\": {\n    \"sha256\": \"\",\n    \"md5\": \"%s\"\n  }\n}\n", tools::md5sum(file))
  writeBin(c(charToRaw(enc2utf8(text)), charToRaw(end)), file)
}

make_release <- function(frames, design = list(weights = "wt", strata = "field")) {
  folder <- tempfile("release")
  dir.create(file.path(folder, "public"), recursive = TRUE)
  for (i in seq_along(frames)) {
    write.csv(frames[[i]], file.path(folder, "public", sprintf("synthetic_%d.csv", i)), row.names = FALSE)
  }
  manifest <- list(
    method = "FBS", m = length(frames), epsilon = 10.8, kind = "asymptotic", publication = "for tests",
    synthesized = "y", public_predictors = c("field", "size"), design = design,
    dtypes = list(field = "str", size = "category", y = "float64", wt = "float64"),
    levels = list(size = list(categories = c("small", "large"), ordered = TRUE))
  )
  listed <- function(name, frame) {
    list(records = nrow(frame), columns = ncol(frame), md5 = unname(tools::md5sum(file.path(folder, "public", name))))
  }
  names <- sprintf("synthetic_%d.csv", seq_along(frames))
  manifest$files <- stats::setNames(Map(listed, names, frames), names)
  write_manifest(manifest, file.path(folder, "public", "manifest.json"))
  folder
}

frame <- function(shift) {
  data.frame(field = rep(c("01", "02"), each = 4), size = rep(c("small", "large"), 4),
             y = c(1, 2, 4, 8, 3, 5, 7, 9) + shift, wt = c(2, 1, 1, 3, 2, 2, 1, 1))
}

test_that("files become designs, text stays text and categories keep their order", {
  release <- read_release(make_release(list(frame(0), frame(1))))
  expect_length(release$designs, 2)
  expect_identical(release$designs[[1]]$variables$field[1], "01")
  expect_identical(levels(release$designs[[1]]$variables$size), c("small", "large"))
  expect_equal(degf(release$designs[[1]]), 6)
  expect_output(print(release), "2 synthetic data sets of 8 records by FBS, epsilon = 10.8")
})

test_that("combine_release() is the partial-synthesis rule, by hand", {
  release <- read_release(make_release(list(frame(0), frame(0.5), frame(2))))
  each <- lapply(release$designs, function(d) svymean(~y, d))
  q <- vapply(each, function(x) coef(x)[["y"]], 0)
  u <- vapply(each, function(x) SE(x)[[1]]^2, 0)
  got <- as.data.frame(combine_release(with_release(release, svymean(~y, design))))
  expect_equal(got$estimate, mean(q))
  expect_equal(got$se, sqrt(mean(u) + var(q) / 3))
  expect_equal(got$df, min(2 * (1 + mean(u) / (var(q) / 3))^2, 6))
  rubin <- sqrt(mean(u) + (1 + 1 / 3) * var(q))
  expect_gt(rubin / got$se, 1.05)
  limits <- confint(combine_release(with_release(release, svymean(~y, design))))
  expect_equal(unname(limits[1, ]), c(got$ci_low, got$ci_high))
})

test_that("a category that is missing from one data set is combined over the others", {
  lacking <- subset(frame(1), size == "small")
  release <- read_release(make_release(list(frame(0), lacking, frame(3))))
  got <- as.data.frame(combine_release(with_release(release, svyby(~y, ~size, design, svymean))))
  expect_identical(got$m, c(3, 2))
  large <- vapply(release$designs[c(1, 3)], function(d) coef(svymean(~y, subset(d, size == "large")))[["y"]], 0)
  expect_equal(got["large", "estimate"], mean(large))
})

test_that("variables of the caller are seen, and one data set has no between variance", {
  release <- read_release(make_release(list(frame(0))))
  what <- ~y
  got <- as.data.frame(combine_release(with_release(release, svytotal(what, design))))
  expect_equal(got$se, unname(SE(svytotal(~y, release$designs[[1]]))[[1]]))
  expect_equal(got$df, 6)
})

test_that("a logical predictor is one again", {
  truth <- transform(frame(0), old = y > 4)
  python <- transform(truth, old = ifelse(old, "True", "False"), gone = "", both = rep(c("True", "False"), 4))
  folder <- make_release(list(python))
  file <- file.path(folder, "public", "manifest.json")
  manifest <- jsonlite::fromJSON(file)
  manifest$dtypes <- c(manifest$dtypes, list(old = "bool", gone = "boolean", both = "category"))
  manifest$levels$both <- list(categories = c(TRUE, FALSE), ordered = FALSE)
  write_manifest(manifest, file)
  read <- read_release(folder)$designs[[1]]$variables
  expect_identical(read$old, truth$old)
  expect_identical(read$gone, rep(NA, 8))
  expect_identical(read$both, factor(rep(c("TRUE", "FALSE"), 4), c("TRUE", "FALSE")))
  need_python()
  design <- svydesign(ids = ~1, weights = ~pw, data = transform(apistrat, big = enroll > 500))
  made <- synthesize(design, fbs(api00 ~ big, prior = "flat"), 9, m = 1, seed = 1, mechanism = pseudo_posterior())
  write_release(made, folder <- tempfile("release"))
  expect_type(made$designs[[1]]$variables$big, "logical")
  expect_equal(read_release(folder)$designs[[1]]$variables, made$designs[[1]]$variables)
})

test_that("a file that is not the published one is refused", {
  published <- list(frame(0), transform(frame(1), size = "a \"b\", 'c' #\nd"))
  refused <- function(hurt, ...) {
    folder <- make_release(published)
    expect_length(read_release(folder)$designs, 2)
    hurt(file.path(folder, "public", "synthetic_2.csv"))
    for (path in c(folder, file.path(folder, "public"))) {
      said <- tryCatch(read_release(path), error = conditionMessage)
      expect_match(said, "is not what was published: .*opened and saved is not the file that was published$")
      for (fault in c(...)) expect_match(said, fault)
    }
  }
  saved <- function(...) function(file) write.csv(data.frame(...), file, row.names = FALSE)
  refused(unlink, "synthetic_2.csv. is missing")
  refused(saved(published[[2]][1:3, ]), "synthetic_2.csv. has 3 records instead of 8[.]")
  refused(saved(published[[2]][-1]), "synthetic_2.csv. has 3 columns instead of 4[.]")
  refused(saved(frame(1)[1:2, 1:2]), "synthetic_2.csv. has 2 records instead of 8 and 2 columns instead of 4[.]")
  refused(saved(transform(frame(1), y = y * 10)), "synthetic_2.csv. has other content \\(its (MD5 sum|SHA-256) differs\\)")
  refused(function(file) writeLines(readLines(file), file, sep = "\r\n"), "has other content")
  refused(function(file) file.create(file), "has 0 records instead of 8 and 0 columns instead of 4")
  refused(function(file) {
    unlink(file)
    saved(frame(1)[1:3, ])(sub("_2", "_1", file))
  }, "synthetic_1.csv. has 3 records instead of 8; .synthetic_2.csv. is missing")
})

test_that("a manifest has to list the files, and R reads csv", {
  folder <- make_release(list(frame(0)))
  file <- file.path(folder, "public", "manifest.json")
  manifest <- jsonlite::fromJSON(file)
  names(manifest$files) <- "synthetic_1.parquet"
  write_manifest(manifest, file)
  file.rename(file.path(folder, "public", "synthetic_1.csv"), file.path(folder, "public", "synthetic_1.parquet"))
  expect_error(read_release(folder), "no synthetic_1.csv; write it with format = \"csv\"")
})

test_that("a manifest is verified by its own checksum", {
  folder <- make_release(list(frame(0)))
  file <- file.path(folder, "public", "manifest.json")
  text <- readLines(file)
  writeLines(sub("10.8", "10.9", text, fixed = TRUE), file)
  expect_error(read_release(folder), "manifest.json. is not what was written: its text does not fit its checksum")
  writeLines(text[seq_len(length(text) - 3)], file)
  expect_error(read_release(folder), "is not what was written")
  jsonlite::write_json(jsonlite::fromJSON(paste(text, collapse = "\n")), file, auto_unbox = TRUE)
  expect_error(read_release(folder), "cannot be verified: it does not end with its own checksum")
})

test_that("Python's release is refused by R where it lost records", {
  need_python()
  write_release(shared_release(), folder <- tempfile("release"), by = ~ stype)
  expect_null(read_release(folder)$manifest$files)
  file <- file.path(folder, "public", "synthetic_1.csv")
  lines <- readLines(file)
  writeLines(lines[1:40], file)
  expect_error(read_release(folder), "synthetic_1.csv. has 39 records instead of 200[.]")
  writeLines(lines, file)
  expect_length(read_release(folder)$designs, 3)
  cat(" ", file = file.path(folder, "public", "report.txt"), append = TRUE)
  expect_error(read_release(folder), "report.txt. has other content")
})

test_that("a release and its designs show themselves in names of the file", {
  release <- read_release(make_release(list(frame(0))))
  expect_output(print(release), "^1 synthetic data set of 8 .*\nPublication: for tests$")
  expect_identical(deparse1(release$designs[[1]]$call),
                   "svydesign(ids = ~1, strata = ~field, weights = ~wt, data = frame)")
  roles <- list(weights = "wt", psu = list("y", "wt"), strata = "field", fpc = list("wt", "size"))
  roles$fpc <- NULL
  expect_identical(deparse1(bridge$synthetic_design(frame(0), roles)$call),
                   "svydesign(ids = ~y + wt, strata = ~field, weights = ~wt, data = frame)")
})

test_that("a folder that is no release is refused", {
  expect_error(read_release(tempdir()), "not a release")
  release <- read_release(system.file("example-release", package = "surveysynth"))
  said <- expect_no_warning(expect_error(read_release(release), "not a release: write_release\\(release, path\\)"))
  expect_lt(nchar(conditionMessage(said)), 150) # R's own words would quote the records
  expect_error(resume_release(apistrat), "not an object of class data.frame")
  expect_error(public_dossier(release, tempfile()), "path names the folder of a release")
  expect_error(dossier(release, strat, tempfile()), "path names the folder of a release")
  expect_error(dossier("nowhere", strat, strat), "out names a new folder, not an object of class survey.design2")
})

test_that("a release that was made here and one that was read are the same but for the way", {
  need_python()
  made <- shared_release()
  folder <- tempfile("release")
  write_release(made, folder, by = ~ stype, min_cell = 3)
  read <- read_release(folder)
  expect_equal(lapply(read$designs, function(d) d$variables), lapply(made$designs, function(d) d$variables))
  expect_equal(read$manifest, made$manifest)
  expect_equal(tables(read, by = "stype"), tables(made, by = "stype"))
  expect_equal(privacy(read), privacy(made))
  expect_identical(list.files(file.path(folder, "public")),
                   c("csv-metadata.json", "datapackage.json", "manifest.json", "report.txt",
                     paste0("synthetic_", 1:3, ".csv"), paste0("tables.", c("csv", "html", "xlsx"))))
  expect_identical(format(file.info(file.path(folder, "internal"))$mode), "700")
  expect_error(write_release(made, folder), "exists; choose another place")
  expect_identical(write_release(made, folder, overwrite = TRUE), folder)
  public <- tempfile("published")
  file.copy(file.path(folder, "public"), dirname(public), recursive = TRUE)
  file.rename(file.path(dirname(public), "public"), public)
  expect_equal(read_release(public)$manifest, made$manifest)
})

test_that("the privacy report is the text that Python writes", {
  need_python()
  fixed <- synthesize(strat, quick, m = 1, mechanism = pseudo_posterior(c1 = 1), seed = 1) # no epsilon was asked for
  for (release in list(shared_release(), fixed)) {
    folder <- tempfile("release")
    write_release(release, folder)
    text <- from_python("
import surveysynth as ss
print(json.dumps(str(ss.read_release(sys.argv[1]).privacy)))", folder)
    expect_identical(paste(format(privacy(release)), collapse = "\n"), text)
    shown <- paste(trimws(capture.output(print(privacy(release)))), collapse = " ")
    expect_identical(gsub("[[:space:]]+", " ", shown), gsub("[[:space:]]+", " ", text))
    expect_equal(privacy(release)$neighbours[["replace one record"]], 2 * privacy(release)$epsilon)
  }
})

in_later_session <- function(script, ...) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c("suppressMessages(library(survey)); library(surveysynth)", script), file)
  with_env(c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)), {
    system2(file.path(R.home("bin"), "Rscript"), c(file, shQuote(c(...))), stdout = TRUE)
  })
}

test_that("a release that saveRDS() keeps has tables, columns, files and estimates in a later session", {
  need_python()
  frame <- transform(apistrat, large = enroll > 600, group = factor(sch.wide, c("Yes", "No")))
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = frame)
  strict <- synthesize(design, api00 ~ stype + large + group, 20, m = 4, population_total = 6194, bounds = c(200, 1000))
  smoothed <- synthesize(design, fbp(api00 ~ stype, prior = "flat"), 9, m = 2, mechanism = pseudo_posterior())
  made <- list(strict, smoothed)
  folder <- tempfile("saved")
  dir.create(folder)
  for (i in seq_along(made)) write_release(made[[i]], file.path(folder, paste0("made_", i)), by = ~ stype)
  saveRDS(lapply(made, update, low = api00 < 600), file.path(folder, "releases.rds"))
  in_later_session("
folder <- commandArgs(TRUE)
tables_of <- function(release) as.data.frame(tables(release, by = ~ stype + low, where = ~ api00 < 700))
estimates_of <- function(release) as.data.frame(combine_release(with(release, svymean(~low))))
saved <- readRDS(file.path(folder, 'releases.rds'))
again <- lapply(saved, function(release) update(release, twice = 2 * api00))
for (i in 1:2) write_release(again[[i]], file.path(folder, paste0('again_', i)), by = 'stype', overwrite = TRUE)
saveRDS(list(lapply(saved, tables_of), lapply(saved, estimates_of)), file.path(folder, 'later.rds'))", folder)
  later <- readRDS(file.path(folder, "later.rds"))
  now <- lapply(made, update, low = api00 < 600)
  expect_equal(later[[1]], lapply(now, function(x) as.data.frame(tables(x, by = ~ stype + low, where = ~ api00 < 700))))
  expect_equal(later[[2]], lapply(now, function(x) as.data.frame(combine_release(with(x, svymean(~low))))))
  for (i in 1:2) {
    again <- read_release(file.path(folder, paste0("again_", i)))
    expect_identical(again$manifest$derived, c("low", "twice"))
    expect_identical(again$designs[[2]]$variables[names(made[[i]]$designs[[2]]$variables)], made[[i]]$designs[[2]]$variables,
                     ignore_attr = TRUE)
  }
})

test_that("a saved release is written as it was, and holds nothing that is internal", {
  need_python()
  later <- function(release) unserialize(serialize(release, NULL))
  secret <- 987.654321
  made_in_a_function <- function() {
    frame <- apistrat
    frame$api00[7] <- secret
    design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = frame)
    limit <- 600
    half <- function(x) x / 2
    release <- synthesize(design, quick, 9, m = 1, seed = 2, mechanism = pseudo_posterior())
    update(release, low = api00 < limit, half = half(api00))
  }
  made <- made_in_a_function()
  holds <- function(x) length(grepRaw(writeBin(secret, raw(), endian = "big"), serialize(x, NULL), fixed = TRUE)) > 0
  expect_true(holds(list(secret))) # it would be found
  expect_false(holds(made))
  plain <- synthesize(strat, quick, 9, m = 1, seed = 2, mechanism = pseudo_posterior())
  expect_equal(combine_release(with(later(plain), svymean(~api00))), combine_release(with(plain, svymean(~api00))))
  folders <- c(tempfile("first"), tempfile("second"), tempfile("third"))
  write_release(plain, folders[1])
  saved <- later(plain)
  rm("object", envir = saved$python) # as in a session in which Python does not have it
  write_release(saved, folders[2])
  moved <- later(read_release(folders[1]))
  there <- file.path(folders[1], "public")
  sums <- function(folder) unname(tools::md5sum(sort(list.files(folder, full.names = TRUE))))
  expect_identical(sums(file.path(folders[2], "public")), sums(there))
  expect_identical(list.files(file.path(folders[2], "internal")), "privacy.json")
  expect_identical(readLines(file.path(folders[2], "internal", "privacy.json")), "{}")
  file.rename(folders[1], folder <- tempfile("elsewhere"))
  write_release(moved, folders[3])
  expect_identical(sums(file.path(folders[3], "public")), sums(file.path(folder, "public")))
  old <- later(plain)
  rm("object", "text", envir = old$python)
  expect_error(tables(old), "saved by an older version")
})

test_that("a release that was read knows whether its folder has changed", {
  need_python()
  made <- synthesize(strat, quick, 9, m = 1, seed = 2, mechanism = pseudo_posterior())
  write_release(made, folder <- tempfile("release"))
  read <- unserialize(serialize(read_release(folder), NULL))
  expect_equal(tables(read), tables(made))
  expect_error(identification_risk(apistrat, read, ~ stype, "api00"), "does not say which confidential record")
  read <- read_release(folder)
  write_release(shared_release(), folder, overwrite = TRUE)
  expect_error(tables(read), "is not what it was when this release was read")
  expect_error(tables(list()), "a release is what synthesize\\(\\) and read_release\\(\\) return")
})

test_that("all data sets stand below each other, with their number", {
  release <- read_release(make_release(list(frame(0), frame(1))))
  stacked <- as.data.frame(release)
  expect_identical(stacked$data_set, rep(1:2, each = 8))
  expect_equal(stacked$y, c(frame(0)$y, frame(1)$y))
  expect_identical(names(stacked), c("data_set", names(frame(0))))
})

test_that("a summary has the combined means", {
  release <- read_release(make_release(list(frame(0), frame(0.5), frame(2))))
  expect_equal(summary(release)$means, as.data.frame(combine_release(with_release(release, svymean(~y, design)))))
  expect_output(print(summary(release)), "3 synthetic data sets.*Means over the data sets.*estimate")
})

test_that("a release is entered in its ledger when it is written, and nothing is left to resume", {
  need_python()
  folder <- tempfile("release")
  budget <- ledger(tempfile("budget"), "schools", cap = 500, create = TRUE)
  write_release(shared_release(), folder, ledger = budget)
  expect_identical(nrow(as.data.frame(budget)), 1L)
  again <- read_release(folder)
  expect_identical(again$manifest$ledger$entry, 2L)
  expect_identical(verify_ledger(budget, list(again))$release, "release 1")
  expect_error(resume_release(folder), "nothing to resume")
})
