"""The dossier of a release, which a disclosure review board signs, and its public version."""
