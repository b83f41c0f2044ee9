"""Conversions between colour spaces that have no kernels."""
