"""From kernel descriptions to machine code in memory."""
