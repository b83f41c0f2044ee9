"""ATen operators by family."""
