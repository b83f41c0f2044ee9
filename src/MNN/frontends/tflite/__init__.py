"""TensorFlow Lite (LiteRT) models to graphs. One file per operator family fills the registry; :func:`load` is the way
in."""

from MNN.frontends.tflite.load import load

__all__ = ["load"]
