"""Orders of dimensions that users far behind a tensor would like."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.compiler.layout import assign_layouts
from MNN.compiler.usage import consumers
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.quantized.quantization import quantize


@pytest.mark.parametrize("roundings", [0, 1, 3])
def test_convolutions_are_seen_behind_numbers_that_are_rounded(roundings: int) -> None:
    """What spreads channels over an image lies as the convolution wants it, also where numbers become integers of 16
    bits and floats again on the way."""
    b = Builder()
    x = Tensor(DType.F32, (1, 6, 6, 2, 2, 8))
    apart = b.permute(x, (0, 5, 1, 3, 2, 4))
    y = made = b.reshape(apart, (1, 8, 12, 12))
    step, zero = b.const(np.float32(0.01)), b.const(np.int16(0))
    for _ in range(roundings):
        whole = quantize(b, y, step, zero, DType.I16)
        y = b.map(lambda s, a, k: s("mul", s.cast(a, DType.F32), k), whole, step)
    w = b.const(np.ones((4, 8, 3, 3), np.float32))
    out = b.conv(b.pad(y, (0, 0, 1, 1), (0, 0, 1, 1)), w, (1, 1), (1, 1), 1, (0, 0, 0, 0))
    orders = assign_layouts(b.prims, [x], consumers(b.prims))
    assert orders[made] == orders[out] == (0, 2, 3, 1)
