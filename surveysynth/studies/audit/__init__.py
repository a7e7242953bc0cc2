"""A membership attack that recomputes everything, against the epsilon that a mechanism states."""
