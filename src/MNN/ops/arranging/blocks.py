"""Rearrangements between channels and space, and the inverse of patch extraction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.inference import infer


@register("DepthToSpace")
class DepthToSpace(Operator):
    """``[N, C*s*s, H, W]`` to ``[N, C, H*s, W*s]``; ``mode`` says whether channels count as (s, s, C) or (C, s, s)."""

    attributes = {"blockSize": 0, "mode": "DCR"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, s = operand(b, inputs, 0), self.int_attr(node, "blockSize")
        require_rank(b, x, 4)
        n, c, h, w = x.shape
        if s < 1 or c % (s * s):
            raise ShapeError(f"{b.where}: {c} channels cannot be spread over blocks of {s} x {s}")
        c //= s * s
        if self.str_attr(node, "mode") == "DCR":
            y = b.permute(b.reshape(x, (n, s, s, c, h, w)), (0, 3, 4, 1, 5, 2))
        else:
            y = b.permute(b.reshape(x, (n, c, s, s, h, w)), (0, 1, 4, 2, 5, 3))
        return [b.reshape(y, (n, c, h * s, w * s))]


@register("SpaceToDepth")
class SpaceToDepth(Operator):
    """``[N, C, H*s, W*s]`` to ``[N, C*s*s, H, W]``: the inverse of :class:`DepthToSpace`."""

    attributes = {"blockSize": 0, "mode": "DCR"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, s = operand(b, inputs, 0), self.int_attr(node, "blockSize")
        require_rank(b, x, 4)
        n, c, h, w = x.shape
        if s < 1 or h % s or w % s:
            raise ShapeError(f"{b.where}: {list(x.shape)} cannot be cut into blocks of {s} x {s}")
        y = b.reshape(x, (n, c, h // s, s, w // s, s))
        y = b.permute(y, (0, 3, 5, 1, 2, 4) if self.str_attr(node, "mode") == "DCR" else (0, 1, 3, 5, 2, 4))
        return [b.reshape(y, (n, c * s * s, h // s, w // s))]


@register("OnnxCol2Im")
class Col2Im(Operator):
    """Adds patches ``[N, C * prod(block), L]`` up to images ``[N, C, image...]``; sizes come as operands."""

    sizes_from = 1
    in_mnn = False
    attributes = {"dilations": None, "pads": None, "strides": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        image, block = (
            b.ints(operand(b, inputs, 1), "the image's shape"),
            b.ints(operand(b, inputs, 2), "the block's shape"),
        )
        rank = len(image)
        strides, dilations = (self.ints_attr(node, k) or (1,) * rank for k in ("strides", "dilations"))
        pads = self.ints_attr(node, "pads") or (0,) * (2 * rank)
        require_rank(b, x, 3)
        if not (len(block) == len(strides) == len(dilations) == rank) or len(pads) != 2 * rank:
            raise ShapeError(f"{b.where}: block {block}, strides or pads do not fit an image {image}")
        if any(v < 1 for v in (*block, *strides, *dilations)):
            raise ShapeError(f"{b.where}: block, strides and dilations must be positive")
        padded = [n + a + z for n, a, z in zip(image, pads[:rank], pads[rank:], strict=True)]
        counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(padded, block, strides, dilations, strict=True)]
        taps, cells = int(np.prod(block)), int(np.prod(counts))
        if x.shape[1] % taps or x.shape[2] != cells or min(counts, default=0) < 1:
            raise ShapeError(f"{b.where}: {list(x.shape)} does not hold blocks {block} of an image {image}")
        b.require(taps * cells, "the table of positions")
        place = np.zeros((1,) * (2 * rank), np.int64)
        for i, (size, k, n) in enumerate(zip(padded, block, counts, strict=True)):
            line = [1] * (2 * rank)
            line[i], line[rank + i] = k, n
            at = np.arange(k)[:, None] * dilations[i] + np.arange(n) * strides[i]
            place = place * size + at.reshape(line)
        channels = x.shape[1] // taps
        flat = b.reshape(x, (x.shape[0], channels, taps * cells))
        zeros = b.expand(b.like(0, x), (x.shape[0], channels, int(np.prod(padded))))
        index = b.const(place.reshape(1, 1, -1))
        summed = b.reshape(b.scatter("add", zeros, flat, [index], [2], [0, 1, -1]), (x.shape[0], channels, *padded))
        return [b.slice(summed, (0, 0, *pads[:rank]), (x.shape[0], channels, *image))]


@infer.rule(DepthToSpace, SpaceToDepth)
def _infer_blocks(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, block = infer.sizes(x), infer.number(node, "blockSize")
    if known is None or len(known) != 4 or block < 1:
        return [(x.dtype, known)]
    n, c, *plane = known
    if node.op == "DepthToSpace":
        return [
            (x.dtype, (n, symbolic.exact_quotient(c, block * block), *(symbolic.multiply(d, block) for d in plane)))
        ]
    return [(x.dtype, (n, symbolic.multiply(c, block * block), *(symbolic.exact_quotient(d, block) for d in plane)))]


@infer.rule(Col2Im)
def _infer_col2im(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, image, block = infer.sizes(x), h.ints(infer.operand(node, 1)), h.known_ints(infer.operand(node, 2))
    axes = infer.operand(node, 1).shape
    if known is None or image is None or block is None or len(known) != 3:
        count = axes[0] if axes and isinstance(axes[0], int) and axes[0] <= 8 else None
        return [(x.dtype, None if known is None or count is None else (known[0], *(None,) * (1 + count)))]
    return [(x.dtype, (known[0], symbolic.exact_quotient(known[1], symbolic.multiply(*block)), *image))]
