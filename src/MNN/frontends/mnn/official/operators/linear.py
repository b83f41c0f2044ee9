"""The official form of the operators of ``ops/linear``."""

from __future__ import annotations

from dataclasses import replace

from MNN.frontends.mnn.official import limits, stored, weights
from MNN.frontends.mnn.official.record import Kernel, Layout, Official
from MNN.frontends.mnn.official.rules import arithmetic

_CONVOLUTION = Official(
    table="Convolution2D", layout=Layout.PACKED_FIRST, write=weights.convolution, read=stored.convolution
)
_CONVOLUTION_3D = Official(table="Convolution3D", write=weights.convolution, read=stored.convolution_3d)

OPERATORS: dict[str, Official] = {
    "BatchMatMul": Official(table="BatchMatMulParam"),
    "ConvTranspose3D": replace(_CONVOLUTION_3D, kernel=Kernel(transposed=True), advice="make its weights constants"),
    "Convolution": replace(_CONVOLUTION, kernel=Kernel(each_channel="ConvolutionDepthwise", computed=True)),
    "Convolution3D": replace(_CONVOLUTION_3D, layout=Layout.PACKED_FIRST, kernel=Kernel()),
    "ConvolutionDepthwise": replace(
        _CONVOLUTION, kernel=Kernel(depthwise=True, computed=True), stands_for=("Convolution",)
    ),
    "DFT": Official(advice="multiply by a constant matrix of sines and cosines, or use STFT's form as a convolution"),
    "Deconvolution": replace(
        _CONVOLUTION,
        kernel=Kernel(transposed=True, each_channel="DeconvolutionDepthwise"),
        advice="make its weights constants",
    ),
    "DeconvolutionDepthwise": replace(
        _CONVOLUTION,
        kernel=Kernel(transposed=True, depthwise=True),
        stands_for=("Deconvolution",),
        advice="make its weights constants",
    ),
    "Det": Official(write=limits.nothing, advice="compute it outside"),
    "Einsum": Official(advice="write it as MatMul with transposes, or multiply and reduce"),
    "Im2Col": Official(table="Convolution2D"),
    "InnerProduct": Official(table="InnerProduct", write=weights.inner_product, read=stored.inner_product),
    "MatMul": Official(table="MatMul", rule=arithmetic.matmul, tidies=True),
    "Stft": Official(table="StftParam", advice="use a convolution whose weights are the windowed sines and cosines"),
}
