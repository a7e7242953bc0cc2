"""Mechanisms: how records are protected while the model is fitted."""

from ..report import Kind
from .base import Assessment, MapName, Mechanism
from .censored import Censored
from .pseudo_posterior import PseudoPosterior
from .weighted_e import WeightedE

__all__ = ["Assessment", "Censored", "Kind", "MapName", "Mechanism", "PseudoPosterior", "WeightedE"]
