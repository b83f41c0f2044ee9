"""The official form of the operators of ``ops/quantized``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import QUANTIZED
from MNN.frontends.mnn.official.record import Official
from MNN.frontends.mnn.official.rules import quantized

OPERATORS: dict[str, Official] = {
    "ConvInteger": Official(rule=quantized.conv_integer, advice=QUANTIZED),
    "DequantizeLinear": Official(rule=quantized.dequantize, advice=QUANTIZED),
    "DynamicQuantizeLinear": Official(rule=quantized.dynamic, advice=QUANTIZED),
    "MatMulInteger": Official(rule=quantized.matmul_integer, advice=QUANTIZED),
    "QLinearConv": Official(rule=quantized.qlinear_conv, advice=QUANTIZED),
    "QLinearMatMul": Official(rule=quantized.qlinear_matmul, advice=QUANTIZED),
    "QuantizeLinear": Official(rule=quantized.quantize, advice=QUANTIZED),
}
