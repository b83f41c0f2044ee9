"""Arithmetic, comparisons, functions of single numbers."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
_UNARY = {
    "ABS": (-3, 3), "NEG": (-3, 3), "EXP": (-4, 4), "LOG": (0.1, 9), "SQRT": (0, 9), "RSQRT": (0.1, 9), "SIN": (-6, 6),
    "COS": (-6, 6), "SQUARE": (-3, 3), "FLOOR": (-3, 3), "CEIL": (-3, 3), "ROUND": (-3, 3), "SIGN": (-3, 3),
    "LOGISTIC": (-6, 6), "TANH": (-4, 4), "RELU": (-3, 3), "RELU6": (-3, 9), "RELU_N1_TO_1": (-3, 3),
    "RELU_0_TO_1": (-3, 3), "ELU": (-3, 3), "HARD_SWISH": (-6, 6), "LOG_SOFTMAX": (-6, 6), "ZEROS_LIKE": (-3, 3),
}  # fmt: skip
_COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
_OPTIONS = {"LOG_SOFTMAX": "LogSoftmaxOptions", "ABS": "AbsOptions", "EXP": "ExpOptions", "SIGN": "SignOptions"}


@family(*_UNARY)
def unary(d: Draw, op: str) -> Case:
    low, high = _UNARY[op]
    shape = d.shape(1, 4)
    kind = d.one(["FLOAT32", "FLOAT32", "INT32"]) if op in ("ABS", "NEG", "SIGN", "ZEROS_LIKE") else "FLOAT32"
    return d.case(d.g.made(op, [d.input(shape, kind, low, high)], shape, kind, _OPTIONS.get(op, "")))


def two(d: Draw, kind: str, low: float = -3, high: float = 3, above: bool = False) -> tuple[int, int, list[int]]:
    """Two operands that broadcast, and the shape they give."""
    shape = d.shape(1, 4)
    other = [1 if d.int(0, 3) == 0 else n for n in shape][d.int(0, len(shape) - 1) :]
    first, second = (shape, other) if d.flag() else (other, shape)
    x = d.input(first, kind, low, high)
    y = (
        d.input(second, kind, 1 if above else low, high)
        if d.flag()
        else d.g.const(d.array(second, kind, 1 if above else low, high))
    )
    return x, y, [int(n) for n in np.broadcast_shapes(shape, other)]


@family("ADD", "SUB", "MUL", "DIV")
def arithmetic(d: Draw, op: str) -> Case:
    kind = d.one(["FLOAT32", "FLOAT32", "INT32"] if op == "DIV" else ["FLOAT32", "FLOAT32", "INT32", "INT64"])
    x, y, shape = two(d, kind, -9, 9, above=op == "DIV")
    act = d.one(ACTIVATIONS) if kind == "FLOAT32" else "NONE"
    return d.case(d.g.made(op, [x, y], shape, kind, f"{op.title()}Options", fused_activation_function=act))


@family("ATAN2")
def atan2(d: Draw) -> Case:
    shape = d.shape()
    return d.case(d.g.made("ATAN2", [d.input(shape), d.input(shape)], shape))


@family("MAXIMUM", "MINIMUM", "POW", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")
def binary(d: Draw, op: str) -> Case:
    kind = d.one(["FLOAT32", "INT32"])
    low = 0.1 if op == "POW" and kind == "FLOAT32" else 0 if op == "POW" else -7
    x, y, shape = two(d, kind, low, 3 if op == "POW" else 7, above=op.startswith("FLOOR"))
    return d.case(d.g.made(op, [x, y], shape, kind), tolerance=2e-5)


@family(*_COMPARISONS)
def comparison(d: Draw, op: str) -> Case:
    kind = d.one(["FLOAT32", "INT32", "INT64"])
    x, y, shape = two(d, kind, -2, 2)
    return d.case(d.g.made(op, [x, y], shape, "BOOL"))


@family("LOGICAL_AND", "LOGICAL_OR")
def logical(d: Draw, op: str) -> Case:
    x, y, shape = two(d, "BOOL")
    return d.case(d.g.made(op, [x, y], shape, "BOOL"))


@family("LOGICAL_NOT")
def logical_not(d: Draw) -> Case:
    shape = d.shape()
    return d.case(d.g.made("LOGICAL_NOT", [d.input(shape, "BOOL")], shape, "BOOL"))


@family("BITWISE_XOR", "RIGHT_SHIFT")
def bits(d: Draw, op: str) -> Case:
    kind = d.one(["INT32", "INT16", "INT8", "UINT8"])
    low = 0 if op == "RIGHT_SHIFT" else -100
    shape = d.shape()
    x = d.input(shape, kind, -100, 100)
    y = d.input(shape, kind, low, 6 if op == "RIGHT_SHIFT" else 100)
    return d.case(d.g.made(op, [x, y], shape, kind))


@family("ADD_N")
def add_n(d: Draw) -> Case:
    shape, kind = d.shape(), d.one(["FLOAT32", "INT32"])
    return d.case(d.g.made("ADD_N", [d.input(shape, kind) for _ in range(d.int(2, 4))], shape, kind))


@family("SELECT")
def select(d: Draw) -> Case:
    shape = d.shape(1, 4)
    condition = d.input(shape if d.flag() else shape[:1], "BOOL")
    return d.case(d.g.made("SELECT", [condition, d.input(shape), d.input(shape)], shape))


@family("SELECT_V2")
def select_v2(d: Draw) -> Case:
    shape = d.shape(2, 4)
    parts = [[1 if d.int(0, 3) == 0 else n for n in shape] for _ in range(3)]
    made = [int(n) for n in np.broadcast_shapes(*parts)]
    x = [d.input(parts[0], "BOOL"), d.input(parts[1]), d.input(parts[2])]
    return d.case(d.g.made("SELECT_V2", x, made))


@family("LEAKY_RELU")
def leaky_relu(d: Draw) -> Case:
    shape = d.shape()
    alpha = float(np.float32(d.rng.random()))
    return d.case(d.g.made("LEAKY_RELU", [d.input(shape)], shape, "FLOAT32", "LeakyReluOptions", alpha=alpha))


@family("PRELU")
def prelu(d: Draw) -> Case:
    shape = [1, *d.shape(3, 3)]
    slope = d.one([[1, 1, shape[3]], shape[1:], [1, 1, 1]])
    return d.case(d.g.made("PRELU", [d.input(shape), d.g.const(d.array(slope, low=-1, high=1))], shape))


@family("GELU")
def gelu(d: Draw) -> Case:
    shape = d.shape()
    made = d.g.made("GELU", [d.input(shape)], shape, "FLOAT32", "GeluOptions", approximate=d.flag())
    return d.case(made, tolerance=2e-5)


@family("SOFTMAX")
def softmax(d: Draw) -> Case:
    shape = d.shape(1, 4)
    beta = d.one([1.0, 0.5, 2.0])
    return d.case(d.g.made("SOFTMAX", [d.input(shape)], shape, "FLOAT32", "SoftmaxOptions", beta=beta))


@family("CAST")
def cast(d: Draw) -> Case:
    kinds = ["FLOAT32", "INT32", "INT64", "UINT8", "BOOL", "INT8", "INT16"]
    source, dest = d.one(kinds), d.one(kinds)
    shape = d.shape()
    x = d.input(shape, source, 0 if dest in ("UINT8",) else -9, 9)
    return d.case(d.g.made("CAST", [x], shape, dest, "CastOptions", in_data_type=source, out_data_type=dest))


@family("BITCAST")
def bitcast(d: Draw) -> Case:
    shape = d.shape()
    source, dest = d.one([("FLOAT32", "INT32"), ("INT32", "FLOAT32"), ("UINT8", "INT8"), ("INT8", "UINT8")])
    return d.case(d.g.made("BITCAST", [d.input(shape, source, 0, 99)], shape, dest))


@family("FAKE_QUANT")
def fake_quant(d: Draw) -> Case:
    shape, bits = d.shape(), d.one([8, 4, 16])
    low, high = -float(d.rng.random()) * 2, float(d.rng.random()) * 2 + 0.1
    options = {"min": low, "max": high, "num_bits": bits}
    made = d.g.made("FAKE_QUANT", [d.input(shape)], shape, "FLOAT32", "FakeQuantOptions", **options)
    return d.case(made, tolerance=1e-4)


@family("DEQUANTIZE")
def dequantize(d: Draw) -> Case:
    shape, kind = d.shape(), d.one(["INT8", "UINT8", "INT16", "FLOAT16"])
    if kind == "FLOAT16":
        x = d.g.const(d.array(shape, "FLOAT16"))
        y = d.g.made("DEQUANTIZE", [x], shape)
        return d.case(d.g.made("ADD", [d.input(shape), y], shape, "FLOAT32", "AddOptions"))
    x = d.input(shape, kind, 0 if kind == "UINT8" else -100, 100, scale=0.03, zero=0 if kind == "INT16" else 3)
    return d.case(d.g.made("DEQUANTIZE", [x], shape))


@family("QUANTIZE")
def quantize(d: Draw) -> Case:
    shape, kind = d.shape(), d.one(["INT8", "UINT8", "INT16"])
    q = {"scale": 0.03, "zero": 0 if kind == "INT16" else d.int(0, 9)}
    x = d.input(shape) if d.flag() else d.input(shape, "INT8", -128, 127, scale=0.05, zero=-3)
    return d.case(d.g.made("QUANTIZE", [x], shape, kind, quantization=q), steps=1)


@family("DENSIFY")
def densify(d: Draw) -> Case:
    """A matrix of compressed rows."""
    from tests.frontends.tflite.build import record

    rows, columns = d.int(1, 5), d.int(1, 6)
    full = d.array([rows, columns]) * (d.rng.random((rows, columns)) < 0.5)
    segments = np.concatenate([[0], np.cumsum((full != 0).sum(1))])
    indices = np.nonzero(full)[1]
    vector = d.one(["Uint8Vector", "Uint16Vector", "Int32Vector"])
    levels = [
        record("DimensionMetadata", format="DENSE", dense_size=rows),
        record("DimensionMetadata", format="SPARSE_CSR", array_segments=record(vector, values=segments),
               array_indices=record(vector, values=indices)),
    ]  # fmt: skip
    sparsity = record("SparsityParameters", traversal_order=np.array([0, 1]), dim_metadata=levels)
    raw = full[full != 0].astype(np.float32)
    raw = raw if raw.size else None
    if raw is None:
        full[0, 0], raw = 1.0, np.ones(1, np.float32)
        segments[1:], indices = 1, np.zeros(1, np.int64)
        levels[1].array_segments, levels[1].array_indices = (
            record(vector, values=segments),
            record(vector, values=indices),
        )
    x = d.g.tensor([rows, columns], "FLOAT32", raw.tobytes(), sparsity=sparsity)
    y = d.g.made("DENSIFY", [x], [rows, columns])
    return d.case(d.g.made("ADD", [d.input([rows, columns]), y], [rows, columns], "FLOAT32", "AddOptions"))
