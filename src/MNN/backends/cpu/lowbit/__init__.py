"""Products with weights that stay in 2, 4 or 8 bits."""
