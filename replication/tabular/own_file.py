"""Comparison of the methods on the user's own file, as in section 3 of Hu, Savitsky & Williams (2022a).

The results contain confidential estimates, so that they are for the agency only.  They are not a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from surveysynth.design.survey_design import SurveyDesign
from surveysynth.errors import InputError
from surveysynth.estimation.intervals import overlap
from surveysynth.estimation.tables import TOTAL
from surveysynth.privacy.budget import Budget
from surveysynth.storage import private_folder
from surveysynth.studies.measures import CONFIDENTIAL, MADE_BY, beside_confidential
from surveysynth.studies.writing import write_files
from surveysynth.synthesis.fitting import fit
from surveysynth.validation import as_list, check_keywords, positive, whole

from .. import figures as plots
from ..choices import StudyMethod, StudyPrior
from ..measures import rmse
from ..sample import METHODS, SampleStudy

NOTICE = (
    "NOT FOR PUBLICATION. This folder holds confidential estimates, computed from the survey file without protection, "
    "beside private ones, and Lipschitz bounds and weights of single records. It compares methods, for the agency "
    "alone. What is published is a release: surveysynth synthesize."
)
COLUMNS = {CONFIDENTIAL: "sample", "laplace": "laplace", "fbs": "fbs", "fbp": "fbp"}  # as in Tables 2 and 3


def compare_methods(
    design: SurveyDesign,
    outcome: str,
    predictors: str,
    by: str | Sequence[str],
    *,
    epsilon: float,
    m: int = 3,
    methods: Sequence[StudyMethod] = METHODS,
    prior: StudyPrior = "flat",
    seed: int | None = None,
    **settings: Any,
) -> SampleStudy:
    """Compute the confidential tables of a file, and private tables by every method at the same epsilon.

    Parameters
    ----------
    design : SurveyDesign
    outcome : str
    predictors : str
        Formula of the models.
    by : str or list of str
        Columns of the domains, which are predictors.
    epsilon : float
        Privacy budget of the tables of one method.
    m : int
        Number of synthetic data sets of FBS and of FBP.
    methods : list of {"fbs", "fbp", "laplace"}
    prior : {"flat", "paper"}
    seed : int, optional
        Laplace noise is never seeded.
    **settings
        Further arguments of :func:`surveysynth.fit`: ``clusters=``, ``population_total=``, ...

    Returns
    -------
    SampleStudy
        The sample with the results of all methods.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError
        A method is unknown, a ``by`` column is not a predictor, or :func:`surveysynth.fit` fails.
    """
    check_keywords(compare_methods, settings, fit, without=["synthesizer", "mechanism"])
    names = as_list(by)
    unknown = [str(method) for method in methods if method not in METHODS]
    if unknown or not methods:
        raise InputError(f"methods: {', '.join(unknown) or 'none'} is not one of {', '.join(METHODS)}")
    if prior not in get_args(StudyPrior):
        raise InputError(f"prior={prior!r} is not one of {', '.join(get_args(StudyPrior))}")
    if not names:
        raise InputError("by names no column: the tables need at least one")
    m = whole(m, "m")
    delta = Budget(positive(epsilon, "epsilon"), m).bound
    sample = SampleStudy(design, outcome, names, predictors, prior, settings, seed=seed, recording=False)
    sample.confidential()
    for method in METHODS:
        if method in methods:
            sample.run(method, delta, [m])
    return sample


def side_by_side(sample: SampleStudy, statistic: str) -> pd.DataFrame:
    """Return the estimates of one statistic by all methods, as in Tables 2 and 3 of Hu, Savitsky & Williams (2022a).

    Returns
    -------
    pandas.DataFrame
        One row for each domain: ``<by>``, then ``*_estimate`` and ``*_se`` for sample, laplace, fbs and fbp, under the
        paper's settings.  The total is the first row, and each margin is above its cells.
    """
    by = list(sample.by)
    estimates = pd.concat(sample.tables, ignore_index=True)
    estimates = estimates[(estimates["statistic"] == statistic) & estimates["setting"].isin(["", "paper", "local"])]
    own = estimates[estimates["method"] == CONFIDENTIAL]
    table = own[by].reset_index(drop=True)
    for method, name in COLUMNS.items():
        found = estimates.loc[estimates["method"] == method, [*by, "estimate", "se"]]
        if len(found):
            found.columns = pd.Index([*by, f"{name}_estimate", f"{name}_se"])
            table = table.merge(found, on=by, how="left")
    levels = {name: {level: i for i, level in enumerate(table[name].drop_duplicates())} for name in by}
    order = [tuple(-1 if row[x] == TOTAL else levels[x][row[x]] for x in by) for row in table[by].to_dict("records")]
    return table.iloc[sorted(range(len(order)), key=order.__getitem__)].reset_index(drop=True)


def errors_of(sample: SampleStudy) -> pd.DataFrame:
    """Compute the RMSE, sqrt((estimate - confidential)^2 + se^2), and the interval overlap of private estimates.

    Source: Hu, Savitsky & Williams 2022a, section 3.3.
    """
    both = beside_confidential(pd.concat(sample.tables, ignore_index=True), sample.by)
    both["rmse"] = rmse(both["estimate"], both["se"], both["confidential_estimate"])
    intervals = (both[c] for c in ("ci_low", "ci_high", "confidential_ci_low", "confidential_ci_high"))
    both["overlap"] = overlap(*intervals)
    shown = [*MADE_BY, *sample.by, "statistic", "estimate", "se", "confidential_estimate", "confidential_se"]
    return both.loc[both["method"] != CONFIDENTIAL, [*shown, "rmse", "overlap"]].reset_index(drop=True)


def write(sample: SampleStudy, out: str | Path) -> str:
    """Write tables, figures and a summary to a new folder (mode 0700), all of them or none.

    ``table_counts.csv`` and ``table_means.csv`` (:func:`side_by_side`), ``rmse.csv``
    (:func:`errors_of`), ``bounds.csv``, ``summary.txt``, and the figures ``rmse.png``,
    ``lipschitz.png`` and ``weights.png``.

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
        errors = errors_of(sample)
        tables = {f"table_{statistic}s": side_by_side(sample, statistic) for statistic in ("count", "mean")}
        tables |= {"rmse": errors, "bounds": pd.DataFrame(sample.fits)}
        summary = describe(sample, errors)
        write_files(staging, tables, summary)
        _draw(sample, errors, staging)
    return summary


def _draw(sample: SampleStudy, errors: pd.DataFrame, folder: Path) -> None:
    epsilon = f"epsilon = {errors['epsilon'].iloc[0]:g}"
    domains = len(errors[list(sample.by)].drop_duplicates())
    plots.rmse_violins(
        errors[errors["setting"].isin(["paper", "local"])], "rmse", folder / "rmse.png",
        axis={"count": "RMSE of a count", "mean": f"RMSE of mean {sample.outcome}"},
        title=f"RMSE about the confidential estimates of {domains} domains, {epsilon}",
    )  # fmt: skip
    if sample.records:
        title = f"Lipschitz bounds of the records, {epsilon}"
        plots.lipschitz_violins(pd.concat(sample.records), folder / "lipschitz.png", title=title)
    plots.weight_scatter(
        pd.concat(sample.scatter), folder / "weights.png", outcome=sample.outcome,
        title=f"Outcome and weight, {epsilon}",
    )  # fmt: skip


def describe(sample: SampleStudy, errors: pd.DataFrame) -> str:
    """Return the text of ``summary.txt`` for a comparison."""
    first = errors.iloc[0]
    lines = [
        NOTICE, "",
        f"{sample.design.n:,} records, {sample.outcome} by {', '.join(sample.by)}; predictors {sample.predictors}; "
        f"prior {sample.prior}. Each method at epsilon = {first['epsilon']:g}; m = {first['m']:g} synthetic files.", "",
        "Median over the domains: RMSE about the confidential estimate, its share of the estimate, interval overlap",
    ]  # fmt: skip
    errors = errors.assign(share=errors["rmse"] / errors["confidential_estimate"].abs())
    errors = errors.sort_values("statistic", kind="stable")
    for (statistic, method, setting), part in errors.groupby(["statistic", "method", "setting"], sort=False):
        rmse, share, common = part[["rmse", "share", "overlap"]].median()
        lines.append(f"  {statistic:<6}{f'{method} {setting}':<15}{rmse:14,.0f}{share:9.1%}{common:9.2f}")
    lines += ["", "Largest Lipschitz bound of a record:"]
    for each in sample.fits:
        lines.append(
            f"  {each['method']} without privacy weights {each['unweighted']:.2f}; with them {each['weighted']:.2f}"
        )
    return "\n".join(lines) + "\n"
