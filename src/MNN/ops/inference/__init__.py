"""Shape inference: element types and sizes as far as they follow without running."""
