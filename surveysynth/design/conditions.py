"""Conditions that are written as text, such as "rent <= income", and hold for a record or not."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError, guarded

Bools = NDArray[np.bool_]

QUOTED, PLACE = re.compile(r"`([^`]+)`"), "quoted_column"


def columns_of_condition(rule: str, entry: str) -> set[str]:
    """Find the columns that the condition ``rule`` names.  ``entry`` is the argument that error messages name.

    Raises
    ------
    InputError
        The text is not a condition.  Or it calls a function or looks for a value in a column (``x in income``), so that
        the condition could depend on other records.
    """
    text = QUOTED.sub(PLACE, rule).replace("&", " and ").replace("|", " or ")

    def impossible(kind: str) -> InputError:
        return InputError(f"{entry}: {rule!r} is no condition: write comparisons of columns, as 'rent <= income'")

    tree = guarded(partial(ast.parse, text, mode="eval"), (SyntaxError, ValueError, RecursionError), impossible)
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Call | ast.Attribute | ast.Subscript) for node in nodes):
        raise InputError(f"{entry}: {rule!r} calls a function: derive a column first, or write comparisons of columns")
    looked_in = [node.comparators[at] for node in nodes if isinstance(node, ast.Compare) for at in _memberships(node)]
    if any(isinstance(part, ast.Name) for each in looked_in for part in ast.walk(each)):
        raise InputError(
            f"{entry}: {rule!r} looks for a value in a column, which is that of all records: write the values, as "
            "\"tenure in ['tenant', 'lodger']\""
        )
    return {node.id for node in nodes if isinstance(node, ast.Name)} - {PLACE} | set(QUOTED.findall(rule))


def is_one_comparison(rule: str) -> bool:
    """Return True if a condition is a single comparison by <, <=, > or >=."""
    node = ast.parse(QUOTED.sub(PLACE, rule), mode="eval").body
    signs = ast.Lt | ast.LtE | ast.Gt | ast.GtE
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], signs)


def _memberships(compared: ast.Compare) -> list[int]:
    return [at for at, sign in enumerate(compared.ops) if isinstance(sign, ast.In | ast.NotIn)]


def computed(frame: pd.DataFrame, expression: str) -> Any:
    """Compute an expression, such as "rent <= income", for each record.

    Categorical columns are compared as the texts or numbers that their categories are.
    """
    labels = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    return frame.astype(dict.fromkeys(labels, object)).eval(expression, engine="python")


def obeyed(rules: Sequence[str], frame: pd.DataFrame, entry: str = "edits") -> Bools:
    """Return True for each record that meets all conditions ``rules``, (n,).

    A comparison with a missing value is False, except ``!=``.  ``entry`` is the name of the argument for messages.

    Raises
    ------
    InputError
        A rule is not a condition, or cannot be evaluated.
    """
    out = np.ones(len(frame), dtype=bool)
    for rule in rules:

        def impossible(kind: str, rule: str = rule) -> InputError:
            return InputError(f"{entry}: {rule!r} cannot be evaluated ({kind})")

        found = guarded(partial(computed, frame, rule), Exception, impossible)
        if not isinstance(found, pd.Series) or not pd.api.types.is_bool_dtype(found.dtype):
            raise InputError(f"{entry}: {rule!r} is no condition: write a comparison, as 'rent <= income'")
        out &= found.fillna(False).to_numpy(dtype=bool)
    return out
