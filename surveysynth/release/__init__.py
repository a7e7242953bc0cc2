"""Releases: what an agency publishes, the folder with its files, and cell suppression in tables."""
