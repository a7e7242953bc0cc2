"""The risk-efficient synthesizer of consumer units (Hu, Savitsky & Williams 2022b)."""
