"""Private tables from repeated samples of a known population."""
