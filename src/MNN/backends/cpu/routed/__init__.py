"""Products of rows that choose one of several matrices: mixtures of experts."""
