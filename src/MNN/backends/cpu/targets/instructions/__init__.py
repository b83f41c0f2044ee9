"""Instructions that kernels ask for: capabilities with their reference implementation, and one file a family."""
