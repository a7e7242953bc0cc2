"""Compare two releases: settings that changed, and estimates side by side with standard errors of the differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from ..design.recode import as_text
from ..errors import InputError
from ..estimation.tables import QUANTITY
from ..publication.digits import decimals, written
from ..publication.names import quantity
from ..storage import as_path
from ..validation import as_list
from .comparison import named
from .manifest import public_folder, read_manifest, seal_of
from .release import Release, read_release

Floats = NDArray[np.float64]

LEVEL = 0.95
SHOWN = 20  # largest number of cells that are listed
ROUNDING = 1e-9
UNSAID = {  # not compared: sentences (listed separately), entries that follow from other entries, and internal ones
    "files", "checksum", "guarantee", "assumptions", "data_dependent", "publication", "ledger", "supersedes",
    "neighbours", "epsilon_requested", "draws_behind_the_maximum", "dtypes", "rests_on",
}  # fmt: skip
LONG = 200  # characters; a longer entry is not shown
SAME_FILE = (
    "Both releases are of the same file: the sampling error is in both and drops out of the difference, whose standard "
    "error is that of the two syntheses, sqrt(b1 / m1 + b2 / m2)"
)
APART = (
    "The two are taken as releases of independent samples: the squares of their standard errors add up. Of one and the "
    "same file (--same-file), or of a panel, the difference has a smaller one"
)
ONE = "With one data set the variance between data sets is unknown, and so is the standard error of the difference"
ASSUMED, COMPUTED = SENTENCES = ("assumed", "computed from the file")
FILL_IN = "FILL IN: why the earlier release was wrong, and what was done"


@dataclass(frozen=True, repr=False)
class Changes:
    """The changes from one release to another, or from one plan to another.

    Attributes
    ----------
    settings : pandas.DataFrame
        ``entry, old, new``: every entry that differs, with both values as texts.  A text is empty if that release or
        plan lacks the entry.
    cells : pandas.DataFrame
        For releases, one row for each combination of cell, statistic and outcome.  ``old``, ``se_old``, ``new`` and
        ``se_new`` are the estimates of the two releases with their standard errors, ``difference`` is new minus old,
        ``se`` its standard error, and ``z`` is ``difference / se``.  Numbers are NaN if only one release has the cell,
        or if a standard error is unknown.
    by : tuple of str
        The variables that define the cells.
    same_file : bool
        True if the standard errors of differences are computed for two releases of the same file.
    about : dict, optional
        For the keys "old" and "new": title, checksum of the manifest, epsilon (None without a guarantee), and a text on
        what was spent.  It is None for plans.

    Examples
    --------
    Two releases, the second of which replaces the first:

    >>> changes = ss.diff("release-1", "release-2")  # doctest: +SKIP
    >>> print(changes.erratum("one stratum had last year's weights"))  # doctest: +SKIP
    """

    settings: pd.DataFrame
    cells: pd.DataFrame
    by: tuple[str, ...] = ()
    same_file: bool = False
    about: dict[str, Any] | None = None

    @property
    def changed(self) -> pd.DataFrame:
        """The rows of ``cells`` whose difference is significant at the 5% level, sorted from the largest absolute z."""
        z = self.cells["z"].abs()
        return self.cells[z > norm.ppf((1 + LEVEL) / 2)].sort_values("z", key=np.abs, ascending=False)

    def __str__(self) -> str:
        lines = [_line(*row) for row in self.settings.itertuples(index=False)]
        lines = lines or ["No setting differs."]
        if self.about is None:
            return "\n".join(lines)
        judged, changed = int(self.cells["z"].notna().sum()), self.changed
        lines += ["", SAME_FILE if self.same_file else APART]
        if judged:
            chance = (1 - LEVEL) * judged
            lines.append(
                f"{len(changed)} of {judged} cells differ by more than the noise of the difference (5% level; "
                f"{chance:.3g} of them would by chance alone)"
            )
            lines += [f"  {text}" for text in self._named(changed.head(SHOWN))]
        else:
            lines.append(ONE)
        alone = int((self.cells["old"].isna() != self.cells["new"].isna()).sum())
        lines += [f"{alone} cells are in one of them alone"] if alone else []
        return "\n".join(lines)

    __repr__ = __str__

    def erratum(self, why: str | None = None) -> str:
        """Write an erratum for a release that replaces another release.  The erratum contains only public facts.

        Parameters
        ----------
        why : str, optional
            What was wrong.  By default the erratum has the text "FILL IN: ..." in its place.

        Returns
        -------
        str
            The erratum, in Markdown.

        Raises
        ------
        InputError
            The changes are between plans, which have no published numbers to correct.
        """
        if self.about is None:
            raise InputError("an erratum is about releases, and these are plans")
        old, new = self.about["old"], self.about["new"]
        changed, settings = self.changed, self.settings[~self.settings["entry"].isin(SENTENCES)]
        lines = [
            f"# Erratum: {new['title']}",
            "",
            f"The release with the manifest SHA-256 `{old['manifest']}` is replaced by the one with "
            f"`{new['manifest']}`. Please use the new one, and delete copies of the old.",
            "",
            f"**Why.** {(why or FILL_IN).rstrip('.')}.",
            "",
            "**What changed.**",
            "",
            *(f"- {_line(*row)}" for row in settings.itertuples(index=False)),
            *([] if len(settings) else ["- No setting differs; the data were synthesized anew."]),
            "",
            f"**Numbers.** {SAME_FILE if self.same_file else APART.replace(' (--same-file)', '')}. {len(changed)} of "
            f"{int(self.cells['z'].notna().sum())} cells differ by more than that noise (5% level)"
            + (":" if len(changed) else "."),
            "",
            *(f"- {text}" for text in self._named(changed.head(SHOWN))),
            *([f"- and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else []),
            "",
            f"**Privacy.** {self._together(old, new)}",
            "",
        ]
        return "\n".join(lines)

    def _together(self, old: dict[str, Any], new: dict[str, Any]) -> str:
        if None in (old["epsilon"], new["epsilon"]):
            return "One of the two has no epsilon, so no bound holds for both together."
        if not self.same_file:
            return f"The old release has {old['spent']}, the new one {new['spent']}."
        return (
            f"The old release, {old['spent']}, cannot be taken back: together with the new one, {new['spent']}, it "
            f"tells of a record at most what epsilon = {old['epsilon'] + new['epsilon']:g} lets through."
        )

    def _named(self, cells: pd.DataFrame) -> list[str]:
        """Describe cells, as in "mean of income, north: 1,020 -> 1,240 (difference 220, standard error 35)"."""
        texts = []
        for row, cell in zip(cells.to_dict("records"), named(cells, self.by), strict=True):
            places = decimals(pd.DataFrame([{"statistic": row["statistic"], "estimate": row["new"], "se": row["se"]}]))
            old, new, off, se = (written(row[c], places) for c in ("old", "new", "difference", "se"))
            texts.append(f"{quantity(row)}, {cell}: {old} -> {new} (difference {off}, standard error {se})")
        return texts


def diff_releases(
    old: str | Path,
    new: str | Path,
    by: str | Sequence[str] | None = None,
    *,
    statistic: str | Sequence[str] | None = None,
    same_file: bool | None = None,
) -> Changes:
    """Compare two releases, using their public files only.

    Parameters
    ----------
    old, new : str or Path
        Release folders, or their ``public`` folders.
    by, statistic
        See :meth:`Release.tables`.  The default of ``by`` is the variables that :meth:`Release.table_predictors` lists
        for both releases.  The default statistics are counts and means of numeric outcomes, and proportions of
        categorical outcomes.  The outcomes are those that both releases have.
    same_file : bool, optional
        True if both releases were made from the same confidential file.  The default is True if the manifest of the
        new release says that it supersedes the old one.

    Returns
    -------
    Changes
        The changed settings, and the cells of both releases with their differences.

    Raises
    ------
    InputError
        A folder is not a release, or the releases have no outcome in common; see also :meth:`Release.tables`.
    """
    releases, seals = [read_release(path) for path in (old, new)], [seal_of(as_path(path)) for path in (old, new)]
    if same_file is None:
        same_file = (releases[1].method.get("supersedes") or {}).get("manifest") == seals[0]
    first = releases[0].table_predictors()
    names = [c for c in releases[1].table_predictors() if c in first] if by is None else as_list(by)
    outcomes = [name for name in releases[0].outcomes if name in releases[1].outcomes]
    if not outcomes:
        raise InputError("the two releases have no outcome in common, so there is nothing to compare")
    tables = [_with_noise(release, names, outcomes, statistic) for release in releases]
    cells = _side_by_side(tables[0], tables[1], names, same_file=same_file)
    about = {
        name: {
            "title": str(release.method.get("title") or f"Synthetic {', '.join(release.outcomes)}"), "manifest": seal,
            "epsilon": None if release.privacy.kind == "none" else release.privacy.epsilon,
            "spent": release.privacy.spent,
        }
        for name, release, seal in zip(("old", "new"), releases, seals, strict=True)
    }  # fmt: skip
    texts = [_manifest_texts(Path(path)) for path in (old, new)]
    settings = pd.concat([differing_entries(*texts), _sentences(*releases)])
    return Changes(settings.reset_index(drop=True), cells, tuple(names), same_file, about)


def _side_by_side(old: pd.DataFrame, new: pd.DataFrame, by: list[str], *, same_file: bool) -> pd.DataFrame:
    """Match the rows of two tables of estimates, in the order of the new table.  Return the frame ``Changes.cells``."""
    keys = [c for c in (*by, *QUANTITY) if c in old and c in new]
    sides = [
        table.assign(**{c: as_text(table[c]).fillna("") for c in keys if c != "prob"})[
            [*keys, "estimate", "se", "noise"]
        ].rename(columns={"estimate": name, "se": f"se_{name}", "noise": f"noise_{name}"})
        for name, table in (("old", old), ("new", new))
    ]
    cells = sides[1].assign(at=np.arange(len(sides[1]))).merge(sides[0], on=keys, how="outer")
    cells = cells.sort_values("at", kind="stable", ignore_index=True).drop(columns="at")
    each = ("noise_old", "noise_new") if same_file else ("se_old", "se_new")
    difference, se = cells["new"] - cells["old"], pd.Series(np.hypot(cells[each[0]], cells[each[1]]))
    fixed = se <= ROUNDING * cells["new"].abs()  # public totals in both tables
    cells = cells.assign(difference=difference, se=se, z=difference / se.where(~fixed))
    return cells[[*keys, "old", "se_old", "new", "se_new", "difference", "se", "z"]]


def differing_entries(old: dict[str, str], new: dict[str, str]) -> pd.DataFrame:
    """List the entries that differ between two mappings, in columns ``entry, old, new``.  A missing entry is ""."""
    names = dict.fromkeys([*old, *new])
    rows = [(name, old.get(name, ""), new.get(name, "")) for name in names if old.get(name, "") != new.get(name, "")]
    return pd.DataFrame(rows, columns=["entry", "old", "new"])


def _with_noise(
    release: Release, by: list[str], outcomes: list[str], statistic: str | Sequence[str] | None
) -> pd.DataFrame:
    """Estimate tables with a column ``noise``, the standard error due to synthesis.

    The square of ``noise`` is the combined variance minus the mean variance within data sets.  This is b / m, where b
    is the variance between the m data sets (Reiter & Raghunathan 2007).  If the data sets were drawn from noisy tables,
    the square also includes the variance due to the noise in these tables.  With one data set, ``noise`` is NaN.
    """
    asked: dict[str, Any] = {"outcome": None if as_list(statistic) == ["count"] else outcomes, "statistic": statistic}
    if statistic is None:
        labels = [name for name in outcomes if name in release.categorical]
        numbers = [name for name in outcomes if name not in labels]
        parts = ([(numbers, ["count", "mean"])] if numbers else []) + ([(labels, ["proportion"])] if labels else [])
        tables = [_with_noise(release, by, which, statistics) for which, statistics in parts]
        return pd.concat(tables, ignore_index=True)
    table = release.tables(by, **asked)
    if release.m == 1:
        return table.assign(noise=np.nan)
    within = np.mean([
        replace(release, datasets=(data,), measured=None).tables(by, **asked)["se"].to_numpy(dtype=float) ** 2
        for data in release.datasets
    ], axis=0)  # fmt: skip
    return table.assign(noise=np.sqrt(np.maximum(table["se"].to_numpy(dtype=float) ** 2 - within, 0.0)))


def _sentences(old: Release, new: Release) -> pd.DataFrame:
    """List the sentences that only one of the two privacy reports contains."""
    rows = []
    for name, what in (("assumptions", ASSUMED), ("data_dependent", COMPUTED)):
        before, after = getattr(old.privacy, name), getattr(new.privacy, name)
        rows += [(what, sentence, "") for sentence in before if sentence not in after]
        rows += [(what, "", sentence) for sentence in after if sentence not in before]
    return pd.DataFrame(rows, columns=["entry", "old", "new"])


def _line(entry: str, old: str, new: str) -> str:
    if entry in SENTENCES:
        return f"{entry}, no longer: {old}" if old else f"{entry}, now: {new}"
    return f"{entry}: {old or '(none)'} -> {new or '(none)'}"


def _manifest_texts(path: Path) -> dict[str, str]:
    manifest = read_manifest(public_folder(path) / "manifest.json")
    texts: dict[str, str] = {}
    for name, value in manifest.items():
        if name in UNSAID:
            continue
        parts = value.items() if isinstance(value, dict) else ()
        texts |= {f"{name}.{part}": _text(each) for part, each in parts} if parts else {name: _text(value)}
    records = {file: each.get("records") for file, each in manifest["files"].items() if file.startswith("synthetic_")}
    return texts | {"records": ", ".join(f"{n:,}" for n in dict.fromkeys(records.values()) if n)}


def _text(value: object) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONG else f"({len(text):,} characters)"
