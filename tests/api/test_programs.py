"""Chains of few numbers that generated code makes and computes: numpy's numbers, whatever else happens meanwhile."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN import MNNError, nn, optim
from MNN.expr.arrays import places
from MNN.expr.fused import Deferred, loops, programs
from MNN.expr.fused.settings import lazily

Array = np.ndarray[Any, Any]
ONE = ("exp", "sin", "cos", "tanh", "sqrt", "abs", "negative", "floor", "ceil", "square", "arctan", "log1p")
TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
COMPARE = ("greater", "less", "greater_equal", "equal")
NUMBERS = (0.0, -0.0, 2.0, 3, -1, 0.1, 1 << 24, (1 << 24) + 1, True, float("inf"), 1e-42)
SIZES = ((9001,), (513,), (95, 90), (8, 9, 120), (4095,), (1, 8193), (600, 1))


@pytest.fixture(autouse=True)
def natively(monkeypatch: pytest.MonkeyPatch) -> None:
    places.settle()
    places.tell(places.ENTRIES)
    monkeypatch.setattr(loops, "COMPILE_AFTER", 0.0)
    loops.loop_of.cache_clear()


class Chain:
    """Vars and the numbers that numpy has for them, in float64 of what float32 gave for the operands."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 2911])
        self.shape = SIZES[self.rng.integers(len(SIZES))]
        self.made: list[tuple[F.Var, Array]] = []
        for _ in range(self.rng.integers(1, 4)):
            a = (self.rng.normal(size=self.shape) * 3).astype(np.float32)
            self.made.append((mp.array(a), a))

    def any(self) -> tuple[F.Var, Array]:
        return self.made[self.rng.integers(len(self.made))]

    def number(self) -> Any:
        return NUMBERS[self.rng.integers(len(NUMBERS))]

    def step(self) -> None:
        (x, a), (y, b), n = self.any(), self.any(), self.number()
        kind, m = self.rng.random(), np.float32(n)
        with np.errstate(all="ignore"):
            if kind < 0.4:
                name = str(self.rng.choice(ONE))
                found = getattr(mp, name)(x), getattr(np, name)(a)
            elif kind < 0.6:
                name = str(self.rng.choice(TWO))
                found = getattr(mp, name)(x, y), getattr(np, name)(a, b)
            elif kind < 0.7:
                found = x * n, a * m
            elif kind < 0.75:
                found = n - x, m - a
            elif kind < 0.8:
                found = x[...] + y[:1], a + b[:1]  # sizes of 1 are repeated
            else:
                name = str(self.rng.choice(COMPARE))
                right = (mp.where(getattr(mp, name)(x, n), y, n), np.where(getattr(np, name)(a, m), b, m))
                found = right if kind < 0.9 else (mp.where(x > y, 0.5, y), np.where(a > b, np.float32(0.5), b))
        if np.isfinite(found[1]).all() and np.abs(found[1]).max() < 100:
            self.made.append(found)

    def check(self, x: F.Var, a: Array) -> None:
        found = x.read() if self.rng.random() < 0.5 else np.asarray(x)
        assert found.dtype == a.dtype == np.float32
        assert found.shape == a.shape == tuple(x.shape)
        apart = np.abs(found - a) > 1e-3 + 1e-3 * np.abs(a)  # where a step has met its edge, rounded to the other side
        assert np.mean(apart) < 0.02, np.flatnonzero(apart)[:9]


@pytest.mark.parametrize("seed", range(16))
def test_random_chains(seed: int) -> None:
    """Of which some are read before others are made of them, and some are written to."""
    chain = Chain(seed)
    for _ in range(24):
        chain.step()
        if chain.rng.random() < 0.2:
            chain.check(*chain.any())
        if chain.rng.random() < 0.1:
            place = chain.rng.integers(len(chain.made))
            x, a = chain.made[place]
            if chain.rng.random() < 0.5:
                x.write(a * 0 + 1)
                chain.made[place] = x, a * 0 + 1
            else:
                x[:1] = 7.0
                chain.made[place] = x, np.concatenate([a[:1] * 0 + 7, a[1:]])
    for x, a in chain.made:
        chain.check(x, a)


def test_bits_of_what_is_rounded_once() -> None:
    """No step is left out, and no two are rounded as one."""
    for n in (8192, 9001):
        a, b = (np.random.default_rng(n + i).normal(size=n).astype(np.float32) for i in (0, 1))
        x, y = mp.array(a), mp.array(b)
        for _ in range(3):
            z = mp.sqrt(mp.abs(mp.maximum(x * y + 0.1, x - y) * 3 - y)) / 7
            w = np.sqrt(np.abs(np.maximum(a * b + np.float32(0.1), a - b) * 3 - b)) / np.float32(7)
            assert type(z._node) is Deferred
            assert np.asarray(z).tobytes() == w.tobytes()
        if any(usual.__qualname__ == "Output.__array__" for usual in places.ENTRIES):  # not on every Python
            assert z._few is not None  # which generated code has set


def test_a_program_is_found_by_what_it_computes() -> None:
    """The same functions of other arrays are the same program; the same array twice is another one."""
    a, b = (np.random.default_rng(i).random(9000, dtype=np.float32) for i in (0, 1))
    x, y = mp.array(a), mp.array(b)
    for v, w, p, q in ((x, y, a, b), (y, x, b, a), (x, x, a, a), (y, y, b, b), (x, y, a, b)):
        for _ in range(2):
            found = np.asarray((v - 0.5) * w - (w - 0.5) * 2.0)
            np.testing.assert_array_equal(found, (p - np.float32(0.5)) * q - (q - np.float32(0.5)) * 2)


def test_numbers_are_those_of_when_it_was_said() -> None:
    a = np.random.default_rng(3).random(6000, dtype=np.float32)
    x, mine = mp.array(a), a.copy()
    later, borrowed = mp.exp(x * 2.0), mp.exp(x * 2.0 + mine)
    x.write(a * 0)
    mine[:] = 9
    np.testing.assert_allclose(later.read(), np.exp(a * 2), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(borrowed), np.exp(a * 2 + a), rtol=1e-6)
    first, second = later.read(), np.asarray(later)
    first[:] = 0  # a copy
    assert not second.flags.writeable
    np.testing.assert_allclose(later.read(), np.exp(a * 2), rtol=1e-6)


def test_what_is_used_again_is_stored() -> None:
    x = mp.array(np.full(9000, 0.5, np.float32))
    shared = mp.exp(x * 2.0)
    for n in range(5):
        np.testing.assert_allclose(np.asarray(shared * float(n)), np.full(9000, np.exp(1.0) * n), rtol=1e-6)
    node = shared._node
    assert isinstance(node, Deferred)
    assert node.array is not None
    total = x
    for _ in range(200):
        total = total * 0.5 + x
    assert isinstance(total._node, Deferred)
    assert total._node.functions <= 32
    np.testing.assert_allclose(np.asarray(total), np.full(9000, 1.0), rtol=1e-6)


def test_what_does_not_fit_is_told_at_once() -> None:
    x, y = (mp.exp(mp.array(np.zeros(n, np.float32))) for n in (9000, 9001))
    mistakes: list[Callable[[], Any]] = [
        lambda: x + y, lambda: mp.maximum(y, x), lambda: x > y, lambda: mp.where(x > 0, x, y),
    ]  # fmt: skip
    for wrong in mistakes:
        with pytest.raises(MNNError, match="900"):
            wrong()
    with pytest.raises((MNNError, TypeError)):
        x + "a"
    assert float(np.asarray(x + 1).max()) == 2


def test_lazily_elsewhere_and_here() -> None:
    a = np.random.default_rng(4).random(9000, dtype=np.float32)
    x = mp.exp(mp.array(a))
    with lazily():
        kept = x * 2.0
        assert kept._expr.op == "BinaryOp"
        other: list[F.Var] = []
        thread = threading.Thread(target=lambda: other.append(mp.tanh(x)))
        thread.start()
        thread.join()
    np.testing.assert_allclose(kept.read(), np.exp(a) * 2, rtol=1e-6)
    assert other[0]._expr.op == "Const"
    np.testing.assert_allclose(other[0].read(), np.tanh(np.exp(a)), rtol=1e-6)


def test_gradients_of_what_was_computed_later() -> None:
    a = np.random.default_rng(5).random(9000, dtype=np.float32)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = mp.exp(mp.array(a))  # not computed before it is a parameter
            self.w.fix_as_trainable()

        def forward(self, x: F.Var) -> F.Var:
            return self.w * x

    module = Scaled()
    fixed = mp.tanh(mp.array(a) * 0.5)
    optimizer = optim.SGD(module, 0.1, momentum=0.0)
    optimizer.step(mp.sum(module.w * fixed * module.w))
    wanted = np.exp(a) - 0.1 * 2 * np.exp(a) * np.tanh(a / 2)
    np.testing.assert_allclose(module.w.read(), wanted, rtol=1e-5)


def test_many_threads_read_the_same() -> None:
    a = np.random.default_rng(6).random(9000, dtype=np.float32)
    x = mp.array(a)
    wanted = np.tanh(np.exp(a) * 2)
    wrong: list[str] = []
    for _ in range(20):
        inner = mp.exp(x)
        outer = mp.tanh(inner * 2.0)

        def read(v: F.Var, right: Array, way: Callable[[F.Var], Any]) -> None:
            if not np.allclose(way(v), right, rtol=1e-6):
                wrong.append(str(way))

        ways: list[Callable[[F.Var], Any]] = [F.Var.read, np.asarray, lambda v: v._expr.results()[0]]
        threads = [threading.Thread(target=read, args=(v, r, way))
                   for v, r in ((outer, wanted), (inner, np.exp(a))) for way in ways]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_nothing_is_kept() -> None:
    x, y = (mp.array(np.random.default_rng(i).random(9000, dtype=np.float32)) for i in (0, 1))

    def every() -> None:
        z = mp.where(mp.exp(x * 2.0) - y > 0.0, x, mp.sqrt(y + 1.25)) * 0.0
        np.asarray(z), z.read(), float(mp.sum(z)), z[1:], z[3]
        mp.tanh(z * 3.0)  # never read
        np.asarray(mp.concatenate([mp.exp(x), mp.exp(y)]))
        mistakes: list[Callable[[], Any]] = [lambda: mp.exp(x) + mp.array([1.0, 2.0]), lambda: mp.exp(x) + "a"]
        for mistake in mistakes:
            with pytest.raises((MNNError, TypeError)):
                mistake()

    for _ in range(3):
        every()
    kept = (np.dtype(np.float32), F.NCHW, F.Var, Deferred, x._array(), y._array(), None, True, False, (), 0)
    gc.collect()
    before = [sys.getrefcount(o) for o in kept]
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        every()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    after = [sys.getrefcount(o) for o in kept]
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True)), (before, after)
    assert grown < 100_000


def test_the_table_may_be_full(monkeypatch: pytest.MonkeyPatch) -> None:
    programs.forget()
    monkeypatch.setattr(programs, "_FULL", 1)
    x = mp.array(np.ones(9000, np.float32))
    for _ in range(3):
        assert float(np.asarray(mp.maximum(x * 2.0, 1.0) - 1.5).max()) == 0.5
        assert float(np.asarray(mp.maximum(x * 2.0, 1.0) + 1.5).max()) == 3.5
    programs.forget()
