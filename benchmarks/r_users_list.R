# What an R user asks of the package, in R alone: releases of the example files of survey and laeken in one call each, with
# the time that they take; estimates of a confidential design beside those of survey; a release that one R session saves and
# another one uses; and the R user's list, a line each: what was asked, what it gave by the words of issue 60 ("asked for"
# where these say no more; its numbers are of other files), what it gives here.
#
#   Rscript benchmarks/r_users_list.R           half a minute; needs survey, surveysynth with its Python, and laeken for ses
#
# There is no seed, so released numbers differ from run to run. The files are open to everybody.
suppressPackageStartupMessages({
  library(survey)
  library(surveysynth)
})
options(surveysynth.progress = FALSE, width = 160)
began <- Sys.time()

# ---- the files, and what is public of them

data(nhanes)
data(scd)
data(hospital)
data(api)
nhanes$race <- factor(nhanes$race, 1:4, c("Hispanic", "White", "Black", "other"))
hospital$oblevel <- factor(hospital$oblevel)
scd$ESA <- factor(scd$ESA)
nhanes_design <- svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = nhanes)
scd_design <- svydesign(id = ~ambulance, strata = ~ESA, prob = ~1, nest = TRUE, data = scd)
hospital_design <- svydesign(id = ~hospno, strata = ~oblevel, weights = ~weighta, fpc = ~tothosp, data = hospital)
strat <- svydesign(id = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = apistrat)
clus2 <- svydesign(id = ~ dnum + snum, fpc = ~ fpc1 + fpc2, data = transform(apiclus2, fpc2 = as.vector(fpc2)))

answers <- list(awards ~ stype, sch.wide ~ stype + awards, api00 ~ stype + awards)
calls <- list(
  `nhanes, HI_CHOL` = quote(synthesize(
    nhanes_design, HI_CHOL ~ race * agecat, epsilon = 2, population_total = 276.5e6,
    outcomes = list(HI_CHOL = outcome(bounds = c(0, 1), whole = TRUE, missing = "category")))),
  `scd, alive` = quote(synthesize(scd_design, alive ~ ESA, epsilon = 5, population_total = 6, bounds = c(0, 500))),
  `hospital, births` = quote(synthesize(hospital_design, births ~ oblevel, epsilon = 5, population_total = 158,
                                        bounds = c(0, 5000))),
  `apistrat, three answers` = quote(synthesize(strat, answers, epsilon = 5, population_total = 6194, weight = "public",
                                               bounds = list(api00 = c(200, 1000)))),
  `apiclus2, api00` = quote(synthesize(clus2, api00 ~ stype, epsilon = 5, population_total = 6194, bounds = c(200, 1000))),
  `ses, earningsMonth` = quote(synthesize(ses_design, earningsMonth ~ sex + education, epsilon = 5,
                                          population_total = 2e6, bounds = c(0, 50000)))
)
if (requireNamespace("laeken", quietly = TRUE)) {
  data(ses, package = "laeken")
  ses_design <- svydesign(id = ~1, weights = ~weights, data = ses)
  calls$`ses, earningsMonth`$population_total <- round(sum(ses$weights))
} else {
  calls$`ses, earningsMonth` <- NULL
}

cat("Releases in one call\n")
released <- lapply(calls, function(call) {
  gc()
  seconds <- system.time(made <- eval(call))[["elapsed"]]
  list(made = made, seconds = seconds)
})
print(data.frame(file = names(calls), records = vapply(released, function(x) nrow(x$made$designs[[1]]$variables), 0L),
                 data_sets = vapply(released, function(x) length(x$made$designs), 0L),
                 epsilon = vapply(released, function(x) x$made$manifest$epsilon, 0),
                 seconds = round(vapply(released, `[[`, 0, "seconds"), 1)), row.names = FALSE)

# ---- estimates of the confidential design beside survey's

apart <- function(ours, theirs) max(abs(as.vector(ours) - as.vector(theirs)) / pmax(abs(as.vector(theirs)), 1e-300))

# Estimates and standard errors of every group, and of all records.
beside <- function(design, outcome, by, statistic = "mean") {
  of <- list(mean = svymean, total = svytotal)[[statistic]]
  table <- as.data.frame(estimate(design, outcome, by = by, statistic = statistic, missing = "drop"))
  groups <- svyby(outcome, by, design, of, na.rm = TRUE)
  key <- function(frame) do.call(paste, unname(lapply(frame[all.vars(by)], as.character)))
  at <- match(key(as.data.frame(groups)), key(table))
  whole <- of(outcome, design, na.rm = TRUE)
  all <- Reduce(`&`, lapply(table[all.vars(by)], `==`, "all"))
  max(apart(table$estimate[at], coef(groups)), apart(table$se[at], SE(groups)),
      apart(table$estimate[all], coef(whole)), apart(table$se[all], SE(whole)))
}

# Shares with their logit intervals.
shares <- function(design, outcome, value) {
  table <- subset(as.data.frame(estimate(design, outcome, statistic = "proportion")), category == value)
  design$variables$.is <- as.numeric(design$variables[[all.vars(outcome)]] == value)
  theirs <- svyciprop(~.is, design, method = "logit")
  limits <- unlist(table[c("ci_low", "ci_high")])
  max(apart(table$estimate, coef(theirs)), apart(table$se, SE(theirs)), apart(limits, confint(theirs)))
}

# One design combined by itself: the test is survey's own.
independence <- function(design, formula) {
  ours <- combine_release(list(svychisq(formula, surveysynth:::marked(design))), degf = degf(design))
  theirs <- svychisq(formula, design, statistic = "Wald")
  max(apart(ours$statistic, theirs$statistic), apart(ours$p.value, theirs$p.value))
}

cat("\nEstimates of the confidential design beside survey's: largest relative difference\n")
differences <- c(
  "nhanes, svymean, svyby by race" = beside(nhanes_design, ~HI_CHOL, ~race),
  "nhanes, svymean, svyby by race and age" = beside(nhanes_design, ~HI_CHOL, ~ race + agecat),
  "nhanes, svytotal, svyby by race" = beside(nhanes_design, ~HI_CHOL, ~race, "total"),
  "nhanes, svychisq(~ race + agecat)" = independence(nhanes_design, ~ race + agecat),
  "scd, svytotal, svyby by ESA" = beside(scd_design, ~alive, ~ESA, "total"),
  "hospital, svytotal, svyby by oblevel" = beside(hospital_design, ~births, ~oblevel, "total"),
  "hospital, svymean, svyby by oblevel" = beside(hospital_design, ~births, ~oblevel),
  "apistrat, svymean, svyby by type and award" = beside(strat, ~api00, ~ stype + awards),
  "apistrat, svytotal, svyby by type" = beside(strat, ~enroll, ~stype, "total"),
  "apistrat, svyciprop of awards" = shares(strat, ~awards, "Yes"),
  "apistrat, svychisq(~ stype + awards)" = independence(strat, ~ stype + awards),
  "apiclus2, svymean, svyby by type" = beside(clus2, ~api00, ~stype),
  "apiclus2, svytotal, svyby by type" = beside(clus2, ~enroll, ~stype, "total"),
  "apiclus2, svyciprop of awards" = shares(clus2, ~awards, "Yes"),
  "apiclus2, svychisq(~ awards + sch.wide)" = independence(clus2, ~ awards + sch.wide),
  if (exists("ses_design")) c(
    "ses, svymean, svyby by sex and education" = beside(ses_design, ~earningsMonth, ~ sex + education),
    "ses, svychisq(~ sex + education)" = independence(ses_design, ~ sex + education))
)
print(data.frame(what = names(differences), difference = format(differences, digits = 2)), row.names = FALSE, right = FALSE)
cat("largest:", format(max(differences), digits = 2), if (max(differences) < 1e-9) "(below 1e-9)" else "(NOT below 1e-9)")
cat("\n")

# ---- a release that one session saves and another uses

cat("\nsaveRDS() here, readRDS() in another R session\n")
release <- released$`apistrat, three answers`$made
folder <- tempfile("saved")
dir.create(folder)
file <- file.path(folder, "release.rds")
saveRDS(release, file)
script <- file.path(folder, "second.R")
writeLines(c(
  "suppressPackageStartupMessages({library(survey); library(surveysynth)})",
  "options(surveysynth.progress = FALSE)",
  "folder <- commandArgs(TRUE)[1]",
  "release <- readRDS(file.path(folder, 'release.rds'))",
  "release <- update(release, low = api00 < 600)",
  "means <- combine_release(with_release(release, svyby(~api00, ~stype, design, svymean)))",
  "write_tables(release, file.path(folder, 'tables.xlsx'), by = ~stype)",
  "write_release(release, file.path(folder, 'release'), by = ~stype)",
  "again <- read_release(file.path(folder, 'release'))",
  "low <- tables(release, by = ~low, statistic = 'count')",
  "found <- as.data.frame(tables(release, by = ~stype, outcome = 'api00'))",
  "saveRDS(list(tables = found, coef = coef(means), se = SE(means)), file.path(folder, 'there.rds'))"
), script)
status <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script), shQuote(folder)))
if (status != 0) stop("the second session failed")
there <- readRDS(file.path(folder, "there.rds"))
here <- combine_release(with_release(release, svyby(~api00, ~stype, design, svymean)))
cat("tables(), with_release(), update(), write_tables(), write_release(), read_release() ran there\n")
cat("the same tables here and there:", isTRUE(all.equal(there$tables,
  as.data.frame(tables(release, by = ~stype, outcome = "api00")), tolerance = 1e-12)), "\n")
cat("the same estimates and standard errors:", isTRUE(all.equal(c(there$coef, there$se), c(coef(here), SE(here)),
                                                                tolerance = 1e-12)), "\n")
unlink(folder, recursive = TRUE)

# ---- the list

short <- function(x) paste(vapply(x, function(one) if (is.na(one)) "NA" else format(one, digits = 3), ""), collapse = ", ")
interval <- function(combined) {
  limits <- confint(combined)
  shown <- as.data.frame(combined)
  paste0("df ", short(shown$df[1]), ", ", nrow(shown), " estimates, first ", short(coef(combined)[1]), " (",
         short(limits[1, ]), ")")
}
tested <- function(test) paste0(names(test$statistic), " = ", short(test$statistic), " on ", short(test$parameter), ", p = ",
                                short(test$p.value))
# What an expression gives, or how it is refused.
gives <- function(expression) tryCatch(expression, error = function(e) {
  paste("refused:", sub("(.{60}[^ ]*).*", "\\1 ...", gsub("\n", " ", conditionMessage(e))))
})
combined <- combine_release
by <- function(call) gives(interval(combined(eval(substitute(with_release(release, call))))))
fit <- combined(with_release(release, svyglm(api00 ~ stype + awards, design)))
small <- combined(with_release(release, svyglm(api00 ~ awards, design)))

list_of <- list(
  c("svyby by ~stype", "df 25.1, 10.4, 4.76", by(svyby(~api00, ~stype, design, svymean))),
  c("svyby by ~factor(stype)", "df 0, no interval, no warning", by(svyby(~api00, ~factor(stype), design, svymean))),
  c("svyby by ~interaction(stype, awards)", "df 0, no interval, no warning",
    by(svyby(~api00, ~interaction(stype, awards), design, svymean))),
  c("svyby by ~cut(api00, c(199, 600, 1000))", "df 0, no interval, no warning",
    by(svyby(~I(awards == "Yes"), ~cut(api00, c(199, 600, 1000)), design, svymean))),
  c("svyby by ~I(api00 > 700)", "df 0, no interval, no warning",
    by(svyby(~I(awards == "Yes"), ~I(api00 > 700), design, svymean))),
  c("svyciprop(~I(api00 > 860))", "(-.0059, .0211) for (.0028, .04)", by(svyciprop(~I(api00 > 860), design))),
  c("svyquantile(~api00, 0.9)", "asked for", by(svyquantile(~api00, design, 0.9))),
  c("svykappa(~awards + sch.wide)", "asked for", by(svykappa(~ awards + sch.wide, design))),
  c("svychisq(~stype + awards)", "asked for",
    gives(tested(combined(with_release(release, svychisq(~ stype + awards, design)))))),
  c("svyttest(api00 ~ awards)", "asked for",
    gives(tested(combined(with_release(release, svyttest(api00 ~ awards, design)))))),
  c("svyranktest(api00 ~ stype)", "asked for",
    gives(tested(combined(with_release(release, svyranktest(api00 ~ stype, design)))))),
  c("predict(fit, newdata)", "asked for", gives({
    p <- predict(fit, data.frame(stype = "H", awards = "Yes"))
    paste0(short(coef(p)), ", se ", short(SE(p)))
  })),
  c("anova(small, large)", "asked for", gives(tested(anova(small, fit)))),
  c("wald_test(fit, ~stype)", "asked for", gives(tested(wald_test(fit, ~stype)))),
  c("regTermTest(fit, ~stype)", "asked for", gives(class(regTermTest(fit, ~stype)))),
  c("with_release(regTermTest(...))", "asked for",
    gives(class(combined(with_release(release, regTermTest(svyglm(api00 ~ stype, design), ~stype)))))),
  c("AIC(fit)", "asked for", gives(short(AIC(fit)))),
  c("with_release(AIC(...))", "asked for",
    gives(class(combined(with_release(release, AIC(svyglm(api00 ~ stype, design))))))),
  c("with_release(svytable(...))", "asked for",
    gives(class(combined(with_release(release, svytable(~ stype + awards, design)))))),
  if (requireNamespace("generics", quietly = TRUE)) c("augment(fit)", "asked for", gives(class(generics::augment(fit)))),
  c("fitted(fit)", "NULL", gives(class(fitted(fit)))),
  c("residuals(fit)", "NULL", gives(class(residuals(fit))))
)
cat("\nThe R user's list\n")
shown <- as.data.frame(do.call(rbind, list_of))
names(shown) <- c("what", "before", "now")
print(shown, row.names = FALSE, right = FALSE)
cat("\n", round(as.numeric(Sys.time() - began, units = "secs")), " seconds in all\n", sep = "")
