"""Tables, figures and summary of the study of re-weighting (Hu, Savitsky & Williams 2020)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from surveysynth.estimation.intervals import overlap
from surveysynth.storage import private_folder
from surveysynth.studies import measures
from surveysynth.studies.writing import write_files

from .. import figures as plots
from ..bench import epsilon_of
from ..censoring.study import ECDF
from ..censoring.study import STATISTICS as LABELS
from ..writing import diagnostics_text, short
from .bench import ENDS, STATISTICS, SYNTHESIZERS
from .inputs import truth
from .study import ON_THE_CURVE, POISSON_SYNTHESIZERS, SDR_SYNTHESIZERS, Comparison, ReweightingStudy

IN_THE_PAPER = ("data", "LW", "LW_final", "CW", "CW_final")  # the columns of Table 1 of the paper
NOTICE = (
    "NOT FOR PUBLICATION. This folder holds statistics of the confidential file, computed without protection, and "
    "Lipschitz bounds and privacy weights of single records. It compares privacy weights, for the agency alone. What "
    "is published is a release."
)
RATIO, OVERLAP = "rmse_ratio", "overlap"
MIDDLE = "median over statistics"


def table1(study: ReweightingStudy) -> pd.DataFrame:
    """Compare intervals from the negative binomial mixture with those of Hu, Savitsky & Williams (2020, Table 1).

    Returns
    -------
    pandas.DataFrame
        ``statistic, synthesizer``, the ends ``low, high`` averaged over synthetic files and replicates, and
        ``paper_low, paper_high``, which are missing if the paper has another n or does not have the synthesizer.
    """
    own = study.files[(study.files["data"] == "nb_mixture") & study.files["epsilon"].isna()]
    ends = own.groupby("synthesizer")[ENDS].mean()
    names = [*IN_THE_PAPER, "LW_flat", "CW_flat"]
    rows = [
        {"statistic": statistic, "synthesizer": name, "low": ends.at[name, f"{statistic}_low"],
         "high": ends.at[name, f"{statistic}_high"]}
        for statistic in STATISTICS for name in names if name in ends.index
    ]  # fmt: skip
    with (files("replication.paper_tables") / "reweighting_intervals.csv").open("rb") as file:
        paper = pd.read_csv(file).rename(columns={"low": "paper_low", "high": "paper_high"})
    table = pd.DataFrame(rows).merge(paper, on=["statistic", "synthesizer"], how="left")
    if study.plan.n != 1000:
        table[["paper_low", "paper_high"]] = np.nan
    return table


def utility(study: ReweightingStudy) -> pd.DataFrame:
    """Average measures of utility over the synthetic files of each fit that is not tuned to an epsilon (c1 = 1).

    Returns
    -------
    pandas.DataFrame
        ``replicate, data, synthesizer, max_ecdf, avg_ecdf, q15, q90, mean, median``, and the posterior means
        ``mu, phi``.
    """
    keys = ["replicate", "data", "synthesizer"]
    own = study.files[study.files["epsilon"].isna()]
    means = own.groupby(keys, sort=False)[[*ECDF, *STATISTICS]].mean().reset_index()
    return means.merge(_part(study, "file")[[*keys, "mu", "phi"]], on=keys, how="left")


def shares(study: ReweightingStudy) -> pd.DataFrame:
    """Average the share of records with privacy weights below 1, and the Lipschitz bound, by size of the file.

    Returns
    -------
    pandas.DataFrame
        ``rule`` ("c1 = 1" as in the paper, or an epsilon), ``n, synthesizer, replicates``, the means ``weighted_down``
        and ``lipschitz``, and the range ``spread`` and standard deviation ``sd`` of the bounds.
    """
    rows = _part(study, "share")
    rows = rows.assign(rule=["c1 = 1" if pd.isna(x) else f"epsilon = {x:g}" for x in rows["epsilon"]])
    groups = rows.groupby(["rule", "n", "synthesizer"], sort=False)
    bound = groups["lipschitz"]
    return pd.DataFrame(
        {
            "replicates": groups.size(), "weighted_down": groups["weighted_down"].mean(), "lipschitz": bound.mean(),
            "spread": bound.max() - bound.min(), "sd": bound.std(),
        }
    ).reset_index()  # fmt: skip


def curve(study: ReweightingStudy) -> pd.DataFrame:
    """Compute RMSE ratio and interval overlap of each statistic at each epsilon, for counts from the mixture model.

    Returns
    -------
    pandas.DataFrame
        ``epsilon, synthesizer, statistic, rmse_ratio, overlap, lipschitz, mean_alpha, weighted_down, replicates``.
        ``rmse_ratio`` is the RMSE about the true value, divided by the RMSE of the confidential files.  ``overlap`` is
        the mean overlap with the confidential intervals.  The statistic "median over statistics" has the medians over
        the other statistics.
    """
    own = study.files[study.files["data"] == "nb_mixture"]
    private = own[own["epsilon"].notna()]
    confidential = own[own["synthesizer"] == "data"].set_index("replicate")
    reference = confidential.loc[private["replicate"]].reset_index(drop=True)
    private, keys = private.reset_index(drop=True), ["epsilon", "synthesizer"]
    tables = []
    for statistic, value in ((name, truth("nb_mixture")[name]) for name in STATISTICS):
        low, high = f"{statistic}_low", f"{statistic}_high"
        rows = private[[*keys, "replicate"]].assign(
            error=(private[statistic] - value) ** 2,
            own=(reference[statistic] - value) ** 2,
            overlap=overlap(private[low], private[high], reference[low], reference[high]),
        )
        groups = rows.groupby(keys, sort=False)
        found = groups[["error", "own", OVERLAP]].mean()
        found[RATIO] = np.sqrt(found.pop("error") / found.pop("own"))
        tables.append(found.assign(statistic=statistic, replicates=groups["replicate"].nunique()).reset_index())
    table = pd.concat(tables, ignore_index=True)
    middle = table.groupby(keys, sort=False)[[RATIO, OVERLAP, "replicates"]].median().reset_index()
    table = pd.concat([table, middle.assign(statistic=MIDDLE)], ignore_index=True)
    facts = _part(study, "curve").groupby(keys)[["lipschitz", "mean_alpha", "weighted_down"]].mean().reset_index()
    table = table.merge(facts, on=keys, how="left")
    columns = [*keys, "statistic", RATIO, OVERLAP, "lipschitz", "mean_alpha", "weighted_down", "replicates"]
    return table.sort_values("epsilon", kind="stable", ignore_index=True)[columns]


def survey_samples(study: ReweightingStudy) -> pd.DataFrame:
    """Summarize the samples of simulated doctorate holders by medians over the domains.

    Returns
    -------
    pandas.DataFrame
        ``epsilon, synthesizer, statistic, rmse_ratio, overlap, length_ratio, coverage, lipschitz, mean_alpha,
        weighted_down, flatness, replicates``.
    """
    by = [c for c in ("field", "gender") if c in study.estimates]
    found = measures.summarize(study.estimates, by)
    found = found[found["method"] != measures.CONFIDENTIAL].rename(columns={"method": "synthesizer"})
    keys = ["epsilon", "synthesizer", "statistic"]
    shown = [RATIO, OVERLAP, "length_ratio", "coverage"]
    table = found.groupby(keys, sort=False)[[*shown, "replicates"]].median().reset_index()
    facts = ["lipschitz", "mean_alpha", "weighted_down", "flatness"]
    weights = _part(study, "sdr").groupby(keys[:2])[facts].mean().reset_index()
    table = table.merge(weights, on=keys[:2], how="left")[[*keys, *shown, *facts, "replicates"]]
    return table.sort_values(["statistic", "epsilon"], kind="stable", ignore_index=True)


def _part(study: ReweightingStudy, part: str) -> pd.DataFrame:
    return study.bounds[study.bounds["part"] == part]


def write(study: ReweightingStudy, out: str | Path) -> list[Path]:
    """Write the tables, the figures and the summary of a study.

    - ``table1.csv`` (:func:`table1`), ``bounds.csv`` (every fit with c1 = 1), ``weights.csv`` (the records of
      the first replicate), ``utility.csv`` (:func:`utility`), ``share.csv`` (:func:`shares`), ``curve.csv``
      (:func:`curve`), ``sdr.csv`` (:func:`survey_samples`), ``failures.csv`` (the errors), ``summary.txt``;
    - for the first replicate ``bounds_before.png`` (Figure 1), ``bounds_weights.png`` (2, 3), ``before_after.png``
      (4A), ``weights.png`` (4B to D), ``utility.png`` (5);
    - for all replicates ``local_bounds_poisson.png`` (10), ``estimands_poisson.png`` (11), ``local_bounds_nb.png``
      (12), ``estimands_nb.png`` (13); ``curve.png``.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(out)
    shown = ["replicate", "data", "synthesizer", "lipschitz", "k", "steps", "flatness", "weighted_down", "mean_alpha"]
    tables = {
        "table1": table1(study), "bounds": _part(study, "file")[[*shown, "diagnostics"]],
        "weights": study.records.drop(columns="synthetic"), "utility": utility(study), "share": shares(study),
        "curve": curve(study), "sdr": survey_samples(study), "failures": study.failures,
    }  # fmt: skip
    written = write_files(folder, tables, describe(study))
    first = study.files[(study.files["replicate"] == 1) & study.files["epsilon"].isna()]
    n, mixture = study.plan.n, "nb_mixture"
    drawn = _file_figures(
        study.records[study.records["data"] == mixture], first[first["data"] == mixture], folder,
        f"{n:,} counts of 0.2 NB(100, 5) + 0.8 NB(100, 20)",
    )  # fmt: skip
    return [*written, *drawn, *_over_replicates(study, folder), _curve(study, folder)]


def _file_figures(records: pd.DataFrame, own: pd.DataFrame, folder: Path, what: str) -> list[Path]:
    """Draw Figures 1 to 9 of Hu, Savitsky & Williams (2020) for one file of counts."""
    data = own[own["synthesizer"] == "data"].iloc[0]
    before = records[records["synthesizer"].isin(["unweighted", "LW", "CW"])]
    label = "Lipschitz bound of a record"
    values = records[["synthesizer", "synthetic"]].rename(columns={"synthetic": "value"})
    confidential = records.loc[records["synthesizer"] == records["synthesizer"].iloc[0], ["value"]]
    values = pd.concat([confidential.assign(synthesizer="data"), values])
    private = own[own["synthesizer"] != "data"]
    panels = {LABELS[name].lower(): (private, name) for name in STATISTICS}
    lines = {LABELS[name].lower(): float(data[name]) for name in STATISTICS}
    panels |= {"mu of the draw": (private, "mu"), "value": (values, "value")}
    return [
        plots.weighting_violins(
            {label: (before, "bound")}, folder / "bounds_before.png", title=f"Before re-weighting: {what}"
        ),
        plots.bounds_against_weights(records, folder / "bounds_weights.png", title=f"Bounds and weights: {what}"),
        plots.weighting_violins(
            {label: (records[records["synthesizer"] != "unweighted"], "bound")}, folder / "before_after.png",
            title=f"Before and after re-weighting: {what}",
        ),
        plots.weight_changes(records, folder / "weights.png", title=f"Privacy weights: {what}"),
        plots.weighting_violins(
            panels, folder / "utility.png", lines=lines,
            title=f"Synthetic files, {len(private) // private['synthesizer'].nunique()} a synthesizer; dashed: the "
            f"confidential file; {what}",
        ),
    ]  # fmt: skip


def _over_replicates(study: ReweightingStudy, folder: Path) -> list[Path]:
    """Draw Figures 10 to 13 of Hu, Savitsky & Williams (2020, appendix D) for the replicates of a study."""
    drawn, over = [], f"{study.replicates} files, n = {study.plan.n:,}"
    bounds, means = _part(study, "file"), utility(study)
    for name, data, what, shown in (
        ("poisson", "poisson", "Poisson(100)", POISSON_SYNTHESIZERS),
        ("nb", "nb_mixture", "0.2 NB(100, 5) + 0.8 NB(100, 20)", SYNTHESIZERS[:4]),
    ):
        here = bounds[(bounds["data"] == data) & bounds["synthesizer"].isin(shown)]
        local = here.groupby("synthesizer")["lipschitz"]
        notes = {str(which): f"spread {b.max() - b.min():.2f}, sd {b.std():.2f}" for which, b in local}
        drawn.append(plots.weighting_violins(
            {"local Lipschitz bound": (here, "lipschitz")}, folder / f"local_bounds_{name}.png", notes=notes,
            title=f"Lipschitz bounds of {what}: {over}",
        ))  # fmt: skip
        estimands = means[(means["data"] == data) & means["synthesizer"].isin(("data", *SYNTHESIZERS))]
        drawn.append(plots.weighting_violins(
            {LABELS[x].lower(): (estimands, x) for x in ("mean", "median", "q15", "q90")},
            folder / f"estimands_{name}.png", title=f"Estimands of {what}: {over}; dashed: true value",
            lines={LABELS[x].lower(): value for x, value in truth(data).items()},
        ))  # fmt: skip
    return drawn


def _curve(study: ReweightingStudy, folder: Path) -> Path:
    mixture, surveys = curve(study), survey_samples(study)
    panels = {"Counts, m = 1: median over 4 statistics": mixture[mixture["statistic"] == MIDDLE]}
    for statistic in surveys["statistic"].unique():
        panels[f"Survey, m = 3: median over {statistic}s of domains"] = surveys[surveys["statistic"] == statistic]
    axes = {RATIO: "RMSE over the confidential RMSE", OVERLAP: "interval overlap"}
    samples = min(study.plan.curves, study.replicates)
    title = f"Privacy weights at the same epsilon, {samples} samples; dashed lines: before re-weighting"
    return plots.epsilon_curves(panels, axes, folder / "curve.png", title=title)


def describe(study: ReweightingStudy) -> str:
    """Return the text of ``summary.txt``."""
    plan, s, R = study.plan, study.settings, study.replicates
    text = [
        f"{R} files of n = {plan.n:,} counts each, from 0.2 NB(100, 5) + 0.8 NB(100, 20) (mean, dispersion) and from "
        f"Poisson(100), equally weighted; {s['files']} synthetic files of each fit; {s['chains']} chains of "
        f"{s['draws']} draws after {s['warmup']}.",
        "Appendix D of the paper prints NB(100, 5) twice, where its section 2 has 5 and 20, as drawn here; it "
        "does not print the mean of its Poisson counts: 100 is taken.",
        "The files are simulated: nothing here is protected, and the seed is in settings.json.",
        "LW: linear map of Lipschitz bounds, CW: of the share of records further away than a fifth of the count; "
        "c1 = 1, c2 = 0. _final: one step of re-weighting; _flat: up to 10.", "",
        "95% intervals of the mixture beside Table 1 of the paper, which does not say what its interval is over; its "
        "width is that of sampling within one file. Ours: bootstrap percentile intervals within a synthetic file, "
        "averaged",
    ]  # fmt: skip
    for statistic, part in table1(study).groupby("statistic", sort=False):
        text.append(f"  {LABELS[str(statistic)]}")
        for row in part.to_dict("records"):
            paper = f"   paper [{row['paper_low']:6.1f}, {row['paper_high']:6.1f}]"
            printed = "" if pd.isna(row["paper_low"]) else paper
            text.append(f"    {row['synthesizer']:<12}[{row['low']:6.1f}, {row['high']:6.1f}]{printed}")
    text += ["", *_bounds_text(study), "", *_flatness_text(study), "", *_shares_text(study), ""]
    text += [*_curves_text(study), "", *_choice_text(study), ""]
    text += [
        diagnostics_text(study.bounds.loc[study.bounds["part"] != "sdr", "diagnostics"]),
        f"Work: {study.seconds:,.0f} s in all.",
        f"Failures: {len(study.failures) or 'none'}.",
    ]
    for (data, name, error), part in study.failures.groupby(["data", "synthesizer", "error"], sort=False):
        text.append(f"  {data}, {name}: {error}, {len(part)} times; the first: {part['reason'].iloc[0]}")
    return "\n".join(text) + "\n"


def _bounds_text(study: ReweightingStudy) -> list[str]:
    text = [
        "Lipschitz bound Delta of a file: mean, least, largest, spread, sd over the files; mean alpha; share of "
        "records with alpha < 1"
    ]
    for (data, name), part in _part(study, "file").groupby(["data", "synthesizer"], sort=False):
        b = part["lipschitz"]
        numbers = (b.mean(), b.min(), b.max(), b.max() - b.min(), b.std())
        shares = f"{part['mean_alpha'].mean():9.3f}{part['weighted_down'].mean():9.3f}"
        text.append(f"  {data:<12}{name:<12}" + "".join(f"{x:8.2f}" for x in numbers) + shares)
    return [*text, "  Paper: about 3.5 for Poisson counts under LW re-weighted, 6 for the mixture"]


def _flatness_text(study: ReweightingStudy) -> list[str]:
    mixture = study.files["data"].eq("nb_mixture") & study.files["epsilon"].isna()
    bounds = _part(study, "file")[lambda t: t["data"] == "nb_mixture"].groupby("synthesizer")
    wide = bounds[["mean_alpha", "flatness", "steps"]].mean()
    values, own = truth("nb_mixture"), study.files[mixture]
    errors = (own[list(STATISTICS)] - pd.Series(values)[list(STATISTICS)]) ** 2
    errors = errors.groupby(own["synthesizer"]).mean() ** 0.5
    text = [
        "What re-weighting gains on the mixture: mean alpha; least bound of the records weighted down over Delta; "
        "steps taken; RMSE about the mixture's 15th and 90th quantile, mean, median"
    ]
    for name in (x for x in SYNTHESIZERS if x in wide.index):
        row, numbers = wide.loc[name], "".join(f"{x:8.2f}" for x in errors.loc[name])
        text.append(f"  {name:<12}{row['mean_alpha']:8.3f}{row['flatness']:8.2f}{row['steps']:8.1f}{numbers}")
    text.append(f"  {'data':<36}" + "".join(f"{x:8.2f}" for x in errors.loc["data"]))
    means = own.groupby("synthesizer")[list(STATISTICS)].mean()
    if {"CW", "CW_final"} <= set(means.index):
        ratio = (means.loc["CW_final"] - means.loc["data"]).abs() / (means.loc["CW"] - means.loc["data"]).abs()
        regained = ", ".join(f"{LABELS[x].lower()} {1 - ratio[x]:.0%}" for x in STATISTICS)
        text.append(f"  Of CW's mean distance to the confidential statistics one step takes back: {regained}")
    return text


def _shares_text(study: ReweightingStudy) -> list[str]:
    table = shares(study)
    sizes = sorted(table["n"].unique())
    text = [
        "Share of the records with alpha < 1 (mean Delta; its spread over the files), by n",
        f"  {'':<28}" + "".join(f"{f'n = {n:,}':>22}" for n in sizes),
    ]
    for (rule, name), part in table.groupby(["rule", "synthesizer"], sort=False):
        cells = part.set_index("n")
        found = (
            f"{row['weighted_down']:.3f} ({row['lipschitz']:.2f}; {row['spread']:.2f})"
            for n in sizes for row in cells[cells.index == n].to_dict("records")
        )  # fmt: skip
        text.append(f"  {rule:<16}{name:<12}" + "".join(f"{cell:>22}" for cell in found))
    free = table[(table["rule"] == "c1 = 1") & (table["synthesizer"] == "LW")].set_index("n")["lipschitz"]
    text.append(
        "  The paper says that this share must vanish for the guarantee to hold asymptotically. Once the bounds are "
        "flat it is the share of records with |log p| above Delta. At a fixed epsilon Delta is fixed, and the share "
        "tends to the probability of that, which is not 0. Under the paper's rule Delta is what the linear map makes "
        "it, about max f^2 / (4 (max f - min f)): where the largest risk grows with the file, as with long tails, "
        "Delta does, too, and epsilon is not constant."
    )
    if len(sizes) > 1 and {sizes[0], sizes[-1]} <= set(free.index):
        text[-1] += (
            f" Here it is {free[sizes[0]]:.2f} on average at n = {sizes[0]:,}, and {free[sizes[-1]]:.2f} at n = "
            f"{sizes[-1]:,}."
        )
    return text


def _curves_text(study: ReweightingStudy) -> list[str]:
    mixture, surveys = curve(study), survey_samples(study)
    tables: dict[str, tuple[pd.DataFrame, tuple[str, ...]]] = {
        "counts, median over the statistics (m = 1)": (mixture[mixture["statistic"] == MIDDLE], ON_THE_CURVE)
    }
    for statistic in surveys["statistic"].unique():
        here = surveys[surveys["statistic"] == statistic]
        tables[f"survey, {statistic}s of domains, median (m = 3)"] = (here, SDR_SYNTHESIZERS)
    text = ["RMSE over that of the confidential sample, and interval overlap, by epsilon"]
    for heading, (table, names) in tables.items():
        levels = sorted(table["epsilon"].unique())
        replicates = f"{table['replicates'].max():.0f} samples"
        text += [f"  {heading}, {replicates}", f"    {'':<16}" + "".join(f"{x:>14g}" for x in levels)]
        for name in names:
            cells = table[table["synthesizer"] == name]
            worth = zip(cells["epsilon"], cells[RATIO], cells[OVERLAP], strict=True)
            found = {x: f"{ratio:>8.2f}{common:>6.2f}" for x, ratio, common in worth}
            text.append(f"    {name:<16}" + "".join(found.get(x, f"{'-':>14}") for x in levels))
        means = table.groupby("synthesizer")[RATIO].mean().sort_values()
        order = ", ".join(f"{plots.WEIGHTINGS[str(name)]} {value:.2f}" for name, value in means.items())
        text.append(f"    Mean of the ratios, the least first: {order}")
    text += ["  Survey: mean length of intervals over the confidential one, mean alpha, share with alpha < 1"]
    for row in surveys[surveys["statistic"] == surveys["statistic"].iloc[0]].to_dict("records"):
        numbers = f"{row['length_ratio']:8.2f}{row['mean_alpha']:8.3f}{row['weighted_down']:8.3f}"
        text.append(f"    epsilon {row['epsilon']:<8g}{row['synthesizer']:<16}{numbers}")
    return text


def _choice_text(study: ReweightingStudy) -> list[str]:
    """Return lines of the summary: mean RMSE ratios over epsilon, and advice on the choice of privacy weights."""
    mixture, surveys, bounds = curve(study), survey_samples(study), _part(study, "file")
    flat = bounds[bounds["data"] == "nb_mixture"].groupby("synthesizer")["flatness"].mean()
    samples = min(study.plan.curves, study.replicates)
    text = [
        "Which to choose. One step of re-weighting turns any weights into those of the inverse map, with the bounds of "
        "a weighted fit for those of the unweighted one, so at the same epsilon the two end up near each other. The "
        "inverse map makes weights that follow from a record's risk and constants, so that what it does to the model "
        "can be corrected (debias); no other weights here do. Re-weight where weights come from a risk by counting or "
        "from the linear map."
    ]
    for what, table in (("counts", mixture[mixture["statistic"] == MIDDLE]), ("survey", surveys)):
        means = table.groupby("synthesizer")[RATIO].mean()
        order = ", ".join(f"{plots.WEIGHTINGS[str(name)]} {value:.2f}" for name, value in means.items())
        text.append(f"  RMSE ratios, means over epsilon, {what}: {order}")
    text.append(
        f"  Of {samples} samples; an RMSE from R samples is uncertain by about 1 / sqrt(2 R) of itself, here "
        f"{1 / np.sqrt(2 * samples):.0%}: single ratios that differ by less say nothing."
    )
    uneven = ", ".join(f"{name} {flat[name]:.2f}" for name in flat.index if "_" in str(name))
    text.append(
        "  Go on until weights rise no more where one step leaves bounds uneven. Least bound of the records weighted "
        f"down, as a share of Delta: {uneven}."
    )
    return text


# ---- the user's own file


def side_by_side(comparison: Comparison) -> pd.DataFrame:
    """Compare the synthesizers: Lipschitz bound, epsilon, privacy weights, and statistics of the synthetic files.

    Returns
    -------
    pandas.DataFrame
        One row for each synthesizer: ``synthesizer, lipschitz``, ``epsilon`` of one file (twice the bound),
        ``mean_alpha, weighted_down, flatness, steps``, and means over the files of ``max_ecdf, avg_ecdf, q15, q90,
        mean, median`` and of the ends of intervals.
    """
    means = comparison.files.groupby("synthesizer", sort=False)[[*ECDF, *STATISTICS, *ENDS]].mean()
    fits = comparison.bounds.set_index("synthesizer")
    facts = fits[["lipschitz"]].assign(epsilon=fits["lipschitz"].map(epsilon_of))
    facts = facts.join(fits[["mean_alpha", "weighted_down", "flatness", "steps"]])
    return means.join(facts)[[*facts, *means]].reset_index()


def write_comparison(comparison: Comparison, out: str | Path) -> str:
    """Write the table, the figures and a summary to a new folder (mode 0700), all of them or none.

    ``table.csv`` (:func:`side_by_side`), ``bounds_before.png``, ``bounds_weights.png`` (Figure 6),
    ``before_after.png`` and ``weights.png`` (7), ``utility.png`` (8, 9), ``summary.txt``.

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
        write_files(staging, {"table": table}, summary)
        n = comparison.records["record"].max()
        _file_figures(comparison.records, comparison.files, staging, f"{comparison.model.outcome} of {n:,} records")
    return summary


def describe_comparison(comparison: Comparison, table: pd.DataFrame) -> str:
    """Return the text of ``summary.txt`` for a comparison."""
    model, n = comparison.model, comparison.records["record"].max()
    files_per_fit = comparison.files["file"].max()
    heads = ["Delta", "epsilon", "alpha", "< 1", "q15", "q90", "mean", "median", "max ECDF"]
    columns = ["lipschitz", "epsilon", "mean_alpha", "weighted_down", *STATISTICS, "max_ecdf"]
    text = [
        NOTICE, "",
        f"{n:,} records, {model.outcome}; negative binomial on {model.predictors}. Every record counts the same: there "
        "are no survey weights here.",
        f"{files_per_fit} synthetic files of each fit. epsilon = 2 Delta is what one of them would spend: c1 = 1, and "
        "nothing is tuned. _final: one step of re-weighting; _flat: up to 10.", "",
        f"  {'':<12}" + "".join(f"{head:>10}" for head in heads),
    ]  # fmt: skip
    for row in table.to_dict("records"):
        text.append(f"  {row['synthesizer']:<12}" + "".join(f"{short(row[c]):>10}" for c in columns))
    text += ["", "95% bootstrap intervals within a file, averaged over the files: q15, q90, mean, median"]
    for row in table.to_dict("records"):
        ends = (f"[{short(row[f'{x}_low'])}, {short(row[f'{x}_high'])}]" for x in STATISTICS)
        text.append(f"  {row['synthesizer']:<12}" + "".join(f"{end:>22}" for end in ends))
    fits = comparison.bounds[comparison.bounds["diagnostics"] != ""]
    failed = [f"{row['synthesizer']}: {row['diagnostics']}" for row in fits.to_dict("records")]
    text += ["", f"Sampler diagnostics that would stop a release, of few draws: {'; '.join(failed) or 'none'}."]
    return "\n".join(text) + "\n"
