"""Ensembles of decision trees, walked by the host: all rows and all trees at once, one level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.base import Operator, register
from MNN.ops.builder import Builder
from MNN.ops.operands import operand, require_rank

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


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
        tests = (values <= split, values < split, values >= split, values > split, values == split, values != split)
        answer = np.choose(np.minimum(mode, len(tests) - 1), tests)
        for number, members in self.sets.items():
            answer = np.where(node == number, np.isin(values, members), answer)
        return np.asarray(answer | (np.isnan(values) & self.missing[node]))


@register("TreeEnsemble")
class TreeEnsemble(Operator):
    """``[N, F]`` to ``[N, targets]``: the weights of the leaves that a row reaches, summed per target.

    Attributes are arrays: ``modes`` (numbers of :data:`MODES`), ``features``, ``splits``, ``yes``, ``no`` and
    ``missing`` per node as in :class:`Forest`, ``roots`` per tree, ``members`` (numbers of the sets, each ended by NaN,
    in the order of the nodes of mode MEMBER); ``leaf``, ``target`` and ``weight`` of each contribution; ``targets``;
    ``base`` values; ``aggregate`` (AVERAGE, SUM, MIN, MAX).
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
        dtype = DType.F64 if x.dtype is DType.F64 else DType.F32
        given: dict[int, list[int]] = {}
        for entry, number in enumerate(leaf.tolist()):
            given.setdefault(int(number), []).append(entry)

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            rows = arrays[0].reshape(-1, x.shape[-1]).astype(dtype.numpy)
            found = forest.leaves(rows)
            start = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
            total = np.full((len(rows), targets), start, np.float64)
            combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
            for tree in found.T:
                for reached in np.unique(tree):
                    for entry in given.get(int(reached), ()):
                        cells = (tree == reached, target[entry])
                        total[cells] = combine(total[cells], weight[entry])
            total[~np.isfinite(total)] = 0.0
            if how == "AVERAGE":
                total /= max(len(forest.roots), 1)
            return [(total + base if base.size else total).astype(dtype.numpy)]

        return b.host("trees", run, [x], (dtype, (x.shape[0] if x.rank == 2 else 1, targets)))

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
