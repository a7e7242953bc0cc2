"""Replications of the studies in four papers, with the numbers printed there.

``README.md`` lists what each study reproduces.  The wheel does not contain this folder, and surveysynth does not import
from it.
"""
