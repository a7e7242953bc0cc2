"""Measures of the replicated papers: the error of one estimate, and comparisons with printed tables.

The columns of frames of estimates are described in :mod:`surveysynth.studies.measures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from surveysynth.studies.measures import CONFIDENTIAL, beside_confidential

Floats = NDArray[np.float64]


def rmse(estimate: ArrayLike, se: ArrayLike, truth: ArrayLike) -> Floats:
    """Return the root mean square error of one estimate, sqrt((estimate - truth)^2 + se^2).

    Source: Hu, Savitsky & Williams 2022a, section 3.3.

    Parameters
    ----------
    estimate, se, truth : array_like
        Estimates, standard errors and true values.  The arrays are broadcast.

    Returns
    -------
    float array
        Errors in the unit of the estimates.

    Examples
    --------
    >>> rmse(estimate=[103.0, 96.0], se=4.0, truth=100.0)
    array([5.        , 5.65685425])
    """
    return np.hypot(np.asarray(estimate, dtype=float) - np.asarray(truth, dtype=float), np.asarray(se, dtype=float))


def rmse_ratios(estimates: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Divide the RMSE of every private estimate by the RMSE of the confidential estimate from the same sample.

    Source: Hu, Savitsky & Williams 2022a, section 4.3.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Attribute ``estimates`` of a :class:`replication.tabular.study.Study`.
    by : list of str
        Columns of the domains.

    Returns
    -------
    pandas.DataFrame
        The rows of the private methods, with ``rmse``, ``confidential_rmse`` and ``rmse_ratio``.

    Examples
    --------
    >>> estimates = pd.DataFrame({
    ...     "replicate": [1, 1, 2, 2], "method": ["confidential", "fbs"] * 2, "setting": ["", "default"] * 2,
    ...     "delta": [np.nan, 1.8] * 2, "m": [0, 3] * 2, "epsilon": [np.nan, 10.8] * 2, "sex": "f", "statistic": "mean",
    ...     "estimate": [101.0, 104.0, 99.0, 98.0], "se": [2.0, 3.0, 2.0, 3.0], "df": 50.0,
    ...     "ci_low": [97.0, 98.0, 95.0, 92.0], "ci_high": [105.0, 110.0, 103.0, 104.0], "truth": 100.0,
    ... })
    >>> rmse_ratios(estimates, by=["sex"])[["replicate", "rmse", "rmse_ratio"]].round(2)
       replicate  rmse  rmse_ratio
    0          1  5.00        2.24
    1          2  3.61        1.61
    """
    both = beside_confidential(estimates[estimates["truth"].notna()], by)
    both["rmse"] = rmse(both["estimate"], both["se"], both["truth"])
    both["confidential_rmse"] = rmse(both["confidential_estimate"], both["confidential_se"], both["truth"])
    both["rmse_ratio"] = both["rmse"] / both["confidential_rmse"]
    return both[both["method"] != CONFIDENTIAL].reset_index(drop=True)


def compare_with_paper(summary: pd.DataFrame) -> pd.DataFrame:
    """Compare interval lengths and coverages with Tables 4 and 5 of Hu, Savitsky & Williams (2022a).

    Source: Hu, Savitsky & Williams 2022a, appendix F.

    Parameters
    ----------
    summary : pandas.DataFrame
        Result of :func:`surveysynth.studies.summarize`, for samples of n = 1000 from the simulated population of the
        paper (section 4.1), by field and gender.

    Returns
    -------
    pandas.DataFrame
        ``block, field, gender, paper_ci_length, ci_length, paper_coverage, coverage``, for FBS and FBP under the
        settings of the paper, m = 3 and a Lipschitz bound of 1.8.  A block is a method with a statistic, such as
        "fbs_counts".  Blocks without estimates are left out.

    Examples
    --------
    >>> study = repeated_sampling(sdr(), m=[3])  # doctest: +SKIP
    >>> compare_with_paper(ss.studies.summarize(study.estimates, by=["field", "gender"]))  # doctest: +SKIP
    """
    with (files("replication.paper_tables") / "tabular_repeated_sampling.csv").open(encoding="utf-8") as file:
        printed = pd.read_csv(file, dtype={"field": str, "gender": str})
    run = summary[(summary["setting"] == "paper") & (summary["m"] == 3) & np.isclose(summary["delta"], 1.8)]
    ours = run.assign(block=run["method"] + "_" + run["statistic"] + "s").astype({"field": str, "gender": str})
    table = printed.merge(ours[["block", "field", "gender", "ci_length", "coverage"]])
    return table[["block", "field", "gender", "paper_ci_length", "ci_length", "paper_coverage", "coverage"]]


def compare_settings(summary: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Compare coverage, length and RMSE between this package's settings and those of Hu, Savitsky & Williams (2022a).

    Parameters
    ----------
    summary : pandas.DataFrame
        Result of :func:`surveysynth.studies.summarize`.
    by : list of str
        Columns of the domains.

    Returns
    -------
    pandas.DataFrame
        ``method, delta, m, epsilon, statistic, <by>`` and ``coverage_*``, ``ci_length_*``, ``rmse_*`` for the
        settings ``paper``, ``default`` and ``debias``.  Rows with the domain "mean", which come first, are means over
        all domains.  For FBS the settings ``default`` and ``paper`` are the same.

    Examples
    --------
    >>> study = repeated_sampling(sdr(), m=[3])  # doctest: +SKIP
    >>> summary = ss.studies.summarize(study.estimates, by=["field", "gender"])  # doctest: +SKIP
    >>> compare_settings(summary, by=["field", "gender"])  # doctest: +SKIP
    """
    settings, measures = ["paper", "default", "debias"], ["coverage", "ci_length", "rmse"]
    keys = ["method", "delta", "m", "epsilon", "statistic"]
    rows = summary[summary["setting"].isin(settings)]
    fbs = rows[(rows["method"] == "fbs") & (rows["setting"] == "paper")]
    rows = pd.concat([rows, fbs.assign(setting="default")])
    mean = rows.groupby([*keys, "setting"], sort=False)[measures].mean().reset_index()
    rows = pd.concat([mean.assign(**dict.fromkeys(by, "mean")), rows])
    table = rows.pivot_table(index=[*keys, *by], columns="setting", values=measures, sort=False)
    table.columns = table.columns.map("_".join)
    shown = [f"{measure}_{setting}" for measure in measures for setting in settings]
    return table.reindex(columns=shown).reset_index().sort_values(keys, kind="stable", ignore_index=True)
