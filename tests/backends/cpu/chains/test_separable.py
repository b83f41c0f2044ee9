"""Depthwise convolutions in a chain with 1x1 convolutions around them: borders, strides, batches, threads, sizes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.program import Program
from MNN.backends.cpu.chains import choose as chains_module
from MNN.backends.cpu.chains import find_separable as separable
from MNN.backends.cpu.chains.find_separable import needed, overlap
from MNN.backends.cpu.codegen.chain import ChainSpec
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets import host_target
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.chains.test_attention import chains, check

pytestmark = pytest.mark.usefixtures("without_tiles")

F32 = DType.F32


def weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(shape[0]).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


@dataclasses.dataclass
class Block:
    """An inverted bottleneck: expand to ``wide`` channels, filter by ``kernel``, project to ``out``, add the input."""

    wide: int = 32
    out: int = 8
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    low: tuple[int, int] = (1, 1)
    high: tuple[int, int] = (1, 1)
    expand: bool = True
    project: bool = True
    residual: bool = False

    def __call__(self, b: Builder, x: Tensor) -> list[Tensor]:
        def relu6(t: Tensor) -> Tensor:
            return b.clamp(t, 0.0, 6.0)

        y = relu6(conv(b, x, weights(self.wide, x.shape[1], 1, 1))) if self.expand else x
        if any((*self.low, *self.high)):
            y = b.pad(y, [0, 0, *self.low], [0, 0, *self.high], 0.0)
        channels = y.shape[1]
        y = conv(b, y, weights(channels, 1, *self.kernel), self.strides, self.dilations, channels)
        y = relu6(b.op("add", y, b.const(weights(1, channels, 1, 1))))
        if self.project:
            y = conv(b, y, weights(self.out, channels, 1, 1))
        return [b.op("add", y, x) if self.residual else y]


def conv(b: Builder, x: Tensor, w: np.ndarray, strides=(1, 1), dilations=(1, 1), groups: int = 1) -> Tensor:
    size = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    out = Tensor(F32, (x.shape[0], w.shape[0], *size))
    b.prims.append(p.Conv([x, b.const(w)], [out], strides=strides, dilations=dilations, groups=groups))
    out.producer = b.prims[-1]
    return out


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


BLOCKS = {
    "plain": Block(),
    "residual": Block(residual=True),
    "strided": Block(strides=(2, 2)),
    "strided low border only": Block(strides=(2, 2), low=(0, 0)),
    "large kernel": Block(kernel=(5, 5), low=(2, 2), high=(2, 2)),
    "dilated": Block(dilations=(2, 2), low=(2, 2), high=(2, 2)),
    "no border": Block(low=(0, 0), high=(0, 0)),
    "uneven border": Block(low=(0, 2), high=(1, 0)),
    "no overlap": Block(kernel=(2, 2), strides=(2, 2), low=(0, 0), high=(0, 0)),
    "no projection": Block(project=False),
    "no expansion": Block(expand=False),
    "many channels out": Block(out=40, wide=48),
}


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", list(BLOCKS))
def test_blocks(name: str, batch: int, threads: int, checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small cache, and a price of leaving it at which every chain pays."""
    monkeypatch.setattr(separable, "NEAR_WRITE", 1e6)
    block = BLOCKS[name]
    channels = 8 if block.expand else 48
    size = (24, 25) if name != "no overlap" else (48, 26)
    program = check(block, image(batch, channels, *size), threads=threads, l2=40 << 10, checked=checked)
    assert chains(program) == 1
    (chain,) = (c for c in program.commands if isinstance(c.kernel, ChainSpec))
    assert chain.blocks > batch
    assert chain.choice is not None
    assert len(chain.stages) >= 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["plain", "residual", "strided", "uneven border", "no projection", "no expansion"])
def test_blocks_in_bf16(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes between kernels, and stays inside of chains, in 16 bits."""
    monkeypatch.setattr(separable, "NEAR_WRITE", 1e6)
    block = BLOCKS[name]

    def build(b: Builder, x: Tensor) -> list[Tensor]:
        first = conv(b, x, weights(8 if block.expand else 48, 16, 1, 1))
        (y,) = block(b, first)
        return [conv(b, y, weights(16, y.shape[1], 1, 1))]

    pairs = group_of(host_target(), DType.BF16) > 1
    x = image(2, 16, 40, 41)
    with monkeypatch.context() as patch:
        patch.setattr(chains_module, "find_separable", lambda *_: [])
        apart = check(build, x, threads=threads, l2=40 << 10, precision="low", tol=0.02)
    assert chains(apart) == 0
    program = check(build, x, threads=threads, l2=40 << 10, precision="low", tol=0.02, checked=True)
    found = [c for c in program.commands if isinstance(c.kernel, ChainSpec)]
    assert len(found) == 1
    (window,) = (k for k in found[0].kernels() if isinstance(k, WindowSpec))
    assert window.dtype is (DType.BF16 if pairs else F32)
    groups = {k.group for k in found[0].kernels() if isinstance(k, ContractSpec)}
    assert groups == {2 if pairs else 1}


def test_what_fits_the_cache_stays_apart() -> None:
    assert chains(check(Block(), image(1, 8, 24, 25))) == 0


def test_lines_larger_than_the_cache_stay_apart() -> None:
    """Windows of one line, those of sound, share none: a block of no lines is none."""
    line = Block(kernel=(1, 3), low=(0, 1), high=(0, 1), project=False)
    assert chains(check(line, image(1, 8, 1, 900), l2=40 << 10)) == 0


def test_a_tensor_that_is_wanted_is_made() -> None:
    def build(b: Builder, x: Tensor) -> list[Tensor]:
        y = conv(b, x, weights(32, 8, 1, 1))
        return [conv(b, y, weights(32, 1, 3, 3), groups=32), y]

    assert chains(check(build, image(1, 8, 24, 25), l2=40 << 10)) == 0


def test_two_blocks_share_a_convolution() -> None:
    """The 1x1 convolution between two depthwise ones belongs to one chain only: each kernel runs once."""

    def build(b: Builder, x: Tensor) -> list[Tensor]:
        y = conv(b, x, weights(32, 1, 3, 3), groups=32)
        y = conv(b, y, weights(64, 32, 1, 1))
        y = conv(b, y, weights(64, 1, 3, 3), groups=64)
        return [conv(b, y, weights(16, 64, 1, 1))]

    program = check(build, image(1, 32, 40, 41), l2=40 << 10)
    assert chains(program) in (1, 2)
    run = [k for c in program.commands for k in c.kernels()]
    assert sum(isinstance(k, WindowSpec) for k in run) == 2
    assert sum(isinstance(k, ContractSpec) for k in run) <= 3  # the expansion of a chain is there twice


def test_tuning_may_say_no() -> None:
    def only(program: Program) -> object:
        return next(c.choice for c in program.commands if c.stages)

    choice = only(check(Block(), image(1, 8, 24, 25), l2=40 << 10))
    tuned = {choice.signature: "separate kernels"}
    assert chains(check(Block(), image(1, 8, 24, 25), l2=40 << 10, tuned=tuned)) == 0


def test_lines_needed_and_shared() -> None:
    x, w = Tensor(F32, (1, 4, 9, 9)), Tensor(F32, (4, 1, 3, 3))
    out = Tensor(F32, (1, 4, 4, 4))
    one = p.Conv([x, w], [out], strides=(2, 2), dilations=(1, 1), groups=4)
    assert (needed(one, 1), needed(one, 4), overlap(one)) == (3, 9, 1)
    spread = p.Conv([x, w], [out], strides=(1, 1), dilations=(2, 2), groups=4)
    assert (needed(spread, 2), overlap(spread)) == (6, 4)
