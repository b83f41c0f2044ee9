"""What primitives use, and room between pixels that would collide in a cache."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.compiler import strides as st
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")

rng = np.random.default_rng(3)


def randn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("channels", "apart"), [(512, 528), (1024, 1040), (96, 96), (500, 500)])
@pytest.mark.parametrize("threads", [1, 2])
def test_pixels_of_depthwise_convolutions_are_spaced(channels: int, apart: int, threads: int) -> None:
    """A multiple of 2048 bytes between pixels would put a whole window into two sets of the first-level cache."""

    def build(b: Builder, x):
        x = b.op("max", x, b.like(0.0, x))
        y = b.conv(x, b.const(randn(channels, 1, 3, 3)), (1, 1), (1, 1), channels, (1, 1, 1, 1))
        y = b.op("max", y, b.like(0.0, y))
        z = b.conv(y, b.const(randn(8, channels, 1, 1) / 30), (1, 1), (1, 1), 1, (0, 0, 0, 0))
        return z, b.reduce("mean", y, (2, 3)), b.reshape(y, (2, channels * 25))

    program = check(build, randn(2, channels, 5, 5), threads=threads)
    (window,) = [c for c in program.commands if isinstance(c.kernel, WindowSpec)]
    assert (window.args["step_x"], window.args["step_y"]) == (apart, apart)


@pytest.mark.parametrize(("width", "apart"), [(1024, 1040), (2048, 2064), (768, 768)])
@pytest.mark.parametrize("shape", [(20,), (1, 20), (2, 3, 5)])
def test_long_rows_between_products_are_spaced(width: int, apart: int, shape: tuple[int, ...]) -> None:
    """Rows a multiple of 4096 bytes apart would fall into one set of the first-level cache."""

    def build(b: Builder, x):
        y = b.matmul(x, b.const(randn(24, width) / 5))
        y = b.op("max", y, b.like(0.0, y))
        return b.matmul(y, b.const(randn(width, 24) / 30))

    program = check(build, randn(*shape, 24))
    first, second = (c for c in program.commands if isinstance(c.kernel, (ContractSpec, InnerProductSpec)))
    rows = second.args["rows_a"].buffer.const
    assert (rows[1] - rows[0]) == apart
    assert second.args["a"].buffer is first.args["c"].buffer


def test_spaced() -> None:
    assert st.spaced((2, 4, 3, 5), (0, 2, 3, 1), 0) == ((60, 1, 20, 4), 120)
    assert st.spaced((2, 4, 3, 5), (0, 2, 3, 1), 16) == ((300, 1, 100, 20), 600)
