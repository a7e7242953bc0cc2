"""Plans: the file from which a release is made, and what to expect of it."""
