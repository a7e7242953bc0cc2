# Formulas: those that name columns, and those of models, in the language of Python's formulaic.

# The columns of a one-sided formula, ~ a + b; ~ 1 has none. Anything else that it says would be lost: it is refused.
columns_of <- function(formula) {
  if (length(formula) != 2) refuse("the formula ", deparse1(formula), " has two sides: name columns as in ~ a + b")
  if (identical(formula[[2]], 1)) character() else unique(named_columns(formula[[2]]))
}

named_columns <- function(term) {
  if (identical(term, quote(.))) refuse("name the columns in the formula, not \".\"")
  if (is.name(term)) return(as.character(term))
  operator <- if (is.call(term)) as.character(term[[1]])[1] else ""
  if (operator %in% c("+", "(")) return(unlist(lapply(as.list(term)[-1], named_columns)))
  text <- deparse1(term)
  if (operator %in% c(":", "*")) refuse("the formula has ", text, ": join columns by +")
  if (is.numeric(term) || operator == "-") refuse("the formula has ", text, ", and it can only name columns, joined by +")
  refuse("the formula has ", text, ", and it can only name columns, joined by +; make a column of it first: ",
         "design <- update(design, new = ", deparse1(unwrapped(term)), ")")
}

# Models: the same in both languages but for functions, which are Python in formulaic.

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

# The right-hand side of a formula as text: terms, joined by the operators that R has, too. To formulaic the columns of
# TRUE and FALSE, `logical`, are numbers; to R they are categories.
formula_text <- function(side, logical = character()) {
  if (is.name(side)) return(if (as.character(side) %in% logical) python_code(call("C", side)) else column_text(side))
  if (is.numeric(side)) {
    if (!side %in% 0:1) refuse("the number ", side, " cannot be a term of the formula")
    return(as.character(side))
  }
  if (!is.call(side)) refuse("the formula has a term that is no column: ", deparse(side))
  operator <- as.character(side[[1]])[1]
  parts <- as.list(side)[-1]
  if (operator == "(") return(paste0("(", formula_text(parts[[1]], logical), ")"))
  if (operator == "^") return(paste0(formula_text(parts[[1]], logical), "**", exponent(parts[[2]])))
  if (operator %in% c(names(OPERATORS), "||", "&&", "!") && !operator %in% TERMS) refuse_condition(operator, side)
  if (!operator %in% TERMS) return(python_code(side))
  text <- vapply(parts, formula_text, "", logical)
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
  called <- called_in(e)
  parts <- as.list(e)[-1]
  if (called == "(") return(paste0("(", python_code(parts[[1]]), ")"))
  if (called == "c") return(paste0("[", paste(vapply(parts, python_code, ""), collapse = ", "), "]"))
  if (called == "^") return(paste0("np.float_power(", paste(vapply(parts, python_code, ""), collapse = ", "), ")"))
  if (called == "!") return(paste0("~", truth(parts[[1]])))
  if (called %in% c("&", "|")) return(paste(vapply(parts, truth, ""), collapse = paste0(" ", called, " ")))
  if (called %in% names(OPERATORS)) return(operation(called, parts))
  function_text(called, parts)
}

# The name of the function or operator that a call calls; stats::poly is poly.
called_in <- function(e) {
  if (is.name(e[[1]])) return(as.character(e[[1]]))
  ours <- is.call(e[[1]]) && identical(e[[1]][[1]], quote(`::`)) && as.character(e[[1]][[2]]) %in% PACKAGES
  if (ours) as.character(e[[1]][[3]]) else deparse1(e[[1]])
}

PACKAGES <- c("base", "stats", "splines") # whose functions FUNCTIONS are

# R counts with TRUE and FALSE; to Python their sum is "or". A number in front of them makes them numbers there, too.
operation <- function(called, parts) {
  text <- vapply(parts, operand, "")
  if (called %in% c("+", "-", "*") && !any(vapply(parts, is_number, NA))) {
    if (length(text) == 1) return(paste("0", called, text))
    text[1] <- paste(if (called == "*") "1 *" else "0 +", text[1])
  }
  if (length(text) == 1) paste0(called, text) else paste(text, collapse = paste0(" ", OPERATORS[[called]], " "))
}

# Whether an expression is a number for certain: a column may be TRUE and FALSE.
is_number <- function(e) {
  e <- unwrapped(e)
  is.numeric(e) || is.call(e) && !is_condition(e)
}

# Whether an expression is TRUE or FALSE for certain.
is_condition <- function(e) {
  e <- unwrapped(e)
  is.logical(e) || is.call(e) && called_in(e) %in% c("==", "!=", "<", ">", "<=", ">=", "!", "&", "|")
}

unwrapped <- function(e) {
  while (is.call(e) && called_in(e) %in% c("(", "I")) e <- e[[2]]
  e
}

# To Python & and | of numbers are bitwise.
truth <- function(e) if (is_condition(e)) operand(e) else paste0("(", operand(e), " != 0)")

# A condition is a number to formulaic and a category to R, whose coefficients are as many beside the intercept and its
# main effect alone.
check_conditions <- function(side) {
  terms <- stats::terms(stats::as.formula(call("~", side)))
  variables <- as.list(attr(terms, "variables"))[-1]
  for (i in which(vapply(variables, is_condition, NA))) {
    coded <- attr(terms, "factors")[i, ] # 2: without contrasts
    if (attr(terms, "intercept") == 1 && !any(coded == 2)) next
    term <- variables[[i]]
    refuse("the formula has ", deparse1(term), " without its main effect or without the intercept; make a column of it ",
           "first: design <- update(design, new = ", deparse1(unwrapped(term)), ")")
  }
}

operand <- function(e) {
  text <- python_code(e)
  if (is.call(e) && called_in(e) %in% c(setdiff(names(OPERATORS), "^"), "!")) paste0("(", text, ")") else text
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
  if (is.null(given) || !"x" %in% names(given)) return(NULL)
  given <- as.list(given)[-1]
  settings <- given[names(given) != "x"] # columns are none: poly(x, z) has two of them
  if (length(unlist(lapply(settings, all.vars)))) NULL else given
}
