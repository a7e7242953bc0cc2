"""Figures and tables as an office prints them."""
