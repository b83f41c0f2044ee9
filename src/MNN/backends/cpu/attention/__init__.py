"""Attention over a cache in pages: writing new keys and values, and attending to what is there."""
