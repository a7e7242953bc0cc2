"""Public predictors: their model matrix, groups of records with a common effect, and public survey weights."""
