"""Replicate weights: bootstraps, jackknife, balanced half samples, successive differences, and weights of a file."""
