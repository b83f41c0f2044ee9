"""Kernels of a cache in pages against the reference implementation, on this machine's targets and AArch64, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from MNN.backends.cpu.attention.code import emit_paged_attention
from MNN.backends.cpu.attention.emit_pages import _bits
from MNN.backends.cpu.attention.frame import Frame
from MNN.backends.cpu.attention.spec import PagedAttentionSpec, PageWriteSpec, PartsMergeSpec, parts_of, row_tiles
from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.backends.cpu.targets.instructions.capability import PAIRS_I16
from MNN.ir.dtype import DType
from MNN.ir.prims import CacheWrite, PagedAttention, Tensor
from MNN.reference.primitives import evaluate
from tests.backends.cpu import qemu
from tests.backends.cpu.util import TARGETS, call

ROUNDED = 1.5e-4
"""What queries and powers in 16 bits may cost, over the largest value: the most that was seen of 155,000 results of
:func:`drawn` cases is 9.6e-5. (Values in 8 bits by themselves cost 2e-3; with single numbers eight times as large as
others, 1e-3 was seen for keys and values in 8 bits.) :func:`test_sixteen_bits` says what that is beside f16."""
PAGE = 32
"""Tokens of a page, few so that there are many."""
FORMS = [("f32", 0), ("f16", 0), ("bf16", 0), ("i16", 16), ("u8", 8), ("u8", 4)]
TYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i16": np.int16,
                         "u8": np.uint8}  # fmt: skip


@dataclasses.dataclass
class Case:
    """Random sequences in one cache."""

    rng: np.random.Generator
    heads: int
    groups: int
    size: int
    value_size: int
    key: tuple[str, int]
    value: tuple[str, int]
    window: int = 0
    softcap: float = 0.0
    tile: int = 4
    parts: int = 1
    slopes: tuple[float, ...] = ()
    sinks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        rng, pages = self.rng, 9
        step = 32 if self.value[1] == 4 else 16
        self.padded = -(-self.value_size // step) * step
        pair = {0: 1, 4: 4}.get(self.key[1], 2)
        self.held = -(-self.size // pair) * pair
        self.pools = [
            np.zeros((pages, self.groups, self.held // (2 if self.key[1] == 4 else 1), PAGE), TYPES[self.key[0]]),
            np.zeros((pages, self.groups, PAGE, self.padded // (2 if self.value[1] == 4 else 1)), TYPES[self.value[0]]),
        ]
        for form in (self.key, self.value):
            if form[1]:
                self.pools.append(np.zeros((pages, self.groups, 1 if form[1] == 16 else 2, PAGE), np.float32))
        free = list(rng.permutation(pages))
        past = [int(n) for n in rng.choice([0, 1, 30, 31, 32, 33, 60], 3)]
        new = [int(n) for n in rng.choice([1, 1, 2, 4, 5, 7], 3)]
        table, tiles, places, first = [], [], [], 0
        self.before: list[int] = []
        for old, count in zip(past, new, strict=True):
            own = [free.pop() for _ in range(-(-(old + count) // PAGE))]
            begin = len(table)
            table += own
            self.before += [own[i // PAGE] * PAGE + i % PAGE for i in range(old)]
            places += [own[i // PAGE] * PAGE + i % PAGE for i in range(old, old + count)]
            for start in range(0, count, self.tile):
                tiles.append((first + start, min(self.tile, count - start), begin, old + start))
            first += count
        self.table, self.tiles = np.array(table, np.int64), np.array([*tiles, (0, 0, 0, 0)], np.int64)
        self.places = np.array(places, np.int64)

    def some(self, *shape: int) -> np.ndarray:
        return (self.rng.standard_normal(shape) + self.rng.standard_normal(shape[-1]) * 0.5).astype(np.float32)

    def write(self, pools: list[np.ndarray], k: np.ndarray, v: np.ndarray, places: np.ndarray) -> list[np.ndarray]:
        given = [*pools, k, v, places]
        prim = CacheWrite([Tensor(DType.of(a), a.shape) for a in given], key_bits=self.key[1], value_bits=self.value[1])
        return list(evaluate(prim, given, [(DType.of(a), a.shape) for a in pools]))

    def attend(self, q: np.ndarray, pools: list[np.ndarray], scale: float) -> np.ndarray:
        given = [q, *pools, self.table, self.tiles]
        prim = PagedAttention(
            [Tensor(DType.of(a), a.shape) for a in given], scale=scale, softcap=self.softcap, window=self.window,
            tile=self.tile, size=self.value_size, key_bits=self.key[1], value_bits=self.value[1],
            slopes=self.slopes, sinks=self.sinks,
        )  # fmt: skip
        return np.asarray(evaluate(prim, given, [(DType.F32, (*q.shape[:2], self.value_size))])[0])

    def fields(self) -> tuple[Any, ...]:
        types = (DType.of(self.pools[0]), DType.of(self.pools[1]))
        return (
            self.groups,
            self.size,
            self.value_size,
            self.held,
            self.padded,
            PAGE,
            *types,
            self.key[1],
            self.value[1],
        )


def run(case: Case, target: Target, calls: Callable[..., None], **more: object) -> np.ndarray:
    """Writes what was there with the reference implementation, then new tokens and attention with the kernels, and
    gives the result."""
    groups, size, value_size = case.groups, case.size, case.value_size
    pools = case.write(case.pools, case.some(len(case.before), groups, size),
                       case.some(len(case.before), groups, value_size), np.array(case.before, np.int64))  # fmt: skip
    tokens = len(case.places)
    both = case.some(tokens, groups, size + value_size)  # keys and values side by side
    k, v = both[:, :, :size], both[:, :, size:]
    places = case.places.copy()
    places[-1] = (-1, len(pools[0]) * PAGE)[int(case.rng.integers(2))] if tokens > 6 else places[-1]
    wanted = case.write(pools, k, v, places)
    found = [pool.copy() for pool in pools]
    write = PageWriteSpec(*case.fields())
    slots = {name: pool.ctypes.data for name, pool in zip(write.pools(), found, strict=True)}
    step = size + value_size
    slots |= {"pages": len(pools[0]), "k": k.ctypes.data, "v": v.ctypes.data, "places": places.ctypes.data}
    slots |= {"k_t": groups * step, "k_g": step, "v_t": groups * step, "v_g": step, "tokens": tokens}
    calls(write, target, slots, tokens, [*found, both, places], **more)
    for got, expected, bits in zip(found, wanted, (case.key[1], case.value[1], 0, 0), strict=False):
        if bits:  # a number on the border of two codes may get either
            assert (got != expected).mean() < 0.01
        else:
            np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol=1e-6, atol=1e-6)
    q = case.some(tokens, case.heads, size)
    scale = 1 / np.sqrt(size)
    expected = case.attend(q, found, scale)
    spec = PagedAttentionSpec(
        *case.fields(), case.heads, case.tile, bool(case.softcap), *row_tiles(case.heads // groups), case.parts,
        bool(case.slopes), bool(case.sinks),
    )  # fmt: skip
    out, blocks = np.zeros_like(expected), len(case.tiles) * groups
    partial = np.full((blocks * case.parts, spec.most, spec.partial_row), np.nan, np.float32)
    slots = {name: pool.ctypes.data for name, pool in zip(spec.pools(), found, strict=True)}
    slots |= {"pages": len(pools[0]), "q": q.ctypes.data, "q_t": case.heads * size, "q_h": size, "tokens": tokens}
    result = {"out": out.ctypes.data, "out_t": case.heads * value_size, "out_h": value_size}
    slots |= {"partial": partial.ctypes.data} if case.parts > 1 else result
    slots |= {"table": case.table.ctypes.data, "entries": len(case.table), "tiles": case.tiles.ctypes.data}
    slots |= {"scale": _bits(scale), "cap": _bits(case.softcap), "window": case.window or 1 << 40}
    memory = [*found, q, out, case.table, case.tiles, partial]
    for name, numbers in (("slopes", case.slopes), ("sinks", case.sinks)):
        if numbers:
            memory.append(np.array(numbers, np.float32))
            slots[name] = memory[-1].ctypes.data
    calls(spec, target, slots, blocks * case.parts, memory, **more)
    if case.parts > 1:
        result |= {"partial": partial.ctypes.data, "tiles": case.tiles.ctypes.data, "tokens": tokens}
        merge = PartsMergeSpec(groups, value_size, case.padded, case.heads, case.tile, case.parts)
        calls(merge, target, result, blocks, [partial, out, case.tiles], **more)
    rounds = (case.key[1] or case.value[1]) and target.can(PAIRS_I16)
    largest = max(1.0, float(np.abs(v).max()))
    np.testing.assert_allclose(out, expected, rtol=0, atol=ROUNDED * largest if rounds else 2e-5 * largest)
    return out


def drawn(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 4))
    share = int(rng.choice([1, 2, 3, 4, 7, 11, 16]))
    size = int(rng.choice([8, 15, 18, 20, 32, 64, 80, 96]))
    value_size = int(rng.choice([size, size, 16, 40, 64]))
    forms = [FORMS[int(i)] for i in rng.integers(0, len(FORMS), 2)]
    window, softcap = int(rng.choice([0, 0, 1, 5, 33])), float(rng.choice([0, 0, 5]))
    parts, heads = int(rng.choice([1, 2, 3, 5])), groups * share
    more = [tuple(rng.uniform(0, 2, heads).astype(np.float32).tolist()) if rng.random() < 0.4 else () for _ in "ab"]
    return Case(rng, heads, groups, size, value_size, *forms, window, softcap, 4, parts, *more)


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
@pytest.mark.parametrize("seed", range(6))
def test_random(target: Target, seed: int) -> None:
    case = drawn(seed * 100 + TARGETS.index(target))
    run(case, target, call)


@pytest.mark.parametrize("form", FORMS, ids=[f"{name}-{bits}" for name, bits in FORMS])
def test_checked(form: tuple[str, int]) -> None:
    """Exact bounds."""
    for target in (TARGETS[0], TARGETS[-1]):
        rng = np.random.default_rng(5)
        run(Case(rng, 6, 2, 20, 40, form, form, 33, parts=2), target, call, checked=True)


def test_parts() -> None:
    """Threads have as much to do as each other, but where there are many blocks for each."""
    for groups in range(1, 40):
        for threads in (1, 2, 3, 8, 16, 96):
            blocks = groups * parts_of(groups, threads)
            assert blocks % threads == 0 or blocks >= 4 * threads or blocks == 32 * groups
    assert [parts_of(2, 1), parts_of(2, 2), parts_of(3, 2), parts_of(2, 16)] == [1, 1, 2, 8]


@pytest.mark.parametrize("sizes", [(64, 7), (128, 1), (18, 4)])
def test_sixteen_bits(sizes: tuple[int, int]) -> None:
    """All that keys, values, queries and powers lose in 16 bits is less than what f16 loses for keys and values."""
    size, share = sizes
    for target in TARGETS:
        lost, exact = {}, np.zeros(0)
        for form in (("f32", 0), ("f16", 0), ("i16", 16)):
            case = Case(np.random.default_rng(size), 2 * share, 2, size, size, form, form)
            found = run(case, target, call)
            exact = found if form[0] == "f32" else exact
            lost[form[0]] = float(np.sqrt(((found - exact) ** 2).mean()))
        assert lost["i16"] < 0.7 * lost["f16"]


@pytest.mark.parametrize("form", FORMS, ids=[f"{name}-{bits}" for name, bits in FORMS])
def test_uneven_numbers(form: tuple[str, int]) -> None:
    """Heads that one number rules, whole heads of zeros, and queries of zeros."""
    for target in TARGETS:
        case = Case(np.random.default_rng(3), 6, 2, 20, 24, form, form)
        plain = case.some

        def some(
            *shape: int, plain: Callable[..., np.ndarray] = plain, rng: np.random.Generator = case.rng
        ) -> np.ndarray:
            found = plain(*shape)
            found[rng.random(shape) < 0.02] *= 8
            found[rng.random(shape[:-1]) < 0.2] = 0
            return found

        case.some = some  # type: ignore[method-assign]
        assert np.isfinite(run(case, target, call)).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_aarch64(seed: int) -> None:
    qemu.need_tools()
    run(drawn(seed), named_target("neon"), qemu.call)


@pytest.mark.parametrize("value_bits", [0, 8, 16])
@pytest.mark.parametrize("key_bits", [0, 8, 16])
def test_keys_and_values_are_both_asked_for(key_bits: int, value_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one are codes and the others floats."""
    asked, types = [], {0: DType.F32, 8: DType.U8, 16: DType.I16}
    monkeypatch.setattr(Frame, "ask", lambda self, name, head, *_: asked.append((name, head is self.after)))
    kinds = types[key_bits], types[value_bits], key_bits, value_bits
    emit_paged_attention(PagedAttentionSpec(2, 64, 64, 64, 64, 64, *kinds, 14, 8, False, *row_tiles(7)), host_target())
    assert {name for name, _ in asked} == {"keys", "values"}
    assert ("keys", True) in asked
