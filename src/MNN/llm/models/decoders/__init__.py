"""Families of models that write text, one file each."""
