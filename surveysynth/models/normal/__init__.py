"""The fully Bayes synthesizers FBS and FBP: normal regressions of outcomes and log weight on public predictors."""
