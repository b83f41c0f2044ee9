"""Constant weights as kernels read them, packed once."""
