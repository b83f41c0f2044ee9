"""Who uses what in a list of primitives: dropping what nobody uses, and spacing what uses would collide in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from MNN.ir import prims as p
from MNN.ir.dtype import PARTED, DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.traced import room_of

VIEWS = (p.Reshape, p.Permute, p.Slice, p.Expand)
"""Primitives that only look at their operand in another way (when strides allow)."""
_PERIOD = 2048
"""Bytes: pixels at a multiple of this distance fall into two sets of a first-level cache of 64 sets, or one."""
_GAP = 64
_LOOK_BACK = 6


def _gap(dtype: DType) -> int:
    """Elements, of ``BF16X2`` whole thirty-twos."""
    return PARTED if dtype is DType.BF16X2 else _GAP // dtype.size


def live(prims: Sequence[Prim], outputs: Iterable[Tensor]) -> list[Prim]:
    """The primitives that the outputs depend on, in order."""
    needed = {id(t) for t in outputs}
    kept: list[Prim] = []
    for prim in reversed(prims):
        for t in prim.outputs:
            if id(t) in needed:
                kept.append(prim)
                needed.update(map(id, prim.inputs))
                break
    return kept[::-1]


def has_text(prims: Sequence[Prim]) -> bool:
    """Whether any of them takes or gives strings."""
    return DType.STR in [t.dtype for prim in prims for t in (*prim.inputs, *prim.outputs)]


def consumers(prims: Sequence[Prim]) -> dict[Tensor, list[Prim]]:
    """Primitives that use each tensor, in order, once each."""
    uses: dict[Tensor, list[Prim]] = {}
    for prim in prims:
        inputs = prim.inputs
        for tensor in inputs if len(inputs) == 1 else dict.fromkeys(inputs):
            found = uses.get(tensor)
            if found is None:
                uses[tensor] = [prim]
            else:
                found.append(prim)
    return uses


def is_depthwise(prim: Prim | None) -> bool:
    """Whether it is a convolution with one filter per channel."""
    return isinstance(prim, p.Conv) and prim.groups == prim.inputs[0].shape[1] == prim.inputs[1].shape[0] > 1


def _only_multiplied(tensor: Tensor, order: Sequence[int], users: Sequence[Prim]) -> bool:
    """Whether long rows are the left sides of products and nothing else."""
    rank = len(tensor.shape)
    long = rank > 1 and order[-1] == rank - 1 and room_of(tensor.shape[-1]) * tensor.dtype.size % (2 * _PERIOD) == 0
    if not long or tensor.dtype is not DType.F32:
        return False
    left = [u for u in users if isinstance(u, p.MatMul) and u.inputs[0] is tensor and u.inputs[1] is not tensor]
    return 0 < len(users) == len(left) and tensor.shape[-2] > 1


def is_right_side_again(tensor: Tensor, uses: Mapping[Tensor, list[Prim]]) -> bool:
    """Whether several products have the tensor as their right side."""
    return sum(isinstance(user, p.MatMul) and user.inputs[1] is tensor for user in uses.get(tensor, ())) > 1


def row_gap(tensor: Tensor) -> int:
    """Elements to leave unused behind each row of a copy that a product reads, where whole rows would share a few sets
    of a first-level cache."""
    whole = tensor.rank > 1 and room_of(tensor.shape[-1]) * tensor.dtype.size % _PERIOD == 0
    return _gap(tensor.dtype) if whole else 0


def gap(tensor: Tensor, order: Sequence[int], uses: Mapping[Tensor, list[Prim]]) -> int:
    """Elements to leave unused behind the channels of a pixel or behind a row, so that those which are read together
    lie in different cache sets.

    Not zero for what a depthwise convolution reads or writes, channels last, when pixels are a multiple of 2048 bytes
    apart: a window and its neighbours would evict each other. The same for rows that only products read, a multiple of
    4096 bytes long: those of a register tile, and what is read beside them.
    """
    if _only_multiplied(tensor, order, uses.get(tensor, [])):
        return _gap(tensor.dtype)
    if len(tensor.shape) < 3 or order[-1] != 1 or room_of(tensor.shape[1]) * tensor.dtype.size % _PERIOD:
        return 0
    users = uses.get(tensor, [])
    behind = [u for q in users if isinstance(q, p.Pad) for u in uses.get(q.outputs[0], [])]
    if any(is_depthwise(u) for u in (*users, *behind)):
        return _gap(tensor.dtype)
    made = tensor.producer
    for _ in range(_LOOK_BACK):
        if not isinstance(made, p.Map):
            break
        made = next((t.producer for t in made.inputs if t.shape == tensor.shape), None)
    return _gap(tensor.dtype) if is_depthwise(made) else 0
