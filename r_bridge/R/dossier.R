#' The document that a disclosure review board signs
#'
#' `dossier()` says what is public and why, what is guaranteed, the balance of the ledger, risks of records, diagnostics,
#' how far the release is from the file, suppression, versions and checksums, with room for who confirms each
#' declared value and for signatures.
#' It is computed from the confidential file and stays inside. `public_dossier()` is its twin for a website, made from the
#' public files alone.
#'
#' @param path Folder of a release, by [write_release()]: `dossier()` needs its internal part.
#' @param design The confidential file, from `svydesign()`, `svrepdesign()` or srvyr's `as_survey()`, its rows in the order
#'   in which the release was made from them.
#' @param out Where: a new folder (mode 0700, files 0600, for `dossier()`) with `dossier.html`, `dossier.pdf` where Python
#'   has WeasyPrint, and the whole comparison with the file.
#' @param by Variables of the comparison, by name or as a formula; default as for [compare_release()].
#' @param ledger By [ledger()]: it is verified against the release.
#' @return `out`, invisibly.
#' @seealso [compare_release()], [identification_risk()].
#' @export
#' @examplesIf surveysynth_available()
#' example <- system.file("example-release", package = "surveysynth")
#' out <- tempfile("dossier")
#' public_dossier(example, out)
#' list.files(out)
#' unlink(out, recursive = TRUE)
dossier <- function(path, design, out, by = NULL, ledger = NULL) {
  check_path(out, "out names a new folder")
  release <- read_release(path)
  parts <- design_parts(design)
  by <- names_of(by)
  columns <- c(unlist(release$manifest[c("public_predictors", "synthesized")]), intersect(by, names(parts$frame)))
  check_there(columns, names(parts$frame))
  in_folder(function(folder) {
    ask_python(
      "dossier", path = path.expand(path), out = path.expand(out), by = by,
      design = design_for_python(parts, columns, folder), ledger = if (!is.null(ledger)) check_ledger(ledger)
    )
  })
  invisible(out)
}

#' @rdname dossier
#' @export
public_dossier <- function(path, out) {
  check_path(out, "out names a new folder")
  ask_python("public_dossier", path = path.expand(check_folder(path)), out = path.expand(out))
  invisible(out)
}
