"""Replications of the studies in four papers, and the results printed in these papers.

``README.md`` lists what each study reproduces.  The wheel does not contain this folder, and surveysynth does not import
from it.
"""
