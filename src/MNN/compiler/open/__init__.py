"""Plans for a range of sizes."""
