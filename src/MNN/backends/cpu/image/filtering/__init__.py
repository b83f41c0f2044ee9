"""Pixels from their neighbours."""
