"""The mixture synthesizer."""
