# What surveysynth/r.py asks of R beside the functions of the R package.

attempt <- function(f, ...) {
  tryCatch(list(f(...)), error = function(e) structure(list(conditionMessage(e)), class = "error"))
}

imputation_list <- function(...) structure(list(designs = list(...), call = sys.call()), class = "svyimputationList")

evaluated <- function(.expression, .lonely, ...) {
  suppressPackageStartupMessages(library(survey))
  old <- options(survey.lonely.psu = .lonely)
  on.exit(options(old))
  value <- eval(parse(text = .expression, encoding = "UTF-8"), list(...), globalenv())
  if (is.data.frame(value)) return(plain_frame(value))
  estimates <- tryCatch(c(stats::coef(value)), error = function(e) NULL)
  variances <- tryCatch(diag(as.matrix(stats::vcov(value))), error = function(e) NULL)
  if (is.null(estimates) || length(variances) != length(estimates)) return(value)
  name <- if (is.null(names(estimates))) paste0("V", seq_along(estimates)) else names(estimates)
  data.frame(name = name, estimate = unname(estimates), se = sqrt(unname(variances)))
}

sampling_probabilities <- function(size, n) sampling::inclusionprobabilities(size, n)

# Estimates of domains 0, 1, ..., each by survey's own function on the subset of the design.
domain_estimates <- function(design, lonely, statistic, y, x, domain, domains, prob) {
  old <- options(survey.lonely.psu = lonely)
  on.exit(options(old))
  design$variables <- data.frame(y = y, x = x)
  df <- survey::degf(design)
  each <- vapply(seq_len(domains) - 1L, function(d) {
    records <- which(domain == d)
    if (!length(records)) return(if (statistic %in% c("total", "count")) c(0, 0, NA, NA) else c(NaN, NaN, NA, NA))
    one_domain(design[records, ], statistic, prob, df)
  }, numeric(4))
  list(estimate = each[1, ], variance = each[2, ], low = each[3, ], high = each[4, ])
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
  c(stats::coef(found)[[1]], stats::vcov(found)[[1]], NA, NA)
}
