"""The studies of the papers that surveysynth is built on, done again, beside the numbers that they print.

``README.md`` says what each reproduces.  Nothing of it is in the wheel, and surveysynth imports nothing of it.
"""
