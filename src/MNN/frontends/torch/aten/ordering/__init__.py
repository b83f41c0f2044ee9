"""Operators whose results follow from the order of numbers."""
