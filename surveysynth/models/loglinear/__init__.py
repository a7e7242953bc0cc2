"""Log-linear models of noisy tables: what ``Strict`` fits in place of records."""
