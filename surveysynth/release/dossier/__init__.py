"""The dossier of a release: what a disclosure review board signs, and its public twin."""
