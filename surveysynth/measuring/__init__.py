"""Measuring: noisy tables of the confidential file.  Later steps read these tables and not the confidential values."""
