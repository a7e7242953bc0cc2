"""Corrections of released draws for the bias that privacy weights or clamps cause."""
