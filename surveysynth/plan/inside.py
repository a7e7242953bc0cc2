"""An examination of the confidential values before a release.

The findings are for the agency alone, because no noise is added to them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import kurtosis, norm, rankdata, skew, spearmanr

from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..estimation import estimate
from ..measuring.outcome import Outcome, label_of
from ..models.base import Synthesizer
from ..models.predictors.model_matrix import predictor_rows
from ..models.scales.transforms import as_transform
from ..privacy.mechanisms import Mechanism, RecordMechanism
from ..privacy.mechanisms.base import LEAST_INFORMATION
from ..privacy.units import unit_of
from ..synthesis.missing import without_missing
from ..synthesis.synthetic_design import check_total, public_mean_weight
from ..validation import as_list
from .privacy_cost import PrivacyCost, privacy_cost
from .settings import Settings
from .toml_file import key

FEW = 10  # fewest groups over which a correlation is computed
# Limits above which a finding is reported: share of a single value, skewness and excess kurtosis of residuals, t
# statistic of a rank correlation
HEAP, SKEWED, TAILED, RELATED = 0.05, 0.5, 3.0, 3.0
HINTS = {  # for fits to records
    "missing": "set missing = 'drop' in [model]",
    "zero": "a strict release keeps them, with zeros = true in [outcomes]",
    "heap": "a scale smooths heaps away; a strict release keeps them, with heaps = [...] in [outcomes]",
    "shape": "normal scores of an earlier file, transform = 'scores.json', or a predictor more may take them away",
}
HINTS_FOR_TABLES = {  # for releases that are drawn from noisy tables
    "missing": "set missing = 'category' in [outcomes.{}], or the file is refused",
    "zero": "declare zeros = true in [outcomes.{}]", "heap": "declare them as heaps = [...] in [outcomes.{}]",
}  # fmt: skip


def look_inside(
    settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: Mechanism, by: list[str],
    ratio: float | None, schema: Mapping[str, Outcome],
) -> list[str]:  # fmt: skip
    """Return sentences on confidential values that could spoil a release, for the agency alone.

    The sentences are on missing values, undeclared levels, frequent single values (heaps), values outside the bounds,
    residuals with large skewness or kurtosis, outcomes correlated with the size of PSUs or units, and expected
    coefficients of variation.  For a fit to records with tuned privacy weights, there is also a sentence on the share
    of information that they keep.  If a fit to records would be refused, the only sentence says why.

    Parameters
    ----------
    settings : Settings
        All entries of the plan.
    design, model, mechanism
        The confidential file, the plan's model and its mechanism.
    by : list of str
        Variables of the published tables.
    ratio : float or None
        Expected standard error in the release divided by the standard error in the file, or None if unknown.
    schema : mapping of str to Outcome
        For each declared outcome, its declaration.
    """
    found, fitted = list[str](), mechanism.fits_records
    if isinstance(mechanism, RecordMechanism):
        found = _refusal(settings, design, model, mechanism)
        if found:
            return found
        found = _information(settings, design, model, mechanism)
    for outcome in model.numeric:
        found += _value_findings(settings, design, outcome, schema.get(outcome), scaled=hasattr(model, "transform"))
        found += _residual_findings(settings, design, model, outcome) if hasattr(model, "transform") and fitted else []
        found += _size_findings(settings, design, outcome)
        found += _cell_findings(design, outcome, by, ratio)
    for outcome in model.categorical:
        found += _level_findings(design, outcome, schema.get(outcome))
    return found


def _refusal(settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism) -> list[str]:
    """Return a list with one sentence on why a release would be refused, or an empty list."""
    try:
        file, _, _ = without_missing(design, model)
        total = check_total(settings.privacy.population_total, file)
        mean_weight = public_mean_weight(file, total) if mechanism.clamps else None
        unit = unit_of(file, settings.privacy.unit)
        model.prepare(file, settings.model.clusters or "model", mean_weight, None, unit.by_record)
    except (InputError, ModelError) as error:
        return [f"the release would be refused: {error}"]
    return []


def _information(
    settings: Settings, design: SurveyDesign, model: Synthesizer, mechanism: RecordMechanism
) -> list[str]:
    """Fit with privacy weights tuned to epsilon, and return a sentence on the share of information that they keep.

    The list is empty if the mechanism does not tune the scale of privacy weights.
    """
    privacy = settings.privacy
    if not mechanism.tunes_c1:
        return []
    cost = privacy_cost(
        design, model, epsilon=privacy.epsilon, m=settings.release.m, mechanism=mechanism, unit=privacy.unit,
        clusters=settings.model.clusters or "model", reweight=privacy.reweight or 0,
    )  # fmt: skip
    assert isinstance(cost, PrivacyCost)  # as there is an epsilon or a c1
    ratio = np.sqrt(1 + (1 + 1 / cost.mean_alpha) / cost.m)
    text = f"privacy weights keep {cost.mean_alpha:.0%} of the file's information: standard errors of means about "
    little = "; that is too little, and the release would stop" if cost.mean_alpha < LEAST_INFORMATION else ""
    return [f"{text}{ratio:.2f} times the file's own, biases apart{little}. {cost.verdict}"]


def _value_findings(
    settings: Settings, design: SurveyDesign, outcome: str, declared: Outcome | None, *, scaled: bool
) -> list[str]:  # fmt: skip
    """Return sentences on an outcome's values outside the bounds.

    If the model has a transform (``scaled``), there are also sentences on missing values, zeros and frequent values.
    """
    y = design.numeric(outcome)
    there, found = y[np.isfinite(y)], list[str]()
    hints = HINTS if declared is None else {name: hint.format(key(outcome)) for name, hint in HINTS_FOR_TABLES.items()}
    missing = settings.model.missing if declared is None else declared.missing or declared.applies
    zeros = settings.model.zeros if declared is None else declared.zeros or declared.whole
    if scaled and there.size < y.size and missing is None:
        found.append(f"{outcome}: {y.size - there.size:,} records have none; {hints['missing']}")
    zero = float(np.mean(there == 0))
    if scaled and zero > HEAP and not zeros:
        found.append(f"{outcome}: {zero:.0%} are exactly 0; {hints['zero']}")
    amounts = there[there != 0]
    if declared is not None:
        amounts = amounts[~np.isin(amounts, declared.heaps)]
    most = pd.Series(amounts).value_counts(normalize=True)
    whole = declared is not None and declared.whole  # each whole number has its own cell
    if scaled and most.size and most.iloc[0] > HEAP and not whole:
        heaps = int((most > HEAP).sum())
        found.append(f"{outcome}: {heaps} single value(s) hold {most[most > HEAP].sum():.0%}; {hints['heap']}")
    if declared is not None and declared.bounds is not None:
        beyond = np.mean((there < declared.bounds[0]) | (there > declared.bounds[1]))
        if beyond > 0:
            found.append(
                f"{outcome}: {beyond:.2%} lie beyond the bounds and are moved to them; wider bounds would keep them"
            )
    return found


def _level_findings(design: SurveyDesign, outcome: str, declared: Outcome | None) -> list[str]:
    """Return sentences on missing values and undeclared levels of a categorical outcome, which stop a release."""
    if declared is None or declared.levels is None or declared.applies:
        return []
    column, found = design.column(outcome), list[str]()
    there, name = column.dropna(), key(outcome)
    if there.size < column.size and declared.missing is None:
        hint = HINTS_FOR_TABLES["missing"].format(name)
        found.append(f"{outcome}: {column.size - there.size:,} records have none; {hint}")
    other = int((~there.map(label_of).isin({label_of(level) for level in declared.levels})).sum())
    if other:
        found.append(
            f"{outcome}: {other:,} records have a level that is not declared; add it to levels in [outcomes.{name}], "
            "or the file is refused"
        )
    return found


def _residual_findings(settings: Settings, design: SurveyDesign, model: Synthesizer, outcome: str) -> list[str]:
    """Return sentences on explained variance and on large skewness or kurtosis of residuals, on the model's scale."""
    y = design.numeric(outcome)
    keep = np.isfinite(y) & ((y != 0) | (not settings.model.zeros))
    if settings.model.transform is None:
        z = norm.ppf((rankdata(y[keep]) - 0.5) / keep.sum())
    else:
        with np.errstate(all="ignore"):
            scores = str(settings.model.transform).endswith(".json")
            z = norm.ppf((rankdata(y[keep]) - 0.5) / keep.sum()) if scores else as_transform(
                str(settings.model.transform), settings.model.scale
            ).forward(y[keep])  # fmt: skip
    if model.categorical or not np.isfinite(z).all():
        return []
    X, row, _ = predictor_rows(design, model.predictors, None)
    X = X[row[keep]]
    residual = z - X @ np.linalg.lstsq(X, z, rcond=None)[0]
    left = float(1 - residual.var() / z.var())
    found = [f"{outcome}: the predictors explain {left:.0%} of its variance on the working scale"]
    if abs(skew(residual)) > SKEWED or kurtosis(residual) > TAILED:
        found.append(
            f"{outcome}: residuals on that scale have skewness {skew(residual):.1f} and excess kurtosis "
            f"{kurtosis(residual):.1f}, where the model has 0 and 0; {HINTS['shape']}"
        )
    return found


def _size_findings(settings: Settings, design: SurveyDesign, outcome: str) -> list[str]:
    """Return sentences on significant rank correlations between the size of PSUs, or units, and an outcome's mean."""
    found, y = list[str](), design.numeric(outcome)
    groups = {"PSUs": list(design.psu_names[:1]), "units": as_list(settings.privacy.unit)}
    for what, columns in groups.items():
        if not columns or (what == "PSUs" and not design.clustered):
            continue
        unit = design.select(columns).groupby(columns, sort=False).ngroup()
        by_unit = pd.DataFrame({"y": y, "unit": unit}).groupby("unit")["y"]
        size, mean = by_unit.size().to_numpy(), by_unit.mean().to_numpy()
        if len(np.unique(size)) < 2 or len(size) < FEW:
            continue
        r = float(spearmanr(size, mean, nan_policy="omit").statistic)
        t = abs(r) * np.sqrt(max(len(size) - 2, 1) / max(1 - r**2, 1e-12))
        if t > RELATED:
            found.append(
                f"{outcome}: it goes with the size of {what} (rank correlation {r:.2f} over {len(size):,}), which the "
                "model takes in as a predictor; a public size in the formula is better"
            )
    return found


def _cell_findings(design: SurveyDesign, outcome: str, by: list[str], ratio: float | None) -> list[str]:
    """Return a sentence on the coefficients of variation to expect in the release for domain means of the outcome.

    The domains are the cells of ``by``.  The coefficients are the file's coefficients times ``ratio``, the expected
    standard error in the release divided by the standard error in the file.
    """
    if ratio is None or np.isnan(design.numeric(outcome)).any():
        return []
    table = estimate(design, outcome, by, "mean")
    cv = (table["se"] / table["estimate"].abs() * ratio).to_numpy()
    cv = cv[np.isfinite(cv)]
    if not cv.size:
        return []
    return [
        f"{outcome}: expected coefficients of variation of its means {cv.min():.1%} to {cv.max():.1%} over "
        f"{len(cv)} cells; above 15% in {int((cv > 0.15).sum())}"
    ]
