"""Designs, releases and checks in R: the bridge by rpy2 (``pip install 'surveysynth[r]'``).

ss.r.to_r(design)              survey.design or svyrep.design, as R's survey package has it
ss.r.from_r(obj)               and back
ss.r.release_to_r(release)     the synthetic designs as one object, as mitools has them
ss.r.evaluate("svymean(~zinc, design)", design=design)        any number, checked in one line
ss.estimate(design, "zinc", by="race", estimator="survey")    any table, computed by R
"""

from .designs import evaluate, from_r, release_to_r, to_r
from .session import RError, call, inclusion_probabilities, session

__all__ = ["RError", "call", "evaluate", "from_r", "inclusion_probabilities", "release_to_r", "session", "to_r"]
