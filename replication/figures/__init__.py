"""Figures of the replicated papers.  Each is drawn from data frames and written to a file."""

from .densities import density_curves
from .identification import RISK_MEASURES, RISKS, radius_curves, risk_violins, whack_a_mole
from .mechanisms import MECHANISMS, WEIGHTINGS, epsilon_curves, mechanism_violins, weighting_violins
from .style import REFERENCE
from .tabular import STATISTICS, coverage_against_cv, rmse_violins
from .weights import bounds_against_weights, lipschitz_violins, weight_changes, weight_scatter, weights_against_values

__all__ = [
    "MECHANISMS",
    "REFERENCE",
    "RISKS",
    "RISK_MEASURES",
    "STATISTICS",
    "WEIGHTINGS",
    "bounds_against_weights",
    "coverage_against_cv",
    "density_curves",
    "epsilon_curves",
    "lipschitz_violins",
    "mechanism_violins",
    "radius_curves",
    "risk_violins",
    "rmse_violins",
    "weight_changes",
    "weight_scatter",
    "weighting_violins",
    "weights_against_values",
    "whack_a_mole",
]
