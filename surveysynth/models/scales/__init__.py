"""Working scales of numeric outcomes, and the levels of categorical outcomes."""
