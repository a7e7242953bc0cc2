"""Replications of the papers' studies, with the numbers that the papers print.

``README.md`` lists what each study reproduces.  The wheel does not contain this folder, and surveysynth does not import
from it.
"""
