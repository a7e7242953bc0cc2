"""The synthesizer of skewed outcomes: a mixture of regressions."""
