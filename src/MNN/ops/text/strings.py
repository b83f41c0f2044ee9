"""Operators on strings, computed with numpy between native calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast
from MNN.ops.arranging.selecting import array
from MNN.ops.core.base import EagerOperator, Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer
from MNN.ops.text.regex import Pattern


@register("StringConcat")
class StringConcat(Operator):
    """``x + y`` elementwise, with numpy broadcasting."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        if x.dtype is not DType.STR or y.dtype is not DType.STR:
            raise ShapeError(f"{b.where}: needs strings, found {x.dtype.value} and {y.dtype.value}")
        shape = broadcast(x.shape, y.shape, where=b.where)
        return b.host("string concat", lambda a: [np.asarray(a[0] + a[1], object)], [x, y], (DType.STR, shape))


@register("RegexFullMatch")
class RegexFullMatch(Operator):
    """Whether each element fits ``pattern`` as a whole; see :mod:`MNN.ops.text.regex`."""

    in_mnn = False
    attributes = {"pattern": ""}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, pattern = operand(b, inputs, 0), Pattern(self.str_attr(node, "pattern"))
        if x.dtype is not DType.STR:
            raise ShapeError(f"{b.where}: needs strings, found {x.dtype.value}")

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            found = [pattern.matches(str(text)) for text in arrays[0].reshape(-1)]
            return [np.array(found, np.bool_).reshape(x.shape)]

        return b.host("regex", run, [x], (DType.BOOL, x.shape))


@register("StringSplit")
class StringSplit(EagerOperator):
    """Pieces between ``delimiter`` (runs of white space when empty), padded with empty strings, and their numbers.

    ``maxSplit`` limits the number of cuts; negative means all.
    """

    in_mnn = False
    attributes = {"delimiter": "", "maxSplit": -1}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        x, most = array(node, inputs, 0), self.int_attr(node, "maxSplit")
        delimiter = self.str_attr(node, "delimiter") or None
        pieces = [str(text).split(delimiter, most) if text else [] for text in x.reshape(-1)]
        width = max((len(p) for p in pieces), default=0)
        out = np.full((len(pieces), width), "", dtype=object)
        for row, found in zip(out, pieces, strict=True):
            row[: len(found)] = found
        counts = np.asarray([len(p) for p in pieces], np.int64)
        return [out.reshape(*x.shape, width), counts.reshape(x.shape)]


@register("StringNormalizer")
class StringNormalizer(EagerOperator):
    """Drops ``stopwords``, then changes the case (``caseChange`` LOWER, UPPER or NONE); nothing left is one ``""``."""

    in_mnn = False
    attributes = {"caseChange": "NONE", "caseSensitive": False, "stopwords": None}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        x = array(node, inputs, 0)
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise ShapeError(f"{node.op} '{node.name}': needs a list of strings, found shape {list(x.shape)}")
        stop = self.attr(node, "stopwords")
        words = [str(w) for w in stop] if isinstance(stop, list) else []
        fold = str if self.bool_attr(node, "caseSensitive") else str.lower
        stopped = {fold(w) for w in words}
        kept = [str(t) for t in x.reshape(-1) if fold(str(t)) not in stopped]
        change = {"LOWER": str.lower, "UPPER": str.upper}.get(self.str_attr(node, "caseChange"), str)
        result = np.asarray([change(t) for t in kept] or [""], dtype=object)
        return [result.reshape(1, -1) if x.ndim == 2 else result]


@infer.rule(StringSplit)
def _infer_texts_apart(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, known = infer.operand(node, 0), infer.sizes(infer.operand(node, 0))
    return [(x.dtype, None if known is None else (*known, None)), (DType.I64, known)]


@infer.rule(StringNormalizer)
def _infer_plain_texts(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, known = infer.operand(node, 0), infer.sizes(infer.operand(node, 0))
    return [(x.dtype, None if known is None else (*known[:-1], None))]
