"""What operators are made of: the registry, the builder of primitives, helpers."""
