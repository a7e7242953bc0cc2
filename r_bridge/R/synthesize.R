#' Synthesize a confidential survey
#'
#' Releases m weighted synthetic data sets within a privacy budget: drawn from noisy tables of the file, or from a model
#' that a mechanism fits to its records.
#'
#' The default mechanism is [strict()]: noisy tables, pure differential privacy at the file's own number of records, not
#' only for large files, and intervals that carry what privacy cost. Nothing of the file may then decide what is published
#' but what epsilon covers, so it needs public numbers: `epsilon`, `population_total`, and `bounds` of an outcome that is a
#' number. Weights that may be published are declared, `weight = "public"`. [expected_errors()] says beforehand what such a
#' release will be worth.
#'
#' The other mechanisms fit a model to records. `mechanism = pseudo_posterior()` takes every model, and needs neither
#' `population_total` nor `bounds`. It fits the model under privacy weights, the smaller the riskier the record, that are
#' tuned until epsilon = 2 Delta m comes just below `epsilon`, never above (Hu, Savitsky & Williams 2022a, section 1.4.1).
#' Its guarantee is *asymptotic*: it holds as the sample grows, not strictly at your number of records.
#'
#' Columns that are predictors or that define strata, sampling units and finite populations are published
#' as they are, with the labels of strata and units that are not predictors recoded. Outcomes and weights are
#' synthetic. Nothing else leaves the design; only the columns that are needed are given to Python, through files in
#' a folder below [tempdir()] that is removed afterwards.
#'
#' Replicate weights of a `svyrep.design` are not used, and show neither strata nor sampling units: synthetic standard
#' errors then account for neither. If you know them, give the `svydesign()`. The synthetic designs get as many
#' replicates of their own, by Preston's bootstrap (`as.svrepdesign(type = "mrbbootstrap")`, under R's `set.seed()`);
#' [tables()] linearizes, and a release that is written and read again has designs without replicates.
#'
#' @param design The confidential file, as `svydesign()`, `svrepdesign()` or srvyr's `as_survey()` made it.
#' @param synthesizer A model: [fbs()], [fbp()], [beta_regression()], [negbin()], [poisson_counts()],
#'   [gamma_regression()], [multinomial_regression()], [mixture()], several [in_sequence()], or [python_model()], one of
#'   your own. A formula, `salary ~ field + gender`, is [fbs()] of it. [strict()] takes formulas, [fbs()] and [fbp()]: a list
#'   of formulas, `list(job ~ sex, income ~ sex + job)`, is a strict release of several outcomes, each given those before;
#'   `income ~ .` stands for the columns of `public` and all outcomes before.
#' @param epsilon Privacy budget of the whole release. Under [strict()], [censored()] or a policy for files that differ by
#'   one record's confidential values taken out, as n is public there; else by one record added or removed.
#' @param m Number of synthetic data sets; default 20 under [strict()], where it is even, at least 4, and costs no epsilon;
#'   else 3.
#' @param population_total Public number of population units that the synthetic weights add up to; or one for
#'   each stratum, named by it. [strict()], unless weights are public, and [censored()] need it. Default under the others:
#'   the sum of the survey weights, which is computed from your file and not covered by epsilon: the report says so.
#' @param mechanism [strict()], the default, or [censored()], whose guarantees are strict; or [pseudo_posterior()] or
#'   [weighted_e()], whose guarantees are asymptotic.
#' @param bounds Public lowest and highest amount of an outcome of a strict release, `c(0, 1e6)`, or a list of such by
#'   outcome: short for `outcomes`. They are not taken from the file.
#' @param policy By [policy_from_historical()] or [read_policy()]: it sets the model, `epsilon`, `m` and the
#'   mechanism, none of which is then given here. The guarantee is strict; `population_total` must be given.
#' @param ledger By [ledger()]: both epsilons are entered there before this function returns, if the cap allows it; or
#'   give it to [write_release()], which enters them last.
#' @param rule By [identification_rule()]: the data sets must pass it once they are drawn, or nothing is released or
#'   spent. Not under [strict()] or [censored()]. Epsilon covers neither that a release was blocked, which must not be
#'   published, nor that another one passed.
#' @param public The columns that you declare public, by name or as a formula. Given, it must hold every column of the
#'   public files
#'   that is not synthesized; without it the formula and the design name them.
#' @param clusters Sampling units of several records, and strata that the predictors do not determine, get normal
#'   effects in the model, so that synthetic files have the survey's standard errors; `"ignore"` draws records
#'   independently given the predictors, and the report says so.
#' @param unit Column of the units that epsilon protects, where these are groups of records: households, or sampling
#'   units. Default: single records.
#' @param reweight Steps of re-weighting at most: privacy weights of records whose bounds lie below the overall one are
#'   raised, at the same epsilon. `TRUE` or 1 is the one step of the paper (Hu, Savitsky & Williams 2020, Algorithm 1);
#'   `reweight = 10` goes on while weights rise, for 10 steps at most. Not under [strict()] or [censored()], nor with
#'   `debias`.
#' @param debias Correct the released draws for the effect of the privacy weights on the model; not under [strict()]. The
#'   correction uses c1: tuned on your file, c1 stays internal and the correction is **not covered by epsilon**, which
#'   the report says; given, by `pseudo_posterior(c1 = )`, it makes the correction post-processing.
#' @param accept_diagnostics What you accept, by name: failed diagnostics of the sampler (`"divergences"`, `"rhat"`,
#'   `"ess_bulk"`, `"ess_tail"`), and `"information"`: that privacy weights keep less than 30% of the file's
#'   information. Not under [strict()] or [censored()]. How much they keep is a message of class `surveysynth_internal`,
#'   for you and not for publication.
#' @param engine Where Stan runs: `"auto"`, `"embedded"` or `"cmdstan"`.
#' @param tolerance How far below `epsilon` the result may stay, as a share of it.
#' @param chains,warmup,draws Settings of the sampler of a fit to records; `NULL`: 1,000 each.
#' @param seed For tests only: whoever knows the seed can undo the randomness, and the release says that it is not for
#'   publication. Without it randomness comes from the operating system; R's `set.seed()` has no influence on it.
#' @param edits Public rules that every synthetic record is to obey, conditions on columns as Python writes them:
#'   `c("rent <= income", "hours > 0 or wages == 0")`. Records that break one are drawn again, at no epsilon.
#' @param levels All levels that outcomes that are categories can have, `list(job = c("none", "part time", "full time"))`:
#'   they are published, so they are declared and not taken from the file. A factor declares its own, and `TRUE` and
#'   `FALSE` are declared.
#' @param outcomes What is public of the outcomes of a strict release, `list(income = outcome(bounds = c(0, 1e6)))`, by
#'   [outcome()]; `bounds` and `levels` are short for it.
#' @param population_totals Public totals of the levels of predictors, `list(region = c(north = 812000, south = 645000))`:
#'   domain counts of a strict release are then exact. Default: whole numbers that [survey::postStratify()] and others
#'   calibrated the design's weights to.
#' @param weight `"public"` if the weights of a strict release may be published; by default it synthesizes them.
#' @param weight_bounds Public bounds of a weight in a strict release, in units of the mean weight; default
#'   `c(0.02, 20)`.
#' @param importance By what the epsilon of an outcome's tables in a strict release is multiplied, `list(income = 2)`, in
#'   relation to others.
#' @param earlier Of a strict release: measurements of an earlier year, by [measure()], the release that was drawn from
#'   them, or the folder of either. The model is fitted to both years, and epsilons add up for people who are in both.
#' @return A release, of class `surveysynth_release`: a list with `designs`, `count_designs` and `manifest` as
#'   described at [read_release()]. [write_release()] keeps it, and so does `saveRDS()`, without what is internal.
#' @seealso [measure()], which counts the file once for many releases; [privacy()], [tables()], [with_release()],
#'   [write_release()]
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#'
#'   Hu, Savitsky & Williams (2020), Maximizing Utility for Vector-Weighted Pseudo Posterior Mechanisms under
#'   Differential Privacy, arXiv:2006.01230.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#'
#' # asymptotic, with privacy weights
#' model <- fbs(api00 ~ stype + awards, prior = "flat")
#' release <- synthesize(design, model, epsilon = 10.8, population_total = 6194,
#'                       mechanism = pseudo_posterior())
#' privacy(release)
#' tables(release, by = ~ stype + awards)
#'
#' # strict: scores run from 200 to 1000; the weights are a function of the type, which is public
#' synthesize(design, api00 ~ stype + awards, epsilon = 5, population_total = 6194,
#'            bounds = c(200, 1000), weight = "public")
synthesize <- function(design, synthesizer = NULL, epsilon = NULL, m = NULL, population_total = NULL, mechanism = NULL,
                       policy = NULL, ledger = NULL, rule = NULL, public = NULL, clusters = c("model", "ignore"),
                       unit = NULL, reweight = 0, debias = FALSE, accept_diagnostics = NULL,
                       engine = c("auto", "embedded", "cmdstan"), tolerance = 0.01, chains = 4, warmup = NULL,
                       draws = NULL, seed = NULL, bounds = NULL, edits = NULL, levels = NULL, outcomes = NULL,
                       population_totals = NULL, weight = NULL, weight_bounds = NULL, importance = NULL,
                       earlier = NULL) {
  settings <- list(
    epsilon = epsilon, m = m, clusters = match.arg(clusters), unit = one_name(unit), reweight = reweight,
    debias = debias, engine = match.arg(engine), accept_diagnostics = I(as.character(accept_diagnostics)),
    tolerance = tolerance, chains = chains, warmup = warmup, draws = draws, seed = seed,
    ledger = if (!is.null(ledger)) check_ledger(ledger), rule = if (!is.null(rule)) check_rule(rule),
    edits = if (!is.null(edits)) I(as.character(edits)), weight = weight, weight_bounds = weight_bounds
  )
  in_folder(function(folder) {
    known <- rule$arguments$known
    declared <- declarations(bounds, outcomes, population_totals, importance, levels)
    given <- model_arguments(folder, design, synthesizer, mechanism, population_total, public, unit, policy, known, declared)
    past <- earlier_for_python(earlier)
    objects <- c(past$objects, if (!is.null(policy)) list(policy = python_policy(policy)))
    release_from_python(folder, kind_of_design(design), "synthesize", c(given, settings, past$given), objects)
  })
}

# What is declared for a strict release, once its forms are checked.
declarations <- function(bounds = NULL, outcomes = NULL, population_totals = NULL, importance = NULL, levels = NULL) {
  list(
    bounds = bounds, outcomes = if (!is.null(outcomes)) check_outcomes(outcomes), levels = levels,
    population_totals = if (!is.null(population_totals)) lapply(as.list(population_totals), as.list),
    importance = if (!is.null(importance)) as.list(importance)
  )
}

# A release that a task of the bridge makes, its data sets in a folder, and its designs of the kind of the confidential one.
release_from_python <- function(folder, kind, task, given, objects = list()) {
  made <- do.call(ask_python, c(list(task, folder = folder), given, list(objects = objects)))
  manifest <- made$value$manifest
  frames <- lapply(file.path(folder, seq_len(manifest$m)), function(part) as_they_were(loaded(part), manifest))
  as_design_was(new_release(frames, manifest, list(object = made$object, text = made$value$text)), kind)
}

#' What a strict release will be worth
#'
#' Standard errors to expect of [synthesize()] under [strict()], from what is public alone: releases of made-up files that
#' have the public columns and the design of the survey. No epsilon is spent. What [synthesize()] would refuse is refused
#' here, by the same checks.
#'
#' @param design,epsilon,population_total,population_totals,bounds,outcomes As for [synthesize()]. Outcomes are looked at
#'   for one thing, whether they contradict what is declared of them; weights are used only where they are public.
#' @param synthesizer A formula, a list of formulas, [fbs()] or [fbp()].
#' @param by Predictors by which tables will be made, by name or as a formula.
#' @param delta As for [strict()].
#' @param m,weight,weight_bounds,clusters,unit,public,importance As for [synthesize()].
#' @return A data frame with a row for each cell: the columns of `by`, `statistic`, `ratio`, the standard error of the
#'   release over that of the sample itself, and `cv`, the same over the estimate, as far as what is declared lets one
#'   guess. Where there are several outcomes `outcome` says which.
#' @seealso [privacy_cost()], for mechanisms that fit a model to records; [check_plan()]
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' expected_errors(design, api00 ~ stype, epsilon = 5, by = ~ stype, population_total = 6194,
#'                 bounds = c(200, 1000))
expected_errors <- function(design, synthesizer, epsilon = NULL, by = NULL, delta = NULL, m = 20, population_total = NULL,
                            population_totals = NULL, bounds = NULL, outcomes = NULL, weight = NULL,
                            weight_bounds = NULL, clusters = c("model", "ignore"), unit = NULL, public = NULL,
                            importance = NULL) {
  unit <- one_name(unit)
  settings <- list(
    epsilon = epsilon, by = names_of(by), delta = delta, m = m, weight = weight, weight_bounds = weight_bounds,
    clusters = match.arg(clusters), unit = unit
  )
  in_folder(function(folder) {
    declared <- declarations(bounds, outcomes, population_totals, importance)
    given <- model_arguments(folder, design, synthesizer, NULL, population_total, public, unit, declared = declared)
    given[c("mechanism", "classes")] <- NULL
    do.call(frame_from_python, c(list("expected_errors", folder), given, settings))
  })
}

#' What a release of a fit to records would cost
#'
#' A dry run of [synthesize()] under privacy weights. Without `epsilon` and `c1` a table of what epsilons and numbers of
#' data sets buy. With them the epsilon that `c1` means, or the `c1` that `epsilon` means. It is computed from the
#' confidential file and is for internal use. For strict releases see [expected_errors()].
#'
#' @param design,synthesizer,m As for [synthesize()].
#' @param mechanism Whose release is priced: [pseudo_posterior()], the default, or, with `epsilon` or `c1`,
#'   [weighted_e()].
#' @param epsilon Given alone, c1 is tuned to it.
#' @param c1 Scale of the weight map: under the inverse map alpha = c1 Delta_target / f (Hu, Savitsky & Williams 2022a,
#'   section 1.4.1, step 2), with Delta_target = epsilon / (2 m), or 1 without an epsilon.
#' @param ... Further arguments of [synthesize()], except `policy`, `ledger`, `rule`, `debias`, `accept_diagnostics`,
#'   `edits` and those of strict releases.
#' @return A table is a data frame of class `surveysynth_costs`: `m`, `epsilon`, `information` (the share of the file's
#'   information that is kept, about), `se_ratio` (the expected standard error of a mean over the file's own, about) and
#'   `verdict`. Else a list of class `surveysynth_privacy_cost`: `m`, `c1`, `delta_target`, `delta` (the Lipschitz bound
#'   of one draw), `epsilon` (2 delta m), `mean_alpha` (the share of the file's information that is left),
#'   `weighted_down` (the share of the records with a privacy weight below 1) and `verdict` (of the sampler's diagnostics).
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' model <- fbs(enroll ~ stype, prior = "flat")
#' privacy_cost(design, model)
#' privacy_cost(design, model, epsilon = 10.8)
#' privacy_cost(design, model, c1 = 1)
#' privacy_cost(design, model, epsilon = 10.8, reweight = 10)
privacy_cost <- function(design, synthesizer, epsilon = NULL, c1 = NULL, m = NULL, mechanism = NULL, ...) {
  further <- list(...)
  none_here <- c("policy", "ledger", "rule", "debias", "accept_diagnostics", "edits", "outcomes", "bounds",
                 "population_totals", "weight", "weight_bounds", "importance", "earlier")
  own <- setdiff(names(formals(privacy_cost)), "...")
  allowed <- setdiff(names(formals(synthesize)), c(own, none_here))
  unknown <- setdiff(if (length(further)) names(further), allowed)
  if (length(unknown)) {
    refuse("privacy_cost() has no argument ", paste(vapply(unknown, near_name, "", c(own, allowed)), collapse = ", "))
  }
  further$unit <- one_name(further$unit)
  if (!is.null(further$levels)) further$levels <- lapply(as.list(further$levels), I)
  in_folder(function(folder) {
    given <- model_arguments(
      folder, design, synthesizer, mechanism, further$population_total, further$public, further$unit
    )
    further[c("population_total", "public")] <- NULL
    found <- do.call(ask_python, c(list("privacy_cost", epsilon = epsilon, c1 = c1, m = m), given, further))
    if (!is.null(found$value$information)) return(cost_table(found$value))
    structure(found$value, class = "surveysynth_privacy_cost")
  })
}

# One row for each number of data sets and epsilon; what is refused has no numbers.
cost_table <- function(columns) {
  numbers <- c("m", "epsilon", "information", "se_ratio")
  columns[numbers] <- lapply(columns[numbers], function(x) vapply(x, function(v) if (is.null(v)) NA_real_ else as.numeric(v), 0))
  structure(as.data.frame(columns), class = c("surveysynth_costs", "data.frame"))
}

#' @method print surveysynth_costs
#' @export
print.surveysynth_costs <- function(x, ...) {
  shown <- plain_table(x)
  for (name in intersect(c("epsilon", "information", "se_ratio"), names(shown))) {
    shown[[name]] <- ifelse(is.na(shown[[name]]), "", formatC(shown[[name]], digits = 3, format = "fg"))
  }
  print(shown, row.names = FALSE, ...)
  invisible(x)
}

#' @method print surveysynth_privacy_cost
#' @export
print.surveysynth_privacy_cost <- function(x, ...) {
  cat(sprintf("epsilon = %.4g for m = %d data sets: Delta = %.4g each", x$epsilon, x$m, x$delta),
      if (!is.null(x$c1)) sprintf(", c1 = %.4g (bound aimed at: %.4g)", x$c1, x$delta_target), "\n",
      sprintf("mean privacy weight: %.3f (1: all of the file's information%s)\n", x$mean_alpha,
              if (x$mean_alpha >= 0.9995) "; more epsilon buys nothing" else ""),
      sprintf("privacy weight below 1: %.3g%% of the records%s\n", 100 * x$weighted_down, verdict_on(x$weighted_down)),
      if (x$mean_alpha < 0.3) paste0("little of the file's information is left: synthesize() refuses such a release, unless ",
                                     "accept_diagnostics names \"information\"\n"), x$verdict,
      "\nInternal: computed from the confidential file.\n", sep = "")
  invisible(x)
}

# The asymptotic guarantee is for files in which the share of records that are weighted down goes to 0.
verdict_on <- function(share) {
  if (share > 0.1) ", many: the guarantee for large files says little of this one; take strict(), or a larger epsilon" else ""
}

# The arguments that the functions share which give a design to Python; `known` are columns of a rule, `declared` is by
# declarations(), where there can be a strict release. `classes` are those of outcomes, for the release.
model_arguments <- function(folder, design, synthesizer, mechanism, population_total, public, unit = NULL,
                            policy = NULL, known = NULL, declared = NULL) {
  if (inherits(synthesizer, "formula") && identical(synthesizer[[length(synthesizer)]], quote(.))) {
    synthesizer <- list(synthesizer)
  }
  if (is.null(policy) && is_list_of_formulas(synthesizer)) synthesizer <- formulas(synthesizer, names_of(public))
  if (is.null(policy)) {
    of_policy <- if (inherits(synthesizer, "surveysynth_policy")) "; a policy is given by its name, policy ="
    synthesizer <- as_model(synthesizer, of_policy)
  }
  if (!is.null(policy) && !is.null(synthesizer)) refuse("the policy sets the model: leave the second argument out")
  check_mechanism(mechanism)
  model <- if (is.null(policy)) synthesizer else check_policy(policy)
  parts <- synthesis_parts(design)
  public <- names_of(public)
  columns <- c(model$outcomes, model$columns, names_of(unit), known, mechanism$arguments$risk$arguments$known)
  check_there(c(columns, public), names(parts$frame))
  check_predictors(parts$frame[setdiff(model$columns, model$outcomes)])
  if (is.null(policy)) {
    synthesizer <- with_logical(synthesizer, names(Filter(is.logical, parts$frame)))
  }
  asked <- parts$frame[model$outcomes]
  strict <- !is.null(declared) && is.null(policy) && (is.null(mechanism) || mechanism$name == "strict")
  if (strict) declared[c("bounds", "outcomes")] <- declared_by_class(asked, declared$bounds, declared$outcomes, declared$levels)
  parts$frame <- outcomes_for_python(parts$frame, model$outcomes, strict)
  if (is.list(declared$bounds)) declared$bounds <- lapply(declared$bounds, I)
  if (!is.null(declared$levels)) declared$levels <- lapply(as.list(declared$levels), I)
  c(declared, list(
    design = design_for_python(parts, columns, folder), synthesizer = synthesizer, mechanism = mechanism,
    population_total = named_totals(population_total, parts),
    public = if (!is.null(public)) I(intersect(public, c(columns, unlist(parts$roles[DRAWN])))),
    classes = if (!is.null(declared)) classes_of_outcomes(asked)
  ))
}

is_list_of_formulas <- function(x) {
  is.list(x) && !is.object(x) && length(x) > 0 && all(vapply(x, inherits, NA, "formula"))
}

# Formulas in sequence, as text for Python; a dot stands for the public columns and the outcomes before.
formulas <- function(given, public) {
  outcomes <- character()
  columns <- character()
  for (one in given) {
    if (length(one) != 3) refuse("the formula ", deparse1(one), " has no outcome: write job ~ sex")
    columns <- c(columns, if (identical(one[[3]], quote(.))) public else all.vars(one[[3]]))
    outcomes <- c(outcomes, outcome_columns(one[[2]]))
  }
  structure(list(formulas = unname(given), outcomes = outcomes, columns = setdiff(columns, outcomes)),
            class = c("surveysynth_formulas", "surveysynth_synthesizer"))
}

# Their text, once it is known which columns are logical.
formulas_text <- function(model, logical) {
  text <- function(one) {
    right <- if (identical(one[[3]], quote(.))) "." else formula_text(one[[3]], setdiff(logical, model$outcomes))
    paste(paste(vapply(lapply(outcome_columns(one[[2]]), as.name), column_text, ""), collapse = " + "), "~", right)
  }
  I(vapply(model$formulas, text, ""))
}

# What is public of outcomes, by their names.
check_outcomes <- function(outcomes) {
  named <- is.list(outcomes) && length(names(outcomes)) && all(nzchar(names(outcomes)))
  if (!named || !all(vapply(outcomes, inherits, NA, "surveysynth_outcome"))) {
    refuse("outcomes is a list by outcome: list(income = outcome(bounds = c(0, 1e6)))")
  }
  outcomes
}

# A model, or FBS of a formula.
as_model <- function(synthesizer, advice = NULL) {
  if (inherits(synthesizer, "formula")) return(fbs(synthesizer))
  if (!inherits(synthesizer, "surveysynth_synthesizer")) {
    refuse("the second argument is a model, such as fbs(salary ~ field + gender)", advice)
  }
  synthesizer
}

check_mechanism <- function(mechanism) {
  if (!is.null(mechanism) && !inherits(mechanism, "surveysynth_mechanism")) {
    refuse("a mechanism is pseudo_posterior(...), weighted_e(...), censored(...) or strict(...)")
  }
}

DRAWN <- c("strata", "psu", "fpc") # roles that say how the sample was drawn

# What synthesis needs of a design: not its replicates.
synthesis_parts <- function(design) {
  parts <- design_parts(design)
  if (inherits(design, "svyrep.design")) {
    warning("replicate weights tell neither strata nor sampling units: whether there are clusters cannot be seen, and ",
            "synthetic standard errors carry neither; if you know them, give the svydesign()", call. = FALSE)
    parts$roles <- parts$roles[intersect(names(parts$roles), c("weights", "probs"))]
  }
  kept <- c("weights", "probs", DRAWN, "lonely_psu", CALIBRATION, "earlier_calibrations")
  parts$roles <- parts$roles[intersect(names(parts$roles), kept)]
  parts
}

check_predictors <- function(frame) {
  dates <- names(Filter(function(x) inherits(x, c("Date", "POSIXt")), frame))
  if (length(dates)) {
    refuse("the formula has ", toString(sQuote(dates)), ", a date, among the predictors; make a category or a number of it ",
           "first: design <- update(design, year = format(", dates[1], ", \"%Y\"))")
  }
}

check_there <- function(columns, there) {
  absent <- setdiff(columns, there)
  if (length(absent)) {
    refuse("the design has no column ", paste(vapply(absent, near_name, "", there), collapse = ", "), "; it has ",
           listing(there))
  }
}

# The first names. As listing() of surveysynth/design/columns.py: a file without a header line has its first record for names,
# so where any looks like a value they are counted, and none is shown.
listing <- function(names, shown = 12) {
  values <- sum(looks_like_value(names))
  there <- paste(length(names), if (length(names) == 1) "column" else "columns")
  if (values) {
    return(paste0(there, ", ", values, " whose ", if (values == 1) "name looks like a value" else "names look like values",
                  ": where there is no header line, give the file a first line with the column names"))
  }
  paste0(paste(utils::head(names, shown), collapse = ", "), if (length(names) > shown) paste0(", ... (", there, ")"))
}

# Begins with a digit, after a sign perhaps, or with the X that read.csv() puts before; X1 and X12 are names that R makes.
looks_like_value <- function(names) {
  grepl("^([^[:alnum:]_]*[0-9]|X([^[:alnum:]_]+[0-9]|[0-9]+([^[:alnum:]_]|[0-9][0-9])))", names)
}

# The name in quotes, with the one that may be meant.
near_name <- function(name, there) {
  if (any(looks_like_value(there))) return(sQuote(name))
  distance <- utils::adist(name, there)[1, ]
  near <- there[which(distance == min(distance) & distance <= min(2, nchar(name) - 1))]
  paste0(sQuote(name), if (length(near)) paste0(" (did you mean ", paste(sQuote(near), collapse = " or "), "?)"))
}

# A design for Python: only these columns and those with a role are written.
design_for_python <- function(parts, columns, folder) {
  roles <- parts$roles
  in_roles <- unlist(roles[setdiff(names(roles), c("lonely_psu", "pps", "combined", "scale", "rscales", "mse"))])
  used <- names(parts$frame) %in% c(columns, in_roles)
  labels <- variable_labels(parts$frame[used])
  warn_of_labels(parts$frame[used])
  frame <- frame_for_python(parts$frame[used], folder, "confidential")
  several <- names(roles) %in% c("psu", "fpc", "replicate_weights", "rscales")
  roles[several] <- lapply(roles[several], I)
  do.call(make, c(list("SurveyDesign", "design", frame = frame, labels = if (length(labels)) labels), roles))
}

# Codes such as "refused" among numbers would be taken for amounts.
warn_of_labels <- function(frame) {
  for (name in names(frame)) {
    x <- frame[[name]]
    if (!inherits(x, "haven_labelled") || inherits(x, "haven_labelled_spss")) next
    codes <- attr(x, "labels")
    marked <- which(as.vector(unclass(x)) %in% codes)
    if (length(marked)) {
      called <- paste0(utils::head(codes, 12), " = \"", utils::head(names(codes), 12), "\"", collapse = ", ")
      warn_internal(
        "column ", sQuote(name), " has ", if (is.character(x)) "texts" else "numbers", ", of which those in ",
        length(marked), " rows (", paste(utils::head(marked, 5), collapse = ", "), if (length(marked) > 5) ", ...",
        ") carry a value label: ", called, if (length(codes) > 12) ", ...", "; those that stand for a missing ",
        "value, make NA: haven::zap_missing(), or design <- update(design, ", name, " = ...)"
      )
    }
  }
}

# Totals by stratum, whose names are numbers in one way of writing.
named_totals <- function(total, parts) {
  if (is.null(names(total))) {
    if (length(total) > 1) refuse("population_total is one number, or one for each stratum, named by it")
    return(total)
  }
  strata <- parts$roles$strata
  number <- suppressWarnings(as.numeric(names(total)))
  if (!is.null(strata) && is.double(parts$frame[[strata]]) && !anyNA(number)) names(total) <- sprintf("%.15g", number)
  as.list(total)
}

# What synthetic designs have in common with the confidential one: how many replicates, and whether they are srvyr's.
kind_of_design <- function(design) {
  list(replicates = if (inherits(design, "svyrep.design")) ncol(stats::weights(design, "analysis")),
       srvyr = inherits(design, "tbl_svy"))
}

# The synthetic designs in the kind that the confidential one had.
as_design_was <- function(release, kind) {
  change <- identity
  if (!is.null(kind$replicates)) {
    change <- function(x) { # it warns that one stage is used, and there is one
      made <- suppressWarnings(survey::as.svrepdesign(x, type = "mrbbootstrap", replicates = kind$replicates))
      made$call <- call("as.svrepdesign", x$call, type = "mrbbootstrap", replicates = kind$replicates)
      made
    }
  }
  if (kind$srvyr && isNamespaceLoaded("srvyr")) {
    plain <- change
    change <- function(x) as_srvyr(plain(x))
  }
  release$designs <- lapply(release$designs, change)
  same <- is.null(release$manifest$count_design) # then with the same random replicates
  release$count_designs <- if (same) release$designs else lapply(release$count_designs, change)
  release
}
