"""Depthwise convolutions over volumes in a chain with 1x1x1 convolutions around them, of seeded random parameters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.chains import find_separable as separable
from MNN.backends.cpu.codegen.chain import ChainSpec
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.chains.test_attention import check
from tests.backends.cpu.chains.test_separable import conv, weights

pytestmark = pytest.mark.usefixtures("without_tiles")

Ints = tuple[int, int, int]


@dataclasses.dataclass
class Volume:
    """An inverted bottleneck over volumes: expand, filter, project, add the input where that is possible."""

    batch: int
    cin: int
    wide: int
    out: int
    inside: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    low: Ints
    high: Ints
    project: bool
    residual: bool

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Volume:
        def three(*choices: int) -> Ints:
            return tuple(int(n) for n in rng.choice(choices, 3))  # type: ignore[return-value]

        kernel = int(rng.choice([1, 2, 3, 3])), int(rng.choice([2, 3, 3, 5])), int(rng.choice([1, 2, 3, 3, 5]))
        dilations, strides = three(1, 1, 1, 2), three(1, 1, 2, 3)
        low = tuple(
            int(rng.integers(0, 1 + (k - 1) * d // 2 + (k > 2))) for k, d in zip(kernel, dilations, strict=True)
        )
        high = tuple(int(rng.integers(0, k)) for k in kernel)
        inside = tuple(int(rng.integers(max((k - 1) * d + 1, 4), 15)) for k, d in zip(kernel, dilations, strict=True))
        cin, wide = int(rng.integers(4, 20)), int(rng.integers(9, 70))
        project, same = bool(rng.integers(3)), bool(rng.integers(2))
        out = cin if same else int(rng.integers(3, 40))
        batch = int(rng.choice([1, 1, 2, 3]))
        made = cls(batch, cin, wide, out, inside, kernel, strides, dilations, low, high, project, False)
        return dataclasses.replace(made, residual=project and same and made.size() == inside)

    def size(self) -> Ints:
        sides = zip(self.inside, self.low, self.high, self.kernel, self.strides, self.dilations, strict=True)
        return tuple((n + a + z - (k - 1) * d - 1) // s + 1 for n, a, z, k, s, d in sides)  # type: ignore[return-value]

    def __call__(self, b: Builder, x: Tensor) -> list[Tensor]:
        y = b.clamp(conv(b, x, weights(self.wide, self.cin, 1, 1, 1), (1,) * 3, (1,) * 3), 0.0, 6.0)
        if any((*self.low, *self.high)):
            y = b.pad(y, [0, 0, *self.low], [0, 0, *self.high], 0.0)
        y = conv(b, y, weights(self.wide, 1, *self.kernel), self.strides, self.dilations, self.wide)
        y = b.op("max", b.op("add", y, b.const(weights(1, self.wide, 1, 1, 1))), b.const(np.zeros((), np.float32)))
        if self.project:
            y = conv(b, y, weights(self.out, self.wide, 1, 1, 1), (1,) * 3, (1,) * 3)
        return [b.op("add", y, x) if self.residual else y]


def held(case: Volume, lines: int) -> int:
    """Bytes that so many lines of a plane need."""

    def reach(axis: int, windows: int) -> int:
        return (windows - 1) * case.strides[axis] + (case.kernel[axis] - 1) * case.dilations[axis] + 1

    width = case.inside[2] + case.low[2] + case.high[2]
    planes = reach(0, 1)
    return 4 * case.wide * (planes * reach(1, lines) * width + case.project * lines * case.size()[2])


@pytest.mark.parametrize("seed", range(40))
def test_random_volumes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cache that a drawn number of lines fits, and a price of leaving it at which every chain pays."""
    monkeypatch.setattr(separable, "NEAR_WRITE", 1e6)
    rng = np.random.default_rng([26, seed])
    case = Volume.draw(rng)
    lines, threads = int(rng.integers(1, case.size()[1] + 1)), int(rng.choice([1, 1, 2, 3]))
    x = rng.standard_normal((case.batch, case.cin, *case.inside)).astype(np.float32)
    l2 = 2 * held(case, lines) + 64
    program = check(case, x, threads=threads, l2=l2, checked=seed % 2 == 0)
    found = [c for c in program.commands if isinstance(c.kernel, ChainSpec)]
    blocks = case.batch * case.size()[0] * -(-case.size()[1] // lines)
    few = threads > 1 and blocks < separable.BLOCKS_PER_THREAD * threads
    fits = case.low[0] + case.high[0] == 0 or case.kernel[0] > 1
    large = 4 * case.batch * case.wide * int(np.prod(case.inside)) > l2
    if fits and large and not few:
        rest = case.size()[1] % lines
        assert len(found) in ((1, 2) if rest else (1,)), case
        assert all(k.planes == (case.kernel[0] > 1) for c in found for k in c.kernels() if isinstance(k, WindowSpec))


@pytest.mark.parametrize("seed", range(3))
def test_low_precision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in 16 bits is not chained; where the processor has no products of these, all stays in f32."""
    monkeypatch.setattr(separable, "NEAR_WRITE", 1e6)
    rng = np.random.default_rng([62, seed])
    case = dataclasses.replace(Volume.draw(rng), residual=False)
    x = rng.standard_normal((case.batch, 16, *case.inside)).astype(np.float32)

    def build(b: Builder, x: Tensor) -> list[Tensor]:
        first = conv(b, x, weights(case.cin, 16, 1, 1, 1), (1,) * 3, (1,) * 3)
        (y,) = case(b, first)
        return [conv(b, y, weights(16, y.shape[1], 1, 1, 1), (1,) * 3, (1,) * 3)]

    l2 = 2 * held(case, max(case.size()[1] // 2, 1)) + 64
    program = check(build, x, l2=l2, precision="low", tol=0.02, checked=True)
    windows = [k for c in program.commands if c.stages for k in c.kernels() if isinstance(k, WindowSpec)]
    assert all(k.dtype is DType.F32 for k in windows)
