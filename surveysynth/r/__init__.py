"""Conversion of designs and releases to R, and checks of results in R, by rpy2 (``pip install 'surveysynth[r]'``).

ss.r.to_r(design)              a survey.design or svyrep.design of R's survey package
ss.r.from_r(obj)               a SurveyDesign from such an object
ss.r.release_to_r(release)     the synthetic designs as one svyimputationList of R's mitools
ss.r.evaluate("svymean(~zinc, design)", design=design)        the value of an R expression
ss.estimate(design, "zinc", by="race", estimator="survey")    a table computed by R
"""

from .designs import evaluate, from_r, release_to_r, to_r
from .session import RError, call, inclusion_probabilities, session

__all__ = ["RError", "call", "evaluate", "from_r", "inclusion_probabilities", "release_to_r", "session", "to_r"]
