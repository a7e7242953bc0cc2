"""Comparison of a release with the confidential file, which the agency reads before publication.  Internal."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, norm, rankdata

from ..design.discrete import is_label
from ..design.recode import as_text
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..estimation import estimate
from ..estimation.intervals import overlap
from ..estimation.quantities import fitting
from ..estimation.tables import QUANTITY, TOTAL
from ..publication.names import percentile, quantity
from ..storage import private_folder
from ..validation import as_list
from .labels import labelled
from .release import Release
from .source import PAIR, evenly
from .suppression import MODELLED

Floats = NDArray[np.float64]

LEVEL = 0.95  # confidence level of the intervals
RARE = 0.01  # largest probability that there are more misses than ``most``
ROUNDING = 1e-9  # rounding error, as a share of an estimate
POINTS = 400  # number of points of a curve
CLASSES = 10  # on each side of a joint distribution
SMALL = 0.02  # differences of distribution functions and of associations up to this size are not reported
POOR = 10  # ratios of pMSE up to this number are satisfactory (Raab, Nowok & Dibben 2021)
FARTHEST = 3  # number of missed cells that a finding names
LARGEST_SAMPLE = 100_000  # of records for distributions; the sampling error of a distance is then .005
NOTICE = (
    "NOT FOR PUBLICATION. These files are computed from the confidential file: they compare it with a release, cell by "
    "cell."
)
SMOOTHED = (
    "the weights of this release are smoothed: they are narrower than the file's by design, which the distribution and "
    "the pMSE of the weight show"
)
DISTANCE = "Distances (off by) are release minus file, in standard errors of the release."
INSIDE = "Internal: computed from the confidential file."
PROPER = (
    "1 is what a synthesizer gives that knows the file's own parameters; draws of the parameters raise it to about 2, "
    "clusters and protection further"
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of a release with its confidential file.  Internal.

    Attributes
    ----------
    by : tuple of str
        The variables that define the cells.
    cells : pandas.DataFrame
        One row for each combination of cell, statistic and outcome.  ``estimate`` and ``se`` are from the file;
        ``estimate_release``, ``se_release`` and the 95% interval from ``ci_low`` to ``ci_high`` are from the release.
        ``std_diff`` is ``(estimate_release - estimate) / se_release``, and ``se_ratio`` is ``se_release / se``.
        ``overlap`` says how far the intervals of file and release overlap (Karr et al. 2006).  ``holds`` says whether
        the interval of the release contains the estimate from the file.  It is missing for a cell without an interval
        and for a number that the design fixes, such as a public total.  ``modelled`` is True if the estimate of the
        release comes from the model alone, because no noisy table has all variables of the cell.
    summary : pandas.DataFrame
        One row for each statistic and outcome.  ``cells`` counts the cells in which ``holds`` is not missing, and
        ``misses`` those in which it is false.  ``by_chance`` is the expected number of misses, 5% of ``cells``.  If
        cells were independent, there would be more than ``most`` misses with a probability below 1%.  ``std_diff``
        (absolute), ``overlap`` and ``se_ratio`` are medians over the cells.
    distributions : pandas.DataFrame
        One row for each numeric outcome, and one for the weight if it is synthesized.  ``largest`` and ``mean_square``
        are distances between the weighted empirical distribution functions of the file and of the release (Woo et al.
        2009, section 2.3): the largest difference, and the mean squared difference.  ``between`` is the mean, over all
        pairs of data sets of the release, of the largest difference between the two functions of a pair.
    curves : pandas.DataFrame
        The weighted empirical distribution functions: ``outcome, value, file, release``.
    pmse : pandas.DataFrame
        One row for each outcome, one for the weight if it is synthesized, and, if these are several, one for ``all
        together``.  ``pmse`` is the propensity score mean squared error, ``expected`` its value under a synthesizer
        that knows the parameters, and ``ratio`` is ``pmse / expected`` (Snoke et al. 2018, section 3.1).
    joint : pandas.DataFrame
        One row for each pair of outcomes, and for each pair of an outcome and the weight (if synthesized) or a
        predictor.  ``measure`` names the measure of association.  ``file`` and ``release`` have its values.  ``se`` is
        the standard error of the value in the release that is due to synthesis, from the variance between data sets.
    grids : dict of (str, str) to (array, array)
        Two arrays (10, 10) for each pair of numeric columns: the joint distribution, in shares of the weights, in the
        file and in the release.  The classes of a column are separated by its deciles in the file.
    incomplete : int
        Number of records of the file with a positive weight in which an outcome is missing.  Counts include these
        records.  Other statistics of an outcome leave out the records in which this outcome is missing.  Everything
        except ``cells`` and ``summary`` leaves out all incomplete records.
    smoothed : bool
        True if each weight of the release is smoothed: the expected weight, given the synthetic outcome.
    sampled : int
        Size of the random sample of records, from a larger file and from each data set, from which everything except
        ``cells`` and ``summary`` is computed.  It is 0 if all records were used.

    Examples
    --------
    With ``design`` and a ``release`` made from it:

    >>> comparison = ss.compare(design, release, by="gender")
    >>> comparison.summary[["statistic", "cells"]]
      statistic  cells
    0     count      2
    1      mean      3
    """

    by: tuple[str, ...]
    cells: pd.DataFrame
    summary: pd.DataFrame
    distributions: pd.DataFrame
    curves: pd.DataFrame
    pmse: pd.DataFrame
    joint: pd.DataFrame
    grids: dict[tuple[str, str], tuple[Floats, Floats]]
    incomplete: int
    smoothed: bool = False
    sampled: int = 0

    def write(self, folder: str | Path) -> Path:
        """Write every table and figure to a new private folder (mode 0700, files 0600).

        Parameters
        ----------
        folder : str or Path
            A folder that does not exist.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder exists.
        """
        with private_folder(folder, NOTICE) as staging:
            self.write_into(staging)
        return Path(folder)

    def write_into(self, folder: Path) -> None:
        """Write every table and figure to an existing private folder.

        Parameters
        ----------
        folder : Path
            An existing folder that only the agency can read.
        """
        from ..publication.figures.comparison import distribution_curves, estimate_differences, joint_grids

        for name in ("cells", "summary", "distributions", "curves", "pmse", "joint"):
            getattr(self, name).to_csv(folder / f"{name}.csv", index=False)
        estimate_differences(self.cells, folder / "estimates.svg")
        if len(self.curves):
            distribution_curves(self.curves, folder / "distributions.svg")
        if self.grids:
            joint_grids(self.grids, folder / "joint.svg")

    @property
    def findings(self) -> list[str]:
        """Differences between release and file that are larger than noise explains, each as a sentence.

        A statistic is reported if more than ``most`` of its intervals miss the estimate of the file.  It is also
        reported if a missed cell is so far off that, by chance, any of as many independent cells would be as far off
        with a probability below 1%.  A distribution is reported if its largest distance is above ``between`` and above
        0.02, and an association if it differs by more than two standard errors and by more than 0.02.  A pMSE is
        reported if it is more than 10 times the expected one (Raab, Nowok & Dibben 2021).
        """
        found = [self._finding(row) for row in self.summary.to_dict("records")]
        for row in self.distributions.to_dict("records"):
            if row["largest"] > np.fmax(row["between"], SMALL):
                own = "" if np.isnan(row["between"]) else f", two data sets of the release by {row['between']:.3f}"
                found.append(f"distribution of {row['outcome']}: file and release differ by {row['largest']:.3f}{own}")
        for row in self.joint.to_dict("records"):
            if abs(row["release"] - row["file"]) > np.fmax(2 * row["se"], SMALL):
                found.append(
                    f"{row['first']} and {row['second']}: {row['measure']} {row['release']:.3f} in the release, "
                    f"{row['file']:.3f} in the file"
                )
        for row in self.pmse.to_dict("records"):
            if row["ratio"] > POOR:
                found.append(f"{row['outcome']}: pMSE {row['ratio']:.0f} times the expected one")
        return [text for text in found if text]

    @property
    def distances_stand_out(self) -> bool:
        """True if :attr:`findings` state by how many standard errors of the release a cell differs from the file."""
        return any(self._far(row)["std_diff"].notna().any() for row in self.summary.to_dict("records"))

    def _finding(self, row: Mapping[Hashable, Any]) -> str:
        """Return a sentence if cells of a statistic differ from the file by more than chance, else an empty text."""
        cells = ", ".join(self._off(self._far(row)))
        if row["misses"] > row["most"]:
            return (
                f"{quantity(row)}: {row['misses']} of {row['cells']} intervals miss the estimate of the file, chance "
                f"allows {row['most']}; farthest: {cells}"
            )
        return f"{quantity(row)}, farther than chance allows: {cells}" if cells else ""

    def _far(self, row: Mapping[Hashable, Any]) -> pd.DataFrame:
        """Return at most three cells of a statistic: those whose intervals miss the file's estimate, farthest first.

        If there are no more misses than chance allows, only cells that are too far off are reported.
        """
        missed = _missed(self._cells_of(row)).sort_values("std_diff", key=abs, ascending=False)
        if row["misses"] <= row["most"]:
            missed = missed[missed["std_diff"].abs() > norm.isf(RARE / (2 * max(row["cells"], 1)))]
        return missed[:FARTHEST]

    def _off(self, cells: pd.DataFrame) -> list[str]:
        """Return a text for each cell: its name and, if known, its standardized difference from the file."""
        distances = ("" if np.isnan(each) else f" by {each:+.1f}" for each in cells["std_diff"])
        return [f"{cell} off{by}" for cell, by in zip(named(cells, self.by), distances, strict=True)]

    def _cells_of(self, row: Mapping[Hashable, Any]) -> pd.DataFrame:
        """Return the cells of one statistic of one outcome, which are given by a row of ``summary``."""
        return self.cells[(self.cells["statistic"] == row["statistic"]) & (self.cells["outcome"] == row["outcome"])]

    def __str__(self) -> str:
        found = self.findings
        lines = ["What stands out:", *(f"  - {text}" for text in found)] if found else ["Nothing stands out."]
        lines += [line for row in self.summary.to_dict("records") for line in self._lines(row)]
        for row in self.distributions.to_dict("records"):
            between = "" if np.isnan(row["between"]) else f" (two data sets of the release: {row['between']:.3f})"
            lines.append(
                f"distribution of {row['outcome']}: file and release differ by at most {row['largest']:.3f}{between}"
            )
        lines += [DISTANCE] if _missed(self.cells)["std_diff"].notna().any() else []
        together = self.pmse.iloc[-1]
        lines.append(f"pMSE {together['ratio']:.2f} times the expected one of all together: {PROPER}")
        if self.sampled:
            lines.append(f"distributions, associations and the pMSE use {self.sampled:,} random records of each file")
        if self.smoothed:
            lines.append(SMOOTHED)
        if self.incomplete:
            lines.append(
                f"{self.incomplete:,} records of the file lack an outcome: counts include them; other statistics of an "
                "outcome leave out the records that lack it; distributions, associations and the pMSE leave out all"
            )
        return "\n".join([*lines, INSIDE])

    __repr__ = __str__

    def _lines(self, row: Mapping[Hashable, Any]) -> list[str]:
        """Describe one statistic: how many intervals contain the file's estimate, and for which cells they miss it."""
        rows = self._cells_of(row)
        text, judged, fixed = f"{quantity(row)}: ", int(row["cells"]), len(rows) - int(row["cells"])
        if judged:
            holding = judged - int(row["misses"])
            text += (
                f"{holding} of {judged} intervals ({holding / judged:.0%}) contain the estimate of the file; by chance "
                f"about {row['by_chance']:.3g} miss it, very rarely more than {row['most']}; standard errors are "
                f"{row['se_ratio']:.2f} times those of the file, intervals overlap by {row['overlap']:.0%} (medians)"
            )
        if fixed:
            text += f"{'; ' if judged else ''}{fixed} fixed by design, or without an interval"
        if rows["modelled"].any():
            text += f"; {int(rows['modelled'].sum())} of its cells are of variables that no noisy table counts together"
        return [text, *(f"  {cell}" for cell in self._off(_missed(rows)))]


def _missed(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells in which the interval of the release misses the estimate of the file."""
    return cells[~cells["holds"].fillna(True).astype(bool)]


def named(cells: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Name every cell of a table, as in "north x women".

    The name of a proportion ends with the category, as in "north x women x employed", and the name of a quantile with
    "median" or, for example, "10th percentile".
    """
    names = []
    for row in cells.to_dict("records"):
        more = [str(row["category"])] if row.get("category", "") not in ("", None) else []
        more += [percentile(row["prob"])] if row["statistic"] == "quantile" and "prob" in row else []
        names.append(" x ".join([*(str(row[name]) for name in by), *more]) or TOTAL)
    return names


def compare(
    design: SurveyDesign,
    release: Release,
    by: str | Sequence[str] | None = None,
    *,
    statistic: str | Sequence[str] | None = None,
    quantiles: Sequence[float] | float | None = None,
    poverty_line: float | None = None,
) -> Comparison:
    """Compare a release with the confidential file from which it was made.  For the agency only.

    A good release differs from the file only by the noise of synthesis.  File and release share the sampling error, so
    the 95% intervals of the release should contain the estimate of the file in at least 95% of the cells.  Margins and
    totals share records with the cells, so misses are not independent of each other.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.  :attr:`Comparison.incomplete` says where records without an outcome are left out.
    release : Release
        A release that was made from ``design``.  If there are more than 100,000 records, distributions, associations
        and propensity scores are computed from a random sample of 100,000 records.
    by : str or list of str, optional
        The variables that define the cells, as for :meth:`Release.tables`; by default :meth:`Release.table_predictors`.
    statistic, quantiles, poverty_line
        See :meth:`Release.tables`.

    Returns
    -------
    Comparison
        The comparison, for the agency only.  ``print`` gives a summary.

    Raises
    ------
    InputError
        :meth:`Release.tables` raises it; ``design`` is not a SurveyDesign or ``release`` is not a Release; the file
        lacks a column of the release; no cell is in both the file and the release.

    Notes
    -----
    Karr et al. (2006) define the overlap of intervals.  Distributions and propensity scores follow Woo et al.
    (2009), and the expected propensity score mean squared error Snoke et al. (2018, theorem 1).  The propensity model
    is a logistic regression on the predictors, and on the ranks of the outcomes with their squares and products
    (indicators for categories).  It has products of outcomes with predictors, too, if there are at least 20 records
    for each column of the regression.

    Examples
    --------
    With ``design`` and a ``release`` made from it:

    >>> comparison = ss.compare(design, release, by="gender", statistic="mean")
    >>> comparison.cells[["gender", "estimate", "se"]].round()
       gender  estimate      se
    0  female   97364.0  2101.0
    1    male  127670.0  2261.0
    2     all  114629.0  1636.0
    >>> {"estimate_release", "std_diff", "overlap", "holds"} <= set(comparison.cells)
    True
    """
    if not isinstance(design, SurveyDesign) or not isinstance(release, Release):
        raise InputError(
            "compare(design, release): the confidential file as a SurveyDesign, and its release"
        )
    names = release.table_predictors() if by is None else as_list(by)
    design = _with_labels(design, release, names)
    known = {name: how for name, how in release.derived.items() if how is not None and name not in design.columns}
    design = design.assign(**known) if known else design
    lacking = [name for name in (*names, *release.predictors, *release.outcomes) if name not in design.columns]
    if lacking:
        raise InputError(
            f"the file has no column {', '.join(map(repr, dict.fromkeys(lacking)))}, which the release has: is it the "
            "file that it was made from?"
        )
    theirs = release.tables(names, statistic=statistic, quantiles=quantiles, poverty_line=poverty_line)
    asked = theirs[["outcome", "statistic"]].drop_duplicates().itertuples(index=False)
    own = pd.concat([
        estimate(
            design, outcome or None, names, which, missing="drop",
            **fitting([which], quantiles=quantiles, poverty_line=poverty_line),
        )
        for outcome, which in asked
    ])  # fmt: skip
    missing = design.select(release.outcomes).isna().any(axis=1) & (design.weights > 0)
    sampled = LARGEST_SAMPLE if design.n > LARGEST_SAMPLE else 0
    sides = _sides(design, release)
    return _comparison(release, names, _cells(own, theirs, names), *sides, int(missing.sum()), sampled)


def _with_labels(design: SurveyDesign, release: Release, by: list[str]) -> SurveyDesign:
    """Recode the file to the labels of the release.  Missing values become "missing" if the release has this label.

    Shares of the file then have the same denominator as shares of the release.  Weights, replicate weights,
    calibrations and joint inclusion probabilities stay those of the file.  A file that is read column by column keeps
    only the columns that a comparison by ``by`` needs.
    """
    names = [name for name in (*release.categorical, *release.predictors) if name in design.columns]
    labels = labelled(design, release, names)
    if not labels:
        return design
    needed = dict.fromkeys([*design._frame.columns, *by, *release.predictors, *release.outcomes])
    used = design.columns if release.derived else [name for name in needed if name in design.columns]
    return design._with(_frame=design.select(used).assign(**labels), _scan=None)


def _comparison(
    release: Release, names: Sequence[str], cells: pd.DataFrame, file: _Side, datasets: list[_Side],
    incomplete: int, sampled: int,
) -> Comparison:  # fmt: skip
    outcomes = [str(name) for name in file.frame if name not in (*release.predictors, *release.categorical)]
    numbers = [name for name in outcomes if not is_label(file.frame[name])]
    distributions, curves = _distributions(numbers, file, datasets)
    return Comparison(
        by=tuple(names), cells=cells, summary=_summary(cells), distributions=distributions, curves=curves,
        pmse=_propensity(release, file, datasets), joint=_joint(release, file, datasets),
        grids={pair: _grids(*pair, file, datasets) for pair in combinations(numbers, 2)}, incomplete=incomplete,
        smoothed=str(release.method["weights"]).startswith("synthesized (smoothed"), sampled=sampled,
    )  # fmt: skip


def _cells(own: pd.DataFrame, theirs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Match estimates of the file and of the release by cell, and compute the columns of ``Comparison.cells``."""
    keys = [c for c in (*QUANTITY, *by) if c in theirs and c in own]
    labels = [c for c in keys if c != "prob"]
    # a numeric outcome has no category: in a table with categories, this is "" in one table and missing in the other
    file, theirs = (
        table.assign(**{c: table[c].astype(object).where(table[c].notna(), "").astype(str) for c in labels})
        for table in (own, theirs)
    )
    file = file[[*keys, "estimate", "se", "ci_low", "ci_high"]].rename(
        columns={"ci_low": "file_low", "ci_high": "file_high"}
    )
    modelled = theirs["flag"].str.contains(MODELLED, regex=False) if "flag" in theirs else False
    theirs = theirs[[*keys, "estimate", "se", "ci_low", "ci_high"]].assign(at=np.arange(len(theirs)), modelled=modelled)
    both = theirs.merge(file, on=keys, how="outer", suffixes=("_release", "")).sort_values("at", ignore_index=True)
    inner = (both[by] != TOTAL).all(axis=1) & both["estimate"].notna() & both["estimate_release"].notna()
    if not inner.any():
        raise InputError("the file and the release have no cell in common: is it the file that it was made from?")
    outside = pd.Series(np.maximum(both["ci_low"] - both["estimate"], both["estimate"] - both["ci_high"]))
    near = ROUNDING * both["estimate"].abs()
    difference = both["estimate_release"] - both["estimate"]
    exact = both["se_release"] <= ROUNDING * both["estimate_release"].abs()
    total = (both["statistic"] == "count") & (both["estimate_release"] > 0)  # public, and perhaps not the file's own
    fixed = exact & (total | (difference.abs() <= near))
    se, se_release = (both[name].where(both[name] > near) for name in ("se", "se_release"))
    table = both.assign(
        std_diff=difference / se_release,
        overlap=overlap(both["file_low"], both["file_high"], both["ci_low"], both["ci_high"]),
        holds=(outside <= 0).astype("boolean").where(outside.notna() & ~fixed),
        se_ratio=both["se_release"] / se,
        modelled=both["modelled"].fillna(False).astype(bool),
    )
    table.loc[fixed, ["std_diff", "overlap", "se_ratio"]] = np.nan
    released, more = ["estimate_release", "se_release", "ci_low", "ci_high"], ["std_diff", "overlap", "holds"]
    return table[[*by, *(c for c in keys if c not in by), "estimate", "se", *released, *more, "se_ratio", "modelled"]]


def _summary(cells: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (statistic, outcome), part in cells.groupby(["statistic", "outcome"], sort=False):
        judged = int(part["holds"].notna().sum())
        rows.append({
            "statistic": statistic, "outcome": outcome, "cells": judged,
            "misses": int((~part["holds"].dropna().astype(bool)).sum()),
            "by_chance": (1 - LEVEL) * judged, "most": int(binom.ppf(1 - RARE, judged, 1 - LEVEL)) if judged else 0,
            "std_diff": part["std_diff"].abs().median(), "overlap": part["overlap"].median(),
            "se_ratio": part["se_ratio"].median(),
        })  # fmt: skip
    return pd.DataFrame(rows)


class _Side(NamedTuple):
    """Records to compare, from the confidential file or from one data set of the release.

    ``frame`` has outcomes, predictors and, if it is synthesized, the weight.  ``weights`` are scaled to the sum 1.
    """

    frame: pd.DataFrame
    weights: Floats


def _weight_in(release: Release) -> str | None:
    """Return an unused column name for the weights, or None if the weight is not synthesized."""
    if release.method["weights"] in ("public", "equal"):
        return None
    return "weight" if "weight" not in (*release.outcomes, *release.predictors) else "survey weight"


def _sides(design: SurveyDesign, release: Release) -> tuple[_Side, list[_Side]]:
    """Return the records with a positive weight and without missing outcomes, from the file and from each data set.

    If the file or a data set has more than ``LARGEST_SAMPLE`` records, a random sample of its records is returned.
    Outcomes that are categories are texts even if their levels are numbers.
    """
    name, rng = _weight_in(release), np.random.default_rng(0)

    def side(survey: SurveyDesign) -> _Side:
        frame = survey.select([*release.outcomes, *release.predictors]).copy()
        if name is not None:
            frame.insert(len(release.outcomes), name, survey.weights)
        there = np.flatnonzero(frame[list(release.outcomes)].notna().all(axis=1).to_numpy() & (survey.weights > 0))
        if survey.n > LARGEST_SAMPLE:  # sorted by the public columns, so that all samples agree in them
            there = rng.permutation(there)
            codes = [pd.factorize(frame[name].iloc[there], sort=True)[0] for name in release.predictors]
            there = there[np.lexsort(codes)] if codes else there
            there = there[evenly(LARGEST_SAMPLE, len(there))] if len(there) > LARGEST_SAMPLE else there
        frame = frame.iloc[there].reset_index(drop=True)
        texts = {label: as_text(frame[label]) for label in release.categorical if not is_label(frame[label])}
        return _Side(frame.assign(**texts), survey.weights[there] / survey.weights[there].sum())

    return side(design), [side(data) for data in release.datasets]


def _distributions(numbers: Sequence[str], file: _Side, datasets: Sequence[_Side]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare distributions of numeric columns in the file with those in the data sets of the release.

    Return the tables ``distributions`` and ``curves`` of :class:`Comparison`.
    """
    rows, curves = [], []
    for name in numbers:
        values = [side.frame[name].to_numpy(dtype=float) for side in (file, *datasets)]
        points = np.unique(np.concatenate(values))
        own, *theirs = (
            distribution(x, side.weights, points) for x, side in zip(values, (file, *datasets), strict=True)
        )  # fmt: skip
        released = np.mean(theirs, axis=0)
        between = [np.abs(a - b).max() for a, b in combinations(theirs, 2)]
        rows.append({
            "outcome": name, "largest": np.abs(own - released).max(),
            "mean_square": np.mean((own - released) ** 2), "between": np.mean(between) if between else np.nan,
        })  # fmt: skip
        at = np.unique(np.linspace(0, points.size - 1, POINTS).astype(int))
        curves.append(pd.DataFrame(
            {"outcome": name, "value": points[at], "file": own[at], "release": released[at]}
        ))  # fmt: skip
    empty = pd.DataFrame(columns=["outcome", "value", "file", "release"])
    columns = ["outcome", "largest", "mean_square", "between"]
    return pd.DataFrame(rows, columns=columns), pd.concat(curves, ignore_index=True) if curves else empty


def distribution(values: Floats, weights: Floats, points: Floats) -> Floats:
    """Return the weighted empirical distribution function at ``points``: the weight share of values up to a point."""
    order = np.argsort(values, kind="stable")
    share = np.concatenate([[0.0], np.cumsum(weights[order])]) / weights.sum()
    return np.asarray(share[np.searchsorted(values[order], points, side="right")])


def _propensity(release: Release, file: _Side, datasets: Sequence[_Side]) -> pd.DataFrame:
    """Compute the table ``pmse`` of a :class:`Comparison`, as means over the data sets.

    It has a row for each outcome and for a synthesized weight, and, if these are several, a last row for all together.
    """
    outcomes = [str(name) for name in file.frame if name not in release.predictors]
    together = {name: [name] for name in outcomes} | ({"all together": outcomes} if len(outcomes) > 1 else {})
    rows, public = [], list(release.predictors)
    for what, columns in together.items():
        found = [
            propensity(file.frame[columns + public], data.frame[columns + public], columns)
            for data in datasets
        ]  # fmt: skip
        pmse, expected = np.mean(found, axis=0)
        rows.append({"outcome": what, "pmse": pmse, "expected": expected, "ratio": pmse / expected})
    return pd.DataFrame(rows)


def propensity(file: pd.DataFrame, data: pd.DataFrame, outcomes: Sequence[str]) -> tuple[float, float]:
    """Compute the propensity score mean squared error by logistic regression, and its value expected by chance.

    The propensity score p_i is the probability that record i is synthetic, as predicted from its columns.  Columns
    other than ``outcomes`` are predictors, which the synthesizer did not change.  The expected value therefore counts
    only the columns of the regression that are made from outcomes.

    Parameters
    ----------
    file, data : DataFrame
        The confidential file (n, columns) and a synthetic data set (n', columns).
    outcomes : list of str

    Returns
    -------
    float, float
        The mean of (p_i - c)^2 over both files, where c = n' / (n + n'); and its expected value
        k (1 - c)^2 c / (n + n'), where k columns of the regression are made from outcomes (Snoke et al. 2018, theorem
        1; k in the theorem includes the constant).
    """
    import statsmodels.api as sm

    both = pd.concat([file, data], ignore_index=True)
    n, c = len(both), len(data) / len(both)
    base = [_columns_of(both[name], squares=False) for name in file if name not in outcomes]
    made = [_columns_of(both[name], squares=True) for name in outcomes]
    firsts = [_columns_of(both[name], squares=False) for name in outcomes]
    crossed = [*made, *(_products(a, b) for a, b in combinations(firsts, 2))]
    with_predictors = [*crossed, *(_products(a, b) for a in firsts for b in base)]
    if 20 * sum(part.shape[1] for part in (*with_predictors, *base)) <= n:
        crossed = with_predictors
    ones = np.ones((n, 1))
    before = np.column_stack([ones, *base])
    x = np.column_stack([before, *crossed])
    k = int(np.linalg.matrix_rank(x) - np.linalg.matrix_rank(before))
    y = np.repeat([0.0, 1.0], [len(file), len(data)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of perfect separation: p is then 0 or 1, as it should be
        p = sm.GLM(y, x, family=sm.families.Binomial()).fit(maxiter=50).fittedvalues
    return float(np.mean((p - c) ** 2)), k * (1 - c) ** 2 * c / n


def _labels(column: pd.Series) -> bool:
    return is_label(column) or pd.api.types.is_bool_dtype(column.dtype)


def _columns_of(column: pd.Series, *, squares: bool) -> Floats:
    """Return a variable's columns in the propensity regression: indicators of all categories but one, or ranks.

    With ``squares``, the squares of the ranks are added.
    """
    if _labels(column):
        return np.asarray(pd.get_dummies(column.astype(str), drop_first=True).to_numpy(dtype=float))
    rank = 2 * rankdata(column.to_numpy(dtype=float)) / (len(column) + 1) - 1
    return np.column_stack([rank, rank**2 - 1 / 3]) if squares else rank[:, None]


def _products(a: Floats, b: Floats) -> Floats:
    return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), -1))


def _joint(release: Release, file: _Side, datasets: Sequence[_Side]) -> pd.DataFrame:
    """Compute associations of outcomes with each other, the weight and predictors, in the file and in the release."""
    outcomes = [str(name) for name in file.frame if name not in release.predictors]
    pairs = [*combinations(outcomes, 2), *((a, b) for a in release.outcomes for b in release.predictors)]
    rows = []
    for first, second in pairs:
        measure, own = association(file.frame[first], file.frame[second], file.weights)
        theirs = [association(data.frame[first], data.frame[second], data.weights)[1] for data in datasets]
        se = standard_error(np.array(theirs), pairs=release.measured is not None)
        rows.append((first, second, measure, own, np.mean(theirs), se))
    return pd.DataFrame(rows, columns=["first", "second", "measure", "file", "release", "se"])


def standard_error(values: Floats, *, pairs: bool) -> float:
    """Return the standard error, due to synthesis and not to sampling, of a statistic averaged over m data sets.

    With ``pairs``, data sets 2k - 1 and 2k (k = 1, ..., M = m / 2) are from one draw of the parameters given noisy
    tables.  The variance is then N + B / M.  B is the variance between the means of the pairs, N = max(0, B - w / 2) is
    the variance due to the noise that all data sets share, and w is the mean variance within pairs.  Otherwise the
    variance is b / m, with b the variance between the data sets (Reiter & Kinney 2012).  The result is NaN for a single
    data set.
    """
    if len(values) == 1:
        return np.nan
    if not pairs:
        return float(np.std(values, ddof=1) / np.sqrt(len(values)))
    two = values.reshape(-1, PAIR)
    within, between = (np.diff(two) ** 2).mean() / 2, two.mean(axis=1).var(ddof=1)
    return float(np.sqrt(max(0.0, between - within / 2) + between / len(two)))


def association(first: pd.Series, second: pd.Series, weights: Floats) -> tuple[str, float]:
    """Return the name and value of a weighted measure of association of two columns.

    The measure is the rank correlation of two numbers, or Cramér's V of two categorical columns.  For a number and a
    categorical column, it is the share of the variance of the number's ranks that the categories explain.
    """
    labels = [_labels(column) for column in (first, second)]
    if all(labels):
        table = pd.crosstab(first.astype(str), second.astype(str), values=weights, aggfunc="sum").fillna(0).to_numpy()
        shares = table / table.sum()
        expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        fewest = min(shares.shape) - 1
        return "Cramér's V", float(np.sqrt(((shares - expected) ** 2 / expected).sum() / fewest)) if fewest else np.nan
    if not any(labels):
        a, b = (_ranks(column, weights) for column in (first, second))
        return "rank correlation", float(weights @ (a * b) / np.sqrt((weights @ a**2) * (weights @ b**2)))
    label, number = (first, second) if labels[0] else (second, first)
    rank, group = _ranks(number, weights), pd.factorize(label)[0]
    total = np.bincount(group, weights)
    means = np.bincount(group, weights * rank) / total
    return "variance explained", float((total @ means**2) / (weights @ rank**2))


def _ranks(column: pd.Series, weights: Floats) -> Floats:
    """Return centred weighted midranks: the weight share of smaller values, and half that of equal values."""
    values = column.to_numpy(dtype=float)
    _, at = np.unique(values, return_inverse=True)
    share = np.bincount(at, weights) / weights.sum()
    ranks = (np.cumsum(share) - share / 2)[at]
    return np.asarray(ranks - weights @ ranks / weights.sum())


def _grids(first: str, second: str, file: _Side, datasets: Sequence[_Side]) -> tuple[Floats, Floats]:
    """Compute the weighted joint distribution of two columns on a 10 x 10 grid, in the file and in the release.

    The classes of a column are separated by its deciles in the file.
    """
    tenths = np.arange(1, CLASSES) / CLASSES
    cuts = {name: np.quantile(file.frame[name].to_numpy(dtype=float), tenths) for name in (first, second)}

    def grid(side: _Side) -> Floats:
        a, b = (np.searchsorted(cut, side.frame[name].to_numpy(dtype=float), side="left") for name, cut in cuts.items())
        shares: Floats = np.bincount(CLASSES * a + b, side.weights, CLASSES**2).astype(float)
        return shares.reshape(CLASSES, CLASSES)

    return grid(file), np.asarray(np.mean([grid(data) for data in datasets], axis=0))
