"""Formulas of columns: which columns they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import formulaic
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.variables import Variable, get_required_variables

from ..errors import InputError

PLAIN = re.compile(r"[^\W\d][\w.]*")  # a name that needs no backticks
OUTSIDE_OF_BACKTICKS = {sign: re.compile(rf"{re.escape(sign)}(?=(?:[^`]*`[^`]*`)*[^`]*$)") for sign in "~+"}


def formula_columns(predictors: str) -> tuple[str, ...]:
    """The columns that the right-hand side of a formula names, sorted.

    Raises
    ------
    InputError
        It is not a right-hand side of a formula.
    """
    return tuple(sorted({name for factor in factors_of(predictors) for name in columns_of(factor)}))


def sides_of(outcome: str | Sequence[str], predictors: str) -> tuple[str | Sequence[str], str]:
    """Outcome and predictors, where both came in one formula, ``"income ~ region + sex"``; else as they are.

    Several outcomes are added up on the left, as in ``"income + C(tenure) ~ region"``, and come back as a list.  A name
    that holds other characters than letters, digits and ``_`` stands in backticks.  Predictors may begin with ``~``.

    Raises
    ------
    InputError
        Not a formula; columns listed by commas.
    """
    if isinstance(predictors, str):
        predictors = predictors.strip().removeprefix("~").strip()
    if predictors not in ("", "1") or not isinstance(outcome, str):
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
    """The column of an outcome ``C(column)``."""
    found = re.fullmatch(r"\s*C\(\s*`?(.+?)`?\s*\)\s*", str(outcome))
    return found[1] if found else None


def quoted(formula: str, columns: Iterable[str]) -> str:
    """The formula with those columns in backticks whose names have blanks or signs."""
    odd = sorted((c for c in columns if not PLAIN.fullmatch(c) and "`" not in c), key=len, reverse=True)
    if not odd:
        return formula
    names = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, odd))})(?!\w)")
    pieces = re.split("(`[^`]*`)", formula)
    return "".join(piece if piece.startswith("`") else names.sub(r"`\g<0>`", piece) for piece in pieces)


def refuse_commas(formula: str) -> None:
    """Refuse a formula that lists columns by commas, outside of brackets, quotes and backticks (InputError)."""
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
    """The factors of its terms, each a column or an expression; InputError as :func:`formula_columns`."""
    if not isinstance(predictors, str) or not predictors.strip():
        raise InputError("predictors must be a formula such as 'field + gender' ('1' for none)")
    refuse_commas(predictors)
    try:
        formula = formulaic.Formula(f"1 + {predictors}")
    except Exception as error:
        raise InputError(f"predictors {predictors!r} is not a formula ({type(error).__name__})") from None
    if not isinstance(formula, formulaic.SimpleFormula) or not formula:
        raise InputError("predictors is the right-hand side of a formula, with each public column by name")
    return [factor for term in formula for factor in term.factors]


def columns_of(factor: Factor) -> set[str]:
    """The columns that a factor of a formula reads; formulaic's own list misses those inside ``center()``, ``bs()``."""
    if factor.eval_method == Factor.EvalMethod.LOOKUP:
        return {factor.expr}
    found = get_required_variables(factor.expr)
    return {
        str(v.root if Variable.Role.CALLABLE in v.roles else v)
        for v in found
        # center(x) is a function and contr.sum a constant, but C(center) reads a column
        if v.root not in TRANSFORMS or (Variable.Role.VALUE in v.roles and v == v.root)
    }
