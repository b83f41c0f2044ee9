"""Generated loop nests: maps, copies, reductions, gathers, scatters, running sums."""
