"""Do synthetic surveys preserve the intraclass correlation?  Repeated two-stage samples, with and without PSU effects.

The population has a known intraclass correlation.  The same samples are synthesized by FBS with effects of PSUs, and by
FBS that draws records independently.

Standard errors are compared with the confidential standard error of the same domain.  Let U be the square of the
confidential standard error.  A synthetic data set l has an estimate q_l and a variance u_l.  The variance from m data
sets is T = u_bar + b / m (Hu, Savitsky & Williams 2022a, appendix A), where b is the variance among the q_l.

- Outcomes, weights and effects of PSUs are drawn anew in each data set.  So, where the model is
  right, u_l estimates the variance U_s of an estimate from such a sample with *smoothed* weights,
  which leave out what the outcome does not explain.  Let s^2 be the variance of log weight given
  outcome and PSU.  Of a mean, what records add to U is exp(s^2) times what they add to U_s, since
  E(w^2) = (E w)^2 exp(s^2); what PSUs add is nearly the same.  So r = U_s / U is from exp(-s^2) =
  0.85 (here s = 0.4) to 1, nearer to 1 the larger the icc.  Weights that are public: r = 1.
- q_l varies by U_s about its mean given the parameters of its data set, and this mean varies by
  their pseudo posterior, with variance V: about U_s where all records have their full weight and
  the model has a parameter for the domain.

Together b = U_s + V and T = r U (1 + (1 + V / U_s) / m); the ratio of standard errors is

    sqrt(r (1 + (1 + V / U_s) / m)),   about sqrt(r (1 + 2 / m));   sqrt(r) for m = 1, where T = u.

Three things move it.  Privacy weights leave less of the file: V is U_s over about the mean weight,
and the ratio rises; they also narrow the fitted spread, and u with it falls, which is a fault.  A
model that smooths (main effects, for cells) has V below U_s.  Predictors are not drawn anew, so b
leaves out what U has from the composition of the sample.

Of counts all this holds of the weights' part of U alone, and smoothing takes most of that: of a
stratum's count (exp(s^2) - 1) / (exp(2 s^2) - 1) = 0.46 of U is left, of its cells' more.  No value
is given for them.  With public weights they are the confidential ones, but for the population
total that they are scaled to: 1.

Takes differ from PSU to PSU, and with probabilities proportional to size a larger take means
smaller weights: the weights of a PSU add up to much the same.  The number of records of a PSU is
public, and FBS has its logarithm among the predictors; without it sums over synthetic PSUs, counts
above all, would vary as the takes do.
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
from surveysynth.studies.base import SETTINGS, check_free, entropy
from surveysynth.studies.writing import write_files

from .. import figures as plots
from ..choices import StudyPrior
from ..tabular.study import POPULATION_SEED, Population, Study, repeated_sampling

CHOICES: tuple[Clusters, ...] = get_args(Clusters)
PSU_UNITS = 100  # on average, from 50 to 150: 1,000 PSUs
SHARE, FEWEST, MOST = 1 / 5, 10, 30  # the take of a PSU: this share of its units, between these numbers
SOUND = (0.93, 0.97)  # coverage of the confidential intervals where these can serve as a yardstick
KEYS = ["icc", "statistic", "method", "clusters", "setting", "delta", "m", "epsilon"]

Floats = NDArray[np.float64]
Studies = Mapping[tuple[float, Clusters], Study]


def two_stage(
    icc: float, clusters: Clusters, *, second_stage: SecondStage = "pps", predictors: str = "field + gender"
) -> Population:
    """A fixed population of doctorate holders in universities, which is sampled in two stages.

    The first stage draws universities within fields, with probability proportional to the sum of the sizes of their
    units.  The second stage draws a fifth of the units of each university, but 10 to 30.  Weights differ from unit to
    unit, and are correlated with the outcome.

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
        Formula of field, gender and take (number of units drawn in a university).  Tables are by field and gender, as
        far as they are in the formula.

    Returns
    -------
    Population
        100,000 doctorate holders.  Column ``psu`` is the university, and ``take`` the number of units drawn in it.

    Raises
    ------
    InputError
        ``icc`` is not a share; an unknown second stage; predictors other than field, gender and take, or without field
        and gender.

    Examples
    --------
    >>> population = two_stage(icc=0.05, clusters="model")
    >>> population.sample(population.frame, 2000, 1)
    SurveyDesign: 2,090 records, weights 'weight', 8 strata 'field', 92 PSUs 'psu'
    """
    if second_stage not in SAMPLES:
        raise InputError(f"second_stage={second_stage!r} is not one of {', '.join(get_args(SecondStage))}")
    named = FBS("salary", predictors).predictor_columns
    strangers = sorted(set(named) - {"field", "gender", "take"})
    if strangers:
        raise InputError(f"predictors: {', '.join(strangers)} is not one of field, gender, take")
    by = tuple(name for name in ("field", "gender") if name in named)
    if not by:
        raise InputError("predictors name neither field nor gender: the tables need at least one")
    frame = sdr_population(seed=POPULATION_SEED, errors="clustered", icc=icc, units_of_a_psu=PSU_UNITS)
    units = frame.groupby("psu")["psu"].transform("size")
    frame["take"] = (SHARE * units).round().clip(FEWEST, MOST).astype(int)
    name = f"two-stage, {second_stage}, icc {icc:g}"
    return Population(name, frame, "salary", by, predictors, SAMPLES[second_stage], {"clusters": clusters})


def sample_pps(frame: pd.DataFrame, n: int, seed: int) -> SurveyDesign:
    """Units drawn proportional to size within a PSU."""
    return sdr_sample(n, seed, population=frame, take="take")


def sample_srs(frame: pd.DataFrame, n: int, seed: int) -> SurveyDesign:
    """Simple random samples within a PSU."""
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
    """Repeated two-stage samples at every icc, and FBS with and without effects of PSUs on the same samples.

    Parameters
    ----------
    icc : list of float
    n : int
        Sample size, about: the number of PSUs is fixed, and they differ in size.
    second_stage, predictors
        As of :func:`two_stage`.
    replicates, m, delta, prior, workers, scheduler, seed
        As of :func:`replication.tabular.study.repeated_sampling`.
    out : str or Path, optional
        Folder, with one of a study each for every icc and choice.  A study that was stopped goes on from there.

    Returns
    -------
    dict of (icc, "model" or "ignore") to Study
        Both choices have the same samples.

    Raises
    ------
    InputError
        As :func:`two_stage` and :func:`replication.tabular.study.repeated_sampling`.

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
    folder = None if out is None else Path(out)
    seed = _common_seed(folder, seed)
    return {
        (share, choice): repeated_sampling(
            population, replicates=replicates, n=n, m=m, delta=delta, methods=["fbs"], prior=prior, workers=workers,
            scheduler=scheduler, out=None if folder is None else folder / f"icc_{share:g}_{choice}", seed=seed,
        )
        for (share, choice), population in populations.items()
    }  # fmt: skip


def _common_seed(folder: Path | None, seed: int | None) -> int:
    """One seed for all studies, so that all see the same samples: the one given, that of the folder, or a new one."""
    begun = [] if folder is None else sorted(folder.glob(f"*/{SETTINGS}"))
    if folder is not None and not begun:
        check_free(folder)
    return entropy(begun[0].parent if begun else None, seed)


def by_domain(studies: Studies) -> pd.DataFrame:
    """The summaries by domain of all studies, from :func:`summarize`, with the first columns ``icc`` and ``clusters``.

    The confidential samples are the same for both choices, so they appear once for each icc, with ``clusters`` empty.

    Parameters
    ----------
    studies : dict of (icc, clusters) to Study
        Of :func:`cluster_study`.

    Returns
    -------
    pandas.DataFrame
        One row for each study, method and domain.

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
    """Coverage, interval length and standard errors by icc and method, means over the domains.

    Parameters
    ----------
    studies : dict of (icc, clusters) to Study

    Returns
    -------
    pandas.DataFrame
        ``icc, statistic, method, clusters, setting, delta, m, epsilon`` and

        - ``domains``: "all", or "sound", those where the confidential sample itself covers in 0.93 to 0.97
          of the replicates (few PSUs and skewed salaries cost coverage, which nobody can give back);
          ``number`` of them.  The grand total of counts is left out: it is given to the release;
        - ``coverage`` of the 95% intervals, ``coverage_se`` its Monte Carlo standard error over the
          replicates, domains taken together;
        - ``length_ratio`` and ``se_ratio``: mean interval length and mean standard error over those of the
          confidential sample, domain by domain;
        - ``expected``: about what the second comes to where the model is right and all weight is kept
          (see the module): sqrt(r (1 + 2 / m)), or sqrt(r) for m = 1; none for counts with synthesized weights;
        - ``rmse_ratio`` of the estimates.

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
    """The approximate ratio of standard errors for an icc of 0: an array (rows,), NaN if no value can be given."""
    means = np.sqrt((1 if public else np.exp(-(SCALE**2))) * np.where(m > 1, 1 + 2 / m, 1.0))
    counts = 1.0 if public else np.nan
    return np.where(m.isna(), 1.0, np.where(statistic == "mean", means, counts))


def _coverage_error(studies: Studies, domains: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Monte Carlo standard error of the mean coverage of domains, whose estimates are correlated within a sample."""
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
    - ``bounds.csv``, ``failures.csv``: of every study, as of the tabular one;
    - ``summary.txt``, and a figure for each m and delta: coverage and standard errors against the icc.

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
    """The summary of a cluster study, from its tables."""
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
    ("ignore", "paper"): ("FBS, records independent", "#d9820f", "o", "-"),
    ("ignore", "debias"): ("FBS, records independent, Fisher-consistent", "#d9820f", "^", "--"),
}


def _figure(table: pd.DataFrame, path: Path, *, title: str) -> Path:
    """Coverage above, ratio of standard errors below, against the icc: a line a method, means over all domains."""
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
