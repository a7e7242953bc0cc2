# R's formulas in the language of Python's formulaic: the same but for functions, which are Python there.

# Functions that both have: the name there, and the names there of R's arguments ("" for the first, which has none).
in_python <- function(name, ...) list(name = name, arguments = c(x = "", ...))
FUNCTIONS <- c(
  list(
    factor = in_python("C"), as.factor = in_python("C"), C = in_python("C"), I = in_python("I"),
    log = in_python("log"), log2 = in_python("log2"), log10 = in_python("log10"), exp = in_python("exp"),
    ceiling = in_python("np.ceil"), asinh = in_python("np.arcsinh"),
    scale = in_python("scale", center = "center", scale = "scale"),
    poly = in_python("poly", degree = "degree", raw = "raw"),
    bs = in_python("bs", df = "df", knots = "knots", degree = "degree", intercept = "include_intercept")
  ),
  sapply(c("sqrt", "abs", "log1p", "expm1", "floor", "trunc", "sign", "sin", "cos", "tan"),
         function(name) in_python(paste0("np.", name)), simplify = FALSE)
)
OPERATORS <- c("+" = "+", "-" = "-", "*" = "*", "/" = "/", "^" = "**", "%%" = "%", "%/%" = "//", "&" = "&", "|" = "|",
               "==" = "==", "!=" = "!=", "<" = "<", ">" = ">", "<=" = "<=", ">=" = ">=")
PYTHON_WORDS <- c("and", "as", "assert", "async", "await", "class", "continue", "def", "del", "elif", "except",
                  "finally", "from", "global", "import", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
                  "return", "try", "with", "yield", "None", "True", "False")

# The right-hand side of a formula as text: terms, joined by the operators that R has, too.
formula_text <- function(side) {
  if (is.name(side)) return(column_text(side))
  if (is.numeric(side)) {
    if (!side %in% 0:1) refuse("the number ", side, " cannot be a term of the formula")
    return(as.character(side))
  }
  if (!is.call(side)) refuse("the formula has a term that is no column: ", deparse(side))
  operator <- as.character(side[[1]])[1]
  parts <- as.list(side)[-1]
  if (operator == "(") return(paste0("(", formula_text(parts[[1]]), ")"))
  if (operator == "^") return(paste0(formula_text(parts[[1]]), "**", exponent(parts[[2]])))
  if (operator %in% c(names(OPERATORS), "||", "&&", "!") && !operator %in% TERMS) refuse_condition(operator, side)
  if (!operator %in% TERMS) return(python_code(side))
  text <- vapply(parts, formula_text, "")
  if (length(text) == 1) return(paste0(operator, text))
  if (operator %in% c(":", "%in%")) paste(text, collapse = ":") else paste(text, collapse = paste0(" ", operator, " "))
}

TERMS <- c("+", "-", "*", ":", "/", "%in%") # operators that join terms

refuse_condition <- function(operator, side) {
  text <- deparse1(side)
  if (operator == "|") {
    refuse("the formula has ", text, ": there are no random effects; write the predictors with + between them, or ",
           "I(", text, ") for a condition")
  }
  refuse("the formula has ", text, " outside of I(): write I(", text, "), which publishes the columns in it as they ",
         "are, or make a column of it first: design <- update(design, new = ", text, ")")
}

exponent <- function(e) {
  if (!is.numeric(e) || e < 1 || e != round(e)) refuse("the formula has ^ with no whole number behind it")
  e
}

column_text <- function(name) {
  name <- enc2utf8(as.character(name))
  if (name == ".") refuse("name the predictors in the formula, not \".\": they are published as they are")
  if (grepl("`", name, fixed = TRUE)) refuse("the column name ", name, " has a backtick; rename it")
  if (grepl("^[A-Za-z_][A-Za-z0-9_]*$", name)) name else paste0("`", name, "`")
}

# What stands inside of a function is Python. Operands that are operations get brackets, as the two
# languages bind some operators differently.
python_code <- function(e) {
  if (is.name(e)) {
    if (as.character(e) %in% PYTHON_WORDS) {
      refuse("the column name ", e, " cannot stand inside of a function: it is a word of Python; rename it")
    }
    return(column_text(e))
  }
  if (is.logical(e) && !is.na(e)) return(if (e) "True" else "False")
  if (is.character(e)) return(as.character(jsonlite::toJSON(enc2utf8(e), auto_unbox = TRUE)))
  if (is.numeric(e)) return(sprintf("%.15g", e))
  if (!is.call(e)) refuse("the formula has ", deparse(e), ", which cannot be carried over")
  called <- if (is.call(e[[1]])) as.character(e[[1]][[3]]) else as.character(e[[1]]) # stats::poly is poly
  parts <- as.list(e)[-1]
  if (called == "(") return(paste0("(", python_code(parts[[1]]), ")"))
  if (called == "c") return(paste0("[", paste(vapply(parts, python_code, ""), collapse = ", "), "]"))
  if (called == "!") return(paste0("~", operand(parts[[1]])))
  if (called %in% names(OPERATORS)) {
    text <- vapply(parts, operand, "")
    if (length(text) == 1) return(paste0(called, text))
    return(paste(text, collapse = paste0(" ", OPERATORS[[called]], " ")))
  }
  function_text(called, parts)
}

operand <- function(e) {
  text <- python_code(e)
  if (is.call(e) && as.character(e[[1]])[1] %in% c(names(OPERATORS), "!")) paste0("(", text, ")") else text
}

function_text <- function(called, parts) {
  known <- FUNCTIONS[[called]]
  column <- "make a column of it first: design <- update(design, new = ...)"
  if (is.null(known)) {
    refuse("the formula has ", called, "(), which cannot be carried over; ", column, ". Functions that can: ",
           paste(setdiff(names(FUNCTIONS), c("as.factor", "C")), collapse = ", "))
  }
  given <- matched_arguments(called, parts, names(known$arguments))
  if (is.null(given)) {
    refuse("the formula has ", called, "() with arguments that cannot be carried over; ", column)
  }
  text <- vapply(given, python_code, "")
  named <- known$arguments[names(given)]
  paste0(known$name, "(", paste0(ifelse(nzchar(named), paste0(named, "="), ""), text, collapse = ", "), ")")
}

# Arguments by the names of a function's own, as R would match them; NULL where it has no such.
matched_arguments <- function(called, parts, names) {
  signature <- as.function(c(stats::setNames(rep(alist(x = ), length(names)), names), list(NULL)))
  given <- tryCatch(match.call(signature, as.call(c(as.name(called), parts))), error = function(e) NULL)
  if (is.null(given) || !"x" %in% names(given)) NULL else as.list(given)[-1]
}
