"""The accuracy of estimates: measures of one estimate, and summaries of these measures over repeated samples.

The frames of estimates have one row for each estimate, with the columns

- ``estimate, se, ci_low, ci_high`` and the true value ``truth``;
- ``statistic``, and the domain: the ``by`` columns, with "all" for a margin;
- ``method`` ("confidential", "fbs", "fbp", "laplace"), ``setting`` ("paper", "default", "debias", "local", "strict"),
  ``delta`` (Lipschitz bound of one data set), ``m`` (number of data sets) and ``epsilon``;
- ``replicate``, the number of the sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..estimation.intervals import overlap

Floats = NDArray[np.float64]

CONFIDENTIAL = "confidential"
MADE_BY = ["method", "setting", "delta", "m", "epsilon"]
ROUNDING = 1e-9  # rounding error of an estimate that equals the truth by construction, as a share of it


def covers(low: ArrayLike, high: ArrayLike, truth: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each interval covers the truth, up to rounding error: False for a missing interval (NaN)."""
    truth = np.asarray(truth, dtype=float)
    slack = ROUNDING * np.abs(truth)
    return (np.asarray(low, dtype=float) <= truth + slack) & (np.asarray(high, dtype=float) >= truth - slack)


def cv(estimate: ArrayLike, se: ArrayLike) -> Floats:
    """Return the coefficient of variation: standard error divided by absolute estimate, or NaN if the estimate is 0."""
    size = np.abs(np.asarray(estimate, dtype=float))
    return np.asarray(se, dtype=float) / np.where(size > 0, size, np.nan)


def beside_confidential(estimates: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Add to each estimate the confidential estimate for the same sample, domain and statistic.

    The new columns are ``confidential_estimate``, ``confidential_se``, ``confidential_ci_low`` and
    ``confidential_ci_high``.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates from one sample, or from several samples that are numbered in column ``replicate``.
    by : list of str
        Columns of the domain.
    """
    columns = ["estimate", "se", "ci_low", "ci_high"]
    keys = [c for c in ("replicate", *by, "statistic") if c in estimates]
    own = estimates.loc[estimates["method"] == CONFIDENTIAL, keys + columns]
    return estimates.merge(own.rename(columns={c: f"{CONFIDENTIAL}_{c}" for c in columns}), on=keys, how="left")


def summarize(estimates: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Summarize coverage, bias and error over repeated samples.

    There is one row for each combination of method, setting, delta, m, epsilon, domain and statistic.

    Source: Hu, Savitsky & Williams 2022a, appendix F.

    Parameters
    ----------
    estimates : pandas.DataFrame
        One row for each estimate and sample.
    by : list of str
        Columns of the domain.

    Returns
    -------
    pandas.DataFrame
        ``method, setting, delta, m, epsilon``, the ``by`` columns, ``statistic, truth, replicates`` (the number of
        samples that have the estimate) and

        - ``coverage``, the share of intervals that contain the truth (a missing interval does not), and
          ``coverage_se``, the Monte Carlo standard error of the coverage,
        - ``ci_length`` and ``cv``, the mean length of the interval and the mean coefficient of variation, over the
          samples without NaN,
        - ``se_ratio``, the mean standard error divided by the mean standard error of the confidential estimates, and
          ``length_ratio``, the same ratio of interval lengths, both over the samples that have the estimate,
        - ``bias`` and ``rmse``, the bias and the root mean squared error of the estimates over the samples,
        - ``rmse_ratio``, the RMSE divided by the RMSE of the confidential estimates,
        - ``overlap``, the mean overlap of the interval with the confidential interval.

    Examples
    --------
    >>> estimates = pd.DataFrame({
    ...     "replicate": [1, 1, 2, 2], "method": ["confidential", "fbs"] * 2, "setting": ["", "default"] * 2,
    ...     "delta": [np.nan, 1.8] * 2, "m": [0, 3] * 2, "epsilon": [np.nan, 10.8] * 2, "sex": "f", "statistic": "mean",
    ...     "estimate": [101.0, 104.0, 99.0, 98.0], "se": [2.0, 3.0, 2.0, 3.0], "df": 50.0,
    ...     "ci_low": [97.0, 98.0, 95.0, 92.0], "ci_high": [105.0, 110.0, 103.0, 104.0], "truth": 100.0,
    ... })
    >>> ss.studies.summarize(estimates, by=["sex"])[["method", "coverage", "bias", "length_ratio"]]
             method  coverage  bias  length_ratio
    0  confidential       1.0   0.0           1.0
    1           fbs       1.0   1.0           1.5
    """
    keys = [*MADE_BY, *by, "statistic"]
    both = beside_confidential(estimates, by)
    error = both["estimate"] - both["truth"]
    rows = both[[*keys, "truth"]].assign(
        coverage=covers(both["ci_low"], both["ci_high"], both["truth"]).astype(float),
        ci_length=both["ci_high"] - both["ci_low"],
        cv=cv(both["estimate"], both["se"]),
        se_ratio=both["se"],
        length_ratio=both["ci_high"] - both["ci_low"],
        own_se=both["confidential_se"].where(both["se"].notna()),
        own_length=(both["confidential_ci_high"] - both["confidential_ci_low"]).where(both["ci_low"].notna()),
        bias=error,
        rmse=error**2,
        overlap=overlap(both["ci_low"], both["ci_high"], both["confidential_ci_low"], both["confidential_ci_high"]),
    )
    groups = rows.groupby(keys, sort=False, dropna=False)
    table = groups.mean().assign(replicates=groups.size()).reset_index()
    table["rmse"] = np.sqrt(table["rmse"])
    table["se_ratio"] /= table.pop("own_se")
    table["length_ratio"] /= table.pop("own_length")
    table["coverage_se"] = np.sqrt(table["coverage"] * (1 - table["coverage"]) / table["replicates"])
    own = table.loc[table["method"] == CONFIDENTIAL, [*by, "statistic", "rmse"]]
    table = table.merge(own.rename(columns={"rmse": "reference"}), on=[*by, "statistic"], how="left")
    table["rmse_ratio"] = table["rmse"] / table["reference"]
    measures = ["coverage", "coverage_se", "ci_length", "cv", "bias", "rmse"]
    ratios = ["se_ratio", "length_ratio", "rmse_ratio", "overlap"]
    return table[[*keys, "truth", "replicates", *measures, *ratios]]
