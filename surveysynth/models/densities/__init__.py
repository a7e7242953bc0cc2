"""Log densities of records in posterior draws, and their largest absolute values: Lipschitz bounds."""
