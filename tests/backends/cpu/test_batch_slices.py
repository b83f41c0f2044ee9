"""Batches in slices: what may be cut, into what, and that results are those of the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.backends.cpu import batch_slices as slices
from MNN.backends.cpu import compile as compiler
from MNN.backends.cpu.targets.base import named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.reducing.softmax import softmax
from tests.compiler.checks import Build, built, cheap_tiles, check

BATCH = 6
TARGET = named_target("avx512")


@pytest.fixture(autouse=True)
def whole_batches() -> None:
    """Not here."""


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng([len(shape), *shape]).standard_normal(shape).astype(np.float32)


def weights(b: Builder, *shape: int) -> Tensor:
    return b.const((randn(*shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))


def conv(b: Builder, x: Tensor, out: int, k: int = 1, stride: int = 1, groups: int = 1) -> Tensor:
    w = weights(b, out, x.shape[1] // groups, k, k)
    return b.clamp(b.conv(x, w, (stride, stride), (1, 1), groups, (k // 2,) * 4), 0, None)


def pictures(b: Builder, x: Tensor) -> Tensor:
    """Bottlenecks with gates, branches that are joined, a classifier."""
    x = conv(b, x, 16, 3, 2)
    y = conv(b, conv(b, x, 48), 48, 3, 1, 48)
    gate = b.op("tanh", conv(b, b.reduce("mean", y, (2, 3)), 48))
    x = b.op("add", x, conv(b, b.op("mul", y, gate), 16))
    pooled = b.window("max", b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)), (3, 3), (1, 1), (1, 1))
    x = b.concat([x, conv(b, x, 8, 3), pooled], 1)
    x = b.reduce("mean", x, (2, 3))
    return softmax(b, b.matmul(b.reshape(x, (x.shape[0], 40)), weights(b, 40, 10)), 1)


def words(b: Builder, x: Tensor) -> Tensor:
    """Attention between projections of all rows at once."""
    n, length, width = x.shape
    flat = b.reshape(x, (n * length, width))

    def heads() -> Tensor:
        return b.permute(b.reshape(b.matmul(flat, weights(b, width, width)), (n, length, 4, width // 4)), (0, 2, 1, 3))

    scores = softmax(b, b.matmul(heads(), b.permute(heads(), (0, 1, 3, 2))), 3)
    mixed = b.reshape(b.permute(b.matmul(scores, heads()), (0, 2, 1, 3)), (n, length, width))
    return b.op("exp", b.slice(b.op("add", x, mixed), (0, 0, 0), (n, 4, width)))


def two_outputs(b: Builder, x: Tensor, y: Tensor) -> list[Tensor]:
    joined = b.concat([x, y], 1)
    return [b.op("exp", joined), b.reduce("max", joined, (1,))]


SEPARABLE: dict[str, tuple[Build, tuple[tuple[int, ...], ...]]] = {
    "pictures": (pictures, ((BATCH, 3, 15, 17),)),
    "words": (words, ((BATCH, 9, 32),)),
    "two inputs and outputs": (two_outputs, ((BATCH, 5, 300), (BATCH, 2, 300))),
    "running sums": (lambda b, x: b.scan("add", x, 1), ((BATCH, 40),)),
    "largest of each": (lambda b, x: b.argreduce("argmax", b.op("exp", x), 1), ((BATCH, 40),)),
    "rows of products": (lambda b, x: b.matmul(x, weights(b, 24, 7)), ((BATCH, 24),)),
    "batched products": (lambda b, x: b.matmul(x, b.permute(x, (0, 2, 1))), ((BATCH, 5, 24),)),
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", SEPARABLE)
def test_slices_give_what_the_batch_gives(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    build, shapes = SEPARABLE[name]
    monkeypatch.setattr(slices, "best_size", lambda prims, batch, *rest: batch)
    whole = check(build, *[randn(*shape) for shape in shapes])
    monkeypatch.setattr(slices, "best_size", lambda *rest: size)
    for threads, precision, tol in ((1, "high", 1e-5), (2, "normal", 1e-4), (2, "low", 0.05)):
        program = check(build, *[randn(*shape) for shape in shapes], threads=threads, precision=precision, tol=tol)
        assert program.slices is not None
        assert (program.slices.count, program.slices.hands) == (BATCH // size, threads)
    assert [t.shape for t in program.outputs] == [t.shape for t in whole.outputs]


@pytest.mark.parametrize("size", [1, 3])
def test_on_tiles(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    monkeypatch.setattr(slices, "best_size", lambda *rest: size)
    check(pictures, randn(BATCH, 3, 15, 17), tol=1e-3)


def axes_of(build: Build, *shapes: tuple[int, ...]) -> dict[Tensor, int] | None:
    b, inputs, _, _ = built(build, *[randn(*shape) for shape in shapes])
    return slices.batch_axes(b.prims, inputs, BATCH)


ACROSS: dict[str, Callable[[Builder, Tensor], Tensor]] = {
    "sum": lambda b, x: b.reduce("sum", x, (0,)),
    "softmax": lambda b, x: softmax(b, x, 0),
    "running sum": lambda b, x: b.scan("add", x, 0),
    "largest": lambda b, x: b.argreduce("argmax", x, 0),
    "joined": lambda b, x: b.concat([x, x], 0),
    "border": lambda b, x: b.pad(x, (1, 0), (0, 0)),
    "without the first": lambda b, x: b.slice(x, (1, 0), (BATCH - 1, 8)),
    "backwards": lambda b, x: b.slice(x, (BATCH - 1, 0), (BATCH, 8), (-1, 1)),
    "a number for each": lambda b, x: b.op("add", x, b.const(randn(BATCH, 1))),
    "product with itself": lambda b, x: b.matmul(b.permute(x, (1, 0)), x),
    "mixed by weights": lambda b, x: b.matmul(weights(b, BATCH, BATCH), x),
    "against another": lambda b, x: b.op("add", b.expand(b.reshape(x, (BATCH, 1, 8)), (BATCH, BATCH, 8)), x),
    "moved inside": lambda b, x: b.reshape(b.permute(x, (1, 0)), (4, 2 * BATCH)),
    "taken by number": lambda b, x: b.take(x, b.const(np.array([0, 2], np.int64)), 0),
    "in Python": lambda b, x: b.host("same", lambda arrays: arrays, [x], (DType.F32, x.shape))[0],
}


@pytest.mark.parametrize("name", ACROSS)
def test_what_looks_across_the_batch_is_not_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        return ACROSS[name](b, b.op("exp", x))

    assert axes_of(build, (BATCH, 8)) is None
    monkeypatch.setattr(slices, "best_size", lambda *rest: 2)
    check(build, randn(BATCH, 8), hosts=1)


def test_where_the_batch_lies() -> None:
    moved = axes_of(lambda b, x: b.permute(b.reshape(x, (BATCH, 2, 4)), (1, 2, 0)), (BATCH, 8))
    assert moved is not None
    assert list(moved.values()) == [0, 0, 2]
    joined = axes_of(lambda b, x: b.reshape(b.op("exp", x), (1, BATCH * 2, 4)), (BATCH, 8))
    assert joined is not None
    assert list(joined.values()) == [0, 0, 1]


def test_a_program_that_calls_python_is_one_for_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that does not depend on the batch may be one that cannot be repeated."""
    monkeypatch.setattr(slices, "best_size", lambda *rest: 2)

    def build(b: Builder, x: Tensor) -> Tensor:
        number = b.host("three", lambda arrays: [np.float32([3])], [], (DType.F32, (1,)), pure=False)[0]
        return b.op("mul", x, number)

    program = check(build, randn(BATCH, 300), hosts=1)
    assert sum(c.host is not None for c in program.commands) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.slice(b.op("exp", x), (0, 0), (BATCH, 100)),
        lambda b, x: b.slice(b.op("exp", x), (0, 100), (BATCH, 200)),
        lambda b, x: [y := b.op("exp", x), b.reshape(y, (BATCH, 3, 100)), b.op("add", y, y)],
        lambda b, x: [b.op("exp", x), x],
    ],
    ids=["first", "last", "twice", "input"],
)
def test_outputs_that_lie_within_other_memory(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "best_size", lambda *rest: 2)
    program = check(build, randn(BATCH, 300))
    assert program.slices is not None
    buffers = [t.place.buffer for t in program.outputs]
    assert len(set(buffers)) == len(buffers)


@pytest.mark.parametrize("seed", range(12))
def test_outputs_that_are_views(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved and put together in another way, behind what is computed: a slice of one sample has no step to the next."""

    def build(b: Builder, x: Tensor) -> Tensor:
        rng = np.random.default_rng(seed)
        y = b.op("exp", x) if seed % 2 else b.matmul(x, weights(b, 12, 12))
        for _ in range(int(rng.integers(1, 4))):
            y = b.permute(y, (0, *(1 + rng.permutation(y.rank - 1)).tolist()))
            inner = [int(n) for n in y.shape[1:]]
            cut = int(rng.integers(len(inner)))
            split = [*inner[:cut], 2, inner[cut] // 2, *inner[cut + 1 :]] if inner[cut] % 2 == 0 else inner
            y = b.reshape(y, (BATCH, *(split if rng.random() < 0.5 else [np.prod(inner[:2]), *inner[2:]])))
        return y

    monkeypatch.setattr(slices, "best_size", lambda *rest: 1 + seed // 4)
    check(build, randn(BATCH, 10, 12))


def test_inputs_without_the_batch_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "best_size", lambda *rest: 2)
    program = check(lambda b, x, y: b.op("add", x, y), randn(BATCH, 300), randn(300))
    assert program.slices is None


def convolutions(batch: int, channels: int, side: int, layers: int) -> list[Prim]:
    b = Builder(fold=False)
    x = Tensor(DType.F32, (batch, channels, side, side))
    w = b.const(np.zeros((channels, channels, 1, 1), np.float32))
    for _ in range(layers):
        x = b.conv(x, w, (1, 1), (1, 1), 1, (0, 0, 0, 0))
    return b.prims


@pytest.mark.parametrize(
    ("batch", "channels", "side", "expected"),
    [
        (32, 16, 8, 32),  # everything stays in the cache as it is
        (2, 64, 8, 2),
        (32, 32, 112, 1),  # pictures large, weights small
        (7, 32, 112, 1),
        (32, 2048, 7, 32),  # weights larger than what goes through them
    ],
)
def test_how_much_at_a_time(batch: int, channels: int, side: int, expected: int) -> None:
    prims = convolutions(batch, channels, side, 4)
    assert slices.best_size(prims, batch, TARGET, 1, 16) == expected


def test_threads_take_slices_of_their_own() -> None:
    """As many for each, or none where the batch is too small for that."""
    large = convolutions(32, 32, 112, 4)
    assert [slices.best_size(large, 32, TARGET, threads, 16) for threads in (1, 2, 8, 32)] == [1, 1, 1, 1]
    assert slices.best_size(large, 32, TARGET, 31, 16) == 32
    assert slices.best_size(convolutions(6, 32, 112, 4), 6, TARGET, 4, 16) == 6
    assert slices.best_size(convolutions(6, 32, 112, 4), 6, TARGET, 3, 16) == 1


def test_slices_are_whole() -> None:
    for batch in (7, 30, 127, 128):
        prims = convolutions(batch, 256, 28, 8)
        assert all(batch % slices.best_size(prims, batch, TARGET, threads, 16) == 0 for threads in (1, 2, 3, 64))


def test_only_large_batches_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "repeated", None)  # it would be called
    monkeypatch.setattr(slices, "best_size", lambda *rest: 1)
    check(lambda b, x: b.op("exp", x), randn(1, 8))
    check(lambda b, x: b.op("exp", x), np.float32(3))
