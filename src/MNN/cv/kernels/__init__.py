"""Functions on pictures by compiled kernels. What they do not do, the functions' own numpy code does."""
