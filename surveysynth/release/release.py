"""Release: m synthetic designs with their privacy report, and the folder they are published from.

release/
  public/    manifest.json, tables.csv, synthetic_1.csv, ... : what may be published, nothing else
  internal/  (mode 0700) record-level risks and weights, row order, unused draws, exact numbers
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..design.calibration import Totals
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..estimation.differences import differences
from ..estimation.regression import Family, Regression, regressions
from ..estimation.tables import stacked, tabulate
from ..privacy.report import PUBLIC_SUM, SUM_OF_WEIGHTS, PrivacyReport
from ..storage import restrict
from ..validation import as_list
from .checksums import described, verify
from .quality_rule import QUALITY_RULE
from .suppression import flag

MANIFEST = "manifest.json"
FORMATS = ("csv", "parquet")
METHOD = (
    "package", "engine", "method", "outcome", "predictors", "prior", "transform", "weights", "effects", "debias",
    "corrected", "variance_factor", "limits", "weight_bound", "mixture",
    "ledger",
)  # fmt: skip
MOST_LEVELS = 50  # a predictor with more is no variable for a table, unless it is asked for


@dataclass(frozen=True)
class Release:
    """m weighted synthetic data sets that may be published under a stated epsilon.

    Attributes
    ----------
    datasets : tuple of SurveyDesign
        Everything that works on a confidential design works on these.
    privacy : PrivacyReport
    predictors : tuple of str
        Public columns that tables can be broken down by.
    outcomes : tuple of str
        Synthesized columns.
    method : dict
        Public facts about the model, the package and the engine.
    internal : dict
        For the agency only; empty in a release that was read from its public files, pickled or copied.
        ``rows``, (m, n), says which row of the confidential file (from 0) each synthetic record stands for.
    categorical : tuple of str
        The outcomes that are categories: tables can be broken down by them, too.
    count_roles : dict, optional
        Design roles that give counts their standard errors, where they are not those of the
        data sets (FBP): the same counts, from weights that vary from record to record.
    """

    datasets: tuple[SurveyDesign, ...]
    privacy: PrivacyReport
    predictors: tuple[str, ...]
    outcomes: tuple[str, ...]
    method: dict[str, Any]
    internal: dict[str, Any] = field(default_factory=dict, repr=False)
    categorical: tuple[str, ...] = ()
    count_roles: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: the public part."""
        return vars(self) | {"internal": {}, "privacy": replace(self.privacy, internal={})}

    @property
    def m(self) -> int:
        """Number of synthetic data sets."""
        return len(self.datasets)

    def __repr__(self) -> str:
        p = self.privacy
        return (
            f"Release: m = {self.m} synthetic data sets of {self.datasets[0].n:,} records by {self.method['method']}, "
            f"outcomes {', '.join(self.outcomes)}, {p.spent}"
        )

    def tables(
        self,
        by: str | Sequence[str] | None = None,
        *,
        outcome: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        denominator: str | None = None,
        quantiles: Sequence[float] | float = 0.5,
        estimator: str = "auto",
        min_cell: int | None = None,
        cv_limit: float | None = None,
    ) -> pd.DataFrame:
        """Estimates of every cell, margin and the total, combined over the m data sets.

        Tables are made of the published data alone.

        Parameters
        ----------
        by : str or list of str, optional
            Predictors, and outcomes that are categories; no other column is in the files.
        outcome : str or list of str, optional
            Default: all outcomes that fit the statistics.
        statistic, denominator, quantiles, estimator
            As for :func:`surveysynth.estimate`; unless told counts, means of numbers and
            proportions of categories.
        min_cell : int, optional
            Cells of fewer records are suppressed, and with them the cells from which they
            could be found by subtraction; the two kinds carry one and the same flag.  This is a
            quality rule, not protection: whoever has the synthetic files can compute them.
        cv_limit : float, optional
            Flag estimates whose standard error is more than this share of the estimate.

        Returns
        -------
        pandas.DataFrame
            ``<by...>, statistic, outcome, estimate, se, df, ci_low, ci_high, n, flag``; a
            margin carries the label "all".  Standard errors by Hu, Savitsky & Williams (2022a, appendix A).  Where a
            ``by`` column is synthesized, n is the least that a domain has in any of the data sets.

        Raises
        ------
        InputError
            A ``by`` variable that is not a predictor; unknown outcomes or statistics.
        """
        names = self._preserved(by)
        parts = [
            tabulate(
                self.datasets,
                outcomes,
                names,
                statistics,
                denominator=denominator,
                quantiles=quantiles,
                estimator=estimator,
                count_designs=self.count_designs(),
                synthesized=self.categorical,
            )
            for outcomes, statistics in self._asked(outcome, statistic, names)
        ]
        table = stacked(parts)
        return flag(table, names, self.m, min_cell=min_cell, cv_limit=cv_limit)

    def differences(
        self,
        between: Mapping[str, Sequence[object]],
        by: str | Sequence[str] | None = None,
        *,
        outcome: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] = "mean",
    ) -> pd.DataFrame:
        """Differences between two categories of a predictor, combined over the m data sets.

        Parameters
        ----------
        between : mapping of one predictor to two categories
            ``{"gender": ("m", "f")}`` is men less women.
        by, outcome, statistic
            As for :meth:`tables`.

        Returns
        -------
        pandas.DataFrame
            The columns of :func:`surveysynth.difference`.

        Raises
        ------
        InputError
            As :meth:`tables` and :func:`surveysynth.difference`.
        """
        compared = self._preserved([*between]) if isinstance(between, Mapping) else []
        outcomes = self._synthesized(outcome)
        if outcome is None and "proportion" not in as_list(statistic):
            outcomes = [name for name in outcomes if name not in self.categorical]
        return differences(
            self.datasets,
            [name for name in outcomes if name not in compared],
            self._preserved(by),
            statistic,
            between=between,
            count_designs=self.count_designs(),
            synthesized=self.categorical,
        )

    def regression(self, formula: str, family: Family = "gaussian") -> Regression:
        """Linear ("gaussian") or logistic ("binomial") regression, combined over the m data sets.

        Parameters
        ----------
        formula, family
            As for :func:`surveysynth.regression`; columns of the synthetic files.

        Raises
        ------
        InputError
            As :func:`surveysynth.regression`.
        """
        return regressions(self.datasets, formula, family)

    def calibrate(self, totals: Totals) -> Release:
        """The release with weights that add up to public totals: post-stratified, or raked to several margins.

        Post-processing of the published data, as long as the totals are public.  A calibration to
        strata that the release has already (``population_total={stratum: total}``) is replaced:
        name its margin again.

        Parameters
        ----------
        totals
            As for :meth:`SurveyDesign.calibrate`; of predictors.

        Raises
        ------
        InputError
            As :meth:`SurveyDesign.calibrate`; a margin that is not a predictor.
        """
        if isinstance(totals, Mapping):
            self._preserved([name for margin in totals for name in ([margin] if isinstance(margin, str) else margin)])
        datasets, count_roles = [], None
        for design in self.datasets:
            plain = {"poststrata": None, "base_weights": None}
            calibrated = SurveyDesign(design.frame, **design.roles() | plain).calibrate(totals)
            if self.count_roles is not None:  # the other weights of the same file
                counts = SurveyDesign(calibrated.frame, **self.count_roles | plain).calibrate(totals)
                calibrated, count_roles = SurveyDesign(counts.frame, **calibrated.roles()), counts.roles()
            datasets.append(calibrated)
        margins = ", ".join(margin if isinstance(margin, str) else " x ".join(margin) for margin in totals)
        said = f"the population totals by {margins} were given by the agency as public: the weights add up to them"
        kept = [text for text in self.privacy.assumptions if text != PUBLIC_SUM]  # no longer so
        before = [text.split(": the synthetic weights add up to")[0] for text in kept]
        depends = [text for text in self.privacy.data_dependent if text != SUM_OF_WEIGHTS]
        privacy = replace(self.privacy, assumptions=[*before, said], data_dependent=depends)
        return replace(self, datasets=tuple(datasets), count_roles=count_roles, privacy=privacy)

    def _asked(
        self, outcome: str | Sequence[str] | None, statistic: str | Sequence[str] | None, by: Sequence[str]
    ) -> list[tuple[list[str], list[str]]]:
        """Outcomes and their statistics: means are of numbers, proportions of categories."""
        outcomes = self._synthesized(outcome)
        numbers = [name for name in outcomes if name not in self.categorical]
        labels = [name for name in outcomes if name in self.categorical and name not in by]
        if statistic is None:
            asked = [(numbers, ["count", "mean"] if numbers else ["count"])]
            return [*asked, (labels, ["proportion"])] if labels else asked
        if outcome is not None or not labels:
            return [(outcomes, as_list(statistic))]
        of_labels = [s for s in as_list(statistic) if s == "proportion"]
        of_numbers = [s for s in as_list(statistic) if s != "proportion"]
        return [*([(numbers, of_numbers)] if of_numbers else []), *([(labels, of_labels)] if of_labels else [])]

    def _preserved(self, by: str | Sequence[str] | None) -> list[str]:
        """The names, if all are predictors or categories that were synthesized."""
        names = as_list(by)
        for name in names:
            if name not in (*self.predictors, *self.categorical):
                raise InputError(
                    f"by={name!r} is not a predictor of this release, so it was not preserved; tables can be broken "
                    f"down by {', '.join((*self.predictors, *self.categorical)) or 'nothing'}"
                )
        return names

    def _synthesized(self, outcome: str | Sequence[str] | None) -> list[str]:
        """The outcomes asked for, or all."""
        outcomes = as_list(outcome) or list(self.outcomes)
        for name in outcomes:
            if name not in self.outcomes:
                raise InputError(f"outcome {name!r} was not synthesized; the outcomes are {', '.join(self.outcomes)}")
        return outcomes

    def count_designs(self) -> tuple[SurveyDesign, ...]:
        """The data sets as counts are estimated from them: their own design, or FBP's with its smoothed weights."""
        if self.count_roles is None:
            return self.datasets
        return tuple(SurveyDesign(design.frame, **self.count_roles) for design in self.datasets)

    def table_predictors(self) -> list[str]:
        """The predictors that tables are made by unless told: discrete ones, at most three."""
        frame = self.datasets[0].frame
        discrete = [
            c
            for c in self.predictors
            if not pd.api.types.is_float_dtype(frame[c].dtype) and frame[c].nunique() <= MOST_LEVELS
        ]
        return discrete[:3]

    def manifest(self) -> dict[str, Any]:
        """What a reader needs to know about the files, without anything confidential and without a seed."""
        design = self.datasets[0]
        return {
            **self.method,
            "synthesized": list(self.outcomes),
            **({"categorical": list(self.categorical)} if self.categorical else {}),
            "public_predictors": list(self.predictors),
            **self.privacy.public(),
            "design": _without_none(design.roles()),
            **({"count_design": _without_none(self.count_roles)} if self.count_roles else {}),
            "dtypes": {str(c): str(t) for c, t in design.frame.dtypes.items()},
            "levels": {
                c: _levels(design.frame[c], all_of_them=c in self.categorical)
                for c in (*self.predictors, *self.categorical)
                if _is_categorical(design.frame[c])
            },
        }

    def write(
        self,
        path: str | Path,
        *,
        by: str | Sequence[str] | None = None,
        format: str = "csv",
        min_cell: int | None = None,
        cv_limit: float | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the release folder: ``public/`` to publish, ``internal/`` to keep (mode 0700, files 0600).

        The folder appears whole or not at all: it is written beside its place and moved there.  The
        manifest lists the other public files with their records, columns and SHA-256, by which
        :func:`read_release` verifies them.

        Parameters
        ----------
        path : str or Path
        by : str or list of str, optional
            Variables of ``public/tables.csv``; default :meth:`table_predictors`.
        format : {"csv", "parquet"}
            Of the synthetic files.
        min_cell, cv_limit
            As for :meth:`tables`.  ``min_cell`` is a quality rule, not protection: whoever has the
            synthetic files can compute the suppressed cells.  The report says so, too.
        overwrite : bool
            Replace a release that is there; nothing else is ever replaced.

        Raises
        ------
        InputError
            The folder exists, or the arguments do not suit the release.
        """
        path = Path(path)
        if format not in FORMATS:
            raise InputError(f"format={format!r} is not one of {', '.join(FORMATS)}")
        check_place(path, overwrite=overwrite)
        if not self.internal and (path / "internal").is_dir():
            raise InputError(f"{str(path)!r} has an internal/ that would be lost: this release is its public part only")
        table = self.tables(by=self.table_predictors() if by is None else by, min_cell=min_cell, cv_limit=cv_limit)
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))  # mode 0700 until it is whole
        try:
            self._write_public(staging / "public", table, format, min_cell)
            self._write_internal(staging / "internal")
            restrict(staging / "internal")
            staging.chmod(0o755)
            _move_into_place(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return path

    def _write_public(self, folder: Path, table: pd.DataFrame, format: str, min_cell: int | None) -> None:
        folder.mkdir()
        for number, design in enumerate(self.datasets, 1):
            file = folder / f"synthetic_{number}.{format}"
            if format == "csv":
                design.frame.to_csv(file, index=False)
            else:
                design.frame.to_parquet(file, index=False)
        table.to_csv(folder / "tables.csv", index=False)
        heading = self._heading(format, min_cell)
        (folder / "report.txt").write_text(f"{heading}\n\n{self.privacy}\n", encoding="utf-8")
        files = {file.name: described(file) for file in sorted(folder.iterdir())}
        manifest = json.dumps(self.manifest() | {"files": files}, indent=2, ensure_ascii=False)
        (folder / MANIFEST).write_text(f"{manifest}\n", encoding="utf-8")

    def _heading(self, format: str, min_cell: int | None) -> str:
        """What the files are and how to use them, for a reader who has nothing else."""
        design = self.datasets[0]
        synthetic_weights = self.method["weights"] != "public"
        suppressed = f" There, cells of fewer than {min_cell} records are blank, and cells that would give them away."
        kept = [*self.predictors, *design.fpc_names, *([] if synthetic_weights else [str(design.weights_name)])]
        return (
            f"{self.m} synthetic data sets (synthetic_1.{format}, ...) of {design.n:,} records by "
            f"{self.method['method']}, surveysynth {self.method['package']['surveysynth']}. "
            f"Synthesized: {', '.join(self.outcomes)}"
            + (f" and the survey weight {design.weights_name!r}" if synthetic_weights else "")
            + (" (equal for all)" if self.method["weights"] == "equal" else "")
            + f". As in the survey: {', '.join(dict.fromkeys(kept)) or 'nothing'}.\n"
            "Estimate every file as a survey of its own. The estimate is the mean of the m estimates; its variance is "
            "T = mean(u) + b / m, with u the variance within a file and b the variance between the files' estimates "
            "(partial synthesis; Rubin's rule for missing data does not apply). tables.csv holds such estimates."
            + (f"{suppressed} {QUALITY_RULE}" if min_cell is not None else "")
            + self._heading_of_counts()
        )

    def _heading_of_counts(self) -> str:
        if self.count_roles is None:
            return ""
        strata = f"with strata {self.count_roles['strata']!r}" if self.count_roles.get("strata") else "without strata"
        return (
            f"\nCounts of population units: the same from {self.datasets[0].weights_name!r} and from "
            f"{self.count_roles['weights']!r}; their standard errors come from the latter, {strata}. For everything "
            f"else use {self.datasets[0].weights_name!r}."
        )

    def _write_internal(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "privacy.json").write_text(json.dumps(self.privacy.internal, indent=2) + "\n")
        if "records" in self.internal:
            self.internal["records"].to_csv(folder / "records.csv")
        if "rows" in self.internal:
            names = [f"synthetic_{number}" for number in range(1, self.m + 1)]
            pd.DataFrame(self.internal["rows"].T, columns=names).to_csv(folder / "rows.csv", index=False)
        if "draws" in self.internal:
            np.savez_compressed(folder / "unused_draws.npz", **self.internal["draws"])


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a place where a release cannot be written, or would replace something else.

    Raises
    ------
    InputError
    """
    if path.exists() and not (overwrite and (path / "public" / MANIFEST).is_file()):
        raise InputError(
            f"{str(path)!r} exists"
            + (" and is not a release folder" if overwrite else "; choose another place, or overwrite=True")
        )
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise InputError(f"{str(path)!r} cannot be made: {str(above)!r} is not a folder that you may write to")


def read_release(path: str | Path) -> Release:
    """Read a release back from its public files; ``internal`` stays where it is.

    Every public file must be, byte by byte, the one that the manifest lists.  This finds files that were
    damaged, cut short or saved by another program, not who forges files and manifest together.

    Parameters
    ----------
    path : str or Path
        The release folder, or its ``public`` folder as it was published.

    Raises
    ------
    InputError
        The folder is not a release; files are missing, or are not those that were published (the
        message says which, and whether records, columns or content differ).
    """
    folder = Path(path)
    folder = folder / "public" if (folder / "public").is_dir() else folder
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{str(path)!r} is not a release: it has no public/{MANIFEST}")
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if "files" not in said:
            raise InputError(
                f"the release in {str(folder)!r} cannot be verified: its {MANIFEST} does not list the public files, as "
                "that of an older version; write the release again"
            )
        verify(folder, said["files"])
        return _read_public(folder, said)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the release in {str(folder)!r} cannot be read ({type(error).__name__}): its {MANIFEST} is damaged or "
            "does not go with its files"
        ) from None


def _read_public(folder: Path, said: dict[str, Any]) -> Release:
    datasets = []
    for number in range(1, said["m"] + 1):
        names = (f"synthetic_{number}.{format}" for format in FORMATS)
        published = [folder / name for name in names if name in said["files"]]
        if not published:
            raise InputError(f"{str(folder)!r} lacks synthetic data set {number} of {said['m']}")
        datasets.append(SurveyDesign(_read_synthetic(published[0], said["dtypes"], said["levels"]), **said["design"]))
    privacy = PrivacyReport(
        kind=said["kind"],
        epsilon=math.inf if said["epsilon"] is None else said["epsilon"],
        epsilon_requested=said["epsilon_requested"],
        m=said["m"],
        draws=said["draws_behind_the_maximum"],
        verdict=said["diagnostics"],
        assumptions=said["assumptions"],
        data_dependent=said["data_dependent"],
        publishable=not said["publication"].startswith("reproducible"),
        little_left=said.get("little_left", False),
        unit=said.get("unit"),
        mechanism=said.get("mechanism", "pseudo posterior"),
    )
    method: dict[str, Any] = {k: said[k] for k in METHOD if k in said}
    return Release(
        tuple(datasets), privacy, tuple(said["public_predictors"]), tuple(said["synthesized"]), method,
        categorical=tuple(said.get("categorical", ())), count_roles=said.get("count_design"),
    )  # fmt: skip


def _read_synthetic(file: Path, dtypes: dict[str, str], levels: dict[str, Any]) -> pd.DataFrame:
    """A synthetic file with its columns' types: text stays text, even where it looks like a number."""
    text = {c: "str" for c, t in dtypes.items() if t in ("str", "string", "object", "category")}
    empty = {c: [""] for c in dtypes if c not in text}
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file)
    else:
        frame = pd.read_csv(file, dtype=text, keep_default_na=False, na_values=empty)
    for column, kind in levels.items():
        categories = {str(level): level for level in kind["categories"]}
        values = frame[column].astype(str).map(categories)
        frame[column] = pd.Categorical(values, list(categories.values()), ordered=kind["ordered"])
    return frame


def _without_none(roles: dict[str, Any]) -> dict[str, Any]:
    return {role: name for role, name in roles.items() if name is not None}


def _is_categorical(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _levels(column: pd.Series, *, all_of_them: bool) -> dict[str, Any]:
    """Categories in order; of a predictor, one that no record has stays unknown to the public."""
    used = column.cat if all_of_them else column.cat.remove_unused_categories().cat
    return {"categories": used.categories.tolist(), "ordered": bool(used.ordered)}


def _move_into_place(staging: Path, path: Path) -> None:
    """Rename; where a release is there, exchange the two in one step (renameat2): one of them is always whole."""
    if not path.exists():
        os.rename(staging, path)
        return
    at_fdcwd, exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 and renameat2(at_fdcwd, os.fsencode(staging), at_fdcwd, os.fsencode(path), exchange) == 0:
        return  # the old release is now in staging, which the caller removes
    backup = path.with_name(f".{path.name}.replaced")  # no exchange here: two renames, the old one kept until then
    os.rename(path, backup)
    try:
        os.rename(staging, path)
    except OSError:
        os.rename(backup, path)
        raise
    shutil.rmtree(backup)
