"""Log-linear models of noisy tables, which ``Strict`` fits instead of models of records."""
