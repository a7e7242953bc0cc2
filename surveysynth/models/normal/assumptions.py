"""The assumptions of FBS and FBP, as sentences for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import numeric_predictors_text
from ..predictors.groups import Groups
from ..predictors.model_matrix import LOG_SIZE, LOG_WEIGHT
from .categories import Cells
from .joint_records import JointPublic

if TYPE_CHECKING:
    from .joint_regression import JointRegression


PUBLIC_PSUS = (
    "which PSUs there are, and how many records each has, is public and not protected; their labels are recoded, "
    "and every data set has new effects of PSUs"
)


def shared_assumptions(model: JointRegression[Any], public: JointPublic) -> list[str]:
    """Return the assumptions that FBS and FBP have in common, as sentences."""
    sentences = []
    if model.numeric:
        given = f"({model.predictors})" + (" and the categories" if model.categorical else "")
        sentences.append(
            f"given the predictors {given} the outcome{'s are' if len(model.numeric) > 1 else ' is'} normal on the "
            f"scale: {model.measure}"
        )
    if public.categories is not None:
        sentences += _category_sentences(model, public, public.categories)
    sentences += numeric_predictors_text(public)
    if public.public_weights is not None and model.weight == "public":
        sentences.append(
            f"the survey weight was declared public by the agency: it is kept, and only the "
            f"outcome{'s are' if len(model.outcomes) > 1 else ' is'} modelled"
        )
    elif public.public_weights is not None:
        by_design = LOG_WEIGHT in public.columns
        source = "PSUs or strata" if by_design else "predictors"
        also = ", with the logarithm of the weight among the predictors" if by_design else ""
        sentences.append(
            f"the survey weight is a function of the public {source} (found so on the file): it is public, it is "
            f"kept, and only the outcome{'s are' if len(model.outcomes) > 1 else ' is'} modelled{also}"
        )
    if LOG_SIZE in public.columns:
        sentences.append(
            "the logarithm of the number of records of the PSU, which is public, is among the predictors, so that "
            "what goes with the size of PSUs is kept. epsilon is for these published sizes held fixed: a record "
            "that joins or leaves does not move the predictor of the others"
        )
    if public.groups is None:
        return sentences
    numbers = bool(model.numeric) or public.public_weights is None
    return sentences + _effect_sentences(public.groups, public, numbers=numbers)


def _category_sentences(model: JointRegression[Any], public: JointPublic, categories: Cells) -> list[str]:
    cells = f"{categories.cells:,} cells of the discrete predictors" if categories.cells > 1 else "the whole file"
    sentences = [
        f"{' x '.join(model.categorical)}: {categories.K:,} categories, multinomial within {cells}, prior Dirichlet "
        "with a total of one record a cell; their levels are declared as public, and every combination of them can "
        "occur"
    ]
    left_out = [c for c in model.predictor_columns if c not in public.cell_columns]
    if left_out:
        sentences.append(f"categories do not depend on {', '.join(left_out)}, which are numbers of many values")
    return sentences


def _effect_sentences(groups: Groups, public: JointPublic, *, numbers: bool) -> list[str]:
    names, sentences = groups.describe(), []
    if numbers:
        sentences.append(
            f"{names} have normal effects on outcomes and weight (given the predictors, on their scales), with one "
            "covariance for all; the ratio of its variances to those of the records has a half-normal(0, 1) prior"
        )
    if public.categories is not None:
        sentences.append(
            f"{names} have normal effects on the log odds of categories, with one standard deviation for all, whose "
            "prior is half-normal(0, 1)"
        )
    if not groups.sampled:
        return [*sentences, "the effects of strata are drawn from their posterior, together with the parameters"]
    kept = ", while those of strata are drawn from their posterior" if groups.parent is not None else ""
    given = "; those on categories are drawn, and densities are given these" if public.categories is not None else ""
    return [
        *sentences,
        f"{PUBLIC_PSUS}{kept}",
        "Delta bounds what a record (or unit) does to the likelihood of all that is drawn: its density given the "
        f"others of its PSU, effects of PSUs on numbers being integrated out{given}",
    ]
