"""Replicate weights: the bootstrap, the jackknife, balanced half samples, and weights of a file."""
