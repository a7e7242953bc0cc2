"""Mechanisms: how records are protected while the model is fitted."""

from ..report import Kind
from .base import Assessment, Mechanism
from .censored import Censored
from .pseudo_posterior import PseudoPosterior
from .strict import Strict
from .weighted_e import WeightedE

__all__ = ["Assessment", "Censored", "Kind", "Mechanism", "PseudoPosterior", "Strict", "WeightedE"]
