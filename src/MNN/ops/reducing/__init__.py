"""Reductions, softmax and normalisations."""
