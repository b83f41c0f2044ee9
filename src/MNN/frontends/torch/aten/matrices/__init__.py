"""Functions of whole matrices."""
