"""Ways to weight records down, side by side."""
