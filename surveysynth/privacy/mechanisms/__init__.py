"""The list of the mechanisms that protect records.  Reports, plans, manifests and the R package read this list."""

from collections.abc import Mapping

from ...errors import InputError
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
    """Return, for each name of a mechanism in plans, the mechanism's class and the meaning of the name."""
    return {name: (mechanism, entry) for mechanism in MECHANISMS.values() for name, entry in mechanism.plan.items()}


def check_listed(mechanism: Mechanism) -> None:
    """Refuse a mechanism that is not in ``MECHANISMS``, or whose class lacks ``name``, ``in_r`` or ``guarantees``.

    Reports could not describe such a mechanism, so InputError is raised.
    """
    kind = type(mechanism)
    missing = ", ".join(name for name in ("name", "in_r", "guarantees") if not hasattr(kind, name))
    if missing:
        raise InputError(f"the mechanism {kind.__name__} lacks {missing}; see surveysynth.privacy.mechanisms.Mechanism")
    if MECHANISMS.get(kind.name) is not kind:  # a subclass that inherits its name would be taken for the listed class
        raise InputError(
            f"the mechanism {kind.__name__} is in no list, so that no report could name it: from "
            f"surveysynth.privacy.mechanisms import MECHANISMS, and MECHANISMS[{kind.__name__}.name] = {kind.__name__}"
        )


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
    "check_listed",
    "in_plans",
]
