# Columns that are computed record by record from the other columns, and the records that meet a condition.

#' Columns derived on every data set of a release
#'
#' As `update()` of a design of the survey package: each new column is computed from the others, record by record, in
#' each of the m data sets. This is post-processing of what is published, so the guarantee is the same. [tables()],
#' [write_tables()], [write_release()], [with_release()] and `with()` know the columns.
#'
#' @param object A release, from [synthesize()] or [read_release()].
#' @param ... New columns, `poor = income < 10859`; one may use the columns before it. What it takes from all records,
#'   such as a mean, is refused: a second computation on half of the records shows it.
#' @return The release with these columns.
#' @method update surveysynth_release
#' @export
#' @examples
#' library(survey)
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' release <- update(release, poor = income < 20000)
#' combine_release(with(release, svyby(~poor, ~region, FUN = svymean)))
update.surveysynth_release <- function(object, ...) {
  expressions <- as.list(substitute(list(...)))[-1]
  if (is.null(names(expressions)) || any(names(expressions) == "")) {
    refuse("name the new columns: update(release, poor = income < 10859)")
  }
  caller <- parent.frame()
  derived_on(object, lapply(expressions, function(expression) list(expression = expression, caller = caller)))
}

# The release with further columns; Python's object is made of the one before when it is needed.
derived_on <- function(release, derived) {
  before <- release
  add <- function(design) {
    design$variables <- with_columns(design$variables, derived)
    design
  }
  release$designs <- lapply(release$designs, add)
  release$count_designs <- lapply(release$count_designs, add)
  release$derived <- c(release$derived, derived)
  release$manifest$derived <- c(release$manifest$derived, names(derived))
  release$python <- list2env(list(before = before))
  release
}

with_columns <- function(frame, derived) {
  for (name in names(derived)) {
    if (name %in% names(frame)) refuse("there is a column ", sQuote(name), " already; give the new one another name")
    frame[[name]] <- row_wise(derived[[name]]$expression, frame, derived[[name]]$caller, name)
  }
  frame
}

# One value a record, the same if the expression is computed again on every other record in reverse.
row_wise <- function(expression, frame, caller, name) {
  compute <- function(frame) {
    stopped <- function(e) { # whose own message may quote the data
      refuse("the expression of ", sQuote(name), " stopped; there are the columns ", listing(names(frame)))
    }
    value <- tryCatch(suppressWarnings(eval(expression, as.list(frame), caller)), error = stopped)
    if (!is.atomic(value) || is.null(value) || length(dim(value))) {
      refuse("the expression of ", sQuote(name), " must give one value a record")
    }
    if (length(value) == 1) value <- rep(value, nrow(frame))
    if (length(value) != nrow(frame)) {
      refuse("the expression of ", sQuote(name), " gave ", length(value), " values for ", nrow(frame),
             " records; give one a record")
    }
    value
  }
  plain <- function(value) if (is.factor(value)) as.character(value) else as.vector(value)
  values <- compute(frame)
  some <- rev(seq_len(nrow(frame)))[c(TRUE, FALSE)]
  if (!isTRUE(all.equal(plain(values)[some], plain(compute(frame[some, , drop = FALSE])), tolerance = 1e-9))) {
    refuse("the expression of ", sQuote(name), " is not row-wise: a record's value changes with the other records or ",
           "their order; compute what it takes from all records beforehand, and put that number in")
  }
  values
}

# A release whose column named by `where` is the condition: that of a one-sided formula is derived.
meeting <- function(release, where) {
  if (!inherits(where, "formula")) return(list(release = release, where = one_name(where)))
  condition <- list(expression = one_sided(where), caller = environment(where))
  list(release = derived_on(release, list(.where = condition)), where = ".where")
}

one_sided <- function(where) {
  if (length(where) != 2) refuse("the condition ", deparse1(where), " has two sides: write it as ~ age >= 65")
  where[[2]]
}

# Python's release with the columns that R derived.
python_with_derived <- function(release) {
  before <- release$python$before
  names <- setdiff(names(release$derived), names(before$derived))
  columns <- do.call(rbind, lapply(release$designs, function(design) as.data.frame(design$variables)[names]))
  in_folder(function(folder) {
    ask_python("assign", columns = frame_for_python(columns, folder, "columns"),
               objects = list(python_release(before)))$object
  })
}

#' A table with the categories of one variable side by side
#'
#' @param table From [tables()] or [estimate()].
#' @param across One of its `by` variables, or `"statistic"`, `"outcome"`, `"category"` or `"prob"`.
#' @param show Of `"estimate"`, `"se"`, `"df"`, `"ci_low"`, `"ci_high"`, `"n"`, `"deff"`, `"flag"`.
#' @return A data frame: the other variables, then `estimate_<category>`, `se_<category>` of each category, in the order
#'   of the table; missing where the table has no such cell.
#' @export
#' @examples
#' table <- data.frame(region = c("north", "south"), sex = c("f", "f", "m", "m"), statistic = "mean",
#'                     estimate = 1:4, se = 0.1)
#' wide(table, "sex")
wide <- function(table, across, show = c("estimate", "se")) {
  cells <- intersect(c("estimate", "se", "df", "ci_low", "ci_high", "n", "deff", "flag"), names(table))
  keys <- setdiff(names(table), cells)
  if (!across %in% keys) refuse("across = \"", across, "\" is not a variable of the table, which has ", toString(keys))
  if (!all(show %in% cells)) {
    refuse("show = \"", setdiff(show, cells)[1], "\" is not a column of the table's cells, which have ",
           toString(cells))
  }
  keys <- setdiff(keys, across)
  table <- as.data.frame(unclass(table), optional = TRUE)
  key <- do.call(paste, c(list(rep("", nrow(table))), unname(lapply(table[keys], as.character)), sep = "\r"))
  label <- as.character(table[[across]])
  if (anyDuplicated(cbind(key, label))) {
    refuse("the table has a cell of ", sQuote(across), " twice: make each table wide before you put them together")
  }
  found <- table[!duplicated(key), keys, drop = FALSE]
  rownames(found) <- NULL
  for (each in unique(label)) {
    here <- which(label == each | (is.na(label) & is.na(each)))
    at <- here[match(unique(key), key[here])]
    for (name in show) found[[paste0(name, "_", each)]] <- table[[name]][at]
  }
  found
}
