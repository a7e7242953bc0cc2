from . import datasets, r, sampling, studies
from ._version import __version__
from .design.convert import convert
from .design.survey_design import SurveyDesign
from .errors import EngineError, InputError, ModelError, NotFitForRelease, PrivacyError, SurveySynthError
from .estimation import (
    JointEstimates,
    Regression,
    correlations,
    difference,
    estimate,
    independence_test,
    joint_estimates,
    likelihood_ratio_test,
    population_covariances,
    predictive_margins,
    regression,
    standard_deviations,
    wide,
    with_replicates,
)
from .measuring.outcome import Outcome
from .models.base import Synthesizer
from .models.beta import BetaRegression
from .models.check import check_model
from .models.counts import NegativeBinomialRegression, PoissonRegression
from .models.gamma import GammaRegression
from .models.mixture.model import Mixture
from .models.multinomial import MultinomialRegression
from .models.normal.fbp import FBP
from .models.normal.fbs import FBS
from .models.scales.normal_scores import NormalScores
from .models.scales.transforms import AsinhTransform, IdentityTransform, LogTransform
from .models.sequential import Sequential
from .models.stan_model import StanModel
from .plan.expected_errors import expected_errors
from .plan.plan import Plan
from .plan.privacy_cost import PrivacyCost, privacy_cost
from .plan.what_changed import diff
from .privacy.accounting.ledger import Ledger
from .privacy.mechanisms.censored import Censored
from .privacy.mechanisms.pseudo_posterior import PseudoPosterior
from .privacy.mechanisms.strict import Strict
from .privacy.mechanisms.weighted_e import WeightedE
from .privacy.membership import MembershipAttack, membership_attack
from .privacy.release_rule import IdentificationRule
from .privacy.risks.count import CountRisk
from .privacy.risks.identification import MarginalRisk, PairwiseRisk
from .privacy.risks.lipschitz import LipschitzRisk
from .release.charging import resume
from .release.comparison import Comparison, compare
from .release.diff import Changes
from .release.dossier.dossier import dossier, public_dossier
from .release.identification import attribute_risk, identification_risk, match_risk, pairwise_weights
from .release.laplace import LaplaceTables, laplace_tables
from .release.measurements import Measurements, read_measurements
from .release.release import Release, read_release
from .synthesis.fit import Fit
from .synthesis.fitting import fit, synthesize
from .synthesis.histogram import perturbed_histogram
from .synthesis.measured import measure
from .synthesis.policy import Policy

__all__ = [
    "FBP",
    "FBS",
    "AsinhTransform",
    "BetaRegression",
    "Censored",
    "Changes",
    "Comparison",
    "CountRisk",
    "EngineError",
    "Fit",
    "GammaRegression",
    "IdentificationRule",
    "IdentityTransform",
    "InputError",
    "JointEstimates",
    "LaplaceTables",
    "Ledger",
    "LipschitzRisk",
    "LogTransform",
    "MarginalRisk",
    "Measurements",
    "MembershipAttack",
    "Mixture",
    "ModelError",
    "MultinomialRegression",
    "NegativeBinomialRegression",
    "NormalScores",
    "NotFitForRelease",
    "Outcome",
    "PairwiseRisk",
    "Plan",
    "PoissonRegression",
    "Policy",
    "PrivacyCost",
    "PrivacyError",
    "PseudoPosterior",
    "Regression",
    "Release",
    "Sequential",
    "StanModel",
    "Strict",
    "SurveyDesign",
    "SurveySynthError",
    "Synthesizer",
    "WeightedE",
    "__version__",
    "attribute_risk",
    "check_model",
    "compare",
    "convert",
    "correlations",
    "datasets",
    "diff",
    "difference",
    "dossier",
    "estimate",
    "expected_errors",
    "fit",
    "identification_risk",
    "independence_test",
    "joint_estimates",
    "laplace_tables",
    "likelihood_ratio_test",
    "match_risk",
    "measure",
    "membership_attack",
    "pairwise_weights",
    "perturbed_histogram",
    "population_covariances",
    "predictive_margins",
    "privacy_cost",
    "public_dossier",
    "r",
    "read_measurements",
    "read_release",
    "regression",
    "resume",
    "sampling",
    "standard_deviations",
    "studies",
    "synthesize",
    "wide",
    "with_replicates",
]
