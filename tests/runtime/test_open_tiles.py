"""One plan for many sizes where products are on matrix units (emulated where there are none): answers are those of the
reference, whatever is open of a product: its rows, its columns, its depth, its batch."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from MNN.backends.base import poison
from MNN.backends.cpu.amx.emission import emit_amx
from MNN.backends.cpu.amx.open_rows import AmxOpenSpec
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.compiler.checks import cheap_tiles
from tests.runtime import test_open_sizes as plain
from tests.runtime.test_open_sizes import check, feeds, model, node, weight

BOUNDS = {"high": 4e-6, "normal": 3e-4, "low": 0.08}
"""Of the largest output."""
BF16 = "avx512,+amx-tile,+amx-bf16,+amx-int8"


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles for every product, of fp16 where the target has them; memory is poisoned before every run."""
    halves = emit_amx.splits_in_fp16
    cheap_tiles(monkeypatch)
    monkeypatch.setattr(emit_amx, "splits_in_fp16", halves)
    monkeypatch.setattr(plain, "RNG", np.random.default_rng(7))
    monkeypatch.setenv("MNN_TARGET", BF16)
    monkeypatch.setenv(poison.VARIABLE, "1")


def product(number: int) -> Graph:
    """A product with random weights, and what may become of it: an activation, a bias, a sum with its input."""
    rng = np.random.default_rng(number)
    k, n = (int(rng.integers(8, most)) for most in (300, 150))
    nodes, names = [node("MatMul", "x w", "a")], ["a"]
    weights = {"w": weight(k, n)}
    if rng.random() < 0.5:
        nodes.append(node("Add", "a bias", "b"))
        names.append("b")
        weights["bias"] = weight(1, n)[0]
    if rng.random() < 0.5:
        nodes.append(node("Tanh", names[-1], "t"))
        names.append("t")
    nodes += [node("MatMul", f"{names[-1]} v", "c"), node("Add", "c x", "y")]
    weights["v"] = weight(n, k)
    batch: list[str | int] = [["batch", "sequence", k], ["sequence", k], [3, "sequence", "batch", k]][number % 3]  # type: ignore[assignment]
    return model(nodes, {"x": batch}, **weights)


def both(number: int) -> Graph:
    """Two inputs multiplied with each other both ways, so that rows, columns and depth are open."""
    rng = np.random.default_rng(number)
    k, heads = int(rng.integers(8, 90)), int(rng.integers(1, 4))
    nodes = [
        node("Transpose", "y", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "s"), node("Mul", "s scale", "m"),
        node("Softmax", "m", "p", axis=-1), node("MatMul", "p y", "z"),
    ]  # fmt: skip
    shapes: dict[str, list[str | int]] = {
        "x": ["batch", heads, "sequence", k], "y": ["batch", heads, "length", k],
    }  # fmt: skip
    return model(nodes, shapes, scale=np.float32(0.3))


def deep() -> Graph:
    """Sums so long, with so many columns, that a block takes them a part at a time."""
    return model([node("MatMul", "x w", "y")], {"x": ["sequence", 1152]}, w=weight(1152, 520))


def window() -> Graph:
    """A convolution of lines beside a product: its places are known for one size alone."""
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 3, 1]), node("MatMul", "t v", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ["batch", 32, "sequence", 12]}, w=weight(24, 32, 3, 3), v=weight(24, 40))


MADE = {f"product {i}": functools.partial(product, i) for i in range(6)}
MADE |= {f"both {i}": functools.partial(both, i) for i in range(4)}
MADE |= {"deep": deep}
MADE |= {name: plain.NETWORKS[name] for name in ("rows", "pooled", "attention", "sliding", "recurrent")}


def ranged(graph: Graph, precision: str, threads: int, most: int = 60) -> list[object]:
    """Runs random sizes and compares; the kernels of the plans that are for ranges."""
    rng = np.random.default_rng(threads)
    session, reference = (Session(graph, c) for c in (Config(threads, precision=precision), Config(reference=True)))
    kernels: list[object] = []
    for numbers in [(2, 9, 8), *rng.integers(3, most, (6, 3)).tolist()]:
        given = feeds(graph, rng, dict(zip(("batch", "sequence", "length"), numbers, strict=True)))
        check(session.run(given), reference.run(given), BOUNDS[precision])
        program = session.plans_used()[0].bound.program
        kernels += [c.kernel for c in program.commands] if program.open_sizes is not None else []
    return kernels


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", list(BOUNDS))
@pytest.mark.parametrize("name", MADE)
def test_answers_are_those_of_the_reference(name: str, precision: str, threads: int) -> None:
    tiled = [k for k in ranged(MADE[name](), precision, threads) if isinstance(k, AmxSpec)]
    assert len(tiled) >= 5
    assert all(isinstance(k, AmxOpenSpec) for k in tiled)
    assert {(k.parts, k.half) for k in tiled} == {({"high": 3, "normal": 2, "low": 1}[precision], False)}


@pytest.mark.parametrize("name", ["product 1", "both 1", "deep", "rows", "attention"])
def test_fp16_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", f"{BF16},+amx-fp16")
    for threads in (1, 2):
        tiled = [k for k in ranged(MADE[name](), "high", threads) if isinstance(k, AmxSpec)]
        assert tiled
        assert all(k.half for k in tiled)


@pytest.mark.parametrize("target", ["avx2", "avx512,+avx512vnni"])
def test_other_vectors_beside_tiles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", target)
    for name in ("product 2", "both 0", "attention"):
        assert any(isinstance(k, AmxOpenSpec) for k in ranged(MADE[name](), "normal", 2))


def test_windows_of_lines_are_planned_for_each_size() -> None:
    assert not ranged(window(), "normal", 1, most=20)


def test_many_rows_in_larger_ranges() -> None:
    """Blocks without rows, and several of them for each thread."""
    for name in ("product 0", "deep"):
        assert ranged(MADE[name](), "normal", 2, most=300)
