"""What leaves the agency: a release, its folder, what is suppressed in its tables."""
