"""What each operator is in ONNX, one file per family."""
