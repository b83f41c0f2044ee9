"""MNN in Python: convert, compress and run trained networks with kernels generated for the processor at hand.

The names of PyMNN are here: ``Interpreter``, ``Tensor``, ``nn``, ``expr``, ``numpy``, ``cv``, ``llm``. :func:`load` is
the short way to a model: ``MNN.load("model.onnx").run({"x": array})``. Parts are imported when they are first used.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
from typing import TYPE_CHECKING, Any

from MNN.absent import absent

__version__ = "0.1.0"

PYMNN = "3.6.1"
"""The release of PyMNN whose API this package offers."""

_PARTS = ("audio", "cv", "data", "expr", "llm", "nn", "numpy", "optim", "train")
_FROM = {
    "Interpreter": "MNN.interpreter",
    "OpInfo": "MNN.interpreter",
    "Session": "MNN.interpreter",
    "Tensor": "MNN.tensor",
    **{f"Halide_Type_{kind}": "MNN.tensor" for kind in ("Double", "Float", "Int", "Int64", "String", "Uint8")},
    **{f"Tensor_DimensionType_{kind}": "MNN.tensor" for kind in ("Caffe", "Caffe_C4", "Tensorflow")},
    "CVMatrix": "MNN.cv.preprocess.matrix",
    "CVImageProcess": "MNN.cv.preprocess.process",
    **{f"CV_Filter_{kind}": "MNN.cv.preprocess.process" for kind in ("BICUBIC", "BILINEAL", "NEAREST")},
    **{f"CV_Wrap_{kind}": "MNN.cv.preprocess.process" for kind in ("CLAMP_TO_EDGE", "REPEAT", "ZERO")},
    **{
        f"CV_ImageFormat_{kind}": "MNN.cv.preprocess.formats"
        for kind in ("BGR", "BGRA", "GRAY", "RGB", "RGBA", "YUV_I420", "YUV_NV12", "YUV_NV21")
    },
    "MNNError": "MNN.errors",
    "Model": "MNN.model",
    "from_torch": "MNN.torch_modules",
    "get_model_uuid": "MNN.model",
    "load": "MNN.model",
}
_LATER = {"tools"}

if TYPE_CHECKING:
    from MNN import audio as audio
    from MNN import cv as cv
    from MNN import data as data
    from MNN import expr as expr
    from MNN import llm as llm
    from MNN import nn as nn
    from MNN import numpy as numpy
    from MNN import optim as optim
    from MNN import train as train
    from MNN.cv.preprocess.formats import CV_ImageFormat_BGR as CV_ImageFormat_BGR
    from MNN.cv.preprocess.formats import CV_ImageFormat_BGRA as CV_ImageFormat_BGRA
    from MNN.cv.preprocess.formats import CV_ImageFormat_GRAY as CV_ImageFormat_GRAY
    from MNN.cv.preprocess.formats import CV_ImageFormat_RGB as CV_ImageFormat_RGB
    from MNN.cv.preprocess.formats import CV_ImageFormat_RGBA as CV_ImageFormat_RGBA
    from MNN.cv.preprocess.formats import CV_ImageFormat_YUV_I420 as CV_ImageFormat_YUV_I420
    from MNN.cv.preprocess.formats import CV_ImageFormat_YUV_NV12 as CV_ImageFormat_YUV_NV12
    from MNN.cv.preprocess.formats import CV_ImageFormat_YUV_NV21 as CV_ImageFormat_YUV_NV21
    from MNN.cv.preprocess.matrix import CVMatrix as CVMatrix
    from MNN.cv.preprocess.process import CV_Filter_BICUBIC as CV_Filter_BICUBIC
    from MNN.cv.preprocess.process import CV_Filter_BILINEAL as CV_Filter_BILINEAL
    from MNN.cv.preprocess.process import CV_Filter_NEAREST as CV_Filter_NEAREST
    from MNN.cv.preprocess.process import CV_Wrap_CLAMP_TO_EDGE as CV_Wrap_CLAMP_TO_EDGE
    from MNN.cv.preprocess.process import CV_Wrap_REPEAT as CV_Wrap_REPEAT
    from MNN.cv.preprocess.process import CV_Wrap_ZERO as CV_Wrap_ZERO
    from MNN.cv.preprocess.process import CVImageProcess as CVImageProcess
    from MNN.errors import MNNError as MNNError
    from MNN.interpreter import Interpreter as Interpreter
    from MNN.interpreter import OpInfo as OpInfo
    from MNN.interpreter import Session as Session
    from MNN.model import Model as Model
    from MNN.model import get_model_uuid as get_model_uuid
    from MNN.model import load as load
    from MNN.tensor import Halide_Type_Double as Halide_Type_Double
    from MNN.tensor import Halide_Type_Float as Halide_Type_Float
    from MNN.tensor import Halide_Type_Int as Halide_Type_Int
    from MNN.tensor import Halide_Type_Int64 as Halide_Type_Int64
    from MNN.tensor import Halide_Type_String as Halide_Type_String
    from MNN.tensor import Halide_Type_Uint8 as Halide_Type_Uint8
    from MNN.tensor import Tensor as Tensor
    from MNN.tensor import Tensor_DimensionType_Caffe as Tensor_DimensionType_Caffe
    from MNN.tensor import Tensor_DimensionType_Caffe_C4 as Tensor_DimensionType_Caffe_C4
    from MNN.tensor import Tensor_DimensionType_Tensorflow as Tensor_DimensionType_Tensorflow
    from MNN.torch_modules import from_torch as from_torch


def _check_alone() -> None:
    """Warns when the official distribution lies in the same folder. It has a package of this name too: whichever was
    installed last has overwritten files of the other. Looks for its extension module, which costs microseconds."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if os.path.exists(os.path.join(folder, f"_mnncengine{suffix}")):
            from MNN.warning import warn

            warn(
                f"the official MNN package and this one (mnn-py) are both installed in {folder}, and their files are "
                "mixed: remove both (pip uninstall MNN mnn-py), then install the one that you want",
                RuntimeWarning,
            )


_check_alone()


def version() -> str:
    """The release of PyMNN that this package stands in for."""
    return PYMNN


if not TYPE_CHECKING:  # names that are not here are errors for type checkers

    def __getattr__(name: str) -> Any:
        if name in _PARTS:
            return importlib.import_module(f"MNN.{name}")
        if name in _FROM:
            value = getattr(importlib.import_module(_FROM[name]), name)
            globals()[name] = value
            return value
        raise absent("MNN", name, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS, *_FROM})
