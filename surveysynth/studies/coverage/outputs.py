"""Tables, figures and summary of a coverage study.

A cell is a population with a sample size, a mechanism and an epsilon.  A margin is a predictor by which estimates are
tabulated, and a level is a category of this predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from ..._version import __version__
from ...publication.names import percentile
from .. import measures
from ..base import Replicates, stacked
from ..measures import CONFIDENTIAL
from ..writing import write_files
from .study import KEYS, Cell

Cells = Sequence[tuple[Cell, Replicates]]

NAMES = {
    "strict": "Strict", "strict-earlier": "Strict, last year's tables", "pseudo": "pseudo posterior",
    "pseudo-debias": "pseudo posterior, debias", "censored": "censored", "laplace": "Laplace tables",
    CONFIDENTIAL: "confidential sample",
}  # fmt: skip
LOOKS = {
    "strict": ("#0b6fa4", "o", "-"), "strict-earlier": ("#0b6fa4", "D", ":"), "pseudo": ("#c26a00", "s", "-"),
    "pseudo-debias": ("#c26a00", "^", "--"), "censored": ("#7a3b8f", "v", "-"), "laplace": ("#3f8f3f", "P", "-"),
}  # fmt: skip
NOMINAL, ENOUGH, LEVEL = 0.95, 0.93, 0.05  # nominal coverage; least acceptable coverage; significance level
RATIOS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30, 100, 300, 1000, 3000)  # ticks
FAR = 5.0  # error of the grand mean, in confidential standard errors, from which a release is ruined


def by_level(cells: Cells) -> pd.DataFrame:
    """Summarize the estimates for each combination of cell of the study, method, margin, level and statistic.

    Returns
    -------
    pandas.DataFrame
        ``population, n``; the columns of :func:`surveysynth.studies.summarize` by ``margin, level``, without
        ``setting`` and ``delta``; ``own_coverage`` (coverage of the confidential intervals); ``bias_se`` (bias divided
        by the mean standard error); and ``surveysynth`` (version).
    """
    parts = []
    for cell, study in cells:
        truths = cell.population.truths()
        estimates = study.all("estimates").merge(truths, on=["margin", "level", "statistic"])
        table = measures.summarize(estimates, ["margin", "level"])
        mean_se = estimates.groupby(["method", "margin", "level", "statistic"])["se"].mean().rename("mean_se")
        table = table.merge(mean_se.reset_index(), on=["method", "margin", "level", "statistic"])
        own = table.loc[table["method"] == CONFIDENTIAL, ["margin", "level", "statistic", "coverage"]]
        table = table.merge(own.rename(columns={"coverage": "own_coverage"}), on=["margin", "level", "statistic"])
        table["bias_se"] = table["bias"] / table.pop("mean_se")
        table.insert(0, "n", cell.n)
        table.insert(0, "population", cell.population.name)
        table["epsilon"] = cell.epsilon  # also for the confidential estimates from the same samples
        parts.append(table.drop(columns=["setting", "delta"]))
    return stacked(parts).assign(surveysynth=__version__)


def by_margin(table: pd.DataFrame, cells: Cells) -> pd.DataFrame:
    """Average the summaries of :func:`by_level` over the levels of each margin.

    Counts that are public, such as the population total, are left out.

    Returns
    -------
    pandas.DataFrame
        ``population, n, method, epsilon, statistic, margin, m``, numbers of ``samples`` and ``levels``, and

        - ``coverage``, its Monte Carlo standard error ``coverage_se``, and ``own_coverage``, the coverage of the
          confidential intervals;
        - ``bias`` and ``rmse`` as shares of the true value, ``rmse_ratio`` and ``length_ratio``;
        - ``lowest``, the lowest coverage of a level, and ``bias_se``, the ``bias_se`` of :func:`by_level` that is
          largest in absolute value;
        - ``below``, the number of levels whose coverage is significantly below min(.93, ``own_coverage`` of the level),
          by exact binomial tests at 5% with Holm's correction over all levels of a statistic in the cell of the study.
    """
    given = (table["margin"] == "all") & (table["statistic"] == "count")  # the public population total
    given |= table["ci_length"] == 0  # public counts of strata, if all units of a stratum have the same weight
    table = table[~given]
    table = table.assign(relative_bias=table["bias"] / table["truth"], relative_rmse=table["rmse"] / table["truth"])
    table["below"] = _below(table)
    keys = [*KEYS, "statistic", "margin"]
    groups = table.groupby(keys, sort=False)
    found = groups.agg(
        m=("m", "first"), samples=("replicates", "min"), levels=("level", "size"), coverage=("coverage", "mean"),
        own_coverage=("own_coverage", "mean"), bias=("relative_bias", "mean"), rmse=("relative_rmse", "mean"),
        rmse_ratio=("rmse_ratio", "mean"), length_ratio=("length_ratio", "mean"), lowest=("coverage", "min"),
        bias_se=("bias_se", lambda x: x.iloc[np.argmax(np.abs(x.to_numpy()))]), below=("below", "sum"),
    ).reset_index()  # fmt: skip
    return found.merge(_coverage_error(cells), on=keys, how="left")


def _below(table: pd.DataFrame) -> pd.Series:
    """Return a Series that is True for the rows of the table in which the coverage is significantly too low.

    :func:`by_margin` describes the test.  The result is False for confidential estimates.
    """
    hits = (table["coverage"] * table["replicates"]).round()
    p = pd.Series(binom.cdf(hits, table["replicates"], np.minimum(ENOUGH, table["own_coverage"])), index=table.index)
    out = pd.Series(False, index=table.index)
    for _, index in table.groupby([*KEYS, "statistic"]).groups.items():
        ordered = p[index].sort_values()
        limits = LEVEL / np.arange(len(ordered), 0, -1)
        failed = np.cumprod(ordered.to_numpy() <= limits).astype(bool)
        out[ordered.index[failed]] = True
    return out & (table["method"] != CONFIDENTIAL)


def _coverage_error(cells: Cells) -> pd.DataFrame:
    """Return the Monte Carlo standard error of the mean coverage over the levels of each margin."""
    parts = []
    for cell, study in cells:
        e = study.all("estimates").merge(cell.population.truths(), on=["margin", "level", "statistic"])
        e["covered"] = measures.covers(e["ci_low"], e["ci_high"], e["truth"]).astype(float)
        share = e.groupby(["method", "statistic", "margin", "replicate"])["covered"].mean()
        error = share.groupby(["method", "statistic", "margin"]).sem().rename("coverage_se").reset_index()
        parts.append(error.assign(population=cell.population.name, n=cell.n, epsilon=cell.epsilon))
    return stacked(parts)


def failures(cells: Cells) -> pd.DataFrame:
    """Return a table of the samples for which no release was made, with the error of each."""
    return stacked([study.failures(["replicate", "error", "reason"]).assign(**_keys(cell)) for cell, study in cells])


def ruined(cells: Cells) -> pd.DataFrame:
    """Count the releases in which the mean or a proportion of the whole population is very wrong.

    An estimate is very wrong if its error exceeds 5 times the median standard error of the confidential estimates.  The
    columns are ``population, n, method, epsilon, ruined`` (the number of such releases) and ``samples`` (the number of
    all releases).
    """
    parts = []
    for cell, study in cells:
        e = study.all("estimates").merge(cell.population.truths(), on=["margin", "level", "statistic"])
        e = e[(e["margin"] == "all") & e["statistic"].isin(["mean", "proportion"])]
        own_se = e[e["method"] == CONFIDENTIAL].groupby("level")["se"].median()
        e["far"] = (e["estimate"] - e["truth"]).abs() > FAR * e["level"].map(own_se)
        for method, part in e[e["method"] != CONFIDENTIAL].groupby("method", sort=False):
            far = part.groupby("replicate")["far"].any()
            found = {"method": method, "ruined": int(far.sum()), "samples": len(far)}
            parts.append(pd.DataFrame([_keys(cell) | found]))
    return stacked(parts)


def _keys(cell: Cell) -> dict[str, Any]:
    return {"population": cell.population.name, "n": cell.n, "method": cell.mechanism, "epsilon": cell.epsilon}


def write(cells: Cells, out: str | Path) -> list[Path]:
    """Write the tables and the summary of a study, and a figure for each population and sample size.

    The tables are ``levels.csv``, ``margins.csv`` and ``failures.csv``, and the summary is ``summary.txt``.

    Returns
    -------
    list of Path
        The files.
    """
    folder, levels = Path(out), by_level(cells)
    margins = by_margin(levels, cells)
    tables = {"levels": levels, "margins": margins, "failures": failures(cells)}
    written = write_files(folder, tables, describe(margins, cells))
    for (population, n), part in margins.groupby(["population", "n"], sort=False):
        path = folder / f"coverage_{str(population).replace(' ', '_')}_{n}.png"
        written.append(_figure(part, path, title=f"{population}, samples of n = {n:,}"))
    return written


def describe(margins: pd.DataFrame, cells: Cells) -> str:
    """Return the text of ``summary.txt``."""
    lines = [
        f"95% intervals on repeated samples of real populations (surveysynth {__version__}).",
        "Means over the levels of each margin.  Coverage with its Monte Carlo standard",
        "error; own: the confidential sample's; bias and rmse over the truth; /own and",
        "length: rmse and length over the confidential sample's; below: levels whose",
        "coverage is below .93, or below the own where that is lower, at 5% over all",
        "levels (Holm).",
    ]
    off = ruined(cells).set_index(KEYS)
    for key, part in margins[margins["method"] != CONFIDENTIAL].groupby(KEYS, sort=False):
        population, n, method, epsilon = key
        at = off.loc[[key]].iloc[0]
        files = "" if np.isnan(part["m"].iloc[0]) else f", m = {part['m'].iloc[0]:g}"
        lines += ["", f"{population}, n = {n:,}: {NAMES[str(method)]}, epsilon = {epsilon:g}{files}; "
                 f"{at['samples']} samples, {at['ruined']} ruined"]  # fmt: skip
        lines.append(f"  {'':<13} coverage  (se)    own    bias    rmse  /own length  lowest below")
        for statistic, rows in part.groupby("statistic", sort=False):
            lines.append(f"  {_called(str(statistic))}")
            lines += [
                f"    {row['margin']:<12}{row['coverage']:6.3f} ({row['coverage_se']:.3f}){row['own_coverage']:7.3f}"
                f"{row['bias']:+8.3f}{row['rmse']:8.3f}{row['rmse_ratio']:6.2f}{row['length_ratio']:7.2f}"
                f"{row['lowest']:8.3f}{row['below']:6d}"
                for row in rows.to_dict("records")
            ]
    failed = failures(cells)
    lines += ["", f"Samples without a release: {len(failed) or 'none'}."]
    for key, part in failed.groupby([*KEYS, "error"], sort=False) if len(failed) else []:
        where = f"{key[0]}, n = {key[1]:,}, {NAMES[str(key[2])]}, epsilon = {key[3]:g}"
        lines.append(f"  {where}: {key[4]} in {len(part)}; the first: {part['reason'].iloc[0]}")
    return "\n".join(lines) + "\n"


def _called(statistic: str) -> str:
    """Return the name of a statistic in print: "10th percentile" for "quantile 0.1"."""
    name, _, probability = statistic.partition(" ")
    return percentile(float(probability)) if name == "quantile" else statistic.replace("_", " ")


def _figure(table: pd.DataFrame, path: Path, *, title: str) -> Path:
    """Draw coverage and RMSE ratio against epsilon, with one curve for each mechanism and one column per statistic."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    statistics = list(dict.fromkeys(table["statistic"]))
    figure = Figure(figsize=(2.5 * len(statistics) + 3.0, 7.0), layout="constrained")
    axes: Any = figure.subplots(2, len(statistics), sharex=True, sharey="row", squeeze=False)
    epsilons = sorted(table["epsilon"].unique())
    means = table.groupby(["method", "statistic", "epsilon"], sort=False, as_index=False).agg(
        coverage=("coverage", "mean"), error=("coverage_se", "mean"), rmse_ratio=("rmse_ratio", "mean"),
        own=("own_coverage", "mean"),
    )  # fmt: skip
    for k, statistic in enumerate(statistics):
        for method, (color, marker, style) in LOOKS.items():
            here = means[(means["method"] == method) & (means["statistic"] == statistic)]
            if not len(here):
                continue
            part = here.set_index("epsilon").reindex(epsilons)
            look: dict[str, Any] = {"color": color, "marker": marker, "ls": style, "ms": 5, "lw": 1.4}
            axes[0, k].errorbar(
                epsilons, part["coverage"], yerr=2 * part["error"], capsize=2, label=NAMES[method], **look
            )
            axes[1, k].plot(epsilons, part["rmse_ratio"], **look)
        own = means.loc[means["statistic"] == statistic, "own"].mean()
        axes[0, k].axhline(own, color="#7f7f7f", ls=":", lw=1.2, label="confidential sample")
        axes[0, k].axhline(NOMINAL, color="#444444", ls="--", lw=1)
        axes[1, k].axhline(1, color="#7f7f7f", ls=":", lw=1.2)
        axes[0, k].set_title(_called(statistic), fontsize=11)
        axes[1, k].set_yscale("log")
        low, high = (f(means["rmse_ratio"].to_numpy()) for f in (np.min, np.max))
        shown = [x for x in RATIOS if 0.8 * low <= x <= 1.25 * high or x == 1]
        axes[1, k].set_yticks(shown, [f"{x:g}" for x in shown])
        axes[1, k].set_xlabel("epsilon")
        for ax in axes[:, k]:
            ax.set_xscale("log")
            ax.set_xticks(epsilons, [f"{x:g}" for x in epsilons])
            ax.minorticks_off()
            ax.grid(axis="y", alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("coverage of 95% intervals")
    axes[1, 0].set_ylabel("RMSE / confidential")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=150)
    return path
