"""Normalisations, products and softmax."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw, family


@family("BatchNorm")
def batch_norm(d: Draw) -> Case:
    x = d.input(d.int(2, 3), *(d.int(1, 5) for _ in range(d.int(1, 3))))
    channels, epsilon = x.shape[1], d.one([None, 1e-3])
    total = d.one([1.0, 999.0, 0.0])
    mean, variance = d.array(channels), d.array(channels, low=0.1)
    own = d.int(0, 3) == 0
    d.add(
        "BatchNorm", ["data"], ["out"], mean, variance, np.array([total], np.float32),
        batch_norm_param={"eps": epsilon, "use_global_stats": False if own else d.one([None, True])},
    )  # fmt: skip
    per, wide = (-1, *([1] * (x.ndim - 2))), x.astype(np.float64)
    share = 1 / total if total else 0.0
    m, v = (mean * share).reshape(per), (variance * share).reshape(per)
    if own:
        axes = tuple(a for a in range(x.ndim) if a != 1)
        m, v = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return d.case(wanted=[(wide - m) / np.sqrt(v + (epsilon or 1e-5))], tolerance=1e-4)


@family("BN")
def bn(d: Draw) -> Case:
    x = d.input(*d.image())
    slope, bias, mean = (d.array(x.shape[1]) for _ in range(3))
    variance, per = d.array(x.shape[1], low=0.1), (-1, 1, 1)
    if d.flag():
        d.add("BN", ["data"], ["out"], slope, bias, bn_param={"bn_mode": Word("INFERENCE")})
        return d.case(wanted=[x * slope.reshape(per) + bias.reshape(per)])
    d.add("BN", ["data"], ["out"], slope, bias, mean, variance, bn_param={"eps": 1e-5})
    normal = (x - mean.reshape(per)) / np.sqrt(variance.reshape(per).astype(np.float64) + 1e-5)
    return d.case(wanted=[normal * slope.reshape(per) + bias.reshape(per)])


@family("MVN")
def mvn(d: Draw) -> Case:
    x = d.input(d.int(1, 2), d.int(1, 4), d.int(2, 7), d.int(2, 7))
    across, scaled, epsilon = d.flag(), d.flag(), d.one([None, 1e-3])
    d.add("MVN", ["data"], mvn_param={
        "across_channels": across or None, "normalize_variance": None if scaled else False, "eps": epsilon,
    })  # fmt: skip
    axes, wide = ((1, 2, 3) if across else (2, 3)), x.astype(np.float64)
    found = wide - wide.mean(axes, keepdims=True)
    if scaled:
        found = found / (np.sqrt((found**2).mean(axes, keepdims=True)) + (epsilon or 1e-9))
    return d.case(wanted=[found])


@family("Normalize")
def normalize(d: Draw) -> Case:
    x, across, shared = d.input(*d.image()), d.flag(), d.flag()
    scale = d.array(1 if shared else x.shape[1])
    d.add("Normalize", ["data"], ["out"], scale, norm_param={"across_spatial": across, "channel_shared": shared})
    wide = x.astype(np.float64)
    norm = np.sqrt((wide**2).sum((1, 2, 3) if across else 1, keepdims=True) + 1e-10)
    return d.case(wanted=[wide / norm * scale.reshape(-1, 1, 1)])


@family("Softmax", "SoftmaxWithLoss")
def softmax(d: Draw, kind: str) -> Case:
    x = d.input(*(d.int(1, 6) for _ in range(d.int(2, 4))))
    axis = d.int(0, x.ndim - 1)
    written = None if axis == 1 and d.flag() else d.one([axis, axis - x.ndim])
    d.add(kind, ["data"], softmax_param={"axis": written})
    power = np.exp(x - x.max(axis, keepdims=True).astype(np.float64))
    return d.case(wanted=[power / power.sum(axis, keepdims=True)])


@family("SigmoidCrossEntropyLoss")
def sigmoid_loss(d: Draw) -> Case:
    x = d.input(*d.image())
    d.add("SigmoidCrossEntropyLoss", ["data"])
    return d.case(wanted=[1 / (1 + np.exp(-x.astype(np.float64)))])


@family("InnerProduct")
def inner_product(d: Draw) -> Case:
    x = d.input(*(d.int(1, 6) for _ in range(d.int(2, 4))))
    axis, outputs = d.int(0, x.ndim - 1), d.int(1, 7)
    rows = x.reshape(*x.shape[:axis], -1).astype(np.float64)
    transposed, biased = d.flag(), d.flag()
    weight, bias = d.array(outputs, rows.shape[-1]), d.array(outputs)
    blobs = [weight.T.copy() if transposed else weight] + ([bias] if biased else [])
    d.add("InnerProduct", ["data"], ["out"], *blobs, inner_product_param={
        "num_output": outputs, "axis": None if axis == 1 and d.flag() else axis, "transpose": transposed or None,
        "bias_term": None if biased else False,
    })  # fmt: skip
    return d.case(wanted=[rows @ weight.T + (bias if biased else 0)])


@family("Embed")
def embed(d: Draw) -> Case:
    rows, width, biased = d.int(1, 9), d.int(1, 5), d.flag()
    index = d.rng.integers(0, rows, [d.int(1, 4) for _ in range(d.int(1, 3))])
    d.fed(index, "data")
    table, bias = d.array(rows, width), d.array(width)
    d.add("Embed", ["data"], ["out"], table, *([bias] if biased else []), embed_param={
        "input_dim": rows, "num_output": width, "bias_term": None if biased else False,
    })  # fmt: skip
    return d.case(wanted=[table[index] + (bias if biased else 0)])
