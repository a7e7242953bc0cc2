#' Read a release of synthetic survey data
#'
#' Reads the public files of a release folder; nothing in `internal/` is touched, and no Python is needed.
#'
#' The manifest lists every public file with its records and columns, its SHA-256 and, as older versions of R have no
#' SHA-256 of their own, its MD5 sum. A file that is missing, or has other records, columns or content by that sum,
#' is refused; so is one that another program has opened and saved, and a manifest that does not fit its own checksum.
#' This finds accidents, not forgery of files and manifest together.
#'
#' @param path The release folder, or its `public` folder as it was published. The synthetic
#'   files must be csv.
#' @return An object of class `surveysynth_release`: a list with `designs`, the m synthetic data
#'   sets as `survey.design` objects; `count_designs`, the same as counts of population units are
#'   estimated from them (other weights under FBP, else the same designs); and `manifest`, a list
#'   with the method, epsilon, its kind, and the assumptions.
#' @export
#' @examples
#' folder <- system.file("example-release", package = "surveysynth")
#' release <- read_release(folder)
#' release
#' combine_release(with_release(release, survey::svyby(~income, ~region, design, survey::svymean)))
read_release <- function(path) {
  folder <- public_folder(check_folder(path))
  file <- file.path(folder, "manifest.json")
  if (!file.exists(file)) {
    refuse(sQuote(path), " is not a release: it has no public/manifest.json")
  }
  verify_manifest(file)
  manifest <- jsonlite::fromJSON(file, simplifyMatrix = FALSE) # a margin of several columns stays one
  verify(folder, manifest$files)
  frames <- lapply(seq_len(manifest$m), function(i) {
    csv <- sprintf("synthetic_%d.csv", i)
    if (!csv %in% names(manifest$files)) refuse("the release has no ", csv, "; write it with format = \"csv\"")
    read_synthetic(file.path(folder, csv), manifest)
  })
  manifest$files <- manifest$checksum <- NULL # verified; what is left is the manifest of a release that was made here
  new_release(frames, manifest, list(path = normalizePath(path), files = fingerprint(folder), text = public_text(folder)))
}

# What is public of a release but for its data sets, as Python takes it.
public_text <- function(folder) {
  whole <- function(file) {
    file <- file.path(folder, file)
    if (!file.exists(file)) return("null")
    text <- readChar(file, file.size(file), useBytes = TRUE)
    Encoding(text) <- "UTF-8"
    text
  }
  paste0("{\"manifest\": ", whole("manifest.json"), ", \"measurements\": ", whole("measurements.json"), "}")
}

# Refuse a manifest that does not end with the MD5 sum of all the text before it.
verify_manifest <- function(file) {
  text <- readBin(file, "raw", file.size(file))
  at <- utils::tail(grepRaw(",\n  \"checksum\": {", text, fixed = TRUE, all = TRUE), 1)
  if (!length(at)) {
    refuse(sQuote(file), " cannot be verified: it does not end with its own checksum, as that of an older version or ",
           "a file that is cut short; write it again, or take it again from where it was published")
  }
  before <- tempfile()
  on.exit(unlink(before))
  writeBin(text[seq_len(at - 1)], before)
  end <- rawToChar(text[-seq_len(at - 1)])
  if (!grepl(sprintf("\"md5\": \"%s\"\n  }\n}\n$", tools::md5sum(before)), end)) {
    refuse(sQuote(file), " is not what was written: its text does not fit its checksum. Take it again from where it ",
           "was published, and copy it as it is")
  }
}

# Refuse files that are not those that the manifest lists.
verify <- function(folder, published) {
  faults <- unlist(Map(differs_from, file.path(folder, names(published)), published))
  if (length(faults)) {
    refuse("the release in ", sQuote(folder), " is not what was published: ", paste(faults, collapse = "; "),
           ". Take the files again from where they were published, and copy them as they are: what another program ",
           "has opened and saved is not the file that was published")
  }
}

# How a file differs from what was published, if it does.
differs_from <- function(file, published) {
  name <- sQuote(basename(file))
  if (!file.exists(file)) return(paste(name, "is missing"))
  if (!is.null(published$records) && grepl("[.]csv$", file)) {
    found <- size_of(file)
    other <- Filter(function(what) !identical(found[[what]], as.integer(published[[what]])), c("records", "columns"))
    sizes <- sprintf("%d %s instead of %d", unlist(found[other]), other, unlist(published[other]))
    if (length(other)) return(paste(name, "has", paste(sizes, collapse = " and ")))
  }
  hash <- hash_of(file)
  if (!identical(hash$value, published[[hash$entry]])) paste0(name, " has other content (its ", hash$label, " differs)")
}

# SHA-256 where this R has it (4.5 and later), else the MD5 sum.
hash_of <- function(file) {
  sha256 <- get0("sha256sum", asNamespace("tools"), mode = "function")
  if (is.null(sha256)) return(list(entry = "md5", label = "MD5 sum", value = unname(tools::md5sum(file))))
  list(entry = "sha256", label = "SHA-256", value = unname(sha256(file)))
}

# Records and columns; of a text within quotes that goes over several lines only the last has a number of fields.
size_of <- function(file) {
  fields <- utils::count.fields(file, ",", quote = "\"", comment.char = "")
  fields <- c(fields[!is.na(fields)], if (is.null(fields)) 0L)
  list(records = length(fields) - 1L, columns = fields[1])
}

# Text stays text, even where it looks like a number or like NA; categories keep their order, truth is Python's.
read_synthetic <- function(file, manifest) {
  text <- c("str", "string", "object", "category", TRUTH)
  kind <- vapply(manifest$dtypes, function(t) if (t %in% text) "character" else NA_character_, "")
  frame <- utils::read.csv(file, colClasses = kind, check.names = FALSE, na.strings = character(),
                           encoding = "UTF-8")
  for (name in names(manifest$dtypes)[manifest$dtypes %in% TRUTH]) frame[[name]] <- truth_of(frame[[name]])
  for (name in names(manifest$levels)) {
    kind <- manifest$levels[[name]]
    values <- frame[[name]]
    truth <- values %in% c("True", "False") & !values %in% kind$categories # beside others, such as "missing"
    values[truth] <- toupper(values[truth])
    frame[[name]] <- factor(values, as.character(kind$categories), ordered = kind$ordered)
  }
  as_they_were(frame, manifest)
}

TRUTH <- c("bool", "boolean")

truth_of <- function(text) unname(c(True = TRUE, False = FALSE)[text])

public_folder <- function(path) if (dir.exists(file.path(path, "public"))) file.path(path, "public") else path

fingerprint <- function(folder) {
  unname(tools::md5sum(list.files(folder, "^(manifest[.]json|synthetic_[0-9]+[.]csv)$", full.names = TRUE)))
}

# `python` has Python's release (`object`), or the folder that Python can read (`path`) while it is unchanged, and the
# `text` of which Python makes it again, with the data sets, in another session.
new_release <- function(frames, manifest, python) {
  designs <- lapply(frames, synthetic_design, manifest$design)
  counts <- if (is.null(manifest$count_design)) designs else lapply(frames, synthetic_design, manifest$count_design)
  structure(list(designs = designs, count_designs = counts, manifest = manifest, python = in_environment(python)),
            class = "surveysynth_release")
}

# Without the function that calls as its parent, which saveRDS() would save.
in_environment <- function(values) list2env(values, parent = emptyenv())

# A design that shows itself by the names of the columns.
synthetic_design <- function(frame, roles) {
  design <- as_design(frame, roles)
  formula <- function(columns) call("~", Reduce(function(a, b) call("+", a, b), lapply(unlist(columns), as.name)))
  used <- without_null(roles[c("strata", "weights", "probs", "fpc")])
  ids <- if (is.null(roles$psu)) quote(~1) else formula(roles$psu)
  design$call <- as.call(c(quote(svydesign), ids = ids, lapply(used, formula), data = quote(frame)))
  design
}

# Python's own object of a release.
python_release <- function(release) {
  python <- release$python
  if (!is.null(python$object) && !reticulate::py_is_null_xptr(python$object)) return(python$object)
  if (!is.null(python$before)) {
    python$object <- python_with_derived(release)
    return(python$object)
  }
  python$object <- if (!is.null(python$path) && dir.exists(python$path)) {
    if (!identical(fingerprint(public_folder(python$path)), python$files)) {
      refuse(sQuote(python$path), " is not what it was when this release was read from it; read it again")
    }
    ask_python("read_release", path = python$path)$object
  } else {
    python_from_text(release)
  }
  python$object
}

# Python's object of a release that was saved in another session, or whose folder is gone.
python_from_text <- function(release) {
  if (is.null(release$python$text)) {
    refuse("this release was saved by an older version of surveysynth, which kept its data sets alone: make it again, or ",
           "read its folder by read_release()")
  }
  types <- unlist(release$manifest$dtypes)
  truth <- names(Filter(function(kind) is.logical(kind$categories), release$manifest$levels))
  in_folder(function(folder) {
    frames <- lapply(seq_along(release$designs), function(i) {
      frame <- as.data.frame(release$designs[[i]]$variables)[names(types)]
      for (name in truth) levels(frame[[name]]) <- tools::toTitleCase(tolower(levels(frame[[name]])))
      frame_for_python(structure(frame, pandas = types), folder, as.character(i))
    })
    ask_python("release_from_text", text = release$python$text, frames = frames)$object
  })
}

#' Write a release folder
#'
#' Writes `public/`, to publish: the synthetic files, the tables (`tables.csv` in full precision, `tables.xlsx` and
#' `tables.html` as they are printed), the privacy report, metadata for other programs (`datapackage.json`,
#' `csv-metadata.json`) and a manifest, by which [read_release()] verifies the other files; and `internal/` (mode
#' 0700, files 0600), to keep: record-level risks and weights and the exact numbers. The folder appears whole or not at
#' all.
#'
#' @param release From [synthesize()].
#' @param path Where; an existing folder is not touched, unless it is a release and `overwrite` is `TRUE`.
#' @param by Variables of the tables, by name or as a formula `~ field + gender`; default: the first three
#'   discrete predictors.
#' @param format Of the synthetic files: `"csv"`, which [read_release()] reads, or `"parquet"`.
#' @param min_cell,cv_limit As for [tables()]. `min_cell` is a quality rule, not protection: whoever has the
#'   synthetic files can compute the suppressed cells. The report says so, too.
#' @param symbols,wording As for [write_tables()].
#' @param overwrite Replace a release that is there; nothing else is ever replaced.
#' @param ledger By [ledger()]: the release is entered there last, when all its files are on the disk and their place is
#'   free. Not for a release that was entered when it was made: such a one is kept beside its ledger until it is
#'   written, and `resume_release(path, ledger)` publishes it, also after its session is gone.
#' @param entry Number of its entry in the ledger, where several releases are kept beside it.
#' @details `saveRDS()` keeps a release, too: `readRDS()` gives in a later session what [tables()], `update()`,
#'   [with_release()] and `write_release()` need. Such a file holds the public part alone, so `internal/` is then written
#'   empty. What [identification_risk()] and other functions need of it is there in the session that made the release.
#' @return `path`, invisibly; `resume_release()` the release.
#' @export
#' @examplesIf surveysynth_available()
#' data(api, package = "survey")
#' design <- survey::svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat)
#' model <- fbs(enroll ~ stype + awards, prior = "flat")
#' release <- synthesize(design, model, epsilon = 12, population_total = 6194,
#'                       mechanism = pseudo_posterior())
#' folder <- tempfile("release")
#' write_release(release, folder, by = ~ stype + awards, min_cell = 10)
#' again <- read_release(folder)
#' unlink(folder, recursive = TRUE)
write_release <- function(release, path, by = NULL, format = c("csv", "parquet"), min_cell = NULL, cv_limit = NULL,
                          symbols = NULL, wording = NULL, overwrite = FALSE, ledger = NULL) {
  check_release(release)
  path <- path.expand(path)
  ask_python("write_release", path = path, by = names_of(by), format = match.arg(format), min_cell = min_cell,
             cv_limit = cv_limit, symbols = symbols, wording = wording, overwrite = overwrite,
             ledger = if (!is.null(ledger)) check_ledger(ledger), objects = list(python_release(release)))
  invisible(path)
}

#' @rdname write_release
#' @export
resume_release <- function(path, ledger = NULL, entry = NULL) {
  read_release(ask_python("resume_release", path = path.expand(check_folder(path)),
                          ledger = if (!is.null(ledger)) check_ledger(ledger), entry = entry)$value)
}

check_release <- function(release) {
  if (!inherits(release, "surveysynth_release")) {
    refuse("a release is what synthesize() and read_release() return")
  }
  invisible(release)
}

check_folder <- function(path) {
  check_path(path, "path names the folder of a release, such as \"release\"",
             ": write_release(release, path) makes the folder")
}

# R's own errors about what is no path quote it, and a design or a release holds records.
check_path <- function(path, message, of_release = "") {
  if (inherits(path, "surveysynth_release")) refuse(message, ", not a release", of_release)
  if (!is.character(path) || length(path) != 1 || is.na(path)) refuse(message, ", not an object of class ", class(path)[1])
  path
}

# Columns by name or as a one-sided formula, as a list for Python.
names_of <- function(columns) {
  if (inherits(columns, "formula")) columns <- columns_of(columns)
  if (!is.null(columns)) I(as.character(columns))
}

one_name <- function(column) {
  name <- unclass(names_of(column))
  if (!is.null(name) && length(name) != 1) refuse("one column is taken here, not ", length(name), ": ", toString(name))
  name
}

#' @method print surveysynth_release
#' @export
print.surveysynth_release <- function(x, ...) {
  manifest <- x$manifest
  m <- length(x$designs)
  n <- format(nrow(x$designs[[1]]$variables), scientific = FALSE)
  kind <- manifest$kind
  spent <- if (identical(kind, "none")) "no epsilon" else sprintf("epsilon = %g (%s)", manifest$epsilon, kind)
  sets <- if (m == 1) "" else "s"
  cat(sprintf("%d synthetic data set%s of %s records by %s, %s\n", m, sets, n, manifest$method, spent))
  predictors <- if (length(manifest$public_predictors)) paste(manifest$public_predictors, collapse = ", ") else "none"
  cat("Outcomes: ", paste(manifest$synthesized, collapse = ", "), "; predictors: ", predictors, "\n", sep = "")
  if (length(manifest$derived)) cat("Derived: ", paste(manifest$derived, collapse = ", "), "\n", sep = "")
  cat(strwrap(paste("Publication:", manifest$publication), exdent = 2), sep = "\n")
  invisible(x)
}

#' Summary of a release
#'
#' @param object A release.
#' @param ... Not used.
#' @return A list of class `summary.surveysynth_release`: the release, and `means`, the estimated
#'   mean of each outcome over the m data sets, as [combine_release()] gives it.
#' @method summary surveysynth_release
#' @export
#' @examples
#' summary(read_release(system.file("example-release", package = "surveysynth")))
summary.surveysynth_release <- function(object, ...) {
  outcomes <- stats::reformulate(sprintf("`%s`", object$manifest$synthesized))
  means <- as.data.frame(combine_release(on_designs(object, function(design) survey::svymean(outcomes, design))))
  structure(list(release = object, means = means), class = "summary.surveysynth_release")
}

#' @method print summary.surveysynth_release
#' @export
print.summary.surveysynth_release <- function(x, digits = 4, ...) {
  print(x$release)
  cat("\nMeans over the data sets:\n")
  print(x$means, digits = digits, ...)
  invisible(x)
}

#' The synthetic data sets of a release as one data frame
#'
#' @param x A release.
#' @param row.names,optional Not used.
#' @param ... Not used.
#' @return All records of the m data sets, one below the other, with their number in the column `data_set`. Estimates
#'   must be made in each data set by itself, and then combined: see [with_release()] and [combine_release()].
#' @export
#' @examples
#' release <- read_release(system.file("example-release", package = "surveysynth"))
#' table(as.data.frame(release)$data_set)
as.data.frame.surveysynth_release <- function(x, row.names = NULL, optional = FALSE, ...) {
  frames <- lapply(x$designs, function(design) as.data.frame(design$variables))
  number <- free_name("data_set", frames[[1]])
  for (i in seq_along(frames)) frames[[i]] <- cbind(stats::setNames(data.frame(i), number), frames[[i]])
  structure(do.call(rbind, frames), pandas = NULL)
}
