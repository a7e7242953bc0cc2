# Data frames in the form in which R and Python hand them to each other, exactly: a column is a vector
# of numbers and what these mean. Text and factors are codes into their distinct values. The other side
# is surveysynth/r/exchange.py, function by function.
#
#     columns.json    name, type, levels, ... of each column
#     1.bin, 2.bin    its numbers, little-endian, of 8 or 4 bytes

in_four_bytes <- c("logical", "integer", "character", "factor")

# An error in the user's words, without the call of ours that found it.
refuse <- function(..., code = "input") stop(condition_of(paste0(...), code))

condition_of <- function(message, code) {
  structure(class = c(paste0("surveysynth_", code, "_error"), "surveysynth_error", "error", "condition"),
            list(message = message, call = NULL, code = code))
}

encode_frame <- function(frame) {
  was <- attr(frame, "pandas")
  if (anyNA(names(frame))) refuse("a column of the data has NA for its name; rename it")
  if (anyDuplicated(names(frame))) refuse("the data have several columns of the same name; rename them")
  lapply(seq_along(frame), function(i) { # by number: a name may be empty
    name <- check_text(names(frame)[i], names(frame)[i])
    column <- c(list(name = name), encode_column(frame[[i]], name))
    dtype <- was[match(name, names(was))]
    if (length(dtype) && !is.na(dtype)) column$dtype <- unname(dtype)
    column
  })
}

encode_column <- function(x, name) {
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  if (is.list(x) || length(dim(x)) > 1) refuse_column(name, "a list or a matrix")
  if (inherits(x, "integer64")) return(list(type = "integer64", values = as.vector(unclass(x))))
  if (is.factor(x)) {
    known <- which(!is.na(levels(x))) # addNA() has NA for a level
    levels <- check_text(levels(x)[known], name)
    return(list(type = "factor", values = match(as.integer(x), known), levels = levels, ordered = is.ordered(x)))
  }
  if (inherits(x, "Date")) return(list(type = "Date", values = as.numeric(x)))
  if (inherits(x, "POSIXct")) return(list(type = "POSIXct", values = as.numeric(x), tz = time_zone(x)))
  # labels of some of the numbers stay behind, the numbers go on
  if (is.object(x) && !inherits(x, c("AsIs", "haven_labelled", "labelled", "numeric", "integer", "character"))) {
    refuse_column(name, paste("of class", class(x)[1]))
  }
  x <- if (inherits(x, "haven_labelled_spss")) declared_missing(x) else as.vector(unclass(x))
  if (is.character(x)) {
    levels <- unique(x[!is.na(x)])
    return(list(type = "character", values = match(x, levels), levels = check_text(levels, name)))
  }
  if (!is.logical(x) && !is.numeric(x)) refuse_column(name, paste("of type", typeof(x)))
  list(type = typeof(x), values = if (is.logical(x)) as.integer(x) else x)
}

# Values that the labels of an SPSS file declare missing are missing.
declared_missing <- function(x) {
  values <- as.vector(unclass(x))
  missing <- values %in% attr(x, "na_values")
  range <- attr(x, "na_range")
  if (!is.null(range)) missing <- missing | values >= range[1] & values <= range[2]
  values[which(missing)] <- NA
  values
}

# Text as UTF-8, also where R has another encoding; text of unknown encoding is taken as UTF-8 if it is valid.
check_text <- function(text, name) {
  Encoding(text[Encoding(text) == "unknown" & validUTF8(text)]) <- "UTF-8"
  if (all(validEnc(text))) return(enc2utf8(text))
  refuse("column ", sQuote(iconv(name, "UTF-8", "UTF-8", "byte")), " has text in an unknown encoding; declare it by ",
       "Encoding(), or convert it by iconv()")
}

refuse_column <- function(name, what) {
  refuse("column ", sQuote(name), " is ", what, ", which cannot go to Python; convert it or leave it out")
}

# The zone that a time without one is printed in.
time_zone <- function(x) {
  zone <- attr(x, "tzone")[1]
  if (is.null(zone) || !nzchar(zone)) zone <- Sys.timezone()
  if (is.na(zone)) "UTC" else zone
}

decode_frame <- function(columns) {
  frame <- lapply(columns, decode_column)
  names(frame) <- vapply(columns, function(column) column$name, "")
  rows <- if (length(frame)) length(frame[[1]]) else 0L
  was <- vapply(columns, function(column) if (is.null(column$dtype)) NA_character_ else column$dtype, "")
  attributes(frame) <- list(names = names(frame), class = "data.frame", row.names = .set_row_names(rows),
                            pandas = stats::setNames(was, names(frame))[!is.na(was)])
  frame
}

decode_column <- function(column) {
  values <- column$values
  levels <- as.character(unlist(column$levels))
  switch(column$type,
    logical = as.logical(values),
    character = levels[values],
    factor = structure(values, levels = levels, class = c(if (isTRUE(column$ordered)) "ordered", "factor")),
    Date = structure(values, class = "Date"),
    POSIXct = structure(values, class = c("POSIXct", "POSIXt"), tzone = column$tz),
    integer64 = {
      need("bit64", paste0("column ", sQuote(column$name), " has whole numbers beyond 2^53"))
      structure(values, class = "integer64")
    },
    values
  )
}

save_frame <- function(frame, folder) {
  columns <- encode_frame(frame)
  umask <- Sys.umask("077") # the files are this user's alone
  on.exit(Sys.umask(umask))
  for (i in seq_along(columns)) {
    column <- columns[[i]]
    file <- file(file.path(folder, paste0(i, ".bin")), "wb")
    writeBin(column$values, file, size = if (column$type %in% in_four_bytes) 4L else 8L, endian = "little")
    close(file)
    columns[[i]]$values <- NULL
    if (!is.null(column$levels)) columns[[i]]$levels <- I(column$levels)
  }
  text <- jsonlite::toJSON(list(columns = columns), auto_unbox = TRUE)
  writeLines(enc2utf8(text), file.path(folder, "columns.json"), useBytes = TRUE)
}

load_frame <- function(folder) {
  descriptions <- jsonlite::fromJSON(file.path(folder, "columns.json"), simplifyVector = FALSE)$columns
  columns <- lapply(seq_along(descriptions), function(i) {
    column <- descriptions[[i]]
    path <- file.path(folder, paste0(i, ".bin"))
    whole <- column$type %in% in_four_bytes
    size <- if (whole) 4L else 8L
    column$values <- readBin(path, if (whole) "integer" else "double", file.size(path) / size, size, endian = "little")
    column
  })
  decode_frame(columns)
}

# A package that is only sometimes needed.
need <- function(package, why) {
  if (!requireNamespace(package, quietly = TRUE)) {
    refuse(why, ", which needs the R package ", sQuote(package), ": install.packages(\"", package, "\")")
  }
}
