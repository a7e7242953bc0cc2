"""Repeated two-stage samples with a known intraclass correlation, synthesized with and without PSU effects.

The question is whether synthetic surveys preserve the intraclass correlation.  The same samples are synthesized by FBS
with effects of PSUs, and by FBS that draws records independently.

Standard errors are compared with the confidential standard error of the same domain.  Let U be the square of the
confidential standard error.  A synthetic data set l has an estimate q_l and a variance u_l.  The variance from m data
sets is T = u_bar + b / m (Hu, Savitsky & Williams 2022a, appendix A), where b is the variance among the q_l.

- Outcomes, weights and effects of PSUs are drawn anew in each data set.  If the model is right, u_l estimates the
  variance U_s of an estimate from a sample with *smoothed* weights, which vary only with the outcome and the
  predictors.  Let s^2 be the variance of log weight given outcome and PSU.  For a mean, the contribution of records to
  U is exp(s^2) times their contribution to U_s, since E(w^2) = (E w)^2 exp(s^2).  The contributions of PSUs to U and
  U_s are nearly equal.  So r = U_s / U lies between exp(-s^2) = 0.85 (here s = 0.4) and 1, and increases with the
  intraclass correlation.  With public weights r = 1.
- Given the parameters of data set l, q_l varies about its mean with variance U_s.  This mean varies with the
  parameters, with their pseudo posterior variance V.  V is approximately U_s if all privacy weights are 1 and the model
  has a parameter for the domain.

Together b = U_s + V and T = r U (1 + (1 + V / U_s) / m).  The ratio of standard errors is

    sqrt(r (1 + (1 + V / U_s) / m)),   about sqrt(r (1 + 2 / m));   sqrt(r) for m = 1, where T = u.

Three causes change this ratio.  First, privacy weights reduce the information of the file: V is about U_s over the mean
privacy weight, so that the ratio is larger.  They also make the fitted residual variance too small, and u_l with it.
Second, a model with fewer parameters than domains (main effects, for cells) has V below U_s.  Third, predictors
are not drawn anew, so that b does not include the variation of the sample's composition.

For counts this is true only for the part of U that comes from weights, most of which smoothing removes.  For the count
of a stratum, (exp(s^2) - 1) / (exp(2 s^2) - 1) = 0.46 of U remains, and more for cells.  No expected value is given.
With public weights the counts are the confidential counts, scaled to the population total, and the ratio is 1.

The number of records of a PSU (its take) differs between PSUs.  With probabilities proportional to size, a PSU with
more records has smaller weights, so that the sums of weights of PSUs are similar.  The number of records is public, and
its logarithm is a predictor of FBS.  Otherwise sums over synthetic PSUs, above all counts, would vary with the takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surveysynth.choices import Clusters, SecondStage
from surveysynth.datasets.sdr import SCALE, sdr_population, sdr_sample
from surveysynth.design.survey_design import SurveyDesign
from surveysynth.errors import InputError
from surveysynth.estimation.tables import TOTAL
from surveysynth.models.normal.fbs import FBS
from surveysynth.privacy.budget import Budget
from surveysynth.studies import measures
from surveysynth.studies.base import folder_and_seed
from surveysynth.studies.writing import write_files

from .. import figures as plots
from ..choices import StudyPrior
from ..tabular.study import POPULATION_SEED, Population, Study, repeated_sampling

CHOICES: tuple[Clusters, ...] = get_args(Clusters)
PSU_UNITS = 100  # on average, from 50 to 150: 1,000 PSUs
SHARE, FEWEST, MOST = 1 / 5, 10, 30  # the take of a PSU: this share of its units, between these numbers
SOUND = (0.93, 0.97)  # coverage of the confidential intervals in domains that are used for comparison
KEYS = ["icc", "statistic", "method", "clusters", "setting", "delta", "m", "epsilon"]

Floats = NDArray[np.float64]
Studies = Mapping[tuple[float, Clusters], Study]


def two_stage(
    icc: float, clusters: Clusters, *, second_stage: SecondStage = "pps", predictors: str = "field + gender"
) -> Population:
    """Make a fixed population of doctorate holders in universities, which is sampled in two stages.

    The first stage draws universities within fields, with probability proportional to the sum of the sizes of their
    units.  The second stage draws a fifth of the units of each university, but at least 10 and at most 30.  Weights
    differ between units, and are correlated with the outcome.

    Parameters
    ----------
    icc : float
        Intraclass correlation of log salary given field and gender.
    clusters : {"model", "ignore"}
        Whether FBS has effects of universities.
    second_stage : {"pps", "srs"}
        How units are drawn within a university: "pps" with probability proportional to size, "srs" with equal
        probabilities, so that all records of a PSU have the same weight.
    predictors : str
        Formula of field, gender and take (number of units drawn in a university).  The tables are by field and gender,
        or by the one that is in the formula.

    Returns
    -------
    Population
        100,000 doctorate holders.  Column ``psu`` is the university, and ``take`` the number of units drawn in it.

    Raises
    ------
    InputError
        ``icc`` is not a share, ``second_stage`` is unknown, ``predictors`` has other columns than field, gender and
        take, or it has neither field nor gender.

    Examples
    --------
    >>> population = two_stage(icc=0.05, clusters="model")
    >>> population.sample(population.frame, 2000, 1)
    SurveyDesign: 2,090 records, weights 'weight', 8 strata 'field', 92 PSUs 'psu'
    """
    if second_stage not in SAMPLES:
        raise InputError(f"second_stage={second_stage!r} is not one of {', '.join(get_args(SecondStage))}")
    named = FBS("salary", predictors).predictor_columns
    unknown = sorted(set(named) - {"field", "gender", "take"})
    if unknown:
        raise InputError(f"predictors: {', '.join(unknown)} is not one of field, gender, take")
    by = tuple(name for name in ("field", "gender") if name in named)
    if not by:
        raise InputError("predictors name neither field nor gender: the tables need at least one")
    frame = sdr_population(seed=POPULATION_SEED, errors="clustered", icc=icc, units_of_a_psu=PSU_UNITS)
    units = frame.groupby("psu")["psu"].transform("size")
    frame["take"] = (SHARE * units).round().clip(FEWEST, MOST).astype(int)
    name = f"two-stage, {second_stage}, icc {icc:g}"
    return Population(name, frame, "salary", by, predictors, SAMPLES[second_stage], {"clusters": clusters})


def sample_pps(frame: pd.DataFrame, n: int, seed: int) -> SurveyDesign:
    """Draw a two-stage sample, with probabilities proportional to size within a PSU."""
    return sdr_sample(n, seed, population=frame, take="take")


def sample_srs(frame: pd.DataFrame, n: int, seed: int) -> SurveyDesign:
    """Draw a two-stage sample, with simple random samples within a PSU."""
    return sdr_sample(n, seed, population=frame, take="take", second_stage="srs")


SAMPLES = {"pps": sample_pps, "srs": sample_srs}


def cluster_study(
    icc: Sequence[float] = (0.02, 0.05, 0.15),
    *,
    replicates: int = 100,
    n: int = 2000,
    m: Sequence[int] = (1, 3),
    delta: Sequence[float] = (1.8,),
    second_stage: SecondStage = "pps",
    predictors: str = "field + gender",
    prior: StudyPrior = "flat",
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
) -> dict[tuple[float, Clusters], Study]:
    """Draw repeated two-stage samples for every ``icc``, and synthesize each by FBS with and without PSU effects.

    Parameters
    ----------
    icc : list of float
        Intraclass correlations of log salary given field and gender.
    n : int
        Approximate sample size.  The number of PSUs is fixed, and PSUs differ in size.
    second_stage, predictors
        See :func:`two_stage`.
    replicates, m, delta, prior, workers, scheduler, seed
        See :func:`replication.tabular.study.repeated_sampling`.
    out : str or Path, optional
        Folder that gets a subfolder for every icc and choice.  A study that was stopped continues from there.

    Returns
    -------
    dict of (icc, "model" or "ignore") to Study
        The studies with ("model") and without ("ignore") effects of PSUs, which use the same samples.

    Raises
    ------
    InputError
        For the reasons given in :func:`two_stage` and :func:`replication.tabular.study.repeated_sampling`.

    Examples
    --------
    >>> studies = cluster_study([0.05], replicates=20, m=[3], workers=2)  # doctest: +SKIP
    >>> compare_clusters(studies)  # doctest: +SKIP
    """
    shares = sorted(set(icc))
    if not shares:
        raise InputError("icc is empty: give at least one")
    populations = {}
    for share in shares:
        modelled = two_stage(share, "model", second_stage=second_stage, predictors=predictors)
        for choice in CHOICES:
            populations[share, choice] = replace(modelled, fit={"clusters": choice})
    folder, seed = folder_and_seed(out, seed)
    return {
        (share, choice): repeated_sampling(
            population, replicates=replicates, n=n, m=m, delta=delta, methods=["fbs"], prior=prior, workers=workers,
            scheduler=scheduler, out=None if folder is None else folder / f"icc_{share:g}_{choice}", seed=seed,
        )
        for (share, choice), population in populations.items()
    }  # fmt: skip


def by_domain(studies: Studies) -> pd.DataFrame:
    """Return one table of coverage, bias and error by domain, for all studies.

    Parameters
    ----------
    studies : dict of (icc, clusters) to Study
        Result of :func:`cluster_study`.

    Returns
    -------
    pandas.DataFrame
        ``icc, clusters`` and the columns of :func:`surveysynth.studies.summarize`.  The confidential estimates are the
        same for both choices: they are given once for each icc, with ``clusters`` empty.

    Examples
    --------
    >>> studies = cluster_study([0.05], replicates=20, m=[3], workers=2)  # doctest: +SKIP
    >>> by_domain(studies)  # doctest: +SKIP
    """
    parts = []
    for (icc, choice), study in studies.items():
        table = measures.summarize(study.estimates, list(study.population.by))
        own = table["method"] == measures.CONFIDENTIAL
        table.insert(0, "icc", icc)
        table.insert(1, "clusters", np.where(own, "", choice))
        parts.append(table if choice == CHOICES[0] else table[~own])
    return pd.concat(parts, ignore_index=True)


def compare_clusters(studies: Studies) -> pd.DataFrame:
    """Average coverage, interval length and standard errors over the domains, by icc and method.

    Parameters
    ----------
    studies : dict of (icc, clusters) to Study
        Result of :func:`cluster_study`.

    Returns
    -------
    pandas.DataFrame
        ``icc, statistic, method, clusters, setting, delta, m, epsilon`` and

        - ``domains``: "all", or "sound", the domains in which the confidential intervals have a coverage of 0.93 to
          0.97 (few PSUs or skewed salaries reduce it in other domains);
        - ``number`` of domains, without the grand total of counts, which is public;
        - ``coverage`` of the 95% intervals, and ``coverage_se``, the Monte Carlo standard error of this mean;
        - ``length_ratio`` and ``se_ratio``: mean interval length and mean standard error in a domain, divided by those
          of the confidential estimates;
        - ``expected``: the approximate ``se_ratio`` if the model is right and all privacy weights are 1 (see the
          module): sqrt(r (1 + 2 / m)), or sqrt(r) for m = 1.  It is missing for counts with synthesized weights;
        - ``rmse_ratio``: the RMSE divided by the RMSE of the confidential estimates.

    Examples
    --------
    >>> studies = cluster_study([0.05], replicates=20, m=[3], workers=2)  # doctest: +SKIP
    >>> compare_clusters(studies)[["statistic", "method", "clusters", "coverage"]]  # doctest: +SKIP
    """
    table = by_domain(studies)
    by = list(next(iter(studies.values())).population.by)
    own = table.loc[table["method"] == measures.CONFIDENTIAL, ["icc", *by, "statistic", "coverage"]]
    table = table.merge(own.rename(columns={"coverage": "own_coverage"}), on=["icc", *by, "statistic"])
    given = (table["statistic"] == "count") & (table[by] == TOTAL).all(axis=1)
    table = table[~given]
    sound = table["own_coverage"].round(9).between(*SOUND)
    parts = []
    for label, part in (("all", table), ("sound", table[sound])):
        groups = part.groupby(KEYS, sort=False, dropna=False)
        means = groups[["coverage", "length_ratio", "se_ratio", "rmse_ratio"]].mean()
        error = _coverage_error(studies, part[["icc", *by, "statistic"]].drop_duplicates(), by)
        means = means.assign(domains=label, number=groups.size()).reset_index().merge(error, on=KEYS, how="left")
        parts.append(means)
    found = pd.concat(parts, ignore_index=True)
    public = next(iter(studies.values())).population.sample is SAMPLES["srs"]
    found["expected"] = _expected(found["statistic"], found["m"], public)
    shown = ["coverage", "coverage_se", "length_ratio", "se_ratio", "expected", "rmse_ratio"]
    return found[[*KEYS, "domains", "number", *shown]].sort_values(
        ["icc", "statistic", "domains"], kind="stable", ignore_index=True
    )


def _expected(statistic: pd.Series, m: pd.Series, public: bool) -> Floats:
    """Return the expected ratio of synthetic to confidential standard error for an icc of 0, or NaN if it is unknown.

    The module has the formula.
    """
    means = np.sqrt((1 if public else np.exp(-(SCALE**2))) * np.where(m > 1, 1 + 2 / m, 1.0))
    counts = 1.0 if public else np.nan
    return np.where(m.isna(), 1.0, np.where(statistic == "mean", means, counts))


def _coverage_error(studies: Studies, domains: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the Monte Carlo standard error of coverage averaged over domains, from the averages of single samples."""
    parts = []
    for (icc, choice), study in studies.items():
        e = study.estimates.assign(icc=icc).merge(domains, on=["icc", *by, "statistic"])
        private = e["method"] != measures.CONFIDENTIAL
        e["clusters"] = np.where(private, choice, "")
        e["covered"] = measures.covers(e["ci_low"], e["ci_high"], e["truth"]).astype(float)
        e = e if choice == CHOICES[0] else e[private]
        share = e.groupby([*KEYS, "replicate"], sort=False, dropna=False)["covered"].mean()
        parts.append(share.groupby(KEYS, sort=False, dropna=False).sem().rename("coverage_se").reset_index())
    return pd.concat(parts, ignore_index=True)


def write(studies: Studies, out: str | Path) -> list[Path]:
    """Write the tables, the figures and the summary of a cluster study.

    - ``clusters.csv``: :func:`compare_clusters`; ``coverage.csv``: :func:`by_domain`;
    - ``bounds.csv``, ``failures.csv``: ``bounds`` and ``failures`` of every :class:`replication.tabular.study.Study`;
    - ``summary.txt``, and for each m and delta a figure of coverage and standard errors against the icc.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(out)
    table = compare_clusters(studies)
    tables = {
        "clusters": table, "coverage": by_domain(studies),
        "bounds": _combined(studies, "bounds"), "failures": _combined(studies, "failures"),
    }  # fmt: skip
    written = write_files(folder, tables, describe(studies, tables))
    settings = next(iter(studies.values())).settings
    own = table["method"] == measures.CONFIDENTIAL
    for delta in settings["delta"]:
        for m in settings["m"]:
            part = table[(table["delta"] == delta) & (table["m"] == m)]
            path = folder / f"clusters_m_{m}_delta_{delta:g}.png"
            title = f"Two-stage samples, m = {m}, epsilon = {Budget(None, m).spent(delta):g}"
            if len(part):
                written.append(_figure(pd.concat([table[own], part]), path, title=title))
    return written


def _combined(studies: Studies, name: str) -> pd.DataFrame:
    parts = []
    for (icc, choice), study in studies.items():
        frame: pd.DataFrame = getattr(study, name).copy()
        frame.insert(0, "icc", icc)
        frame.insert(1, "clusters", choice)
        parts.append(frame)
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def describe(studies: Studies, tables: dict[str, pd.DataFrame]) -> str:
    """Return the text of ``summary.txt``."""
    first = next(iter(studies.values()))
    s, R = first.settings, first.replicates
    kind = s["population"].split(", ")[1]
    text = [
        f"Repeated two-stage samples (second stage: {kind}) from a simulated population (N = {first.population.N:,}, "
        f"{first.population.frame['psu'].nunique():,} PSUs): {R} samples of about n = {s['n']:,} at every icc; "
        f"predictors {s['predictors']}; prior {s['prior']}.",
        "The population is simulated: nothing here is protected, and the seed is in the settings.json of each folder.",
        "",
        "Means over domains.  sound: domains where the confidential intervals cover in "
        f"{SOUND[0]:g} to {SOUND[1]:g} of the samples.",
        "Length and se: over the confidential sample's; expected: about what se should be, for a small icc.",
    ]
    for (icc, statistic, domains), part in tables["clusters"].groupby(["icc", "statistic", "domains"], sort=False):
        text += ["", f"icc {icc:g}, {statistic}s, {domains} domains ({part['number'].max()})"]
        text.append(f"  {'':<70}coverage (MC se)   length     se   expected")
        for row in part.to_dict("records"):
            own = row["method"] == measures.CONFIDENTIAL
            name = LINES[("", "") if own else (row["clusters"], row["setting"])][0]
            budget = "" if own else f"m = {row['m']:g}, epsilon = {row['epsilon']:g}"
            expected = "" if own or pd.isna(row["expected"]) else f"{row['expected']:11.2f}"
            text.append(
                f"  {name:<44}{budget:<26}{row['coverage']:8.3f} ({row['coverage_se']:.3f})"
                f"{row['length_ratio']:9.2f}{row['se_ratio']:7.2f}{expected}"
            )
    seconds = sum(study.seconds for study in studies.values())
    failed = tables["failures"]
    text += ["", f"Work: {seconds:,.0f} s in all, {seconds / R / len(studies):.2f} s a sample and choice."]
    text.append(f"Failures: {len(failed) or 'none'}.")
    keys = ["icc", "clusters", "setting", "error"]
    for (icc, choice, setting, error), part in failed.fillna({"setting": ""}).groupby(keys):
        where = f"icc {icc:g}, {choice}" + (f", {setting}" if setting else "")
        text.append(
            f"  {where}: {error} in {part['replicate'].nunique()} of {R} samples; the first: {part['reason'].iloc[0]}"
        )
    return "\n".join(text) + "\n"


LINES = {
    ("", ""): ("Confidential sample", "#7f7f7f", "D", ":"),
    ("model", "paper"): ("FBS, effects of PSUs", "#0b6fa4", "o", "-"),
    ("model", "debias"): ("FBS, effects of PSUs, Fisher-consistent", "#0b6fa4", "^", "--"),
    ("ignore", "paper"): ("FBS, records independent", "#c26a00", "o", "-"),
    ("ignore", "debias"): ("FBS, records independent, Fisher-consistent", "#c26a00", "^", "--"),
}


def _figure(table: pd.DataFrame, path: Path, *, title: str) -> Path:
    """Draw coverage (above) and ratio of standard errors (below) against the icc, with one line for each method."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the whole process

    figure = Figure(figsize=(10.5, 7.2), layout="constrained")
    axes: Any = figure.subplots(2, 2, sharex=True)
    table = table[table["domains"] == "all"]
    shares = sorted(table["icc"].unique())
    rows = {"coverage": ("coverage of the 95% intervals", 0.95), "se_ratio": ("standard error / confidential", None)}
    for line, (measure, (label, reference)) in zip(axes, rows.items(), strict=True):
        for ax, (statistic, heading) in zip(line, plots.STATISTICS.items(), strict=True):
            here = table[table["statistic"] == statistic]
            level = here.loc[here["m"].notna(), "expected"].max() if reference is None else reference
            if np.isfinite(level):
                ax.axhline(level, color=plots.REFERENCE, ls="--", lw=1, label="0.95, or about what is expected")
            for (choice, setting), (name, color, marker, style) in LINES.items():
                part = here[(here["clusters"] == choice) & (here["setting"] == setting)].set_index("icc")
                part = part.reindex(shares)
                error = 2 * part["coverage_se"] if measure == "coverage" else None
                if part[measure].notna().any():
                    x = np.arange(len(shares))
                    look = {"color": color, "marker": marker, "ls": style, "capsize": 2}
                    ax.errorbar(x, part[measure], yerr=error, label=name, ms=5, lw=1.4, **look)
            ax.set_title(heading, fontsize=11)
            ax.set_xticks(range(len(shares)), [f"{share:g}" for share in shares])
            ax.grid(axis="y", alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(label)
    for ax in axes[1]:
        ax.set_xlabel("intraclass correlation of log salary, given field and gender")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=150)
    return path
