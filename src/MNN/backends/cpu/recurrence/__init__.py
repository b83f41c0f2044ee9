"""Recurrent layers: one command for a whole sequence."""
