"""Replicate weights: bootstraps, jackknife, balanced half samples, successive differences, and columns of a file."""
