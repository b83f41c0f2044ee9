"""Changing sizes: nothing is compiled or packed twice, and memory stays what it was."""

from __future__ import annotations

import gc
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.codegen.toolchain import release_memory
from MNN.backends.cpu.native_loop import pool as pools
from MNN.backends.cpu.native_loop.layout import FRAME
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.runtime.changes import changed

SIZES = list(range(8, 48, 2))
ROOT = pathlib.Path(__file__).parents[2]


def network() -> Graph:
    """Convolution, activation, average over the picture, product."""
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> Value:
        return Value(name, DType.F32, shape, rng.standard_normal(shape).astype(np.float32))

    x = Value("x", DType.F32, ("n", 8, "h", "w"))
    a, b, c, y = (Value(name, DType.F32) for name in "abcy")
    conv = {"kernelX": 3, "kernelY": 3, "padX": 1, "padY": 1, "outputCount": 64, "inputCount": 8}
    nodes = [
        Node("Convolution", "conv", [x, weights("w", 64, 8, 3, 3)], [a], conv),
        Node("ReLU", "relu", [a], [b]),
        Node("Reduction", "mean", [b], [c], {"operation": "MEAN", "dim": [2, 3], "keepDims": False}),
        Node("MatMul", "head", [c, weights("v", 64, 300)], [y]),
    ]
    return Graph("g", [x], [y], nodes)


def averages_and_equal_numbers() -> Graph:
    """An average over windows of 3 x 3, and one over the whole picture."""
    x = Value("x", DType.F32, ("n", 8, "h", "w"))
    a, y = Value("a", DType.F32), Value("y", DType.F32)
    window = {"kernelX": 3, "kernelY": 3, "strideX": 1, "strideY": 1, "padX": 1, "padY": 1, "type": "AVEPOOL"}
    nodes = [
        Node("Reduction", "mean", [x], [y], {"operation": "MEAN", "dim": [2, 3], "keepDims": False}),
        Node("Pooling", "pool", [x], [a], {**window, "countType": "INCLUDE_PADDING"}),
    ]
    return Graph("g", [x], [y, a], nodes)


def attention() -> Graph:
    """Rows that look at each other, as in a transformer with one head, and what is made of them."""
    rng = np.random.default_rng(3)
    x = Value("x", DType.F32, ("n", "s", 32))
    w = [Value(name, DType.F32, (32, 32), rng.standard_normal((32, 32)).astype(np.float32) / 6) for name in "uvw"]
    q, k, v, t, scores, weights, y = (Value(name, DType.F32) for name in ("q", "k", "v", "t", "scores", "weights", "y"))
    nodes = [Node("MatMul", f"to {r.name}", [x, m], [r]) for r, m in zip((q, k, v), w, strict=True)]
    nodes += [
        Node("Permute", "turned", [k], [t], {"dims": [0, 2, 1]}),
        Node("MatMul", "scoring", [q, t], [scores]),
        Node("Softmax", "softmax", [scores], [weights], {"axis": -1}),
        Node("MatMul", "mixing", [weights, v], [y]),
    ]
    return Graph("g", [x], [y], nodes)


def narrowing() -> Graph:
    """Pictures that get smaller, with a sum around a layer and a deep window at the end."""
    rng = np.random.default_rng(4)

    def layer(name: str, x: Value, y: Value, size: int, c: int, n: int, stride: int = 1) -> Node:
        w = Value(
            f"w {name}", DType.F32, (n, c, size, size), (rng.standard_normal((n, c, size, size)) / size).astype("f4")
        )
        sizes = {"kernelX": size, "kernelY": size, "padX": size // 2, "padY": size // 2, "inputCount": c}
        return Node("Convolution", name, [x, w], [y], {**sizes, "outputCount": n, "strideX": stride, "strideY": stride})

    x = Value("x", DType.F32, ("n", 8, "h", "w"))
    a, b, c, d, y = (Value(name, DType.F32) for name in "abcdy")
    nodes = [
        layer("first", x, a, 3, 8, 32, 2),
        layer("second", a, b, 3, 32, 32),
        Node("BinaryOp", "sum", [a, b], [c], {"opType": "ADD"}),
        layer("third", c, d, 1, 32, 64),
        layer("last", d, y, 3, 64, 16, 2),
    ]
    return Graph("g", [x], [y], nodes)


def picture(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((1, 8, size, size)).astype(np.float32)}


def test_a_size_that_was_there_compiles_nothing() -> None:
    session = Session(network())
    library = shared_library(True)
    expected = {}
    for size in SIZES:
        expected[size] = session.run(picture(size))["y"]
    before = library.compiled
    again = Session(network())  # its plans are new, its kernels are not
    for size in SIZES:
        np.testing.assert_allclose(again.run(picture(size))["y"], expected[size], rtol=1e-4, atol=1e-4)
    assert library.compiled == before


def test_an_average_is_one_kernel_for_all_sizes() -> None:
    x, y = Value("x", DType.F32, ("n", 8, "h", "w")), Value("y", DType.F32)
    mean = Node("Reduction", "mean", [x], [y], {"operation": "MEAN", "dim": [2, 3], "keepDims": True})
    session = Session(Graph("g", [x], [y], [mean]))
    kernels = set()
    for size in (24, 40, 56):
        feeds = picture(size)
        np.testing.assert_allclose(
            session.run(feeds)["y"], feeds["x"].mean(axis=(2, 3), keepdims=True), rtol=1e-4, atol=1e-5
        )
        kernels |= {k.key() for p in [session.plan(feeds)] for c in p.bound.program.commands for k in c.kernels()}
    assert len(kernels) == 1


@pytest.fixture
def planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size has a plan of its own, as where there is none for a range."""
    for name in ("range_for", "range_of_units"):
        monkeypatch.setattr(f"MNN.runtime.open_plans.{name}", lambda *_, **__: None)


@pytest.mark.usefixtures("planned_alone")
def test_sizes_work_in_the_same_memory() -> None:
    session, apart = Session(network()), {size: Session(network()) for size in SIZES}
    expected = {size: apart[size].run(picture(size))["y"] for size in SIZES}
    blocks, scratch = {}, set()
    for size in [*SIZES, *SIZES[::-1], *np.random.default_rng(1).permutation(np.repeat(SIZES, 3))]:
        np.testing.assert_allclose(session.run(picture(size))["y"], expected[size], rtol=1e-4, atol=1e-4)
        (plan,) = session.plans_used()
        assert isinstance(plan.bound, BoundProgram)
        blocks[plan.bound.block] = plan.bound.block.used
        scratch.add(int(plan.bound.native.context.words[FRAME["scratch"] // 8]))
    assert len(blocks) <= 3
    assert len(scratch) <= 4  # of 20 plans: only one that is too large for twice what was there asks for more
    assert session._executor._plans.nbytes() == sum(blocks.values())


@pytest.mark.usefixtures("planned_alone")
def test_a_program_of_the_same_memory_may_run_within_another() -> None:
    """As an operator does whose function runs the model again, at another size."""
    session = Session(network())
    small, large = picture(8), picture(20)
    expected = {20: session.run(large)["y"], 8: session.run(small)["y"]}
    session.run(large)
    (outer,) = session.plans_used()
    session.run(small)
    (inner,) = session.plans_used()
    assert isinstance(outer.bound, BoundProgram)
    assert isinstance(inner.bound, BoundProgram)
    assert outer.bound.block is inner.bound.block
    found = []
    run = outer.bound.native.run

    def with_another(threads: int) -> None:
        run(threads)
        found.append(session.run(small)["y"])

    outer.bound.native.run = with_another  # type: ignore[method-assign]
    np.testing.assert_array_equal(session.run(large)["y"], expected[20])
    np.testing.assert_array_equal(found[0], expected[8])


@pytest.mark.usefixtures("planned_alone")
def test_profiles_find_usual_numbers_whatever_ran_before() -> None:
    session = Session(network())
    large = {"x": picture(40)["x"].repeat(2, axis=1)[:, :8]}
    session.run(large)
    session.run({"x": large["x"] * 2})
    (plan,) = session.plans_used()
    session.run(picture(36))
    want = session.run(large)["y"]
    bound = plan.bound
    assert isinstance(bound, BoundProgram)
    bound.native.run(1)
    np.testing.assert_array_equal(bound.read()[0], want)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_changes() -> None:
    """In a process of its own: what other tests left to this one is given back, and taken anew, at any time."""
    code = f"from {__name__} import grown; print(grown())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4096  # KiB


def grown() -> int:
    """KiB that a process is larger after 400 changes than before, every size having been met."""
    session = Session(network(), Config(cache=False))
    order = np.random.default_rng(0).permutation(np.resize(SIZES, 600))

    def resident() -> int:
        gc.collect()
        release_memory()  # which sessions do at times: what was free then would be taken for growth
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    for size in order[:200]:
        session.run(picture(int(size)))
    start = resident()
    for size in order[200:]:
        session.run(picture(int(size)))
    return resident() - start


def test_more_threads_than_processors() -> None:
    expected = Session(network()).run(picture(40))["y"]
    many = Session(network(), Config(threads=200))
    for _ in range(5):
        np.testing.assert_allclose(many.run(picture(40))["y"], expected, rtol=1e-4, atol=1e-4)
    pool = pools.pool_for(2)
    assert pool is None or pool.workers < 199
    assert pools.usable_threads(200) == pools.available_threads()


BACK_AND_FORTH = [24, 40, 24, 9, 33, 40, 9, 16, 33, 24]


@pytest.mark.parametrize("build", [network, averages_and_equal_numbers, attention, narrowing], ids=lambda f: f.__name__)
def test_results_after_changes_are_those_of_a_fresh_session(build: Callable[[], Graph]) -> None:
    graph = build()
    rng = np.random.default_rng(1)
    feeds = {}
    for size in dict.fromkeys(BACK_AND_FORTH):
        shapes = [
            tuple({"n": 1, "h": size, "w": size, "s": size}.get(str(d), d) for d in v.shape) for v in graph.inputs
        ]
        feeds[size] = {
            v.name: rng.standard_normal(s).astype(np.float32) for v, s in zip(graph.inputs, shapes, strict=True)
        }
    config = Config(precision="high")  # where another algorithm, which a fresh session may take, differs least
    assert changed(lambda: Session(graph, config), feeds, BACK_AND_FORTH, 2e-6) > 0


def test_equal_numbers_of_which_one_follows_from_the_size_stay_apart() -> None:
    """A window's ninth is part of a kernel also where the whole picture's average is a ninth."""
    program = Session(averages_and_equal_numbers()).plan(picture(3)).bound.program
    windows = [k for command in program.commands for k in command.kernels() if isinstance(k, WindowSpec)]
    assert [k.operands for k in windows] == [()]


@pytest.mark.usefixtures("planned_alone")
def test_attention_over_more_keys_compiles_nothing() -> None:
    session, library = Session(attention(), Config(cache=False)), shared_library(False)
    rows = np.random.default_rng(2).standard_normal((1, 400, 32)).astype(np.float32)
    for count in (128, 256):  # where a row of values is several panels they are packed from some number of keys on
        session.run({"x": rows[:, :count]})
    before = library.compiled
    for count in (136, 200, 256, 64, 40, 384):
        session.run({"x": rows[:, :count]})
    assert library.compiled == before
