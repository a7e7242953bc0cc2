"""Log densities of records in posterior draws, and the largest |log density| of each record (Lipschitz bounds)."""
