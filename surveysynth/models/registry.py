"""The models that there are: policies, the command line and the R package read this list.

A new model is two files, ``models/x.py`` and ``stan/x.stan``, and a line here.
"""

from __future__ import annotations

from .base import Synthesizer
from .beta.model import BetaRegression
from .counts.model import NegativeBinomialRegression, PoissonRegression
from .gamma import GammaRegression
from .mixture.model import Mixture
from .normal.fbp import FBP
from .normal.fbs import FBS

MODELS: dict[str, type[Synthesizer]] = {  # by the names that the command line has for them
    "fbs": FBS,
    "fbp": FBP,
    "beta": BetaRegression,
    "nb": NegativeBinomialRegression,
    "poisson": PoissonRegression,
    "gamma": GammaRegression,
    "mixture": Mixture,
}
