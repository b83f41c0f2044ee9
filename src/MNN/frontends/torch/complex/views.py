"""Views of complex tensors are views of their pairs, so that what is written to one is seen in the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex

Sizes = Sequence[Any]


def _view(ctx: TorchBuilder, name: str, z: Complex, *rest: Any) -> Complex:
    return Complex(call(ctx, name, [z.pairs, *rest], {}))


def _axis(ctx: TorchBuilder, z: Complex, dim: int, more: int = 0) -> int:
    """An axis counted from the front, where that of the pairs makes no difference."""
    rank = z.rank(ctx) + more
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise ctx.unsupported(f"dimension {dim} of a tensor of rank {rank}", "is the file damaged?")
    return dim % max(rank, 1)


@COMPLEX.handles("view_as_complex")
def view_as_complex(ctx: TorchBuilder, x: Variable) -> Complex:
    return Complex(x)


@COMPLEX.handles("view_as_real", "view_as_real_copy")
def view_as_real(ctx: TorchBuilder, z: Complex) -> Variable:
    return z.pairs


@COMPLEX.handles("real")
def real(ctx: TorchBuilder, z: Complex | Variable) -> Any:
    return call(ctx, "select", [z.pairs, -1, 0], {}) if isinstance(z, Complex) else z


@COMPLEX.handles("imag")
def imag(ctx: TorchBuilder, z: Complex) -> Any:
    return call(ctx, "select", [z.pairs, -1, 1], {})


@COMPLEX.handles("alias", "detach", "contiguous", "lift_fresh", "resolve_conj", "resolve_neg")
def same(ctx: TorchBuilder, z: Complex, **_: Any) -> Complex:
    return z


@COMPLEX.handles("clone", "lift_fresh_copy", "detach_copy")
def clone(ctx: TorchBuilder, z: Complex, **_: Any) -> Complex:
    return Complex(Variable(z.numbers(ctx)))


def _resized(name: str) -> Callable[..., Complex]:
    def handler(ctx: TorchBuilder, z: Complex, size: Sizes, **_: Any) -> Complex:
        return _view(ctx, name, z, [*size, 1 if name == "repeat" else 2])

    return handler


for _name in ("view", "reshape", "_unsafe_view", "expand", "repeat"):
    COMPLEX.handles(_name)(_resized(_name))


@COMPLEX.handles("flatten")
def flatten(ctx: TorchBuilder, z: Complex, start_dim: int = 0, end_dim: int = -1) -> Complex:
    if z.rank(ctx) == 0:
        return _view(ctx, "unsqueeze", z, 0)
    return _view(ctx, "flatten", z, _axis(ctx, z, start_dim), _axis(ctx, z, end_dim))


@COMPLEX.handles("permute")
def permute(ctx: TorchBuilder, z: Complex, dims: Sequence[int]) -> Complex:
    return _view(ctx, "permute", z, [*[_axis(ctx, z, d) for d in dims], z.rank(ctx)])


@COMPLEX.handles("transpose", "swapaxes")
def transpose(ctx: TorchBuilder, z: Complex, dim0: int, dim1: int) -> Complex:
    return _view(ctx, "transpose", z, _axis(ctx, z, dim0), _axis(ctx, z, dim1))


@COMPLEX.handles("unsqueeze")
def unsqueeze(ctx: TorchBuilder, z: Complex, dim: int) -> Complex:
    return _view(ctx, "unsqueeze", z, _axis(ctx, z, dim, 1))


@COMPLEX.handles("squeeze")
def squeeze(ctx: TorchBuilder, z: Complex, dim: int | Sequence[int] | None = None) -> Complex:
    if dim is None:  # the pairs' axis is of size 2
        return _view(ctx, "squeeze", z)
    dims = [dim] if isinstance(dim, int) else dim
    return _view(ctx, "squeeze", z, [_axis(ctx, z, d) for d in dims])


@COMPLEX.handles("select")
def select(ctx: TorchBuilder, z: Complex, dim: int, index: Any) -> Complex:
    return _view(ctx, "select", z, _axis(ctx, z, dim), index)


@COMPLEX.handles("slice")
def slice_(ctx: TorchBuilder, z: Complex, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Complex:
    return _view(ctx, "slice", z, _axis(ctx, z, dim), start, end, step)


@COMPLEX.handles("narrow")
def narrow(ctx: TorchBuilder, z: Complex, dim: int, start: Any, length: Any) -> Complex:
    return _view(ctx, "narrow", z, _axis(ctx, z, dim), start, length)


@COMPLEX.handles("roll")
def roll(ctx: TorchBuilder, z: Complex, shifts: Sequence[int], dims: Sequence[int] = ()) -> Complex:
    if not dims:
        raise ctx.unsupported("rolling all elements of a complex tensor", "name the dimensions")
    return _view(ctx, "roll", z, shifts, [_axis(ctx, z, d) for d in dims])


@COMPLEX.handles("index_select")
def index_select(ctx: TorchBuilder, z: Complex, dim: int, index: Any) -> Complex:
    return _view(ctx, "index_select", z, _axis(ctx, z, dim), index)


@COMPLEX.handles("constant_pad_nd")
def constant_pad_nd(ctx: TorchBuilder, z: Complex, pad: Sequence[Any], value: Any = 0) -> Complex:
    if value != 0:
        raise ctx.unsupported("padding complex tensors with other numbers than 0", ADVICE)
    return _view(ctx, "constant_pad_nd", z, [0, 0, *pad], 0)


@COMPLEX.handles("select_scatter", "slice_scatter")
def scattered(ctx: TorchBuilder, z: Complex, source: Any, dim: int, *rest: Any) -> Complex:
    if not isinstance(source, Complex):
        raise ctx.unsupported("writing real numbers to a complex tensor", ADVICE)
    return _view(ctx, ctx.name, z, source.pairs, _axis(ctx, z, dim), *rest)


@COMPLEX.handles("copy")
def copy(ctx: TorchBuilder, z: Complex, source: Any, *_: Any) -> Complex:
    if not isinstance(source, Complex):
        raise ctx.unsupported("writing real numbers to a complex tensor", ADVICE)
    return _view(ctx, "copy", z, source.pairs)


@COMPLEX.handles("cat", "stack", "concat")
def joined(ctx: TorchBuilder, tensors: Sequence[Any], dim: int = 0) -> Complex:
    if not all(isinstance(z, Complex) for z in tensors):
        raise ctx.unsupported("real tensors beside complex ones", ADVICE)
    axis = _axis(ctx, tensors[0], dim, int(ctx.name == "stack"))
    return Complex(call(ctx, ctx.name, [[z.pairs for z in tensors], axis], {}))
