"""Tensors of which not all is there: rows of different lengths (ragged), numbers at places (sparse)."""
