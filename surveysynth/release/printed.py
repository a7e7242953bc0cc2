"""The tables of a release as a document with titles and footnotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..choices import PRINTED
from ..design.derived import Where
from ..errors import InputError
from ..estimation.design_effects import Deff
from ..publication.document import Document, Facts, document
from ..publication.quality import symbols_of
from ..publication.wording import Wording
from .contents import Contents, kept_columns


def printed(
    release: Contents,
    table: pd.DataFrame,
    by: Sequence[str],
    *,
    symbols: str | Mapping[str, Any] | None = None,
    wording: str | Path | None = None,
    wide: bool = False,
) -> Document:
    """Make a document with titles and footnotes from the tables of a release.

    Parameters
    ----------
    release : Contents
    table : pandas.DataFrame
        From :meth:`Release.tables`.
    by : list of str
        The variables that define the table's domains.
    symbols : {"uk", "statcan"} or mapping, optional
        See :func:`surveysynth.publication.quality.symbols_of`.
    wording : str or Path, optional
        See :class:`surveysynth.publication.wording.Wording`.
    wide : bool
        True to put the categories of the last variable side by side, if they fit on the page.

    Returns
    -------
    Document
        One printed table for each statistic of each outcome, with titles and footnotes.
    """
    method, design = release.method, release.datasets[0]
    facts = Facts(
        outcomes=release.outcomes, kept=tuple(kept_columns(release)), records=design.n, labels=design.labels,
        units=method.get("units", {}), where=table.attrs.get("where", ""),
        printed={name: str(method[name]) for name in PRINTED if name in method},
    )  # fmt: skip
    return document(table, by, release.privacy, facts, symbols_of(symbols), Wording(wording), wide=wide)


def check_printed(where: Where = None, level: float = 0.95, deff: Deff = False, **others: Any) -> None:
    """Raise InputError for arguments of :meth:`Release.tables` that printed tables do not support.

    Printed tables have no column for design effects, and their headings say "95%".  ``where`` must not be a function,
    because a title can name a condition only if the condition is a column.
    """
    if deff:
        raise InputError("printed tables and figures have no design effects: leave deff= out, or write a csv")
    if level != 0.95:
        raise InputError("printed tables and figures have 95% intervals: leave level= out, or print tables(level=...)")
    if callable(where):
        raise InputError(
            "a printed table must say which records it is of: assign() the condition as a column, and give its name as "
            "where="
        )
