"""surveysynth: publishable tables and microdata from confidential complex-survey files."""

__version__ = "0.1.0"

from .design import SurveyDesign
from .errors import (
    EngineError,
    InputError,
    ModelError,
    NotFitForRelease,
    PrivacyError,
    SurveySynthError,
)
from .estimation import Regression, difference, estimate, regression
from .fitted import Fit
from .histogram import perturbed_histogram
from .models.beta import Beta
from .models.counts import NegativeBinomial, Poisson
from .models.fbp import FBP
from .models.fbs import FBS
from .models.mixture import Mixture
from .models.scores import NormalScores
from .models.transforms import Asinh, Identity, Log
from .noise import LaplaceTables, laplace_tables
from .policy import Policy
from .privacy.identification import attribute_risk, identification_risk, pairwise_weights
from .privacy.ledger import Ledger
from .privacy.mechanisms import Censored, PseudoPosterior, WeightedE
from .privacy.membership import MembershipAttack, membership_attack
from .privacy.risk import Count, Lipschitz, Marginal, Pairwise
from .privacy.rule import IdentificationRule
from .release import Release, read_release
from .synthesis import Price, fit, price, synthesize

from . import datasets, evaluate, r, sampling  # isort: skip  # last: they build on all of these

__all__ = [
    "FBP",
    "FBS",
    "Asinh",
    "Beta",
    "Censored",
    "Count",
    "EngineError",
    "Fit",
    "IdentificationRule",
    "Identity",
    "InputError",
    "LaplaceTables",
    "Ledger",
    "Lipschitz",
    "Log",
    "Marginal",
    "MembershipAttack",
    "Mixture",
    "ModelError",
    "NegativeBinomial",
    "NormalScores",
    "NotFitForRelease",
    "Pairwise",
    "Poisson",
    "Policy",
    "Price",
    "PrivacyError",
    "PseudoPosterior",
    "Regression",
    "Release",
    "SurveyDesign",
    "SurveySynthError",
    "WeightedE",
    "attribute_risk",
    "datasets",
    "difference",
    "estimate",
    "evaluate",
    "fit",
    "identification_risk",
    "laplace_tables",
    "membership_attack",
    "pairwise_weights",
    "perturbed_histogram",
    "price",
    "r",
    "read_release",
    "regression",
    "sampling",
    "synthesize",
]
