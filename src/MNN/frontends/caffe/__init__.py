"""Caffe's networks to graphs: a prototxt with its caffemodel, or a caffemodel alone, read without Caffe.

One file per family of layers fills the registry; :func:`load` is the way in. :func:`read_mean` reads mean files.
"""

from MNN.frontends.caffe.load import load
from MNN.frontends.caffe.sources import read_mean

__all__ = ["load", "read_mean"]
