"""Layers that go on from a state in a slot of a pool: short convolutions, and attention with a matrix for each head."""
