"""Tables, figures and summary of a study of repeated samples."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from surveysynth.privacy.budget import Budget
from surveysynth.studies.measures import CONFIDENTIAL, summarize
from surveysynth.studies.writing import write_files

from .. import figures as plots
from .. import measures
from ..writing import listed
from .study import Study


def write(study: Study, out: str | Path) -> list[Path]:
    """Write the tables, the figures and the summary of a study.

    - ``coverage.csv``: every method, setting, delta, m and domain (:func:`surveysynth.studies.summarize`);
    - ``comparison.csv``: comparison with the printed tables (:func:`replication.measures.compare_with_paper`), only for
      the population and n of Hu, Savitsky & Williams (2022a);
    - ``better.csv``: comparison of settings (:func:`replication.measures.compare_settings`);
    - ``bounds.csv``: Lipschitz bounds of every replicate; ``failures.csv``: errors;
    - ``summary.txt``, and figures: RMSE ratios and Lipschitz bounds of the first sample (a file for each delta), its
      outcomes and weights, and coverage against the coefficient of variation (a file for each m and delta).

    Parameters
    ----------
    study : Study
    out : str or Path
        The folder, which is made if it does not exist.

    Returns
    -------
    list of Path
        The files.
    """
    by, settings = list(study.population.by), study.settings
    summary = summarize(study.estimates, by)
    tables = {"coverage": summary, "better": measures.compare_settings(summary, by), "bounds": study.bounds}
    if settings["population"] == "sdr" and settings["n"] == 1000:
        tables["comparison"] = measures.compare_with_paper(summary)
    tables["failures"] = study.failures
    return [*write_files(out, tables, describe(study, tables)), *_figures(study, summary, Path(out))]


def _figures(study: Study, summary: pd.DataFrame, folder: Path) -> list[Path]:
    by = list(study.population.by)
    first = study.estimates[study.estimates["replicate"] == study.estimates["replicate"].min()]
    ratios = measures.rmse_ratios(first, by)
    ratios = ratios[ratios["setting"].isin(["paper", "local"])]
    own = summary["method"] == CONFIDENTIAL
    drawn = []
    for delta in study.settings["delta"]:
        part, name = ratios[ratios["delta"] == delta], f"delta_{delta:g}"
        if len(part):
            title = f"RMSE ratios over {len(part[by].drop_duplicates())} domains of one sample, delta = {delta:g}"
            axis = dict.fromkeys(plots.STATISTICS, "RMSE ratio to the confidential sample")
            path = folder / f"rmse_ratio_{name}.png"
            drawn.append(plots.rmse_violins(part, "rmse_ratio", path, axis=axis, title=title, reference=True))
        records = study.records[study.records["delta"] == delta] if len(study.records) else study.records
        if len(records):
            title = f"Lipschitz bounds of the records of one sample, delta = {delta:g}"
            drawn.append(plots.lipschitz_violins(records, folder / f"lipschitz_{name}.png", title=title))
        for m in study.settings["m"]:
            part = summary[(summary["delta"] == delta) & (summary["m"] == m)]
            if len(part):
                epsilon = Budget(None, m).spent(delta)
                title = f"Coverage and CV over {study.replicates} samples, m = {m}, epsilon = {epsilon:g}"
                path = folder / f"coverage_m_{m}_{name}.png"
                drawn.append(plots.coverage_against_cv(pd.concat([summary[own], part]), path, title=title))
    if len(study.scatter):
        title, path = "Outcome and survey weight, one sample", folder / "weights.png"
        drawn.append(plots.weight_scatter(study.scatter, path, outcome=study.population.outcome, title=title))
    return drawn


def describe(study: Study, tables: dict[str, pd.DataFrame]) -> str:
    """Return the text of ``summary.txt``."""
    s, R = study.settings, study.replicates
    lines = [
        f"Repeated samples from the population {s['population']!r} (N = {study.population.N:,}): {R} samples of "
        f"n = {s['n']:,}; m = {listed(s['m'])}; Lipschitz bound delta = {listed(s['delta'])}; epsilon = 2 delta m; "
        f"prior {s['prior']}.",
        "The population is public or simulated: nothing here is protected, and the seed is in settings.json.",
    ]
    comparison = tables.get("comparison")
    if comparison is not None and len(comparison):
        lines += ["", "Beside the figures that the paper prints (m = 3, delta = 1.8, means over 24 domains):"]
        for block, part in comparison.groupby("block", sort=False):
            ratio = (part["ci_length"] / part["paper_ci_length"]).mean()
            difference = (part["coverage"] - part["paper_coverage"]).abs().mean()
            lines.append(f"  {block:<11} interval length / printed {ratio:.3f}; coverage differs by {difference:.3f}")
        error = (0.9 * 0.1 / R) ** 0.5
        lines.append(f"  (Monte Carlo standard error of a coverage of 0.90: {error:.3f} here, 0.030 in the paper)")
    lines += ["", "Means over all domains: coverage of the 95% intervals, their length, RMSE over the confidential's"]
    keys = ["statistic", "delta", "m", "epsilon", "method", "setting"]
    measures = ["coverage", "ci_length", "rmse_ratio"]
    groups = tables["coverage"].groupby(keys, dropna=False)
    means = groups[measures].mean().assign(samples=groups["replicates"].max()).reset_index()
    for row in means.to_dict("records"):
        budget = "" if pd.isna(row["m"]) else f"m = {row['m']:g}, epsilon = {row['epsilon']:g}"
        name = f"{row['method']} {row['setting']}"
        lines.append(
            f"  {row['statistic']:<6}{name:<15}{budget:<24}{row['coverage']:6.3f}{row['ci_length']:12,.0f}"
            f"{row['rmse_ratio']:9.3f}" + (f"   ({row['samples']} of {R} samples)" if row["samples"] < R else "")
        )
    lines += ["", "Largest Lipschitz bound of a record, mean (standard deviation) over the samples:"]
    for (method, delta, n), part in tables["bounds"].groupby(["method", "delta", "n"], sort=False):
        lines.append(
            f"  {method} n = {n:<7,} without privacy weights {_spread(part['unweighted'])}; tuned to {delta:g}: "
            f"{_spread(part['weighted'])}"
            + (f"; under c1 = 1, the same for all: {_spread(part['untuned'])}" if part["untuned"].notna().any() else "")
        )
    lines += ["", f"Work: {study.seconds:,.0f} s in all, {study.seconds / R:.2f} s a sample."]
    failed = study.failures
    lines.append(f"Failures: {len(failed) or 'none'}.")
    for (method, n, error), part in failed.groupby(["method", "n", "error"], sort=False):
        number, reason = part["replicate"].nunique(), part["reason"].iloc[0]
        lines.append(f"  {method}, n = {n:,}: {error} in {number} of {R} samples; the first: {reason}")
    return "\n".join(lines) + "\n"


def _spread(values: pd.Series) -> str:
    spread = f" ({values.std():.3f})" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"
