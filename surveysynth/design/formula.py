"""Formulas such as "income ~ field + gender": the columns in them, and whether a term depends on one record only.

Terms are separated by ``+``.  A term is a product of factors, and a factor is a column or an expression.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence

import formulaic
import numpy as np
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.variables import Variable, get_required_variables

from ..errors import InputError

PLAIN = re.compile(r"[^\W\d][\w.]*")  # a name that needs no backticks
# Syntax that a function of one record's values may use.  `@` and `in` are excluded: they read whole columns.
ONE_RECORD = (
    ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.unaryop, ast.Compare,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
ELEMENTWISE = ("I", "log", "log2", "log10", "exp", "exp2", "exp10")  # functions of formulaic; those of numpy are below
CONTRASTS = ("contr", "Treatment", "Sum", "Helmert", "Diff", "Poly")  # contrasts of C(), which only depend on levels

OUTSIDE_OF_BACKTICKS = {sign: re.compile(rf"{re.escape(sign)}(?=(?:[^`]*`[^`]*`)*[^`]*$)") for sign in "~+"}


def formula_columns(predictors: str) -> tuple[str, ...]:
    """Return the names of the columns in the right-hand side of a formula, sorted.

    Raises
    ------
    InputError
        The text is not the right-hand side of a formula.
    """
    return tuple(sorted({name for factor in factors_of(predictors) for name in columns_of(factor)}))


def sides_of(outcome: str | Sequence[str], predictors: str) -> tuple[str | Sequence[str], str]:
    """Split a formula such as ``"income ~ region + sex"``, given as ``outcome``, into outcome and predictors.

    If ``outcome`` has no ``~``, both arguments are returned; only a ``~`` at the beginning of the predictors is
    removed.  Several outcomes, as in ``"income + C(tenure) ~ region"``, are returned as a list.  Names with characters
    other than letters, digits, ``_`` and points need backticks.

    Raises
    ------
    InputError
        A text with ``~`` is not a formula, or separates columns by commas.
    """
    if isinstance(predictors, str):
        predictors = predictors.strip().removeprefix("~").strip()
    if not (isinstance(predictors, str) and predictors in ("", "1") and isinstance(outcome, str)):
        return outcome, predictors
    parts = OUTSIDE_OF_BACKTICKS["~"].split(outcome)
    if len(parts) == 1:
        return outcome, predictors
    refuse_commas(outcome)
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise InputError(f"{outcome!r} is not a formula: write outcome ~ predictors, and 1 for no predictors")
    names = [name.strip() for name in OUTSIDE_OF_BACKTICKS["+"].split(parts[0])]
    for name in names:
        if not (PLAIN.fullmatch(name) or re.fullmatch("`[^`]+`", name) or category(name)):
            raise InputError(
                f"{outcome!r} is not a formula: {name!r} is no outcome. A name with blanks or signs stands in "
                f"backticks: `{name.replace('`', '')}` ~ {parts[1].strip()}"
            )
    names = [name[1:-1] if name.startswith("`") else name for name in names]
    return names[0] if len(names) == 1 else names, parts[1].strip()


def category(outcome: str) -> str | None:
    """Return the column of an outcome that is written ``C(column)``.  Return None for other outcomes."""
    found = re.fullmatch(r"\s*C\(\s*`?(.+?)`?\s*\)\s*", str(outcome))
    return found[1] if found else None


def quoted(formula: str, columns: Iterable[str]) -> str:
    """Put backticks around those columns of a formula whose names have blanks or special characters."""
    odd = sorted((c for c in columns if not PLAIN.fullmatch(c) and "`" not in c), key=len, reverse=True)
    if not odd:
        return formula
    names = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, odd))})(?!\w)")
    pieces = re.split("(`[^`]*`)", formula)
    return "".join(piece if piece.startswith("`") else names.sub(r"`\g<0>`", piece) for piece in pieces)


def refuse_commas(formula: str) -> None:
    """Raise InputError for a formula that separates columns by commas, where ``+`` is meant."""
    parts, depth, quote = [""], 0, ""
    for sign in formula:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    if len(parts) > 1:
        right = " + ".join(part.strip() for part in parts if part.strip())
        raise InputError(f"{formula!r} lists columns by commas, which a formula adds: write {right}")


def factors_of(predictors: str) -> list[Factor]:
    """Return the factors (columns or expressions) of all terms in the right-hand side of a formula.

    Raise InputError if the text is not the right-hand side of a formula.
    """
    if not isinstance(predictors, str) or not predictors.strip():
        raise InputError("predictors must be a formula such as 'field + gender' ('1' for none)")
    refuse_commas(predictors)
    try:
        formula = formulaic.Formula(f"1 + {predictors}")
    except Exception:
        raise InputError(f"predictors {predictors!r} is not a formula, as 'field + gender' is") from None
    if not isinstance(formula, formulaic.SimpleFormula) or not formula:
        raise InputError("predictors is the right-hand side of a formula, with each public column by name")
    return [factor for term in formula for factor in term.factors]


def columns_of(factor: Factor) -> set[str]:
    """Find the columns that a factor of a formula uses, also within functions such as ``center()`` and ``bs()``."""
    if factor.eval_method == Factor.EvalMethod.LOOKUP:
        return {factor.expr}
    found = get_required_variables(factor.expr)
    return {
        str(v.root if Variable.Role.CALLABLE in v.roles else v)
        for v in found
        # center(x) is a function and contr.sum a constant, but C(center) reads a column
        if v.root not in TRANSFORMS or (Variable.Role.VALUE in v.roles and v == v.root)
    }


def refuse_other_records(predictors: str, confidential: Collection[str], labels: Collection[str]) -> None:
    """Raise InputError for terms that depend on confidential values of other records.

    A privacy guarantee bounds the contribution of one record.  A mean, a rank or a lag of a confidential column depends
    on all records, so adding or removing one record also changes the contributions of other records.  The same holds
    for levels that ``C()`` finds in a confidential column.

    Parameters
    ----------
    predictors : str
        Right-hand side of a formula.
    confidential : collection of str
        Columns that are not public.  Terms without confidential columns may depend on all records, since the public
        columns are known anyway.
    labels : collection of str
        Columns with declared or public levels, which ``C()`` may use.

    Raises
    ------
    InputError
        A term is not a function of one record.
    """
    for factor in factors_of(predictors):
        if factor.eval_method != Factor.EvalMethod.PYTHON or columns_of(factor).isdisjoint(confidential):
            continue
        coded = _call_of_c(factor.expr)
        if coded is None:
            if not is_row_wise(factor.expr):
                raise InputError(
                    f"the term {factor.expr} may look at other records, whose values are confidential: a term of such "
                    "columns is a function of the record's own values, by arithmetic, comparisons, log(), exp() and "
                    "numpy's functions of single numbers, np.sqrt() or np.where(). Write public numbers in place of "
                    "means and knots, log(income / 20000) or I(income - 20000)"
                )
        elif not (_contrasts_alone(coded) and (columns_of(factor) <= set(labels) or _has_levels(coded))):
            raise InputError(
                f"the term {factor.expr} takes its levels from a confidential column: write a condition, "
                "I(visits > 2), or the levels, C(visits, levels=[0, 1, 2])"
            )


def coded_columns(predictors: str) -> set[str]:
    """Find the columns within ``C()``, which a formula treats as categories even if they are numbers."""
    return {name for factor in factors_of(predictors) if _call_of_c(factor.expr) for name in columns_of(factor)}


def is_row_wise(expression: str) -> bool:
    """Return True if an expression is certain to depend on the values of one record only.

    Such an expression consists of arithmetic, comparisons, ``I()``, logarithms, exponentials, and numpy's functions of
    single numbers.  ``C()`` is not among these functions, since its levels come from all records.
    """
    tree = _parsed(expression)
    return tree is not None and _own_values(tree)


def _own_values(tree: ast.expr) -> bool:
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = [node.func for node in called]
    inside = {id(part) for function in functions for part in ast.walk(function)}
    return all(_elementwise(call) for call in called) and all(
        isinstance(node, ONE_RECORD) for node in ast.walk(tree) if id(node) not in inside
    )


def _elementwise(call: ast.Call) -> bool:
    function = call.func
    if call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return False
    if isinstance(function, ast.Name):
        return function.id in ELEMENTWISE and len(call.args) == 1
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "np"):
        return False
    if function.attr in ("where", "clip"):
        return len(call.args) == 3
    found = getattr(np, function.attr, None)
    return (
        isinstance(found, np.ufunc)
        and found.signature is None  # np.matmul() and the like take whole columns
        and found.nout == 1
        and len(call.args) == found.nin
    )


def _call_of_c(expression: str) -> ast.Call | None:
    """Return the syntax tree of a term ``C(...)``.  Return None for other terms."""
    tree = _parsed(expression)
    found = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "C"
    return tree if found else None  # type: ignore[return-value]


def _contrasts_alone(coded: ast.Call) -> bool:
    """Return True if the arguments of ``C(...)`` depend on one record only.

    That is, the first argument does, and the other arguments are contrasts and constants.
    """
    if not coded.args or not _own_values(coded.args[0]):
        return False
    further = [*coded.args[1:], *(keyword.value for keyword in coded.keywords)]
    named = [node for each in further for node in ast.walk(each) if isinstance(node, ast.Name)]
    return all(node.id in CONTRASTS for node in named)


def _has_levels(coded: ast.Call) -> bool:
    return any(keyword.arg == "levels" for keyword in coded.keywords)


def _parsed(expression: str) -> ast.expr | None:
    """Parse a term, with plain names for columns in backticks.  Return None if the text is not an expression."""
    names = {f"`{name}`": f"column_{i}" for i, name in enumerate(sorted(set(re.findall("`([^`]*)`", expression))))}
    for quoted, plain in names.items():
        expression = expression.replace(quoted, plain)
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
