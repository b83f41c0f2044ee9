"""Blocks of pixels that become channels or samples, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.onnx_export.exporter import Exporter, exports
from MNN.ir.graph import Node


@exports("SpaceToDepth", "DepthToSpace")
def blocks(e: Exporter, node: Node) -> str:
    mode, size = e.text(node, "mode"), e.integer(node, "blockSize")
    if node.op == "DepthToSpace":
        return e.op(node.op, e.input(node, 0), blocksize=size, mode=mode)
    plain = e.op(node.op, e.input(node, 0), blocksize=size)
    if mode == "DCR":
        return plain
    x = e.required(node, 0)
    channels = None if x.shape is None else x.shape[1]
    if not isinstance(channels, int):
        raise e.unsupported(node, "blocks of this order with an unknown number of channels")
    order = np.arange(size * size * channels).reshape(size * size, channels).T.reshape(-1)
    return e.op("Gather", plain, e.const(order), axis=1)


@exports("SpaceToBatchND", "BatchToSpaceND")
def batch_blocks(e: Exporter, node: Node) -> str:
    """By way of channels: the samples' axis is put there and back."""
    given = e.value(node, 1) is not None
    block = e.ints(e.value(node, 1)) if given else e.list_of(node, "blockShape")
    pads = e.ints(e.value(node, 2)) if given else e.list_of(node, "padding")
    x = e.required(node, 0)
    if block is None:
        raise e.unsupported(node, "blocks between samples and space that are known only at run time")
    rest = 2 - len(block)
    block = [*block, *[1] * rest]
    pads = None if pads is None else [*pads, *[0, 0] * rest]
    if pads is None or x.shape is None or not all(isinstance(d, int) for d in x.shape):
        return _open_batch_blocks(e, node, block, pads)
    (p, q), (n, c, h, w) = block, (int(d) for d in x.shape)
    if node.op == "SpaceToBatchND":
        out = e.op("Pad", e.name(x), e.const([0, 0, pads[0], pads[2], 0, 0, pads[1], pads[3]]))
        h, w = h + pads[0] + pads[1], w + pads[2] + pads[3]
        out = e.op("Reshape", out, e.const([n, c, h // p, p, w // q, q]))
        out = e.op("Transpose", out, perm=[3, 5, 0, 1, 2, 4])
        return e.op("Reshape", out, e.const([p * q * n, c, h // p, w // q]))
    out = e.op("Reshape", e.name(x), e.const([p, q, n // (p * q), c, h, w]))
    out = e.op("Transpose", out, perm=[2, 3, 4, 0, 5, 1])
    out = e.op("Reshape", out, e.const([n // (p * q), c, h * p, w * q]))
    ends = [h * p - pads[1], w * q - pads[3]]
    return e.op("Slice", out, e.const([pads[0], pads[2]]), e.const(ends), e.const([2, 3]))


def _open_batch_blocks(e: Exporter, node: Node, block: Sequence[int], pads: Sequence[int] | None) -> str:
    """The same of any sizes, with borders that may be computed: each axis is cut, or joined with another, where it is
    the last one, as a Reshape can leave those in front of it as they are."""
    (p, q), x = block, e.name(e.required(node, 0))
    if pads is None:
        given = e.op("Concat", e.line(node, 2), e.const(np.zeros(4, np.int64)), axis=0)  # of one axis or of two
        before, behind = (e.op("Gather", given, e.const(sides), axis=0) for sides in ([0, 2], [1, 3]))
    else:
        before, behind = e.const([pads[0], pads[2]]), e.const([pads[1], pads[3]])

    def changed(out: str, order: Sequence[int], shape: Sequence[int]) -> str:
        return e.op("Reshape", e.op("Transpose", out, perm=list(order)), e.const(shape))

    if node.op == "SpaceToBatchND":
        out = e.op("Pad", x, e.op("Concat", e.const([0, 0]), before, e.const([0, 0]), behind, axis=0))
        out = e.op("Reshape", out, e.const([0, 0, 0, -1, q]))
        out = changed(out, [1, 3, 4, 0, 2], [0, 0, 0, 0, -1, p])  # C, W / q, q, N, H / p, p
        out = changed(out, [0, 4, 1, 5, 2, 3], [0, 0, 0, -1])
        return e.op("Transpose", out, perm=[3, 0, 1, 2])
    out = changed(x, [1, 2, 3, 0], [0, 0, 0, p, q, -1])
    out = changed(out, [5, 0, 1, 3, 2, 4], [0, 0, 0, 0, -1])  # N, C, H, p, W * q
    out = e.op("Transpose", changed(out, [0, 1, 4, 2, 3], [0, 0, 0, -1]), perm=[0, 1, 3, 2])
    ends = e.op("Sub", e.op("Shape", out, start=2), behind)
    return e.op("Slice", out, before, ends, e.const([2, 3]))
