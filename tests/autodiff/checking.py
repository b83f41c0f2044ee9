"""Gradients of whole graphs against finite differences, in float64 by the reference implementation.

What is differentiated is a sum of all float outputs, each with a random weight of its own for every element, so that no
error in one can hide behind another. Central differences are taken along random directions of each float input; where
two steps of different sizes disagree, the function has a kink within the step, and the direction does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

STEP = 1e-5
REFERENCE = Config(reference=True)


@dataclass
class Checked:
    """What a comparison found: the largest error relative to the largest difference quotient, and how many directions
    counted, of those tried."""

    error: float = 0.0
    counted: int = 0
    tried: int = 0
    worst: str = ""
    gradients: dict[str, np.ndarray] = field(default_factory=dict)


def widened(graph: Graph) -> Graph:
    """The same graph, its constants of f32 and f16 in float64 (subgraphs too)."""
    seen: set[int] = set()

    def walk(g: Graph) -> None:
        for node in g.nodes:
            for v in (*node.inputs, *node.outputs):
                if v is None or id(v) in seen:
                    continue
                seen.add(id(v))
                if v.dtype in (DType.F32, DType.F16):
                    v.dtype = DType.F64
                if isinstance(v.data, np.ndarray) and v.data.dtype in (np.float32, np.float16):
                    v.data = v.data.astype(np.float64)
            for _, sub in node.subgraphs():
                walk(sub)
        for v in (*g.inputs, *g.outputs):
            if v.dtype in (DType.F32, DType.F16):
                v.dtype = DType.F64

    walk(graph)
    return graph


def weighted_loss(
    graph: Graph, outputs: Sequence[Value], shapes: Sequence[tuple[int, ...]], dtype: DType, prefix: str = ""
) -> Value:
    """Appends nodes that sum the outputs, each element with a random weight."""
    rng = np.random.default_rng(7)
    total: Value | None = None
    for k, (y, shape) in enumerate(zip(outputs, shapes, strict=True)):
        weight = Value(
            f"{prefix}weight{k}",
            dtype,
            shape,
            rng.uniform(0.5, 1.5, shape).astype(dtype.numpy) * rng.choice([-1, 1], shape).astype(dtype.numpy),
        )
        product, part = Value(f"{prefix}weighted{k}", dtype), Value(f"{prefix}part{k}", dtype)
        graph.nodes.append(Node("BinaryOp", f"{prefix}weigh{k}", [y, weight], [product], {"opType": "MUL"}))
        axes = Value(f"{prefix}axes{k}", DType.I64, (len(shape),), np.arange(len(shape), dtype=np.int64))
        if shape:
            graph.nodes.append(
                Node("Reduction", f"{prefix}sum{k}", [product, axes], [part], {"operation": "SUM", "keepDims": False})
            )
        else:
            part = product
        if total is None:
            total = part
        else:
            joined = Value(f"{prefix}total{k}", dtype)
            graph.nodes.append(Node("BinaryOp", f"{prefix}add{k}", [total, part], [joined], {"opType": "ADD"}))
            total = joined
    assert total is not None
    return total


def differentiated(
    graph: Graph, feeds: Mapping[str, np.ndarray], prefix: str = ""
) -> tuple[Value, list[Value], list[Value]]:
    """Appends the loss of a graph's float outputs and its gradients: the loss, the float inputs, their gradients."""
    inputs = [v for v in graph.inputs if not v.is_const]
    results = Executor(graph, REFERENCE).run({v: feeds[v.name] for v in inputs}, graph.outputs)
    floats = [
        (v, np.asarray(r))
        for v, r in zip(graph.outputs, results, strict=True)
        if isinstance(r, np.ndarray) and r.dtype.kind == "f" and r.size
    ]
    wrt = [
        v
        for v in inputs
        if isinstance(feeds[v.name], np.ndarray) and feeds[v.name].dtype.kind == "f" and feeds[v.name].size
    ]
    if not floats or not wrt:
        raise LookupError("no floats")
    dtype = DType.of(floats[0][1])
    loss = weighted_loss(graph, [v for v, _ in floats], [r.shape for _, r in floats], dtype, prefix)
    made = [Value(f"{prefix}gradient of {v.name}", v.dtype) for v in wrt]
    graph.nodes.append(Node("Gradient", f"{prefix}gradients", [loss, *wrt], made))
    return loss, wrt, made


def check(
    graph: Graph, feeds: Mapping[str, np.ndarray], seed: int = 0, directions: int = 4, second: bool = False
) -> Checked:
    """Compares the gradients of a graph (which is changed) at some numbers, floats of which are float64; ``second``:
    the gradients of these gradients. Raises ``LookupError`` where there are no floats."""
    loss, wrt, made = differentiated(graph, feeds)
    if second:
        graph = Graph(graph.name, graph.inputs, made, graph.nodes)
        loss, wrt, made = differentiated(graph, feeds, "second ")
    inputs = [v for v in graph.inputs if not v.is_const]
    executor = Executor(graph, REFERENCE)

    def run(arrays: Mapping[str, np.ndarray], fetch: Sequence[Value]) -> list[np.ndarray]:
        return [np.asarray(r) for r in executor.run({v: arrays[v.name] for v in inputs}, fetch)]

    found = run(feeds, made)
    result = Checked(gradients={v.name: g for v, g in zip(wrt, found, strict=True)})
    rng = np.random.default_rng([11, seed])
    quotients: list[tuple[str, float, float]] = []
    for v, g in zip(wrt, found, strict=True):
        x = feeds[v.name]
        assert g.shape == x.shape, (v.name, g.shape, x.shape)
        scale = STEP * max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0)) ** 0.5)
        for k in range(directions):
            d = rng.normal(size=x.shape)
            if k % 2:  # a single element
                d = np.zeros(x.shape)
                d.reshape(-1)[rng.integers(d.size)] = 1.0
            result.tried += 1
            values = []
            for h in (scale, scale / 2):
                high, low = (float(run({**feeds, v.name: x + s * h * d}, [loss])[0].reshape(())) for s in (1, -1))
                values.append((high - low) / (2 * h))
            size = max(abs(values[0]), 1e-3 * abs(float(np.abs(g).max(initial=0))), 1e-6)
            if not np.isfinite(values).all() or abs(values[0] - values[1]) > 1e-4 * size:
                continue
            result.counted += 1
            quotients.append((v.name, values[1], float((g * d).sum())))
    largest = max((abs(q) for _, q, _ in quotients), default=0.0)
    for name, want, have in quotients:
        error = abs(want - have) / max(largest, 1e-6)
        if not error <= result.error:
            result.error, result.worst = error, f"{name}: {have} instead of {want}"
    return result
