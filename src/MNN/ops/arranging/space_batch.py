"""Operators that only files of the official engine hold: blocks between batch and space, crops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, require_rank


class _Blocks(Operator):
    """Block sizes and borders of the spatial axes (2, 3) of ``x[N, C, H, W]``: attributes or operands."""

    attributes = {"blockShape": None, "padding": None}

    def geometry(
        self, b: Builder, node: Node, inputs: Sequence[Tensor | None]
    ) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Block (h, w), border before (h, w) and after (h, w)."""
        given = optional(inputs, 1)
        if given is None:
            block, border = (
                [int(v) for v in np.asarray(self.attr(node, k) if self.attr(node, k) is not None else []).reshape(-1)]
                for k in ("blockShape", "padding")
            )
        else:
            block = list(b.ints(given, "the block shape"))
            border = list(b.ints(operand(b, inputs, 2), "the borders"))
        if len(block) not in (1, 2) or len(border) != 2 * len(block) or any(v < 1 for v in block) or min(border) < 0:
            raise ShapeError(f"{b.where}: blocks {block} with borders {border} do not fit two spatial axes")
        if len(block) == 1:
            block, border = [*block, 1], [*border, 0, 0]
        return (block[0], block[1]), (border[0], border[2]), (border[1], border[3])


@register("SpaceToBatchND")
class SpaceToBatchND(_Blocks):
    """Pads, then moves the places within each block to the batch, the place in front of the image's own number."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 4)
        (p, q), low, high = self.geometry(b, node, inputs)
        x = b.pad(x, (0, 0, *low), (0, 0, *high))
        n, c, h, w = x.shape
        if h % p or w % q:
            raise ShapeError(f"{b.where}: {h} x {w} with borders is no whole number of blocks of {p} x {q}")
        y = b.permute(b.reshape(x, (n, c, h // p, p, w // q, q)), (3, 5, 0, 1, 2, 4))
        return [b.reshape(y, (p * q * n, c, h // p, w // q))]


@register("BatchToSpaceND")
class BatchToSpaceND(_Blocks):
    """The inverse of :class:`SpaceToBatchND`; the borders are cropped."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 4)
        (p, q), low, high = self.geometry(b, node, inputs)
        n, c, h, w = x.shape
        if n % (p * q):
            raise ShapeError(f"{b.where}: a batch of {n} is no whole number of blocks of {p} x {q}")
        y = b.permute(b.reshape(x, (p, q, n // (p * q), c, h, w)), (2, 3, 4, 0, 5, 1))
        y = b.reshape(y, (n // (p * q), c, h * p, w * q))
        return [b.pad(y, (0, 0, *(-v for v in low)), (0, 0, *(-v for v in high)))]


@register("Crop")
class Crop(Operator):
    """``x`` cut to the sizes of the second operand from ``axis`` on, beginning at ``offset`` (one for all axes, or one
    each; Caffe's Crop)."""

    attributes = {"axis": 2, "offset": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, like = operand(b, inputs, 0), operand(b, inputs, 1)
        axis, offsets = self.int_attr(node, "axis"), list(self.ints_attr(node, "offset")) or [0]
        axis += x.rank if axis < 0 else 0
        if like.rank != x.rank or not 0 <= axis < x.rank or len(offsets) not in (1, x.rank - axis):
            raise ShapeError(
                f"{b.where}: cannot crop {list(x.shape)} like {list(like.shape)} from axis {axis} at {offsets}"
            )
        starts = [0] * axis + (offsets * (x.rank - axis) if len(offsets) == 1 else offsets)
        counts = [*x.shape[:axis], *like.shape[axis:]]
        return [b.slice(x, [s if n else 0 for s, n in zip(starts, counts, strict=True)], counts)]
