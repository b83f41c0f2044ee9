"""A product with weights in few bits of which the two halves are joined, as in gated layers (``silu(gate) * up``).

Both sums are at hand together where a kernel takes columns of each half side by side, so that neither goes through
memory: of 509 rows and 9,728 columns, 20 MB are then neither written nor read again. And where nothing but products
reads what they become, which round it to bf16 for their matrix units, it is stored so: half as much to write and to
read, and the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lowbit import emit_lowbit
from MNN.backends.cpu.lowbit.emit_lowbit import rounds_to_bf16
from MNN.backends.cpu.targets.base import Target
from MNN.compiler.bodies import fused_body, is_literal
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor


@dataclass(frozen=True)
class Halves:
    """The product's group, and the maps that join its halves ``first`` and ``second``."""

    product: Group
    joining: Group
    first: Tensor
    second: Tensor


def find_halves(groups: Sequence[Group], uses: Mapping[Tensor, list[Prim]], outputs: Sequence[Tensor]) -> list[Halves]:
    """Every map of both halves of a product that nothing else looks into, and of nothing besides."""
    alone = {id(g.root): g for g in groups if g.kind == "single" and isinstance(g.root, p.CompressedMatMul)}
    kept = {id(t) for t in outputs}
    found = []
    for group in groups if alone else ():
        halves = _joined_by(group, alone, uses, kept) if group.kind == "map" and group.anchor is None else None
        if halves is not None:
            found.append(halves)
    return found


def _joined_by(
    group: Group, alone: Mapping[int, Group], uses: Mapping[Tensor, list[Prim]], kept: set[int]
) -> Halves | None:
    slices = [t.producer for t in group.inputs() if not is_literal(t)]
    cuts = [q for q in slices if isinstance(q, p.Slice) and set(q.steps) == {1}]
    if len(slices) != 2 or len(cuts) != 2 or group.is_several:
        return None
    cuts.sort(key=lambda q: q.starts[-1])
    source, (first, second) = cuts[0].inputs[0], [q.outputs[0] for q in cuts]
    home = alone.get(id(source.producer))
    n, front = group.shape[-1], (0,) * (source.rank - 1)
    if (
        home is None
        or [tuple(q.starts) for q in cuts] != [(*front, 0), (*front, n)]
        or {first.shape, second.shape} != {group.shape}
        or source.shape != (*group.shape[:-1], 2 * n)
        or cuts[1].inputs[0] is not source
        or {id(t) for t in (source, first, second)} & kept
    ):
        return None
    members = {id(q) for q in group.prims}
    inside = all(id(user) in members for t in (first, second) for user in uses[t])
    return Halves(home, group, first, second) if inside and len(uses[source]) == 2 else None


def emit_halves(e: Emitter, found: Halves, emit_group: Callable[[Group], None]) -> None:
    """Both groups at once where there is a way, else one after the other."""
    prim, out = found.product.root, found.joining.root.outputs[0]
    assert isinstance(prim, p.CompressedMatMul)
    sums = [found.first, found.second]
    body = fused_body(found.joining.prims, sums, [out], dict.fromkeys(sums, DType.F32))
    if not emit_lowbit.emit_halves(e, prim, out, body):
        emit_group(found.product)
        emit_group(found.joining)


def round_joined(
    found: Sequence[Halves], uses: Mapping[Tensor, list[Prim]], outputs: Sequence[Tensor], target: Target
) -> list[Tensor]:
    """Sets the type of what joins halves to bf16 where only products read it that round it to this, and those that
    make it are of matrix units; gives these tensors."""
    chosen = []
    for halves in found:
        prim, out = halves.product.root, halves.joining.root.outputs[0]
        users = uses.get(out, [])
        assert isinstance(prim, p.CompressedMatMul)
        if out.dtype is not DType.F32 or any(out is t for t in outputs) or not users:
            continue
        if rounds_to_bf16(target, prim) and all(
            isinstance(user, p.CompressedMatMul) and user.inputs[0] is out and rounds_to_bf16(target, user)
            for user in users
        ):
            out.retype(DType.BF16)
            chosen.append(out)
    return chosen


__all__ = ["Halves", "emit_halves", "find_halves", "round_joined"]
