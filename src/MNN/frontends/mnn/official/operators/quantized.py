"""The official form of the operators of ``ops/quantized``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import QUANTIZED
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "ConvInt8": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "ConvInteger": Official(advice=QUANTIZED),
    "DepthwiseConvInt8": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "DequantizeLinear": Official(advice=QUANTIZED),
    "DynamicQuantizeLinear": Official(advice=QUANTIZED),
    "FloatToInt8": Official(table="QuantizedFloatParam", layout=Layout.PACKED_FIRST),
    "Int8ToFloat": Official(table="QuantizedFloatParam", layout=Layout.PACKED_FIRST),
    "MatMulInteger": Official(advice=QUANTIZED),
    "QLinearConv": Official(advice=QUANTIZED),
    "QLinearMatMul": Official(advice=QUANTIZED),
    "QuantizeLinear": Official(advice=QUANTIZED),
}
