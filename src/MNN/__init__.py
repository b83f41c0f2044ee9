"""MNN in Python: convert, compress and run trained networks with kernels generated for the processor at hand."""

from __future__ import annotations

__version__ = "0.1.0"
