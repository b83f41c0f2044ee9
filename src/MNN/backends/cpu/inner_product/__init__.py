"""Products by Winograd's inner products of 1968."""
