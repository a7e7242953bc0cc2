# Columns that are computed record by record from the other columns, and the records that meet a condition.

#' Columns derived on every data set of a release
#'
#' As `update()` of a design of the survey package: each new column is computed from the others, record by record, in
#' each of the m data sets. This is post-processing of what is published, so the guarantee is the same. [tables()],
#' [write_tables()], [write_release()], [with_release()] and `with()` know the columns.
#'
#' Values such as the limit in `poor = income < limit` are taken as they are now, and [saveRDS()] keeps them. Of the function
#' that calls `update()` it keeps nothing else, as its design may be confidential. So in a later session, standard errors
#' of a strict release need the functions and tables that an expression uses at the top level.
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
  derived_on(object, new_columns(substitute(list(...)), parent.frame()))
}

# Expressions of new columns, and where they find what is no column.
new_columns <- function(expressions, caller) {
  expressions <- as.list(expressions)[-1]
  if (is.null(names(expressions)) || any(names(expressions) == "")) {
    refuse("name the new columns: update(release, poor = income < 10859)")
  }
  lapply(expressions, function(expression) list(expression = expression, caller = caller))
}

# The release with further columns; Python's object is made of the one before when it is needed.
derived_on <- function(release, derived) {
  before <- release
  frame <- release$designs[[1]]$variables
  derived <- lapply(derived, to_be_saved, c(names(frame), names(derived)), nrow(frame))
  add <- function(design) {
    design$variables <- with_columns(design$variables, derived)
    design
  }
  release$designs <- lapply(release$designs, add)
  release$count_designs <- lapply(release$count_designs, add)
  release$derived <- c(release$derived, derived)
  release$manifest$derived <- c(release$manifest$derived, names(derived))
  release$python <- in_environment(list(before = before))
  release
}

# A new column as a release holds it. The frame of a function may hold the confidential design, and saveRDS() would save it
# with the release: so single values that the expression takes from there are copied, and the frame is known to this
# session alone. A vector as long as a data set may be a confidential column, and is not copied.
to_be_saved <- function(column, columns, n) {
  caller <- column$caller
  found <- mget(setdiff(all.vars(column$expression), columns), caller, inherits = TRUE, ifnotfound = list(NULL))
  column$values <- Filter(function(value) is.atomic(value) && !is.null(value) && length(value) < n, found)
  if (!identical(caller, globalenv())) {
    column$caller <- basename(tempfile("caller"))
    session$callers[[column$caller]] <- caller
  }
  column
}

# A new column of a data set; what is no column comes from where update() was called, if this session knows that.
derived_column <- function(column, frame, name) {
  caller <- column$caller
  if (is.character(caller)) caller <- session$callers[[caller]]
  hint <- if (is.null(caller)) ". The release was saved: functions and tables that update() took must be at the top level here"
  known <- list2env(column$values, parent = if (is.null(caller)) globalenv() else caller)
  row_wise(column$expression, frame, known, name, hint)
}

with_columns <- function(frame, derived) {
  for (name in names(derived)) {
    if (name %in% names(frame)) refuse("there is a column ", sQuote(name), " already; give the new one another name")
    frame[[name]] <- derived_column(derived[[name]], frame, name)
  }
  frame
}

# One value a record, the same if the expression is computed again on every other record in reverse.
row_wise <- function(expression, frame, caller, name, hint = NULL) {
  compute <- function(frame) {
    stopped <- function(e) { # whose own message may quote the data
      refuse("the expression of ", sQuote(name), " stopped; there are the columns ", listing(names(frame)), hint)
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
  where <- tryCatch(where, error = function(e) refuse("where is a formula, with ~ before the condition: where = ~ age >= 65"))
  if (!inherits(where, "formula") || is.name(one_sided(where))) return(list(release = release, where = one_name(where)))
  condition <- list(expression = one_sided(where), caller = environment(where))
  name <- deparse1(condition$expression) # as titles say it
  list(release = derived_on(release, stats::setNames(list(condition), name)), where = name)
}

one_sided <- function(where) {
  if (length(where) != 2) refuse("the condition ", deparse1(where), " has two sides: write it as ~ age >= 65")
  where[[2]]
}

# Python's release with the columns that R derived, on data sets under other noise, too.
python_with_derived <- function(release) {
  before <- release$python$before
  names <- setdiff(names(release$derived), names(before$derived))
  columns_of <- function(designs) do.call(rbind, lapply(designs, function(design) as.data.frame(design$variables)[names]))
  again <- redrawn_designs(release)
  in_folder(function(folder) {
    ask_python("assign", columns = frame_for_python(columns_of(release$designs), folder, "columns"),
               again = if (!is.null(again)) frame_for_python(columns_of(again), folder, "again"),
               objects = list(python_release(before)))$object
  })
}

#' A table with the categories of one variable side by side
#'
#' @param table From [tables()] or [estimate()].
#' @param across One of its `by` variables, by name or as a formula, or `"statistic"`, `"outcome"`, `"category"` or `"prob"`.
#' @param show Of `"estimate"`, `"se"`, `"df"`, `"ci_low"`, `"ci_high"`, `"n"`, `"deff"`, `"flag"`.
#' @return A data frame of class `surveysynth_wide`: the other variables, then `estimate_<category>`, `se_<category>` of
#'   each category, in the order of the table; missing where the table has no such cell. It is printed statistic by
#'   statistic, and what is too wide for the page one below the other.
#' @export
#' @examples
#' table <- data.frame(region = c("north", "south"), sex = c("f", "f", "m", "m"), statistic = "mean",
#'                     estimate = 1:4, se = 0.1)
#' wide(table, "sex")
wide <- function(table, across, show = c("estimate", "se")) {
  cells <- intersect(c("estimate", "se", "df", "ci_low", "ci_high", "n", "deff", "flag"), names(table))
  keys <- setdiff(names(table), cells)
  across <- one_name(across)
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
  structure(found, class = c("surveysynth_wide", "data.frame"), shown = list(of = show, categories = unique(label)))
}

#' @method print surveysynth_wide
#' @export
print.surveysynth_wide <- function(x, digits = 4, ...) {
  of <- attr(x, "shown")
  cells <- if (!is.null(of)) as.vector(t(outer(of$of, of$categories, paste, sep = "_")))
  if (is.null(of) || !all(cells %in% names(x))) { # columns were taken out
    print(plain_table(x), row.names = FALSE, ...)
    return(invisible(x))
  }
  text <- plain_table(x)
  kept <- c(estimate = digits, se = digits, df = 3, ci_low = digits, ci_high = digits, n = 1)
  for (name in intersect(names(kept), of$of)) {
    columns <- paste0(name, "_", of$categories)
    text[columns] <- lapply(text[columns], in_digits, kept[[name]])
  }
  in_blocks(text, setdiff(names(x), cells), function(block, keys) {
    whole <- utils::capture.output(print(block[c(keys, names(block)[names(block) %in% cells])], row.names = FALSE, ...))
    if (length(whole) == nrow(block) + 1) return(writeLines(whole))
    for (name in of$of) {
      part <- block[c(keys, paste0(name, "_", of$categories))]
      names(part) <- c(keys, of$categories)
      cat(name, ":\n", sep = "")
      print(part, row.names = FALSE, ...)
    }
  })
  invisible(x)
}

# A block for each statistic of each outcome, under a heading of its own; `show` prints one, without those columns.
in_blocks <- function(text, keys, show) {
  heading <- intersect(c("statistic", "outcome"), keys)
  if (length(heading) < 2) return(show(text, keys))
  said <- trimws(paste(text$statistic, text$outcome))
  for (what in unique(said)) {
    if (what != said[1]) cat("\n")
    cat(what, "\n", sep = "")
    block <- text[said == what, setdiff(names(text), heading), drop = FALSE]
    empty <- vapply(intersect(c("category", "prob"), names(block)), function(name) all(block[[name]] %in% c("", NA)), NA)
    block[names(empty)[empty]] <- NULL
    show(block, intersect(setdiff(keys, heading), names(block)))
  }
}
