"""What the official engine's form of each operator is."""
