draws_of <- function(release) lapply(release$designs, function(d) d$variables$api00)

few <- list(warmup = 400, draws = 400, seed = 3)

test_that("mechanisms, a beta regression and a policy release the same from R and from Python, to the last bit", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "api00", "api99", "meals", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  normal <- fbs(api00 ~ stype, prior = "normal")
  run <- function(...) do.call(synthesize, c(list(design, population_total = 6194, m = 1, ...), few))
  last_year <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = transform(apistrat, api00 = api99, meals = meals / 2))
  policy <- do.call(policy_from_historical, c(
    list(last_year, fbs(api00 ~ stype + scale(meals), prior = "normal"), epsilon = 15, source = "last year", population_total = 6194,
         m = 1, map = "linear", c1 = 0.6), few
  ))
  file <- tempfile(fileext = ".npz")
  expect_identical(write_policy(policy, file), file)
  expect_error(write_policy(policy, file), "or overwrite = TRUE", fixed = TRUE)
  if (.Platform$OS.type == "unix") expect_identical(format(file.info(file)$mode), "600")
  again <- read_policy(file)
  ours <- list(
    run(quick, 15, mechanism = weighted_e(map = "inverse", c1 = 0.8)),
    run(normal, mechanism = censored(epsilon = 15)),
    run(beta_regression(api00 ~ stype, bounds = c(200, 1e3)), 15, mechanism = pseudo_posterior()),
    do.call(synthesize, c(list(design, policy = again, population_total = 6194), few))
  )
  theirs <- from_python("
import pandas as pd, surveysynth as ss
frame = pd.read_csv(sys.argv[1])
design = ss.SurveyDesign(frame.assign(awards=sys.argv[2].split(',')), weights='pw', strata='stype')
few = dict(warmup=400, draws=400, seed=3)
run = lambda *given, **more: ss.synthesize(design, *given, population_total=6194, **more, **few)
releases = [
    run(ss.FBS('api00', 'stype + awards', prior='flat'), epsilon=15, m=1, mechanism=ss.WeightedE(map='inverse', c1=0.8)),
    run(ss.FBS('api00', 'stype', prior='normal'), epsilon=15, m=1, mechanism=ss.Censored()),
    run(ss.BetaRegression('api00', 'stype', bounds=(200, 1000)), epsilon=15, m=1, mechanism=ss.PseudoPosterior()),
    run(policy=ss.Policy.load(sys.argv[3])),
]
print(json.dumps([[r.datasets[0].frame['api00'].tolist(), r.privacy.kind, r.privacy.epsilon] for r in releases]))",
  csv, paste(apistrat$awards, collapse = ","), file)
  for (i in 1:4) {
    expect_identical(draws_of(ours[[i]])[[1]], as.numeric(theirs[[i]][[1]]))
    expect_identical(privacy(ours[[i]])$kind, theirs[[i]][[2]])
    expect_equal(privacy(ours[[i]])$epsilon, theirs[[i]][[3]])
  }
  kinds <- vapply(ours, function(release) privacy(release)$kind, "")
  expect_identical(kinds, c("asymptotic", "strict", "asymptotic", "strict"))
  mechanisms <- vapply(ours, function(release) privacy(release)$mechanism, "")
  expect_identical(mechanisms, c("weighted-e", "censored", "pseudo posterior", "censored"))
  expect_match(format(privacy(ours[[4]])), "set on a historical file (last year)", fixed = TRUE, all = FALSE)
  expect_no_match(format(privacy(ours[[2]])), "Maximum over")
  expect_output(print(again), "Policy from 'last year': FBS of api00, epsilon = 15 for m = 1")
  expect_output(print(again), "Confidential")

  expect_error(synthesize(last_year, policy = again, population_total = 6194), "made from this very file")
  expect_error(synthesize(design, policy = again, m = 2, epsilon = 3), "epsilon, m: the policy sets this")
  expect_error(synthesize(design, quick, policy = again), "leave the second argument out")
  expect_error(synthesize(design, again, 9), "a policy is given by its name, policy =")
  expect_error(synthesize(design, policy = again), "needs population_total, a public number")
  expect_error(synthesize(design, policy = again, population_total = 6194, debias = TRUE),
               "pseudo_posterior() or the clamp of censored(weighted = FALSE)", fixed = TRUE)
  without <- svydesign(ids = ~1, weights = ~pw, data = apistrat["pw"])
  expect_error(synthesize(without, policy = again, population_total = 6194), "no column .api00., .meals., .stype.")
})

test_that("counts, risks and re-weighting release the same from R and from Python, to the last bit", {
  need_python()
  schools <- transform(apistrat, visits = enroll %/% 150)
  csv <- tempfile()
  write.csv(schools[c("stype", "visits", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = schools)
  run <- function(..., mechanism = pseudo_posterior()) {
    synthesize(design, ..., population_total = 6194, mechanism = mechanism, m = 1, seed = 3)
  }
  near <- count_risk(0.5, floor = 1)
  ours <- list(
    run(negbin(visits ~ stype), mechanism = pseudo_posterior("linear", c1 = 0.7, risk = near), reweight = TRUE),
    run(poisson_counts("visits", ~ stype, prior = "independent"), 30,
        mechanism = weighted_e(c1 = 0.9, risk = count_risk(2, relative = FALSE)))
  )
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
same = dict(seed=3, m=1, population_total=6194)
near = ss.CountRisk(0.5, floor=1)
releases = [
    ss.synthesize(design, ss.NegativeBinomialRegression('visits', 'stype'), reweight=1,
                  mechanism=ss.PseudoPosterior(map='linear', c1=0.7, risk=near), **same),
    ss.synthesize(design, ss.PoissonRegression('visits', 'stype', prior='independent'), epsilon=30,
                  mechanism=ss.WeightedE(c1=0.9, risk=ss.CountRisk(2, relative=False)), **same),
]
print(json.dumps([[r.datasets[0].frame['visits'].tolist(), r.privacy.epsilon] for r in releases]))", csv)
  for (i in 1:2) {
    expect_identical(ours[[i]]$designs[[1]]$variables$visits, as.integer(theirs[[i]][[1]]))
    expect_identical(privacy(ours[[i]])$epsilon, theirs[[i]][[2]])
    expect_match(format(privacy(ours[[i]])), "whose values are further from the record's", fixed = TRUE, all = FALSE)
  }
  expect_identical(vapply(ours, function(release) release$manifest$method, ""), c("NegativeBinomial", "Poisson"))

  clamped <- function(...) run(fbs(visits ~ stype, transform = asinh_transform(1), prior = "normal"), 15, ...)
  expect_error(clamped(mechanism = censored(), reweight = 1), "use pseudo_posterior() or weighted_e()", fixed = TRUE)
  expect_error(run(negbin(visits ~ stype), 15, mechanism = censored()), "negbin() is not fitted under", fixed = TRUE)
  expect_error(run(poisson_counts(visits ~ 1), 15), "poisson_counts() has no effects of them: use fbs()", fixed = TRUE)
  expect_error(run(negbin(visits ~ stype), 15, debias = TRUE, reweight = 1), "re-weighting changes it")
  expect_error(run(negbin(visits ~ stype), 15, reweight = 2.5), "reweight must be a whole number")
  counted <- function(...) pseudo_posterior(risk = count_risk(...))
  expect_error(run(negbin(visits ~ stype), 15, mechanism = counted(), debias = TRUE), "map of lipschitz_risk() risks",
               fixed = TRUE)
  expect_error(run(negbin(visits ~ stype), 15, mechanism = counted(c(1, 2))), "count_risk(): radius has 2", fixed = TRUE)
  expect_error(run(negbin(visits ~ stype), 15, mechanism = counted(relative = NA)), "relative must be TRUE or FALSE")
  expect_error(synthesize(strat, negbin(api00 ~ stype, prior = "flat"), 9, mechanism = pseudo_posterior()), "independent")
  expect_error(synthesize(strat, fbs(factor(awards) ~ stype, prior = "flat"), 9, mechanism = counted()),
               "count_risk() looks at numeric outcomes, and there are none: use lipschitz_risk()", fixed = TRUE)
})

test_that("identification as a risk and as a rule is the same from R and from Python, to the last bit", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "awards", "api00", "enroll", "pw")], csv, row.names = FALSE)
  run <- function(design, model, ..., mechanism = pseudo_posterior()) {
    synthesize(design, model, 9, population_total = 6194, mechanism = mechanism, m = 1, seed = 3,
               accept_diagnostics = "information", ...)
  }
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  model <- fbs(api00 ~ stype, prior = "flat")
  two <- fbs(cbind(api00, enroll) ~ stype, prior = "flat")
  lax <- identification_rule("awards", max_risk = 0.99, radius = 0.1, floor = 2)
  ours <- list(
    run(design, model, rule = lax,
        mechanism = pseudo_posterior("linear", risk = marginal_risk(~ awards, radius = 0.1, datasets = 5))),
    run(design, two, mechanism = pseudo_posterior("linear", c2 = -0.05, risk = pairwise_risk(
      ~ 1, radius = c(50, 100), relative = FALSE, floor = c(1, 2)
    )))
  )
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
same = dict(epsilon=9, seed=3, m=1, population_total=6194, accept_diagnostics=['information'])
pairs = ss.PairwiseRisk([], radius=(50, 100), relative=False, floor=(1, 2))
releases = [
    ss.synthesize(design, ss.FBS('api00', 'stype', prior='flat'), **same,
                  mechanism=ss.PseudoPosterior(map='linear', risk=ss.MarginalRisk('awards', 0.1, datasets=5)),
                  rule=ss.IdentificationRule(['awards'], 0.99, 0.1, floor=2)),
    ss.synthesize(design, ss.FBS(['api00', 'enroll'], 'stype', prior='flat'), **same,
                  mechanism=ss.PseudoPosterior(map='linear', c2=-0.05, risk=pairs)),
]
print(json.dumps([[r.datasets[0].frame['api00'].tolist(), str(r.privacy).splitlines()] for r in releases]))", csv)
  for (i in 1:2) {
    expect_identical(draws_of(ours[[i]])[[1]], as.numeric(theirs[[i]][[1]]))
    expect_identical(format(privacy(ours[[i]])), theirs[[i]][[2]])
  }
  expect_match(format(privacy(ours[[1]])), "passed a rule: .* knows awards .* is at most 0.99", all = FALSE)

  budget <- ledger(tempfile(fileext = ".jsonl"), "schools", create = TRUE)
  expect_error(run(design, model, rule = identification_rule(~ awards, max_risk = 0), ledger = budget),
               "of 200 records .* above 0 in these .* marginal_risk\\(known\\) or pairwise_risk\\(known\\)")
  expect_identical(nrow(as.data.frame(budget)), 0L)
  little <- pseudo_posterior("linear", risk = marginal_risk(~ awards, radius = 0.1, datasets = 5))
  expect_error(synthesize(design, model, 9, mechanism = little, ledger = budget),
               "less than 30% .* accept_diagnostics = c\\(\"information\"\\)")
  expect_identical(nrow(as.data.frame(budget)), 0L)
  expect_error(run(design, model, rule = identification_rule(~ api00)), "'api00' is synthesized")
  expect_error(run(design, model, rule = identification_rule(~ nothing)), "no column .nothing.")
  expect_error(run(design, model, mechanism = pseudo_posterior(risk = pairwise_risk("nothing"))), "no column .nothing.")
  expect_error(run(design, model, rule = 0.5), "a rule is identification_rule(", fixed = TRUE)
  expect_error(run(design, model, rule = identification_rule("awards", radius = 1:2)),
               "identification_rule(): radius has 2 numbers", fixed = TRUE)
  expect_error(run(design, fbs(factor(awards) ~ stype, prior = "flat"), rule = identification_rule(~ stype)),
               "identification_rule() looks at numeric outcomes, and there are none: release without", fixed = TRUE)
  expect_error(privacy_cost(design, model, epsilon = 9, rule = lax), "has no argument .rule.$")
})

test_that("mixtures release the same from R and from Python, to the last bit, and without an epsilon say so", {
  need_python()
  schools <- transform(apistrat, pay = ifelse(api00 < 500, 0, enroll - 400))
  csv <- tempfile()
  write.csv(schools[c("stype", "pay", "api00", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = schools)
  every <- c("rhat", "ess_bulk", "ess_tail")
  run <- function(..., mechanism = pseudo_posterior()) {
    synthesize(design, ..., population_total = 6194, mechanism = mechanism, m = 1, chains = 2, warmup = 50, draws = 100,
               seed = 3, accept_diagnostics = every) # of few draws
  }
  uneven <- mixture(pay ~ stype, transform = asinh_transform(100), zeros = TRUE, components = 4, bounds = c(-400, 5e3))
  given <- mixture("api00", ~ stype, components = 3, prior = "paper", a_gamma = 2, b_gamma = 3, least_sd = 0.1,
                   allocation = "posterior", missing = "drop")
  at_hand <- pseudo_posterior("linear", c1 = 0.9)
  ours <- list(run(uneven, mechanism = at_hand), run(given, mechanism = at_hand))
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
same = dict(seed=3, m=1, population_total=6194, chains=2, warmup=50, draws=100,
            mechanism=ss.PseudoPosterior(map='linear', c1=0.9), accept_diagnostics=['rhat', 'ess_bulk', 'ess_tail'])
uneven = ss.Mixture('pay', 'stype', ss.AsinhTransform(100), zeros=True, components=4, bounds=(-400, 5000))
given = ss.Mixture('api00', 'stype', components=3, prior='paper', a_gamma=2, b_gamma=3, least_sd=0.1,
                   allocation='posterior', missing='drop')
releases = [ss.synthesize(design, model, **same) for model in (uneven, given)]
print(json.dumps([[r.datasets[0].frame[r.outcomes[0]].tolist(), str(r.privacy).splitlines()] for r in releases]))", csv)
  for (i in 1:2) {
    expect_identical(ours[[i]]$designs[[1]]$variables[[c("pay", "api00")[i]]], as.numeric(theirs[[i]][[1]]))
    expect_identical(format(privacy(ours[[i]])), theirs[[i]][[2]])
    expect_identical(ours[[i]]$manifest$method, "Mixture")
  }
  none <- privacy(ours[[2]])
  expect_null(none$epsilon)
  expect_identical(none$kind, "none")
  expect_output(print(ours[[2]]), "by Mixture, no epsilon\n", fixed = TRUE)
  write_release(ours[[2]], folder <- tempfile("release"))
  expect_identical(format(privacy(read_release(folder))), format(none))

  expect_error(run(given, 9), "no epsilon holds for it, so leave epsilon out. Use mechanism = pseudo_posterior(c1 = ...)",
               fixed = TRUE)
  expect_error(run(mixture(pay ~ stype), 9), "transform = asinh_transform(scale = ...) for amounts", fixed = TRUE)
  expect_error(run(mixture(api00 ~ 1), 9), "mixture() has no effects of them: use fbs()", fixed = TRUE)
  expect_error(run(mixture(api00 ~ stype, components = 0), 9), "components must be a whole number")
  expect_error(run(mixture(api00 ~ stype, bounds = c(500, 600)), 9), "beyond the bounds in 152 rows")
  expect_error(run(mixture(api00 ~ stype, zeros = NA), 9), "zeros must be TRUE or FALSE")
  expect_error(policy_from_historical(design, given, epsilon = 9, source = "last year", population_total = 6194),
               "a policy promises one; use allocation = \"prior\"", fixed = TRUE)
})

test_that("mechanisms and beta regressions show themselves, and refuse what does not go together", {
  shows <- function(x, text) expect_output(print(x), text, fixed = TRUE)
  shows(strict(5, delta = 1e-10), "strict(epsilon = 5, delta = 1e-10)")
  shows(censored(10), "censored(epsilon = 10, weighted = FALSE)")
  shows(censored(weighted = TRUE, c1 = 0.9, risk = count_risk(0.1)),
        "map = \"linear\", c1 = 0.9, c2 = 0, risk = count_risk(radius = 0.1, relative = TRUE, floor = 0))")
  shows(weighted_e(), "weighted_e(map = \"linear\", c1 = 1, c2 = 0, risk = lipschitz_risk())")
  shows(count_risk(c(500, 2), FALSE), "count_risk(radius = c(500, 2), relative = FALSE, floor = 0)")
  shows(lipschitz_risk(), "lipschitz_risk()")
  shows(marginal_risk(~ a + b),
        "marginal_risk(known = c(\"a\", \"b\"), radius = 0.2, relative = TRUE, floor = 0, datasets = 20)")
  shows(pairwise_risk(~ 1), "pairwise_risk(known = character(0), radius")
  shows(identification_rule("a"),
        "identification_rule(known = \"a\", max_risk = 0.5, radius = 0.2, relative = TRUE, floor = 0)")
  shows(beta_regression("y", ~ a + b, bounds = c(0, 9)), "BetaRegression: y ~ a + b\nbounds = c(0, 9), missing = \"fail\"")
  expect_equal(beta_regression(y ~ a, bounds = 0:1)$arguments, beta_regression("y", ~ a, bounds = 0:1)$arguments)
  expect_error(censored(c1 = 0.5), "with weighted = TRUE")
  expect_error(censored(risk = count_risk()), "with weighted = TRUE")
  for (mechanism in list(pseudo_posterior, weighted_e, function(risk) censored(weighted = TRUE, risk = risk))) {
    expect_error(mechanism(risk = "count"), "a risk is lipschitz_risk(), count_risk(", fixed = TRUE)
    expect_error(mechanism(risk = count_risk), "a risk is lipschitz_risk(), count_risk(", fixed = TRUE)
  }
  expect_error(count_risk(-1), "numbers, not negative: one, or one for each numeric outcome")
  expect_error(count_risk(floor = NA), "numbers, not negative")
  expect_error(marginal_risk("a", radius = -1), "floor of marginal_risk() are numbers, not negative", fixed = TRUE)
  expect_error(pairwise_risk("a", floor = "b"), "floor of pairwise_risk() are", fixed = TRUE)
  expect_error(identification_rule("a", max_risk = 1), "max_risk is a number from 0 to below 1")
  expect_error(identification_rule("a", radius = NULL), "floor of identification_rule() are", fixed = TRUE)
  expect_error(weighted_e(map = "cubic"), "inverse")
  expect_error(beta_regression(y ~ a), "bounds = c\\(0, 2e5\\)")
  expect_error(beta_regression(cbind(y, z) ~ a, bounds = 0:1), "synthesizes one number")
  expect_error(beta_regression(factor(y) ~ a, bounds = 0:1), "synthesizes one number")
  expect_error(synthesize(strat, quick, 9, mechanism = "censored"), "censored\\(\\.\\.\\.\\)")
  expect_error(synthesize(strat, policy = "policy.npz"), "read_policy\\(\\) return")
  need_python()
  expect_error(synthesize(strat, quick, 9, mechanism = censored()), "population_total, a public number")
  expect_error(synthesize(strat, quick, 9, mechanism = censored(), population_total = 6194), "flat prior: use another")
  expect_error(synthesize(strat, quick, 9, mechanism = censored(9)), "epsilon is given twice")
  expect_error(synthesize(strat, quick, mechanism = weighted_e(-1)), "epsilon must be a positive number")
  bounded <- function(...) synthesize(strat, beta_regression(...), 9, mechanism = pseudo_posterior())
  expect_error(bounded(api00 ~ stype, bounds = c(0, 1)), "outside the bounds in 200 rows")
  expect_error(bounded(api00 ~ awards, bounds = c(0, 1e3)), "use fbs\\(\\)")
  expect_error(read_policy(tempfile()), "is not a file")
})

test_that("a noisy histogram has the shares of the bins, and its report is Python's", {
  need_python()
  even <- svydesign(ids = ~1, weights = ~one, data = transform(apistrat, one = 31))
  limits <- c(200, 500, 600, 700, 1000)
  release <- perturbed_histogram(even, ~ api00, epsilon = 1e6, bounds = range(limits), population_total = 6194,
                                 bins = limits, m = 40)
  shares <- function(x) tabulate(findInterval(x, limits), 4) / length(x)
  true <- shares(apistrat$api00)
  drawn <- unlist(draws_of(release))
  # a binomial's standard deviation, at 4.5 of which each of four shares is beyond once in 100,000
  expect_true(all(abs(shares(drawn) - true) < 4.5 * sqrt(true * (1 - true) / length(drawn))))
  expect_equal(vapply(release$designs, function(d) sum(weights(d)), 0), rep(6194, 40))
  expect_output(print(release), "Outcomes: api00; predictors: none")
  expect_identical(privacy(release)$kind, "strict")
  folder <- tempfile("release")
  write_release(release, folder)
  text <- readLines(file.path(folder, "public", "report.txt"))
  report <- format(privacy(read_release(folder)))
  expect_identical(report, utils::tail(text, length(report)))
  expect_identical(tables(read_release(folder))$statistic, c("count", "mean"))
  wide <- perturbed_histogram(strat, "api00", 1, c(200, 1000), 6194, bins = 7, weight_bound = 50, m = 1)
  expect_length(wide$manifest$limits, 8)
  expect_error(perturbed_histogram(strat, "api00", 1, c(200, 1000), 6194), "weight_bound, for a histogram of weights")
  expect_error(perturbed_histogram(strat, "nowhere", 1, c(200, 1000), 6194), "no column .nowhere.")
  expect_error(perturbed_histogram(even, "api00", 1, c(1000, 200), 6194), "bounds must be .* that rise")
})

test_that("the ledger has what was released, and stops what its cap does not allow", {
  need_python()
  file <- tempfile(fileext = ".jsonl")
  expect_error(ledger(file, "schools", cap = 15), "there is no ledger .* create = TRUE")
  budget <- ledger(file, "schools", cap = 15, create = TRUE)
  expect_error(ledger(file, "Schools"), "no survey 'Schools' \\(did you mean 'schools'\\?\\)")
  expect_error(ledger(file, "schools", create = TRUE), "has the survey 'schools' already")
  run <- function(epsilon) {
    synthesize(strat, quick, epsilon, m = 1, mechanism = pseudo_posterior(), seed = 1, ledger = budget)
  }
  release <- run(9)
  expect_identical(spend(budget, 1, 1.5, kind = "strict", what = "histogram", unit = "dnum"), budget)
  entries <- as.data.frame(budget)
  expect_equal(entries$blank, c(privacy(release)$epsilon, 1))
  expect_equal(entries$replace, c(2 * privacy(release)$epsilon, 1.5))
  expect_equal(entries$sum_blank, cumsum(entries$blank))
  expect_equal(entries$sum_replace, cumsum(entries$replace))
  expect_identical(entries$kind, c("asymptotic", "strict"))
  expect_identical(entries$unit, c("record", "dnum"))
  expect_output(print(budget), "Privacy ledger of 'schools': releases 2, epsilon = [0-9.]+ \\(blank\\), .* cap 15, [0-9.]+ left")
  before <- readLines(file)
  expect_error(run(15), "nothing was recorded")
  expect_error(spend(budget, 15, 30, kind = "strict", what = "more"), "nothing was recorded")
  expect_error(spend(budget, NULL, 1, kind = "strict", what = "x"), "no epsilon for blanking a record")
  expect_error(spend(budget, NULL, NULL, kind = "strict", what = "x"), "replace must be NULL for kind = \"none\"")
  expect_error(spend(budget, 1, 2, kind = "soft", what = "x"), "kind = \"soft\" is not one of")
  expect_error(ledger(file, "schools", cap = 30), "cap names another; .* set_cap")
  expect_identical(readLines(file), before)
  set_cap(budget, 30, what = "the board")
  expect_output(print(ledger(file, "schools")), "cap 30")
  uncapped <- ledger(file, "households", create = TRUE)
  spend(uncapped, NULL, 1, kind = "strict", what = "strict Laplace tables")
  spend(uncapped, NULL, NULL, kind = "none", what = "local Laplace tables")
  expect_identical(as.data.frame(uncapped)[c("blank", "replace", "sum_blank", "sum_replace")],
                   data.frame(blank = c(NaN, NaN), replace = c(1, NaN), sum_blank = c(NaN, Inf), sum_replace = c(1, Inf)))
  expect_output(print(uncapped), "no guarantee")

  old <- setwd(dirname(file)) # a relative path is where it was when the ledger was opened
  on.exit(setwd(old))
  here <- ledger(basename(file), "schools")
  setwd(old)
  expect_equal(as.data.frame(here)$blank, entries$blank)
  unlink(file)
  expect_error(spend(budget, 1, 2, kind = "strict", what = "x"), "is gone: put back a copy")
  expect_false(file.exists(file))
  expect_error(synthesize(strat, quick, 9, ledger = file), "ledger\\(path, survey\\)")
  expect_error(ledger(file.path(tempfile(), "l.jsonl"), "schools", create = TRUE), "its folder does not exist")
})

test_that("what draws noise enters what it protects, and the releases go with the ledger", {
  need_python()
  file <- tempfile(fileext = ".jsonl")
  budget <- ledger(file, "schools", create = TRUE)
  noisy <- function(epsilon, ledger = budget) {
    perturbed_histogram(strat, ~ api00, epsilon, c(200, 1000), 6194, weight_bound = 50, m = 1, ledger = ledger)
  }
  release <- noisy(1)
  box <- function(low) list(weight = c(low, 50), api00 = c(200, 1000))
  laplace <- function(...) laplace_tables(strat, ~ api00, ~ stype, 1.5, ..., ledger = budget)
  for (low in c(0, 1)) expect_identical(laplace(kind = "strict", bounds = box(low))$kind, "strict")
  laplace()
  entries <- as.data.frame(budget)
  expect_identical(entries$blank, c(1, 1.5, NaN, NaN))
  expect_identical(entries$replace, c(2, 1.5, 1.5, NaN))
  expect_identical(entries$sum_blank, c(1, 2.5, NaN, Inf))
  expect_identical(privacy(release)$neighbours, list("blank one record's confidential values" = 1,
                                                     "replace one record's confidential values" = 2))
  folder <- tempfile("release")
  write_release(release, folder)
  expect_identical(release$manifest$ledger$entry, 2L)
  expect_identical(read_release(folder)$manifest$ledger, release$manifest$ledger)
  expect_identical(verify_ledger(budget, folder)$release, c(folder, "", "", ""))
  expect_identical(verify_ledger(budget, list(release, read_release(folder)))$release[1], "release 1, release 2")
  expect_identical(verify_ledger(budget)$number, 2:5)
  expect_error(verify_ledger(budget, noisy(1, NULL)), "release 1 was not entered in a ledger")
  expect_error(verify_ledger(budget, list("x")), "a release is what")
  lines <- readLines(file)
  writeLines(head(lines, 2), file)
  expect_error(verify_ledger(budget, release), "is entry 2, and the ledger ends with 1: it was cut off")
  writeLines(sub('"replace": 2.0', '"replace": 1.0', lines), file)
  expect_error(noisy(1), "is damaged in 1 lines")
  writeLines(lines, file)
  capped <- ledger(file, "pupils", cap = 3, create = TRUE)
  before <- readLines(file)
  expect_error(noisy(4, capped), "nothing was recorded")
  expect_error(laplace_tables(strat, ~ api00, NULL, 1, kind = "strict", bounds = box(1), ledger = capped),
               "no epsilon for blanking a record")
  expect_identical(readLines(file), before)
})

test_that("a strict release from noisy tables is the same from R and from Python, and combines with their noise", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "api00", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, weights = ~pw, data = apistrat)
  ours <- synthesize(design, fbs(api00 ~ stype), 20, m = 4, population_total = 6194, bounds = c(200, 1000), seed = 5)
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw')
outcomes = {'api00': ss.Outcome(bounds=(200, 1000), whole=True)}  # as a column of integers declares in R
release = ss.synthesize(design, 'api00 ~ stype', epsilon=20, m=4, population_total=6194, outcomes=outcomes, seed=5)
print(json.dumps([release.datasets[0].frame['api00'].tolist(), release.privacy.kind]))", csv)
  expect_identical(draws_of(ours)[[1]], as.integer(theirs[[1]]))
  expect_match(format(privacy(ours)), "integer Laplace noise", fixed = TRUE, all = FALSE)
  folder <- tempfile("release")
  write_release(ours, folder)
  whole <- tables(ours, by = ~stype)
  for (release in list(ours, read_release(folder))) {
    means <- combine_release(with(release, svyby(~api00, ~stype, FUN = svymean)))
    counts <- combine_release(with_release(release, svytotal(~stype, design), counts = TRUE))
    for (level in c("E", "H", "M")) {
      cells <- whole[whole$stype == level, ]
      expect_equal(SE(means)[[level]], cells$se[cells$statistic == "mean"], tolerance = 1e-8)
      expect_equal(SE(counts)[[paste0("stype", level)]], cells$se[cells$statistic == "count"], tolerance = 1e-8)
    }
  }
  overall <- with(ours, svymean(~api00))
  expect_lt(SE(combine_release(overall, redrawn = NULL, pairs = FALSE)), SE(combine_release(overall)))
})

test_that("models in sequence and edit rules release the same from R and from Python", {
  need_python()
  csv <- tempfile()
  write.csv(apistrat[c("stype", "api99", "api00", "pw")], csv, row.names = FALSE)
  design <- svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
  model <- in_sequence(fbs(api99 ~ stype, prior = "flat"), fbs(api00 ~ stype + log(api99), prior = "flat"))
  expect_output(print(model), "FBS: api00 ~ stype + log(api99)", fixed = TRUE)
  ours <- synthesize(design, model, 20, m = 1, population_total = 6194, mechanism = pseudo_posterior(), seed = 4,
                     edits = c("api00 <= 1000", "api99 <= api00 + 200"))
  theirs <- from_python("
import pandas as pd, surveysynth as ss
design = ss.SurveyDesign(pd.read_csv(sys.argv[1]), weights='pw', strata='stype')
models = [ss.FBS('api99 ~ stype', prior='flat'), ss.FBS('api00 ~ stype + log(api99)', prior='flat')]
release = ss.synthesize(design, models, epsilon=20, m=1, population_total=6194, mechanism=ss.PseudoPosterior(), seed=4,
                        edits=['api00 <= 1000', 'api99 <= api00 + 200'])
print(json.dumps([release.datasets[0].frame[name].tolist() for name in ('api99', 'api00')]))", csv)
  made <- ours$designs[[1]]$variables
  expect_equal(made$api99, theirs[1, ], tolerance = 1e-10)
  expect_equal(made$api00, theirs[2, ], tolerance = 1e-10)
  expect_true(all(made$api00 <= 1000 & made$api99 <= made$api00 + 200))
  some <- in_sequence(fbs(api99 ~ stype, prior = "flat"), fbs(api00 ~ log(api99), prior = "flat"),
                      applies = list(api00 = "api99 > 600 and stype != 'H'"), elsewhere = list(api00 = 0))
  asked <- synthesize(design, some, 20, m = 1, population_total = 6194, mechanism = pseudo_posterior(), seed = 4)
  asked <- asked$designs[[1]]$variables
  expect_equal(asked$api00 > 0, asked$api99 > 600 & asked$stype != "H")
  expect_error(in_sequence(fbs(api00 ~ stype)), "two models or more", fixed = TRUE)
  expect_error(synthesize(design, model, 20, mechanism = pseudo_posterior(), edits = "api00 < score"), "names score")
})
