"""The native loop and its workers."""
