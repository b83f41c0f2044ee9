"""The way back: graphs as standard ONNX models."""

from MNN.frontends.onnx_export.export import onnx_model, write_model_proto

__all__ = ["onnx_model", "write_model_proto"]
