#' A policy that a historical file sets
#'
#' Everything that protects later releases of a survey is fixed on a historical file, once: the model, epsilon, m and
#' the privacy weights of [censored()], which come from the risks of records under posterior draws of *that* file (Hu,
#' Williams & Savitsky 2025, section 4.5). Nothing in the later files sets any of it, so the guarantee of their releases
#' is strict. `synthesize(policy = )` makes them.
#'
#' A policy is confidential: it holds posterior draws of the historical file, and what `scale()`, `poly()` and `bs()` in
#' the formula took from it: means and knots, which later files are evaluated with. Beyond its knots `bs()` has no
#' value: move later values that lie there to the nearest.
#'
#' @param design The historical file, such as last year's: not the one to release.
#' @param synthesizer,epsilon,m,clusters,engine,chains,warmup,draws,seed As for [synthesize()].
#' @param source What to call the historical file; it is published with every release.
#' @param population_total Public number of population units of the historical file, or one for each stratum, named by
#'   it.
#' @param map,c1,c2 As for [pseudo_posterior()]. Without `c1` it is tuned so that the Lipschitz bound of the historical
#'   file is epsilon / (2 m): few records of a similar file are then clamped.
#' @return A policy, of class `surveysynth_policy`. It lives as long as the R session; [write_policy()] keeps it.
#' @references Hu, Williams & Savitsky (2025), Mechanisms for Global Differential Privacy under Bayesian Data
#'   Synthesis, Statistica Sinica 35, 563-584, \doi{10.5705/ss.202022.0162}.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' last_year <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' model <- fbs(api99 ~ stype, prior = "normal")
#' policy <- policy_from_historical(last_year, model, epsilon = 10.8, source = "scores of 1999",
#'                                  population_total = 6194)
#' policy
policy_from_historical <- function(design, synthesizer, epsilon, source, population_total, m = 3,
                                   map = c("inverse", "linear"), c1 = NULL, c2 = 0, clusters = c("model", "ignore"),
                                   engine = c("auto", "embedded", "cmdstan"), chains = 4, warmup = 1000, draws = 1000,
                                   seed = NULL) {
  settings <- list(
    epsilon = epsilon, source = source, m = m, map = match.arg(map), c1 = c1, c2 = c2, clusters = match.arg(clusters),
    engine = match.arg(engine), chains = chains, warmup = warmup, draws = draws, seed = seed
  )
  in_folder(function(folder) {
    given <- model_arguments(folder, design, synthesizer, NULL, population_total, NULL)
    new_policy(do.call(ask_python, c(list("policy_from_historical"), given, settings)))
  })
}

#' Keep a policy in a file
#'
#' @param policy By [policy_from_historical()].
#' @param path The file, which only you can read; keep it as you keep the survey itself.
#' @param overwrite Replace a file that is there.
#' @return `write_policy()`: `path`, invisibly. `read_policy()`: the policy.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' last_year <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' model <- fbs(api99 ~ stype, prior = "normal")
#' policy <- policy_from_historical(last_year, model, epsilon = 10.8, source = "scores of 1999",
#'                                  population_total = 6194)
#' file <- tempfile(fileext = ".npz")
#' write_policy(policy, file)
#' read_policy(file)
#' unlink(file)
write_policy <- function(policy, path, overwrite = FALSE) {
  path <- path.expand(path)
  ask_python("write_policy", path = path, overwrite = overwrite, objects = list(python_policy(check_policy(policy))))
  invisible(path)
}

#' @rdname write_policy
#' @export
read_policy <- function(path) new_policy(ask_python("read_policy", path = path.expand(path)))

new_policy <- function(made) structure(c(made$value, list(object = made$object)), class = "surveysynth_policy")

check_policy <- function(policy) {
  if (!inherits(policy, "surveysynth_policy")) {
    refuse("a policy is what policy_from_historical() and read_policy() return")
  }
  policy
}

# Python's own object of a policy.
python_policy <- function(policy) {
  if (reticulate::py_is_null_xptr(policy$object)) {
    refuse("this policy was made in an R session that has ended: only write_policy() keeps one for another session")
  }
  policy$object
}

#' @method print surveysynth_policy
#' @export
print.surveysynth_policy <- function(x, ...) {
  writeLines(strwrap(x$text, exdent = 2))
  invisible(x)
}
