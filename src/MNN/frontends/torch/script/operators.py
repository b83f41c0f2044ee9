"""Operators of TorchScript's code: on plain data, on quantised tensors, and those of ATen."""

from __future__ import annotations

from typing import Any

from MNN.errors import UnsupportedError
from MNN.frontends.torch.absent import advice
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import base_name, call
from MNN.frontends.torch.complex.tensor import COMPLEX, Complex
from MNN.frontends.torch.element_types import COMPLEX_PARTS, SCRIPT, ComplexType
from MNN.frontends.torch.layout import Layout
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import ATEN
from MNN.frontends.torch.scalars import compute, known_number
from MNN.frontends.torch.script.builtins import NOT_PLAIN, on_plain, plain
from MNN.frontends.torch.script.open_lists import ADVICE as OPEN_LISTS
from MNN.frontends.torch.script.open_lists import JOINING, as_tensor, is_open, numbers_of, taken_apart
from MNN.frontends.torch.script.quantized import QuantizedTensor
from MNN.frontends.torch.script.quantized_layers import LAYERS
from MNN.frontends.torch.script.quantized_operators import on_quantized, quantized

_CODES = {dtype: code for code, dtype in sorted(SCRIPT.items(), reverse=True)}
"""Element types as TorchScript's code has them: numbers."""
ADVICE = "export the model with torch.export.export, or register the operator"


def operate(ctx: TorchBuilder, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator by its name in the code: ``torch.add``, ``ops.prim.dtype``, ``ops.torchvision.nms``.

    Raises :class:`UnsupportedError` for operators and forms that are not known.
    """
    short = short_name(name)
    before, ctx.where = ctx.where, short
    found = _operate(ctx, name, short, args, kwargs)
    ctx.where = before  # what fails stays named
    return found.itself if isinstance(found, Variable) else found


def _operate(ctx: TorchBuilder, name: str, short: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    found = plain(ctx, short, args, kwargs)
    if found is not NOT_PLAIN:
        return found
    if any(is_open(a) for a in args):
        if short not in JOINING or not is_open(args[0]):
            raise ctx.unsupported("a list of a length known only at run time as an operand", OPEN_LISTS)
        return as_tensor(ctx, short, args, kwargs)
    if short == "tolist" and isinstance(args[0], Variable):
        return numbers_of(ctx, args[0])
    if short == "unbind" and isinstance(args[0], Variable):
        parts = taken_apart(ctx, *args, **({"axis": kwargs["dim"]} if "dim" in kwargs else {}))
        if parts is not None:
            return parts
    if short in _TENSORS and args and isinstance(args[0], (Variable, QuantizedTensor)):
        return _of_tensor(ctx, short, args)
    if name.startswith(("ops.quantized.", "ops._quantized.")) or any(
        isinstance(a, QuantizedTensor) for a in _flat(args)
    ):
        return quantized(ctx, short, args, kwargs)
    if short in ("quantize_per_tensor", "quantize_per_channel") or short in LAYERS:
        return quantized(ctx, short, args, kwargs)
    if short in _OF_COMPLEX and args and isinstance(args[0], Complex):
        return _of_complex(ctx, short, *args)
    if ATEN.find(base_name(short)) is None and COMPLEX.find(base_name(short)) is None:
        raise UnknownOperatorError(f"{short}: no such operator here; {advice(short, ADVICE)}")
    if kwargs.get("dtype") in COMPLEX_PARTS:
        kwargs = {**kwargs, "dtype": ComplexType(COMPLEX_PARTS[kwargs["dtype"]])}
    return _numbers(ctx, call(ctx, short, args, kwargs))


class UnknownOperatorError(UnsupportedError):
    """An operator that there is not here."""


def is_known(name: str) -> bool:
    """Whether there is an operator of this name, on operands of some kind."""
    short = short_name(name)
    found = ATEN.find(base_name(short)) or COMPLEX.find(base_name(short))
    return found is not None or short in _TENSORS or short in LAYERS or on_plain(short) or on_quantized(short)


def short_name(name: str) -> str:
    """The operator's name in the table."""
    parts = name.split(".")
    if parts[0] == "torch":
        return parts[-1]
    if parts[0] == "ops" and len(parts) >= 3:
        return parts[-1] if parts[1] in ("aten", "prim", "prims", "quantized", "_quantized") else ".".join(parts[1:])
    return name


def _flat(args: list[Any]) -> list[Any]:
    return [b for a in args for b in (a if isinstance(a, (list, tuple)) else [a])]


def _numbers(ctx: TorchBuilder, found: Any) -> Any:
    return known_number(ctx, found) if isinstance(found, Number) else found


_TENSORS = frozenset(
    ("size", "dim", "len", "dtype", "ndim", "ndimension", "shape", "numel", "__contains__", "is_floating_point",
     "itemsize", "element_size", "stride", "storage_offset", "is_contiguous", "grad", "requires_grad", "tolist",
     "get_device", "is_complex")
)  # fmt: skip


_OF_COMPLEX = frozenset(("size", "shape", "dim", "ndim", "ndimension", "is_complex", "is_floating_point"))


def _of_complex(ctx: TorchBuilder, name: str, z: Complex, dim: Any = None) -> Any:
    """The same of complex tensors, whose pairs have an axis more."""
    rank = z.rank(ctx)
    if name.startswith("is_"):
        return name == "is_complex"
    if name.endswith(("dim", "dimension")):
        return rank
    sizes = ctx.sizes(z.numbers(ctx))[:rank]
    return sizes if dim is None else sizes[ctx.known(dim, "a dimension")]


def _of_tensor(ctx: TorchBuilder, name: str, args: list[Any]) -> Any:
    """What is known of a tensor."""
    given = args[0]
    x = given.value if isinstance(given, QuantizedTensor) else given.read(ctx)
    if name == "size" and len(args) > 1:
        return ctx.size(x, ctx.known(args[1], "a dimension"))
    if name in ("size", "shape"):
        return ctx.sizes(x)
    if name in ("dim", "ndim", "ndimension"):
        return ctx.rank_of(x)
    if name == "len":
        return ctx.size(x, 0)
    if name == "dtype":
        return _CODES[ctx.type_of(x)]
    if name == "numel":
        return _numbers(ctx, _product(ctx, ctx.sizes(x)))
    if name == "is_floating_point":
        return ctx.type_of(x).is_float
    if name in ("itemsize", "element_size"):
        return ctx.type_of(x).size
    layout = given.layout if isinstance(given, Variable) else None
    if name == "stride":
        sizes = ctx.sizes(x)
        strides = [_product(ctx, sizes[i + 1 :]) for i in range(len(sizes))]
        if layout is not None and not layout.in_order and all(isinstance(n, int) for n in layout.strides):
            strides = list(layout.strides)
        return strides if len(args) < 2 else strides[ctx.axis(x, args[1])]
    if name == "storage_offset" and not (isinstance(given, Variable) and given.is_view):
        return 0
    if name == "is_contiguous":
        return _in_order(layout, args[1] if len(args) > 1 else 0)
    if name in ("requires_grad", "is_complex"):
        return False
    if name == "grad":
        return None
    if name == "get_device":
        return -1
    raise ctx.unsupported(f"'{name}' of a tensor")


def _in_order(layout: Layout | None, memory_format: Any) -> bool:
    """Whether elements lie in order, that of channels last if it is asked for. What is not known is taken for so."""
    if layout is not None and memory_format in (2, 3) and len(layout.sizes) == memory_format + 2:
        layout = layout.permuted([0, *range(2, len(layout.sizes)), 1])
    return layout is None or layout.in_order is not False


def _product(ctx: TorchBuilder, numbers: list[Any]) -> Any:
    total: Any = 1
    for n in numbers:
        total = compute(ctx, "mul", total, n)
    return total


__all__ = ["ADVICE", "UnknownOperatorError", "is_known", "operate", "short_name"]
