"""Passes that compute on constants at conversion."""
