"""Measuring: the confidential file as noisy tables, which is all that later steps see of it."""
