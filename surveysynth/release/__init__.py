"""What leaves the agency: the release, the folder of a release, and cell suppression in its tables."""
