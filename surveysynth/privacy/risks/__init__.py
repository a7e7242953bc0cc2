"""Disclosure risks of records."""
