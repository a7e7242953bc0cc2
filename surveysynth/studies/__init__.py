"""What private tables are worth: measures, repeated samples of a known population, methods side by side on a file."""

from ..estimation.intervals import overlap
from .censoring.outputs import invocations
from .censoring.study import CensoringStudy, censoring_study, compare_mechanisms, ecdf_differences
from .clusters import by_domain, cluster_study, compare_clusters, two_stage
from .measures import compare_settings, compare_with_paper, rmse, rmse_ratios, summarize
from .reweighting.study import ReweightingStudy, compare_weightings, reweighting_study
from .risk_efficient.inputs import RiskEfficientPlan
from .risk_efficient.study import RiskEfficientStudy, consumer_units_study, risk_efficient_study
from .tabular.study import Population, Study, repeated_sampling, sdr

__all__ = [
    "CensoringStudy",
    "Population",
    "ReweightingStudy",
    "RiskEfficientPlan",
    "RiskEfficientStudy",
    "Study",
    "by_domain",
    "censoring_study",
    "cluster_study",
    "compare_clusters",
    "compare_mechanisms",
    "compare_settings",
    "compare_weightings",
    "compare_with_paper",
    "consumer_units_study",
    "ecdf_differences",
    "invocations",
    "overlap",
    "repeated_sampling",
    "reweighting_study",
    "risk_efficient_study",
    "rmse",
    "rmse_ratios",
    "sdr",
    "summarize",
    "two_stage",
]
