"""Runs operators on numbers: at once by the reference implementation, or compiled where that pays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.expr.fused import Deferred, lowered
from MNN.expr.fused.deferred import Operand
from MNN.expr.fused.lowered import make_node
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.types import storable
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.prims import Tensor

if TYPE_CHECKING:
    from MNN.runtime.executor import Executor

Arrays = Sequence["np.ndarray | None"]

COMPILED_WORK = 5e7
"""Multiplications above which a single operator is compiled (and kept) instead of evaluated with numpy."""
_KEPT = 64


_MATRICES = {"MatMul", "BatchMatMul"}
_PRODUCTS = {"Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise", *_MATRICES}


def work(op: str, shapes: Sequence[tuple[int, ...] | None]) -> float:
    """About how many multiplications an operator costs; 0 for those that only touch each element once."""
    sizes = [s for s in shapes if s is not None]
    if len(sizes) < 2 or len(sizes[0]) < 1:
        return 0.0
    if op in _MATRICES:
        return float(np.prod(sizes[0], dtype=np.float64)) * (sizes[1][-1] if len(sizes[1]) > 1 else 1)
    if op in _PRODUCTS:
        return float(np.prod(sizes[0][2:], dtype=np.float64)) * float(np.prod(sizes[1], dtype=np.float64))
    return 0.0


def run_operator(
    op: str, attrs: dict[str, object], operands: Sequence[Operand | None], outputs: int, name: str = ""
) -> list[np.ndarray]:
    """One operator on numbers; those of a reduction may be yet to be computed. Raises :class:`MNNError` for operands
    that do not fit."""
    if op in _PRODUCTS and work(op, [None if a is None else a.shape for a in operands]) > COMPILED_WORK:
        arrays = [a.numbers() if isinstance(a, Deferred) else a for a in operands]
        return _compiled(op, attrs, arrays, outputs, name)
    return lowered.run(op, attrs, operands, outputs, name)


def infer(
    op: str, attrs: dict[str, object], operands: Sequence[Tensor | None], outputs: int, name: str
) -> list[Tensor] | None:
    """An operator's results without numbers, or with those that follow from shapes and constants alone; None when even
    shapes depend on numbers not among ``operands``."""
    from MNN.ops.core.base import EagerOperator, operator
    from MNN.ops.core.builder import Builder, NeedValue

    node = make_node(op, attrs, operands, outputs, name)
    found = operator(node)
    if isinstance(found, EagerOperator):
        return None
    b = Builder()
    b.where = f"{op} '{name}'" if name else op
    try:
        return list(found.lower(b, node, operands))
    except NeedValue:
        return None


_cache: OrderedDict[object, tuple[Executor, list[Value], list[Value]]] = OrderedDict()


def _compiled(op: str, attrs: dict[str, object], arrays: Arrays, outputs: int, name: str) -> list[np.ndarray]:
    given = [None if a is None else (a.dtype.str, a.ndim) for a in arrays]
    key = (op, repr(sorted(attrs.items())), tuple(given), outputs, SETTINGS.threads, SETTINGS.precision)
    if key not in _cache:
        node = make_node(op, attrs, arrays, outputs, name or op)
        inputs = [v for v in node.inputs if v is not None]
        from MNN.runtime.executor import Executor  # brings the compiler, which most expressions do not need

        graph = Graph(op, inputs, list(node.outputs), [node])
        _cache[key] = (Executor(graph, SETTINGS.config()), inputs, list(node.outputs))
        while len(_cache) > _KEPT:
            _cache.popitem(last=False)
    _cache.move_to_end(key)
    executor, inputs, results = _cache[key]
    feeds = dict(zip(inputs, [a for a in arrays if a is not None], strict=True))
    return [np.asarray(r) for r in executor.run(feeds, results)]


def as_array(value: object, what: str = "a value", wide: bool = False) -> np.ndarray:
    """Numbers that a user gives, in an element type that a Var can hold: integers of 64 bits that fit 32 are narrowed
    and doubles become floats, as in PyMNN, unless doubles are what is made of them (``wide``)."""
    try:
        array = np.asarray(value)
        kind = DType.of(array)
    except (ValueError, TypeError, KeyError) as error:
        raise MNNError(f"{what} is not numbers: {error}") from error
    if kind is DType.STR:
        raise MNNError(f"{what} is not numbers but {type(value).__name__} of {array.dtype}")
    if kind is DType.F64:
        return array.astype(np.float64 if wide else np.float32, copy=not wide)
    if kind in (DType.I64, DType.U32, DType.U64):
        if array.size and (array.max() > 2**63 - 1):
            raise MNNError(f"{what} holds {array.max()}, beyond 64-bit integers")
        fits = not array.size or (int(array.min()) >= -(2**31) and int(array.max()) < 2**31)
        return array.astype(np.int32 if fits else np.int64)
    return array.astype(storable(kind).numpy, copy=False)


def whole_numbers(value: object) -> list[int]:
    """Sizes, axes or positions that a user gives. Raises :class:`ValueError` or :class:`TypeError` for anything else,
    fractions among them."""
    array = np.asarray(value).reshape(-1)
    found = [int(n) for n in array]
    if array.dtype.kind == "f" and found != array.tolist():
        raise ValueError(f"{array.tolist()} are no whole numbers")
    return found


def shape_of(value: object, what: str = "shape") -> tuple[int, ...]:
    """Sizes that a user gives as one number, a sequence or an array."""
    if type(value) in (list, tuple) and all(type(d) is int and d >= 0 for d in value):  # type: ignore[attr-defined]
        return tuple(value)  # type: ignore[arg-type]
    try:
        dims = tuple(whole_numbers(value)) if value is not None else ()
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{what} must be whole numbers, found {value!r}") from error
    if any(d < 0 for d in dims):
        raise ShapeError(f"{what} must not be negative, found {list(dims)}")
    return dims
