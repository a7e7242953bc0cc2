"""Comparison of censored and weighted mechanisms (Hu, Williams & Savitsky 2025)."""
