"""Corrections of released draws for the bias by the papers' mechanisms: privacy weights and clamps."""
