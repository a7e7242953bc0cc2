"""Noisy tables: counts of confidential records plus noise.  Later steps read only these tables."""
