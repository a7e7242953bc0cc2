"""Tables, figures and summary of the study of identification risk (Hu, Savitsky & Williams 2022b)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from surveysynth.storage import private_folder
from surveysynth.studies.writing import write_files

from .. import figures as plots
from ..writing import short
from .bench import HIGH, LOW, RAISED, STATISTICS
from .inputs import ADJUSTMENTS, KINDS, LINES
from .study import RiskEfficientStudy

NOTICE = (
    "NOT FOR PUBLICATION. This folder holds statistics of the confidential file, computed without protection, and "
    "identification risks and privacy weights of single records. It compares privacy weights, for the agency alone. "
    "What is published is a release."
)
NAMES = {"mean": "mean", "median": "median", "q90": "90th percentile", "coefficient": "coefficient"}
SHOWN = ("data", "topcoding", "synthesizer", *KINDS)  # columns of the tables of single records
TEN = 10  # records in Tables 2 and 3 of the paper
IQR_IN_PAPER = {"marginal": 0.1534, "pairwise": 0.1385}  # section 3.3.1 of the paper
ROW = list(LINES[:3])
Finding = tuple[str, bool, str]  # a finding of the paper, whether it holds here, and the numbers


def profile(study: RiskEfficientStudy) -> pd.DataFrame:
    """Summarize the identification risks in every kind of file, for the main radius of the intruder's search.

    Returns
    -------
    pandas.DataFrame
        ``synthesizer, c1, c2`` and the columns of :func:`replication.risk_efficient.bench.profile_of`.
    """
    radius, table = study.plan.radius, study.profile
    here = table[(table["at"] == radius) & (table["radius"].isna() | (table["radius"] == radius))]
    return here.drop(columns=["radius", "at"]).reset_index(drop=True)


def utility(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return estimates and intervals from every kind of file, for privacy weights with the main search radius."""
    radius, table = study.plan.radius, study.utility
    here = table[table["radius"].isna() | (table["radius"] == radius)]
    return here.drop(columns="radius").reset_index(drop=True)


def effect_of_radius(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return identification risk and utility for every radius of the intruder's search.

    Returns
    -------
    pandas.DataFrame
        ``synthesizer, radius`` (for the privacy weights), ``at`` (radius with which risk is measured), the columns of
        the risk profile, and the relative difference of every statistic from the data.
    """
    keys, risk, worth = ["synthesizer", "radius"], _plain(study.profile), _plain(study.utility)
    wide = worth.pivot_table(index=keys, columns="statistic", values="relative_difference", dropna=False, sort=False)
    wide = wide.reindex(columns=_statistics(study)).add_prefix("relative_difference_").reset_index()
    return risk.drop(columns=["c1", "c2"]).merge(wide, on=keys, how="left")


def riskiest(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return the ten records with the largest risk in the confidential file, with ranges instead of values.

    Source: Hu, Savitsky & Williams 2022b, Table 2.

    :func:`record_table` describes the columns.
    """
    wide = _risks(study)
    return record_table(wide.sort_values("data", ascending=False, kind="stable").head(TEN))


def largest(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return the ten records with the largest values, which are given as ranges, and their identification risks.

    Source: Hu, Savitsky & Williams 2022b, Table 3.

    :func:`record_table` describes the columns.
    """
    wide = _risks(study)
    return record_table(wide.sort_values("value", ascending=False, kind="stable").head(TEN))


def record_table(wide: pd.DataFrame) -> pd.DataFrame:
    """Replace the values of records by ranges.

    Parameters
    ----------
    wide : pandas.DataFrame
        ``value``, and a column of identification risks for every kind of file with c1 = 1, c2 = 0.

    Returns
    -------
    pandas.DataFrame
        The same columns, with ``value`` as a range (:func:`band`).  The risks are confidential.
    """
    return wide.assign(value=[band(value) for value in wide["value"]]).reset_index(drop=True)


def band(value: float) -> str:
    """Return the range between two powers of ten that contains a value.

    The paper prints confidential values in this way.
    """
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)) + 1e-12)
    low, high = (f"{10.0**k:,.0f}" if k >= 0 else f"{10.0**k:g}" for k in (power, power + 1))
    return f"[{low}, {high})" if value > 0 else f"(-{high}, -{low}]"


def _risks(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return the values of the records, with a column of risks for each kind of file."""
    table = _plain(study.records)
    risks = table.pivot_table(index=["record", "value"], columns="synthesizer", values="risk", sort=False)
    return risks.reindex(columns=[name for name in SHOWN if name in risks]).reset_index("value")


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows with unadjusted privacy weights (c1 = 1, c2 = 0), and the rows without privacy weights."""
    c1, c2 = ADJUSTMENTS[0]
    return table[table["c1"].isin([np.nan, c1]) & table["c2"].isin([np.nan, c2])]


def _statistics(study: RiskEfficientStudy) -> list[str]:
    return [*STATISTICS, *(["coefficient"] if study.plan.coefficient is not None else [])]


def printed() -> pd.DataFrame:
    """Read the estimates and intervals that are printed in Hu, Savitsky & Williams (2022b).

    They are for another file than that of the study (Tables 4-6, supplement Tables 1-4).
    """
    with (files("replication.paper_tables") / "risk_efficient_utility.csv").open("rb") as file:
        return pd.read_csv(file)


def beside_paper(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return the relative difference of each estimate from the confidential one, next to the published difference.

    The estimates of Hu, Savitsky & Williams (2022b) are for another file.

    Returns
    -------
    pandas.DataFrame
        ``synthesizer, c1, c2, statistic, relative_difference, holds_data`` (whether the 95% interval covers the
        estimate of the data), ``paper_relative_difference, paper_holds_data``.
    """
    keys = [*ROW, "statistic"]
    ours = _distances(utility(study))[[*keys, "relative_difference", "holds_data"]]
    theirs = _distances(printed())[[*keys, "relative_difference", "holds_data"]]
    theirs = theirs.rename(columns={c: f"paper_{c}" for c in ("relative_difference", "holds_data")})
    table = ours.merge(theirs, on=keys, how="left")
    return table[~table["synthesizer"].isin(["data", "topcoding"])].reset_index(drop=True)


def _distances(estimates: pd.DataFrame) -> pd.DataFrame:
    """Add relative differences from the confidential estimates, and whether the intervals cover those estimates."""
    data = estimates[estimates["synthesizer"] == "data"].set_index("statistic")["estimate"]
    own = data.loc[estimates["statistic"]].to_numpy(dtype=float)
    return estimates.assign(
        relative_difference=(estimates["estimate"] - own) / np.where(own != 0, np.abs(own), np.nan),
        holds_data=(estimates["ci_low"] <= own) & (own <= estimates["ci_high"]),
    )


# ---- findings


def findings(study: RiskEfficientStudy) -> pd.DataFrame:
    """Return the findings of Hu, Savitsky & Williams (2022b), and whether they hold for this file.

    Returns
    -------
    pandas.DataFrame
        ``finding``, ``holds``, and ``numbers``, the comparison that decides whether the finding holds.
    """
    found = [*_risk_findings(study), *_utility_findings(study), *_adjustment_findings(study)]
    return pd.DataFrame(found, columns=["finding", "holds", "numbers"])


def _risk_findings(study: RiskEfficientStudy) -> list[Finding]:
    risk = _plain(profile(study)).set_index("synthesizer")
    found = [*_mean_risk_findings(risk), *_large_risk_findings(risk), *_rise_findings(risk, study.n)]
    return [*found, *_topcoding_findings(risk)]


def _mean_risk_findings(risk: pd.DataFrame) -> list[Finding]:
    mean, low = risk["mean"], risk["low"]
    shift = mean["synthesizer"] - mean[list(KINDS)]
    return [
        (
            "The synthesizer lowers the mean risk of the data; privacy weights lower it further",
            bool(mean["data"] > mean["synthesizer"] and (shift > 0).all()),
            f"Data {mean['data']:.3f}, " + _with_errors(risk.loc[["synthesizer", *KINDS]]),
        ),
        (
            "Privacy weights move records below a risk of 0.25",
            bool((low[list(KINDS)] > low["synthesizer"]).all()),
            f"share below {LOW:g}: Synthesizer {low['synthesizer']:.3f}, Marginal {low['marginal']:.3f}, "
            f"Pairwise {low['pairwise']:.3f}",
        ),
        (
            "Mean risks of Marginal and Pairwise are about the same: nearer to each other than to the Synthesizer's",
            bool(abs(mean["marginal"] - mean["pairwise"]) < shift.min()),
            _with_errors(risk.loc[[*KINDS, "synthesizer"]]),
        ),
    ]


def _large_risk_findings(risk: pd.DataFrame) -> list[Finding]:
    pair, single, unweighted = risk.loc["pairwise"], risk.loc["marginal"], risk.loc["synthesizer"]
    return [
        (
            "Pairwise has the smaller interquartile range of risk",
            bool(pair["iqr"] < single["iqr"]),
            f"Pairwise {pair['iqr']:.4f}, Marginal {single['iqr']:.4f} (paper: {IQR_IN_PAPER['pairwise']}, "
            f"{IQR_IN_PAPER['marginal']})",
        ),
        (
            "Pairwise has the smaller largest risk",
            bool(pair["max"] < single["max"]),
            f"Pairwise {pair['max']:.3f}, Marginal {single['max']:.3f}",
        ),
        (
            f"Pairwise leaves fewer records above a risk of {HIGH:g}",
            bool(pair["high"] < single["high"]),
            f"Pairwise {pair['high']:.0f}, Marginal {single['high']:.0f}, Synthesizer {unweighted['high']:.0f}",
        ),
    ]


def _rise_findings(risk: pd.DataFrame, n: int) -> list[Finding]:
    pair, single, chance = risk.loc["pairwise"], risk.loc["marginal"], risk["raised"]["synthesizer"]
    most = (f"{pair['raised_max']:.3f}", f"{single['raised_max']:.3f}")
    return [
        (
            f"Whack-a-mole: under Marginal the risk of some records rises by more than {RAISED:g}, more than by chance",
            bool(single["raised"] > chance),
            f"{single['raised']:.0f} of {n:,} records; {chance:.0f} in more files of the unweighted fit",
        ),
        (
            "Whack-a-mole: fewer such records under Pairwise",
            bool(pair["raised"] < single["raised"]),
            f"Pairwise {pair['raised']:.0f}, Marginal {single['raised']:.0f}, by chance {chance:.0f}",
        ),
        (
            "Whack-a-mole: their largest risk is smaller under Pairwise",
            bool(np.nan_to_num(pair["raised_max"]) < np.nan_to_num(single["raised_max"])),
            f"Pairwise {most[0].replace('nan', 'none')}, Marginal {most[1].replace('nan', 'none')}",
        ),
    ]


def _topcoding_findings(risk: pd.DataFrame) -> list[Finding]:
    if "topcoding" not in risk.index:
        return []
    top, unweighted = risk.loc["topcoding"], risk.loc["synthesizer"]
    return [(
        "Topcoding leaves most records at risk: its median risk is above the Synthesizer's 99th percentile",
        bool(top["median"] > unweighted["q99"]),
        f"Topcoding: median {top['median']:.3f}, Data {risk['median']['data']:.3f}; Synthesizer: 99th percentile "
        f"{unweighted['q99']:.3f}",
    )]  # fmt: skip


def _with_errors(risk: pd.DataFrame) -> str:
    lines = zip(risk.index, risk["mean"], risk["mean_se"], strict=True)
    return ", ".join(f"{plots.RISKS[str(name)]} {mean:.3f} (se {error:.3f})" for name, mean, error in lines)


def _utility_findings(study: RiskEfficientStudy) -> list[Finding]:
    first, found = _plain(beside_paper(study)), []
    for statistic in _statistics(study):
        line = first[first["statistic"] == statistic].set_index("synthesizer")
        off, theirs = line["relative_difference"], line["paper_relative_difference"]
        found.append((
            f"Pairwise keeps the {NAMES[statistic]} closer to the data than Marginal",
            bool(abs(off["pairwise"]) < abs(off["marginal"])),
            f"off by {off['pairwise']:+.1%}, Marginal by {off['marginal']:+.1%} (paper: {theirs['pairwise']:+.1%}, "
            f"{theirs['marginal']:+.1%})",
        ))  # fmt: skip
    holding = first.groupby("synthesizer")[["holds_data", "paper_holds_data"]].sum()
    ours, theirs = holding["holds_data"], holding["paper_holds_data"]
    number, printed_number = len(_statistics(study)), printed()["statistic"].nunique()
    found.append((
        "More intervals of Pairwise than of Marginal hold the estimate of the data",
        bool(ours["pairwise"] > ours["marginal"]),
        f"of {number}: Synthesizer {ours['synthesizer']}, Marginal {ours['marginal']}, Pairwise {ours['pairwise']} "
        f"(paper, of {printed_number}: {theirs['synthesizer']}, {theirs['marginal']}, {theirs['pairwise']})",
    ))  # fmt: skip
    return found


def _adjustment_findings(study: RiskEfficientStudy) -> list[Finding]:
    """Return the findings on how adjusting privacy weights by c1 = 1.5 or c2 = 0.1 changes utility and risk."""
    table, found = beside_paper(study), []
    risk = profile(study).set_index(ROW)["mean"].to_dict()
    sizes = table.assign(ours=table["relative_difference"].abs(), theirs=table["paper_relative_difference"].abs())
    off = sizes.groupby(ROW, dropna=False)[["ours", "theirs"]].mean().T.to_dict()
    for kind in KINDS:
        plain = (kind, *ADJUSTMENTS[0])
        for c1, c2 in ADJUSTMENTS[1:]:
            this, before = off[kind, c1, c2], off[plain]
            found.append((
                f"{plots.RISKS[kind]}: c1 = {c1:g}, c2 = {c2:g} brings the statistics nearer to the data",
                bool(this["ours"] < before["ours"]),
                f"mean of their distances {this['ours']:.1%}, {before['ours']:.1%} before "
                f"(paper: {this['theirs']:.1%}, {before['theirs']:.1%}); "
                f"mean risk {risk[kind, c1, c2]:.3f}, {risk[plain]:.3f} before",
            ))  # fmt: skip
    return found


# ---- files


def write(study: RiskEfficientStudy, out: str | Path) -> str:
    """Write tables, figures and summary of a study.  Results of a confidential file need a new folder (mode 0700).

    ``profile.csv`` (:func:`profile`), ``riskiest.csv`` and ``largest.csv`` (Tables 2 and 3), ``utility.csv``
    (:func:`utility`; Tables 4 to 6), ``radius.csv`` (:func:`effect_of_radius`), ``fits.csv``, ``paper.csv``
    (:func:`beside_paper`), ``findings.csv`` (:func:`findings`), ``summary.txt``, ``risk.png`` (Figures 5, 7, 13),
    ``whack_a_mole.png`` (6, 8, 9), ``weights.png`` (10 to 12) and ``radius.png``.  ``records.csv`` is
    written only if the file is simulated.

    Returns
    -------
    str
        The summary.

    Raises
    ------
    InputError
        The file is confidential, and the folder exists.
    """
    if study.confidential:
        with private_folder(out, NOTICE) as staging:
            return _written(study, staging)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    study.records.to_csv(folder / "records.csv", index=False)
    return _written(study, folder)


def _written(study: RiskEfficientStudy, folder: Path) -> str:
    tables: dict[str, Callable[[RiskEfficientStudy], pd.DataFrame]] = {
        "profile": profile, "riskiest": riskiest, "largest": largest, "utility": utility, "radius": effect_of_radius,
        "paper": beside_paper, "findings": findings,
    }  # fmt: skip
    summary = describe(study)
    write_files(folder, {name: table(study) for name, table in tables.items()} | {"fits": study.fits}, summary)
    _draw(study, folder)
    return summary


def _draw(study: RiskEfficientStudy, folder: Path) -> None:
    plan, wide = study.plan, _risks(study)
    what = f"{study.model.outcomes[0]} of {study.n:,} records"
    plots.risk_violins(study.records, folder / "risk.png", title=f"Identification risk, radius {plan.radius:g}: {what}")
    plots.whack_a_mole(
        {kind: wide[kind].to_numpy() for kind in KINDS}, wide["synthesizer"].to_numpy(), folder / "whack_a_mole.png",
        title=f"Whack-a-mole: {what}", rise=RAISED, limit=HIGH,
    )  # fmt: skip
    weighted = study.records[study.records["synthesizer"].isin(KINDS)]
    plots.weights_against_values(
        weighted, folder / "weights.png", outcome=study.model.outcomes[0], title=f"Privacy weights: {what}"
    )
    synthetic = study.profile["synthesizer"].isin(["synthesizer", *KINDS])
    refitted = study.utility["synthesizer"].isin(KINDS)
    plots.radius_curves(
        _plain(study.profile[synthetic]), _plain(study.utility[refitted]),
        {name: NAMES[name].capitalize() for name in _statistics(study)}, folder / "radius.png",
        title=f"Effect of the radius: {what}; dashed: privacy weights made with it, c1 = 1, c2 = 0",
    )  # fmt: skip


def describe(study: RiskEfficientStudy) -> str:
    """Return the text of ``summary.txt``."""
    plan, model, patterns = study.plan, study.model, study.patterns
    alone = f"; {patterns['alone']:.0f} have one record" if patterns["alone"] else ""
    text = [
        *([NOTICE, ""] if study.confidential else ["The file is simulated: nothing here is protected.", ""]),
        f"{study.n:,} records; {model.name} synthesizes {model.outcomes[0]}, given "
        f"{', '.join(model.predictor_columns) or 'nothing'}. {plan.datasets} synthetic files of each fit.",
        f"The intruder knows {', '.join(plan.known) or 'no column'} ({patterns['patterns']:.0f} patterns of "
        f"{patterns['fewest']:.0f} to {patterns['most']:,.0f} records, median {patterns['median']:.0f}{alone}) and the "
        f"true value, within {plan.radius:g} of it"
        + (f" or {plan.floor:,g}, whichever is more." if plan.floor else "."),
        "A pattern of one record has risk 0: the measure counts how rare a value is among records that are alike.",
        "Privacy weights are made from the risks of "
        + ("the unweighted fit's synthetic files" if plan.weights_from == "synthetic" else "the file itself")
        + f"; those of Marginal are {_spread(study, 'marginal')}, those of Pairwise {_spread(study, 'pairwise')} (5th, "
        "50th and 95th percentiles, c1 = 1, c2 = 0).", "",
        "Identification risk of the records: mean, median, interquartile range, 90th and 99th percentiles, "
        f"largest; records above {HIGH:g}; share below {LOW:g}; records whose risk rose by more than {RAISED:g} "
        "over the Synthesizer (of the Synthesizer itself: in more files of the same fit, by chance), and the largest "
        "risk of these",
    ]  # fmt: skip
    for row in profile(study).to_dict("records"):
        numbers = "".join(f"{row[c]:8.3f}" for c in ("mean", "median", "iqr", "q90", "q99", "max"))
        raised = "" if pd.isna(row["raised"]) else f"{row['raised']:8.0f}"
        top = "" if pd.isna(row["raised_max"]) else f"{row['raised_max']:8.3f}"
        text.append(f"  {_name(row):<22}{numbers}{row['high']:8.0f}{row['low']:8.3f}{raised}{top}")
    text += ["", *_utility_text(study), "", *_radius_text(study), "", *_findings_text(study), ""]
    bounded = study.fits["epsilon"].notna().any()
    epsilon = (
        "epsilon = 2 Delta of one synthetic file (asymptotic where privacy weights vary, a bound on this file where "
        f"none is below 1; nothing is tuned, and {plan.datasets} files would spend {plan.datasets} times as much)"
        if bounded
        else "no epsilon, as synthetic values are drawn given the confidential ones (eq. 7 of the paper)"
    )
    text += [
        f"Fits: Lipschitz bound Delta, {epsilon}, mean privacy weight, seconds, sampler diagnostics that would stop a "
        "release"
    ]
    for row in study.fits.to_dict("records"):
        name = _name(row) + (f", r = {row['radius']:g}" if row["radius"] != plan.radius and row["radius"] > 0 else "")
        spent = f"{row['epsilon']:8.2f}" if bounded else ""
        numbers = f"{row['lipschitz']:8.2f}{spent}{row['mean_alpha']:8.3f}{row['seconds']:8.1f}"
        text.append(f"  {name:<30}{numbers}  {row['diagnostics'] or 'none'}")
    text.append(
        "Privacy weights from identification risk are made from the confidential file, and the risk they lead to is "
        "measured, not bounded: what bounds a record's influence is the Lipschitz bound."
    )
    return "\n".join(text) + "\n"


def _spread(study: RiskEfficientStudy, kind: str) -> str:
    """Return a text with the 5th, 50th and 95th percentiles of the privacy weights for c1 = 1, c2 = 0."""
    table = _plain(study.records[study.records["synthesizer"] == kind])
    return ", ".join(f"{x:.2f}" for x in table["alpha"].quantile([0.05, 0.5, 0.95]))


def _utility_text(study: RiskEfficientStudy) -> list[str]:
    table = utility(study)
    text = [
        "Estimates, 95% intervals (bootstrap of the records within a file; files combined by the rule for partially "
        "synthetic data), overlap with the data's interval, relative difference to the data's estimate"
    ]
    for statistic in _statistics(study):
        term = f" {study.plan.coefficient}" if statistic == "coefficient" else ""
        text.append(f"  {NAMES[statistic]}{term}")
        for row in table[table["statistic"] == statistic].to_dict("records"):
            ends = f"[{short(row['ci_low'])}, {short(row['ci_high'])}]"
            worth = "" if row["synthesizer"] == "data" else f"{row['overlap']:8.2f}{row['relative_difference']:+9.1%}"
            text.append(f"    {_name(row):<22}{short(row['estimate']):>12}{ends:>26}{worth}")
    return text


def _radius_text(study: RiskEfficientStudy) -> list[str]:
    table, off = effect_of_radius(study), [f"relative_difference_{name}" for name in _statistics(study)]
    text = [
        "Effect of the radius: risk of the same files (mean, largest, records above "
        f"{HIGH:g}, raised), and below it that of files whose weights were made with that radius, with the relative "
        f"differences of {', '.join(NAMES[name] for name in _statistics(study))}"
    ]
    own = table["synthesizer"].isin(KINDS) & (table["radius"] == table["at"])
    same = table[table["radius"].isna() | (table["radius"] == study.plan.radius)]
    for heading, part in (("same", same), ("own", table[own])):
        for row in part.sort_values("at", kind="stable").to_dict("records"):
            raised = "" if pd.isna(row["raised"]) else f"{row['raised']:8.0f}"
            numbers = f"{row['mean']:8.3f}{row['max']:8.3f}{row['high']:8.0f}{raised}"
            worth = "".join(f"{row[c]:+9.1%}" for c in off) if heading == "own" else ""
            text.append(f"  {heading:<6}r = {row['at']:<6g}{plots.RISKS[row['synthesizer']]:<14}{numbers}{worth}")
    return text


def _findings_text(study: RiskEfficientStudy) -> list[str]:
    table = findings(study)
    rows = table.to_dict("records")
    text = [f"What the paper finds on its own file (another one), and this file: {table['holds'].sum()} of {len(rows)}"]
    text += [f"  {'yes' if row['holds'] else 'no ':<4}{row['finding']}. {row['numbers']}." for row in rows]
    return text


def _name(row: dict[Hashable, Any]) -> str:
    """Return the name of a kind of file, with c1 and c2 if it has privacy weights."""
    name = plots.RISKS[str(row["synthesizer"])]
    return name if pd.isna(row["c1"]) else f"{name} c1={row['c1']:g}, c2={row['c2']:g}"
