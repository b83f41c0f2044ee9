"""Pictures: read, write, convert, resize, warp and filter, with the names of PyMNN's ``MNN.cv`` and OpenCV's meaning.

A picture has the shape (height, width, channels), channels in the order blue, green, red. Every function takes anything
that numpy can make an array of, and gives Vars (:class:`MNN.expr.Var`) in the layout NHWC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from MNN.absent import absent as _absent
from MNN.cv import _color_codes, _constants
from MNN.cv._basic import (
    addWeighted,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    copyTo,
    flip,
    hconcat,
    mean,
    merge,
    normalize,
    rotate,
    split,
    threshold,
    vconcat,
)
from MNN.cv._border import copyMakeBorder
from MNN.cv._camera import Rodrigues, solve, solvePnP
from MNN.cv._color import cvtColor, cvtColorTwoPlane
from MNN.cv._color_codes import *  # noqa: F403
from MNN.cv._constants import *  # noqa: F403
from MNN.cv._contours import findContours
from MNN.cv._derivative import Laplacian, Scharr, Sobel, getDerivKernels, pyrDown, pyrUp, spatialGradient
from MNN.cv._drawing import arrowedLine, circle, drawContours, fillPoly, line, rectangle
from MNN.cv._files import haveImageReader, haveImageWriter, imdecode, imencode, imread, imwrite
from MNN.cv._filter import GaussianBlur, blur, boxFilter, filter2D, getGaussianKernel, sepFilter2D
from MNN.cv._morphology import dilate, erode, getStructuringElement
from MNN.cv._regions import calcHist, connectedComponentsWithStats
from MNN.cv._resample import resize
from MNN.cv._shapes import boundingRect, boxPoints, contourArea, convexHull, minAreaRect
from MNN.cv._smoothing import adaptiveThreshold, bilateralFilter, blendLinear, getGaborKernel, sqrBoxFilter
from MNN.cv._warp import (
    convertMaps,
    getAffineTransform,
    getPerspectiveTransform,
    getRectSubPix,
    getRotationMatrix2D,
    invertAffineTransform,
    remap,
    warpAffine,
    warpPerspective,
)
from MNN.cv.kernels.run import getNumThreads, setNumThreads
from MNN.expr.arrays.mistakes import tell as _tell

__all__ = [
    "Laplacian",
    "Rodrigues",
    "Scharr",
    "Sobel",
    "adaptiveThreshold",
    "arrowedLine",
    "bilateralFilter",
    "blendLinear",
    "boundingRect",
    "boxPoints",
    "calcHist",
    "circle",
    "connectedComponentsWithStats",
    "contourArea",
    "convertMaps",
    "convexHull",
    "dilate",
    "drawContours",
    "erode",
    "fillPoly",
    "findContours",
    "getDerivKernels",
    "getNumThreads",
    "getGaborKernel",
    "getRectSubPix",
    "getStructuringElement",
    "line",
    "minAreaRect",
    "pyrDown",
    "pyrUp",
    "rectangle",
    "solve",
    "solvePnP",
    "spatialGradient",
    "sqrBoxFilter",
    "GaussianBlur",
    "addWeighted",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "blur",
    "boxFilter",
    "copyMakeBorder",
    "copyTo",
    "cvtColor",
    "cvtColorTwoPlane",
    "filter2D",
    "flip",
    "getAffineTransform",
    "getGaussianKernel",
    "getPerspectiveTransform",
    "getRotationMatrix2D",
    "haveImageReader",
    "haveImageWriter",
    "hconcat",
    "imdecode",
    "imencode",
    "imread",
    "imwrite",
    "invertAffineTransform",
    "mean",
    "merge",
    "normalize",
    "remap",
    "resize",
    "setNumThreads",
    "rotate",
    "sepFilter2D",
    "split",
    "threshold",
    "vconcat",
    "warpAffine",
    "warpPerspective",
    *(name for module in (_color_codes, _constants) for name in vars(module) if not name.startswith("_")),
]

if not TYPE_CHECKING:  # names that are not here are errors for type checkers
    _tell(globals(), "MNN.cv")

    def __getattr__(name: str) -> object:
        raise _absent("MNN.cv", name, ())
