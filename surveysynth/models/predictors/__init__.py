"""The model matrix of public predictors, groups of records with a common effect, and public survey weights."""
