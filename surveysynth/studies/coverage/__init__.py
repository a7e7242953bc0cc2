"""Repeated samples from real populations: whether intervals hold the truth, mechanism by mechanism."""
