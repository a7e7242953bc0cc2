"""Synthetic data sets from a design."""
