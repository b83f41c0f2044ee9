"""ONNX models to graphs. One file per operator family fills the registry; :func:`load` is the way in."""

from MNN.frontends.onnx.load import load

__all__ = ["load"]
