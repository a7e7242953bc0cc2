"""The command line: one module for each command ``surveysynth NAME``, and modules that the commands share."""
