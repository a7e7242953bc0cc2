"""Comparison of privacy weights before and after re-weighting (Hu, Savitsky & Williams 2020)."""
