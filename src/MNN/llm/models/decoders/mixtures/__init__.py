"""Families with experts of which every token takes some."""
