"""Results written over what nobody needs any more: where it happens, where it must not, and that no bit changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Buffer, Program
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.strassen.spec import StrassenSpec
from MNN.backends.cpu.targets.base import host_target
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.compiler import in_place
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.reducing.normalization import affine, standardize
from MNN.ops.reducing.softmax import softmax
from tests.compiler.checks import built, cheap_tiles
from tests.hostile.checked import CheckedProgram

Build = Callable[..., "Tensor | Sequence[Tensor]"]
SETTINGS = [("normal", 1), ("normal", 2), ("high", 2), ("low", 1), ("low", 2)]
TOLERANCE = {"high": 1e-5, "normal": 1e-4, "low": 0.1}


@dataclass
class Taken:
    """Counts what is decided, and can decide nothing."""

    found: list[dict[Buffer, Buffer]] = field(default_factory=list)
    off: bool = False

    def count(self) -> int:
        return len(self.found[-1])


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    counted, real = Taken(), in_place.taken

    def decide(*args: object) -> dict[Buffer, Buffer]:
        counted.found.append({} if counted.off else real(*args))  # type: ignore[arg-type]
        return counted.found[-1]

    monkeypatch.setattr(in_place, "taken", decide)
    return counted


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng([len(shape), *shape]).standard_normal(shape).astype(np.float32)


def both(
    taken: Taken, build: Build, *arrays: np.ndarray, precision: str = "normal", threads: int = 1, room: float = 1.0
) -> Program:
    """Runs ``build`` with results over operands and without, twice each, and compares bits; and with the meaning.

    The arena takes at most ``room`` times what it takes without.
    """
    b, inputs, made, numbers = built(build, *arrays)
    outputs = list(dict.fromkeys(made))
    library = shared_library(cache=True)
    programs, found = [], []
    for off in (True, False):
        taken.off = off
        options = Options(threads, precision)
        program = compile_stage(b.prims, inputs, outputs, library.target, options, ConstantPool())
        bound = BoundProgram(program, library, threads)
        for _ in range(2):
            found.append([a.copy() for a in bound.run(list(arrays), threads)])
        programs.append(program)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert one.tobytes() == other.tobytes()
    for tensor, array in zip(outputs, found[-1], strict=True):
        scale = max(float(np.abs(numbers[tensor]).max(initial=0)), 1e-30)
        np.testing.assert_allclose(array, numbers[tensor], rtol=0, atol=TOLERANCE[precision] * scale)
    assert programs[1].arena_bytes <= room * programs[0].arena_bytes
    return programs[1]


def weights(b: Builder, *shape: int) -> Tensor:
    """Those of a layer with ``shape[0]`` results of the rest, or of a matrix; sums keep the size of what they sum."""
    depth = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    return b.const((randn(*shape) / np.sqrt(depth)).astype(np.float32))


def relu(b: Builder, x: Tensor) -> Tensor:
    return b.clamp(x, 0, None)


def conv(b: Builder, x: Tensor, out: int, k: int = 1, stride: int = 1, groups: int = 1) -> Tensor:
    w = weights(b, out, x.shape[1] // groups, k, k)
    return b.conv(x, w, (stride, stride), (1, 1), groups, (k // 2,) * 4)


def bottlenecks(b: Builder, x: Tensor) -> Tensor:
    x = conv(b, x, 64)
    for _ in range(3):
        y = relu(b, conv(b, x, 16))
        y = conv(b, relu(b, conv(b, y, 16, 3)), 64)
        x = relu(b, b.op("add", x, y))
    return b.reduce("mean", x, (2, 3))


def basic_blocks(b: Builder, x: Tensor) -> Tensor:
    x = relu(b, conv(b, x, 32, 3))
    for stride in (1, 1, 2, 1):
        short = x if stride == 1 else conv(b, x, 64, 1, 2)
        y = relu(b, conv(b, x, short.shape[1], 3, stride))
        x = relu(b, b.op("add", conv(b, y, short.shape[1], 3), short))
    return conv(b, x, 4)


def inverted(b: Builder, x: Tensor) -> Tensor:
    x = conv(b, x, 24)
    for _ in range(3):
        y = relu(b, conv(b, x, 96))
        y = relu(b, conv(b, y, 96, 3, 1, 96))
        scale = b.op("tanh", conv(b, b.reduce("mean", y, (2, 3)), 96))
        x = b.op("add", x, conv(b, b.op("mul", y, scale), 24))
    return b.reduce("mean", x, (2, 3))


def transformer(b: Builder, x: Tensor) -> Tensor:
    width = x.shape[2]
    x = b.matmul(x, weights(b, width, width))

    def norm(x: Tensor, early: bool) -> Tensor:
        normal, _, _ = standardize(b, x, [2], 1e-5)
        return affine(b, normal, b.const(randn(width)), b.const(randn(width))) if early else normal

    for early in (True, False, True):
        y = norm(x, early) if early else x
        q, k, v = (b.matmul(y, weights(b, width, width + i)) for i in range(1, 4))
        q, k, v = (b.slice(t, (0, 0, 0), (*x.shape[:2], width)) for t in (q, k, v))
        scores = softmax(b, b.op("mul", b.matmul(q, b.permute(k, (0, 2, 1))), b.like(1 / width, x)), 2)
        x = b.op("add", x, b.matmul(b.matmul(scores, v), weights(b, width, width)))
        x = x if early else norm(x, early)
        y = norm(x, early)
        y = relu(b, b.matmul(y, weights(b, width, 2 * width)))
        x = b.op("add", x, b.matmul(y, weights(b, 2 * width, width)))
    return b.op("tanh", norm(x, True))


def dense(b: Builder, x: Tensor) -> Tensor:
    x = conv(b, x, 16)
    for _ in range(3):
        x = b.concat([x, relu(b, conv(b, relu(b, conv(b, x, 24)), 8, 3))], 1)
    return b.reduce("max", x, (2, 3))


def unet(b: Builder, x: Tensor) -> Tensor:
    top = relu(b, conv(b, x, 16, 3))
    low = relu(b, conv(b, b.window("max", top, (2, 2), (2, 2), (1, 1)), 16, 3))
    low = b.op("add", low, conv(b, low, 16, 3))
    n, c, h, w = low.shape
    up = b.reshape(b.expand(b.reshape(low, (n, c, h, 1, w, 1)), (n, c, h, 2, w, 2)), (n, c, 2 * h, 2 * w))
    y = relu(b, conv(b, b.concat([top, up], 1), 16, 3))
    return conv(b, b.op("add", y, top), 2)


NETWORKS = {
    "bottlenecks": (bottlenecks, (2, 3, 20, 18)),
    "basic blocks": (basic_blocks, (1, 3, 20, 20)),
    "inverted residuals": (inverted, (2, 8, 14, 14)),
    "transformer": (transformer, (2, 33, 48)),
    "dense": (dense, (1, 8, 15, 15)),
    "unet": (unet, (1, 3, 24, 24)),
}
OVERWRITING = ("bottlenecks", "basic blocks", "inverted residuals", "transformer")


@pytest.mark.parametrize(("precision", "threads"), SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_bit_changes(name: str, precision: str, threads: int, taken: Taken) -> None:
    build, shape = NETWORKS[name]
    both(taken, build, randn(*shape), precision=precision, threads=threads)
    assert taken.count() >= 2 or name not in OVERWRITING


def product(b: Builder, x: Tensor, columns: int = 0) -> Tensor:
    return b.matmul(x, weights(b, x.shape[-1], columns or x.shape[-1]))


def as_late_as_possible(b: Builder, x: Tensor) -> Tensor:
    x = product(b, x)
    return product(b, b.op("add", product(b, relu(b, product(b, x))), x), 3)


def used_later(b: Builder, x: Tensor) -> list[Tensor]:
    x = product(b, x)
    y = b.op("add", product(b, relu(b, product(b, x))), x)
    return [product(b, y, 3), product(b, x, 5)]


def a_view_is_used_later(b: Builder, x: Tensor) -> list[Tensor]:
    x = product(b, x)
    turned = b.slice(b.permute(x, (1, 0)), (0, 1), (x.shape[1], 4))
    y = b.op("add", product(b, relu(b, product(b, x))), x)
    return [product(b, y, 3), b.op("exp", turned)]


def is_an_output(b: Builder, x: Tensor) -> list[Tensor]:
    x = product(b, x)
    return [x, product(b, b.op("add", product(b, relu(b, product(b, x))), x), 3)]


def is_an_input(b: Builder, x: Tensor) -> Tensor:
    return product(b, b.op("add", product(b, relu(b, product(b, x))), x), 3)


def is_multiplied_too(b: Builder, x: Tensor) -> Tensor:
    x = product(b, x)
    return product(b, b.op("add", product(b, x), x), 3)


def is_a_view_of_what_is_multiplied(b: Builder, x: Tensor) -> Tensor:
    m, n = x.shape
    x = product(b, x, 2 * n)
    left, right = (b.slice(x, (0, at), (m, n)) for at in (0, n))
    return product(b, b.op("add", product(b, left), right), 3)


def is_added_with_another_view(b: Builder, x: Tensor) -> Tensor:
    x = product(b, x)
    turned = b.slice(x, (x.shape[0] - 1, 0), x.shape, (-1, 1))
    return product(b, b.op("add", b.op("add", product(b, relu(b, product(b, x))), x), turned), 3)


def is_broadcast(b: Builder, x: Tensor) -> Tensor:
    x = product(b, x)
    row = b.slice(x, (2, 0), (1, x.shape[1]))
    return product(b, b.op("add", product(b, relu(b, product(b, x))), row), 3)


def lies_upside_down(b: Builder, x: Tensor) -> Tensor:
    x = product(b, x)
    turned = b.slice(x, (x.shape[0] - 1, 0), x.shape, (-1, 1))
    return product(b, b.op("add", product(b, relu(b, product(b, x))), turned), 3)


KEPT = [
    used_later, a_view_is_used_later, is_an_output, is_an_input, is_multiplied_too, is_a_view_of_what_is_multiplied,
    is_added_with_another_view, is_broadcast, lies_upside_down,
]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", [as_late_as_possible, *KEPT])
def test_what_is_needed_stays(build: Build, threads: int, taken: Taken) -> None:
    program = both(taken, build, randn(40, 40), threads=threads)
    sums = [ref.buffer for c in program.commands for slot, ref in c.args.items() if slot.startswith("op")]  # type: ignore[union-attr]
    given = [home for home in taken.found[-1].values() if home in sums]
    assert len(given) == (1 if build is as_late_as_possible else 0)


KERNELS = {
    "Winograd": (WinogradSpec, lambda b, x: conv(b, x, x.shape[1], 3), (1, 64, 19, 21)),
    "Strassen": (StrassenSpec, lambda b, x: product(b, x), (301, 448)),
    "Strassen in parts": (StrassenSpec, lambda b, x: product(b, x), (2 * host_target().l2_bytes // 1024, 448)),
    "depthwise": (WindowSpec, lambda b, x: conv(b, x, x.shape[1], 3, 1, x.shape[1]), (1, 40, 13, 15)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_write_over_operands(name: str, threads: int, taken: Taken) -> None:
    kind, layer, shape = KERNELS[name]

    def build(b: Builder, x: Tensor) -> Tensor:
        x = layer(b, b.op("exp", b.op("mul", x, b.const(randn(*(1,) * (x.rank - 1), x.shape[-1])))))
        for _ in range(2):
            y = layer(b, relu(b, layer(b, x)))
            x = b.op("add", y, x)
        return b.reduce("sum", x, tuple(range(1, x.rank)))

    with restricted("" if name == "depthwise" else name.split()[0]):  # nothing else is to be chosen
        program = both(taken, build, 0.1 * randn(*shape), threads=threads)
    over = [
        c
        for c in program.commands
        for new, old in taken.found[-1].items()
        if isinstance(c.kernel, kind) and {new, old} <= set(c.buffers())
    ]
    assert len(over) > ("parts" in name), [type(c.kernel).__name__ for c in program.commands]


@pytest.mark.parametrize(("precision", "threads"), SETTINGS)
def test_tiles(precision: str, threads: int, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    program = both(taken, bottlenecks, randn(1, 32, 13, 11), precision=precision, threads=threads)
    homes = set(taken.found[-1].values())
    assert sum(isinstance(c.kernel, AmxSpec) and bool(homes & set(c.buffers())) for c in program.commands) >= 2


def any_graph(rng: np.random.Generator) -> Build:
    """A graph of some 25 steps over whatever there is by then: products, windows, sums, views, joins, reductions."""

    def build(b: Builder, x: Tensor) -> list[Tensor]:
        n, c, h, w = x.shape
        pool = [conv(b, x, c), relu(b, conv(b, x, c, 3))]

        def some() -> Tensor:
            return pool[-1 - min(int(rng.geometric(0.4)) - 1, len(pool) - 1)]

        def step(t: Tensor) -> Tensor:
            kind = rng.integers(0, 12)
            if kind == 0:
                return conv(b, t, c, int(rng.choice([1, 3])))
            if kind == 1:
                return b.op("tanh", conv(b, t, c, 3, 1, c))
            if kind <= 4:
                return b.op("add", conv(b, relu(b, conv(b, t, c)), c, int(rng.choice([1, 3]))), some())
            if kind == 5:
                return b.op("mul", some(), b.op("tanh", b.reduce("mean", t, (2, 3))))
            if kind == 6:
                return b.op("sub", b.op("tanh", t), some())
            if kind == 7:
                return b.permute(t, (0, 1, 3, 2)) if h == w else b.slice(t, (0, c - 1, 0, 0), t.shape, (1, -1, 1, 1))
            if kind == 8:
                half = [b.slice(some(), (0, at, 0, 0), (n, c // 2, h, w)) for at in (0, c // 2)]
                return b.concat(half[::-1], 1)
            if kind == 9:
                return softmax(b, t, int(rng.choice([1, 3])))
            if kind == 10:
                flat = b.reshape(t, (n, c, h * w))
                return b.reshape(b.op("add", product(b, flat), b.reshape(some(), flat.shape)), t.shape)
            return b.op("add", t, b.slice(some(), (0, 0, 0, 0), (n, c, 1, w)))

        for _ in range(24):
            pool.append(step(some()))
        kept = [pool[i] for i in sorted({int(i) for i in rng.integers(0, len(pool), 2)} | {len(pool) - 1})]
        return [b.op("tanh", t) for t in kept[:-1]] + kept[-1:]

    return build


@pytest.mark.parametrize("seed", range(4))
def test_nothing_else_is_touched(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with kernels that check every access, on memory full of rubbish."""
    rng = np.random.default_rng(100 + seed)
    b, x = Builder(), Tensor(DType.F32, (1, 6, 7, 8), name="x")
    outputs = any_graph(rng)(b, x)
    library = shared_library(cache=True)
    options = Options(1, "high")
    found = []
    for off in (False, True):
        if off:
            monkeypatch.setattr(in_place, "taken", lambda *_: {})
        program = compile_stage(b.prims, [x], outputs, library.target, options, ConstantPool())
        found.append([a.copy() for a in CheckedProgram(program, library, 1).run([randn(*x.shape)], 1)])
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("seed", range(24))
def test_any_graph(seed: int, taken: Taken) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 3)), int(rng.choice([6, 16, 24])), *(int(s) for s in rng.choice([7, 8, 12], 2)))
    both(taken, any_graph(rng), 0.3 * randn(*shape), threads=1 + seed % 2, precision="high", room=1.25)
