"""Corrections of released draws of parameters for the bias that privacy weights or clamps cause."""
