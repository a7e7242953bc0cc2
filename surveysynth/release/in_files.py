"""A release whose data sets are files: larger than memory, written and tabulated part by part."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.parts import Combinations, Found, Parts, find, levels_together, values_of
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..estimation.in_parts import Column, DataSet, PSUs, regressions, tables_in_parts
from ..estimation.quantities import check_statistics
from ..expenses import Expense
from ..models.as_json import from_json
from ..models.shared.normal_scores import PrivateScores
from ..privacy.accounting.ledger import Ledger
from ..privacy.report import PrivacyReport
from ..storage import as_path
from ..tasks import Workers
from ..validation import as_list, whole
from .folder import verified
from .manifest import fields_of, synthetic_files
from .model_variance import MOST, drawn_again, hangs_on_all, of_combinations, refusal
from .release import Release, amounts_of, preserved, synthesized, times_redrawn, written
from .suppression import flag

Floats = NDArray[np.float64]

BEYOND = {  # entries of a manifest or of its design, and what passes over files know nothing of
    "combining": "noisy tables, whose noise is in the standard errors",
    "derived": "derived columns", "count_design": "other weights for counts", "poststrata": "calibrated weights",
    "auxiliary": "calibrated weights", "fpc": "finite population corrections", "pps": "joint inclusion probabilities",
    "replicate_weights": "replicate weights",
}  # fmt: skip


class Scratch:
    """A folder that is removed with this object, or at the end of the program."""

    def __init__(self, path: Path) -> None:
        self.path = path
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


@dataclass(frozen=True, repr=False)
class ReleaseInFiles:
    """m weighted synthetic data sets in parquet files, of :func:`surveysynth.synthesize_in_parts` or ``scan_release``.

    Attributes
    ----------
    about : Release
        The same with two records of each combination of predictors and no outcomes: what is said of it.
    files, rows : tuple of Path
        Data sets, and the internal files of 64-bit numbers that say which row of the survey each record goes with, if
        they are at hand.
    combinations : Combinations
        Of the predictors.
    total : float
        What the weights of each add up to.
    folder : Scratch or None
        Where they are, until they are written to their place; it goes with this object.
    workers : Workers
        Who computes tables.
    psus : PSUs or None
        Where records are not their own sampling units.

    Examples
    --------
    With a ``release`` of :func:`surveysynth.synthesize_in_parts`:

    >>> release.tables(by="sex")  # doctest: +SKIP
    >>> release.write("release")  # doctest: +SKIP
    """

    about: Release  # its data sets have two records of each combination of predictors, for their types, and no numbers
    files: tuple[Path, ...]
    rows: tuple[Path, ...]
    combinations: Combinations
    total: float
    folder: Scratch | None
    workers: Workers
    psus: PSUs | None = None
    _tables: dict[str, pd.DataFrame] = field(default_factory=dict)  # made so far, as each takes passes over the files

    def __repr__(self) -> str:
        return repr(self.about).replace(f"{self.about.datasets[0].n:,} records", f"{self.n:,} records")

    @property
    def n(self) -> int:
        """Records of a data set."""
        return int(self.combinations.records.sum())

    @property
    def m(self) -> int:
        """Number of data sets."""
        return self.about.m

    @property
    def privacy(self) -> PrivacyReport:
        """What is guaranteed, and what is taken as given."""
        return self.about.privacy

    @property
    def method(self) -> dict[str, Any]:
        """Public facts about how it was made; by its parameters it can be the reference of a later release."""
        return self.about.method

    @property
    def rests_on(self) -> tuple[Expense, ...]:
        """As :attr:`surveysynth.Release.rests_on`."""
        return self.about.rests_on

    @property
    def rests_on_others(self) -> tuple[Expense, ...]:
        """As :attr:`surveysynth.Release.rests_on_others`."""
        return self.about.rests_on_others

    @property
    def entered_before(self) -> bool:
        """Whether it was entered in a ledger."""
        return self.about.entered_before

    def table_predictors(self) -> list[str]:
        """As :meth:`surveysynth.Release.table_predictors`.

        Returns
        -------
        list of str
            In the order of the formula.
        """
        return self.about.table_predictors()

    def manifest(self) -> dict[str, Any]:
        """As :meth:`surveysynth.Release.manifest`.

        Returns
        -------
        dict
            As ``manifest.json`` has it, but for the files.
        """
        return self.about.manifest()

    def tables(
        self,
        by: str | Sequence[str] | None = None,
        outcome: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        *,
        min_cell: int | None = None,
        cv_limit: float | None = None,
    ) -> pd.DataFrame:
        """Counts, means and totals, as :meth:`surveysynth.Release.tables`, from passes over the files.

        Parameters
        ----------
        by : str or list of str, optional
            Predictors and categories that were synthesized; default none.
        outcome : str or list of str, optional
            Default all amounts.
        statistic : {"count", "mean", "total"} or list of such, optional
            Default counts, and means of amounts.
        min_cell, cv_limit
            As for :meth:`surveysynth.Release.tables`.

        Returns
        -------
        pandas.DataFrame
            As there.

        Raises
        ------
        InputError
            Another statistic; an outcome of counts alone; columns that are no predictors or outcomes; categories as
            outcomes.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.synthesize_in_parts`:

        >>> release.tables(by=["region", "sex"], statistic="mean")  # doctest: +SKIP
        """
        names = preserved(self.about, by)
        outcomes = amounts_of(self.about) if outcome is None else synthesized(self.about, outcome)
        for name in outcomes:
            if name in self.about.categorical:
                raise InputError(f"outcome {name!r} is a category: its counts are tables by it, by={name!r}")
        usual = ["count", "mean"] if outcomes else ["count"]
        statistics = usual if statistic is None else as_list(statistic)
        check_statistics(statistics, outcome=as_list(outcome) or None)
        key = repr((names, outcomes, statistics))
        if key not in self._tables:
            self._tables[key] = self._tabulated(names, outcomes, statistics)
        made = self._tables[key]
        known = self.m > 1 or "modelled" in made.attrs  # how data sets differ
        table = flag(made, names, between=known, min_cell=min_cell, cv_limit=cv_limit, whole=True)
        if "digits" in self.method:
            table.attrs["digits"] = self.method["digits"]
        return table

    def write(
        self,
        path: str | Path,
        *,
        by: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        min_cell: int | None = None,
        cv_limit: float | None = None,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        overwrite: bool = False,
        ledger: Ledger | None = None,
    ) -> Path:
        """Write the release folder, as :meth:`surveysynth.Release.write` does; the data sets are parquet files.

        Parameters
        ----------
        path, min_cell, cv_limit, symbols, wording, overwrite, ledger
            As for :meth:`surveysynth.Release.write`.
        by, statistic
            Of the tables, as :meth:`tables`; default the discrete predictors, three at the most.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError, PrivacyError
            As there.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.synthesize_in_parts`:

        >>> release.write("release", by="region")  # doctest: +SKIP
        """
        tables = partial(self.tables, statistic=statistic, min_cell=min_cell, cv_limit=cv_limit)
        return written(
            self.about, as_path(path), tables, by, symbols=symbols, wording=wording, ledger=ledger, format="parquet",
            min_cell=min_cell, overwrite=overwrite, files=self.files, rows=self.rows, records=self.n,
        )  # fmt: skip

    def _tabulated(self, by: Sequence[str], outcomes: Sequence[str], statistics: Sequence[str]) -> pd.DataFrame:
        head, of = self.about.datasets[0], self.combinations
        data_sets = [
            DataSet(Parts.of(file), str(head.weights_name), of, head.strata_name, self.psus) for file in self.files
        ]
        noise = self._under_other_noise(data_sets[0], outcomes) if set(statistics) - {"count"} else {}
        of_model = self._of_model if set(by).isdisjoint(self.about.categorical) else ()
        return tables_in_parts(data_sets, outcomes, by, statistics, head.labels, noise, of_model, self.workers)

    @cached_property
    def _of_model(self) -> tuple[SurveyDesign, ...]:
        """Small data sets whose parameters were drawn again, as those of :class:`Release`, where there can be some."""
        of, head = self.combinations, self.about.datasets[0]
        if refusal(head, self.method) is not None:
            return ()
        if hangs_on_all(self.method, clustered=self.psus is not None, categorical=self.about.categorical):
            small = None if self.n > MOST else SurveyDesign(pd.read_parquet(self.files[0]), **head.roles())
        else:
            small = of_combinations(of.frame, of.records, self.about.outcomes, str(head.weights_name), self.total)
        try:
            return () if small is None else drawn_again(small, self.method)
        except InputError:  # what the model needs is not all in the files
            return ()

    def _under_other_noise(self, first: DataSet, outcomes: Sequence[str]) -> dict[str, list[Column]]:
        """Outcomes of the first data set as other noise in the scores would have made them: as ``Release.redrawn``."""
        said = self.about.method.get("private_scores", {})
        scores: dict[str, PrivateScores] = {outcome: from_json(text) for outcome, text in said.items()}
        others: dict[str, list[PrivateScores]] = {outcome: [] for outcome in scores}
        rng = np.random.default_rng(0)
        for _ in range(times_redrawn(self.n)):
            for outcome, own in scores.items():
                others[outcome].append(own.redrawn(rng))
        return {
            outcome: _columns(first, outcome, scores[outcome], others[outcome], self.workers)
            for outcome in outcomes if outcome in scores
        }  # fmt: skip


def scan_release(path: str | Path, *, workers: int = 1, scheduler: str | None = None) -> ReleaseInFiles:
    """A release whose data sets are parquet files, which stay where they are: tables are from passes over them.

    Every public file must be the one that the manifest lists, as for :func:`read_release`.

    Parameters
    ----------
    path : str or Path
        The release folder, or its ``public`` folder as it was published.
    workers : int
        Processes of this machine that compute tables.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers compute them instead; they read the same paths.

    Returns
    -------
    ReleaseInFiles
        Without what is internal.

    Raises
    ------
    InputError
        As :func:`read_release`; data sets in csv, or with derived columns, calibrated weights, other weights for
        counts, replicate weights or finite population corrections; more than a million PSUs, or combinations of
        predictors and categories.

    Examples
    --------
    >>> release = ss.scan_release("release/", workers=2)  # doctest: +SKIP
    >>> release.tables(by=["region", "sex"])  # doctest: +SKIP
    """
    team = Workers(whole(workers, "workers"), scheduler)
    folder, said = verified(as_path(path))
    files = tuple(folder / name for name in synthetic_files(said["m"], "parquet"))
    beyond = [name for entry, name in BEYOND.items() if said.get(entry)]
    beyond += [name for role, name in BEYOND.items() if said["design"].get(role)]
    beyond = [*dict.fromkeys(beyond), *([] if files[0].name in said["files"] else ["data sets in csv"])]
    if beyond:
        raise InputError(
            f"{str(path)!r} has {', '.join(beyond)}, which passes over files know nothing of: read_release() takes the "
            "data sets into memory"
        )
    roles, categorical = said["design"], said.get("categorical", ())
    weights, strata, stages = roles["weights"], roles.get("strata"), roles.get("psu", [])
    drawn = [strata] if strata else []
    names = tuple(dict.fromkeys([*said["public_predictors"], *drawn]))
    ordered = {name: kind["ordered"] for name, kind in said["levels"].items()}
    parts = Parts.of(files[0])
    found, sums = zip(*team.each(_look, (parts, names, weights), len(parts)), strict=True)
    combinations = Combinations.together(found, names, ordered)
    if not stages and combinations.single(strata) > 0:
        raise InputError(
            f"{str(path)!r} has strata of a single record: read_release() takes the data sets into memory, and knows "
            "what to do with these"
        )
    if categorical:
        every = [(Parts.of(file), (), tuple(categorical)) for file in files]
        levels = levels_together(here for of in every for _, here in team.each(find, of, len(of[0])))
        kinds = {name: pd.CategoricalDtype(**kind) for name, kind in said["levels"].items() if name in levels}
        combinations = combinations.with_levels(levels | {name: list(kind.categories) for name, kind in kinds.items()})
        combinations = replace(combinations, frame=combinations.frame.astype(kinds))
    columns = [*dict.fromkeys([*names, *stages, *said["synthesized"], weights])]
    head = head_of(combinations.frame, columns, roles | {"labels": said.get("labels")})
    about = Release((head,) * said["m"], **fields_of(said))
    return ReleaseInFiles(about, files, (), combinations, sum(sums), None, team, PSUs.of(parts, head, team))


def head_of(frame: pd.DataFrame, columns: Sequence[str], roles: Mapping[str, Any]) -> SurveyDesign:
    """A data set's columns, with no numbers: two records of each combination, so that no stratum has a single one."""
    twice = frame.take(np.repeat(np.arange(len(frame)), 2)).reset_index(drop=True)
    stages = roles.get("psu") or ()
    made = {name: np.arange(len(twice)) if name in stages else 1.0 for name in columns if name not in frame}
    types = twice.assign(**made)
    return SurveyDesign(types[[*columns]], **(roles if stages else {**roles, "lonely_psu": "fail"}))


def _look(of: tuple[Parts, tuple[str, ...], str], part: int) -> tuple[Found, float]:
    """The combinations of some columns in a part of a file, and the sum of its weights."""
    parts, names, weights = of
    frame, first = parts.read(part, [*names, weights]), parts.first(part)
    return Found.within(frame, names, first), float(values_of(frame, weights, first).sum())


def confidential(release: ReleaseInFiles, parts: Parts) -> DataSet:
    """The confidential file of a release, for tables; its strata and PSUs have labels of their own."""
    about, head, team = release.about, release.about.datasets[0], release.workers
    weights, categorical = str(head.weights_name), about.categorical
    names = tuple(str(name) for name in release.combinations.frame if name not in categorical)
    found, of_parts = zip(*team.each(find, (parts, names, tuple(categorical)), len(parts)), strict=True)
    combinations = Combinations.together(found, names, parts.ordered(names))
    if categorical:  # a level may be in the file and in no data set
        levels = levels_together(of_parts)
        of_both = {name: [*dict.fromkeys([*release.combinations.frame[name], *levels[name]])] for name in categorical}
        combinations = combinations.with_levels(of_both)
    return DataSet(parts, weights, combinations, head.strata_name, PSUs.of(parts, head, team))


def _columns(
    data: DataSet, outcome: str, own: PrivateScores, others: Sequence[PrivateScores], workers: Workers
) -> list[Column]:
    """An outcome moved to other scores, with least squares between them."""
    fitted = regressions(data, outcome, [partial(_both, own, other) for other in others], workers)
    return [
        Column(outcome, partial(_moved, own, other, *line)) for other, line in zip(others, fitted, strict=True)
    ]


def _both(own: PrivateScores, other: PrivateScores, y: Floats) -> tuple[Floats, Floats]:
    amounts = y[y != 0] if own.zeros else y
    return own.forward(amounts), other.forward(amounts)


def _moved(own: PrivateScores, other: PrivateScores, mean: float, there: float, slope: float, y: Floats) -> Floats:
    moved = other.inverse(there + slope * (own.forward(y) - mean))
    return np.where(y == 0, 0.0, moved) if own.zeros else moved
