"""FBS and FBP: outcomes and log weight, jointly normal given the predictors."""
