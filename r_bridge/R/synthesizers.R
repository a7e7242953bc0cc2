#' Models that synthesize
#'
#' `fbs()` is the fully Bayes model for the observed sample: outcomes and survey weight are jointly
#' normal given the predictors (Hu, Savitsky & Williams 2022a, section 2.1, eq. 2-3 and appendix C). `fbp()` is the
#' fully Bayes model for the population and its inclusion probabilities: its synthetic outcomes follow the population,
#' not the sample (Hu, Savitsky & Williams 2022a, section 2.2, eq. 4-7 and appendix D). Neither does anything by itself:
#' [synthesize()] fits it.
#'
#' Columns named by the formula are **public**: they are published as they are, record by record. That goes for columns
#' inside of functions, too: `I(age > 65)` publishes `age` itself. If only the groups may be published, make a
#' column of them first (`update(design, old = age > 65)`).
#' Text and factors are categories, numbers are numbers, `factor(x)` makes a category of a number.
#' Formulas are R's, with `+ - * : / ^ ( )`, and the functions `factor`, `I`, `log`, `log2`, `log10`, `log1p`,
#' `exp`, `expm1`, `sqrt`, `abs`, `sign`, `floor`, `ceiling`, `trunc`, `sin`, `cos`, `tan`, `asinh`, `scale`,
#' `poly` and `bs`; of anything else make a column first (`update(design, new = ...)`).
#'
#' Under [strict()] a model is its formula, and `weight = "public"`: other options are refused, as noisy tables have a
#' prior and a scale of their own, and what is missing, zero or a level is declared by [outcome()].
#'
#' @param outcome The confidential columns that are synthesized, by name; or a formula,
#'   `salary ~ field + gender` or `cbind(wage, bonus) ~ field`, and then no `predictors`. Numbers are normal on the
#'   scale of `transform`; categories are written `factor(employed)`, and are multinomial within the
#'   cells of the discrete predictors. The names of categories are public.
#' @param predictors A formula, `~ field + gender` (`~ 1` for none), or names of columns.
#' @param prior `"paper"`, that of Hu, Savitsky & Williams (2022a); `"flat"`, p(B, Sigma) proportional to
#'   |Sigma|^(-(D+1)/2), whose posterior is drawn exactly and in no time; for `fbs()` also `"independent"`, the paper's
#'   with independent coefficients, sensible with more than about 20 predictors, and `"normal"`, coefficients ~ N(0,
#'   100), the fastest under [censored()].
#' @param transform The scale on which outcomes are normal: `"log"`, [asinh_transform()], [identity_transform()] or
#'   [normal_scores()]; several outcomes may have a list of them, by name.
#' @param missing What a missing outcome does: `"fail"`, or `"drop"`, which leaves the record out and has
#'   the privacy report say how many.
#' @param weight `"public"` declares that the survey weight is public: it is kept and published. So are weights that are
#'   a function of the predictors, but under [strict()], where it has to be said.
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examples
#' fbs("salary", ~ field + gender)
#' fbs(cbind(wage, bonus) ~ field * gender,
#'     transform = list(wage = "log", bonus = asinh_transform(100)))
#' fbs(cbind(factor(employed), wage) ~ field)
#' fbp(salary ~ field + age, bands = list(age = c(25, 45, 65)))
fbs <- function(outcome, predictors = NULL, prior = c("paper", "independent", "normal", "flat"), transform = "log",
                missing = c("fail", "drop"), weight = NULL) {
  synthesizer("FBS", outcome, predictors, prior = match.arg(prior), transform = transform,
              missing = match.arg(missing), weight = weight)
}

#' @rdname fbs
#' @param weights Smoothed weights under `fbp()`: `"full"`, the model's own, or `"paper"`, as in section 2.2 of the
#'   paper, which leave out how selection differs between cells.
#' @param variance Standard errors of counts: `"stratified"`, or `"paper"`, without strata, as in Table 4 of the paper.
#' @param bands Public limits that group a numeric predictor of many values into bands, for the
#'   cells: `list(age = c(25, 45, 65))`.
#' @export
fbp <- function(outcome, predictors = NULL, prior = c("paper", "flat"), transform = "log",
                missing = c("fail", "drop"), weights = c("full", "paper"),
                variance = c("stratified", "paper"), bands = NULL, weight = NULL) {
  synthesizer("FBP", outcome, predictors, prior = match.arg(prior), transform = transform, missing = match.arg(missing),
              weights = match.arg(weights), variance = match.arg(variance), bands = if (length(bands)) lapply(bands, I),
              weight = weight)
}

#' A beta regression of one bounded outcome
#'
#' The outcome lies between two public bounds and is beta distributed, the logit of its mean linear in the predictors
#' (Hu, Williams & Savitsky 2025, sections 4.1 and 5). The model has no density of the survey weight and no effects of
#' sampling units: weights must be a function of the predictors, and strata must be among them. Not under [strict()],
#' which takes the formula and `bounds`.
#'
#' @param outcome The confidential number that is synthesized, by name; or a formula, `salary ~ gender + age`, and then
#'   no `predictors`.
#' @param predictors,missing As for [fbs()]; the columns of the formula are public.
#' @param bounds The outcome's lowest and highest possible value, public: chosen without looking at the file.
#' @param weight `"public"` declares that the survey weight is public: it is kept and published, and may vary among
#'   records with the same predictors.
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @references Hu, Williams & Savitsky (2025), Mechanisms for Global Differential Privacy under Bayesian Data
#'   Synthesis, Statistica Sinica 35, 563-584, \doi{10.5705/ss.202022.0162}.
#' @export
#' @examples
#' beta_regression("salary", ~ gender + age, bounds = c(0, 2e5))
#' beta_regression(salary ~ 1, bounds = c(0, 2e5))
beta_regression <- function(outcome, predictors = NULL, bounds = NULL, missing = c("fail", "drop"), weight = NULL) {
  if (length(bounds) != 2 || !is.numeric(bounds)) {
    refuse("bounds must be the outcome's lowest and highest possible value, which are public: bounds = c(0, 2e5)")
  }
  one_number(
    synthesizer("BetaRegression", outcome, predictors, bounds = I(bounds), missing = match.arg(missing), weight = weight),
    "a beta regression synthesizes one number: beta_regression(salary ~ gender, bounds = c(0, 2e5))"
  )
}

#' Regressions of a count
#'
#' `negbin()` is a negative binomial regression: of visits, children, or dollars with zeros among them. The log of
#' the mean mu is linear in the predictors, and the variance is mu + mu^2 / phi, with one phi for all (Hu, Savitsky &
#' Williams 2020, section 2.1). `poisson_counts()` is the same with variance mu. The outcome has no transform, and its
#' density is a probability, which has no unit.
#'
#' Where the survey weight is a function of the predictors it is public and is kept. Else its log is normal given the
#' predictors and the count, and smoothed weights are released. There are no effects of sampling units, and strata must
#' be among the predictors. Not under [censored()], nor under [strict()], which takes the formula and
#' `outcome(bounds = , whole = TRUE)`.
#'
#' @param outcome The confidential count that is synthesized (0, 1, 2 and so on), by name; or a formula,
#'   `visits ~ age + sex`, and then no `predictors`.
#' @param predictors,missing As for [fbs()]; the columns of the formula are public.
#' @param prior `"paper"`, that of the program of the paper's authors: coefficients of predictors with mean 0 and
#'   standard deviation 1 are normal, with scales of their own and correlations among them; `"independent"`, the same
#'   without correlations, sensible with more than about 20 predictors.
#' @param weight `"public"` declares that the survey weight is public: it is kept and published.
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @references Hu, Savitsky & Williams (2020), Maximizing Utility for Vector-Weighted Pseudo Posterior Mechanisms
#'   under Differential Privacy, arXiv:2006.01230.
#' @export
#' @examples
#' negbin(visits ~ age + sex)
#' poisson_counts("visits", ~ 1)
negbin <- function(outcome, predictors = NULL, prior = c("paper", "independent"), missing = c("fail", "drop"),
                   weight = NULL) {
  one_number(
    synthesizer("NegativeBinomialRegression", outcome, predictors, prior = match.arg(prior),
                missing = match.arg(missing), weight = weight),
    "a negative binomial regression synthesizes one count: negbin(visits ~ age + sex)"
  )
}

#' @rdname negbin
#' @export
poisson_counts <- function(outcome, predictors = NULL, prior = c("paper", "independent"), missing = c("fail", "drop"),
                           weight = NULL) {
  one_number(
    synthesizer("PoissonRegression", outcome, predictors, prior = match.arg(prior), missing = match.arg(missing),
                weight = weight),
    "a Poisson regression synthesizes one count: poisson_counts(visits ~ age + sex)"
  )
}

#' A gamma regression of one positive outcome
#'
#' The outcome is gamma distributed, with one shape, and the log of its mean is linear in the predictors. Where the
#' survey weight is a function of the predictors it is public and is kept. Else its log is normal given the predictors
#' and the outcome, and smoothed weights are released. There are no effects of sampling units, and strata must be among
#' the predictors. Not under [censored()] or [strict()].
#'
#' @param outcome The confidential number that is synthesized, by name; or a formula, `pay ~ group + age`, and then no
#'   `predictors`.
#' @param predictors,missing As for [fbs()]; the columns of the formula are public.
#' @param weight As for [negbin()].
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @export
#' @examples
#' gamma_regression(pay ~ group + age)
gamma_regression <- function(outcome, predictors = NULL, missing = c("fail", "drop"), weight = NULL) {
  one_number(
    synthesizer("GammaRegression", outcome, predictors, missing = match.arg(missing), weight = weight),
    "a gamma regression synthesizes one number: gamma_regression(pay ~ group + age)"
  )
}

#' A multinomial regression of one category
#'
#' The log odds of the categories are linear in the predictors, numbers among them; in [fbs()] categories have shares
#' within cells of discrete predictors. The model has no density of the survey weight: weights must be public, or it is
#' a later model of [in_sequence()], which is given the weight. Not under [censored()], nor under [strict()], which takes
#' the formula and the levels.
#'
#' @param outcome The confidential category that is synthesized, by name; or a formula, `activity ~ region + log(income)`,
#'   and then no `predictors`. The names of its levels are published.
#' @param predictors As for [fbs()]; the columns of the formula are public.
#' @param missing As for [fbs()]; `"category"` makes missing answers a category of their own, `"missing"`, and all of them text.
#' @param weight As for [beta_regression()].
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @references Agresti (2013), Categorical Data Analysis, 3rd edition, section 8.1.
#' @export
#' @examples
#' multinomial_regression(activity ~ region + log(income))
multinomial_regression <- function(outcome, predictors = NULL, missing = c("fail", "drop", "category"),
                                   weight = NULL) {
  model <- synthesizer("MultinomialRegression", outcome, predictors, missing = match.arg(missing), weight = weight)
  if (length(model$outcomes) > 1) {
    refuse("a multinomial regression synthesizes one category: multinomial_regression(activity ~ region + log(income))")
  }
  model$arguments$outcome <- model$outcomes
  model
}

#' A model of your own, in a Python file
#'
#' You have an outcome that none of the models suits, and you know its distribution: a Stan program and three functions
#' of Python make a model of it. What they are is told on the page "A model of your own" of the Python package
#' (docs/extending.md), whose `check_model()` proves that they go together: call it before anything else.
#'
#' @param file The Python file and a name in it, `"pay.py:pay"`: that of a model, or of a function that makes one of
#'   outcome (a name, or a list of several) and predictors (the right-hand side of a formula), as
#'   `surveysynth synthesize --set model.name=pay.py:pay` takes it. The file is run, so know who wrote it. A model that is made
#'   already must have the outcomes and the predictors that you say here.
#' @param outcome The confidential columns that are synthesized, by name; or a formula, `pay ~ group + age`, and then no
#'   `predictors`.
#' @param predictors As for [fbs()]; the columns of the formula are public.
#' @return A model, for [synthesize()] and [privacy_cost()]. The file is read when these are called. Of an exception in
#'   it type and line are told, and not the message, which may quote data.
#' @export
#' @examples
#' python_model("pay.py:pay", pay ~ group + age)
python_model <- function(file, outcome, predictors = NULL) {
  if (!is.character(file) || length(file) != 1 || !grepl("[.]py:[[:alnum:]_]+$", file)) {
    refuse("a model of your own is a file and a name in it: python_model(\"pay.py:pay\", pay ~ group + age)")
  }
  model <- synthesizer("model_from_file", outcome, predictors, file = path.expand(file))
  model$name <- "python_model"
  model
}

#' A mixture of regressions of one skewed outcome
#'
#' For an outcome of any shape, skewed, heavy-tailed or heaped: a truncated Dirichlet process mixture of normal
#' regressions on the scale of `transform` (Hu, Savitsky & Williams 2022b, section 1.2, eq. 1 to 6). Components that are
#' not needed have no share, so `components` may be too many.
#'
#' Where the survey weight is a function of the predictors it is public and is kept. Else its log is normal in each
#' component, given the predictors and the outcome, and smoothed weights are released. There are no effects of sampling
#' units, and strata must be among the predictors. It can be fitted under [censored()], not under [strict()]; there is no
#' `debias`. On a log scale the wide components of a mixture occasionally produce amounts beyond any real one: give
#' `bounds`.
#'
#' @param outcome The confidential number that is synthesized, by name; or a formula, `income ~ age + sex`, and then
#'   no `predictors`.
#' @param predictors,missing As for [fbs()]; the columns of the formula are public.
#' @param transform The scale of the regressions: `"log"`, [asinh_transform()] or [identity_transform()].
#' @param zeros Whether an outcome of exactly 0 has a probability of its own, a logistic regression on the predictors.
#'   That there are zeros is then public.
#' @param components How many components there are at most.
#' @param prior `"common"`: coefficients of the components have a mean that they share and that is estimated;
#'   `"paper"`: mean 0, as in eq. 5 of Hu, Savitsky & Williams (2022b).
#' @param a_gamma,b_gamma Shape and rate of the gamma prior of the concentration (eq. 4 of the paper, which prints no
#'   numbers).
#' @param least_sd Least residual standard deviation of a component, on the scale of `transform`; public. It bounds the
#'   density, which values that many records share would drive to infinity.
#' @param bounds Public limits of the outcome, chosen without looking at the file: synthetic values beyond are drawn
#'   again. `NULL` for none.
#' @param allocation What the component of a synthetic record is drawn from: `"prior"`, the shares alone; or
#'   `"posterior"`, its distribution given the confidential value of that same record (eq. 7 of the paper). **No epsilon
#'   holds for the latter**: name none. Its release, by `mechanism = pseudo_posterior(c1 = )`, says that it has no
#'   guarantee.
#' @param weight `"public"` declares that the survey weight is public: it is kept and published.
#' @return A model, for [synthesize()] and [privacy_cost()].
#' @references Hu, Savitsky & Williams (2022b), Risk-Efficient Bayesian Data Synthesis for Privacy Protection, Journal
#'   of Survey Statistics and Methodology 10, 1370-1399, \doi{10.1093/jssam/smab013}.
#' @export
#' @examples
#' mixture(income ~ age + sex, bounds = c(1, 1e7))
#' mixture("income", ~ age, transform = asinh_transform(1000), zeros = TRUE)
mixture <- function(outcome, predictors = NULL, transform = "log", zeros = FALSE, components = 20,
                    prior = c("common", "paper"), a_gamma = 1, b_gamma = 1, least_sd = 0.3, bounds = NULL,
                    allocation = c("prior", "posterior"), missing = c("fail", "drop"), weight = NULL) {
  if (!is.null(bounds)) {
    if (length(bounds) != 2 || !is.numeric(bounds)) {
      refuse("bounds are two numbers, lowest and highest, which are public: bounds = c(1, 1e7); or NULL")
    }
    bounds <- I(bounds)
  }
  one_number(
    synthesizer("Mixture", outcome, predictors, zeros = zeros, components = components, prior = match.arg(prior),
                a_gamma = a_gamma, b_gamma = b_gamma, least_sd = least_sd, bounds = bounds,
                allocation = match.arg(allocation), missing = match.arg(missing), transform = transform,
                weight = weight),
    "a mixture synthesizes one number: mixture(income ~ age + sex)"
  )
}

#' Several outcomes of one file
#'
#' Models in sequence: each has the outcomes of those before it, and the log of the survey weight, as predictors where
#' its formula names them. The first models the weight, and may have categories; later ones are amounts, counts, shares,
#' or categories by [multinomial_regression()]. Synthetic records get their outcomes one after the other, each given the
#' synthetic ones before it. Strict releases of several outcomes take a list of formulas, `list(job ~ sex, income ~ sex +
#' job)`, in the place of a model (see [synthesize()]).
#'
#' @param ... Two models or more, in an order in which every predictor is public or comes before.
#' @param applies Public rules on columns that come before, by outcome, as Python writes conditions:
#'   `list(rent = "tenure == 'tenant'")`. Elsewhere the question does not apply, and the model is fitted on the records to
#'   which it does.
#' @param elsewhere What outcomes are where they do not apply: `list(rent = 0)`; by default numbers are missing there, and
#'   categories "not applicable".
#' @return A model, for [synthesize()].
#' @references Raghunathan, Reiter & Rubin (2003), Multiple Imputation for Statistical Disclosure Limitation, Journal
#'   of Official Statistics 19, 1-16, section 3.
#' @export
#' @examples
#' in_sequence(fbs(income ~ region, prior = "flat"), fbs(rent ~ region + log(income), prior = "flat"))
in_sequence <- function(..., applies = NULL, elsewhere = NULL) {
  models <- unname(list(...))
  if (length(models) < 2 || !all(vapply(models, inherits, NA, "surveysynth_synthesizer"))) {
    refuse("in_sequence() takes two models or more: in_sequence(fbs(income ~ region), fbs(rent ~ region + log(income)))")
  }
  made <- make("Sequential", "in_sequence", models = models, applies = if (length(applies)) as.list(applies),
               elsewhere = if (length(elsewhere)) as.list(elsewhere),
               class = c("surveysynth_sequence", "surveysynth_synthesizer"))
  made$outcomes <- unlist(lapply(models, `[[`, "outcomes"))
  made$columns <- setdiff(c(unlist(lapply(models, `[[`, "columns")), columns_of_rules(applies)), made$outcomes)
  made
}

# The names in conditions that are written as Python has them, without what is quoted.
columns_of_rules <- function(rules) {
  bare <- gsub("'[^']*'|\"[^\"]*\"", "", unlist(rules))
  names <- unlist(regmatches(bare, gregexpr("`[^`]+`|[A-Za-z_.][A-Za-z0-9_.]*", bare)))
  setdiff(gsub("`", "", names), c("and", "or", "not", "in"))
}

#' @method print surveysynth_sequence
#' @export
print.surveysynth_sequence <- function(x, ...) {
  cat("in sequence:\n")
  lapply(x$arguments$models, print)
  invisible(x)
}

# A model whose formula knows which columns are logical: Python has them as labels.
with_logical <- function(model, logical) {
  if (inherits(model, "surveysynth_formulas")) return(formulas_text(model, logical))
  if (inherits(model, "surveysynth_sequence")) {
    model$arguments$models <- lapply(model$arguments$models, with_logical, logical)
  } else {
    model$arguments$predictors <- formula_text(model$formula[[3]], logical)
  }
  model
}

# A model of one outcome, which is no category.
one_number <- function(model, otherwise) {
  if (!identical(c(model$arguments$outcome), model$outcomes) || length(model$outcomes) > 1) refuse(otherwise)
  model$arguments$outcome <- model$outcomes
  model
}

# A model for Python; `...` are its arguments.
synthesizer <- function(constructor, outcome, predictors, ..., transform = NULL) {
  asked <- outcome_and_predictors(outcome, predictors)
  text <- formula_text(asked$predictors)
  check_conditions(asked$predictors)
  if (!is.null(transform)) transform <- transforms(transform, asked$outcome[!asked$categorical])
  written <- ifelse(asked$categorical, paste0("C(", asked$outcome, ")"), asked$outcome)
  model <- make(constructor, constructor, outcome = I(written), predictors = text, transform = transform, ...,
                class = "surveysynth_synthesizer")
  model[c("formula", "outcomes", "columns")] <- list(asked$formula, asked$outcome, all.vars(asked$predictors))
  model
}

outcome_and_predictors <- function(outcome, predictors) {
  if (inherits(outcome, "formula")) {
    if (!is.null(predictors)) refuse("the formula holds the predictors already: leave predictors out")
    if (length(outcome) != 3) refuse("the formula has no outcome: write salary ~ field + gender")
    predictors <- outcome[-2]
    categorical <- vapply(outcome_parts(outcome[[2]]), is.call, NA)
    outcome <- outcome_columns(outcome[[2]])
  } else {
    categorical <- grepl(CATEGORY, outcome)
    outcome <- sub(CATEGORY, "\\1", outcome)
  }
  if (is.character(predictors)) predictors <- stats::reformulate(sprintf("`%s`", predictors))
  if (!is.character(outcome) || !inherits(predictors, "formula") || length(predictors) != 2) {
    refuse("write fbs(\"salary\", ~ field + gender) or fbs(salary ~ field + gender); ~ 1 for no predictors")
  }
  left <- if (length(outcome) > 1) as.call(lapply(c("cbind", outcome), as.name)) else as.name(outcome)
  formula <- stats::as.formula(call("~", left, predictors[[2]]), env = baseenv())
  list(outcome = outcome, categorical = categorical, predictors = predictors[[2]], formula = formula)
}

CATEGORY <- "^(?:factor|as\\.factor|C)\\((.+)\\)$" # an outcome, as text, that is a category

outcome_parts <- function(side) {
  if (is.call(side) && identical(side[[1]], quote(cbind))) as.list(side)[-1] else list(side)
}

outcome_columns <- function(side) {
  columns <- lapply(outcome_parts(side), function(part) {
    category <- is.call(part) && as.character(part[[1]])[1] %in% c("factor", "as.factor", "C") && length(part) == 2
    if (category) part[[2]] else part
  })
  if (!all(vapply(columns, is.name, NA))) {
    refuse("an outcome is a column, which the formula has by its name, or factor() of one: say transform = for its ",
           "scale. Several outcomes are cbind(salary, hours)")
  }
  vapply(columns, as.character, "")
}

#' Scales on which outcomes are normal
#'
#' The outcomes of [fbs()] and [fbp()] are normal after a transform: `"log"`, or one of these; that of [mixture()] is a
#' mixture of normals, and takes the first two.
#' A `scale` is a public number in the unit of the outcome, not computed from the confidential file.
#'
#' `asinh_transform()` is asinh(y / scale): logarithmic in both tails and linear near 0, for amounts that can be
#' negative. `identity_transform()` is y / scale. `normal_scores()` is the normal quantile of the share of a
#' historical or public file below y; knots are joined by a monotone cubic on the scale of `base`.
#' `historical_scores()` makes the knots from such a file, never from the one to release.
#' @param scale Of the outcome: about where `asinh_transform()` turns from linear to logarithmic.
#' @param amounts,probabilities Knots: amounts in the unit of the outcome, and the share of the
#'   historical file below each; both increase, and there are at least 5.
#' @param source The file or publication that the knots come from; it is published with a release.
#' @param base The scale between knots: `"log"`, `asinh_transform()` or `identity_transform()`.
#' @param values The outcome in the historical file, at least 1,000 records.
#' @param weights Survey weights of the historical file, if any.
#' @param knots How many quantiles, evenly spaced in arcsin(sqrt(p)); quantiles invert the mid-distribution function
#'   (Ma, Genton & Parzen 2011).
#' @return A transform, for the argument `transform` of [fbs()], [fbp()] and [mixture()].
#' @export
#' @examples
#' asinh_transform(1000)
#' normal_scores(c(5, 10, 20, 40, 80) * 1000, c(0.02, 0.2, 0.5, 0.8, 0.98), source = "yearbook 2020")
#' @examplesIf surveysynth_available()
#' historical_scores(exp(stats::rnorm(2000, 10)), source = "last year's survey")
asinh_transform <- function(scale) {
  make("AsinhTransform", "asinh_transform", scale = check_scale(scale), class = "surveysynth_transform")
}

#' @rdname asinh_transform
#' @export
identity_transform <- function(scale) {
  make("IdentityTransform", "identity_transform", scale = check_scale(scale), class = "surveysynth_transform")
}

#' @rdname asinh_transform
#' @export
normal_scores <- function(amounts, probabilities, source, base = "log") {
  make("NormalScores", "normal_scores", amounts = I(amounts), probabilities = I(probabilities), source = source,
       base = transforms(base), class = "surveysynth_transform")
}

#' @rdname asinh_transform
#' @export
historical_scores <- function(values, source, weights = NULL, knots = 70, base = "log") {
  if (!is.null(weights) && length(weights) != length(values)) refuse("values and weights differ in length")
  columns <- without_null(list(values = values, weights = weights))
  found <- in_folder(function(folder) {
    frame <- frame_for_python(list2DF(columns), folder, "history")
    ask_python("historical_scores", frame = frame, source = source, knots = knots, base = transforms(base))$value
  })
  normal_scores(found$amounts, found$probabilities, source, base)
}

check_scale <- function(scale) {
  if (!is.numeric(scale) || length(scale) != 1 || !is.finite(scale) || scale <= 0) {
    refuse("scale must be a positive number, public and not computed from the confidential file")
  }
  scale
}

# One transform, or one for each of several outcomes.
transforms <- function(transform, outcomes = NULL) {
  if (identical(transform, "log")) return(make("LogTransform", "\"log\"", class = "surveysynth_transform"))
  if (inherits(transform, "surveysynth_transform")) return(transform)
  each <- is.list(transform) && length(outcomes) && setequal(names(transform), outcomes)
  if (each) return(lapply(transform, transforms))
  refuse("a transform is \"log\", asinh_transform(), identity_transform() or normal_scores()",
         if (length(outcomes) > 1) ", or a list of these by the names of the outcomes")
}

#' The pseudo posterior mechanism
#'
#' Each record's likelihood is raised to a privacy weight alpha in \[0, 1\], the smaller the riskier
#' the record: f is the largest absolute log density of the record under any posterior draw (Hu, Savitsky & Williams
#' 2022a, section 1.4.1). The guarantee is asymptotic. [synthesize()] takes this mechanism where it is said,
#' `mechanism = pseudo_posterior()`; its default is [strict()]. [privacy_cost()] prices this one.
#' @param map From risk f to alpha: `"inverse"`, c1 Delta / f + c2 (Hu, Savitsky & Williams 2022a, section 1.4.1, step
#'   2), or `"linear"` (Hu, Savitsky & Williams 2020, Algorithm 2).
#' @param c1 Scale of the map; `NULL` tunes it to the epsilon that is asked for.
#' @param c2 Shift of the map, between -1 and 1.
#' @param risk How the risk of a record is measured: [lipschitz_risk()], [count_risk()], [marginal_risk()] or
#'   [pairwise_risk()].
#' @return A mechanism, for [synthesize()] and [privacy_cost()].
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#'
#'   Hu, Savitsky & Williams (2020), Maximizing Utility for Vector-Weighted Pseudo Posterior Mechanisms under
#'   Differential Privacy, arXiv:2006.01230.
#' @export
#' @examples
#' pseudo_posterior("linear")
#' pseudo_posterior("linear", risk = count_risk(radius = 0.2))
pseudo_posterior <- function(map = c("inverse", "linear"), c1 = NULL, c2 = 0, risk = lipschitz_risk()) {
  make("PseudoPosterior", "pseudo_posterior", map = match.arg(map), c1 = c1, c2 = c2, risk = check_risk(risk),
       class = "surveysynth_mechanism")
}

#' How the risk of a record is measured
#'
#' Privacy weights are a map of the records' risks, smaller for the riskier. Whatever the measure, the guarantee is
#' about Lipschitz bounds.
#'
#' `lipschitz_risk()` is the record's own bound: its largest absolute log density under any draw of the model without
#' privacy weights (Hu, Savitsky & Williams 2020, Algorithm 2). `count_risk()` is the share of the records whose values
#' are outside of a closed ball around the record's (Hu, Savitsky & Williams 2020, Algorithm 3): a record with few
#' others near is easy to distinguish. It takes no model, and looks at numeric outcomes only; with several of them a
#' record is near when each of them is.
#'
#' With `map = "linear"` these are the weights LW and CW of the paper.
#'
#' `marginal_risk()` is the probability that an intruder who knows some columns and the record's value identifies it
#' among synthetic records, as [identification_risk()] does, in data sets that are simulated from the model without
#' privacy weights (Hu, Savitsky & Williams 2022b, eq. 8 and 9). `pairwise_risk()` is one minus the weight made from the
#' probabilities of pairs (eq. 14): it spares records that are at risk only once risky ones around them were moved. With
#' `map = "linear"` and `c1 = 1` these are the weights of that paper.
#' @param known Columns that the intruder knows and that are not synthesized, by name or as a formula; `~ 1` for none.
#' @param radius Of the ball: a share of the record's value, or in its unit where not `relative`; one, or one for each
#'   numeric outcome. It is published.
#' @param relative Whether `radius` is a share.
#' @param floor Least radius, in the unit of the outcome; one, or one for each. Without it zeros are near zeros alone.
#' @param datasets How many data sets are simulated.
#' @return A measure of risk, for the argument `risk` of [pseudo_posterior()], [weighted_e()] and [censored()].
#' @references Hu, Savitsky & Williams (2020), Maximizing Utility for Vector-Weighted Pseudo Posterior Mechanisms
#'   under Differential Privacy, arXiv:2006.01230.
#'
#'   Hu, Savitsky & Williams (2022b), Risk-Efficient Bayesian Data Synthesis for Privacy Protection, Journal of Survey
#'   Statistics and Methodology 10, 1370-1399, \doi{10.1093/jssam/smab013}.
#' @export
#' @examples
#' count_risk(radius = 0.2, floor = 1)
#' count_risk(radius = c(500, 2), relative = FALSE)
#' marginal_risk(~ field + gender)
lipschitz_risk <- function() make("LipschitzRisk", "lipschitz_risk()", class = "surveysynth_risk")

#' @rdname lipschitz_risk
#' @export
count_risk <- function(radius = 0.2, relative = TRUE, floor = 0) {
  check_near("count_risk()", radius, floor)
  make("CountRisk", "count_risk", radius = radius, relative = relative, floor = floor, class = "surveysynth_risk")
}

#' @rdname lipschitz_risk
#' @export
marginal_risk <- function(known, radius = 0.2, relative = TRUE, floor = 0, datasets = 20) {
  check_near("marginal_risk()", radius, floor)
  make("MarginalRisk", "marginal_risk", known = what_is_known(known), radius = radius, relative = relative, floor = floor,
       datasets = datasets, class = "surveysynth_risk")
}

#' @rdname lipschitz_risk
#' @export
pairwise_risk <- function(known, radius = 0.2, relative = TRUE, floor = 0, datasets = 20) {
  check_near("pairwise_risk()", radius, floor)
  make("PairwiseRisk", "pairwise_risk", known = what_is_known(known), radius = radius, relative = relative, floor = floor,
       datasets = datasets, class = "surveysynth_risk")
}

check_near <- function(name, radius, floor) {
  for (size in list(radius, floor)) {
    if (!is.numeric(size) || !length(size) || !all(is.finite(size)) || any(size < 0)) {
      refuse("radius and floor of ", name, " are numbers, not negative: one, or one for each numeric outcome")
    }
  }
}

check_risk <- function(risk) {
  if (!inherits(risk, "surveysynth_risk")) {
    refuse("a risk is lipschitz_risk(), count_risk(radius = 0.2), marginal_risk(known) or pairwise_risk(known)")
  }
  risk
}

#' Mechanisms that cut off or clamp
#'
#' `censored()` clamps every record's contribution to the log likelihood, alpha log p, to plus or minus epsilon / (2 m).
#' The clamp holds whatever the parameters are, so the guarantee holds at any sample size: with
#' `weighted = FALSE`, alpha = 1, it is **strict**. With `weighted = TRUE` records get privacy weights first, so that
#' fewer are clamped; weights from this file make it strict *given alpha*, weights by
#' [policy_from_historical()] strict. The models are [fbs()] (not with its flat prior), [fbp()] and [beta_regression()],
#' without effects of sampling units; `population_total` must be given.
#'
#' `weighted_e()` is [pseudo_posterior()] with weights cut off: alpha becomes 0 where a record's bound exceeds
#' epsilon / (2 m), and the model is fitted again until none does. Its guarantee is asymptotic.
#' @param epsilon Of the whole release of m data sets; may stand here or in [synthesize()].
#' @param weighted Whether records get privacy weights before they are clamped.
#' @param map,c1,c2,risk Of the privacy weights, as for [pseudo_posterior()]; c1 is not tuned.
#' @return A mechanism, for [synthesize()].
#' @references Hu, Williams & Savitsky (2025), Mechanisms for Global Differential Privacy under Bayesian Data
#'   Synthesis, Statistica Sinica 35, 563-584, \doi{10.5705/ss.202022.0162}.
#' @export
#' @examples
#' censored(epsilon = 10)
#' weighted_e(c1 = 0.5)
censored <- function(epsilon = NULL, weighted = FALSE, map = c("linear", "inverse"), c1 = 1, c2 = 0,
                     risk = lipschitz_risk()) {
  weights <- if (!identical(weighted, FALSE)) list(map = match.arg(map), c1 = c1, c2 = c2, risk = check_risk(risk))
  if (is.null(weights) && !(missing(map) && missing(c1) && missing(c2) && missing(risk))) {
    refuse("map, c1, c2 and risk are of privacy weights, which censored() has with weighted = TRUE")
  }
  do.call(make, c(list("Censored", "censored", epsilon = epsilon, weighted = weighted), weights,
                  class = "surveysynth_mechanism"))
}

#' @rdname censored
#' @export
weighted_e <- function(epsilon = NULL, map = c("linear", "inverse"), c1 = 1, c2 = 0, risk = lipschitz_risk()) {
  make("WeightedE", "weighted_e", epsilon = epsilon, map = match.arg(map), c1 = c1, c2 = c2, risk = check_risk(risk),
       class = "surveysynth_mechanism")
}

#' The strict mechanism
#'
#' The default of [synthesize()]. The file is counted by public columns, the counts get noise of a known size, and all
#' data sets are drawn from these noisy tables, so `epsilon` does not grow with their number (McKenna, Miklau & Sheldon
#' 2021). The guarantee is **strict**: it holds at the file's own number of records. Standard errors carry the noise.
#'
#' The second argument of [synthesize()] is then a formula, or a list of formulas for several outcomes. A formula is [fbs()]
#' of it: the outcome and the survey weight are drawn, record by record. [fbp()] of it draws the outcome alone, and gives
#' each record the weight that the model expects of it. `weight = "public"` keeps the weights that there are.
#'
#' All other models are models of records, and are refused: [negbin()], [mixture()], [in_sequence()] and so on. So are the
#' options of [fbs()] and [fbp()], such as `prior` and `transform`. You declare instead what kind an outcome is and what of
#' it is public, by [outcome()]: `bounds` of a number, `whole = TRUE` of a count, `levels` of a category.
#'
#' Predictors are columns, and products of columns, `stype * awards`. Of a function of a column make a column first.
#' `population_total` must be given, unless the weights are public.
#'
#' @param epsilon Of the whole release; may stand here or in [synthesize()].
#' @param delta Probability up to which epsilon holds, `1e-10` say: the noise of the tables is Gaussian then, which is
#'   smaller than Laplace noise where there are many tables, that is for three outcomes or more.
#' @return A mechanism, for [synthesize()].
#' @references McKenna, Miklau & Sheldon (2021), Winning the NIST Contest: A Scalable and General Approach to
#'   Differentially Private Synthetic Data, Journal of Privacy and Confidentiality 11, \doi{10.29012/jpc.778}.
#' @seealso [outcome()], [expected_errors()]
#' @export
#' @examples
#' strict()
#' strict(delta = 1e-10)
strict <- function(epsilon = NULL, delta = NULL) {
  make("Strict", "strict", epsilon = epsilon, delta = delta, class = "surveysynth_mechanism")
}

#' What is public of an outcome
#'
#' Its type, its bounds or levels, and its special values. Everything here is declared: nothing is taken from the file.
#' It goes into [synthesize()] and [measure()], `outcomes = list(income = outcome(bounds = c(0, 1e6)))`, for strict releases.
#'
#' The class of a column declares something, too: a factor its levels, in their order, `TRUE` and `FALSE` themselves, and
#' integers and dates that they are whole numbers. Synthetic outcomes have the class of the column. What must not be known
#' of a column, take from it first, `design <- update(design, income = as.numeric(income))`.
#'
#' @param bounds Lowest and highest value of a number, `c(0, 1e6)`, or of a date, `as.Date(c("2020-01-01", "2024-12-31"))`.
#'   Values beyond count as values at the bound.
#' @param levels Every level of a category.
#' @param zeros Whether zero is a value of its own: the numbers next to it say nothing about how many zeros there are.
#' @param missing `"category"`: missing values are an answer of their own; a category gets the level `"missing"`. Without it
#'   a missing value is refused.
#' @param whole Whether values are whole numbers; `NULL`: where the column is of integers or dates.
#' @param heaps Values of their own that many records share, such as a top code.
#' @param round Unit to which synthetic values are rounded.
#' @param applies Whom the question is asked, a public condition on columns that come before, as Python writes it:
#'   `"tenure == 'tenant'"`. What the file has elsewhere is not looked at.
#' @param elsewhere What synthetic files have where it is not asked: 0, or a label of a category. By default numbers are
#'   missing there, and categories `"not applicable"`.
#' @return An object that [synthesize()] takes.
#' @export
#' @examples
#' outcome(bounds = c(0, 1e6), zeros = TRUE)
#' outcome(levels = c("none", "part time", "full time"), missing = "category")
#' outcome(missing = "category") # of a factor
#' outcome(bounds = as.Date(c("2020-01-01", "2024-12-31")))
#' outcome(bounds = c(0, 5000), applies = "tenure == 'tenant'")
outcome <- function(bounds = NULL, levels = NULL, zeros = FALSE, missing = NULL, whole = NULL, heaps = NULL,
                    round = NULL, applies = NULL, elsewhere = NULL) {
  make("Outcome", "outcome", bounds = if (!is.null(bounds)) I(bounds), levels = if (!is.null(levels)) I(levels),
       zeros = if (!identical(zeros, FALSE)) zeros, missing = missing, whole = whole, heaps = if (!is.null(heaps)) I(heaps), round = round,
       applies = applies, elsewhere = elsewhere, class = "surveysynth_outcome")
}

#' @method print surveysynth_synthesizer
#' @export
print.surveysynth_synthesizer <- function(x, ...) {
  further <- x$arguments[setdiff(names(x$arguments), c("outcome", "predictors"))]
  cat(x$name, ": ", deparse1(x$formula), "\n", sep = "")
  cat(strwrap(said_of_list(further), exdent = 2), sep = "\n")
  invisible(x)
}

#' @method print surveysynth_made
#' @export
print.surveysynth_made <- function(x, ...) {
  cat(said_of(x), "\n", sep = "")
  invisible(x)
}

# A value as one writes it in R, long vectors in short.
said_of <- function(x) {
  if (inherits(x, "surveysynth_made")) {
    return(if (length(x$arguments)) paste0(x$name, "(", said_of_list(x$arguments), ")") else x$name)
  }
  if (is.list(x)) return(paste0("list(", said_of_list(x), ")"))
  if (inherits(x, "Date")) return(paste0("as.Date(", deparse1(as.vector(format(x))), ")"))
  if (length(x) > 9) sprintf("<%d numbers>", length(x)) else deparse1(as.vector(unclass(x)))
}

said_of_list <- function(x) paste(names(x), "=", vapply(x, said_of, ""), collapse = ", ")
