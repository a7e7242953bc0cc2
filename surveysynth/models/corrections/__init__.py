"""Corrections of released draws for what the papers' mechanisms, privacy weights and clamps, do to a fit."""
