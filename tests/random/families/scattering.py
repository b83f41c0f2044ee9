"""TensorScatter, beside onnx's reference: caches of any rank and type, written along any axis from any place on."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    """A cache, what is written to it, and where."""
    rank = draw.int(2, 5)
    axis = draw.int(1, rank - 1)
    shape = list(draw.shape(rank, 1, 5))
    shape[axis] = draw.often(draw.int(1, 9), [24, 65])
    count = draw.int(1, shape[axis])
    kind = draw.choice([
        np.float32, np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64, bool
    ])  # fmt: skip
    cache = draw.normal(*shape, dtype=np.float64) * 100
    update = draw.normal(*shape[:axis], count, *shape[axis + 1 :], dtype=np.float64) * 100
    attributes: dict[str, Any] = {}
    if axis != rank - 2 or draw.flag():
        attributes["axis"] = draw.choice([axis, axis - rank])
    circular = draw.flag()
    if circular or draw.flag():
        attributes["mode"] = "circular" if circular else "linear"
    given: list[Any] = [a.astype(np.uint8 if kind is np.uint8 else np.int64).astype(kind) if kind not in _FLOATS
                        else a.astype(kind) for a in (cache, update)]  # fmt: skip
    if draw.flag(0.8):
        most = 3 * shape[axis] if circular else shape[axis] - count
        given.append(draw.rng.integers(0, most + 1, shape[0]))
    made = Case("TensorScatter", [Operand(a) for a in given], attributes, opset=24, scale="exact")

    def oracle(arrays: list[Any]) -> list[Any]:
        model = onnx.load_model_from_string(made.model(arrays))
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(made.output_names, made.feeds(arrays))]

    made.oracle = oracle
    if kind is ml_dtypes.bfloat16:
        made.excuse = "bfloat16, which its Python does not take"
    return made


_FLOATS = (np.float32, np.float16, np.float64, ml_dtypes.bfloat16)
