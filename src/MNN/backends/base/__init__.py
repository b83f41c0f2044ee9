"""What every back end has: the interface that compiler and runtime know, programs, kernels, memory, constants."""
