#' @keywords internal
#' @importFrom survey SE
"_PACKAGE"
