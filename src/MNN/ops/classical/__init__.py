"""ONNX-ML: classical models."""
