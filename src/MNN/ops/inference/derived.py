"""Sizes by name from an operator's meaning: its lowering is traced at several numbers that the names may stand for.

Comparisons of sizes while lowering are decided by those numbers, small and large ones, with and without common
divisors. A size of the result is taken for known where every trace gives the same expression and, put in for the names,
what lowering gave; so one that depends on how a comparison comes out stays unknown.

These are samples, no proof: no name is 0 or 1 in them, and a threshold that none of the numbers crosses is not seen. An
operator with such a rule says it itself (:func:`MNN.ops.inference.infer.rule`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.symbolic import Size, evaluate, names
from MNN.ir.traced import TracedSize, size_of
from MNN.ops.core.base import EagerOperator, lower_node, operators
from MNN.ops.core.builder import NeedValue
from MNN.ops.core.isolated_lowering import LARGEST, SMALL, TABLE, Trial

Found = tuple[DType, "tuple[Size, ...]"]
Numbers = Callable[[Value], "list[Size] | None"]
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_LARGE = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157)
WITNESSES = (_PRIMES, _LARGE, tuple(24 * p for p in _PRIMES), tuple(180 * p for p in _PRIMES))
"""What names stand for, in one trace after another: odd sizes and even ones, small and large."""


class _Tracer(Trial):
    """A builder that hands out the numbers of operands as the sizes that they were computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.traced: dict[int, tuple[int, ...]] = {}

    def ints(self, tensor: Tensor | None, why: str = "an operand") -> tuple[int, ...]:
        found = self.traced.get(id(tensor))
        return super().ints(tensor, why) if found is None else found


def derived(node: Node, numbers: Numbers) -> list[Found] | None:
    """Element types and sizes of a node's outputs, None for sizes that are not known; None where nothing is: an operand
    is unknown, or no trace came to an end. ``numbers`` tells those of small integer operands."""
    op = operators().get(node.op)
    if op is None or isinstance(op, EagerOperator) or "::" in node.op or any(True for _ in node.subgraphs()):
        return None
    known = {v: _numbers(v, numbers) for v in node.inputs if v is not None}
    found_names: dict[str, None] = {}
    for value, content in known.items():
        if value.shape is None or value.dtype is None:
            return None
        for size in (*value.shape, *(content or ())):
            found_names.update(dict.fromkeys(sorted(names(size))))
    if len(found_names) > len(_PRIMES):
        return None
    traces = []
    witnesses = WITNESSES if found_names else WITNESSES[:1]
    for numbered in witnesses:
        at = dict(zip(found_names, numbered, strict=False))
        made = _trace(node, known, at)
        if made is not None:
            traces.append((made, at))
    if len(traces) < min(2, len(witnesses)):
        return None
    return _agreed(traces)


def _numbers(value: Value, numbers: Numbers) -> list[Size] | None:
    return None if value.is_const or value.dtype is None or not value.dtype.is_int else numbers(value)


def _trace(node: Node, known: Mapping[Value, list[Size] | None], at: Mapping[str, int]) -> list[Tensor] | None:
    """The outputs of the node where names stand for these numbers; None where it cannot be lowered."""
    for every in (False, True):
        b = _Tracer()
        b.where = f"{node.op} '{node.name}'"
        try:
            operands = [None if v is None else _stand_in(b, v, known[v], at, every) for v in node.inputs]
            return lower_node(b, node, operands)
        except NeedValue:
            continue
        except MNNError:
            return None
    return None


def _stand_in(b: _Tracer, value: Value, content: list[Size] | None, at: Mapping[str, int], every: bool) -> Tensor:
    assert value.dtype is not None
    assert value.shape is not None
    if isinstance(value.data, np.ndarray) and (value.data.size <= SMALL or (every and value.data.size <= TABLE)):
        return Tensor(DType.of(value.data), tuple(value.data.shape), const=value.data)
    shape = tuple([_at(d, at) for d in value.shape])
    if elements(shape) > LARGEST or min(shape, default=0) < 0:
        raise NeedValue(Tensor(value.dtype, shape), f"{b.where}: nothing so large is tried")
    if content is None or None in content or len(content) != elements(shape):
        return Tensor(value.dtype, shape, name=value.name)
    traced = tuple(_at(d, at) for d in content)
    made = Tensor(value.dtype, shape, const=np.array([int(n) for n in traced], value.dtype.numpy).reshape(shape))
    b.traced[id(made)] = traced
    return made


def _at(size: Size, at: Mapping[str, int]) -> int:
    assert size is not None
    return size if isinstance(size, int) else TracedSize(evaluate(size, at), size)


def _agreed(traces: Sequence[tuple[list[Tensor], Mapping[str, int]]]) -> list[Found] | None:
    """What all traces have in common."""
    first, _ = traces[0]
    out: list[Found] = []
    for i, tensor in enumerate(first):
        each = [(made[i], at) for made, at in traces]
        if any(t.dtype is not tensor.dtype or t.rank != tensor.rank for t, _ in each):
            return None
        sizes = [size_of(d) for d in tensor.shape]
        for k, size in enumerate(sizes):
            if size is None or any(size_of(t.shape[k]) != size or evaluate(size, at) != t.shape[k] for t, at in each):
                sizes[k] = None
        out.append((tensor.dtype, tuple(sizes)))
    return out
