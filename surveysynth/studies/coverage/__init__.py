"""Repeated samples from real populations: how often the intervals of each mechanism contain the truth."""
