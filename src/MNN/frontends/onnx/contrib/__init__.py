"""ONNX Runtime's own operators (domain com.microsoft)."""
