"""Ensembles of decision trees: all rows and all trees at once, one level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.classical.trees_lowered import MAX_DEPTH, MAX_WEIGHTS, Walk, depths_of, gathered, walk
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_ROWS = 256
"""Rows that the host looks at together."""


_TESTS = {1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal}
"""By the number of the mode; the first of :data:`MODES` is the rule."""


@dataclass(frozen=True)
class Forest:
    """Trees as arrays. Node ``i`` asks whether ``x[feature[i]] mode[i] split[i]`` and goes to ``yes[i]`` or ``no[i]``:
    a node's number, or ``-1 - leaf``. A missing number (NaN) also goes to ``yes`` where ``missing[i]``."""

    modes: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    missing: np.ndarray
    roots: np.ndarray
    sets: dict[int, np.ndarray]
    """The numbers that a node of mode MEMBER looks for."""

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf that each row of ``x`` ``[N, F]`` reaches in each tree, ``[N, trees]``."""
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        rows = np.broadcast_to(np.arange(len(x))[:, None], at.shape)
        for _ in range(len(self.modes) + 1):
            inner = at >= 0
            if not inner.any():
                return np.asarray(-1 - at)
            node = at[inner]
            values = x[rows[inner], self.features[node]]
            at[inner] = np.where(self._answers(values, node), self.yes[node], self.no[node])
        raise ShapeError("a tree never ends: its nodes lead in a circle")

    def _answers(self, values: np.ndarray, node: np.ndarray) -> np.ndarray:
        split, mode = self.splits[node], self.modes[node]
        answer = values <= split
        for number, test in _TESTS.items():
            chosen = mode == number
            if chosen.any():
                answer = np.where(chosen, test(values, split), answer)
        for number, members in self.sets.items():
            answer = np.where(node == number, np.isin(values, members), answer)
        return np.asarray(answer | (np.isnan(values) & self.missing[node]))


@register("TreeEnsemble")
class TreeEnsemble(Operator):
    """``[N, F]`` to ``[N, targets]``: the weights of the leaves that a row reaches, summed per target.

    Attributes are arrays: ``modes`` (numbers of :data:`MODES`), ``features``, ``splits``, ``yes``, ``no`` and
    ``missing`` per node as in :class:`Forest`, ``roots`` per tree, ``members`` (numbers of the sets, each ended by NaN,
    in the order of the nodes of mode MEMBER); ``leaf``, ``target`` and ``weight`` of each contribution; ``targets``;
    ``base`` values; ``aggregate`` (AVERAGE, SUM, MIN, MAX). Very deep trees, and those that look for members of
    sets, are walked by the host.
    """

    in_mnn = False
    attributes = {
        "modes": None, "features": None, "splits": None, "yes": None, "no": None, "missing": None, "roots": None,
        "members": None, "leaf": None, "target": None, "weight": None, "base": None, "targets": 1, "aggregate": "SUM",
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 1, 2)
        forest, targets = self._forest(b, node), self.int_attr(node, "targets")
        leaf, target, weight = (self._array(b, node, k) for k in ("leaf", "target", "weight"))
        count = len({leaf.size, target.size, weight.size})
        if count != 1 or targets < 1 or (target.size and not 0 <= target.min() <= target.max() < targets):
            raise ShapeError(f"{b.where}: its leaves' targets and weights do not fit {targets} targets")
        if forest.features.size and not 0 <= forest.features.min() <= forest.features.max() < x.shape[-1]:
            raise ShapeError(f"{b.where}: it asks for features beyond the {x.shape[-1]} of its input")
        base, how = self._array(b, node, "base"), self.str_attr(node, "aggregate")
        if base.size not in (0, 1, targets):
            raise ShapeError(f"{b.where}: {base.size} base values for {targets} targets")
        rows = x if x.rank == 2 else b.reshape(x, (1, x.shape[0]))
        rows = rows if x.dtype is DType.F64 else b.cast(rows, DType.F32)
        table, join = self._table(b, forest, leaf, target, weight, targets, how)
        depths = depths_of(forest.yes, forest.no, forest.roots)
        if depths is None:
            raise ShapeError(f"{b.where}: a tree never ends: its nodes lead in a circle")
        total = self._total(b, rows, forest, table, join, depths)
        if join != "sum":  # nothing said anything of a target: zero

            def finite(m: BodyBuilder, a: int) -> int:
                zero, end = m.const(0.0, rows.dtype), m.const(np.inf, rows.dtype)
                return m("select", m("lt", m("abs", a), end), a, zero)

            total = b.map(finite, total)
        if how == "AVERAGE":
            total = b.op("div", total, b.like(float(max(len(forest.roots), 1)), total))
        return [b.op("add", total, b.const(base[None], rows.dtype)) if base.size else total]

    def _table(
        self,
        b: Builder,
        forest: Forest,
        leaf: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        targets: int,
        how: str,
    ) -> tuple[np.ndarray, str]:
        """The weights ``[leaves, targets]``, and how they are joined over trees."""
        ends = np.concatenate([forest.yes, forest.no, forest.roots])
        reached = int(-1 - ends.min()) + 1 if ends.size and ends.min() < 0 else 0
        count = max(reached, int(leaf.max()) + 1 if leaf.size else 0)
        if (leaf.size and leaf.min() < 0) or not count or count * targets > MAX_WEIGHTS:
            raise ShapeError(f"{b.where}: {count} leaves with weights for {targets} targets")
        join, neutral, combine = {
            "MIN": ("min", np.inf, np.minimum),
            "MAX": ("max", -np.inf, np.maximum),
        }.get(how, ("sum", 0.0, np.add))
        table = np.full((count, targets), neutral)
        combine.at(table, (leaf.astype(np.int64), target.astype(np.int64)), weight)
        return table, join

    def _total(self, b: Builder, x: Tensor, forest: Forest, table: np.ndarray, join: str, depths: np.ndarray) -> Tensor:
        """The leaves' weights over all trees ``[n, targets]``: by primitives, or by the host where steps do not pay."""
        if not forest.sets and depths.max(initial=0) <= MAX_DEPTH and x.shape[0]:
            inner = len(forest.modes)
            ends = np.stack([forest.no, forest.yes], 1).reshape(-1, 2)
            child = np.where(ends < 0, inner - 1 - ends, ends)
            order = np.argsort(-depths, kind="stable")
            roots = np.where(forest.roots < 0, inner - 1 - forest.roots, forest.roots)[order]
            nodes = (forest.modes, forest.features, forest.splits, child, forest.missing)
            steps = Walk(*nodes, roots, len(table), depths[order])
            return gathered(b, walk(b, x, steps), table, join, x.dtype)
        reduce = {"min": np.min, "max": np.max}.get(join, np.sum)

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            total = np.empty((len(arrays[0]), table.shape[1]))
            for start in range(0, len(total), _ROWS):
                found = table[forest.leaves(arrays[0][start : start + _ROWS])]
                total[start : start + _ROWS] = reduce(found, axis=1)
            return [total.astype(x.dtype.numpy)]

        return b.host("trees", run, [x], (x.dtype, (x.shape[0], table.shape[1])))[0]

    def _array(self, b: Builder, node: Node, key: str) -> np.ndarray:
        found = self.attr(node, key)
        return np.zeros(0) if found is None else np.asarray(found).reshape(-1)

    def _forest(self, b: Builder, node: Node) -> Forest:
        keys = ("modes", "features", "splits", "yes", "no")
        arrays = {k: self._array(b, node, k) for k in keys}
        count = arrays["modes"].size
        missing, roots = self._array(b, node, "missing"), self._array(b, node, "roots").astype(np.int64)
        missing = missing.astype(bool) if missing.size else np.zeros(count, bool)
        whole = {k: a if k == "splits" else a.astype(np.int64) for k, a in arrays.items()}
        ends = np.concatenate([whole["yes"], whole["no"], roots, [0]])
        if {a.size for a in (*arrays.values(), missing)} != {count} or (count and ends.max() >= count):
            raise ShapeError(f"{b.where}: the lists that describe its {count} nodes differ in length, or lead outside")
        if count and not 0 <= whole["modes"].min() <= whole["modes"].max() < len(MODES):
            raise ShapeError(f"{b.where}: a node's mode is not one of {', '.join(MODES)}")
        asking = np.flatnonzero(whole["modes"] == MODES.index("MEMBER"))
        members = self._array(b, node, "members")
        parts = np.split(members, np.flatnonzero(np.isnan(members)) + 1) if members.size else []
        if len(asking) > len(parts):
            raise ShapeError(f"{b.where}: {len(asking)} nodes look for members of {len(parts)} sets")
        sets = {int(n): part[~np.isnan(part)] for n, part in zip(asking, parts, strict=False)}
        return Forest(**whole, missing=missing, roots=roots, sets=sets)
