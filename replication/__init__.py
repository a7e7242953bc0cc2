"""Replications of the studies in the papers behind surveysynth, compared with the printed numbers.

``README.md`` says what each study reproduces.  The studies are not in the wheel, and surveysynth does not import them.
"""
