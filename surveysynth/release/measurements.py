"""Measurements of a confidential file: noisy tables, from which any number of releases can be drawn.

measurements/
  public/    measurements.json (the noisy tables), columns.csv (the public columns), manifest.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..design.survey_design import SurveyDesign
from ..errors import InputError, PrivacyError
from ..expenses import Expense
from ..privacy.accounting.ledger import Ledger
from ..privacy.accounting.ledger_file import Entry
from ..storage import as_path, kept_folder, sealed, unsealed, whole_folder
from .charging import NO_ENTRY, PUBLIC, charge, how_to_publish
from .checksums import described, verify
from .folder import MANIFEST, MEASUREMENTS, read_columns
from .manifest import public_folder, types_of
from .release import Release
from .source import Source

COLUMNS, FORMAT = "columns.csv", "surveysynth measurements 1"
CLASSES_IN_R = "classes_in_r"


@dataclass(frozen=True, eq=False, repr=False)
class Measurements:
    """Noisy tables of a confidential file, from which any number of releases can be drawn without more epsilon.

    :func:`surveysynth.measure` makes measurements.  ``Measurements(release.measured)`` has the tables of a release.

    Attributes
    ----------
    source : Source
        The noisy tables with the public columns of the file, and facts for the privacy report.
    classes_in_r : mapping of outcome to text
        Classes of outcomes in R that pandas does not have, such as ``{"born": "Date"}``.  R gives the outcomes these
        classes when it reads a release.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> measured = ss.measure(design, "salary ~ gender", epsilon=5, population_total=100_000, bounds=(0, 1_000_000))
    >>> measured
    Measurements: 10 noisy tables of salary and survey weight by gender, strata (field), 1,000 records, epsilon = 5
    >>> release = measured.release(m=4)
    >>> release.more(4).m
    8
    """

    source: Source
    classes_in_r: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        tables = self.source.tables
        what = " and ".join(variable.name for variable in tables.variables)
        by = f" by {', '.join(tables.terms)}" if tables.terms else ""
        return (
            f"Measurements: {len(tables.tables)} noisy tables of {what}{by}, {tables.n:,} records, "
            f"epsilon = {self.source.epsilon:g}" + ("" if tables.delta is None else f", delta = {tables.delta:g}")
        )

    def table(self) -> pd.DataFrame:
        """Return all noisy counts and sums as one frame, one number in each row.

        Returns
        -------
        pandas.DataFrame
            ``variable, by, level, kind, cell, count, noise_sd``.  ``variable`` is the outcome or the survey weight.
            ``by`` names the columns or the earlier outcome by which it is cross-classified ("" if by none), and
            ``level`` one of their categories ("all" if by none).  ``cell`` is a category, or an interval of amounts.
            ``count`` has noisy counts, which can be negative, for the ``kind`` "counts".  For "scores" it has sums of
            scores (a score is a bounded linear function of a record's amount), and counts of special values.  For
            "products" it has sums of products of the scores of weight and outcome.  ``noise_sd`` is the standard
            deviation of the noise.
        """
        parts, tables = [], self.source.tables
        for variable, variable_entry in zip(tables.variables, tables.as_json()["variables"], strict=True):
            for table, entry in zip(variable.tables, variable_entry["tables"], strict=True):
                L, J = table.counts.shape
                parts.append(pd.DataFrame({
                    "variable": variable.name, "by": table.by or table.earlier or "",
                    "level": np.repeat(entry["rows"], J), "kind": table.kind,
                    "cell": entry["columns"] * L, "count": table.sums.ravel(), "noise_sd": table.variance**0.5,
                }))  # fmt: skip
        return pd.concat(parts, ignore_index=True)

    def release(self, m: int = 20, *, seed: int | None = None) -> Release:
        """Draw a release of m data sets, from the noisy tables and the public columns only.

        The model's parameters are drawn given the noisy tables, and differ between draws because of the noise (Räisä et
        al. 2023).  They do not differ because of sampling: the rule that combines the data sets adds the sampling
        variance, which is the mean of the design-based variances in the data sets (Reiter & Kinney 2012).

        Parameters
        ----------
        m : int
            Number of data sets, even and at least 4.  Two data sets come from each draw of the model's parameters.
        seed : int, optional
            Seed of the draws, so that the data sets can be reproduced.  It reveals nothing about the file, because the
            data sets are drawn from noisy tables, and the noise does not depend on this seed.

        Returns
        -------
        Release
            The release.  Its epsilon is the epsilon of the measurements, for any m.  It is spent only once for all
            releases from these measurements.

        Raises
        ------
        InputError
            m is odd, below 4 or too large; the seed is not a whole number.
        """
        return with_classes_in_r(Release.drawn_from(self.source, m, seed), self.classes_in_r)

    def write(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the measurements as a folder, from which :func:`surveysynth.read_measurements` reads them back.

        Parameters
        ----------
        path : str or Path
            The folder to make.
        overwrite : bool
            True to replace a folder of measurements at ``path``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            ``path`` exists (and is not a folder of measurements to overwrite), or cannot be written.
        """
        place = as_path(path)
        there = place / "public" / MANIFEST
        if place.exists() and not (overwrite and there.is_file() and is_measured(there)):
            raise InputError(f"{str(place)!r} exists; choose another place, or overwrite=True for other measurements")
        try:
            with whole_folder(place, mode=PUBLIC, replace=overwrite) as staging:
                _write(self.source, staging, self.classes_in_r)
        except OSError as error:
            raise InputError(f"the measurements were not written ({error.strerror or error})") from None
        return place


def entered(source: Source, ledger: Ledger) -> Source:
    """Charge a ledger for measurements, and return the measurements with the reference of the ledger entry.

    The measurements are written next to the ledger before the ledger is charged.  They stay there until a release from
    the measurements is written.  If the run ends earlier, :func:`surveysynth.resume` publishes the measurements as a
    folder, and nothing more is spent.

    Raises
    ------
    InputError
        The measurements cannot be written next to the ledger.  Nothing was charged.
    PrivacyError
        The cap would be exceeded, or the ledger cannot be written: nothing was charged, and the measurements must not
        be used.  The error is also raised if the ledger was charged, but a later step on the disk failed.
    """
    entries: list[Entry] = []
    delta = source.tables.delta
    variables = ", ".join(variable.name for variable in source.tables.variables)
    what = "measurements" + ("" if delta is None else f", delta = {delta:.3g}") + f": {variables}"
    spent = {
        "blank": source.epsilon, "replace": source.replaced, "kind": "strict", "what": what,
        "rests_on": (source.expense,),
    }  # fmt: skip
    last = partial(charge, spent=spent, ledger=ledger, entered=entries)
    staging = None
    try:
        with kept_folder(ledger.path.absolute(), last) as staging:
            (staging / "internal").mkdir(mode=0o700)  # charge() first writes unfinished.json here
            _write(replace(source, ledger=NO_ENTRY), staging)
    except OSError as error:
        why = f"{str(error.filename or ledger.path)!r}: {error.strerror or error}"
        if not entries:
            raise InputError(f"the measurements cannot be kept ({why}); no ledger was charged") from None
        raise PrivacyError(
            f"the measurements were charged as entry {entries[0].number}, and are kept in {str(staging)!r} "
            f"({why}): {how_to_publish(ledger, entries[0])} publishes them, and nothing more is spent"
        ) from None
    return replace(source, ledger=entries[0].reference, kept=staging)


def with_classes_in_r(release: Release, classes: Mapping[str, str]) -> Release:
    """Return a release whose manifest has the classes of outcomes in R, such as "Date", for readers in R."""
    return replace(release, method=release.method | {CLASSES_IN_R: dict(classes)}) if classes else release


def _write(source: Source, folder: Path, classes: Mapping[str, str] | None = None) -> None:
    public = folder / "public"
    public.mkdir()
    (public / MEASUREMENTS).write_text(json.dumps(source.published(), indent=1) + "\n", encoding="utf-8")
    source.public.frame.to_csv(public / COLUMNS, index=False)
    manifest = {
        "format": FORMAT,
        "predictors": list(source.predictors),
        "design": {role: name for role, name in source.public.roles().items() if name is not None},
        "labels": dict(source.labels),
        **types_of(source.public.frame),
        **({} if source.ledger is None else {"ledger": dict(source.ledger)}),
        **({CLASSES_IN_R: dict(classes)} if classes else {}),
        "files": {name: described(public / name) for name in (COLUMNS, MEASUREMENTS)},
    }
    (public / MANIFEST).write_text(sealed(manifest), encoding="utf-8")


def read_measurements(path: str | Path) -> Measurements:
    """Read measurements back from the folder that :meth:`Measurements.write` wrote.

    Parameters
    ----------
    path : str or Path
        The folder, or its ``public`` part.

    Returns
    -------
    Measurements
        The measurements that were written.

    Raises
    ------
    InputError
        The folder does not contain measurements; files are missing, or differ from those that were written.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> measured = ss.measure(design, "salary ~ gender", epsilon=5, population_total=100_000, bounds=(0, 1_000_000))
    >>> ss.read_measurements(measured.write("measured"))
    Measurements: 10 noisy tables of salary and survey weight by gender, strata (field), 1,000 records, epsilon = 5
    """
    place = as_path(path)
    folder = public_folder(place)
    if not (folder / MANIFEST).is_file() or not is_measured(folder / MANIFEST):
        raise InputError(f"{str(place)!r} holds no measurements: it has no public/{MANIFEST} of such")
    manifest = json.loads(unsealed(folder / MANIFEST))
    verify(folder, manifest["files"])
    frame = read_columns(folder / COLUMNS, manifest["dtypes"], manifest["levels"])
    public = SurveyDesign(frame, **manifest["design"])
    published = json.loads((folder / MEASUREMENTS).read_text(encoding="utf-8"))
    read = Source.from_public(published, public, tuple(manifest["predictors"]), Expense(**published["expense"]))
    source = replace(read, labels=manifest["labels"], ledger=manifest.get("ledger"))
    return Measurements(source, manifest.get(CLASSES_IN_R, {}))


def is_measured(manifest: Path) -> bool:
    """Return True if a manifest belongs to measurements, and not to a release."""
    return bool(json.loads(unsealed(manifest)).get("format") == FORMAT)
