"""Plans: all settings that define a release, the file that holds them, and the accuracy to expect of the release."""
