"""Functions that make tensors: constants, placeholders, ranges, random numbers; and settings of the whole process."""

from __future__ import annotations

import gc as _gc
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import compute, memory
from MNN.expr.build import apply, leaf, own, to_var
from MNN.expr.fused.settings import SETTINGS, set_lazy
from MNN.expr.node import Expr
from MNN.expr.types import NCHW, Backend, ElementType, Ints, PrecisionMode, data_format, dtype, dtype_of, format_of
from MNN.expr.var import Var

if TYPE_CHECKING:
    from typing_extensions import CapsuleType  # Python's own has it from 3.13 on


def const(
    value: ArrayLike | CapsuleType, shape: Ints, data_format: data_format = NCHW, dtype: ElementType = dtype.float
) -> Var:
    """A constant of the given sizes from as many numbers: an array, a (nested) sequence, bytes, or the memory at an
    address (a plain ``int``, such as ``array.ctypes.data``) or in a capsule, which is copied.

    Raises :class:`ShapeError` when the count does not fit, and :class:`MNNError` for memory that cannot be read.
    """
    dims, kind = compute.shape_of(shape), dtype_of(dtype)
    count = math.prod(dims)
    if isinstance(value, int) or memory.is_capsule(value):
        address = int(value) if isinstance(value, int) else memory.pointer(value)
        array = memory.read(address, count, np.dtype(kind.numpy), "const()")
    elif isinstance(value, (bytes, bytearray, memoryview)):
        array = _of_bytes(value, count, np.dtype(kind.numpy))
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise MNNError(f"const(): {type(value).__name__} of {array.dtype} is not numbers")
    if array.size != count:
        hint = "; fill() repeats one number" if array.size == 1 else ""
        raise ShapeError(f"const(): {array.size} number(s) for the shape {list(dims)}{hint}")
    return leaf(np.array(array, kind.numpy).reshape(dims), format_of(data_format))


def _of_bytes(value: bytes | bytearray | memoryview, count: int, kind: np.dtype) -> np.ndarray:
    flat = bytes(value)
    if len(flat) != count * kind.itemsize:
        raise ShapeError(f"const(): {len(flat)} bytes for {count} number(s) of {kind}, {count * kind.itemsize} bytes")
    return np.frombuffer(flat, kind)


def placeholder(shape: Ints = (), format: data_format = NCHW, dtype: ElementType = dtype.float) -> Var:
    """An input to be written later; what is computed from it follows every change."""
    dims = compute.shape_of(shape)
    return Var(Expr.leaf("Input", dtype_of(dtype), dims, None), 0, format_of(format))


def scalar(value: float | int, dtype: ElementType | None = None) -> Var:
    """A tensor without axes: ``int`` for whole numbers, ``float`` for others."""
    v = to_var(value)
    return own(v if dtype is None else v.astype(dtype))


def fill(shape: Ints, value: ArrayLike) -> Var:
    """A tensor full of one number."""
    dims = shape._array() if isinstance(shape, Var) else shape
    return apply("Fill", leaf(np.asarray(compute.shape_of(dims), np.int32)), to_var(value), layout=NCHW)


def zeros_like(x: ArrayLike) -> Var:
    """Zeros of the same shape and element type."""
    return apply("ZerosLike", to_var(x))


def range(start: ArrayLike, limit: ArrayLike, delta: ArrayLike) -> Var:
    """``start, start + delta, ...`` up to the limit (exclusive)."""
    if not SETTINGS.lazy and all(type(v) is int and abs(v) < 1 << 30 for v in (start, limit, delta)) and delta:
        return leaf(np.arange(start, limit, delta, np.int32), NCHW)  # type: ignore[call-overload] # plain numbers
    parts = [to_var(v) for v in (start, limit, delta)]
    if any(p._kind.is_float for p in parts):
        parts = [p.astype(dtype.float) for p in parts]
    return apply("Range", *parts, layout=NCHW)


_SEEDS = np.random.SeedSequence()


def randomuniform(
    shape: Ints, dtype: ElementType = dtype.float, low: float = 0.0, high: float = 1.0, seed0: int = 0, seed1: int = 1
) -> Var:
    """Uniform random numbers from ``low`` (inclusive) to ``high``. Seeds (0, 1) mean fresh ones at every call."""
    given = (int(seed0), int(seed1)) != (0, 1)
    source = np.random.default_rng([abs(int(seed0)), abs(int(seed1))] if given else _SEEDS.spawn(1)[0])
    kind = dtype_of(dtype)
    return leaf(source.uniform(low, high, compute.shape_of(shape)).astype(kind.numpy))


def set_thread_number(number: int) -> None:
    """How many threads evaluating expressions may use."""
    SETTINGS.threads = type(SETTINGS)(threads=int(number)).config().threads
    SETTINGS.loop_threads = SETTINGS.threads


def set_global_executor_config(
    backend: Backend | str | int, precision: PrecisionMode | str | int, threads: int
) -> None:
    """Precision (``PrecisionMode``, a name, or PyMNN's number) and threads of evaluating expressions."""
    from MNN.nn.runtime_config import check_backend, precision_name

    check_backend(backend)
    SETTINGS.precision = precision_name(precision)
    set_thread_number(threads)


def lazy_eval(lazy: bool) -> None:
    """Whether expressions of constants are kept as expressions instead of computed at once. Off by default."""
    set_lazy(bool(lazy))


def set_lazy_mode(mode: int) -> None:
    """Taken for PyMNN's sake: how much a lazy expression may keep. It changes nothing here."""
    int(mode)


def gc(full: bool = False) -> None:
    """Frees what is no longer used."""
    _gc.collect(2 if full else 0)
