"""Counts of n-grams, computed by the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank

MODES = ("TF", "IDF", "TFIDF")


@register("TfIdfVectorizer")
class TfIdfVectorizer(Operator):
    """How often each n-gram of ``pool`` occurs in a row of integers or strings ``[C]`` or ``[N, C]``.

    ``pool`` lists the n-grams, those of one size after another; ``counts[i]`` is where those of ``i + 1`` elements
    begin, ``indexes`` the column of each n-gram in the result. N-grams of ``minLength`` to ``maxLength`` elements
    count, also those whose elements are up to ``maxSkip`` others apart. ``mode``: the number of occurrences (TF), the
    ``weights`` of those that occur (IDF), or the product (TFIDF).
    """

    in_mnn = False
    attributes = {
        "mode": "TF", "minLength": 1, "maxLength": 1, "maxSkip": 0,
        "counts": None, "indexes": None, "weights": None, "pool": None,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 1, 2)
        pool, indexes = self.attr(node, "pool"), self.ints_attr(node, "indexes") or ()
        if not isinstance(pool, list) or (bool(pool) and isinstance(pool[0], str)) is not (x.dtype is DType.STR):
            raise ShapeError(f"{b.where}: its n-grams are not of the input's type {x.dtype.value}")
        columns = self._columns(b, node, [str(e) if x.dtype is DType.STR else int(e) for e in pool], indexes)
        weights = self.attr(node, "weights")
        if weights is not None and (not isinstance(weights, list) or len(weights) != len(indexes)):
            raise ShapeError(f"{b.where}: needs one weight for each of its {len(indexes)} n-grams")
        scale = np.ones(max(indexes, default=-1) + 1, np.float32)
        if isinstance(weights, list):
            scale[list(indexes)] = [float(str(w)) for w in weights]
        mode, lengths = self.str_attr(node, "mode"), self._lengths(node)
        skips = self.int_attr(node, "maxSkip") + 1

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            rows = arrays[0].reshape(-1, x.shape[-1]) if x.rank == 2 else arrays[0].reshape(1, -1)
            total = np.zeros((len(rows), len(scale)), np.float32)
            for row, counted in zip(rows.tolist(), total, strict=True):
                for n in lengths:
                    for step in range(1, (skips if n > 1 else 1) + 1):
                        span = (n - 1) * step
                        for first in range(len(row) - span):
                            column = columns.get(tuple(row[first : first + span + 1 : step]))
                            if column is not None:
                                counted[column] += 1
            if mode == "IDF":
                total = np.minimum(total, 1)
            return [(total if mode == "TF" else total * scale).reshape(*x.shape[:-1], len(scale))]

        return b.host("n-grams", run, [x], (DType.F32, (*x.shape[:-1], len(scale))))

    def _lengths(self, node: Node) -> range:
        return range(max(self.int_attr(node, "minLength"), 1), self.int_attr(node, "maxLength") + 1)

    def _columns(
        self, b: Builder, node: Node, pool: Sequence[object], indexes: Sequence[int]
    ) -> dict[tuple[object, ...], int]:
        """The result's column of each n-gram that counts."""
        counts = list(self.ints_attr(node, "counts") or ())
        if self.str_attr(node, "mode") not in MODES or any(i < 0 for i in indexes):
            raise ShapeError(f"{b.where}: mode is one of {', '.join(MODES)} and columns are not negative")
        found: dict[tuple[object, ...], int] = {}
        number = 0
        for n, (first, last) in enumerate(zip(counts, [*counts[1:], len(pool)], strict=True), start=1):
            if not 0 <= first <= last <= len(pool) or (last - first) % n:
                raise ShapeError(f"{b.where}: its n-grams of {n} elements lie at {first}..{last} of {len(pool)}")
            for at in range(first, last, n):
                if number >= len(indexes):
                    raise ShapeError(f"{b.where}: {len(indexes)} columns for more n-grams")
                if n in self._lengths(node):
                    found[tuple(pool[at : at + n])] = indexes[number]
                number += 1
        return found
