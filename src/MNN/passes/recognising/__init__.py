"""Passes that recognise compositions and write them as one operator."""
