"""Measuring: noisy tables of the confidential file, which are all that later steps see of it."""
