#' @keywords internal
#' @importFrom survey SE
"_PACKAGE"

# An error in the user's words, without the call of ours that found it.
refuse <- function(...) stop(..., call. = FALSE)
