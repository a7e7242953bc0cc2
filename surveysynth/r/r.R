# What surveysynth/r/session.py and designs.py asks of R beside the functions of the R package.

# The value of a function or its error, and its warnings.
attempt <- function(.f, ...) {
  warnings <- character()
  heard <- function(w) {
    warnings <<- c(warnings, conditionMessage(w))
    invokeRestart("muffleWarning")
  }
  done <- tryCatch(
    withCallingHandlers(list(value = .f(...)), warning = heard),
    error = function(e) list(error = conditionMessage(e))
  )
  c(done, list(warnings = unique(warnings)))
}

imputation_list <- function(...) structure(list(designs = list(...), call = sys.call()), class = "svyimputationList")

evaluated <- function(.expression, .lonely, ...) {
  suppressPackageStartupMessages(library(survey))
  old <- options(survey.lonely.psu = .lonely)
  on.exit(options(old))
  value <- eval(parse(text = .expression, encoding = "UTF-8"), list(...), globalenv())
  if (is.data.frame(value)) return(plain_frame(value))
  estimates <- tryCatch(c(stats::coef(value)), error = function(e) NULL)
  # of svyby there are variances only, of which it warns; they are what we want
  variances <- tryCatch(diag(as.matrix(suppressWarnings(stats::vcov(value)))), error = function(e) NULL)
  if (is.null(estimates) || length(variances) != length(estimates)) return(value)
  name <- if (is.null(names(estimates))) paste0("V", seq_along(estimates)) else names(estimates)
  data.frame(name = name, estimate = unname(estimates), se = sqrt(unname(variances)))
}

sampling_probabilities <- function(size, n) sampling::inclusionprobabilities(size, n)

# Estimates of domains 0, 1, ..., each by survey's own function on the subset of the design.
domain_estimates <- function(design, lonely, statistic, y, x, domain, domains, prob) {
  old <- options(survey.lonely.psu = lonely, survey.adjust.domain.lonely = FALSE, survey.ultimate.cluster = FALSE)
  on.exit(options(old))
  if (lonely == "adjust" && statistic %in% c("total", "count") && any_lonely(design)) {
    version <- utils::packageVersion("survey")
    if (version < "4.3") {
      warning("survey ", version, " centres the total of a lonely PSU at 0 under survey.lonely.psu = \"adjust\" ",
              "(corrected in 4.3), so that standard errors of totals and counts differ from those of estimator='onepass'")
    }
  }
  design$variables <- data.frame(y = y, x = x, domain = domain)
  df <- survey::degf(design)
  each <- vapply(seq_len(domains) - 1L, function(d) {
    if (!any(domain == d)) return(if (statistic %in% c("total", "count")) c(0, 0, NA, NA) else c(NaN, NaN, NA, NA))
    # with pps = it warns of strata with one unit in the domain, which matter to no estimate
    inside <- suppressWarnings(subset(design, domain == d))
    one_domain(inside, statistic, prob, df)
  }, numeric(4))
  list(estimate = each[1, ], variance = each[2, ], low = each[3, ], high = each[4, ])
}

# Has any stage a stratum with one unit that is not sampled completely?
any_lonely <- function(design) {
  alone <- design$fpc$sampsize == 1
  any(if (is.null(design$fpc$popsize)) alone else alone & design$fpc$popsize > 1)
}

one_domain <- function(design, statistic, prob, df) {
  if (statistic == "quantile") {
    q <- survey::svyquantile(~y, design, prob, df = df)[[1]]
    return(c(q[1, 1], q[1, 4]^2, q[1, 2:3]))
  }
  found <- switch(statistic,
    total = , count = survey::svytotal(~y, design),
    ratio = survey::svyratio(~y, ~x, design),
    survey::svymean(~y, design)
  )
  if (is.infinite(stats::coef(found)[[1]]) && statistic == "ratio") return(c(NaN, NaN, NA, NA)) # to a denominator of 0
  c(stats::coef(found)[[1]], stats::vcov(found)[[1]], NA, NA)
}
