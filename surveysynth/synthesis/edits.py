"""Edit rules, such as "rent <= income", which every synthetic record obeys.

Rules are public.  A synthetic record that breaks a rule is drawn again from the same parameters, so that files are
draws from the model given the rules (rejection sampling).  This is post-processing and spends no epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.conditions import columns_of_condition, computed, obeyed
from ..design.derived import RowWise, row_wise
from ..errors import InputError, ModelError
from ..models.draws import Synthetic
from ..validation import several

Bools = NDArray[np.bool_]

ROUNDS = 100  # if a draw obeys a rule with probability 5%, the chance that all 100 draws break the rule is 0.6%
RULES_TEXT = "public rules that every synthetic record obeys, those that broke one drawn again: {}"


def check_rules(rules: Sequence[str] | str | None, columns: Sequence[str], entry: str = "edits") -> list[str]:
    """Check that rules are conditions on given columns, and return them as a list.

    ``entry`` is the name of the argument in messages.

    Raises
    ------
    InputError
        A rule is not a valid expression, or names a column that synthetic files do not have.
    """
    given = [] if rules is None else several(rules)
    for rule in given:
        if not isinstance(rule, str) or not rule.strip():
            raise InputError(f"{entry}: conditions on columns, as text: 'rent <= income'")
        names = columns_of_condition(rule, entry)
        unknown = sorted(names - set(columns))
        if unknown:
            raise InputError(
                f"{entry}: {rule!r} names {', '.join(unknown)}, which synthetic files do not have: they hold "
                f"{', '.join(columns)}"
            )
    return given


def check_derived(derived: Mapping[str, str] | None, frame: pd.DataFrame) -> dict[str, RowWise]:
    """Check expressions for derived columns.  Return, for each name, a function that computes the column from a frame.

    An expression may use the derived columns listed before it.  Each expression is computed here once, so an error
    appears before any epsilon is spent.

    Raises
    ------
    InputError
        A name is already a column.  An expression is not valid, cannot be computed, or names a column that neither the
        synthetic files nor earlier expressions have.
    """
    out = dict[str, RowWise]()
    for name, expression in (derived or {}).items():
        if name in frame:
            raise InputError(f"edits: {name!r} is a column of the synthetic files: derive a new one")
        check_rules([expression], [*frame])
        out[name] = partial(computed, expression=expression)
        frame = frame.assign(**{name: row_wise(frame, out[name], name)})
    return out


def redrawn(
    made: Synthetic, again: Callable[[], Synthetic], rules: Sequence[str], frame: Callable[[Synthetic], pd.DataFrame]
) -> tuple[Synthetic, float]:
    """Replace the records that break a rule by new draws, until every record obeys all rules.

    Parameters
    ----------
    made : Synthetic
        The data set.
    again : function
        Returns another data set from the same draw of the parameters.
    rules : list of str
        The edit rules.
    frame : function
        Returns a data set as a DataFrame with its columns.

    Returns
    -------
    made : Synthetic
        A data set that obeys the rules.
    share : float
        Share of records that broke a rule in the given data set.

    Raises
    ------
    ModelError
        Some records break a rule in each of 100 draws.
    """
    broken = ~obeyed(rules, frame(made))
    share = float(broken.mean())
    for _ in range(ROUNDS):
        if not broken.any():
            return made, share
        made = _mixed(made, again(), broken)
        broken = ~obeyed(rules, frame(made))
    raise ModelError(
        f"{int(broken.sum()):,} synthetic records break an edit rule in every one of {ROUNDS} draws: the model hardly "
        "ever obeys it. Make the variables of the rule predictors of each other, or derive one of them from the others"
    )


def _mixed(made: Synthetic, other: Synthetic, there: Bools) -> Synthetic:
    """Return the data set ``made`` with the records marked by ``there`` replaced by those of ``other``."""

    def mixed(mine: Any, theirs: Any) -> Any:
        return None if mine is None else np.where(there.reshape(-1, *[1] * (np.ndim(mine) - 1)), theirs, mine)

    labels = {name: column.where(~there, other.labels[name]) for name, column in made.labels.items()}
    return replace(
        made, outcomes=mixed(made.outcomes, other.outcomes), weights=mixed(made.weights, other.weights), labels=labels,
        count_weights=mixed(made.count_weights, other.count_weights), cell=mixed(made.cell, other.cell),
    )  # fmt: skip
