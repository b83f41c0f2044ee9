"""Layers that work element by element."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw, family


def _shape(d: Draw) -> tuple[int, ...]:
    return tuple(d.int(1, 6) for _ in range(d.int(2, 4)))


@family("AbsVal", "BNLL", "Sigmoid", "TanH", "ReLU6")
def plain(d: Draw, kind: str) -> Case:
    x = d.input(*_shape(d), low=-8, high=8)
    d.add(kind, ["data"])
    wide = x.astype(np.float64)
    found = {
        "AbsVal": np.abs(x), "BNLL": np.log1p(np.exp(wide)), "Sigmoid": 1 / (1 + np.exp(-wide)), "TanH": np.tanh(wide),
        "ReLU6": np.clip(x, 0, 6),
    }[kind]  # fmt: skip
    return d.case(wanted=[found])


@family("ReLU")
def relu(d: Draw) -> Case:
    d.input(*_shape(d))
    d.add("ReLU", ["data"], relu_param={"negative_slope": d.one([None, 0.0, 0.25, -0.5])})
    return d.case()


@family("ELU")
def elu(d: Draw) -> Case:
    d.input(*_shape(d))
    d.add("ELU", ["data"], elu_param={"alpha": d.one([None, 0.5, 2.0])})
    return d.case()


@family("PReLU")
def prelu(d: Draw) -> Case:
    x, shared = d.input(*_shape(d)), d.flag()
    slope = d.array(1 if shared else x.shape[1])
    d.add("PReLU", ["data"], ["out"], slope, prelu_param={"channel_shared": shared or None})
    per = slope.reshape(-1, *([1] * (x.ndim - 2)))
    return d.case(wanted=[np.where(x < 0, per * x, x)])


@family("Swish")
def swish(d: Draw) -> Case:
    x, beta = d.input(*_shape(d)), d.one([None, 1.0, 0.5, 1.75])
    d.add("Swish", ["data"], swish_param={"beta": beta})
    return d.case(wanted=[x / (1 + np.exp(-(1 if beta is None else beta) * x.astype(np.float64)))])


@family("Clip")
def clip(d: Draw) -> Case:
    x, low, high = d.input(*_shape(d)), d.number(-2, 0), d.number(0, 2)
    d.add("Clip", ["data"], clip_param={"min": low, "max": high})
    return d.case(wanted=[np.clip(x, low, high)])


@family("Threshold")
def threshold(d: Draw) -> Case:
    x, limit = d.input(*_shape(d)), d.one([None, 0.5, -0.25])
    d.add("Threshold", ["data"], threshold_param={"threshold": limit})
    return d.case(wanted=[(x > (limit or 0)).astype(np.float32)])


@family("Power")
def power(d: Draw) -> Case:
    exponent = d.one([None, 1.0, 2.0, 0.5, 3.0, -1.0, 0.75])
    scale, shift = d.one([None, 0.5, 2.0]), d.one([None, 0.25, 1.0])
    x = d.input(*_shape(d), low=0.5 if exponent not in (None, 1.0, 2.0) else -2)
    d.add("Power", ["data"], power_param={"power": exponent, "scale": scale, "shift": shift})
    inner = (shift or 0) + (scale or 1) * x.astype(np.float64)
    return d.case(wanted=[inner ** (1 if exponent is None else exponent)])


@family("Exp", "Log")
def exponential(d: Draw, kind: str) -> Case:
    base, scale, shift = d.one([None, -1.0, 2.0, 10.0]), d.one([None, 0.5, 2.0]), d.one([None, 0.25, 1.0])
    x = d.input(*_shape(d), low=0.5)
    d.add(kind, ["data"], **{f"{kind.lower()}_param": {"base": base, "scale": scale, "shift": shift}})
    inner = (shift or 0) + (scale or 1) * x.astype(np.float64)
    natural = 1 if base in (None, -1.0) else np.log(base)
    return d.case(wanted=[np.exp(inner * natural) if kind == "Exp" else np.log(inner) / natural])


@family("Dropout")
def dropout(d: Draw) -> Case:
    x = d.input(*_shape(d))
    d.add("Dropout", ["data"], dropout_param={"dropout_ratio": d.one([None, 0.25])})
    return d.case(wanted=[x])


@family("Split")
def split(d: Draw) -> Case:
    x = d.input(*_shape(d))
    d.add("Split", ["data"], ["a", "b"])
    return d.case("a", "b", wanted=[x, x])


@family("Eltwise")
def eltwise(d: Draw) -> Case:
    shape, count, kind = d.image(), d.int(2, 4), d.one(["PROD", "SUM", "MAX", None])
    parts = [d.input(*shape, name=f"in{i}") for i in range(count)]
    coeff = [d.number(-2, 2) for _ in parts] if kind in ("SUM", None) and d.flag() else None
    d.add(
        "Eltwise", [f"in{i}" for i in range(count)],
        eltwise_param={"operation": None if kind is None else Word(kind), "coeff": coeff},
    )  # fmt: skip
    if kind in ("SUM", None):
        found = sum(c * p.astype(np.float64) for c, p in zip(coeff or [1] * count, parts, strict=True))
    else:
        found = (np.multiply if kind == "PROD" else np.maximum).reduce(parts)
    return d.case(wanted=[np.asarray(found)])


def _covering(d: Draw) -> tuple[np.ndarray, tuple[int, ...], int, int | None, int | None]:
    """An input, the sizes that factors cover, the first axis, and both as they are written."""
    x = d.input(*(d.int(1, 5) for _ in range(d.int(2, 4))))
    axis = d.int(0, x.ndim - 1)
    count = d.int(1, x.ndim - axis)
    written = d.one([axis, axis - x.ndim])
    if axis == 1 and d.flag():
        return x, x.shape[1:2], 1, None, None
    if d.int(0, 5) == 0:
        return x, x.shape[axis:], axis, written, -1
    return x, x.shape[axis : axis + count], axis, written, count


def _spread(a: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return a.reshape(a.shape + (1,) * (rank - axis - a.ndim))


@family("Scale")
def scale(d: Draw) -> Case:
    x, shape, axis, written, count = _covering(d)
    factor, biased = d.array(*shape), d.flag()
    blobs = [factor, d.array(*shape)] if biased else [factor]
    d.add(
        "Scale", ["data"], ["out"], *blobs,
        scale_param={"axis": written, "num_axes": count, "bias_term": biased or None},
    )  # fmt: skip
    found = x * _spread(factor, axis, x.ndim)
    return d.case(wanted=[found + _spread(blobs[1], axis, x.ndim) if biased else found])


@family("Scale two")
def scale_two(d: Draw) -> Case:
    x, shape, axis, written, _ = _covering(d)
    factor = d.input(*shape, name="factor")
    d.add("Scale", ["data", "factor"], scale_param={"axis": written})
    return d.case(wanted=[x * _spread(factor, axis, x.ndim)])


@family("Bias")
def bias(d: Draw) -> Case:
    x, shape, axis, written, count = _covering(d)
    if d.flag():
        shift = d.array(*shape)
        d.add("Bias", ["data"], ["out"], shift, bias_param={"axis": written, "num_axes": count})
    else:
        shift = d.input(*shape, name="shift")
        d.add("Bias", ["data", "shift"], bias_param={"axis": written})
    return d.case(wanted=[x + _spread(shift, axis, x.ndim)])


@family("Axpy")
def axpy(d: Draw) -> Case:
    shape = d.image()
    factor = d.input(*shape[:2], *d.one([(), (1, 1)]), name="factor")
    x, y = d.input(*shape, name="x"), d.input(*shape, name="y")
    d.add("Axpy", ["factor", "x", "y"])
    return d.case(wanted=[factor.reshape(*shape[:2], 1, 1) * x + y])
