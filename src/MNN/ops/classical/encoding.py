"""Tables from labels to labels, looked up by the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand


@register("LabelEncoder")
class LabelEncoder(Operator):
    """Each element's entry in a table: ``values[keys.index(x)]``, or ``default`` (one element). NaN is a key like any.

    ``keys`` has the input's dtype, ``values`` and ``default`` the result's.
    """

    in_mnn = False
    attributes = {"keys": None, "values": None, "default": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        keys, values, default = (np.asarray(self.attr(node, k)).reshape(-1) for k in ("keys", "values", "default"))
        types = [DType.of(a) for a in (keys, values, default)]
        if keys.size != values.size or default.size != 1 or types[0] is not x.dtype or types[1] is not types[2]:
            raise ShapeError(
                f"{b.where}: {keys.size} keys of {types[0].value} to {values.size} values of {types[1].value} "
                f"do not fit an input of {x.dtype.value}"
            )
        return lookup(b, x, keys, values, default)


def lookup(b: Builder, x: Tensor, keys: np.ndarray, values: np.ndarray, default: np.ndarray) -> list[Tensor]:
    """``values`` where ``keys`` has the elements of ``x``, ``default`` (one element) where it has not."""
    table = {_key(k): v for k, v in zip(keys.tolist(), values.tolist(), strict=True)}
    fallback, dtype = default.tolist()[0], DType.of(values)

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = [table.get(_key(v), fallback) for v in arrays[0].reshape(-1).tolist()]
        out = np.empty(len(found), dtype.numpy)
        out[:] = found
        return [out.reshape(x.shape)]

    return b.host("labels", run, [x], (dtype, x.shape))


def _key(value: object) -> object:
    return "nan" if isinstance(value, float) and value != value else value
