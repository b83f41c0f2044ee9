"""The official form of the operators of ``ops/linear``."""

from __future__ import annotations

from MNN.frontends.mnn.official import legal_math
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "BatchMatMul": Official(table="BatchMatMulParam"),
    "ConvTranspose3D": Official(table="Convolution3D", advice="make its weights constants"),
    "Convolution": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "Convolution3D": Official(table="Convolution3D", layout=Layout.PACKED_FIRST),
    "ConvolutionDepthwise": Official(table="Convolution2D", layout=Layout.PACKED_FIRST, stands_for=("Convolution",)),
    "DFT": Official(advice="multiply by a constant matrix of sines and cosines, or use STFT's form as a convolution"),
    "Deconvolution": Official(table="Convolution2D", layout=Layout.PACKED_FIRST, advice="make its weights constants"),
    "DeconvolutionDepthwise": Official(
        table="Convolution2D",
        layout=Layout.PACKED_FIRST,
        stands_for=("Deconvolution",),
        advice="make its weights constants",
    ),
    "Det": Official(advice="compute it outside"),
    "Dilation2D": Official(table="Convolution2D", layout=Layout.PACKED_FIRST),
    "Einsum": Official(advice="write it as MatMul with transposes, or multiply and reduce"),
    "InnerProduct": Official(table="InnerProduct"),
    "MatMul": Official(table="MatMul", rule=legal_math.matmul, tidies=True),
    "Stft": Official(table="StftParam", advice="use a convolution whose weights are the windowed sines and cosines"),
}
