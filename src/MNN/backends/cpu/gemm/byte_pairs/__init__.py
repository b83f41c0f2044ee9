"""Products of bytes by sums of pairs in 16 bits, on processors without anything better (AVX2, SSE4.1)."""
