"""The list of mechanisms that protect records, which reports, plans, manifests and the R package read."""

from collections.abc import Mapping

from .base import Assessment, InPlans, Mechanism, RecordMechanism
from .censored import Censored
from .perturbed_histogram import PerturbedHistogram
from .pseudo_posterior import PseudoPosterior
from .strict import Strict
from .weighted_e import WeightedE

MECHANISMS: dict[str, type[Mechanism]] = {  # by name in reports
    mechanism.name: mechanism
    for mechanism in (
        Strict,
        PseudoPosterior,
        WeightedE,
        Censored,
        PerturbedHistogram,
    )
}


def in_plans() -> Mapping[str, tuple[type[Mechanism], InPlans]]:
    """Mechanisms of plans, by name in plans."""
    return {name: (mechanism, entry) for mechanism in MECHANISMS.values() for name, entry in mechanism.plan.items()}


__all__ = [
    "MECHANISMS",
    "Assessment",
    "Censored",
    "InPlans",
    "Mechanism",
    "PerturbedHistogram",
    "PseudoPosterior",
    "RecordMechanism",
    "Strict",
    "WeightedE",
    "in_plans",
]
