"""Functions of ``MNN.numpy`` beside numpy's on strange arrays: without axes, empty, with steps either way, repeated, in
the other order of bytes, with no-numbers; results stay as they are while others are made and their operands change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.numpy as mp
from MNN.expr.arrays import direct, few, views
from MNN.expr.fused import copies, loops, reductions, results

Array = np.ndarray[Any, Any]
KINDS = (np.float32, np.float32, np.float64, np.float16, np.int32, np.int64, np.int16, np.uint8, np.bool_)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -1.5)


class Drawn:
    """Random arguments."""

    def __init__(self, seed: list[int]) -> None:
        self.rng = np.random.default_rng(seed)

    def array(self, shape: tuple[int, ...] | None = None, kinds: tuple[Any, ...] = KINDS) -> Array:
        """A view of any kind."""
        rng, kind = self.rng, kinds[self.rng.integers(len(kinds))]
        if shape is None:
            low = 0 if rng.random() < 0.15 else 1
            shape = tuple(int(n) for n in rng.integers(low, rng.choice([4, 9, 20]), rng.integers(0, 4)))
        whole = tuple(2 * n + 1 for n in shape)
        found = np.asarray(rng.normal(size=whole) * 4)
        if np.dtype(kind).kind == "f":
            found = np.where(rng.random(whole) < rng.choice([0, 0.2]), rng.choice(SPECIAL, whole), found)
        else:
            found = np.abs(found)
        steps = [(int(rng.choice([1, 1, 2, -1, -2])), n) for n in shape]
        key = [slice(0, n * s, s) if s > 0 else slice(2 * n, 2 * n + n * s if n else 2 * n, s) for s, n in steps]
        found = found.astype(kind)[(*(k if n else slice(0, 0) for k, n in zip(key, shape, strict=True)), ...)]
        if rng.random() < 0.3:
            found = found.transpose(rng.permutation(found.ndim))
        if rng.random() < 0.1:
            found = found.astype(found.dtype.newbyteorder(">"))
        if rng.random() < 0.1 and found.ndim and found.shape[0]:
            found = np.broadcast_to(found[:1], found.shape)
        return found

    def axis(self, a: Array) -> int:
        return int(self.rng.integers(-a.ndim - 1, a.ndim + 1)) if a.ndim else int(self.rng.integers(-1, 1))

    def axes(self, a: Array) -> int | None:
        return None if self.rng.random() < 0.3 else self.axis(a)


def _one(d: Drawn) -> tuple[Any, ...]:
    return (d.array(),)


def _two(d: Drawn) -> tuple[Any, ...]:
    a = d.array()
    own = tuple(1 if d.rng.random() < 0.25 else n for n in a.shape[int(d.rng.integers(a.ndim + 1)) :])
    return (a, d.array(own)) if d.rng.random() < 0.5 else (d.array(own), a)


def _with_axis(d: Drawn) -> tuple[Any, ...]:
    a = d.array()
    return a, d.axis(a)


def _with_axes(d: Drawn) -> tuple[Any, ...]:
    a = d.array()
    return a, d.axes(a)


def _several(d: Drawn) -> tuple[Any, ...]:
    a = d.array()
    return [a, *(d.array(a.shape, (a.dtype.type,)) for _ in range(d.rng.integers(3)))], d.axis(a)


def _with(*more: Callable[[Drawn, Array], Any]) -> Callable[[Drawn], tuple[Any, ...]]:
    def draw(d: Drawn) -> tuple[Any, ...]:
        a = d.array()
        return (a, *(m(d, a) for m in more))

    return draw


def _count(d: Drawn, a: Array) -> int:
    return int(d.rng.integers(4))


def _order(d: Drawn, a: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in d.rng.permutation(a.ndim))


ARGUMENTS: dict[str, Callable[[Drawn], tuple[Any, ...]]] = {
    **dict.fromkeys(("abs", "square", "sqrt", "exp", "sin", "tanh", "floor", "ceil", "sign", "ravel", "transpose",
                     "copy", "squeeze", "atleast_2d", "nonzero", "tril", "unique", "argwhere"), _one),
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum", "greater", "equal", "less_equal", "fmax",
                     "arctan2", "hypot", "not_equal"), _two),
    **dict.fromkeys(("sum", "max", "min", "any", "all", "count_nonzero", "ptp", "argmax", "argmin", "median",
                     "nanmax"), _with_axes),
    **dict.fromkeys(("cumsum", "sort", "flip", "expand_dims", "argmax"), _with_axis),
    **dict.fromkeys(("concatenate", "stack"), _several),
    "tile": _with(lambda d, a: [int(n) for n in d.rng.integers(0, 3, d.rng.integers(1, 4))]),
    "repeat": _with(_count, lambda d, a: d.axes(a)), "roll": _with(_count, lambda d, a: d.axes(a)),
    "split": _with(lambda d, a: [1, 3], lambda d, a: d.axis(a)), "reshape": _with(lambda d, a: (-1,)),
    "broadcast_to": _with(lambda d, a: (2, *(3 if n == 1 else n for n in a.shape))),
    "clip": _with(lambda d, a: -1, lambda d, a: 2), "swapaxes": _with(lambda d, a: d.axis(a), lambda d, a: d.axis(a)),
    "moveaxis": _with(lambda d, a: d.axis(a), lambda d, a: d.axis(a)), "pad": _with(lambda d, a: 1),
    "where": lambda d: (d.array((3, 5), (np.bool_, np.int32)), d.array((3, 5)), d.array((5,))),
}  # fmt: skip
CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    "order kept": lambda lib, a: lib.maximum(lib.transpose(a) * 2 + 1, lib.transpose(a)),
    "orders meet": lambda lib, a: lib.transpose(lib.exp(lib.minimum(a, 2))) + lib.flip(lib.transpose(a)),
    "sum": lambda lib, a: lib.sum(lib.abs(a) * 2 + a),
    "parts": lambda lib, a: (a[..., ::-1], a[1:], a[None]) if a.ndim else a,
}


def held(value: Any) -> Any:
    """An array in an element type that a Var has."""
    if isinstance(value, list):
        return [held(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    kind: Any = np.uint8 if value.dtype == np.uint8 else np.float32 if value.dtype.kind == "f" else np.int32
    return value.astype(kind)


def numbers(found: Any) -> list[Array]:
    if isinstance(found, (tuple, list)):
        return [a for part in found for a in numbers(part)]
    return [np.asarray(found)]


@pytest.fixture(params=["as they are", "as large ones"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small arrays are dealt with as small ones, or as large ones are."""
    if request.param == "as large ones":
        for module, names in ((few, ("FEW", "CHAINED", "ALONE", "MANY")), (direct, ("ALONE",))):
            for name in names:
                monkeypatch.setattr(module, name, 64)
        for other in (few, direct, views):
            monkeypatch.setattr(other, "COPIED", 8)
        monkeypatch.setattr(copies, "SMALLEST", 0)
        monkeypatch.setattr(copies, "PAYS_AFTER", 0)
        monkeypatch.setattr(reductions, "COMPILE_AFTER", np.inf)
        monkeypatch.setattr(results, "SMALLEST", 64)
        monkeypatch.setattr(results, "_BLOCKS", results._Blocks())
        monkeypatch.setattr(loops, "_COPIED", 512)
    return str(request.param)


def test_as_numpy(sizes: str) -> None:
    """Where numpy answers, all of its numbers; they stay as they were, whatever is made of their memory later."""
    kept: list[tuple[str, Array, Array]] = []
    answered = 0
    for seed in range(900):
        d = Drawn([seed, 53])
        names = [*ARGUMENTS, *CHAINS]
        name = names[seed % len(names)]
        given = (d.array(),) if name in CHAINS else ARGUMENTS[name](d)
        plain = tuple(held(v) for v in given)
        raw = name not in CHAINS and d.rng.random() < 0.5  # arrays as users have them
        ours = given if raw else tuple(
            [mp.array(a) for a in v] if isinstance(v, list) and isinstance(v[0], np.ndarray)
            else mp.array(v) if isinstance(v, np.ndarray) else v
            for v in given
        )  # fmt: skip
        call = CHAINS.get(name)
        try:
            with np.errstate(all="ignore"):
                wanted = numbers(call(np, *plain) if call else getattr(np, name)(*plain))
        except (ValueError, IndexError, TypeError):
            continue
        if name in ("subtract", "order kept", "orders meet", "abs", "ptp") and any(
            a.dtype == np.uint8 for a in numbers(list(plain)) if a.ndim or a.dtype == np.uint8
        ):
            continue  # whole numbers below 0 are none of bytes, as the page on PyMNN says
        found = numbers(call(mp, *ours) if call else getattr(mp, name)(*ours))
        about = f"{name}, seed {seed}, {[(a.shape, a.strides, a.dtype.str) for a in numbers(list(given))]}"
        assert [a.shape for a in found] == [a.shape for a in wanted], about
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.astype(np.float64), other, 1e-3, 1e-4, err_msg=about)
            kept.append((about, one, one.copy()))
        answered += 1
        while len(kept) > 50:
            kept.pop(int(d.rng.integers(len(kept))))
    for about, one, before in kept:
        np.testing.assert_array_equal(one, before, about)
    assert answered > 700


SHARING: dict[str, Callable[[Any], Any]] = {
    "transpose": mp.transpose, "flip": lambda v: mp.flip(v, 1), "split": lambda v: mp.split(v, 2)[1],
    "reshape": lambda v: mp.reshape(v, (-1,)), "broadcast_to": lambda v: mp.broadcast_to(v, (2, *v.shape)),
    "part": lambda v: v[10:], "chain": lambda v: mp.transpose(v) * 2.0 + 1.0,
    "expand_dims": lambda v: mp.expand_dims(v, 0), "squeeze": mp.squeeze, "stack": lambda v: mp.stack([v, v]),
}  # fmt: skip


@pytest.mark.parametrize("side", [20, 100, 600])
def test_views_do_not_see_what_is_written(side: int) -> None:
    """Neither into what they are of, by the user or by functions, nor the other way round."""
    base = np.random.default_rng(side).random((side, side), np.float32)
    for name, view in SHARING.items():
        wanted = np.array(view(mp.array(base)))
        mine = base.copy()
        if name != "part":
            of_mine = view(mine)
            mine[...] = 7
            np.testing.assert_array_equal(np.array(of_mine), wanted, name)
        for write in (lambda x, v: x.write(np.zeros_like(base)), lambda x, v: x.__setitem__(0, 3.0),
                      lambda x, v: mp.add(x, 1.0, out=x), lambda x, v: v.read().fill(5)):  # fmt: skip
            x = mp.array(base)
            seen = view(x)
            assert not np.asarray(seen).flags.writeable
            write(x, seen)
            np.testing.assert_array_equal(np.array(seen), wanted, name)
        x = mp.array(base)
        seen = view(x)
        if seen.shape == x.shape:
            mp.add(x, seen, out=seen)
            np.testing.assert_array_equal(np.array(x), base, name)
            np.testing.assert_array_equal(np.array(seen), base + wanted, name)
        small = seen[..., :1] if seen.ndim else seen
        del x, seen
        assert np.asarray(small).size
