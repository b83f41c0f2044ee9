"""Steps of optimisers, and random numbers."""
