"""Passes that find shapes and change the order of operators."""
