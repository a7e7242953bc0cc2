# Classes of outcomes: what they declare of a strict release, and how synthetic outcomes get them again.

# The classes that outcomes have in R and not in Python, by name; Python keeps them for whoever reads the release.
classes_of_outcomes <- function(frame) {
  class_of <- function(x) {
    if (is.ordered(x)) return("ordered")
    if (inherits(x, "Date")) return("Date")
    if (is.logical(x) || is.integer(x) && !is.object(x)) typeof(x) else NA
  }
  found <- Filter(Negate(is.na), lapply(frame, class_of))
  if (length(found)) found
}

# Columns with the classes and variable labels that they had in the confidential design.
as_they_were <- function(frame, manifest) {
  for (name in intersect(names(manifest$classes_in_r), names(frame))) {
    frame[[name]] <- with_class(frame[[name]], manifest$classes_in_r[[name]])
  }
  for (name in intersect(names(manifest$labels), names(frame))) attr(frame[[name]], "label") <- manifest$labels[[name]]
  frame
}

with_class <- function(x, class) {
  switch(class,
    ordered = factor(x, levels(x), ordered = TRUE),
    Date = as.Date(as.numeric(x), origin = "1970-01-01"),
    integer = if (all(x == round(x) & abs(x) <= .Machine$integer.max, na.rm = TRUE)) as.integer(x) else x,
    logical = as_truth(x),
    x
  )
}

# TRUE and FALSE, which Python writes True and False; a factor where there are other levels, such as "missing".
as_truth <- function(x) {
  truth <- levels(x) %in% c("True", "False")
  levels(x)[truth] <- toupper(levels(x)[truth])
  if (all(levels(x) %in% c("FALSE", "TRUE"))) x == "TRUE" else x
}

# What is declared of the outcomes of a strict release, with what the classes of their columns declare: a factor its
# levels, integers and dates that they are whole numbers.
declared_by_class <- function(frame, bounds, outcomes, levels) {
  outcomes <- if (!is.null(outcomes)) check_outcomes(outcomes)
  whole <- names(Filter(function(x) is.integer(x) && !is.factor(x) || inherits(x, "Date"), frame))
  if (!is.null(bounds) && !is.list(bounds)) {
    numeric <- Filter(function(x) is.numeric(x) || inherits(x, "Date"), frame)
    left <- setdiff(names(numeric), c(names(outcomes), names(levels)))
    if (length(left) == 1 && left %in% whole && is_interval(bounds)) bounds <- stats::setNames(list(bounds), left)
  }
  for (name in if (is.list(bounds)) intersect(names(bounds), whole)) {
    if (!is_interval(bounds[[name]])) next # which Python refuses
    outcomes[[name]] <- outcome(bounds = bounds[[name]])
    bounds[[name]] <- NULL
  }
  for (name in intersect(names(outcomes), names(frame))) {
    given <- outcomes[[name]]$arguments
    x <- frame[[name]]
    if (!is.null(given$bounds) && is.null(given$whole) && name %in% whole) outcomes[[name]]$arguments$whole <- TRUE
    if (is.null(given$bounds) && is.null(given$levels)) {
      outcomes[[name]]$arguments$levels <- if (is.factor(x)) I(levels(x)) else if (is.logical(x)) c(FALSE, TRUE)
    }
  }
  list(bounds = if (length(bounds)) bounds, outcomes = outcomes)
}

is_interval <- function(bounds) length(bounds) == 2 && isTRUE(as.numeric(bounds)[1] < as.numeric(bounds)[2])

# Outcomes for Python: in strict releases dates are days since 1970-01-01.
outcomes_for_python <- function(frame, outcomes, strict) {
  for (name in outcomes) {
    x <- frame[[name]]
    days <- paste0("design <- update(design, ", name, " = as.Date(", name, "))")
    if (inherits(x, "POSIXt")) refuse("column ", sQuote(name), " has times: make dates of them, ", days)
    if (!inherits(x, "Date")) next
    if (!strict) {
      refuse("column ", sQuote(name), " has dates, and only strict releases synthesize dates; make numbers of them: ",
             "design <- update(design, ", name, " = as.numeric(", name, "))")
    }
    frame[[name]] <- as.integer(floor(as.numeric(x)))
  }
  frame
}
