"""Layers of seeded random sizes beside the peers: ``python -m benchmarks.random_layers --kind max3d,transposed3d``.

One layer between two 1x1 convolutions of few channels, as it stands in a network, so that no engine is charged for the
layout in which a caller hands its tensors; with ``--alone`` the layer by itself, as a caller has it. Engines take turns
in one process, and differences are from ONNX Runtime without optimisations (see :mod:`benchmarks.in_turns`); the last
three columns are its ratios. Prints rows of a Markdown table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .in_turns import LEVELS, engines, in_turns, plain_outputs

Draw = np.random.Generator
_WORK = 2e8, 2e9
"""Multiply-adds of a convolution that is drawn."""
_NUMBERS = 2e5, 4e6
"""Numbers that a layer without products reads."""


class Layer:
    """What is drawn: a node's type, attributes, filters' shape, the shape that it is given."""

    def __init__(
        self, op: str, shape: tuple[int, ...], attributes: Mapping[str, object], filters: tuple[int, ...] | None = None
    ) -> None:
        self.op, self.shape, self.attributes, self.filters = op, shape, attributes, filters

    def text(self) -> str:
        about = " ".join(f"{k}={v}" for k, v in self.attributes.items() if k != "auto_pad")
        results = "" if self.filters is None else f" to {self.filters[0 if self.op == 'Conv' else 1]}"
        return f"{self.op} {'x'.join(map(str, self.shape))}{results} {about.replace(', ', ',')}"


def _several(draw: Draw, choices: tuple[int, ...], axes: int) -> list[int]:
    """One number for all axes more often than one for each."""
    same = draw.random() < 0.6
    return [int(draw.choice(choices))] * axes if same else [int(n) for n in draw.choice(choices, axes)]


def pool(axes: int, op: str) -> Callable[[Draw], Layer]:
    """Pooling over so many axes."""

    def make(draw: Draw) -> Layer:
        while True:
            kernel = _several(draw, (1, 2, 3), axes)
            shape = 1, int(draw.integers(8, 260)), *(int(n) for n in draw.integers(5, 60, axes))
            if max(kernel) > 1 and _NUMBERS[0] < np.prod(shape) < _NUMBERS[1]:
                break
        strides = [int(draw.choice((1, k, k))) for k in kernel]
        pads = [int(draw.integers(0, k // 2 + 1)) for k in kernel]
        more = {"count_include_pad": int(draw.integers(2))} if op == "AveragePool" else {}
        return Layer(op, shape, {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, **more})

    return make


def convolution(axes: int) -> Callable[[Draw], Layer]:
    """A convolution over so many axes: dilated, in groups or with strides as often as networks have them."""

    def make(draw: Draw) -> Layer:
        while True:
            kernel = _several(draw, (1, 2, 3, 3, 3, 4, 5, 7), axes)
            strides, dilations = _several(draw, (1, 1, 1, 2, 3), axes), _several(draw, (1, 1, 1, 2, 3, 6), axes)
            groups = int(draw.choice((1, 1, 1, 1, 2, 4, 8, 32)))
            cin, cout = (int(n) * groups for n in draw.integers(*((3, 400) if groups == 1 else (2, 600 // groups)), 2))
            shape = 1, cin, *(int(n) for n in draw.integers(4, 80, axes))
            pads = [int(draw.integers(0, (k - 1) * d // 2 + 1)) for k, d in zip(kernel, dilations, strict=True)]
            spans = [(k - 1) * d + 1 - 2 * p for k, d, p in zip(kernel, dilations, pads, strict=True)]
            out = [(n - span) // s + 1 for n, span, s in zip(shape[2:], spans, strides, strict=True)]
            if min(out) > 0 and _WORK[0] < np.prod(out) * cin * cout * np.prod(kernel) / groups < _WORK[1]:
                break
        attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": groups}
        return Layer("Conv", shape, attributes | {"pads": pads * 2}, (cout, cin // groups, *kernel))

    return make


def transposed(axes: int) -> Callable[[Draw], Layer]:
    """A transposed convolution over so many axes."""

    def make(draw: Draw) -> Layer:
        while True:
            kernel, strides = _several(draw, (2, 3, 4), axes), _several(draw, (1, 2, 2), axes)
            cin, cout = (int(n) for n in draw.integers(8, 200, 2))
            shape = 1, cin, *(int(n) for n in draw.integers(4, 28, axes))
            if _WORK[0] < np.prod(shape) * cout * np.prod(kernel) < _WORK[1]:
                break
        pads = [int(draw.integers(0, (k + 1) // 2)) for k in kernel]
        more = [int(draw.integers(0, s)) for s in strides]
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "output_padding": more}
        return Layer("ConvTranspose", shape, attributes, (cin, cout, *kernel))

    return make


KINDS: dict[str, Callable[[Draw], Layer]] = {
    **{f"max{n}d": pool(n, "MaxPool") for n in (1, 2, 3)},
    **{f"average{n}d": pool(n, "AveragePool") for n in (1, 2, 3)},
    **{f"transposed{n}d": transposed(n) for n in (1, 2, 3)},
    **{f"convolution{n}d": convolution(n) for n in (1, 2, 3)},
}


def model(layer: Layer, draw: Draw, alone: bool) -> onnx.ModelProto:
    """The layer by itself or between two 1x1 convolutions from and to four channels."""
    few, channels, axes = 4, layer.shape[1], len(layer.shape) - 2
    weights: list[onnx.TensorProto] = []

    def filters(name: str, *shape: int, depth: int) -> str:
        data = (draw.standard_normal(shape) / np.sqrt(depth)).astype(np.float32)
        weights.append(numpy_helper.from_array(data, name))
        return name

    inputs = ["x" if alone else "a"]
    out = channels
    if layer.filters is not None:
        out = layer.filters[1 if layer.op == "ConvTranspose" else 0]
        per_group = channels if layer.op == "ConvTranspose" else layer.filters[1]
        inputs.append(filters("w", *layer.filters, depth=per_group * int(np.prod(layer.filters[2:]))))
        inputs.append(filters("c", out, depth=1))
    nodes = [helper.make_node(layer.op, inputs, ["y" if alone else "b"], **layer.attributes)]
    if not alone:
        one = (1,) * axes
        first = helper.make_node("Conv", ["x", filters("w1", channels, few, *one, depth=few)], ["a"])
        last = helper.make_node("Conv", ["b", filters("w2", few, out, *one, depth=out)], ["y"])
        nodes = [first, *nodes, last]
    shape = layer.shape if alone else (layer.shape[0], few, *layer.shape[2:])
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "layer", values, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="max3d,average3d,transposed3d", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--cases", type=int, default=6, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.6, help="per engine and case")
    options = parser.parse_args()
    print("| layer | " + " | ".join([*LEVELS, "ONNX Runtime", "OpenVINO f32", "OpenVINO bf16", *LEVELS]) + " |")
    print("| --- |" + " ---: |" * 9)
    for kind in options.kind.split(","):
        for case in range(options.cases):
            draw = np.random.default_rng([options.seed, case, *kind.encode()])
            layer = KINDS[kind](draw)
            made = model(layer, draw, options.alone)
            dims = made.graph.input[0].type.tensor_type.shape.dim
            data = {"x": draw.standard_normal([d.dim_value for d in dims]).astype(np.float32)}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "layer.onnx"
                onnx.save(made, str(path))
                print(_row(layer, path, data, options.seconds), flush=True)


def _row(layer: Layer, path: Path, data: dict[str, np.ndarray], seconds: float) -> str:
    plain = plain_outputs(path, data)["y"]
    runs = dict(engines(path, data, ["y"], False))
    away = {n: float(np.abs(run()["y"] - plain).max() / max(np.abs(plain).max(), 1e-30)) for n, run in runs.items()}
    ms = in_turns(runs, seconds)
    none = float("nan")
    ort, f32, bf16 = (ms.get(n, none) for n in ("ONNX Runtime", "OpenVINO f32", "OpenVINO bf16"))
    best = float(np.nanmin([ort, f32]))
    ours = " | ".join(f"{ms[n]:.3g} ({away[n]:.0e})" for n in LEVELS)
    ratios = f"{best / ms['high']:.2f} | {best / ms['normal']:.2f} | {bf16 / ms['low']:.2f}"
    return f"| {layer.text()} | {ours} | {ort:.3g} | {f32:.3g} | {bf16:.3g} | {ratios} |"


if __name__ == "__main__":
    main()
