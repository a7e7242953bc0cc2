"""Edit rules, such as "rent <= income": every synthetic record obeys them.

Rules are public.  A record that breaks one is replaced by another draw of the same record from the same parameters, so
that files are draws from the model given the rules (rejection sampling): post-processing, which spends nothing.
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

ROUNDS = 100  # if a record obeys a rule with a probability of 5%, 6 of a thousand still break it after 100 draws
RULES_TEXT = "public rules that every synthetic record obeys, those that broke one drawn again: {}"


def check_rules(rules: Sequence[str] | str | None, columns: Sequence[str], entry: str = "edits") -> list[str]:
    """Check that rules are conditions on these columns, and return them as a list; messages call them ``entry``.

    Raises
    ------
    InputError
        A rule that is no expression, or names a column that synthetic files do not have.
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
    """Derived columns as functions of the frame, by name; an expression may use the derived columns before it.

    They are tried on a frame with the columns of the synthetic files, so that nothing is spent before they work.

    Raises
    ------
    InputError
        A name that is taken; an expression that is none, cannot be computed, or names other columns than those of the
        synthetic files.
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
    """Draw records that break a rule again; returns the data set and the share of records that broke one.

    Parameters
    ----------
    made : Synthetic
    again : function
        Makes another data set from the same draw.
    rules : list of str
    frame : function
        Makes the columns of a data set.

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
    """The data set with the records ``there`` from another one."""

    def mixed(mine: Any, theirs: Any) -> Any:
        return None if mine is None else np.where(there.reshape(-1, *[1] * (np.ndim(mine) - 1)), theirs, mine)

    labels = {name: column.where(~there, other.labels[name]) for name, column in made.labels.items()}
    return replace(
        made, outcomes=mixed(made.outcomes, other.outcomes), weights=mixed(made.weights, other.weights), labels=labels,
        count_weights=mixed(made.count_weights, other.count_weights), cell=mixed(made.cell, other.cell),
    )  # fmt: skip
