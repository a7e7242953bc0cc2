"""Risk-efficient synthesis of the incomes of consumer units (Hu, Savitsky & Williams 2022b)."""
