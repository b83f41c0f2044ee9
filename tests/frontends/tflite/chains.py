"""Drawn networks of quantised operators: chains with shortcuts, of bytes and of 16-bit activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw
from tests.frontends.tflite.cases.images import sizes

_RANGE = {"INT8": (-128, 127), "INT16": (-32768, 32767)}
_BOUNDS = ["NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1"]


@dataclass(frozen=True)
class Made:
    """A tensor of the chain, with its sizes, scale and zero point."""

    tensor: int
    shape: tuple[int, ...]
    scale: float
    zero: int

    @property
    def q(self) -> dict[str, Any]:
        return {"scale": self.scale, "zero": self.zero}


class Chain:
    """A network being drawn; every step takes a tensor and gives another, in ``kind`` integers."""

    def __init__(self, d: Draw, kind: str) -> None:
        self.d, self.kind, self.wide = d, kind, "INT64" if kind == "INT16" else "INT32"
        shape = (d.one([1, 1, 2, 3]), d.int(4, 9), d.int(4, 9), d.one([1, 3, 5, 8, 16, 20]))
        made = self.parameters(4.0)
        low, high = _RANGE[kind]
        self.made = [Made(d.input(list(shape), kind, low, high, **made), shape, made["scale"], made["zero"])]

    def parameters(self, most: float) -> dict[str, Any]:
        """A scale for numbers of about this size, and a zero point: that of 16 bits is zero."""
        low, high = _RANGE[self.kind]
        scale = float(np.float32(2 * most / (high - low) * (0.6 + 0.8 * self.d.rng.random())))
        return {"scale": scale, "zero": 0 if self.kind == "INT16" else self.d.int(-60, 60)}

    def most(self, x: Made) -> float:
        """How large numbers of a tensor are."""
        return x.scale * (128 if self.kind == "INT8" else 32768)

    def add(self, op: str, x: Made, more: list[int], shape: tuple[int, ...], q: dict[str, Any], table: str = "",
            version: int = 2, **options: Any) -> Made:  # fmt: skip
        tensor = self.d.g.made(
            op, [x.tensor, *more], shape, self.kind, table, quantization=q, version=version, **options
        )
        return Made(tensor, shape, q["scale"], q["zero"])

    def weights(self, x: Made, shape: list[int], axis: int, count: int) -> tuple[list[int], float]:
        """Weights and a bias, and about how large what they give is."""
        d, per = self.d, count if self.d.flag() else 1
        scale = (0.002 + 0.02 * d.rng.random(per)).astype(np.float32)
        w = np.clip(np.rint(d.rng.normal(0, 45, shape)), -127, 127).astype(np.int8)
        taken = {"scale": scale, "zero": 0, "axis": axis}
        steps = (scale * np.float32(x.scale)).astype(np.float32)
        depth = np.prod(shape) / count
        size = float(45 * scale.mean() * self.most(x) * 0.5 * np.sqrt(depth))
        bias = np.rint(d.array([count], low=-size / 2, high=size / 2) / steps).astype(self.wide.lower())
        return [d.g.const(w, **taken), d.g.const(bias, scale=steps, zero=0, axis=0)], size

    # -- steps --------------------------------------------------------------------------------------------------------

    def conv(self, x: Made) -> Made:
        d, (n, *given, channels) = self.d, x.shape
        deep, padding = d.int(0, 2) == 0, d.one(["SAME", "VALID"])
        kernel = [min(d.one([1, 1, 2, 3, 3, 5]), size) for size in given]
        stride, dilation = (
            ([d.int(1, 2) for _ in given], [1, 1]) if d.flag() else ([1, 1], [d.int(1, 2) for _ in given])
        )
        if padding == "VALID" and any((k - 1) * t >= size for k, t, size in zip(kernel, dilation, given, strict=True)):
            padding = "SAME"
        outputs = channels if deep else d.one([1, 4, 7, 16, 24])
        made = [sizes(s, k, t, u, padding) for s, k, t, u in zip(given, kernel, stride, dilation, strict=True)]
        operands, size = self.weights(
            x, [1, *kernel, outputs] if deep else [outputs, *kernel, channels], 3 if deep else 0, outputs
        )
        more = {"depth_multiplier": 1} if deep else {}
        return self.add(
            "DEPTHWISE_CONV_2D" if deep else "CONV_2D", x, operands, (n, *made, outputs), self.parameters(size),
            "DepthwiseConv2DOptions" if deep else "Conv2DOptions", 3, padding=padding, stride_h=stride[0],
            stride_w=stride[1], dilation_hfactor=dilation[0], dilation_wfactor=dilation[1],
            fused_activation_function=d.one(_BOUNDS), **more,
        )  # fmt: skip

    def transposed(self, x: Made) -> Made:
        d, (n, h, w, channels) = self.d, x.shape
        kernel, outputs = [d.int(1, 3), d.int(1, 3)], d.one([1, 4, 9])
        shape = (n, 2 * h, 2 * w, outputs)
        operands, size = self.weights(x, [outputs, *kernel, channels], 0, outputs)
        sizes_of, q = d.g.const(list(shape), "int32"), self.parameters(size)
        tensor = d.g.made(
            "TRANSPOSE_CONV", [sizes_of, operands[0], x.tensor, operands[1]], shape, self.kind, "TransposeConvOptions",
            quantization=q, version=3, padding="SAME", stride_h=2, stride_w=2,
        )  # fmt: skip
        return Made(tensor, shape, q["scale"], q["zero"])

    def pool(self, x: Made) -> Made:
        d, (n, h, w, channels) = self.d, x.shape
        kernel, stride = [min(d.int(1, 3), h), min(d.int(1, 3), w)], [d.int(1, 2), d.int(1, 2)]
        padding = d.one(["SAME", "VALID"])
        made = [sizes(s, k, t, 1, padding) for s, k, t in zip((h, w), kernel, stride, strict=True)]
        return self.add(
            d.one(["AVERAGE_POOL_2D", "MAX_POOL_2D"]), x, [], (n, *made, channels), x.q, "Pool2DOptions",
            padding=padding, stride_h=stride[0], stride_w=stride[1], filter_height=kernel[0], filter_width=kernel[1],
            fused_activation_function=d.one(["NONE", "RELU", "RELU6"]),
        )  # fmt: skip

    def arithmetic(self, x: Made) -> Made:
        d = self.d
        others = [m for m in self.made if m.shape == x.shape or (m.shape[1:3] == (1, 1) and m.shape[3] == x.shape[3])]
        y = d.one([m for m in others if m.shape[0] in (1, x.shape[0])] or [x])
        op = d.one(["ADD", "ADD", "SUB", "MUL"])
        most = self.most(x) * self.most(y) / 2 if op == "MUL" else (self.most(x) + self.most(y)) / 1.5
        more = {} if op == "MUL" else {"pot_scale_int16": False}
        version = 2 if self.kind == "INT8" or op == "MUL" else 3
        return self.add(op, x, [y.tensor], x.shape, self.parameters(most), f"{op.title()}Options", version,
                        fused_activation_function=d.one(_BOUNDS[:4]), **more)  # fmt: skip

    def function(self, x: Made) -> Made:
        d = self.d
        wide = self.kind == "INT16"
        op = d.one(["LOGISTIC", "TANH", "SOFTMAX", "LEAKY_RELU", *([] if wide else ["HARD_SWISH", "RELU6", "ABS"])])
        low = _RANGE[self.kind][0]
        fixed = {"LOGISTIC": (1 / 256, low), "SOFTMAX": (1 / 256, low), "TANH": (1 / 128, 0)}
        if wide:
            fixed = {"LOGISTIC": (1 / 32768, 0), "SOFTMAX": (1 / 32768, 0), "TANH": (1 / 32768, 0)}
        found = fixed.get(op)
        q = self.parameters(self.most(x)) if found is None else {"scale": found[0], "zero": found[1]}
        options = {"SOFTMAX": ("SoftmaxOptions", {"beta": 1.0}), "LEAKY_RELU": ("LeakyReluOptions", {"alpha": 0.2})}
        table, values = options.get(op, ("", {}))
        return self.add(op, x, [], x.shape, q, table, 1 if op == "HARD_SWISH" else 2, **values)

    def moved(self, x: Made) -> Made:
        d, (n, h, w, c) = self.d, x.shape
        op = d.one(["PAD", "STRIDED_SLICE", "CONCATENATION", "QUANTIZE", "TRANSPOSE", "RESHAPE"])
        if op == "PAD":
            pads = [[0, 0], [d.int(0, 2), d.int(0, 2)], [d.int(0, 2), d.int(0, 2)], [0, d.int(0, 1)]]
            shape = tuple(s + a + z for s, (a, z) in zip(x.shape, pads, strict=True))
            return self.add(op, x, [d.g.const(pads, "int32")], shape, x.q)
        if op == "STRIDED_SLICE":
            begin = [0, d.int(0, h // 2), d.int(0, w // 2), d.int(0, c // 2)]
            steps = [1, d.int(1, 2), d.int(1, 2), 1]
            shape = tuple(-(-(s - b) // t) for s, b, t in zip(x.shape, begin, steps, strict=True))
            lists = [d.g.const(v, "int32") for v in (begin, list(x.shape), steps)]
            return self.add(op, x, lists, shape, x.q, "StridedSliceOptions")
        if op == "CONCATENATION":
            other = d.one([m for m in self.made if m.shape[:3] == x.shape[:3]])
            y = other if other.q == x.q else self.add("QUANTIZE", other, [], other.shape, x.q)
            shape = (n, h, w, c + y.shape[3])
            return self.add(op, x, [y.tensor], shape, x.q, "ConcatenationOptions", axis=3)
        if op == "QUANTIZE":
            return self.add(op, x, [], x.shape, self.parameters(self.most(x) * (0.5 + d.rng.random())))
        if op == "TRANSPOSE":
            return self.add(op, x, [d.g.const([0, 2, 1, 3], "int32")], (n, w, h, c), x.q)
        return self.add(op, x, [d.g.const([n, w, h, c], "int32")], (n, w, h, c), x.q, version=1)

    def resized(self, x: Made) -> Made:
        d, (n, h, w, c) = self.d, x.shape
        made, half = [d.int(1, 2) * h, d.int(1, 2) * w], d.flag()
        op, table = d.one([("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                           ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")])  # fmt: skip
        return self.add(op, x, [d.g.const(made, "int32")], (n, *made, c), x.q, table, 3, half_pixel_centers=half)

    def mean(self, x: Made) -> Made:
        q = x.q if self.d.flag() else self.parameters(self.most(x) * 0.5)
        shape = (x.shape[0], 1, 1, x.shape[3])
        return self.add("MEAN", x, [self.d.g.const([1, 2], "int32")], shape, q, "ReducerOptions", keep_dims=True)

    def dense(self, x: Made) -> Made:
        """The end: a matrix product of all."""
        d, n, inputs = self.d, x.shape[0], int(np.prod(x.shape[1:]))
        flat = self.add("RESHAPE", x, [d.g.const([n, inputs], "int32")], (n, inputs), x.q, version=1)
        outputs = d.one([1, 5, 12])
        operands, size = self.weights(x, [outputs, inputs], 0, outputs)
        return self.add("FULLY_CONNECTED", flat, operands, (n, outputs), self.parameters(size), "FullyConnectedOptions",
                        11, fused_activation_function=d.one(["NONE", "RELU"]))  # fmt: skip


def chain(kind: str, seed: int) -> Case:
    """A network of ``kind`` integers: two to seven steps, and maybe a matrix product of all."""
    d = Draw(2 * seed + (kind == "INT16"))
    c = Chain(d, kind)
    steps = [c.conv, c.conv, c.conv, c.arithmetic, c.arithmetic, c.function, c.moved, c.pool, c.resized, c.mean,
             c.transposed]  # fmt: skip
    x = c.made[0]
    for _ in range(d.int(2, 7)):
        step = d.one(steps)
        if np.prod(x.shape) > 6000 and step in (c.transposed, c.resized):
            continue
        x = step(x)
        c.made.append(x)
    return d.case((c.dense(x) if d.flag() else x).tensor)
