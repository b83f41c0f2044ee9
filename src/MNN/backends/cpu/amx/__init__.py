"""Products on the tiles of AMX."""
