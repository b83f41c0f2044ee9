"""Programs bound to memory."""
