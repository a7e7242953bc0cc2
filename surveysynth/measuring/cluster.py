"""Counting of the records of a survey by the workers of a Dask cluster.

The survey is stored in several files, and each file is one part of the survey.  A worker reads the outcomes of a file
and returns only counts, and the groups of records that are drawn into pairs.  The public columns and the weights of the
file come from the design.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..design.scan import Scan
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..tasks import client_of
from .bins import Cells, Codes
from .counting import Count, Counter, Part
from .noisy_tables import WEIGHT, Counts
from .terms import Term


@contextmanager
def counting(
    design: SurveyDesign, public: Collection[str], terms: Sequence[Term], parts: Codes | int, asked: Collection[str],
    blank: int | None, scheduler: str | None,
) -> Iterator[Counter]:  # fmt: skip
    """Provide a :class:`Counter` of the records of a design, as a context manager.

    The records are counted in this process, or by the workers of a cluster.

    Parameters
    ----------
    design : SurveyDesign
    public : set of str
        Public columns in the conditions under which questions are asked.
    terms : list of Term
        Terms by whose levels records are counted.
    parts : int or int array (n,)
        Contribution of each record to a count (:mod:`.protected_units`).
    asked : set of str
        Outcomes whose answers decide whether a later question is asked.
    blank : int, optional
        Position of a record that is not counted, for audits.
    scheduler : str, optional
        Address of a Dask cluster.  By default the records are counted in this process.

    Raises
    ------
    InputError
        ``scheduler`` is given, but no cluster answers at this address, or the design has no files that workers could
        read.
    """
    if blank is not None:
        parts = np.where(np.arange(design.n) == blank, 0, parts)
    levels = {term.name: term.level for term in terms}
    frame = design.select(sorted(public))
    weights = pd.Series(np.asarray(design.weights, dtype=np.float64))
    if scheduler is None:
        yield Part(lambda name: weights if name == WEIGHT else design.column(name), frame, levels, parts, asked)
        return
    if not design.files:
        raise InputError(
            "scheduler= is for designs of files, whose records all have a weight: SurveyDesign.scan('census/', ...)"
        )
    with client_of(scheduler) as client:
        yield Cluster(client, design.files, frame, weights, levels, parts, asked)


class Cluster:
    """Counter of confidential records that lets the workers of a Dask cluster count the files of a survey design."""

    def __init__(
        self, client: Any, files: Sequence[Path], frame: pd.DataFrame, weights: pd.Series, levels: dict[str, Codes],
        parts: Codes | int, asked: Collection[str],
    ) -> None:  # fmt: skip
        self.client, self.files = client, files
        ends = np.cumsum([Scan(file).n for file in files])
        self.firsts = [0, *ends[:-1].tolist()]
        narrow = {name: level.astype(np.min_scalar_type(int(level.max()))) for name, level in levels.items()}
        self.parts = [
            client.submit(
                _part, str(file.absolute()), frame.iloc[first:end], weights.iloc[first:end],
                {name: level[first:end] for name, level in narrow.items()},
                parts if isinstance(parts, int) else parts[first:end], asked, pure=False,
            ) for file, first, end in zip(files, self.firsts, ends, strict=True)
        ]  # fmt: skip

    def add(self, name: str, cells: Cells) -> None:
        """Let the workers find the cell (bin or special value) of each record for one more variable.

        Raise InputError, with the name of the file, if a column contradicts the schema or a worker fails.
        """
        self.parts = [self.client.submit(_added, part, name, cells, pure=False) for part in self.parts]
        for part, file in zip(self.parts, self.files, strict=True):
            error = part.exception()
            if isinstance(error, InputError):
                raise InputError(f"{file.name}: {error}")
            if error is not None:
                raise InputError(f"{file.name}: a worker of the cluster failed ({type(error).__name__})")

    def count(self, what: Count) -> Counts:
        """Return the counts of a requested table, added up over all files."""
        counts = self.client.gather([self.client.submit(_counts, part, what, pure=False) for part in self.parts])
        return np.sum(counts, axis=0, dtype=np.int64)

    def groups_of(self, name: str, groups: Codes, records: Codes) -> Codes:
        """Return, for each record at the positions ``records``, the group to which the record's value belongs."""
        part_of = np.searchsorted(self.firsts, records, side="right") - 1
        asked = [np.flatnonzero(part_of == k) for k in range(len(self.parts))]
        found = self.client.gather([
            self.client.submit(_groups, part, name, groups, records[at] - first, pure=False)
            for part, at, first in zip(self.parts, asked, self.firsts, strict=True)
        ])  # fmt: skip
        out = np.empty(len(records), dtype=np.intp)
        for at, own in zip(asked, found, strict=True):
            out[at] = own
        return out


def _part(
    file: str, frame: pd.DataFrame, weights: pd.Series, levels: dict[str, Codes], parts: Codes | int,
    asked: Collection[str],
) -> Part:  # fmt: skip
    return Part(partial(_column, file, weights.reset_index(drop=True)), frame, levels, parts, asked)


def _column(file: str, weights: pd.Series, name: str) -> pd.Series:
    return weights if name == WEIGHT else Scan(file).frame([name])[name]


def _added(part: Part, name: str, cells: Cells) -> Part:
    """Return a copy of a file's counter with one more variable.

    A task of a Dask cluster must not change its arguments.
    """
    made = copy(part)
    made.codes = dict(part.codes)
    made.add(name, cells)
    return made


def _counts(part: Part, what: Count) -> Counts:
    return part.count(what)


def _groups(part: Part, name: str, groups: Codes, records: Codes) -> Codes:
    return part.groups_of(name, groups, records).astype(np.min_scalar_type(int(groups.max())))
