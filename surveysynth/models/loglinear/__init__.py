"""Log-linear models that ``Strict`` fits to noisy tables; the other mechanisms fit models of records."""
