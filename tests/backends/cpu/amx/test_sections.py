"""Groups of channels apart, each a window over few channels with columns of its own: in bytes exactly what the
reference implementation gives, in bf16 nearly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Command
from MNN.backends.cpu.amx.cost import plan_window
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.emission import pairs_of_bytes
from MNN.backends.cpu.amx.sections import COLUMNS, Sections, plan_sections, sections_of
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.products import operand_types
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets import named_target
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.amx.test_bytes import draw, quantised
from tests.compiler.checks import built, cheap_tiles
from tests.hostile.checked import CheckedProgram


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    monkeypatch.setattr(pairs_of_bytes, "has_tiles", lambda target, dot: True)
    monkeypatch.setattr(operand_types, "uses_int16_dot", lambda target, rows: False)


def prefer(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections of so many columns are the cheapest way."""
    real = amx._Job.apart

    def apart(self: amx._Job, sections: Sections) -> Candidate:
        found = real(self, sections)
        return replace(found, cycles=-1.0) if sections.columns == columns else found

    monkeypatch.setattr(amx._Job, "apart", apart)


@dataclass
class Case:
    """A convolution in groups whose results fill ``columns``, a few together where they are fewer."""

    rng: np.random.Generator
    columns: int
    pairs: int

    def __post_init__(self) -> None:
        rng = self.rng
        per_out = int(rng.choice([n for n in (4, 8, 16, 32) if n <= self.columns]))
        self.per_in = self.pairs * int(rng.integers(1, 12))
        self.groups = self.columns // per_out * int(rng.choice([2, 3]))
        self.out, rank = self.groups * per_out, int(rng.choice([1, 2, 2, 3]))
        self.kernel = [int(n) for n in rng.integers(1, 6 if rank < 3 else 4, rank)]
        self.kernel[-1] += self.kernel[-1] == 1
        self.strides, self.dilations = [[int(n) for n in rng.integers(1, 4, rank)] for _ in range(2)]
        self.dilations[-1] = 1
        self.pads = [int(n) for n in rng.integers(0, 3, 2 * rank)]
        more = rng.integers(0, {1: 60, 2: 12, 3: 6}[rank], rank)
        self.sizes = [(k - 1) * d + 1 + int(n) for k, d, n in zip(self.kernel, self.dilations, more, strict=True)]

    @property
    def given(self) -> tuple[int, ...]:
        return int(self.rng.integers(1, 3)), self.groups * self.per_in, *self.sizes

    def conv(self, b: Builder, x: Tensor, w: np.ndarray, bias: np.ndarray) -> Tensor:
        rank = len(self.kernel)
        bordered = b.pad(x, (0, 0, *self.pads[:rank]), (0, 0, *self.pads[rank:]), 3)
        sums = b.conv(bordered, b.const(w), self.strides, self.dilations, self.groups, (0,) * 2 * rank)
        return b.op("add", sums, b.const(bias.reshape(1, -1, *(1,) * rank)))


def sections(commands: Sequence[Command]) -> list[tuple[int, int] | None]:
    return [c.kernel.sections for c in commands if isinstance(c.kernel, AmxSpec)]


@pytest.mark.parametrize("seed", range(6))
def test_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([seed, 26])
    columns, threads = COLUMNS[seed % 2], 1 + seed // 3
    prefer(columns, monkeypatch)
    case = Case(rng, columns, 2)
    left, right = [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)][seed % 4]
    x, w = draw(rng, left, *case.given), draw(rng, right, case.out, case.per_in, *case.kernel)
    bias = rng.integers(-(10**5), 10**5, case.out).astype(np.int32)
    b, inputs, (made,), numbers = built(lambda b, x: quantised(b, case.conv(b, x, w, bias), x.dtype), x)
    library = shared_library(cache=True)
    program = compile_stage(b.prims, inputs, [made], library.target, Options(threads, "normal"), ConstantPool())
    assert [found and found[0] for found in sections(program.commands)] == [columns]
    bound = (CheckedProgram if seed == 1 else BoundProgram)(program, library, threads)
    for _ in range(2):
        np.testing.assert_array_equal(bound.run([x], threads)[0], numbers[made])


@pytest.mark.parametrize("seed", range(2))
def test_bf16(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line has behind it is nothing but zeros, after a run with numbers that are none, too."""
    monkeypatch.setattr("MNN.backends.cpu.low_precision.group_of", lambda target, dtype: DOT2)
    rng = np.random.default_rng([seed, 27])
    columns = COLUMNS[seed % 2]
    prefer(columns, monkeypatch)
    case = Case(rng, columns, 1)
    case.sizes = [n + 12 for n in case.sizes] if len(case.sizes) < 3 else case.sizes
    x, w = (rng.normal(size=s).astype(np.float32) for s in (case.given, (case.out, case.per_in, *case.kernel)))
    b, inputs, (made,), numbers = built(lambda b, x: case.conv(b, x, w, w[:, 0].reshape(case.out, -1)[:, 0]), x)
    library = shared_library(cache=True)
    program = compile_stage(b.prims, inputs, [made], library.target, Options(1, "low"), ConstantPool())
    assert [found and found[0] for found in sections(program.commands)] == [columns]
    bound = (CheckedProgram if seed == 1 else BoundProgram)(program, library, 1)
    bound.run([np.full_like(x, np.nan)], 1)
    found, want = bound.run([x], 1)[0], numbers[made]
    assert np.abs(found - want).max() <= 1e-2 * np.abs(want).max()


def window(groups: int, channels: int, size: int, taps: int, stride: int = 1) -> Window:
    """Over ``channels`` of one group, of a picture in bytes: its elements are pairs."""
    step = groups * channels // 2
    inputs = (size - 1) * stride + taps
    return Window(
        1, (size,) * 2, (inputs,) * 2, (taps,) * 2, (stride,) * 2, (1, 1), 0, (inputs * step, step), channels // 2
    )


@pytest.mark.parametrize(
    ("groups", "channels", "size", "taps"), [(16, 16, 20, 5), (12, 16, 28, 3), (32, 32, 7, 3), (10, 32, 19, 5)]
)
def test_taps_fill_more_of_a_tile_than_zeros(groups: int, channels: int, size: int, taps: int) -> None:
    """Of groups that lie in a line of memory together most products are with zeros."""
    target = replace(named_target("avx512"), l2_bytes=2 << 20)
    per_line = 64 // channels
    together = replace(window(groups, channels, size, taps), channels=32)
    before = plan_window(target, together, per_line * channels, 1, 1).time * (groups // per_line)
    plans = [
        plan_sections(target, found, groups * channels, 1).time
        for columns in COLUMNS
        if columns % channels == 0 and (found := sections_of(window(groups, channels, size, taps), columns))
    ]
    assert min(plans) < 0.8 * before


@pytest.mark.parametrize(
    ("groups", "channels", "size", "taps", "stride", "time"),
    [
        (48, 16, 14, 3, 1, 1.11), (32, 8, 28, 3, 1, 1.14), (12, 16, 28, 3, 1, 1.15), (6, 16, 56, 3, 1, 1.18),
        (16, 8, 56, 3, 1, 1.19), (32, 4, 56, 3, 1, 1.12), (32, 32, 7, 3, 1, 1.17), (8, 32, 14, 3, 2, 1.07),
        (12, 16, 14, 3, 2, 0.90), (24, 8, 24, 5, 1, 0.85), (16, 4, 40, 5, 1, 0.88), (12, 16, 28, 5, 1, 0.91),
        (10, 16, 20, 7, 1, 0.82), (16, 4, 28, 7, 1, 0.87),
    ],
)  # fmt: skip
def test_what_took_less_is_estimated_less(
    groups: int, channels: int, size: int, taps: int, stride: int, time: float
) -> None:
    """``time``: what groups apart took in bf16 on a processor with AMX (Sapphire Rapids), of what lines of groups that
    are one product took."""
    target = replace(named_target("avx512"), l1_bytes=48 << 10, l2_bytes=2 << 20)
    alone = window(2 * groups, channels, size, taps, stride)  # bytes are twice as many
    before = plan_window(target, replace(alone, channels=32), 32, 1, 1).cycles * (groups * channels // 32)
    apart = [
        plan_sections(target, found, groups * channels, 1).cycles
        for columns in COLUMNS
        if columns >= channels and (found := sections_of(replace(alone, channels=columns), columns))
    ]
    assert (min(apart) < before) == (time < 1)


def test_taps_that_are_no_neighbours_are_left_to_others() -> None:
    w = window(4, 16, 9, 3)
    assert sections_of(w, 16) is not None
    assert sections_of(replace(w, dilations=(1, 2)), 16) is None
    assert sections_of(replace(w, kernel=(3, 1)), 16) is None
