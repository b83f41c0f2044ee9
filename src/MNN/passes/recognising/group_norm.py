"""Recognises group normalisation (Wu & He 2018, arXiv:1803.08494) in what exporters write for it: groups as the rows of
a view, each normalised by itself, and scales and shifts of channels behind it."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.passes.manager import Pass
from MNN.passes.patterns import FLOATS, attribute, binary, constants_type, floats, with_constant
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """As one operator, channels need not lie apart in memory."""
    rw = Rewriter(graph)
    for norm in [n for n in rw.nodes() if n.op == "InstanceNorm"]:
        before, after = rw.maker(norm.inputs[0]), rw.only_user(norm.outputs[0])
        if before is None or after is None or not (traits(before).reshapes and traits(after).reshapes):
            continue
        x, group = before.inputs[0], _groups(before)
        if x is None or x.dtype not in FLOATS or group is None:
            continue
        scale, shift = (
            _numbers(norm.inputs[i] if len(norm.inputs) > i else None, group, default)
            for i, default in ((1, 1.0), (2, 0.0))
        )
        if scale is None or shift is None:
            continue
        if after.outputs[0].shape == x.shape:
            _replace(rw, before, x, (scale, shift), norm, after)
        elif _alike(x, after.outputs[0]):  # where exporters leave out scales of 1, what follows has joined the view
            _replace(rw, before, _shown(rw, x, after.outputs[0], norm), (scale, shift), norm, after)
    return rw.finish()


def _alike(x: Value, y: Value) -> bool:
    """Whether two shapes have the same samples and channels, and differ in dimensions of 1 behind these alone."""
    if x.shape is None or y.shape is None or len(x.shape) < 2 or x.shape[:2] != y.shape[:2]:
        return False
    sizes = (*x.shape, *y.shape)
    return all(isinstance(n, int) for n in sizes) and [n for n in x.shape[2:] if n != 1] == [
        n for n in y.shape[2:] if n != 1
    ]


def _shown(rw: Rewriter, x: Value, like: Value, before: Node) -> Value:
    """``x`` in the shape of another value."""
    assert like.shape is not None
    shown = Value(rw.unique(f"{like.name}/shown"), x.dtype, like.shape)
    shape = rw.constant(f"{like.name}/shape", np.array(like.shape, dtype=np.int64))
    rw.insert(Node("Reshape", shown.name, [x, shape], [shown]), before=before)
    return shown


def _groups(view: Node) -> int | None:
    """Into how many groups of channels a view splits what it shows."""
    x, parts = view.inputs[0], view.outputs[0].shape
    if x is None or x.shape is None or parts is None or len(x.shape) < 2 or len(parts) < 3:
        return None
    channels, group = x.shape[1], parts[1]
    if not isinstance(channels, int) or not isinstance(group, int) or group < 1 or channels % group:
        return None
    return group if parts[0] is not None and parts[0] == x.shape[0] else None


def _replace(rw: Rewriter, view: Node, x: Value, numbers: tuple[np.ndarray, np.ndarray], norm: Node, end: Node) -> None:
    """``numbers``: scales and shifts of the groups of ``x``."""
    assert x.shape is not None
    channels = x.shape[1]
    assert isinstance(channels, int)
    group = numbers[0].size
    gamma, beta = (np.repeat(v, channels // group) for v in numbers)
    inside = [norm, end, *([view] if rw.only_user(view.outputs[0]) is norm else [])]
    for kind in ("MUL", "ADD"):
        user = rw.only_user(end.outputs[0])
        factor = _per_channel(user, end, x, channels) if user is not None and binary(user, kind) else None
        if user is None or factor is None:
            continue
        if kind == "MUL":
            gamma, beta = gamma * factor, beta * factor
        else:
            beta = beta + factor
        inside.append(user)
        end = user
    base = end.outputs[0].name
    constants = [rw.constant(f"{base}/{r}", v.astype(constants_type(x))) for r, v in (("gamma", gamma), ("beta", beta))]
    attrs = {"group": group, "epsilon": attribute(norm, "epsilon")}
    rw.swap(end, Node("GroupNorm", end.name, [x, *constants], end.outputs, attrs))
    for node in inside:
        if node is not end:
            rw.remove(node)


def _numbers(value: Value | None, count: int, default: float) -> np.ndarray | None:
    """``count`` constants; None where there are others, or they are computed."""
    if value is None:
        return np.full(count, default)
    data = floats(value)
    return data.reshape(-1).astype(np.float64) if data is not None and data.size == count else None


def _per_channel(node: Node, before: Node, x: Value, channels: int) -> np.ndarray | None:
    """The constant operand, where it has one number for each channel, or one for all."""
    parts = with_constant(node)
    if parts is None or parts[0] is not before.outputs[0] or x.shape is None:
        return None
    data = floats(parts[1])
    if data is None or data.ndim > len(x.shape) or data.size not in (1, channels):
        return None
    aligned = (1,) * (len(x.shape) - data.ndim) + data.shape
    if data.size > 1 and aligned[1] != channels:
        return None
    return np.broadcast_to(data.reshape(-1).astype(np.float64), (channels,))


PASS = Pass("group-norm", run, rank=41)
