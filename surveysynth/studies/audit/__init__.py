"""A membership attack that measures the file again in every game, as a test of the epsilon that a mechanism states."""
