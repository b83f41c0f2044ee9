"""Inputs that are read where the caller has them, or copied: the same numbers whatever the array's memory is like. And
outputs that are written where the caller gets them."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.binding.direct import Copied, Direct
from MNN.backends.cpu.native_loop import address
from MNN.errors import ShapeError
from MNN.runtime.session import Session

SHAPE = (2, 3, 41, 43)
RNG = np.random.default_rng(5)
IMAGE = RNG.standard_normal(SHAPE).astype(np.float32)
WEIGHTS = {
    "w": RNG.standard_normal((5, 3, 3, 3)).astype(np.float32),
    "m": RNG.standard_normal((43, 7)).astype(np.float32),
    "d": RNG.standard_normal((3, 1, 3, 3)).astype(np.float32),
    "h": RNG.standard_normal((3, 5)).astype(np.float32),
}
GRAPHS: dict[str, list[onnx.NodeProto]] = {
    "convolution": [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
    "depthwise": [helper.make_node("Conv", ["x", "d"], ["y"], group=3, pads=[1, 1, 1, 1])],
    "product": [helper.make_node("MatMul", ["x", "m"], ["y"])],
    "elementwise": [helper.make_node("Sigmoid", ["x"], ["y"])],
    "sum": [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
    "classes": [
        helper.make_node("GlobalAveragePool", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("MatMul", ["f", "h"], ["y"]),
    ],
    "shares": [helper.make_node("GlobalAveragePool", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=1)],
    "pooling": [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3])],
    "transposed": [helper.make_node("Transpose", ["x"], ["y"], perm=[3, 0, 2, 1])],
    "itself": [helper.make_node("Identity", ["x"], ["y"])],
    "reshaped": [helper.make_node("Flatten", ["x"], ["y"])],
    "twice": [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Mul", ["a", "x"], ["y"])],
    "joined": [helper.make_node("Concat", ["x", "x"], ["y"], axis=1)],
}


def load(folder: pathlib.Path, nodes: list[onnx.NodeProto], inputs: tuple[str, ...] = ("x",)) -> MNN.Model:
    used = {n for node in nodes for n in node.input}
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in inputs]
    graph = helper.make_graph(
        nodes, "g", given, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in WEIGHTS.items() if n in used],
    )  # fmt: skip
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return MNN.load(path)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))


def strided(a: np.ndarray) -> np.ndarray:
    wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), np.nan, a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


def unaligned(a: np.ndarray) -> np.ndarray:
    room = np.empty(a.nbytes + 1, np.uint8)
    found = np.ndarray(a.shape, a.dtype, room, 1)
    found[...] = a
    assert not found.flags.aligned
    return found


def barely_aligned(a: np.ndarray) -> np.ndarray:
    room = np.empty(a.nbytes + 128, np.uint8)
    found = np.ndarray(a.shape, a.dtype, room, -room.ctypes.data % 64 + 4)
    found[...] = a
    return found


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda a: a,
    "strided": strided,
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "columns first": np.asfortranarray,
    "read-only": read_only,
    "unaligned": unaligned,
    "barely aligned": barely_aligned,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "expanded": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_form_of_memory_gives_the_same(name: str, tmp_path: pathlib.Path) -> None:
    model = load(tmp_path, GRAPHS[name])
    for form, make in FORMS.items():
        given = make(IMAGE)
        plain = np.array(given, np.float32, order="C")
        want = load(tmp_path, GRAPHS[name]).run({"x": plain})["y"]
        before = plain.copy()
        for _ in range(3):
            np.testing.assert_array_equal(model.run({"x": given})["y"], want, err_msg=form)
        np.testing.assert_array_equal(given, before, err_msg=f"{form}: the input was written to")


@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_the_callers_own(name: str, tmp_path: pathlib.Path) -> None:
    model = load(tmp_path, GRAPHS[name])
    given = IMAGE.copy()
    want = model.run({"x": given})["y"].copy()
    results = [model.run({"x": given})["y"] for _ in range(3)]
    given[...] = 9
    model.run({"x": given})
    for result in results:
        assert not np.shares_memory(result, given)
        np.testing.assert_array_equal(result, want)
        result[...] = 7
    np.testing.assert_array_equal(model.run({"x": IMAGE})["y"], want)


def test_an_input_may_be_an_earlier_output_and_two_inputs_one_array(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "z"], ["a"]), helper.make_node("Sub", ["a", "x"], ["y"])]
    model = load(tmp_path, nodes, ("x", "z"))
    value = want = IMAGE.copy()
    for _ in range(4):
        value = model.run({"x": value, "z": value})["y"]
        want = want * want - want
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6)
    parts = np.stack([IMAGE, 2 * IMAGE])
    for _ in range(3):
        np.testing.assert_allclose(model.run({"x": parts[0], "z": parts[1]})["y"], 2 * IMAGE**2 - IMAGE, atol=1e-5)


def test_files_mapped_read_only_are_inputs(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", IMAGE)
    model = load(tmp_path, GRAPHS["convolution"])
    want = model.run({"x": IMAGE})["y"]
    for mode in ("r", "c"):
        mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)  # type: ignore[arg-type]
        for _ in range(3):
            np.testing.assert_array_equal(model.run({"x": mapped})["y"], want)
            np.testing.assert_array_equal(model.run({"x": np.asarray(mapped)})["y"], want)


def test_after_a_run_the_next_ones_are_still_checked(tmp_path: pathlib.Path) -> None:
    model = load(tmp_path, GRAPHS["convolution"])
    want = model.run({"x": IMAGE})["y"]
    for wrong in (IMAGE[:1], IMAGE[0], IMAGE.view(np.int32)):
        model.run({"x": IMAGE})
        with pytest.raises(ShapeError):
            model.run({"x": wrong})
    for feeds in ({}, {"y": IMAGE}, {"x": IMAGE, "y": IMAGE}):
        model.run({"x": IMAGE})
        with pytest.raises(ShapeError):
            model.run(feeds)
    np.testing.assert_array_equal(model.run({"x": IMAGE.astype(np.float64)})["y"], want)
    np.testing.assert_array_equal(model.run({"x": IMAGE})["y"], want)


def bound_of(model: Session) -> BoundProgram:
    assert model._last_run is not None
    return model._last_run._bound


def test_large_inputs_are_read_in_place_and_not_looked_at_afterwards(tmp_path: pathlib.Path) -> None:
    model = load(tmp_path, GRAPHS["convolution"])
    given = IMAGE.copy()
    want = model.run({"x": given})["y"]
    bound = bound_of(model)
    assert isinstance(bound._direct_inputs[0], Direct)
    model.run({"x": given + 1})
    np.testing.assert_array_equal(bound._inputs[0], given)  # the arena still holds what came first
    del given
    bound.native.run(1)  # as profiles do
    np.testing.assert_array_equal(bound.read()[0], want)


class Guarded:
    """Memory whose end (or beginning) lies where memory ends that may be used."""

    def __init__(self, shape: tuple[int, ...], end: bool) -> None:
        size, page = 4 * math.prod(shape), mmap.PAGESIZE
        self._room = -(-size // page) * page
        self._block = mmap.mmap(-1, self._room + 2 * page)
        self._base = np.frombuffer(self._block, np.uint8).ctypes.data
        self.array = np.ndarray(shape, np.float32, self._block, page + (self._room - size if end else 0))
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect
        self._protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    @contextlib.contextmanager
    def guarded(self, inside: int = mmap.PROT_READ | mmap.PROT_WRITE) -> Iterator[np.ndarray]:
        page = mmap.PAGESIZE
        sides = (self._base, self._base + page + self._room)
        assert [self._protect(side, page, 0) for side in sides] == [0, 0]
        assert self._protect(self._base + page, self._room, inside) == 0
        try:
            yield self.array
        finally:
            for start, size in [*((side, page) for side in sides), (self._base + page, self._room)]:
                self._protect(start, size, mmap.PROT_READ | mmap.PROT_WRITE)


ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects memory as Linux does")


@ON_LINUX
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("end", [True, False])
def test_nothing_beside_an_input_is_touched(name: str, end: bool, tmp_path: pathlib.Path) -> None:
    memory = Guarded(SHAPE, end)
    memory.array[...] = IMAGE
    model = load(tmp_path, GRAPHS[name])
    want = model.run({"x": IMAGE})["y"]
    with memory.guarded(mmap.PROT_READ) as given:
        for _ in range(2):
            np.testing.assert_array_equal(model.run({"x": given})["y"], want)


@ON_LINUX
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("end", [True, False])
def test_nothing_beside_an_output_is_touched(
    name: str, end: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tmp_path, GRAPHS[name])
    want = model.run({"x": IMAGE})["y"]
    memory = Guarded(want.shape, end)

    def bind_io(direct: Direct | Copied) -> np.ndarray:
        assert direct.bind_io(memory.array)
        return memory.array

    for kind in (Direct, Copied):
        monkeypatch.setattr(kind, "fresh", bind_io)
    with memory.guarded() as into:
        for _ in range(2):
            into[...] = np.nan
            np.testing.assert_array_equal(model.run({"x": IMAGE})["y"], want)


def small(folder: pathlib.Path, counts: int) -> MNN.Model:
    """Rows of a table and their negated flags, and numbers plus one: inputs and outputs of bytes, words and pairs."""
    nodes = [
        helper.make_node("Gather", ["m", "rows"], ["y"]),
        helper.make_node("Not", ["flags"], ["not"]),
        helper.make_node("Add", ["numbers", "numbers"], ["twice"]),
    ]
    kinds = {"rows": TensorProto.INT64, "flags": TensorProto.BOOL, "numbers": TensorProto.INT32}
    given = [helper.make_tensor_value_info(n, kind, [counts]) for n, kind in kinds.items()]
    kinds = {"y": TensorProto.FLOAT, "not": TensorProto.BOOL, "twice": TensorProto.INT32}
    results = [helper.make_tensor_value_info(n, kind, None) for n, kind in kinds.items()]
    graph = helper.make_graph(nodes, "g", given, results, [numpy_helper.from_array(WEIGHTS["m"], "m")])
    path = folder / f"{counts}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return MNN.load(path)


@pytest.mark.parametrize("count", [1, 7, 16, 63, 64, 65, 1000])
def test_what_is_small_or_whole_numbers_is_copied_by_native_code(count: int, tmp_path: pathlib.Path) -> None:
    model, rng, kept = small(tmp_path, count), np.random.default_rng(count), []
    for turn in range(4):
        rows, flags = rng.integers(0, 43, count), rng.integers(0, 2, count).astype(bool)
        feeds = {"rows": rows, "flags": flags, "numbers": rng.integers(-9, 9, count).astype(np.int32)}
        if turn == 3:
            feeds = {name: strided(a.astype(float)).astype(a.dtype) for name, a in feeds.items()}
            feeds["rows"] = np.repeat(rows, 2)[::2]
        found = model.run(feeds)
        want = {"y": WEIGHTS["m"][rows], "not": ~flags, "twice": 2 * feeds["numbers"]}
        kept.append((found, want))
    for found, want in kept:
        for name, array in want.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    bound = bound_of(model)
    assert all(isinstance(d, Copied) for d in bound._direct_inputs)
    assert not bound._copied


@ON_LINUX
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("count", [1, 64, 100])
def test_nothing_beside_what_is_copied_is_touched(count: int, end: bool, tmp_path: pathlib.Path) -> None:
    model, memory = small(tmp_path, count), Guarded((1, count), end)
    numbers = memory.array[0].view(np.int32)
    numbers[:] = np.arange(count)
    with memory.guarded(mmap.PROT_READ) as given:
        feeds = {"rows": np.zeros(count, np.int64), "flags": np.zeros(count, bool)}
        for _ in range(3):
            found = model.run({**feeds, "numbers": given[0].view(np.int32)})
            np.testing.assert_array_equal(found["twice"], 2 * np.arange(count))


@pytest.mark.parametrize("name", ["convolution", "classes"])
def test_outputs_are_written_in_place(name: str, tmp_path: pathlib.Path) -> None:
    model = load(tmp_path, GRAPHS[name])
    first = model.run({"x": IMAGE})["y"]
    bound = bound_of(model)
    assert isinstance(bound._direct_outputs[0], Direct)
    second = model.run({"x": IMAGE + 1})["y"]
    np.testing.assert_array_equal(bound.read()[0], first)  # the arena still holds what came first
    assert not np.array_equal(first, second)


def test_threads_with_arrays_of_several_sizes_get_their_own_answers(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "m"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 43])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(WEIGHTS["m"], "m")],
    )  # fmt: skip
    path = tmp_path / "n.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    model, wrong = MNN.load(path), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            x = rng.standard_normal((int(rng.choice([100, 150, 200])), 43)).astype(np.float32)
            y = model.run({"x": x})["y"]
            if y.shape != (len(x), 7) or not np.allclose(y, x @ WEIGHTS["m"], atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_addresses_are_those_of_numpys_interface() -> None:
    block = np.arange(24, dtype=np.float32).reshape(4, 6)
    cell = np.zeros(1, np.int64)
    for array in (block, block[1:, 2:], block[::-1], block.T, block[:0], block.astype(np.float16)):
        assert address.address_of(array) == address._by_interface(array) == array.ctypes.data
        for pointer_to in (address.pointer_to, address._to_cell):
            assert ctypes.c_int64.from_address(pointer_to(array, cell)).value == array.ctypes.data


@pytest.mark.parametrize("known", [True, False])
def test_what_a_run_left_lent_that_never_ended_is_not_used(tmp_path: pathlib.Path, known: bool) -> None:
    """As a forked child finds it whose parent was running in another thread."""
    model = load(tmp_path, GRAPHS["convolution"])
    want = model.run({"x": IMAGE})["y"]
    bound, left = bound_of(model), [np.zeros_like(IMAGE), np.zeros_like(want)]
    for direct, array in zip(bound._direct, left, strict=True):
        assert isinstance(direct, Direct)
        direct._slot[0] = address.pointer_to(array, direct._cell)
        for lent in direct.lent():
            ctypes.c_int64.from_address(lent.word).value = array.ctypes.data + lent.offset
    if not known:
        bound.block.user = None
    np.testing.assert_array_equal(model.run({"x": strided(IMAGE)})["y"], want)
    assert not any(array.any() for array in left)


def test_arrays_are_found_where_their_layout_is_not_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tmp_path, GRAPHS["convolution"])
    want = model.run({"x": IMAGE})["y"]
    monkeypatch.setattr("MNN.backends.cpu.binding.direct.pointer_to", address._to_cell)
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"x": IMAGE.copy()})["y"], want)
