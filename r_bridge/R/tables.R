#' Tables of a release
#'
#' Every cell of the variables, every margin and the total, estimated in each of the m data sets and combined:
#' the mean of the estimates, with variance T = mean(u) + b / m (Hu, Savitsky & Williams 2022a, appendix A; Reiter &
#' Raghunathan 2007). Tables are made of the published data alone.
#'
#' @param release From [synthesize()] or [read_release()].
#' @param by Predictors, outcomes that are categories, and columns of [update()][update.surveysynth_release], by name or
#'   as a formula `~ field + gender`; nothing else is in the files.
#' @param outcome Names of outcomes and derived columns; default: all outcomes.
#' @param statistic One or several of `"count"`, `"mean"`, `"total"`, `"proportion"`, `"ratio"`, `"quantile"`,
#'   `"variance"` (that of the population, as `svyvar()`), `"gini"`, `"quintile_share_ratio"` (S80/S20) and
#'   `"poverty_rate"` (the share below the poverty line), with linearized variances (Osier 2009; Langel & Tille 2011,
#'   2013) or from replicates; default: counts, means of numbers and proportions of categories.
#' @param denominator Numeric column, by name or as a formula: a ratio is the total of the outcome over the
#'   total of this.
#' @param quantiles Probabilities of the quantiles, between 0 and 1; default the median. Like every argument that has no
#'   effect on the statistics asked for, they are refused beside a mean.
#' @param poverty_line A number; default 60 percent of the median of all records, whose variance then counts.
#' @param where Estimates are of the records that meet a condition, `~ age >= 65` or the name of a logical column, as a
#'   domain of the whole design, like `subset()` of a design.
#' @param deff Design effects as a last column: against simple random samples without (`TRUE`) or with replacement
#'   (`"replace"`), as in the survey package.
#' @param estimator Where estimates come from: `"auto"` chooses the faster of `"samplics"` and `"onepass"`, which agree;
#'   `"replicates"`, with [estimate()], is for designs that have replicate weights, and is chosen for these.
#' @param min_cell Cells of fewer records are suppressed, and with them those from which they could be found by
#'   subtraction; both kinds carry the same flag. This is a quality rule, not protection: whoever has the synthetic
#'   files can compute these cells.
#' @param cv_limit Flag estimates whose standard error is more than this share of them.
#' @param level Of the intervals.
#' @param empty `TRUE` gives rows to cells without records, for every combination of the levels of `by` (of a factor all its
#'   levels, as `table()` does), and to levels without records of an outcome's proportions. In a release, predictors
#'   have only the levels that occur in the file, because others are not published.
#' @param df Degrees of freedom of the intervals, in place of the domain's; `Inf` makes normal intervals.
#' @return A data frame of class `surveysynth_table`: the `by` variables (a margin has the label `"all"`),
#'   `statistic`, `outcome`, `estimate`, `se`, `df`, `ci_low`, `ci_high`, `n` (records) and `flag`; where there are
#'   proportions `category`, its name as text, and where there are quantiles `prob`. Intervals are t
#'   intervals, of 95% unless `level` says otherwise, on the logit scale for proportions (of shares of 0
#'   and 1 those of Clopper and Pearson). It is printed statistic by
#'   statistic; [plot()][plot.surveysynth_table] draws it, and [wide()] puts the categories of one variable side by side.
#' @references Hu, Savitsky & Williams (2022a), Private Tabular Survey Data Products through Synthetic Microdata
#'   Generation, Journal of Survey Statistics and Methodology 10, 720-752, \doi{10.1093/jssam/smac001}.
#' @export
#' @examplesIf surveysynth_available()
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' tables(release, by = ~ region + gender)
#' tables(release, by = ~ region, statistic = "quantile", quantiles = c(0.25, 0.5, 0.75), level = 0.9)
#' tables(release, by = ~ region, where = ~ gender == "f")
tables <- function(release, by = NULL, outcome = NULL, statistic = NULL, denominator = NULL, quantiles = NULL,
                   poverty_line = NULL, where = NULL, deff = FALSE, estimator = c("auto", "samplics", "onepass"),
                   min_cell = NULL, cv_limit = NULL, level = 0.95, df = NULL, empty = FALSE) {
  check_release(release)
  estimator <- match.arg(estimator)
  check_level(level)
  filter <- meeting(release, where)
  in_folder(function(folder) {
    table <- frame_from_python(
      "tables", folder, by = names_of(by), outcome = names_of(outcome),
      statistic = if (!is.null(statistic)) I(statistic),
      denominator = one_name(denominator), quantiles = if (!is.null(quantiles)) I(quantiles),
      poverty_line = poverty_line, where = filter$where,
      deff = deff, estimator = estimator, min_cell = min_cell, cv_limit = cv_limit, level = level, df = df,
      empty = empty, objects = list(python_release(filter$release))
    )
    new_table(table, release$designs[[1]]$variables)
  })
}

#' Write tables as an office prints them
#'
#' Three sentences come first: who is protected and how far, what is not, and what error to expect. Numbers are rounded
#' to their standard errors, marked by their quality, and explained in footnotes in plain words. A figure shows a dot
#' and its 95% interval for every domain.
#'
#' @param release From [synthesize()] or [read_release()].
#' @param path The file; its suffix is the form: `.csv` (full precision, without footnotes), `.xlsx` (a workbook by the
#'   UK government's standard of accessible spreadsheets), `.html` (one page), `.tex` (compiled by pdflatex as it
#'   stands), `.md`, `.docx` (by pandoc), or `.svg` or `.png` for a figure of one statistic; beside a figure, in a text
#'   file of the same name, goes the text for those who do not see it.
#' @param by,outcome,statistic,denominator,quantiles,poverty_line,where,min_cell,cv_limit,empty As for [tables()].
#'   Titles say the condition of `where`, as it is written in the formula or by the name of the column.
#' @param symbols Marks of quality and of what is not there: `"uk"`, the default (`[c]` suppressed, `[u]` low
#'   reliability, which is a coefficient of variation of 20% or more, `[x]` not available), `"statcan"` (letters A to F,
#'   `x`, `..`; F is not shown), or a list of `suppressed`, `missing`, `unreliable` and `limit`, which changes `"uk"`.
#' @param wording File with the words of headings and footnotes: a translated copy of `publication/wording.toml` in the
#'   Python package.
#' @param wide `TRUE` puts the last variable of .html, .tex, .md and .docx tables across, if its categories fit on the page:
#'   each category then has estimate, interval and records.
#' @return `path`, invisibly.
#' @export
#' @examplesIf surveysynth_available()
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' file <- tempfile(fileext = ".xlsx")
#' write_tables(release, file, by = ~ region + gender, min_cell = 10)
#' write_tables(release, sub("xlsx", "html", file), by = ~ gender, where = ~ region == "north")
#' unlink(c(file, sub("xlsx", "html", file)))
write_tables <- function(release, path, by = NULL, outcome = NULL, statistic = NULL, quantiles = NULL, min_cell = NULL,
                         cv_limit = NULL, symbols = NULL, wording = NULL, where = NULL, denominator = NULL,
                         poverty_line = NULL, empty = FALSE, wide = FALSE) {
  check_release(release)
  path <- path.expand(path)
  figure <- grepl("[.](svg|png)$", path)
  if (figure && length(statistic) > 1) refuse("a figure shows one statistic, not ", length(statistic))
  if (!is.null(statistic) && !figure) statistic <- I(statistic)
  filter <- meeting(release, where)
  ask_python("write_tables", path = path, by = names_of(by), outcome = names_of(outcome), statistic = statistic,
             quantiles = if (!is.null(quantiles)) I(quantiles), min_cell = min_cell, cv_limit = cv_limit,
             symbols = symbols, wording = wording, where = filter$where, denominator = one_name(denominator),
             poverty_line = poverty_line, empty = empty, wide = if (isTRUE(wide)) TRUE,
             objects = list(python_release(filter$release)))
  invisible(path)
}

#' Estimates from a survey design
#'
#' Means, totals, counts, proportions, ratios or quantiles by domain, of one design: confidential, or one of
#' a release. The estimates and standard errors are those of the survey package. Nothing is published by this, and
#' nothing is protected.
#'
#' Intervals use t with the degrees of freedom of the domain, `df`: its PSUs less its strata, as `survey::degf()` counts
#' them in a subset; in the rows `"all"` those of the whole design. A `subset()` of a design is a domain of it, as in
#' survey; of a calibrated design, or one with `pps =`, give the whole one and `where`.
#'
#' @param design From `svydesign()`, `svrepdesign()` or srvyr's `as_survey()`.
#' @param outcome Numeric columns, by name or as a formula `~ income`; of any type for proportions; not needed
#'   for counts.
#' @param by Columns whose cells, margins and total are estimated.
#' @param statistic,denominator,quantiles,poverty_line,where,deff,estimator,level,df,empty As for [tables()].
#' @param missing What missing outcomes do. `"fail"` stops. `"drop"` leaves out the records that lack any of the outcomes
#'   or the denominator, as a domain (`svymean(~a + b, na.rm = TRUE)` in survey). `"available"` leaves out by outcome: each
#'   has the records that have it (`svymean(~a, na.rm = TRUE)`, outcome by outcome). Degrees of freedom are those of the
#'   records that are left. Records that lack a category of `by` are in the rows `"all"` and in no other (a warning says
#'   how many).
#' @return As [tables()], without `flag`.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' estimate(design, ~ api00, by = ~ stype, statistic = c("mean", "quantile"),
#'          quantiles = c(0.25, 0.75))
#' estimate(design, ~ api00, by = ~ stype, level = 0.9, df = Inf)
#' estimate(subset(design, awards == "Yes"), ~ api00)
estimate <- function(design, outcome = NULL, by = NULL, statistic = "mean", denominator = NULL, quantiles = NULL,
                     poverty_line = NULL, where = NULL, deff = FALSE,
                     estimator = c("auto", "samplics", "onepass", "replicates"),
                     missing = c("fail", "drop", "available"), level = 0.95, df = NULL, empty = FALSE) {
  estimator <- match.arg(estimator)
  check_level(level)
  missing <- match.arg(missing)
  if (inherits(design, "surveysynth_release")) {
    refuse("estimate() takes one design; tables(release) makes the tables of a release")
  }
  whole <- whole_design(design)
  parts <- design_parts(whole$design)
  if (!is.null(parts$joint)) {
    refuse("joint inclusion probabilities of a pps = ppsmat() design are not given to Python: ",
           "use svymean(), svytotal(), svyby() of the survey package")
  }
  outcome <- names_of(outcome)
  by <- names_of(by)
  denominator <- one_name(denominator)
  if (inherits(where, "formula")) {
    parts$frame$.where <- row_wise(one_sided(where), parts$frame, environment(where), "where")
    where <- ".where"
  }
  check_there(c(outcome, by, denominator, where), names(parts$frame))
  if (!all(whole$inside)) {
    if ("poverty_rate" %in% statistic && is.null(poverty_line)) {
      refuse("the poverty line of a subset is not known, as it is a share of the median of all records: give ",
             "poverty_line =, or the whole design and where =")
    }
    parts$frame$.where <- if (is.null(where)) whole$inside else whole$inside & parts$frame[[where]]
    where <- ".where"
  }
  columns <- c(outcome, by, denominator, where)
  in_folder(function(folder) {
    table <- frame_from_python(
      "estimate", folder, design = design_for_python(parts, columns, folder), outcome = outcome, by = by,
      statistic = I(statistic), denominator = denominator, quantiles = if (!is.null(quantiles)) I(quantiles),
      poverty_line = poverty_line,
      where = where, deff = deff, estimator = estimator, missing = missing, level = level, df = df, empty = empty
    )
    new_table(table, parts$frame)
  })
}

# A subset of a design as a domain of a whole one: `inside` tells its records from copies of some of them, which stand for
# the units that the subset lacks. Outside of the domain they count as units that there are, and in nothing else.
whole_design <- function(design) {
  plain <- inherits(design, "survey.design2") && !inherits(design, c("pps", "twophase2")) && is.null(design$postStrata)
  rows <- seq_len(NROW(design$variables))
  if (!plain || !length(rows)) return(list(design = design, inside = TRUE))
  units <- as.data.frame(lapply(design$cluster, numbered))
  strata <- as.data.frame(lapply(design$strata, numbered))
  for (k in seq_along(units)) {
    there <- tapply(units[[k]], strata[[k]], function(unit) length(unique(unit)))
    first <- match(names(there), strata[[k]])
    from <- rep(first, pmax(design$fpc$sampsize[rows[first], k] - there, 0))
    new <- seq_along(from)
    units_of_new <- units[from, , drop = FALSE]
    strata_of_new <- strata[from, , drop = FALSE]
    units_of_new[k:ncol(units)] <- lapply(units[k:ncol(units)], function(unit) max(unit) + new)
    later <- seq_len(ncol(strata)) > k
    strata_of_new[later] <- lapply(strata[later], function(stratum) max(stratum) + new)
    rows <- c(rows, rows[from])
    units <- rbind(units, units_of_new)
    strata <- rbind(strata, strata_of_new)
  }
  inside <- seq_along(rows) <= NROW(design$variables)
  if (all(inside)) return(list(design = design, inside = TRUE))
  for (part in c("variables", "allprob")) design[[part]] <- design[[part]][rows, , drop = FALSE]
  design$prob <- design$prob[rows]
  design$cluster <- stats::setNames(units, names(design$cluster))
  design$fpc <- lapply(design$fpc, function(x) if (is.null(x)) x else x[rows, , drop = FALSE])
  strata[[1]] <- design$strata[[1]][rows]
  design$strata <- stats::setNames(strata, names(design$strata))
  list(design = design, inside = inside)
}

# A table of Python's of columns in a frame: TRUE and FALSE are written as in R, and factors are factors.
new_table <- function(table, frame) {
  with_truth <- function(x) is.logical(x) || is.factor(x) && all(c("FALSE", "TRUE") %in% levels(x))
  truth <- table$outcome %in% names(Filter(with_truth, frame)) & table$category %in% c("True", "False")
  table$category[truth] <- toupper(table$category[truth])
  by <- names(table)[seq_len(match("statistic", names(table)) - 1)]
  for (name in by[vapply(frame[by], is.factor, NA)]) {
    table[[name]] <- factor(table[[name]], unique(c(levels(frame[[name]]), table[[name]])))
  }
  structure(table, class = c("surveysynth_table", "data.frame"))
}

#' @method print surveysynth_table
#' @export
print.surveysynth_table <- function(x, digits = 4, ...) {
  flags <- x[["flag"]]
  notes <- setdiff(unlist(strsplit(unique(c(flags, "")), "; ")), "")
  shown <- in_text(plain_table(x), digits)
  shown[["flag"]] <- NULL
  if (length(notes)) shown[[" "]] <- note_numbers(flags, notes)
  cells <- c("estimate", "se", "df", "ci_low", "ci_high", "n", "deff", " ")
  in_blocks(shown, setdiff(names(shown), cells), function(block, keys) print(block, row.names = FALSE, ...))
  if (length(notes)) writeLines(strwrap(paste0("[", seq_along(notes), "] ", notes), getOption("width"), exdent = 4))
  invisible(x)
}

note_numbers <- function(flags, notes) {
  numbers <- lapply(strsplit(flags, "; "), match, notes)
  vapply(numbers, function(n) if (length(n)) paste0("[", n, "]", collapse = "") else "", "")
}

# Numbers with so many significant digits, and with all those before the point; nothing where there is none.
in_digits <- function(x, digits) {
  vapply(x, function(number) {
    if (is.na(number)) return("")
    if (number == 0 || is.infinite(number)) return(format(number))
    if (abs(number) < 1e-4) return(formatC(number, digits = digits - 1, format = "e"))
    kept <- max(digits, floor(log10(max(abs(number), 1))) + 1)
    sub("[.]$", "", formatC(signif(number, kept), digits = kept, format = "fg", flag = "#", big.mark = ","))
  }, "")
}
