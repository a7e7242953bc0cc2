"""Privacy: risks, weights, mechanisms, tuning and the report."""
