"""Operators of complex tensors that are made of the same operator on real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.complex.arithmetic import joined, made, mul, part_type, parts, to
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex
from MNN.frontends.torch.element_types import ComplexType
from MNN.frontends.torch.registry import apply
from MNN.frontends.torch.views import PARTS, VIEWS
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _taken(ctx: TorchBuilder, x: Any, part: int) -> Any:
    """Arguments with one part of each complex tensor; real ones have no imaginary part."""
    if isinstance(x, Complex):
        return Variable(parts(ctx, x.numbers(ctx))[part])
    if isinstance(x, complex):
        return x.imag if part else x.real
    return [_taken(ctx, v, part) for v in x] if isinstance(x, (list, tuple)) else x


def _moved(name: str) -> Callable[..., Any]:
    """Elements at other places: both parts alike."""

    def handler(ctx: TorchBuilder, z: Any, *args: Any, **named: Any) -> Any:
        kind = named.get("dtype")
        if isinstance(kind, ComplexType):
            z, named = to(ctx, z, kind), {**named, "dtype": kind.part}
        given = [z, *args]
        if any(isinstance(v, Variable) and ctx.type_of(v.read(ctx)).is_float for v in [*given, *named.values()]):
            raise ctx.unsupported("real tensors beside complex ones", ADVICE)
        both = [
            call(ctx, name, _taken(ctx, given, i), {k: _taken(ctx, v, i) for k, v in named.items()}) for i in (0, 1)
        ]
        if isinstance(both[0], list):
            return [_paired(ctx, name, z, *pair) for pair in zip(*both, strict=True)]
        return _paired(ctx, name, z, *both)

    return handler


def _paired(ctx: TorchBuilder, name: str, z: Any, real: Variable, imag: Variable) -> Complex:
    """Where PyTorch gives a view, neither it nor what it shows can be written afterwards, and both be read."""
    made_of = made(joined(ctx, real.read(ctx), imag.read(ctx)))
    if name in VIEWS or name in PARTS:
        made_of.pairs.copied_from(z.pairs)
    return made_of


for _name in (
    "t", "mT", "numpy_T", "swapdims", "movedim", "moveaxis", "flip", "tril", "triu", "diagonal", "diag", "diag_embed",
    "unfold", "gather", "index", "take", "take_along_dim", "tile", "rot90", "split", "split_with_sizes", "chunk",
    "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "expand_as", "broadcast_to", "unflatten", "ravel",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "repeat_interleave", "masked_select", "cumsum", "trace",
    "fliplr", "flipud", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "index_put", "scatter", "scatter_add",
    "index_add", "diagonal_scatter", "t_copy", "permute_copy", "transpose_copy", "unsqueeze_copy", "squeeze_copy",
    "select_copy", "slice_copy", "view_copy", "expand_copy", "unbind_copy", "split_copy", "split_with_sizes_copy",
    "diagonal_copy", "unfold_copy", "alias_copy", "reflection_pad1d", "replication_pad1d", "reflection_pad2d",
    "replication_pad2d", "hstack", "vstack", "dstack", "zero", "fill", "masked_fill", "nan_to_num",
):  # fmt: skip
    COMPLEX.handles(_name)(_moved(_name))


@COMPLEX.handles("mH", "adjoint", "matrix_H")
def adjoint(ctx: TorchBuilder, z: Complex) -> Complex:
    turned = _moved("mT")(ctx, z)
    return call(ctx, "conj", [turned], {})  # type: ignore[no-any-return]


@COMPLEX.handles("view_as", "reshape_as")
def view_as(ctx: TorchBuilder, z: Complex, other: Any) -> Any:
    sizes = ctx.sizes(other.numbers(ctx))[:-1] if isinstance(other, Complex) else ctx.sizes(other.read(ctx))
    return call(ctx, "reshape", [z, sizes], {})


def bilinear(ctx: TorchBuilder, name: str, operands: list[Any], before: list[Any], after: list[Any]) -> Complex:
    """A product of two tensors, complex or real, of which it is a sum of products of parts."""
    kind = part_type(ctx, *operands)

    def product(i: int, j: int) -> Value | None:
        taken = []
        for x, part in zip(operands, (i, j), strict=True):
            if isinstance(x, Complex):
                taken.append(parts(ctx, x.numbers(ctx))[part])
            elif part:
                return None
            else:
                taken.append(ctx.cast(x.read(ctx), kind))
        rest = [taken] if name == "einsum" else taken
        return apply(ctx, name, [*before, *rest, *after], {})  # type: ignore[no-any-return]

    def total(kind: str, x: Value | None, y: Value | None) -> Value:
        if x is None or y is None:
            found = x if y is None else y if kind == "ADD" else ctx.unary("NEG", y)
            assert found is not None
            return found
        return ctx.binary(kind, x, y)

    real = total("SUB", product(0, 0), product(1, 1))
    return made(joined(ctx, real, total("ADD", product(0, 1), product(1, 0))))


def _product(name: str) -> None:
    def handler(ctx: TorchBuilder, x: Any, y: Any, *rest: Any) -> Complex:
        return bilinear(ctx, name, [x, y], [], list(rest))

    COMPLEX.handles(name)(handler)


for _name in ("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "ger", "kron", "linear", "linalg_matmul"):
    _product(_name)


@COMPLEX.handles("einsum")
def einsum(ctx: TorchBuilder, equation: str, operands: list[Any], path: Any = None) -> Any:
    if len(operands) == 1:
        both = [apply(ctx, "einsum", [equation, [p]], {}) for p in parts(ctx, operands[0].numbers(ctx))]
        return made(joined(ctx, *both))
    if len(operands) != 2:
        raise ctx.unsupported("einsum of more than two complex operands", "take them two by two")
    return bilinear(ctx, "einsum", operands, [equation], [])


@COMPLEX.handles("vdot")
def vdot(ctx: TorchBuilder, x: Any, y: Any) -> Complex:
    return bilinear(ctx, "dot", [call(ctx, "conj", [x], {}) if isinstance(x, Complex) else x, y], [], [])


@COMPLEX.handles(
    "zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty", "zeros_like", "ones_like", "empty_like"
)
def filled(ctx: TorchBuilder, like: Any, *args: Any, dtype: Any = None, **_: Any) -> Any:
    """With sizes, or in the shape of a tensor; of a complex type unless another is asked for."""
    name = ctx.name
    size = args[0] if name.startswith("new_") else like
    if isinstance(size, (Complex, Variable)):
        sizes = ctx.sizes(size.numbers(ctx))[:-1] if isinstance(size, Complex) else ctx.sizes(size.read(ctx))
    else:
        sizes = list(size)
    plain = "ones" if "ones" in name else "zeros"
    if dtype is not None and not isinstance(dtype, ComplexType):
        return call(ctx, plain, [sizes], {"dtype": dtype})
    kind = dtype.part if dtype is not None else part_type(ctx, like)
    real, imag = (apply(ctx, n, [sizes], {"dtype": kind}) for n in (plain, "zeros"))
    return made(joined(ctx, real, imag))


@COMPLEX.handles("full", "scalar_tensor", "full_like")
def full(ctx: TorchBuilder, first: Any, value: Any = 0, *, dtype: Any = None, **_: Any) -> Any:
    if ctx.name == "scalar_tensor":
        first, value = [], first
    if dtype is not None and not isinstance(dtype, ComplexType):
        raise ctx.unsupported("a complex number as a real one", ADVICE)
    ones = call(
        ctx, "ones_like" if ctx.name == "full_like" else "ones", [first], {"dtype": dtype or ComplexType(DType.F32)}
    )
    return mul(ctx, ones, value)
