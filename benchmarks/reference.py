"""Float64 answers to measure errors against: the ONNX graph run by onnx's own reference implementation in double."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from .models import Array, Model


def reference(model: Model, work: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Outputs by name, those of ``model.rows`` where it has some; computed once and cached under the hash of the model
    and its inputs."""
    if model.rows is None:
        return _reference(model, model.feeds, work)
    parts = [_reference(model, {n: a[r : r + 1] for n, a in model.feeds.items()}, work) for r in model.rows]
    return {name: np.concatenate([p[name] for p in parts]) for name in model.outputs}


def _reference(model: Model, feeds: dict[str, Array], work: Path) -> dict[str, npt.NDArray[np.float64]]:
    key = hashlib.sha256(model.digest.encode())
    for name, data in feeds.items():
        key.update(f"{name}{data.shape}{data.dtype}".encode() + data.tobytes())
    file = work / "references" / f"{model.name.replace(':', '-')}-{key.hexdigest()[:16]}.npz"
    if not file.is_file():
        proto = onnx.load(str(model.path))
        _to_double(proto.graph)
        doubles = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
        found = ReferenceEvaluator(proto).run(model.outputs, doubles)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial.npz")
        np.savez(partial, **dict(zip(model.outputs, found, strict=True)))
        os.replace(partial, file)
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def _to_double(graph: onnx.GraphProto) -> None:
    """Make every float32 in a graph float64: weights, constants, casts, declared types, subgraphs."""
    for tensor in graph.initializer:
        _tensor_to_double(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _tensor_to_double(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                _to_double(attribute.g)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE


def _tensor_to_double(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def error(
    found: dict[str, Array], expected: dict[str, npt.NDArray[np.float64]], rows: tuple[int, ...] | None = None
) -> float:
    """Largest difference of any output, relative to the largest value of that output; inf for wrong shapes or NaNs.

    ``rows``: those of ``found`` that ``expected`` holds, all for None.
    """
    worst = 0.0
    for name, want in expected.items():
        got = np.asarray(found.get(name, np.empty(0)), np.float64)
        if rows is not None and len(got) > max(rows):
            got = got[list(rows)]
        if got.size != want.size or not np.isfinite(got).all():
            return float("inf")
        scale = float(np.abs(want).max(initial=0.0)) or 1.0
        worst = max(worst, float(np.abs(got.reshape(want.shape) - want).max(initial=0.0)) / scale)
    return worst
