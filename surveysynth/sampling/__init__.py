"""Sampling: inclusion probabilities, selection, and joint inclusion probabilities.

Positions of units are counted from 0.

The functions correspond to ``inclusionprobabilities``, ``UPsystematic``, ``UPbrewer``, ``UPtille``, ``UPmaxentropy``
and others in R's package ``sampling``, and work for populations of up to ten million units.
"""

from .joint import GivenJoint, Joint, joint_probabilities
from .maximum_entropy import ConditionalPoisson, conditional_poisson, maximum_entropy
from .probabilities import Floats, Positions, SampleSize, inclusion_probabilities, proportional_allocation
from .selection import brewer, multinomial, poisson, random_systematic, simple_random, systematic
from .stratified import METHODS, Selection, draw
from .tille import tille

__all__ = [
    "METHODS",
    "ConditionalPoisson",
    "Floats",
    "GivenJoint",
    "Joint",
    "Positions",
    "SampleSize",
    "Selection",
    "brewer",
    "conditional_poisson",
    "draw",
    "inclusion_probabilities",
    "joint_probabilities",
    "maximum_entropy",
    "multinomial",
    "poisson",
    "proportional_allocation",
    "random_systematic",
    "simple_random",
    "systematic",
    "tille",
]
