"""Benchmark models and comparisons with other engines; not part of the installed package."""
