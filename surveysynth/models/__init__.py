"""Synthesizers: what they are, and the transforms they work on."""
