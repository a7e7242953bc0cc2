"""Replications of the papers' studies, with the numbers that the papers print.

``README.md`` lists what each study reproduces.  They are not in the wheel, and surveysynth imports none of them.
"""
