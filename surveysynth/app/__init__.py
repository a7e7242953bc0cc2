"""The page on which a team plans a release: its settings are a plan, which is saved after every change."""
