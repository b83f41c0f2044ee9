"""``expr.const`` takes numbers, bytes, and memory by its address or in a capsule; what cannot be read is an error."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.errors import MNNError, ShapeError
from MNN.expr import memory

KINDS = {F.float: np.float32, F.double: np.float64, F.int: np.int32, F.int64: np.int64, F.uint8: np.uint8,
         F.int8: np.int8}  # fmt: skip


def capsule(array: np.ndarray, name: bytes | None) -> object:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(array.ctypes.data, name, None)


@pytest.mark.parametrize("kind", list(KINDS), ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (7, 1000), (0, 3)], ids=str)
def test_memory_at_an_address(kind: F.dtype, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 100, shape).astype(KINDS[kind])
    v = F.const(array.ctypes.data, list(shape), F.NHWC, kind)
    assert (v.shape, v.dtype, v.data_format) == (list(shape), kind, F.NHWC)
    np.testing.assert_array_equal(v.read(), array)
    wanted = array.copy()
    array[...] = 0
    np.testing.assert_array_equal(v.read(), wanted, "it is a copy")


@pytest.mark.parametrize("name", [None, b"numbers"])
def test_memory_in_a_capsule(name: bytes | None) -> None:
    array = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(F.const(capsule(array, name), [2, 3]).read(), array.reshape(2, 3))


@pytest.mark.parametrize("address", [0, -1, 5, True, 65535, 2**64, 2**64 - 4, -(2**70)])
def test_what_is_no_address(address: int) -> None:
    with pytest.raises(MNNError, match="a plain int is the address of numbers in memory"):
        F.const(address, [3])


@pytest.mark.parametrize("way", ["looked at", "through a pipe"])
def test_memory_that_is_not_there(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "through a pipe":  # as where the system does not tell what can be read
        monkeypatch.setattr(memory, "_reader", lambda: None)
    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 3 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(start + 2 * size), ctypes.c_size_t(size), 0) == 0
    assert F.const(start, [2 * size], F.NCHW, F.uint8).size == 2 * size
    for first in (0, size // 2, 2 * size):
        with pytest.raises(MNNError, match="cannot be read"):
            F.const(start + first, [3 * size - first], F.NCHW, F.uint8)
    with pytest.raises(MNNError, match="cannot be read"):
        F.const(2**62, [3])


def test_counts_must_fit() -> None:
    with pytest.raises(ShapeError, match=r"1 number\(s\) for the shape \[2\]; fill\(\) repeats one number"):
        F.const([5], [2])
    with pytest.raises(ShapeError, match=r"3 number\(s\) for the shape \[2, 2\]"):
        F.const([1, 2, 3], [2, 2])
    with pytest.raises(ShapeError, match=r"7 bytes for 2 number\(s\) of float32, 8 bytes"):
        F.const(b"1234567", [2])
    with pytest.raises(MNNError, match="NoneType of object is not numbers"):
        F.const(None, [1])


def test_bytes() -> None:
    array = np.arange(6, dtype=np.float32)
    for given in (array.tobytes(), bytearray(array.tobytes()), memoryview(array)):
        np.testing.assert_array_equal(F.const(given, [6]).read(), array)
    np.testing.assert_array_equal(F.const(memoryview(array)[::2], [3]).read(), array[::2])
