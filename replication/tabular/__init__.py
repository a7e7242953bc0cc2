"""Private tables from repeated samples of a known population (Hu, Savitsky & Williams 2022a)."""
