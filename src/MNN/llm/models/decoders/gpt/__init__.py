"""Families that are built like GPT: layer norms and plain feed-forward layers."""
