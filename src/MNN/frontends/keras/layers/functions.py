"""TensorFlow's functions in models of Keras 2: each call of one became a layer, with the function's name."""

from __future__ import annotations

from typing import Any

from MNN.errors import FormatError
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.operations_shapes import joined, picked
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.part import Part
from MNN.frontends.keras.registry import keras_layer, table
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_PAIRS = {
    "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide", "truediv": "Divide",
    "sub": "Subtract", "mul": "Multiply", "maximum": "Maximum", "minimum": "Minimum", "pow": "Power",
    "floordiv": "FloorDivide", "mod": "Mod", "greater": "Greater", "greater_equal": "GreaterEqual", "less": "Less",
    "less_equal": "LessEqual", "equal": "Equal", "not_equal": "NotEqual", "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr", "matmul": "Matmul",
}  # fmt: skip
_ONES = {
    "abs": "Absolute", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "rsqrt": "Rsqrt", "square": "Square",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "sin": "Sin", "cos": "Cos", "sign": "Sign",
    "negative": "Negative", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "relu6": "Relu6", "silu": "Silu",
    "swish": "Silu",
    "softplus": "Softplus", "elu": "Elu", "selu": "Selu", "logical_not": "LogicalNot", "identity": "Copy",
    "stop_gradient": "StopGradient", "softsign": "Softsign",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min", "reduce_prod": "Prod",
    "reduce_any": "Any", "reduce_all": "All", "reduce_std": "Std", "reduce_variance": "Var",
}  # fmt: skip


def _op(ctx: KerasContext, node: KerasNode, kind: str, args: list[Any], **config: Any) -> list[Value]:
    assert table.find(f"ops.{kind}") is not None, kind
    return ctx.run(Part(f"ops.{kind}", node.name, config), args)


def _arguments(node: KerasNode, *names: str) -> dict[str, Any]:
    """Arguments by name, also those that are given by position (the first one is the tensor)."""
    found = dict(zip(names, node.args[1:], strict=False))
    return {**found, **{k: v for k, v in node.kwargs.items() if k not in ("name", "x")}}


@keras_layer("TFOpLambda", "TensorFlowOpLayer")
def function(ctx: KerasContext, node: KerasNode) -> list[Value]:
    path = str(node.get("function", node.op))
    name = path.rpartition(".")[2]
    x = node.args[0] if node.args else None
    if name in _PAIRS:
        other = node.args[1] if len(node.args) > 1 else node.kwargs.get("y", node.kwargs.get("b"))
        flipped = bool(path.startswith("__operators__.r"))
        if node.kwargs.get("transpose_a") or node.kwargs.get("transpose_b"):
            flags = {
                key: bool(node.kwargs.get(f"transpose_{key[-1]}", False)) for key in ("transpose_a", "transpose_b")
            }
            return [ctx.tf("MatMul", node.input(0), node.input(1), **flags)]
        return _op(ctx, node, _PAIRS[name], [other, x] if flipped else [x, other])
    if name in _ONES:
        return _op(ctx, node, _ONES[name], [x])
    if name in _REDUCTIONS:
        given = _arguments(node, "axis", "keepdims")
        return _op(ctx, node, _REDUCTIONS[name], [x], axis=given.get("axis"), keepdims=bool(given.get("keepdims")))
    handler = _OTHERS.get(name)
    if handler is None:
        raise node.unsupported(f"the function tf.{path[:80]}", "export a SavedModel in Keras (model.export('folder'))")
    return handler(ctx, node, x)


@keras_layer("SlicingOpLambda")
def slicing(ctx: KerasContext, node: KerasNode) -> Value:
    key = node.kwargs.get("slice_spec", node.args[1] if len(node.args) > 1 else None)
    if key is None:
        raise FormatError(f"{node.where}: it does not say what to take")
    keys = [
        slice(*(k.get(p) for p in ("start", "stop", "step"))) if isinstance(k, dict) else Ellipsis if k == "..." else k
        for k in (key if isinstance(key, list) else [key])
    ]
    return picked(ctx, node, node.input(0), keys)


def _concat(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    axis = _arguments(node, "axis").get("axis", 0)
    return [joined(ctx, node, node.inputs, axis)]


def _reshape(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Reshape", [x, _arguments(node, "shape")["shape"]])


def _transpose(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Transpose", [x], axes=_arguments(node, "perm").get("perm"))


def _expand(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "ExpandDims", [x, _arguments(node, "axis")["axis"]])


def _squeeze(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Squeeze", [x], axis=_arguments(node, "axis").get("axis"))


def _stack(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Stack", [node.inputs], axis=_arguments(node, "axis").get("axis", 0))


def _split(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "num_or_size_splits", "axis")
    parts = given["num_or_size_splits"]
    if not isinstance(parts, int):
        parts = [sum(parts[: i + 1]) for i in range(len(parts) - 1)]
    return _op(ctx, node, "Split", [x, parts], axis=given.get("axis", 0))


def _cast(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Cast", [x], dtype=_arguments(node, "dtype").get("dtype"))


def _clip(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "clip_value_min", "clip_value_max")
    return _op(ctx, node, "Clip", [x, given["clip_value_min"], given["clip_value_max"]])


def _softmax(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    axis = _arguments(node, "axis").get("axis")
    return _op(ctx, node, "Softmax", [x], axis=-1 if axis is None else axis)


def _gelu(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Gelu", [x], approximate=bool(_arguments(node, "approximate").get("approximate", False)))


def _leaky(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "LeakyRelu", [x], negative_slope=_arguments(node, "alpha").get("alpha", 0.2))


def _tile(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Tile", [x], repeats=_arguments(node, "multiples")["multiples"])


def _l2_normalize(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "axis", "epsilon")
    return _op(ctx, node, "Normalize", [x], axis=given.get("axis"), epsilon=float(given.get("epsilon", 1e-12)) ** 0.5)


def _shape(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return [ctx.op("Shape", node.input(0), outputDataType="DT_INT32")]


def _where(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "x", "y")
    return _op(ctx, node, "Where", [x, node.kwargs.get("x", given.get("x")), given.get("y")])


def _gather(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "indices", "validate_indices", "axis")
    places = given["indices"]
    places = places if isinstance(places, Value) else ctx.const(places, DType.I32)
    return [ctx.op("GatherV2", node.input(0), places, ctx.const(int(given.get("axis") or 0), DType.I32))]


def _resize(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "size", "method")
    return _op(ctx, node, "Resize", [x], size=given["size"], interpolation=given.get("method", "bilinear"))


def _blocks(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    kind = "DepthToSpace" if "depth_to_space" in str(node.get("function")) else "SpaceToDepth"
    return _op(ctx, node, kind, [x], block_size=_arguments(node, "block_size")["block_size"])


_OTHERS = {
    "concat": _concat, "reshape": _reshape, "transpose": _transpose, "expand_dims": _expand, "squeeze": _squeeze,
    "stack": _stack, "split": _split, "cast": _cast, "clip_by_value": _clip, "softmax": _softmax, "gelu": _gelu,
    "leaky_relu": _leaky, "tile": _tile, "l2_normalize": _l2_normalize, "shape": _shape, "where": _where,
    "gather": _gather, "resize": _resize, "depth_to_space": _blocks, "space_to_depth": _blocks,
}  # fmt: skip
