"""The plan of a release: the file that says everything that a release is made of, and what to expect of it."""
