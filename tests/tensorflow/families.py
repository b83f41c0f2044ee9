"""Seeded random uses of TensorFlow's operators. Needs tensorflow: only ``record.py`` imports it, in an environment of
its own; the tests read what that recorded.

A family makes ``(function, arrays)``: the function takes tensors for the arrays and uses the operator; what it closes
over is constant in the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

raw = tf.raw_ops
Case = tuple[Callable[..., Any], list[np.ndarray]]
FAMILIES: dict[str, Callable[[np.random.Generator], Case]] = {}


def family(*ops: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Enters a maker of cases under the names of operators; it is given the generator and the name."""

    def add(make: Callable[..., Case]) -> Callable[..., Case]:
        for op in ops:
            FAMILIES[op] = lambda rng, op=op: make(rng, op)
        return make

    return add


def shape(rng: np.random.Generator, rank: int | None = None, most: int = 5) -> list[int]:
    rank = int(rng.integers(0, 5)) if rank is None else rank
    return [int(n) for n in rng.integers(1, most + 1, rank)]


def floats(rng: np.random.Generator, sizes: list[int], low: float = -3, high: float = 3) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, sizes), np.float32)


def ints(
    rng: np.random.Generator, sizes: list[int], low: int = -9, high: int = 10, dtype: Any = np.int32
) -> np.ndarray:
    return np.asarray(rng.integers(low, high, sizes)).astype(dtype)


def held(values: Any, dtype: Any = None) -> np.ndarray:
    """What becomes a constant of the graph."""
    found = np.asarray(values, dtype)
    kept = {"i": np.int32, "f": np.float32} if dtype is None and not isinstance(values, np.ndarray) else {}
    return found.astype(kept.get(found.dtype.kind, found.dtype))


def call(op: str, **attrs: Any) -> Callable[..., Any]:
    """The operator with its operands by name."""
    return getattr(raw, op)(**attrs)


# -- elementwise ------------------------------------------------------------------------------------------------------

RANGES = {
    "Acos": (-1, 1), "Acosh": (1, 9), "Asin": (-1, 1), "Atanh": (-0.95, 0.95), "Erfinv": (-0.95, 0.95),
    "Log": (0.01, 9), "Log1p": (-0.9, 9), "Rsqrt": (0.01, 9), "Sqrt": (0, 9), "Reciprocal": (0.2, 3), "Inv": (0.2, 3),
    "Tan": (-1.4, 1.4),
}  # fmt: skip
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Erfc Erfinv Exp Expm1 Floor Inv Log Log1p Neg Reciprocal "
    "Rint Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh Softplus Softsign Relu Relu6 Elu Selu ZerosLike "
    "OnesLike IsNan IsInf IsFinite L2Loss Identity StopGradient Snapshot CheckNumerics"
).split()
FEATURES = {"Softplus", "Softsign", "Relu", "Relu6", "Elu", "Selu"}


@family(*UNARY)
def unary(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, shape(rng), *RANGES.get(op, (-3, 3)))
    if op in ("IsNan", "IsInf", "IsFinite") and x.size > 1:
        x.reshape(-1)[:2] = np.inf, np.nan
    if op in ("Abs", "Neg", "Sign", "Square", "ZerosLike", "OnesLike") and rng.integers(2):
        x = ints(rng, shape(rng), dtype=rng.choice([np.int32, np.int64]))
    if op in ("StopGradient", "Snapshot"):
        return lambda v: call("Square", x=call(op, input=v)), [x]
    if op == "CheckNumerics":
        return lambda v: call(op, tensor=v, message="here") + 1, [x]
    key = "features" if op in FEATURES else "t" if op == "L2Loss" else "input" if op == "Identity" else "x"
    return lambda v: call(op, **{key: v}), [x]


@family("LeakyRelu")
def leaky(rng: np.random.Generator, op: str) -> Case:
    alpha = float(rng.uniform(0, 0.5))
    return lambda v: call(op, features=v, alpha=alpha), [floats(rng, shape(rng))]


@family("Softmax", "LogSoftmax")
def softmax(rng: np.random.Generator, op: str) -> Case:
    return lambda v: call(op, logits=v), [floats(rng, shape(rng, int(rng.integers(1, 5))))]


BINARY = (
    "Add AddV2 Sub Mul Div RealDiv FloorDiv FloorMod TruncateDiv TruncateMod Mod Maximum Minimum Pow SquaredDifference "
    "Atan2 Greater GreaterEqual Less LessEqual Equal NotEqual DivNoNan MulNoNan Xdivy Xlogy Xlog1py ApproximateEqual"
).split()
INTEGERS = set(
    "Add AddV2 Sub Mul Div FloorDiv FloorMod TruncateDiv TruncateMod Mod Maximum Minimum Greater Less Equal".split()
)


@family(*BINARY)
def binary(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    other = [n if rng.integers(3) else 1 for n in sizes][int(rng.integers(0, len(sizes) + 1)) if sizes else 0 :]
    if op == "ApproximateEqual":
        x = floats(rng, sizes)
        return lambda a, b: call(op, x=a, y=b, tolerance=0.5), [x, x + floats(rng, sizes, -1, 1)]
    if op in INTEGERS and rng.integers(2):
        dtype = rng.choice([np.int32, np.int64])
        x, y = ints(rng, sizes, dtype=dtype), ints(rng, other, dtype=dtype)
        y = np.asarray(np.where(y == 0, 3, y), dtype)
    else:
        low = 0.1 if op in ("Pow", "Xlogy", "Xlog1py") else -3
        x, y = floats(rng, sizes, low), floats(rng, other, low)
        if op in ("Equal", "NotEqual", "DivNoNan", "MulNoNan", "Xdivy"):
            x, y = np.round(x), np.round(y)
        if op == "Xdivy":
            y = np.asarray(np.where(y == 0, 2, y), np.float32)
    if rng.integers(2) and op not in ("MulNoNan", "DivNoNan"):
        constant = held(y)
        return lambda a: call(op, x=a, y=constant), [x]
    return lambda a, b: call(op, x=a, y=b), [x, y]


@family("LogicalAnd", "LogicalOr", "LogicalNot")
def logical(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    x, y = (np.asarray(rng.integers(0, 2, sizes)).astype(bool) for _ in range(2))
    return (lambda a: call(op, x=a), [x]) if op == "LogicalNot" else (lambda a, b: call(op, x=a, y=b), [x, y])


@family("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Invert")
def bits(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    x, y = ints(rng, sizes, 0, 99), ints(rng, sizes, 0, 5)
    return (lambda a: call(op, x=a), [x]) if op == "Invert" else (lambda a, b: call(op, x=a, y=b), [x, y])


@family("AddN", "AccumulateNV2")
def add_n(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    arrays = [floats(rng, sizes) for _ in range(int(rng.integers(1, 4)))]
    if op == "AddN":
        return lambda *v: call(op, inputs=list(v)), arrays
    return lambda *v: call(op, inputs=list(v), shape=sizes), arrays


@family("Select", "SelectV2")
def select(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    kind = int(rng.integers(3))
    condition = sizes if kind == 0 else [] if kind == 1 else sizes[:1] if op == "Select" else sizes[-1:]
    c = np.asarray(rng.integers(0, 2, condition)).astype(bool)
    key = {"Select": ("condition", "x", "y"), "SelectV2": ("condition", "t", "e")}[op]
    return lambda *v: call(op, **dict(zip(key, v, strict=True))), [c, floats(rng, sizes), floats(rng, sizes)]


@family("ClipByValue")
def clip(rng: np.random.Generator, op: str) -> Case:
    low, high = sorted(float(v) for v in rng.uniform(-2, 2, 2))
    limits = {"clip_value_min": held(low), "clip_value_max": held(high)}
    return lambda v: call(op, t=v, **limits), [floats(rng, shape(rng))]


@family("Cast")
def cast(rng: np.random.Generator, op: str) -> Case:
    to = rng.choice(["float32", "int32", "int64", "bool", "float64", "uint8", "float16"])
    x = floats(rng, shape(rng), 0, 9) if rng.integers(2) else ints(rng, shape(rng), 0, 9)
    return lambda v: call(op, x=v, DstT=tf.as_dtype(str(to))), [x]


@family("Bitcast")
def bitcast(rng: np.random.Generator, op: str) -> Case:
    return lambda v: call(op, input=v, type=tf.int32), [floats(rng, shape(rng))]


@family("BiasAdd")
def bias_add(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(2, 5)))
    first = len(sizes) == 4 and bool(rng.integers(2))
    bias = held(floats(rng, [sizes[1 if first else -1]]))
    return lambda v: call(op, value=v, bias=bias, data_format="NCHW" if first else "NHWC"), [floats(rng, sizes)]


@family("Cross")
def cross(rng: np.random.Generator, op: str) -> Case:
    sizes = [*shape(rng, int(rng.integers(0, 3))), 3]
    return lambda a, b: call(op, a=a, b=b), [floats(rng, sizes), floats(rng, sizes)]


# -- reductions -------------------------------------------------------------------------------------------------------


@family("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm")
def reduction(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    count = int(rng.integers(0, len(sizes) + 1))
    axes = [int(a) for a in rng.permutation(len(sizes))[:count]]
    axes = [a - len(sizes) if rng.integers(2) else a for a in axes]
    x = np.asarray(rng.integers(0, 2, sizes)).astype(bool) if op in ("All", "Any") else floats(rng, sizes)
    if op in ("Sum", "Max", "Min", "Prod") and rng.integers(3) == 0:
        x = ints(rng, sizes)
    constant = held(axes, np.int32)
    keep = bool(rng.integers(2))
    return lambda v: call(op, input=v, axis=constant, keep_dims=keep), [x]


@family("ArgMax", "ArgMin")
def arg(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 5)))
    axis = int(rng.integers(-len(sizes), len(sizes)))
    to = [tf.int32, tf.int64][int(rng.integers(2))]
    return lambda v: call(op, input=v, dimension=axis, output_type=to), [floats(rng, sizes)]


@family("Cumsum", "Cumprod")
def cumulative(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    axis, flags = int(rng.integers(-len(sizes), len(sizes))), [bool(v) for v in rng.integers(0, 2, 2)]
    return lambda v: call(op, x=v, axis=axis, exclusive=flags[0], reverse=flags[1]), [floats(rng, sizes)]


@family("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def segment(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)), 6)
    ids = np.sort(ints(rng, sizes[:1], 0, 4))
    return lambda v, i: call(op, data=v, segment_ids=i), [floats(rng, sizes), ids]


@family("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")
def sparse_segment(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)), 6)
    picked, ids = ints(rng, [5], 0, sizes[0]), np.sort(ints(rng, [5], 0, 4))
    more = {"num_segments": 6} if op.endswith("Segments") else {}
    return lambda v, j, i: call(op, data=v, indices=j, segment_ids=i, **more), [floats(rng, sizes), picked, ids]


@family("UnsortedSegmentSum", "UnsortedSegmentProd")
def unsorted_segment(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)), 6)
    return lambda v, i: call(op, data=v, segment_ids=i, num_segments=5), [
        floats(rng, sizes),
        ints(rng, sizes[:1], 0, 5),
    ]
