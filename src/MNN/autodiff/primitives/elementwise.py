"""Elementwise maps: the derivative of their scalar program, summed over what was broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.autodiff import scalars
from MNN.autodiff.rules import Cotangents, Wanted, rule, sum_to
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body
from MNN.ir.shape import broadcast
from MNN.ops.core.builder import Builder


@rule(p.Map)
def _map(b: Builder, prim: p.Map, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    outputs = tuple([i for i, t in enumerate(g) if t is not None])
    operands = [*prim.inputs, *[t for t in g if t is not None]]
    found: list[Tensor | None] = []
    for number, (t, asked) in enumerate(zip(prim.inputs, wanted, strict=True)):
        made = scalars.gradient(prim.body, number, outputs) if asked else None
        if made is None:
            found.append(None)
            continue
        body, chosen = made
        taken = [operands[i] for i in chosen]
        if _identity(body):
            part = taken[0]
        else:
            part = b.emit(p.Map(taken, body=body), (t.dtype, broadcast(*[x.shape for x in taken])))[0]
        found.append(sum_to(b, b.expand(part, prim.outputs[0].shape), t.shape))
    return found


def _identity(body: Body) -> bool:
    """Whether a program gives its only operand."""
    return len(body.code) == 1 and body.code[0].op == "arg"
