"""Bytes whose results LiteRT's reference kernels define to the bit: scales of all sizes, zero points at both ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, form
from tests.frontends.tflite.cases.quantized import _RANGE

EXACT = ["HARD_SWISH of bytes", "RESIZE_BILINEAR of integers", "SQUARED_DIFFERENCE of bytes"]


def _any(d: Draw, kind: str, low: float = -4, high: float = 0) -> dict[str, Any]:
    """A scale of ``10^low`` to ``10^high``, and a zero point anywhere, at the ends often."""
    ends = _RANGE[kind]
    zero = 0 if kind == "INT16" else d.one([*ends, d.int(*ends)])
    return {"scale": float(np.float32(10.0 ** d.rng.uniform(low, high))), "zero": zero}


def _all(d: Draw, kind: str, rows: int, columns: int) -> np.ndarray:
    """Every byte, in any order."""
    low, high = _RANGE[kind]
    numbers = np.resize(np.arange(low, high + 1), rows * columns)
    return d.rng.permutation(numbers).astype(kind.lower()).reshape(rows, columns)


@form("HARD_SWISH of bytes")
def hard_swish(d: Draw) -> Case:
    """Results in finer steps than 1/128 of those of the input are not defined, nor is what is shifted by 16 bits."""
    kind = d.one(["INT8", "UINT8"])
    x, y = _any(d, kind, -3), _any(d, kind)
    y["scale"] = float(np.float32(x["scale"] * 10.0 ** d.rng.uniform(-2, 2.3)))
    made = d.g.made("HARD_SWISH", [d.fed(_all(d, kind, 16, 16), **x)], [16, 16], kind, quantization=y)
    return d.case(made, reference=True)


@form("RESIZE_BILINEAR of integers")
def resize(d: Draw) -> Case:
    """Saturated pixels among others."""
    kind = d.one(["INT8", "UINT8", "INT16"])
    q = _any(d, kind)
    shape, size = [d.int(1, 2), d.int(1, 20), d.int(1, 20), d.int(1, 5)], [d.int(1, 40), d.int(1, 40)]
    ends = _RANGE[kind]
    numbers = np.where(d.array(shape, "BOOL"), d.array(shape, kind, *ends), d.rng.choice(ends, shape))
    align = d.int(0, 2) == 0
    flags = {"align_corners": align, "half_pixel_centers": not align and d.flag()}
    made = d.g.made("RESIZE_BILINEAR", [d.fed(numbers.astype(kind.lower()), **q), d.g.const(size, "int32")],
                    [shape[0], *size, shape[3]], kind, "ResizeBilinearOptions", quantization=q, version=4,
                    **flags)  # fmt: skip
    return d.case(made, reference=True)


@form("SQUARED_DIFFERENCE of bytes")
def squared_difference(d: Draw) -> Case:
    x, y = _any(d, "INT8"), _any(d, "INT8")
    y["scale"] = float(np.float32(x["scale"] * 10.0 ** d.rng.uniform(-1, 1)))
    most = max(x["scale"], y["scale"])
    z = {"scale": float(np.float32(most * most * 10.0 ** d.rng.uniform(0, 3))), "zero": _any(d, "INT8")["zero"]}
    operands = [d.fed(_all(d, "INT8", 16, 16), **q) for q in (x, y)]
    made = d.g.made("SQUARED_DIFFERENCE", operands, [16, 16], "INT8", quantization=z, version=2)
    return d.case(made, reference=True)
