"""ONNX's own operators, one file per family."""
