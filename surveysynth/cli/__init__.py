"""The command line: one module for each command ``surveysynth NAME``, and options and printing that they share."""
