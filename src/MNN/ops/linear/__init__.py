"""Products: matrices, convolutions, Einstein sums, Fourier transforms."""
