"""Matrix products and convolutions by implicit GEMM on vectors."""
