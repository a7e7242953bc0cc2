"""FBS and FBP: normal regressions of outcomes and log weight on the predictors."""
