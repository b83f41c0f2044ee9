"""Members of enumerations that PyMNN's ``expr`` has by their bare names: ``NCHW``, ``CPU``, ``float``, ``int``, ..."""

from MNN.expr.types import (
    Backend,
    Interp_Method,
    Padding_Mode,
    PadValue_Mode,
    Pooling_Mode,
    PrecisionMode,
    data_format,
    dtype,
)

CPU = Backend.CPU
METAL = Backend.METAL
CUDA = Backend.CUDA
OPENCL = Backend.OPENCL
OPENGL = Backend.OPENGL
VULKAN = Backend.VULKAN
TRT = Backend.TRT
HIAI = Backend.HIAI

NEAREST = Interp_Method.NEAREST
BILINEAR = Interp_Method.BILINEAR

CAFFE = Padding_Mode.CAFFE
VALID = Padding_Mode.VALID
SAME = Padding_Mode.SAME

CONSTANT = PadValue_Mode.CONSTANT
REFLECT = PadValue_Mode.REFLECT
SYMMETRIC = PadValue_Mode.SYMMETRIC

MAXPOOL = Pooling_Mode.MAXPOOL
AVEPOOL = Pooling_Mode.AVEPOOL

Normal = PrecisionMode.Normal
High = PrecisionMode.High
Low = PrecisionMode.Low
Low_BF16 = PrecisionMode.Low_BF16

NCHW = data_format.NCHW
NHWC = data_format.NHWC
NC4HW4 = data_format.NC4HW4

float = dtype.float
double = dtype.double
int = dtype.int
int64 = dtype.int64
uint8 = dtype.uint8
int8 = dtype.int8
