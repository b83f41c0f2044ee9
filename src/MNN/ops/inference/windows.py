"""What operators with windows have in common: how many there are, and how far apart."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.graph import Node
from MNN.ir.symbolic import Size, add, ceil_divide, floor_divide
from MNN.ops.inference.infer import Sizes, ints, number


def _window(size: Size, kernel: int, stride: int, dilation: int, pads: int, mode: str, ceil: bool) -> Size:
    if size is None or stride < 1 or kernel < 1:
        return None
    if mode.startswith("SAME"):
        return ceil_divide(size, stride)
    room = add(size, (0 if mode == "VALID" else pads) - dilation * (kernel - 1) - 1)
    count = add(ceil_divide(room, stride) if ceil else floor_divide(room, stride), 1)
    return max(count, 0) if isinstance(count, int) else count


def windows(
    spatial: Sequence[Size], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int], mode: str, ceil: bool = False,
) -> Sizes:  # fmt: skip
    count = len(spatial)
    both = list(pads) * 2 if len(pads) == count else list(pads) or [0] * (2 * count)
    return tuple(
        _window(spatial[i], kernel[i], strides[i], dilations[i], both[i] + both[i + count], mode, ceil)
        for i in range(count)
    )


def steps(node: Node, planar: bool) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and padding: MNN names those of two axes one by one, those of three in lists."""
    if planar:
        strides = [number(node, "strideY", 1), number(node, "strideX", 1)]
        dilations = [number(node, "dilateY", 1), number(node, "dilateX", 1)]
        return strides, dilations, ints(node, "pads") or [number(node, "padY"), number(node, "padX")]
    return ints(node, "strides") or [1] * 3, ints(node, "dilates") or [1] * 3, ints(node, "pads")
