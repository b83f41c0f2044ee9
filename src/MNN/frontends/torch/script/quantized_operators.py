"""Operators on quantised tensors in TorchScript (eager mode quantisation): quantised in, quantised out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.common.dynamic_products import dynamic_bytes
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.aten.convolution import conv, conv_transpose
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call, values
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import apply
from MNN.frontends.torch.script.quantized import PackedWeights, QuantizedTensor, quantize
from MNN.frontends.torch.script.quantized_layers import LAYERS
from MNN.frontends.torch.unpickle import ScriptObject, StoredTensor
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_KEPT = frozenset(
    (
        "max_pool2d", "max_pool1d", "relu", "flatten", "reshape", "view", "permute", "transpose", "squeeze",
        "unsqueeze",
        "slice", "select", "cat", "contiguous", "clone", "dropout", "hardtanh", "relu6", "clamp", "chunk", "split",
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
        "mean", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d",
        "detach", "pad", "stack", "flip", "index_select", "expand", "view_as", "narrow", "unbind", "masked_fill",
        "unflatten",
    )
)  # fmt: skip
"""Operators whose result has the scale of their first operand."""


def on_quantized(name: str) -> bool:
    """Whether an operator takes or gives quantised tensors."""
    return name in _OPERATORS or name.rstrip("_") in _KEPT


def quantized(ctx: TorchBuilder, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator that takes or gives quantised tensors. Raises :class:`UnsupportedError`."""
    ctx.where = f"{name} of quantised tensors"
    if name in _OPERATORS:
        return _OPERATORS[name](ctx, *args, **kwargs)
    plain = name.rstrip("_")
    if plain in _KEPT:
        return _kept(ctx, plain, args, kwargs)
    raise UnsupportedError(f"{name} of quantised tensors is not supported; export the model with PT2E quantisation")


def _kept(ctx: TorchBuilder, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    first = next(
        v for a in args for v in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(v, QuantizedTensor)
    )
    given = [_real(ctx, a) for a in args]
    found = call(ctx, name, given, kwargs)
    if isinstance(found, (list, tuple)):
        return [quantize(ctx, values(ctx, v), first.scale, first.zero) for v in found]
    return quantize(ctx, values(ctx, found), first.scale, first.zero)


def _real(ctx: TorchBuilder, x: Any) -> Any:
    if isinstance(x, QuantizedTensor):
        return x.real(ctx)
    if isinstance(x, (list, tuple)):
        return [_real(ctx, v) for v in x]
    return values(ctx, x)


def _number(ctx: TorchBuilder, x: Any, dtype: DType) -> Value:
    if isinstance(x, Variable):
        value = ctx.cast_known(x.read(ctx), dtype)
        known = ctx.constant(value)
        return value if known is None else ctx.const(known.reshape(()))
    return ctx.scalar(x, dtype)


def _quantize(ctx: TorchBuilder, x: Any, scale: Any, zero: Any, dtype: Any) -> QuantizedTensor:
    kind = ctx.element_type(dtype)
    return quantize(ctx, _real(ctx, x), _number(ctx, scale, DType.F32), _number(ctx, zero, kind))


def _per_channel(ctx: TorchBuilder, x: Any, scales: Any, zeros: Any, axis: int, dtype: Any) -> QuantizedTensor:
    kind = ctx.element_type(dtype)
    scale, zero = ctx.cast_known(scales.read(ctx), DType.F32), ctx.cast_known(zeros.read(ctx), kind)
    return quantize(ctx, _real(ctx, x), scale, zero, axis)


def _result(ctx: TorchBuilder, x: Value, scale: Any, zero: Any) -> QuantizedTensor:
    """Activations are u8."""
    return quantize(ctx, x, _number(ctx, scale, DType.F32), _number(ctx, zero, DType.U8))


def _packed(ctx: TorchBuilder, packed: Any, rank: int = 0) -> tuple[Value, Value | None, dict[str, list[int]]]:
    """The weights (as the floats that they stand for), biases and sizes of a packed parameter. ``rank``: that of what
    is convolved; parameters for lines are stored as those for images of height 1."""
    if isinstance(packed, PackedWeights):
        whole = packed.weight.real(ctx)
        whole.shape = packed.weight.value.shape
        return whole, packed.bias, packed.geometry
    if not isinstance(packed, ScriptObject):
        raise UnsupportedError("packed weights of an unknown form are not supported")
    held = packed.state[0] if isinstance(packed.state, tuple) and len(packed.state) == 1 else packed.state
    if "Conv" in packed.kind:
        _, tensors, optional = held if isinstance(held[0], str) else ("", held[0], held[1])
        listed = tensors[0].array().reshape(-1).astype(np.int64).tolist()
        count = int(listed[0])
        names = ("stride", "padding", "dilation", "output_padding")
        sizes = {n: listed[1 + i * count : 1 + (i + 1) * count] for i, n in enumerate(names)}
        sizes["groups"] = [listed[1 + 4 * count]]
        weight, bias = tensors[1], optional[0] if optional else None
    else:
        weight, bias = held[0], held[1]
        sizes = {}
    if not isinstance(weight, StoredTensor):
        raise UnsupportedError("packed weights of an unknown form are not supported")
    axis = 0 if weight.axis is None else weight.axis
    scale, zero = (v.array() if isinstance(v, StoredTensor) else np.asarray(v) for v in (weight.scale, weight.zero))
    numbers = weight.array()
    if rank and numbers.ndim == rank + 1:
        numbers = numbers.reshape(*numbers.shape[:2], *numbers.shape[3:])
        sizes = {n: v[-1:] for n, v in sizes.items()}
    value = ctx.const(numbers)
    steps = ctx.const(scale.astype(np.float32)), ctx.const(zero.astype(np.int8))
    whole = ctx.op("DequantizeLinear", value, *steps, axis=axis)
    whole.shape = value.shape
    return whole, (ctx.const(bias.array()) if isinstance(bias, StoredTensor) else None), sizes


def _prepacked(
    ctx: TorchBuilder, weight: QuantizedTensor, bias: Any, stride: Any = (), padding: Any = (), dilation: Any = (),
    groups: int = 1,
) -> PackedWeights:  # fmt: skip
    """Zero points of weights are stored as i64."""
    zero = ctx.cast_known(weight.zero, ctx.type_of(weight.value))
    held = QuantizedTensor(weight.value, ctx.cast_known(weight.scale, DType.F32), zero, weight.axis)
    sizes = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": [groups]}
    return PackedWeights(held, None if bias is None else values(ctx, bias), sizes)


def _prepacked_transposed(
    ctx: TorchBuilder, weight: QuantizedTensor, bias: Any, stride: Any = (), padding: Any = (),
    output_padding: Any = (), dilation: Any = (), groups: int = 1,
) -> PackedWeights:  # fmt: skip
    made = _prepacked(ctx, weight, bias, stride, padding, dilation, groups)
    made.geometry["output_padding"] = list(output_padding)
    return made


def _transposed(ctx: TorchBuilder, x: QuantizedTensor, packed: Any, scale: Any, zero: Any) -> QuantizedTensor:
    weight, bias, sizes = _packed(ctx, packed, ctx.rank_of(x.value))
    out = conv_transpose(
        ctx, x.real(ctx), weight, bias, sizes["stride"], sizes["padding"], sizes["output_padding"],
        int(sizes["groups"][0]), sizes["dilation"],
    )  # fmt: skip
    return _result(ctx, out, scale, zero)


def _convolution(relu: bool) -> Callable[..., Any]:
    def handler(
        ctx: TorchBuilder, x: QuantizedTensor, packed: Any, scale: Any, zero: Any, *more: Any
    ) -> QuantizedTensor:
        weight, bias, geometry = _packed(ctx, packed, ctx.rank_of(x.value))
        out = conv(
            ctx,
            x.real(ctx),
            weight,
            bias,
            geometry["stride"],
            geometry["padding"],
            geometry["dilation"],
            int(geometry["groups"][0]),
        )
        return _result(ctx, ctx.op("ReLU", out) if relu else out, scale, zero)

    return handler


def _linear(relu: bool) -> Callable[..., Any]:
    def handler(
        ctx: TorchBuilder, x: QuantizedTensor, packed: Any, scale: Any, zero: Any, *more: Any
    ) -> QuantizedTensor:
        weight, bias = _packed(ctx, packed)[:2]
        out = ctx.op("MatMul", x.real(ctx), weight, bias, transposeB=True)
        return _result(ctx, ctx.op("ReLU", out) if relu else out, scale, zero)

    return handler


def _linear_dynamic(relu: bool) -> Callable[..., Any]:
    """Activations are quantised as they come; floats in, floats out."""

    def handler(ctx: TorchBuilder, x: Any, packed: Any, *more: Any) -> Variable:
        weight, bias = _packed(ctx, packed)[:2]
        small, scale, zero = dynamic_bytes(ctx, _real(ctx, x))
        wide = ctx.op("DequantizeLinear", small, scale, zero)
        wide.shape = small.shape
        out = apply(ctx, "linear", [wide, weight, bias], {})
        return Variable(ctx.op("ReLU", out) if relu else out)

    return handler


def _combined(kind: str, relu: bool) -> Callable[..., Any]:
    def handler(ctx: TorchBuilder, x: QuantizedTensor, y: Any, scale: Any = None, zero: Any = None) -> QuantizedTensor:
        other = y.real(ctx) if isinstance(y, QuantizedTensor) else ctx.scalar(y, DType.F32)
        out = ctx.op("BinaryOp", x.real(ctx), other, opType=kind)
        out = ctx.op("ReLU", out) if relu else out
        if scale is None:
            raise UnsupportedError("quantised arithmetic with numbers is not supported")
        return _result(ctx, out, scale, zero)

    return handler


def _with_number(kind: str, relu: bool) -> Callable[..., Any]:
    """``add_scalar`` and ``mul_scalar``: what the integers stand for changes, and they only where it cannot."""

    def handler(ctx: TorchBuilder, x: QuantizedTensor, number: Any) -> QuantizedTensor:
        scales, zeros = ctx.constant(x.scale), ctx.constant(x.zero)
        if scales is None or zeros is None or not isinstance(number, (bool, int, float)):
            raise UnsupportedError(f"{kind}_scalar with a number known only at run time is not supported")
        lowest, highest = (-128, 127) if x.value.dtype is DType.I8 else (0, 255)
        found = (_added if kind == "add" else _multiplied)(
            ctx, x, float(scales), int(zeros), float(number), lowest, highest
        )
        return _kept(ctx, "relu", [found], {}) if relu else found

    return handler


def _made(ctx: TorchBuilder, value: Value, scale: float, zero: int) -> QuantizedTensor:
    kind = ctx.type_of(value)
    return QuantizedTensor(value, ctx.const(np.float32(scale)), ctx.const(np.asarray(zero, kind.numpy)))


def _added(
    ctx: TorchBuilder, x: QuantizedTensor, scale: float, zero: int, number: float, lowest: int, highest: int
) -> QuantizedTensor:
    """The zero point moves; where it would leave its range, the scale grows."""
    moved = zero - round(number / scale)
    end = min(max(moved, lowest), highest)
    if moved == end:
        return _made(ctx, x.value, scale, moved)
    wide = ctx.binary("SUB", ctx.cast(x.value, DType.F32), ctx.const(np.float32(moved)))
    real = ctx.binary("MUL", wide, ctx.const(np.float32(scale)))
    found = _made(
        ctx, x.value, scale * ((highest if moved < lowest else -lowest) + abs(moved)) / (highest - lowest), end
    )
    return quantize(ctx, real, found.scale, found.zero)


def _multiplied(
    ctx: TorchBuilder, x: QuantizedTensor, scale: float, zero: int, number: float, lowest: int, highest: int
) -> QuantizedTensor:
    """The scale is multiplied; by less than nothing the integers are mirrored too."""
    if number == 0:
        return _made(ctx, ctx.binary("MUL", x.value, ctx.const_like(0, x.value)), 1.0, 0)
    if number > 0:
        return _made(ctx, x.value, scale * number, zero)
    around = lowest + highest
    mirrored = ctx.cast(ctx.binary("SUB", around, ctx.cast(x.value, DType.I32)), ctx.type_of(x.value))
    return _made(ctx, mirrored, scale * -number, around - zero)


def _cat(
    ctx: TorchBuilder, tensors: list[QuantizedTensor], dim: int, scale: Any = None, zero: Any = None
) -> QuantizedTensor:
    out = ctx.op("Concat", *[t.real(ctx) for t in tensors], axis=ctx.axis(tensors[0].value, dim))
    if scale is None:
        return quantize(ctx, out, tensors[0].scale, tensors[0].zero)
    return _result(ctx, out, scale, zero)


def _function(name: str) -> Callable[..., Any]:
    def handler(ctx: TorchBuilder, x: QuantizedTensor, *args: Any, **kwargs: Any) -> QuantizedTensor:
        scale, zero = (kwargs.pop(k, None) for k in ("output_scale", "output_zero_point"))
        if scale is None:
            scale, zero = args[-2:]
            args = args[:-2]
        found = values(ctx, call(ctx, name, [x.real(ctx), *(_real(ctx, a) for a in args)], kwargs))
        return _result(ctx, found, scale, zero)

    return handler


def _leaky_relu(ctx: TorchBuilder, x: QuantizedTensor, slope: Any, inplace: bool, scale: Any, zero: Any) -> Any:
    return _result(ctx, values(ctx, call(ctx, "leaky_relu", [x.real(ctx), slope], {})), scale, zero)


def _elu(name: str) -> Callable[..., Any]:
    """The result's scale comes before the function's own numbers."""

    def handler(ctx: TorchBuilder, x: QuantizedTensor, output_scale: Any, output_zero_point: Any, *args: Any) -> Any:
        found = values(ctx, call(ctx, name, [x.real(ctx), *args], {}))
        return _result(ctx, found, output_scale, output_zero_point)

    return handler


def _batch_norm(relu: bool) -> Callable[..., Any]:
    def handler(
        ctx: TorchBuilder, x: QuantizedTensor, weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: Any,
        zero: Any,
    ) -> QuantizedTensor:  # fmt: skip
        given = [x.real(ctx), *(values(ctx, v) for v in (weight, bias, mean, var)), False, 0.0, eps, False]
        found = values(ctx, call(ctx, "batch_norm", given, {}))
        return _result(ctx, ctx.op("ReLU", found) if relu else found, scale, zero)

    return handler


def _instance_norm(
    ctx: TorchBuilder, x: QuantizedTensor, weight: Any, bias: Any, eps: float, scale: Any, zero: Any
) -> QuantizedTensor:
    given = [x.real(ctx), values(ctx, weight), values(ctx, bias), None, None, True, 0.0, eps, False]
    return _result(ctx, values(ctx, call(ctx, "instance_norm", given, {})), scale, zero)


def _matmul(ctx: TorchBuilder, x: QuantizedTensor, y: QuantizedTensor, scale: Any, zero: Any) -> QuantizedTensor:
    return _result(ctx, values(ctx, call(ctx, "matmul", [x.real(ctx), y.real(ctx)], {})), scale, zero)


def _sigmoid(
    ctx: TorchBuilder, x: QuantizedTensor, output_scale: Any = 1.0 / 256, output_zero_point: Any = 0
) -> QuantizedTensor:
    """Its scale is fixed unless it is given: 1/256."""
    return _result(ctx, ctx.op("Sigmoid", x.real(ctx)), output_scale, output_zero_point)


def _hardsigmoid(ctx: TorchBuilder, x: QuantizedTensor) -> QuantizedTensor:
    """Its scale is fixed: 1/256 from the smallest number on."""
    low = -128 if x.value.dtype is DType.I8 else 0
    return _result(ctx, values(ctx, call(ctx, "hardsigmoid", [x.real(ctx)], {})), 1.0 / 256, low)


def _tanh(ctx: TorchBuilder, x: QuantizedTensor) -> QuantizedTensor:
    """Its scale is fixed: 1/128 around 128."""
    return _result(ctx, values(ctx, call(ctx, "tanh", [x.real(ctx)], {})), 2.0 / 256, 128)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor": _quantize,
    "quantize_per_channel": _per_channel,
    "dequantize": lambda ctx, x: [Variable(v.real(ctx)) for v in x] if isinstance(x, list) else Variable(x.real(ctx)),
    "int_repr": lambda ctx, x: Variable(x.value),
    "q_scale": lambda ctx, x: Number(ctx.cast_known(x.scale, DType.F64)),
    "q_zero_point": lambda ctx, x: Number(ctx.cast_known(x.zero, DType.I64)),
    **dict.fromkeys(("conv1d_prepack", "conv2d_prepack", "conv3d_prepack", "linear_prepack"), _prepacked),
    **{f"conv_transpose{n}d_prepack": _prepacked_transposed for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed for n in (1, 2, 3)},
    **LAYERS,
    "conv1d": _convolution(False), "conv2d": _convolution(False), "conv3d": _convolution(False),
    "conv1d_relu": _convolution(True), "conv2d_relu": _convolution(True), "conv3d_relu": _convolution(True),
    "linear": _linear(False), "linear_relu": _linear(True), "linear_dynamic": _linear_dynamic(False),
    "linear_relu_dynamic": _linear_dynamic(True),
    **{f"{k}_scalar{'_relu' * r}": _with_number(k, r) for k in ("add", "mul") for r in (False, True)},
    "add": _combined("ADD", False), "add_relu": _combined("ADD", True), "mul": _combined("MUL", False),
    "mul_relu": _combined("MUL", True), "cat": _cat, "sigmoid": _sigmoid,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _function("hardswish"), "leaky_relu": _leaky_relu, "elu": _elu("elu"), "celu": _elu("celu"),
    "softmax": _function("softmax"), "prelu": _function("prelu"), "instance_norm": _instance_norm, "matmul": _matmul,
    "tanh": _tanh, **{f"batch_norm{n}": _batch_norm(False) for n in ("", "1d", "2d", "3d")},
    **{f"batch_norm{n}_relu": _batch_norm(True) for n in ("", "1d", "2d", "3d")},
    "layer_norm": _function("layer_norm"), "group_norm": _function("group_norm"),
}  # fmt: skip
