"""Scales of outcomes: working scales of numbers, and the levels of categories."""
