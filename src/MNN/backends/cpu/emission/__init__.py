"""From groups of primitives to commands: where tensors lie, and which handler takes a group."""
