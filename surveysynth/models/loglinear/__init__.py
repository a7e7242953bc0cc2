"""Log-linear models that are fitted to noisy tables, for ``Strict``, the default mechanism."""
