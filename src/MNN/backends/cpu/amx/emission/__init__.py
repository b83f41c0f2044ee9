"""From groups of primitives to commands on the tiles of AMX."""
