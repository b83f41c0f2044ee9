"""Classifiers of pictures from a configuration of few lines, as ``mnn train`` makes them."""

from MNN.train.classification.run import Trained, begin_anew, train
from MNN.train.classification.settings import Settings, read

__all__ = ["Settings", "Trained", "begin_anew", "read", "train"]
