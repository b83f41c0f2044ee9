"""Operators that make, cut, join, reorder and select."""
