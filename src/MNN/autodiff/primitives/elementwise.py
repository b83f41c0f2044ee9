"""Elementwise maps: the derivative of their scalar program, summed over what was broadcast.

A norm has no derivative where all of its terms are zero; it is given 0 there, a subgradient, instead of the root's
infinity times the terms' zero. So have deviations of equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.autodiff import scalars
from MNN.autodiff.rules import Cotangents, Wanted, narrow, rule, sum_to
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, BodyBuilder, Instr
from MNN.ir.shape import broadcast
from MNN.ops.core.builder import Builder


@rule(p.Map)
def _map(b: Builder, prim: p.Map, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    outputs = tuple([i for i, t in enumerate(g) if t is not None])
    operands = [narrow(t) for t in (*prim.inputs, *g, *prim.outputs) if t is not None]
    found: list[Tensor | None] = []
    whole = _flat_at_zero(prim.body) if _is_norm(prim) else prim.body
    for number, (t, asked) in enumerate(zip(prim.inputs, wanted, strict=True)):
        made = scalars.gradient(whole, number, outputs) if asked else None
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


def _flat_at_zero(body: Body) -> Body:
    """A program that gives 0, without a slope, where its first operand is 0."""
    s = BodyBuilder()
    operands = [s.arg(dtype) for dtype in body.args]
    zero = s.const(0, body.args[0])
    (root,) = s.inline(body, operands)
    return s.build(s("select", s("eq", operands[0], zero), zero, root))


def _is_norm(prim: p.Map) -> bool:
    """Whether a map is the root of a sum of squares, or of other powers of sizes."""
    code, outputs = prim.body.code, prim.body.outputs
    root = code[outputs[0]]
    if len(outputs) != 1 or root.op not in ("sqrt", "pow") or code[root.args[0]] != Instr("arg", (), root.dtype, 0):
        return False
    if root.op == "pow" and not 0 < _constant(prim, code[root.args[1]]) < 1:
        return False
    total = _behind(prim.inputs[0])
    if not isinstance(total, p.Reduce | p.Window) or total.op not in ("sum", "mean"):
        return False
    terms = _behind(total.inputs[0])
    return isinstance(terms, p.Map) and _never_negative(terms)


def _constant(prim: p.Map, instr: Instr) -> float:
    """The number that an instruction always gives; NaN where there is none."""
    if instr.op == "const":
        return float(instr.number())
    known = prim.inputs[_number(instr)].const if instr.op == "arg" else None
    return float(known.reshape(-1)[0]) if known is not None and known.size == 1 else math.nan


def _behind(tensor: Tensor) -> p.Prim | None:
    """What made a tensor but for its shape, type and size."""
    maker = tensor.producer
    while isinstance(maker, p.Reshape | p.Permute | p.Expand | p.Pad) or (
        isinstance(maker, p.Map)
        and all(i.op in ("arg", "const", "mul", "div", "cast") for i in maker.body.code)
        and not _never_negative(maker)
    ):
        changing = [t for t in maker.inputs if t.const is None]
        if len(changing) != 1:
            break
        maker = changing[0].producer
    return maker


def _never_negative(terms: p.Map) -> bool:
    """Whether terms are squares or powers of sizes."""
    code = terms.body.code
    last = code[terms.body.outputs[0]]
    if last.op == "mul":
        first, second = (code[a] for a in last.args)
        same = last.args[0] == last.args[1]
        return same or (
            first.op == second.op == "arg" and terms.inputs[_number(first)] is terms.inputs[_number(second)]
        )
    if last.op == "pow":
        last = code[last.args[0]]
    if last.op == "arg":  # sizes that another map has made
        maker = terms.inputs[_number(last)].producer
        return isinstance(maker, p.Map) and maker.body.code[maker.body.outputs[0]].op == "abs"
    return last.op == "abs"


def _number(instr: Instr) -> int:
    assert isinstance(instr.value, int)
    return instr.value


def _identity(body: Body) -> bool:
    """Whether a program gives its only operand."""
    return len(body.code) == 1 and body.code[0].op == "arg"
