"""Ensembles of decision trees as primitives: all trees of all rows take one step a level, by gathers.

Every row and tree holds the number of the node where it stands; leaves lead to themselves. After as many steps as the
deepest tree has levels all stand at leaves, whose weights are gathered and summed. (This is the perfect-tree-free form
of "tree traversal" in Nakandala et al., A Tensor Compiler for Unified Machine Learning Prediction Serving, 2020.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder

MAX_DEPTH = 40
"""Levels up to which steps are worth their price: rows that are done wait for the deepest tree."""
MAX_WEIGHTS = 1 << 24
"""Entries up to which weights are kept as a table of leaves and targets."""
_WORTH = 0.9
"""Shallow trees are left behind when no more than this share of those that walk has to go on."""
_TESTS = ("le", "lt", "ge", "gt", "eq", "ne")


@dataclass(frozen=True)
class Walk:
    """Nodes as tables, leaves behind the inner nodes. ``child`` is ``[nodes, 2]``: where to go when the test fails, and
    when it holds; ``depths`` counts the steps that each tree takes, the deepest comes first."""

    modes: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    child: np.ndarray
    missing: np.ndarray
    roots: np.ndarray
    leaves: int
    depths: np.ndarray


def depths_of(yes: np.ndarray, no: np.ndarray, roots: np.ndarray) -> np.ndarray | None:
    """Steps from each root to its farthest leaf (negative numbers are leaves), not counted beyond :data:`MAX_DEPTH`;
    None for trees that never end."""
    depths = np.zeros(len(roots), np.int64)
    owner, steps = np.flatnonzero(roots >= 0), 0
    at = roots[owner]
    while at.size:
        steps += 1
        if steps > yes.size:
            return None
        depths[owner] = steps
        if steps > MAX_DEPTH:  # too deep, or without end, which the walk will tell
            break
        following, owners = np.concatenate([yes[at], no[at]]), np.concatenate([owner, owner])
        pairs = np.unique(owners[following >= 0] * np.int64(max(yes.size, 1)) + following[following >= 0])
        owner, at = np.divmod(pairs, max(yes.size, 1))
    return depths


def walk(b: Builder, x: Tensor, w: Walk) -> Tensor:
    """The leaf, counted from 0, that each row of ``x`` ``[n, f]`` reaches in each tree: ``[n, trees]`` of i32."""
    inner = len(w.modes)
    leaves = np.arange(w.leaves, dtype=np.int32) + inner
    rest = np.zeros(leaves.size, np.int32)

    def table(values: np.ndarray, dtype: DType = DType.I32) -> Tensor:
        return b.const(np.concatenate([values.astype(dtype.numpy), rest.astype(dtype.numpy)]))

    features, splits = table(w.features), table(w.splits, x.dtype)
    missing = table(w.missing) if w.missing.any() else None
    modes = table(w.modes) if len(np.unique(w.modes)) > 1 else None
    child = b.const(np.concatenate([w.child, np.stack([leaves, leaves], 1)]).astype(np.int32).reshape(-1))
    row = b.const(np.arange(x.shape[0], dtype=np.int32)[:, None])
    one = _TESTS[int(w.modes[0])] if inner else "le"

    def step(m: BodyBuilder, at: int, value: int, split: int, *more: int) -> int:
        rest = list(more)
        holds = m(one, value, split)
        if modes is not None:
            mode = rest.pop(0)
            for number, name in enumerate(_TESTS):
                if number in w.modes:
                    holds = m("select", m("eq", mode, m.const(number, DType.I32)), m(name, value, split), holds)
        if missing is not None:
            tracked = m("ne", rest.pop(0), m.const(0, DType.I32))
            holds = m("or", holds, m("and", m("isnan", value), tracked))
        return m("add", m("add", at, at), m.cast(holds, DType.I32))

    at = b.expand(b.const(w.roots.astype(np.int32)[None]), (x.shape[0], len(w.roots)))
    done: list[Tensor] = []
    for level in range(int(w.depths.max(initial=0))):
        going, trees = int((w.depths > level).sum()), at.shape[1]
        if going < trees * _WORTH:
            done.insert(0, b.slice(at, [0, going], [x.shape[0], trees - going]))
            at = b.slice(at, [0, 0], [x.shape[0], going])
        value = b.gather(x, [row, b.take(features, at, 0)], [0, 1], [-1, -1], at.shape)
        given = [value, b.take(splits, at, 0), *(b.take(t, at, 0) for t in (modes, missing) if t is not None)]
        at = b.take(child, b.map(step, at, *given), 0)
    at = b.concat([at, *done], 1) if done else at
    return b.op("sub", at, b.const(np.int32(inner)))


def gathered(b: Builder, leaf: Tensor, weights: np.ndarray, how: str, dtype: DType) -> Tensor:
    """The weights of the leaves of every row, joined over the trees: ``[n, targets]``. ``how`` is sum, min or max."""
    targets = weights.shape[1]
    if targets == 1:
        found = b.take(b.const(weights[:, 0], dtype), leaf, 0)
        return b.reduce(how, found, [1])
    found = b.take(b.const(weights, dtype), leaf, 0)
    return b.reduce(how, found, [1], keepdims=False)
