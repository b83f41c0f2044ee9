"""The TensorFlow front end: frozen graphs, SavedModels and checkpoints with a meta graph to graphs."""

from MNN.frontends.tensorflow.load import load

__all__ = ["load"]
