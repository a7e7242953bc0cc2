"""From a design to synthetic data sets."""
