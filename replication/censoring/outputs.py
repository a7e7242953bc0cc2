"""Tables, figures and summary of the study of mechanisms (Hu, Williams & Savitsky 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from surveysynth.privacy.budget import Budget
from surveysynth.privacy.mechanisms import Censored
from surveysynth.storage import private_folder
from surveysynth.studies.base import seed_of
from surveysynth.studies.writing import write_files

from .. import figures as plots
from ..bench import epsilon_of
from ..writing import diagnostics_text, listed, short
from .study import (
    ECDF,
    MADE_BY,
    PROBS,
    SQRT,
    STATISTICS,
    SYNTHESIZERS,
    TRUTH,
    CensoringStudy,
    Comparison,
    drawn,
    ecdf_differences,
    measures_of,
    statistics_of,
)

Floats = NDArray[np.float64]

SUMMARY = ["min", "q1", "median", "mean", "q3", "max", "sd"]

NOTICE = (
    "NOT FOR PUBLICATION. This folder holds statistics of the confidential file, computed without protection, and "
    "Lipschitz bounds. It compares mechanisms, for the agency alone. What is published is a release."
)


def invocations(study: CensoringStudy) -> pd.DataFrame:
    """Summarize how many records each mechanism clamps or gives the weight 0, next to published counts.

    Source: Hu, Williams & Savitsky 2025, Tables 1 and 3, which call these records invocations (:mod:`.study`).

    Parameters
    ----------
    study : CensoringStudy

    Returns
    -------
    pandas.DataFrame
        ``epsilon, downscale_c1, synthesizer, min, q1, median, mean, q3, max, sd``, and the printed numbers ``paper_*``,
        which are missing if the paper has no such row or another n.

    Examples
    --------
    >>> invocations(censoring_study(replicates=10))  # doctest: +SKIP
    """
    counted = study.bounds[study.bounds["invocations"].notna()]
    groups = counted.groupby(MADE_BY, sort=False)["invocations"]
    table = groups.quantile(np.array([0, 0.25, 0.5, 0.75, 1])).unstack()
    table.columns = pd.Index(["min", "q1", "median", "q3", "max"])
    table = table.assign(mean=groups.mean(), sd=groups.std())[SUMMARY].reset_index()
    table = table.rename(columns={"c1": "downscale_c1"})
    scaled_down = table["downscale_c1"] < study.plan.c1[0]  # these rows are the last, as in the paper
    table = pd.concat([table[~scaled_down], table[scaled_down]], ignore_index=True)
    with (files("replication.paper_tables") / "censoring_invocations.csv").open("rb") as file:
        paper = pd.read_csv(file).rename(columns={name: f"paper_{name}" for name in SUMMARY})
    table = table.merge(paper, on=["epsilon", "downscale_c1", "synthesizer"], how="left")
    if study.plan.n != 2000:
        table[[f"paper_{name}" for name in SUMMARY]] = np.nan
    return table


def comparable(table: pd.DataFrame, epsilon: float, c1: float, synthesizers: Sequence[str]) -> pd.DataFrame:
    """Select the rows of ``synthesizers`` with a given epsilon and a given factor c1 of the privacy weights.

    The condition on epsilon or c1 does not apply to a mechanism that does not use it.
    """
    scaled = table["synthesizer"].isin(["weighted", "weighted_e", "censor_w"])
    here = (table["epsilon"].isna() | (table["epsilon"] == epsilon)) & (~scaled | (table["c1"] == c1))
    return table[here & table["synthesizer"].isin(synthesizers)]


def write(study: CensoringStudy, out: str | Path) -> list[Path]:
    """Write the tables, the figures and the summary of a study.

    - ``table1.csv`` (:func:`invocations`), ``lipschitz.csv``, ``utility.csv`` and ``failures.csv`` (``bounds``,
      ``utility`` and ``failures`` of :class:`CensoringStudy`), ``summary.txt``;
    - ``censored_posterior.png`` (Figure 1), ``lipschitz.png`` (2), ``lipschitz_unweighted.png`` (10),
      ``max_ecdf.png`` (3), ``avg_ecdf.png`` (4), ``median.png``, ``q15.png``, ``q90.png``, ``mean.png`` (5, 11 to 20);
    - ``downscaling_*.png`` (6 to 8, 21 to 24), if there is a second c1.

    Returns
    -------
    list of Path
        The files.
    """
    tables = {
        "table1": invocations(study), "lipschitz": study.bounds, "utility": study.utility, "failures": study.failures,
    }  # fmt: skip
    return [*write_files(out, tables, describe(study)), *_figures(study, Path(out))]


def _figures(study: CensoringStudy, folder: Path) -> list[Path]:
    plan, over = study.plan, f"{study.replicates} files of Beta(0.5, 3), n = {study.plan.n:,}"
    bounds = study.bounds.assign(bound=study.bounds["censored"].fillna(study.bounds["lipschitz"]))
    titles = {epsilon: f"epsilon = {epsilon:g}" for epsilon in plan.epsilon}
    half = {titles[epsilon]: Budget(epsilon, 1).bound for epsilon in plan.epsilon}
    drawn = [censored_posterior(folder / "censored_posterior.png", seed=plan.seed)]
    kinds = SYNTHESIZERS[:4]

    def across(table: pd.DataFrame, shown: Sequence[str]) -> dict[str, pd.DataFrame]:
        return {title: comparable(table, epsilon, plan.c1[0], shown) for epsilon, title in titles.items()}

    for name, shown in (("lipschitz", kinds), ("lipschitz_unweighted", ("unweighted", *kinds))):
        drawn.append(plots.mechanism_violins(
            across(bounds, shown), "bound", folder / f"{name}.png", axis="Lipschitz bound",
            title=f"Lipschitz bounds, {over}; dashed: epsilon / 2", lines=half,
        ))  # fmt: skip
    for name, label in ECDF.items():
        drawn.append(plots.mechanism_violins(
            across(study.utility, (*SYNTHESIZERS, SQRT)), name, folder / f"{name}.png", axis=label,
            title=f"ECDF, {label}: {over}",
        ))  # fmt: skip
    truth = _truth()
    for name, label in STATISTICS.items():
        drawn.append(plots.mechanism_violins(
            across(study.utility, ("data", *SYNTHESIZERS, SQRT)), name, folder / f"{name}.png", axis=label.lower(),
            title=f"{label}, {over}; dashed: of Beta(0.5, 3)", lines=dict.fromkeys(half, truth[name]),
        ))  # fmt: skip
    if len(plan.c1) == 1:
        return drawn
    scaled, epsilon = {c1: f"c1 = {c1:g}" for c1 in plan.c1}, plan.downscaled
    panels = {"bound": (bounds, "Lipschitz bound", dict.fromkeys(scaled.values(), Budget(epsilon, 1).bound))}
    panels |= {name: (study.utility, label, {}) for name, label in ECDF.items()}
    panels |= {
        name: (study.utility, label.lower(), dict.fromkeys(scaled.values(), truth[name]))
        for name, label in STATISTICS.items()
    }
    for name, (table, label, lines) in panels.items():
        own = ("data",) if name in STATISTICS else ()
        drawn.append(plots.mechanism_violins(
            {title: comparable(table, epsilon, c1, (*own, *kinds[:3])) for c1, title in scaled.items()}, name,
            folder / f"downscaling_{'lipschitz' if name == 'bound' else name}.png", axis=label,
            title=f"Downscaled privacy weights, epsilon = {epsilon:g}: {over}", lines=lines,
        ))  # fmt: skip
    return drawn


def _truth() -> dict[str, float]:
    return {"mean": float(TRUTH.mean())} | {name: float(TRUTH.ppf(p)) for name, p in PROBS.items()}


def censored_posterior(path: str | Path, *, seed: int, n: int = 2000, epsilon: float = 1.6) -> Path:
    """Plot prior, posterior and censored posterior of the precision lambda, for a file of values from Beta(0.5, 2).

    Source: Hu, Williams & Savitsky 2025, Figure 1.

    The paper does not name its parameter, whose censored posterior is flatter.  Here the censored posterior is about as
    wide as the posterior, and far from it.  The same is true of the mean phi.
    """
    mechanisms = drawn(n, stats.beta(0.5, 2), seed_of(seed, 0, n))
    censored = mechanisms.protected(Censored(), Budget(epsilon, 1)).posterior
    fits = {"posterior": mechanisms.unweighted.posterior, "censored": censored}
    draws = {f"{name}, sd {p.values['lambda'].std():.3f}": p.values["lambda"] for name, p in fits.items()}
    middle = [values.mean() for values in draws.values()]
    far = 5 * max(values.std() for values in draws.values())
    raw, centred = np.linspace(min(middle) - far, max(middle) + far, 400), np.linspace(-far, far, 400)
    prior = stats.pareto(1.5, scale=0.1)
    panels = {
        "lambda": {"prior": (raw, prior.pdf(raw))}
        | {name: (raw, stats.gaussian_kde(values)(raw)) for name, values in draws.items()},
        "lambda less its posterior mean": {"prior": (centred, prior.pdf(centred + middle[0]))}
        | {name: (centred, stats.gaussian_kde(values - values.mean())(centred)) for name, values in draws.items()},
    }
    title = f"Precision of a beta distribution, n = {n:,} from Beta(0.5, 2); censored at epsilon = {epsilon:g}"
    return plots.density_curves(panels, path, title=title)


def describe(study: CensoringStudy) -> str:
    """Return the text of ``summary.txt``."""
    plan, s, R = study.plan, study.settings, study.replicates
    bounds = study.bounds.assign(bound=study.bounds["censored"].fillna(study.bounds["lipschitz"]))
    lines = [
        f"{R} files of n = {plan.n:,} from Beta(0.5, 3), equally weighted; epsilon = {listed(plan.epsilon)}, one "
        f"synthetic file of each mechanism (m = 1); c1 = {listed(plan.c1)}; {s['chains']} chains of {s['draws']} "
        f"draws after {s['warmup']}.",
        "The files are simulated: nothing here is protected, and the seed is in settings.json.",
        "epsilon is for one record taken out or put in under the models, for one replaced under the histogram, as in "
        "the paper.", "",
        *_bounds_text(bounds), "", *_invocations_text(study), "", *_distances_text(study), "",
        *_errors_text(study), "",
        diagnostics_text(bounds.loc[bounds["lipschitz"].notna(), "diagnostics"]),
        f"Work: {study.seconds:,.0f} s in all, {study.seconds / R:.2f} s a file.",
        f"Failures: {len(study.failures) or 'none'}.",
    ]  # fmt: skip
    for _, part in study.failures.groupby([*MADE_BY, "error"], sort=False, dropna=False):
        first = part.iloc[0]
        lines.append(f"  {_name(first)}: {first['error']} in {len(part)} of {R} files; the first: {first['reason']}")
    return "\n".join(lines) + "\n"


def _bounds_text(bounds: pd.DataFrame) -> list[str]:
    lines = ["Largest Lipschitz bound of a record: minimum, median, maximum over the files; share above epsilon / 2"]
    for _, part in bounds.dropna(subset="bound").groupby(MADE_BY, sort=False, dropna=False):
        b, epsilon = part["bound"], part["epsilon"].iloc[0]
        above = "" if np.isnan(epsilon) else f"{(b > Budget(epsilon, 1).bound).mean():12.0%}"
        lines.append(f"  {_name(part.iloc[0]):<40}{b.min():8.2f}{b.median():8.2f}{b.max():8.2f}{above}")
    return [
        *lines,
        "  Paper: Unweighted about 7.5 to 15, Weighted about 2 to 3.5; Censor_w and Censor_uw never above epsilon / 2, "
        "Weighted-e in some files",
    ]


def _invocations_text(study: CensoringStudy) -> list[str]:
    lines = [
        "Records cut off (Weighted-e) or clamped in one draw or more (Censor): mean, sd, least and most; next to them "
        "those of the paper"
    ]
    for row in invocations(study).rename(columns={"downscale_c1": "c1"}).to_dict("records"):
        ours, printed = (
            f"{row[p + 'mean']:8.0f} ({row[p + 'sd']:6.2f}){row[p + 'min']:7.0f}{row[p + 'max']:6.0f}"
            for p in ("", "paper_")
        )
        lines.append(f"  {_name(row):<40}{ours}" + ("" if pd.isna(row["paper_mean"]) else f"   paper{printed}"))
    return [
        *lines,
        "  The paper does not say what it counts. Clamped in one draw or more reproduces its Censor_uw, and alpha_i "
        "f_i above epsilon / 2, f_i of the unweighted fit, its Weighted-e. No definition that was tried reproduces its "
        "Censor_w; its Weighted-e under c1 = 0.8 is what c1 = 0.9 gives.",
    ]


def _distances_text(study: CensoringStudy) -> list[str]:
    lines = ["Distance to the confidential file, means over the files, the nearest first"]
    for epsilon in study.plan.epsilon:
        here = comparable(study.utility, epsilon, study.plan.c1[0], (*SYNTHESIZERS, SQRT))
        lines.append(f"  epsilon = {epsilon:g}")
        for measure, label in ECDF.items():
            means = here.groupby("synthesizer")[measure].mean().sort_values()
            order = ", ".join(f"{plots.MECHANISMS[str(name)]} {value:.2g}" for name, value in means.items())
            lines.append(f"    {label + ':':<43}{order}")
    return [
        *lines,
        "  Paper: Weighted first at every epsilon; of the others Censor_w (of the average at epsilon 5: Weighted-e); "
        "Censor_uw behind Censor_w; PH behind nearly all",
    ]


def _errors_text(study: CensoringStudy) -> list[str]:
    truth = pd.Series(_truth())
    errors = (study.utility[list(truth.index)] - truth) ** 2
    errors = errors.groupby([study.utility[name] for name in MADE_BY], sort=False, dropna=False).mean() ** 0.5
    lines = ["Root mean squared error about the value of Beta(0.5, 3): mean, median, 15th and 90th quantile"]
    for row in errors.reset_index().to_dict("records"):
        lines.append(f"  {_name(row):<40}" + "".join(f"{row[x]:10.5f}" for x in truth.index))
    return lines


def _name(row: Any) -> str:
    budget = "" if pd.isna(row["epsilon"]) else f", epsilon {row['epsilon']:g}"
    return plots.MECHANISMS[row["synthesizer"]] + budget + (f", c1 {row['c1']:g}" if row["c1"] < 1 else "")


# ---- the user's own file


def side_by_side(comparison: Comparison) -> pd.DataFrame:
    """Compare the mechanisms by Lipschitz bound, epsilon, distance from the data, and statistics.

    Source: Hu, Williams & Savitsky 2025, Table 2.

    Returns
    -------
    pandas.DataFrame
        ``measure, data, weighted, weighted_e, censor_w, censor_uw, perturbed_histogram``.  For ``weighted`` and
        ``weighted_e`` epsilon is twice the Lipschitz bound of the fit.
    """
    measures = ["lipschitz", "epsilon", *ECDF, *STATISTICS]
    columns = {"data": pd.Series(statistics_of(comparison.values))}
    for name in SYNTHESIZERS:
        made = comparison.made[name]
        found = measures_of(comparison.values, made.values)
        asked = name in ("censor_w", "censor_uw", "perturbed_histogram")
        spent = comparison.epsilon if asked else epsilon_of(made.bound)
        columns[name] = pd.Series(found | {"lipschitz": made.bound, "epsilon": spent})
    return pd.DataFrame(columns, index=measures).rename_axis("measure").reset_index()


def write_comparison(comparison: Comparison, out: str | Path) -> str:
    """Write the table, the densities and a summary to a new folder (mode 0700), all of them or none.

    ``table2.csv`` (:func:`side_by_side`), ``densities.png`` (Figure 9), ``summary.txt``.

    Returns
    -------
    str
        The summary.

    Raises
    ------
    InputError
        The folder exists.
    """
    with private_folder(out, NOTICE) as staging:
        table = side_by_side(comparison)
        summary = describe_comparison(comparison, table)
        write_files(staging, {"table2": table}, summary)
        outcome, epsilon = comparison.synthesizer.outcome, comparison.epsilon
        plots.density_curves(
            {outcome: _densities(comparison)}, staging / "densities.png",
            title=f"{outcome} of {comparison.values.size:,} records, confidential and synthetic, epsilon = {epsilon:g}",
        )  # fmt: skip
    return summary


def _densities(comparison: Comparison) -> dict[str, tuple[Floats, Floats]]:
    """Return kernel densities of the outcome in the data and in each synthetic file, reflected at the bounds.

    Without the reflection, mass near a bound would be lost.
    """
    low, high = comparison.synthesizer.bounds
    far = np.quantile(comparison.values, 0.99)
    grid = np.linspace(low, min(high, far + 0.25 * (far - low)), 400)
    curves, outcomes = {}, {"data": comparison.values}
    outcomes |= {name: comparison.made[name].values for name in SYNTHESIZERS}
    for name, values in outcomes.items():
        density = stats.gaussian_kde(values)
        curves[plots.MECHANISMS[name]] = (grid, density(grid) + density(2 * low - grid) + density(2 * high - grid))
    return curves


def describe_comparison(comparison: Comparison, table: pd.DataFrame) -> str:
    """Return the text of ``summary.txt`` for a comparison."""
    s = comparison.synthesizer
    heads = [plots.MECHANISMS[name] for name in table.columns[1:]]
    lines = [
        NOTICE, "",
        f"{comparison.values.size:,} records, {s.outcome} between {s.bounds[0]:g} and {s.bounds[1]:g}; beta regression "
        f"on {s.predictors}. Every record counts the same: there are no survey weights here.",
        f"One synthetic file each, epsilon = {comparison.epsilon:g}. Weighted and Weighted-e do not aim at it: theirs "
        "is twice the bound that was found, and holds asymptotically. Under the histogram epsilon is for one record "
        "replaced, under the others for one taken out or put in.", "",
        f"  {'':<10}" + "".join(f"{head:>12}" for head in heads),
    ]  # fmt: skip
    for row in table.to_dict("records"):
        lines.append(f"  {row['measure']:<10}" + "".join(f"{short(row[c]):>12}" for c in table.columns[1:]))
    finer = ecdf_differences(comparison.values, comparison.made[SQRT].values)
    made = {plots.MECHANISMS[name]: one for name, one in comparison.made.items()}
    counted = [f"{name} {one.invocations:,.0f}" for name, one in made.items() if not np.isnan(one.invocations)]
    failed = [f"{name}: {one.diagnostics}" for name, one in made.items() if one.diagnostics]
    lines += [
        "", "PH has ceil(log n) bins, as the paper's; with ceil(sqrt(n)): "
        f"max_ecdf {finer[0]:.4g}, avg_ecdf {finer[1]:.4g}.",
        f"Records cut off or clamped: {', '.join(counted)}.",
        f"Sampler diagnostics that would stop a release, of few draws: {'; '.join(failed) or 'none'}.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
