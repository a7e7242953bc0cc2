"""The changes between two releases, or between two plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..errors import InputError
from ..release.diff import Changes, diff_releases, differing_entries
from ..storage import as_path
from ..validation import one_of
from .toml_file import read_toml


def diff(
    old: str | Path,
    new: str | Path,
    by: str | Sequence[str] | None = None,
    *,
    statistic: str | Sequence[str] | None = None,
    same_file: bool | None = None,
) -> Changes:
    """Compare two releases, or two plans.

    For releases only the public files are read.  For plans only the plans' files are read, and no data.

    Parameters
    ----------
    old, new : str or Path
        Two release folders, or two plans (TOML).
    by, statistic
        Which tables of two releases are compared, as for :meth:`Release.tables`.  By default these are the tables that
        both releases have.
    same_file : bool, optional
        True if two releases come from the same confidential file, so that differences have no sampling error.  The
        default is True if the new release supersedes the old release.

    Returns
    -------
    Changes
        ``print()`` shows the changes.  ``.settings`` has the settings that differ.  ``.cells`` has the estimates of
        both releases with the standard error of their difference; it is empty for plans.  ``.erratum()`` returns the
        note for a release that replaces another.

    Raises
    ------
    InputError
        ``old`` and ``new`` are a plan and a release, cannot be read, or are releases without a common outcome.

    Examples
    --------
    The settings in which two plans differ:

    >>> ss.datasets.sdr_sample(seed=1).frame.to_csv("survey.csv", index=False)
    >>> plan = ss.Plan.draft("survey.csv", formula="salary ~ field + gender", weights="weight", epsilon=5)
    >>> old, new = plan.save("old.toml"), plan.set(epsilon=3).save("new.toml")
    >>> ss.diff(old, new).settings.loc[lambda f: f.entry == "privacy.epsilon"]
                 entry old new
    0  privacy.epsilon   5   3
    """
    one_of(same_file, (None, False, True), "same_file")
    old, new = as_path(old, "old"), as_path(new, "new")
    plans = [path.suffix == ".toml" for path in (old, new)]
    if not any(plans):
        return diff_releases(old, new, by, statistic=statistic, same_file=same_file)
    if not all(plans):
        raise InputError("two releases are compared, or two plans: one of these is a plan, and the other is none")
    entries = [{entry: _text(value) for entry, value in read_toml(path).items()} for path in (old, new)]
    return Changes(differing_entries(*entries), pd.DataFrame())


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
