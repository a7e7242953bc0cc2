"""Censored and weighted mechanisms, side by side."""
