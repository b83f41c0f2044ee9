"""Several commands run for one block before the next, so that what passes between them stays in cache."""
