"""A release as its tables are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..publication.document import Document, Facts, document
from ..publication.quality import symbols_of
from ..publication.wording import Wording

if TYPE_CHECKING:
    from .release import Release


def printed(
    release: Release,
    table: pd.DataFrame,
    by: Sequence[str],
    *,
    symbols: str | Mapping[str, Any] | None = None,
    wording: str | Path | None = None,
) -> Document:
    """Tables of a release with their footnotes.

    Parameters
    ----------
    release : Release
    table : pandas.DataFrame
        From :meth:`Release.tables`.
    by : list of str
        Its variables.
    symbols : {"uk", "statcan"} or mapping, optional
        As :func:`surveysynth.publication.quality.symbols_of`.
    wording : str or Path, optional
        As :class:`surveysynth.publication.wording.Wording`.
    """
    said, design = release.method, release.datasets[0]
    facts = Facts(
        outcomes=release.outcomes, kept=tuple(kept_columns(release)), records=design.n, labels=design.labels,
        units=said.get("units", {}), where=table.attrs.get("where", ""),
        **{name: str(said.get(name, "")) for name in ("title", "source", "contact")},
    )  # fmt: skip
    return document(table, by, release.privacy, facts, symbols_of(symbols), Wording(wording))


def kept_columns(release: Release) -> list[str]:
    """The columns of the files that are as in the survey."""
    design = release.datasets[0]
    weight = [str(design.weights_name)] if release.method["weights"] == "public" else []
    return list(dict.fromkeys([*release.predictors, *design.fpc_names, *weight]))
