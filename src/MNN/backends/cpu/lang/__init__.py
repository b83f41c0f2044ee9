"""The kernel language: a small, typed emitter of textual LLVM IR."""
