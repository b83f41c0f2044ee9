"""Generated code that Python calls straight gives what Python's own way gives, bit by bit, and keeps nothing."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN import MNNError
from MNN.expr.arrays import few, places
from MNN.expr.arrays.native import facts, install
from MNN.expr.fused.settings import lazily
from tests.api.test_few import CASES, Case, Drawn

Numbers = np.ndarray[Any, Any]


class Larger(Drawn):
    """Random operands whose axes are longer than what is left to Python."""

    def sizes(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(0 if self.rng.random() < 0.1 else 1, 40, self.rng.integers(4)))

    def var(self, shape: tuple[int, ...] | None = None, kind: Any = None) -> F.Var:
        made = super().var(shape, kind)
        if self.rng.random() < 0.05:
            made = F.placeholder([3], F.NCHW)
        return made


MORE: dict[str, Case] = {
    "numbers": lambda d: d.var() * d.bounds()[0] - 3, "row": lambda d: d.var()[int(d.rng.integers(3))],
    "columns": lambda d: d.var()[:, 1:7], "transposed": lambda d: mp.transpose(d.var()) + 1,
    "joined": lambda d: mp.concatenate([d.var((3, n), np.float32) for n in d.rng.integers(5, 7, 3)], d.any_axis()),
    "matrices": lambda d: mp.matmul(d.var((9, 17), np.float32), d.var((17, 5), np.float32)),
    "all numbers": lambda d: np.asarray(d.var()), "compared": lambda d: d.var() > d.bounds()[1],
    "chosen": lambda d: mp.where(d.var((37,), np.int32), d.var((37,), np.float32), 0.5),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def settled() -> Iterator[None]:
    places.settle()
    yield
    places.tell(places.ENTRIES)


def _by_python() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {entry: usual for usual, entry in places.ENTRIES.items()}


def _answer(case: Case, seed: int) -> Any:
    try:
        found = case(Larger(seed))
    except (MNNError, IndexError) as error:
        return type(error), str(error), b""
    if isinstance(found, F.Var):
        expr = found._expr
        numbers = found.read() if not expr.sources else np.zeros(0)
        return found.dtype, (found.data_format, expr.op, found.shape), _bits(numbers)
    return type(found), None, _bits(np.array(found))


def _bits(numbers: Numbers) -> bytes:
    """With one kind of NaN, as its sign is that of no operand in particular."""
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isnan(numbers), np.nan, numbers).astype(numbers.dtype)
    return numbers.tobytes()


@pytest.mark.parametrize("name", [*CASES, *MORE])
@pytest.mark.usefixtures("uncompiled")
def test_as_python(name: str) -> None:
    assert places.ENTRIES
    case = {**CASES, **MORE}[name]
    for seed in range(40):
        places.tell(places.ENTRIES)
        ours = _answer(case, seed)
        with lazily():
            later = _answer(case, seed)
        places.tell(_by_python())
        assert ours == _answer(case, seed), seed
        with lazily():
            assert later == _answer(case, seed), seed


def test_inner_loops_are_found() -> None:
    """Of all element types that they are defined on."""
    kinds = {"exp": "each", "add": "pairwise", "less": "comparing"}
    for name, part in kinds.items():
        assert install.loops_of(getattr(np, name), part, False).keys() == (
            {0, 2} if part == "each" else set(range(len(facts.KINDS)))
        )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_halves_are_rounded_away_from_zero(kind: type[np.floating[Any]]) -> None:
    """By numpy, an inner loop and a loop over elements alike; 0 is never below zero."""
    draw = np.random.default_rng(5)
    below = np.nextafter(kind(0.5), kind(0))
    for n in (0, 1, 7, 33, 1001, few.CHAINED + 5):
        a = (draw.normal(size=n) * draw.choice([0.6, 9, 1e9])).round(1).astype(kind)
        a[: n // 3] = np.resize(np.array([0.5, -0.5, -2.5, below, -below, -0.2, np.inf, -np.inf, np.nan], kind), n // 3)
        if kind is np.float64:
            a = a.astype(np.float32).astype(kind)  # as arrays of doubles are taken
        with np.errstate(invalid="ignore"):
            apart = np.abs(a - np.trunc(a))
        wanted = np.trunc(a) + np.where(apart >= 0.5, np.sign(a), 0)
        given = mp.array(a, kind)
        for x, right in ((given, wanted), (given[::2], wanted[::2])):
            found = np.asarray(F.round(x))
            np.testing.assert_array_equal(found, right.astype(found.dtype))
            assert not np.signbit(found[found == 0]).any()


def test_whole_parts_as_generated_code_has_them() -> None:
    """Of f32 as int32: cut off, at the ends of the range where they lie outside, 0 for what is no number."""
    draw = np.random.default_rng(6)
    for scale in (3.0, 1e5, 3e9, 1e30):
        a = (draw.normal(size=300) * scale).astype(np.float32)
        a[:9] = np.array(
            [2**31, -(2**31), 2**31 - 128, -(2**31) - 256, np.nan, np.inf, -np.inf, -0.5, 0.99], np.float32
        )
        for part in (a, a[7:], a[:0]):
            wanted = np.clip(np.nan_to_num(np.trunc(part.astype(np.float64)), nan=0), -(2**31), 2**31 - 1)
            np.testing.assert_array_equal(np.asarray(mp.array(part).astype(mp.int32)), wanted.astype(np.int32))


def test_loops_that_give_something_else_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = facts.inner_loop(np.subtract, "ff->f")
    monkeypatch.setattr(install.facts, "inner_loop", lambda function, kinds: wrong if kinds == "ff->f" else None)
    assert install.loops_of(np.add, "pairwise", True) == {}
    assert install.loops_of(np.subtract, "pairwise", True) == {0: wrong}


def test_nothing_is_kept() -> None:
    x, y = mp.array(np.ones((20, 30), np.float32)), mp.array(np.ones(30, np.float32))
    places.tell(places.ENTRIES)

    def every() -> None:
        for z in (x + y, x * 2, 3 - x, x > 0.5, mp.exp(x), mp.clip(x, 0.1, 0.5), mp.where(x > 0, x, 0.0), x[1:], x[1]):
            np.asarray(z)
        mp.transpose(x), mp.concatenate([x, x]), mp.matmul(x, y)
        for mistake in (lambda: x + mp.array([1.0, 2.0]), lambda: mp.matmul(x, x), lambda: x[99]):
            with pytest.raises((MNNError, IndexError)):
                mistake()

    every()
    kept = (np.dtype(np.float32), np.dtype(np.int32), F.NCHW, F.Var, x._array(), y._array(), None)
    gc.collect()
    before = [sys.getrefcount(o) for o in kept]
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        every()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    assert all(abs(sys.getrefcount(o) - n) < 100 for o, n in zip(kept, before, strict=True))
    assert grown < 100_000


def test_results_of_more_numbers_have_no_entry_of_their_own() -> None:
    """Sizes around the limits, in threads."""
    places.tell(places.ENTRIES)
    wrong: list[int] = []

    def compute(n: int) -> None:
        a = np.random.default_rng(n).random(n, dtype=np.float32)
        x = mp.array(a)
        right = [
            np.array_equal(np.asarray(x + x), a + a), np.array_equal(np.asarray(x * 2 > 1), (a * 2 > 1) * 1),
            np.allclose(np.asarray(mp.exp(x)), np.exp(a), rtol=1e-6),
            np.array_equal(np.asarray(mp.where(x > 0.5, x, 0.0)), np.where(a > 0.5, a, 0)),
            np.array_equal(np.asarray(mp.clip(x, 0.2, 0.8)), a.clip(np.float32(0.2), np.float32(0.8))),
        ]  # fmt: skip
        if not all(right):
            wrong.append(n)

    sizes = [few.FEW - 1, few.FEW + 1, few.CHAINED, few.CHAINED + 1, few.ALONE, few.ALONE + 3]
    threads = [threading.Thread(target=compute, args=(n,)) for n in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
