"""Sets of operators that files write alike, as data."""

from __future__ import annotations

CONVOLUTIONS = frozenset({"Convolution", "ConvolutionDepthwise"})
DECONVOLUTIONS = frozenset({"Deconvolution", "DeconvolutionDepthwise"})
SCATTERS = frozenset({"ScatterElements", "ScatterNd"})

#: Operators whose results are truth values here and 32-bit integers for the official engine.
COMPARISONS = frozenset({"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOTEQUAL"})
