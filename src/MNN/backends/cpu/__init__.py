"""The CPU: kernels generated through LLVM for the processor at hand."""
