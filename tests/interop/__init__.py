"""Checks .mnn files against the official engine, both ways: ``python -m tests.interop``."""
