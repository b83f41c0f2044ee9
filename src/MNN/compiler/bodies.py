"""One scalar program out of the maps (and reductions) of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from MNN.compiler.integers.byte_sums import with_short_sums
from MNN.compiler.simplify import simplified
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body, BodyBuilder, Instr

WIDE = {DType.F16: DType.F32, DType.BF16: DType.F32, DType.BF16X2: DType.F32}
"""Types that are accumulated in a wider one."""


class _RowBuilder(BodyBuilder):
    """A body builder that also takes reductions over the row."""

    def reduction(self, op: str, value: int) -> int:
        dtype = DType.I64 if op.startswith("arg") else self.dtype(value)
        return self._add(Instr(f"reduce.{op}", (value,), dtype))


def fused_body(
    prims: Sequence[Prim],
    operands: Sequence[Tensor],
    outputs: Sequence[Tensor],
    given: Mapping[Tensor, DType] | None = None,
) -> Body:
    """The body that computes ``outputs`` from ``operands`` through these primitives.

    ``given`` overrides the dtype in which an operand arrives (an f32 accumulator of an f16 tensor). Single-element
    constants become part of the body when they are not among the operands.
    """
    key = _wiring(prims, operands, outputs, given or {})
    found = _FUSED.get(key)
    if found is None:
        if len(_FUSED) >= _MOST_FUSED:
            _FUSED.clear()
        found = _FUSED[key] = _fused(prims, operands, outputs, given)
    return found


_FUSED: dict[tuple[object, ...], Body] = {}
"""Bodies by what they are made from, which is the same for every size of a network's inputs."""
_MOST_FUSED = 4096


def _wiring(
    prims: Sequence[Prim], operands: Sequence[Tensor], outputs: Sequence[Tensor], given: Mapping[Tensor, DType]
) -> tuple[object, ...]:
    """All that a fused body depends on."""
    at = {t: i for i, t in enumerate(operands)}
    key: list[object] = [(given.get(t, t.dtype), t.dtype) for t in operands]
    for prim in prims:
        key.append((type(prim), prim.body if isinstance(prim, p.Map) else prim.attributes()))
        for t in prim.inputs:
            number = at.get(t)
            if number is None:
                assert t.const is not None, "an operand of the group is missing"
                key.append((t.dtype, t.const.tobytes() if is_literal(t) else None))
            else:
                key.append(number)
        for t in prim.outputs:
            at[t] = len(at)
            key.append(t.dtype)
    key.append(tuple([(at[t], t.dtype) for t in outputs]))
    return tuple(key)


def _fused(
    prims: Sequence[Prim],
    operands: Sequence[Tensor],
    outputs: Sequence[Tensor],
    given: Mapping[Tensor, DType] | None,
) -> Body:
    b = _RowBuilder()
    at: dict[Tensor, int] = {}
    for tensor in operands:
        arrives = (given or {}).get(tensor, tensor.dtype)
        at[tensor] = b.cast(b.arg(arrives), tensor.dtype)
    for prim in prims:
        for t in prim.inputs:
            if t not in at:
                assert is_literal(t), "an operand of the group is missing"
                assert t.const is not None
                at[t] = b.const(t.const.reshape(-1)[0].item(), t.dtype)
        if isinstance(prim, p.Map):
            at.update(zip(prim.outputs, b.inline(prim.body, [at[t] for t in prim.inputs]), strict=True))
        elif isinstance(prim, p.Reduce):
            source = prim.inputs[0].dtype
            wide = b.cast(at[prim.inputs[0]], WIDE.get(source, source))
            at[prim.outputs[0]] = b.cast(b.reduction(prim.op, wide), prim.outputs[0].dtype)
        elif isinstance(prim, p.ArgReduce):
            at[prim.outputs[0]] = b.reduction(prim.op, at[prim.inputs[0]])
        else:
            raise TypeError(f"{type(prim).__name__} cannot be part of a fused body")
    return with_short_sums(simplified(b.build(*(b.cast(at[t], t.dtype) for t in outputs))))


def is_literal(tensor: Tensor) -> bool:
    """Whether a tensor is one number that a body may hold itself."""
    one = tensor.const is not None and tensor.const.size == 1
    return one and not tensor.sized and tensor.dtype is not DType.STR
