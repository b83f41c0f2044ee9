"""What every back end has: kernels as the compiler sees them."""
