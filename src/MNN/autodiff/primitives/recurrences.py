"""Recurrent layers: backpropagation through time (Werbos, 1990) over the steps, written out.

The steps are computed again, one by one, from products and maps, and these are differentiated: intermediate states that
the recurrence itself does not give are then at hand, and second derivatives too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.autodiff.backward import gradients
from MNN.autodiff.row_products import transposed
from MNN.autodiff.rules import Cotangents, Wanted, rule
from MNN.errors import UnsupportedError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, BodyBuilder
from MNN.ops.core.builder import Builder


@rule(p.Recurrence)
def _recurrence(b: Builder, prim: p.Recurrence, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    if prim.quantized:
        raise UnsupportedError(
            f"{prim.origin}: a recurrent layer of 8-bit integers has no gradient; train it in floats"
        )
    fresh = [_fresh(b, t) if asked else t for t, asked in zip(prim.inputs, wanted, strict=True)]
    outputs = steps(b, prim, fresh)
    chosen = [i for i, asked in enumerate(wanted) if asked]
    found = gradients(b, outputs, g, [fresh[i] for i in chosen])
    made: list[Tensor | None] = [None] * len(fresh)
    for i, t in zip(chosen, found, strict=True):
        made[i] = t
    return made


def _fresh(b: Builder, x: Tensor) -> Tensor:
    """The same tensor behind a map of its own, at which differentiation ends."""
    same = BodyBuilder()
    return b.emit(p.Map([x], body=same.build(same.arg(x.dtype))), (x.dtype, x.shape))[0]


def steps(b: Builder, prim: p.Recurrence, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results of a recurrence as :class:`MNN.ir.prims.Recurrence` says, from other primitives."""
    given, r = inputs[:2]
    count, batch, directions, width = given.shape
    hidden, gates = width // prim.gates, prim.gates
    b.expect(count * (8 + 4 * gates))
    states = list(inputs[2 : 2 + prim.states])
    after = 2 + prim.states + prim.parameters
    parameters = [b.reshape(t, (directions, 1, hidden)) for t in inputs[2 + prim.states : after]]
    weights = transposed(b, r)  # [D, H, G * H]
    direct = gates - (prim.first is not None)
    straight = b.slice(weights, (0, 0, 0), (directions, hidden, direct * hidden))
    rest = b.slice(weights, (0, 0, direct * hidden), (directions, hidden, width - direct * hidden))
    lines: list[list[Tensor]] = [[] for _ in range(directions)]
    for k in range(count):
        times = [count - 1 - k if back else k for back in prim.reverse]
        now = _rows(b, given, times)
        parts = _gates(b, now, gates, hidden)
        products = _gates(b, b.matmul(states[0], straight), direct, hidden)
        if prim.first is not None:
            factor = _run(b, prim.first, [*parts, *products, *states, *parameters])[0]
            products = [*products, b.matmul(factor, rest)]
        new = _run(b, prim.body, [*parts, *products, *states, *parameters])
        out = new[0]
        if prim.limited:
            inside = _inside(b, times, inputs[after], (directions, batch))
            out = b.map(_masked, inside, out)
            new = [
                b.map(lambda s, m, a, z: s("select", m, a, z), inside, a, z) for a, z in zip(new, states, strict=True)
            ]
        states = new
        for d in range(directions):
            lines[d].append(b.slice(out, (d, 0, 0), (1, batch, hidden)))
    for d, back in enumerate(prim.reverse):
        lines[d] = lines[d][::-1] if back else lines[d]
    whole = [b.concat(line, 0) for line in lines]
    y = b.concat([b.reshape(t, (count, 1, batch, hidden)) for t in whole], 1)
    return [y, *states]


def _masked(s: BodyBuilder, inside: int, x: int) -> int:
    return s("select", inside, x, s.const(0.0, s.dtype(x)))


def _rows(b: Builder, given: Tensor, times: Sequence[int]) -> Tensor:
    """``[D, B, G * H]``: what each direction is given in a step."""
    _, batch, _, width = given.shape
    rows = [b.slice(given, (t, 0, d, 0), (1, batch, 1, width)) for d, t in enumerate(times)]
    return b.concat([b.reshape(t, (1, batch, width)) for t in rows], 0)


def _gates(b: Builder, x: Tensor, count: int, hidden: int) -> list[Tensor]:
    return [b.slice(x, (0, 0, i * hidden), (*x.shape[:2], hidden)) for i in range(count)]


def _run(b: Builder, body: Body, operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of a scalar program on tensors that broadcast, each by a map of its own."""
    shape = (operands[0].shape[0], max(t.shape[1] for t in operands), operands[0].shape[2])
    found = []
    for o in body.outputs:
        alone = Body(body.args, body.code, (o,))
        found.append(b.emit(p.Map(list(operands), body=alone), (body.code[o].dtype, shape))[0])
    return found


def _inside(b: Builder, times: Sequence[int], lengths: Tensor, sizes: tuple[int, int]) -> Tensor:
    """Whether each sequence reaches to the step, ``[D, B, 1]``."""
    step = b.const(np.asarray(times, np.int64).reshape(-1, 1, 1))
    long = b.reshape(b.cast(lengths, DType.I64), (1, sizes[1], 1))
    return b.op("lt", step, long)


__all__ = ["steps"]
