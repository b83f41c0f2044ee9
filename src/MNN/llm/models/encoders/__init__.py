"""Models that give every token of a text a vector."""
