"""Functions of single numbers."""
