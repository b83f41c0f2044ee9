"""The official form of the operators of ``ops/quantized``."""

from __future__ import annotations

from MNN.frontends.mnn.official import legal_quant
from MNN.frontends.mnn.official.advice import QUANTIZED
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "ConvInt8": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "ConvInteger": Official(rule=legal_quant.conv_integer, advice=QUANTIZED),
    "DepthwiseConvInt8": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "DequantizeLinear": Official(rule=legal_quant.dequantize, advice=QUANTIZED),
    "DynamicQuantizeLinear": Official(rule=legal_quant.dynamic, advice=QUANTIZED),
    "FloatToInt8": Official(table="QuantizedFloatParam", layout=Layout.PACKED_FIRST),
    "Int8ToFloat": Official(table="QuantizedFloatParam", layout=Layout.PACKED_FIRST),
    "MatMulInteger": Official(rule=legal_quant.matmul_integer, advice=QUANTIZED),
    "QLinearConv": Official(rule=legal_quant.qlinear_conv, advice=QUANTIZED),
    "QLinearMatMul": Official(rule=legal_quant.qlinear_matmul, advice=QUANTIZED),
    "QuantizeLinear": Official(rule=legal_quant.quantize, advice=QUANTIZED),
}
