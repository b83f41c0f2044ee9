"""Arithmetic of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.aten.creation import zeros_like
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex
from MNN.frontends.torch.element_types import ComplexType
from MNN.frontends.torch.registry import apply
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def made(pairs: Value) -> Complex:
    return Complex(Variable(pairs))


def parts(ctx: TorchBuilder, pairs: Value) -> tuple[Value, Value]:
    """Real and imaginary parts."""
    axis = ctx.const(-1)
    real, imag = (ctx.op("GatherV2", pairs, ctx.const(i), axis) for i in (0, 1))
    return real, imag


def joined(ctx: TorchBuilder, real: Value, imag: Value) -> Value:
    """Pairs of parts, which are brought to a common type and shape."""
    real, imag = ctx.together(real, imag)
    if real.shape is None or real.shape != imag.shape:
        real, imag = (ctx.binary("ADD", x, zeros_like(ctx, y)) for x, y in ((real, imag), (imag, real)))
    axis = ctx.rank_of(real)
    return ctx.op("Concat", ctx.unsqueeze(real, axis), ctx.unsqueeze(imag, axis), axis=axis)


def of_complex(ctx: TorchBuilder, x: Any, like: DType = DType.F32) -> Complex:
    """Any operand as a complex one: a tensor, or a number, whose parts are then of the type ``like``."""
    if isinstance(x, Complex):
        alone = ctx.rank_of(x.numbers(ctx)) == 1
        return made(ctx.cast(x.numbers(ctx), like)) if alone else x
    if isinstance(x, Variable):
        real = ctx.cast(x.read(ctx), like)
        return made(joined(ctx, real, zeros_like(ctx, real)))
    if isinstance(x, (int, float, complex)):
        return made(ctx.const([complex(x).real, complex(x).imag], like))
    raise ctx.unsupported("a number that is known only when the model runs beside complex tensors", ADVICE)


def part_type(ctx: TorchBuilder, *operands: Any) -> DType:
    """Of the parts of what complex operands give; tensors of rank 0 count where there are no others."""
    found: dict[bool, list[DType]] = {True: [], False: []}
    for x in operands:
        if isinstance(x, (Complex, Variable)):
            value = x.numbers(ctx) if isinstance(x, Complex) else x.read(ctx)
            if ctx.type_of(value).is_float:
                found[ctx.rank_of(value) > isinstance(x, Complex)].append(ctx.type_of(value))
    return DType.F64 if DType.F64 in (found[True] or found[False]) else DType.F32


def _real(ctx: TorchBuilder, x: Any) -> Any:
    """A real operand: a number as it is, a tensor with an axis for pairs."""
    if not isinstance(x, Variable):
        return x
    value = ctx.as_float(x.read(ctx))
    return ctx.unsqueeze(value, ctx.rank_of(value)) if ctx.rank_of(value) else value


@COMPLEX.handles("mul", "multiply")
def mul(ctx: TorchBuilder, x: Any, y: Any) -> Complex:
    like = part_type(ctx, x, y)
    x, y = (of_complex(ctx, v, like) if isinstance(v, complex) else v for v in (x, y))
    if not isinstance(x, Complex) or not isinstance(y, Complex):
        z, other = (x, y) if isinstance(x, Complex) else (y, x)
        return made(ctx.binary("MUL", of_complex(ctx, z, like).numbers(ctx), _real(ctx, other)))
    a, b, c, d = (*parts(ctx, x.numbers(ctx)), *parts(ctx, y.numbers(ctx)))
    real = ctx.binary("SUB", ctx.binary("MUL", a, c), ctx.binary("MUL", b, d))
    imag = ctx.binary("ADD", ctx.binary("MUL", a, d), ctx.binary("MUL", b, c))
    return made(joined(ctx, real, imag))


@COMPLEX.handles("div", "divide", "true_divide")
def div(ctx: TorchBuilder, x: Any, y: Any) -> Complex:
    if not isinstance(y, (Complex, complex)):
        return made(ctx.binary("REALDIV", x.numbers(ctx), _real(ctx, y)))
    return mul(ctx, x, reciprocal(ctx, of_complex(ctx, y, part_type(ctx, x))))  # type: ignore[no-any-return]


@COMPLEX.handles("reciprocal")
def reciprocal(ctx: TorchBuilder, z: Complex) -> Complex:
    """The larger part is divided by first, so that squares neither overflow nor vanish."""
    a, b = parts(ctx, z.numbers(ctx))
    most = ctx.binary("MAXIMUM", ctx.unary("ABS", a), ctx.unary("ABS", b))
    a, b = (ctx.binary("REALDIV", v, most) for v in (a, b))
    size = ctx.binary("MUL", ctx.binary("ADD", ctx.unary("SQUARE", a), ctx.unary("SQUARE", b)), most)
    return made(joined(ctx, ctx.binary("REALDIV", a, size), ctx.binary("REALDIV", ctx.unary("NEG", b), size)))


def _sum(ctx: TorchBuilder, kind: str, x: Any, y: Any, alpha: Any) -> Complex:
    like = part_type(ctx, x, y)
    left, right = (of_complex(ctx, v, like) for v in (x, y))
    if alpha != 1:
        right = mul(ctx, right, alpha)
    return made(ctx.binary(kind, left.numbers(ctx), right.numbers(ctx)))


@COMPLEX.handles("add")
def add(ctx: TorchBuilder, x: Any, y: Any, alpha: Any = 1) -> Complex:
    return _sum(ctx, "ADD", x, y, alpha)


@COMPLEX.handles("sub", "subtract")
def sub(ctx: TorchBuilder, x: Any, y: Any, alpha: Any = 1) -> Complex:
    return _sum(ctx, "SUB", x, y, alpha)


@COMPLEX.handles("rsub")
def rsub(ctx: TorchBuilder, x: Any, y: Any, alpha: Any = 1) -> Complex:
    return _sum(ctx, "SUB", y, x, alpha)


@COMPLEX.handles("neg", "negative")
def neg(ctx: TorchBuilder, z: Complex) -> Complex:
    return made(ctx.unary("NEG", z.numbers(ctx)))


def conjugate(ctx: TorchBuilder, pairs: Value) -> Value:
    signs = ctx.const([1, -1], pairs.dtype)
    return ctx.binary("MUL", pairs, signs)


@COMPLEX.handles("conj", "_conj")
def conj(ctx: TorchBuilder, z: Complex) -> Complex:
    """A view, as torch has it."""
    return Complex(
        Variable(conjugate(ctx, z.numbers(ctx)), z.pairs, conjugate, lambda c, below, new: conjugate(c, new))
    )


@COMPLEX.handles("_to_copy", "to")
def to(ctx: TorchBuilder, x: Complex | Variable, dtype: Any = None, **_: Any) -> Complex:
    """In another complex type; of real numbers, with imaginary parts of 0."""
    if dtype is not None and not isinstance(dtype, ComplexType):
        raise ctx.unsupported("a complex tensor as a real one", "take its real part (z.real)")
    if isinstance(x, Complex):
        pairs = x.numbers(ctx)
        return made(pairs if dtype is None else ctx.cast(pairs, dtype.part))
    if dtype is None:
        raise ctx.unsupported("this form of the operator")
    return of_complex(ctx, x, dtype.part)


@COMPLEX.handles("conj_physical", "_conj_physical")
def conj_physical(ctx: TorchBuilder, z: Complex) -> Complex:
    return made(conjugate(ctx, z.numbers(ctx)))


@COMPLEX.handles("abs", "absolute")
def magnitude(ctx: TorchBuilder, z: Complex) -> Variable:
    """Scaled by the larger part, so that squares neither overflow nor vanish."""
    a, b = (ctx.unary("ABS", v) for v in parts(ctx, z.numbers(ctx)))
    most, least = ctx.binary("MAXIMUM", a, b), ctx.binary("MINIMUM", a, b)
    equal = ctx.op("BinaryOp", most, least, opType="EQUAL")  # two zeros, two infinities
    ratio = ctx.op("Select", equal, ctx.const_like(1, most), ctx.binary("REALDIV", least, most))
    root = ctx.unary("SQRT", ctx.binary("ADD", ctx.unary("SQUARE", ratio), ctx.const_like(1, most)))
    return Variable(ctx.binary("MUL", most, root))


@COMPLEX.handles("angle")
def angle(ctx: TorchBuilder, z: Complex | Variable) -> Variable:
    """Of real numbers 0, pi where they are negative, and NaN where they are none."""
    if not isinstance(z, Complex):
        x = ctx.as_float(z.read(ctx))
        turned = apply(ctx, "where", [ctx.binary("LESS", x, 0), ctx.const_like(math.pi, x), ctx.const_like(0, x)], {})
        return Variable(apply(ctx, "where", [apply(ctx, "isnan", [x], {}), x, turned], {}))
    real, imag = parts(ctx, z.numbers(ctx))
    return Variable(ctx.binary("ATAN2", imag, real))


@COMPLEX.handles("polar")
def polar(ctx: TorchBuilder, abs: Variable, angle: Variable) -> Complex:
    size, turn = ctx.together(abs.read(ctx), angle.read(ctx))
    return made(joined(ctx, *(ctx.binary("MUL", size, ctx.unary(kind, turn)) for kind in ("COS", "SIN"))))


@COMPLEX.handles("complex")
def complex_(ctx: TorchBuilder, real: Variable, imag: Variable) -> Complex:
    return made(joined(ctx, real.read(ctx), imag.read(ctx)))


@COMPLEX.handles("sum", "mean")
def reduced(
    ctx: TorchBuilder, z: Complex, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Complex:
    rank = z.rank(ctx)
    dims = [dim] if isinstance(dim, int) else dim or range(rank)
    if dtype is not None:
        z = to(ctx, z, dtype)
    kind = "SUM" if ctx.name == "sum" else "MEAN"
    axes = [d % max(rank, 1) for d in dims]
    if not axes or not rank:
        return z
    return made(ctx.op("Reduction", z.numbers(ctx), operation=kind, dim=axes, keepDims=keepdim))


@COMPLEX.handles("where")
def where(ctx: TorchBuilder, condition: Variable, x: Any, y: Any) -> Complex:
    chosen = condition.read(ctx)
    chosen = ctx.unsqueeze(chosen, ctx.rank_of(chosen)) if ctx.rank_of(chosen) else chosen
    both = [of_complex(ctx, z, part_type(ctx, x, y)) for z in (x, y)]
    return made(ctx.op("Select", chosen, *ctx.together(*(z.numbers(ctx) for z in both))))
