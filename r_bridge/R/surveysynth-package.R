#' @keywords internal
#' @importFrom survey SE
#' @importFrom stats coef confint df.residual formula nobs update vcov
#' @importFrom graphics plot
"_PACKAGE"
