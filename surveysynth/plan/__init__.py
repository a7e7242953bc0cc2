"""Plans: all entries that define a release, their file, and the accuracy to expect of the release."""
