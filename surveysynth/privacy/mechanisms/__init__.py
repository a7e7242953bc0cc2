"""Mechanisms: how records are protected while the model is fitted."""

from .base import Kind, MapName
from .censored import Censored
from .pseudo_posterior import PseudoPosterior
from .weighted_e import WeightedE

Mechanism = PseudoPosterior | WeightedE | Censored

__all__ = ["Censored", "Kind", "MapName", "Mechanism", "PseudoPosterior", "WeightedE"]
