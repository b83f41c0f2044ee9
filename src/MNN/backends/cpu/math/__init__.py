"""Functions of numbers as vector code, and scalar programs built from them."""
