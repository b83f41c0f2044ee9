"""The Keras front end: ``.keras`` archives and ``.h5`` files of Keras 2 and 3 to graphs, without Keras."""

from MNN.frontends.keras.load import load

__all__ = ["load"]
