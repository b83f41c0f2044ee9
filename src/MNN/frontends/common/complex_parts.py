"""Complex numbers of formats that have them: real and imaginary parts, beside each other or as pairs along a last axis.

The engine has no complex tensors. What only arranges, adds or sums is done to both parts by itself; Fourier transforms
take and give pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@dataclass(frozen=True)
class Parts:
    """A complex tensor; both have its shape."""

    real: Value
    imag: Value

    def __iter__(self) -> Iterator[Value]:
        return iter((self.real, self.imag))


def paired(ctx: GraphBuilder, z: Parts, rank: int) -> Value:
    """``[..., 2]`` of a tensor with ``rank`` axes."""
    out = ctx.op("Pack", z.real, z.imag, axis=rank)
    out.dtype = z.real.dtype
    return out


def parted(ctx: GraphBuilder, pairs: Value) -> Parts:
    """The parts of ``[..., 2]``."""
    real, imag = (ctx.op("GatherV2", pairs, ctx.const(i, DType.I32), ctx.const(-1, DType.I32)) for i in (0, 1))
    real.dtype = imag.dtype = pairs.dtype
    return Parts(real, imag)


def product(ctx: GraphBuilder, x: Parts, y: Parts) -> Parts:
    """Element by element."""

    def mul(a: Value, b: Value) -> Value:
        return binary(ctx, "MUL", a, b)

    return Parts(
        binary(ctx, "SUB", mul(x.real, y.real), mul(x.imag, y.imag)),
        binary(ctx, "ADD", mul(x.real, y.imag), mul(x.imag, y.real)),
    )


def quotient(ctx: GraphBuilder, x: Parts, y: Parts) -> Parts:
    """Element by element: ``x`` times the conjugate of ``y`` over its square."""
    size = binary(ctx, "ADD", unary(ctx, "SQUARE", y.real), unary(ctx, "SQUARE", y.imag))
    above = product(ctx, x, Parts(y.real, unary(ctx, "NEG", y.imag)))
    return Parts(binary(ctx, "REALDIV", above.real, size), binary(ctx, "REALDIV", above.imag, size))


def magnitude(ctx: GraphBuilder, z: Parts) -> Value:
    return unary(ctx, "SQRT", binary(ctx, "ADD", unary(ctx, "SQUARE", z.real), unary(ctx, "SQUARE", z.imag)))


def transformed(
    ctx: GraphBuilder,
    pairs: Value,
    axes: Sequence[int],
    lengths: Sequence[int | Value | None],
    inverse: bool = False,
    half: bool = False,
) -> Value:
    """Discrete Fourier transforms of ``[..., 1 or 2]`` over ``axes``, each cut or filled up with zeros to its length.

    ``half``: the last of ``axes`` has real numbers on one side (``[..., 1]``), and the ``n // 2 + 1`` numbers that tell
    the rest of a spectrum on the other. Inverses are divided by their lengths. A length is a scalar i64 where it is
    known only when the model runs.
    """
    steps = list(zip(axes, lengths, strict=True))
    for axis, length in steps if inverse else reversed(steps):
        given = [] if length is None else [length if isinstance(length, Value) else ctx.const(length, DType.I64)]
        onesided = half and axis == axes[-1]
        out = ctx.op("DFT", pairs, *given, axis=axis, inverse=inverse, onesided=onesided)
        out.dtype = pairs.dtype
        pairs = out
    return pairs
