"""How risky each record is."""
