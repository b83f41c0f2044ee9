"""TensorFlow's functions in models of Keras 2: each call of one became a layer, with the function's name."""

from __future__ import annotations

from typing import Any

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
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
    "logical_or": "LogicalOr", "matmul": "Matmul", "atan2": "Arctan2",
}  # fmt: skip
_ONES = {
    "abs": "Absolute", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "rsqrt": "Rsqrt", "square": "Square",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "sin": "Sin", "cos": "Cos", "sign": "Sign",
    "negative": "Negative", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "relu6": "Relu6", "silu": "Silu",
    "swish": "Silu",
    "softplus": "Softplus", "elu": "Elu", "selu": "Selu", "logical_not": "LogicalNot", "identity": "Copy",
    "stop_gradient": "StopGradient", "softsign": "Softsign", "erf": "Erf", "log1p": "Log1p", "expm1": "Expm1",
    "ones_like": "OnesLike", "zeros_like": "ZerosLike", "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "asin": "Arcsin",
    "acos": "Arccos", "atan": "Arctan", "reciprocal": "Reciprocal", "is_nan": "Isnan", "log_sigmoid": "LogSigmoid",
    "rgb_to_grayscale": "RGBToGrayscale", "rgb_to_hsv": "RGBToHSV", "hsv_to_rgb": "HSVToRGB",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min", "reduce_prod": "Prod",
    "reduce_any": "Any", "reduce_all": "All", "reduce_std": "Std", "reduce_variance": "Var",
    "reduce_logsumexp": "Logsumexp",
}  # fmt: skip
_CONFIGURED: dict[str, tuple[str, dict[str, Any]]] = {
    "argmax": ("Argmax", {"axis": 0}), "argmin": ("Argmin", {"axis": 0}), "argsort": ("Argsort", {"axis": -1}),
    "sort": ("Sort", {"axis": -1}), "cumsum": ("Cumsum", {"axis": 0}), "cumprod": ("Cumprod", {"axis": 0}),
    "log_softmax": ("LogSoftmax", {"axis": -1}), "repeat": ("Repeat", {"repeats": None, "axis": None}),
    "reverse": ("Flip", {"axis": None}), "roll": ("Roll", {"shift": None, "axis": None}),
    "unstack": ("Unstack", {"num": None, "axis": 0}), "top_k": ("TopK", {"k": 1}),
    "tensordot": ("Tensordot", {}), "broadcast_to": ("BroadcastTo", {"shape": None}),
}  # fmt: skip
"""The operation of Keras, and the arguments behind the tensor in order, with what they are where none is given."""


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
        named = (node.kwargs[key] for key in ("y", "b", "x") if key in node.kwargs)
        other = node.args[1] if len(node.args) > 1 else next(named, None)
        if other is None:
            raise FormatError(f"{node.where}: its second operand is missing")
        flipped = bool(path.startswith("__operators__.r"))
        if node.kwargs.get("transpose_a") or node.kwargs.get("transpose_b"):
            flags = {
                key: bool(node.kwargs.get(f"transpose_{key[-1]}", False)) for key in ("transpose_a", "transpose_b")
            }
            kind = "MatMul" if ctx.rank(node.input(0)) == 2 else "BatchMatMulV2"
            names = {"transpose_a": "adj_x", "transpose_b": "adj_y"}
            flags = flags if kind == "MatMul" else {names[key]: flag for key, flag in flags.items()}
            return [ctx.tf(kind, node.input(0), _operand(ctx, node, other), **flags)]
        return _op(ctx, node, _PAIRS[name], [other, x] if flipped else [x, other])
    if name in _ONES:
        return _op(ctx, node, _ONES[name], [x])
    if name in _REDUCTIONS:
        given = _arguments(node, "axis", "keepdims")
        return _op(ctx, node, _REDUCTIONS[name], [x], axis=given.get("axis"), keepdims=bool(given.get("keepdims")))
    if name in _CONFIGURED:
        return _configured(ctx, node, name)
    handler = _OTHERS.get(name)
    if handler is None:
        raise node.unsupported(f"the function tf.{path[:80]}", "export a SavedModel in Keras (model.export('folder'))")
    return handler(ctx, node, x)


def _operand(ctx: KerasContext, node: KerasNode, given: Any, dtype: DType = DType.F32) -> Value:
    """A tensor, or a constant."""
    if given is None:
        raise FormatError(f"{node.where}: an operand is missing")
    return given if isinstance(given, Value) else ctx.const(given, dtype)


def _configured(ctx: KerasContext, node: KerasNode, name: str) -> list[Value]:
    kind, defaults = _CONFIGURED[name]
    if name == "tensordot":
        given = _arguments(node, "b", "axes")
        other = _operand(ctx, node, given.get("b"))
        return _op(ctx, node, kind, [node.input(0), other], axes=given.get("axes"))
    given = _arguments(node, *defaults)
    refused = {"exclusive": False, "reverse": False, "direction": "ASCENDING", "sorted": True}
    for key, usual in refused.items():
        if given.get(key, usual) != usual:
            raise node.unsupported(f"{key}={given[key]!r:.40} of tf.{name}", "export a SavedModel in Keras")
    config = {key: given.get(key, absent) for key, absent in defaults.items()}
    made = _op(ctx, node, kind, [node.input(0)], **config)
    if name in ("argmax", "argmin"):
        return [ctx.cast(made[0], DType.I32 if given.get("output_type") == "int32" else DType.I64)]
    return made


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


def _one_hot(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "depth", "on_value", "off_value", "axis")
    on, off = (
        (1.0 if k == "on_value" else 0.0) if given.get(k) is None else float(given[k])
        for k in ("on_value", "off_value")
    )
    axis = -1 if given.get("axis") is None else int(given["axis"])
    hot = _op(ctx, node, "OneHot", [x], num_classes=given["depth"], axis=axis)[0]
    return [hot if (on, off) == (1.0, 0.0) else binary(ctx, "ADD", binary(ctx, "MUL", hot, on - off), off)]


def _pad(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "paddings", "mode", "name", "constant_values")
    mode, value = str(given.get("mode", "CONSTANT")).lower(), given.get("constant_values", 0)
    return _op(ctx, node, "Pad", [x, value] if mode == "constant" else [x], pad_width=given["paddings"], mode=mode)


def _slice(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "begin", "size")
    return _op(ctx, node, "Slice", [x, given["begin"]], shape=given["size"])


def _strided_slice(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "begin", "end", "strides")
    masks = {k: int(v) for k, v in given.items() if k.endswith("_mask")}
    lists = [given.get("begin"), given.get("end"), given.get("strides") or [1] * len(given.get("begin") or ())]
    return [ctx.tf("StridedSlice", node.input(0), *(_operand(ctx, node, v, DType.I32) for v in lists), **masks)]


def _squared_difference(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    apart = _op(ctx, node, "Subtract", [x, _arguments(node, "y").get("y", node.kwargs.get("y"))])
    return _op(ctx, node, "Square", apart)


def _add_n(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return [ctx.tf("AddN", *node.inputs)]


def _norm(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "ord", "axis", "keepdims")
    order = given.get("ord", "euclidean")
    config = {"ord": None if order == "euclidean" else order, "axis": given.get("axis")}
    return _op(ctx, node, "Norm", [x], keepdims=bool(given.get("keepdims") or given.get("keep_dims")), **config)


def _pooled(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    kind = "MaxPool" if "max_pool" in str(node.get("function")) else "AveragePool"
    given = _arguments(node, "ksize", "strides", "padding", "data_format")
    sizes = [_pair(node, given.get(k)) for k in ("ksize", "strides")]
    if given.get("data_format", "NHWC") != "NHWC":
        raise node.unsupported("channels before rows", "use data_format='NHWC'")
    padding = str(given.get("padding", "VALID")).lower()
    return _op(ctx, node, kind, [x], pool_size=sizes[0], strides=sizes[1], padding=padding)


def _pair(node: KerasNode, given: Any) -> list[int]:
    """For rows and columns, of one number, two, or one for each axis."""
    listed = [given] if isinstance(given, int) else list(given or ())
    listed = listed * 2 if len(listed) == 1 else listed[1:3] if len(listed) == 4 else listed
    if len(listed) != 2 or not all(isinstance(n, int) for n in listed):
        raise FormatError(f"{node.where}: sizes {given!r:.60}")
    return listed


def _conv2d(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    given = _arguments(node, "filter", "strides", "padding")
    kernel = given.get("filter", given.get("filters"))
    plain = given.get("data_format", "NHWC") == "NHWC" and isinstance(given.get("padding"), str)
    if not plain or isinstance(kernel, Value) or given.get("dilations") not in (None, [1, 1, 1, 1], 1, [1, 1]):
        raise node.unsupported("a convolution of this form", "use the layer Conv2D")
    strides = _pair(node, given.get("strides"))
    return _op(ctx, node, "Conv", [node.input(0), kernel], strides=strides, padding=str(given["padding"]).lower())


def _bias_add(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    return _op(ctx, node, "Add", [x, _arguments(node, "bias")["bias"]])


def _flipped(ctx: KerasContext, node: KerasNode, x: Any) -> list[Value]:
    rank = ctx.sizes(node.input(0), node.where)
    return _op(ctx, node, "Flip", [x], axis=rank - (2 if "left_right" in str(node.get("function")) else 3))


_OTHERS = {
    "concat": _concat, "reshape": _reshape, "transpose": _transpose, "expand_dims": _expand, "squeeze": _squeeze,
    "stack": _stack, "split": _split, "cast": _cast, "clip_by_value": _clip, "softmax": _softmax, "gelu": _gelu,
    "leaky_relu": _leaky, "tile": _tile, "l2_normalize": _l2_normalize, "shape": _shape, "where": _where,
    "gather": _gather, "resize": _resize, "depth_to_space": _blocks, "space_to_depth": _blocks,
    "one_hot": _one_hot, "pad": _pad, "slice": _slice, "strided_slice": _strided_slice,
    "squared_difference": _squared_difference, "add_n": _add_n, "norm": _norm, "avg_pool2d": _pooled,
    "avg_pool": _pooled, "max_pool2d": _pooled, "max_pool": _pooled, "conv2d": _conv2d, "bias_add": _bias_add,
    "flip_left_right": _flipped, "flip_up_down": _flipped,
}  # fmt: skip
