"""ONNX-ML's maps from labels to numbers: where they come from tensors, and where they become tensors again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.control.sequence import ListTensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand

MAX_WIDTH = 1 << 24
"""Columns of a dense map: no model needs more, and a hostile file must not choose."""


@dataclass(eq=False)
class MapTensor(ListTensor):
    """One map: its keys ``[n]`` and their values ``[n]``. The user's form of it is a dict."""

    @staticmethod
    def pair(keys: Tensor, values: Tensor) -> MapTensor:
        return MapTensor(values.dtype, keys.shape, items=(keys, values))

    def assemble(self, parts: Sequence[object]) -> object:
        keys, values = (np.asarray(p).reshape(-1).tolist() for p in parts)
        return dict(zip(keys, values, strict=True))


@dataclass(eq=False)
class MapsTensor(ListTensor):
    """A sequence of maps with the same keys ``[k]``: a table ``[n, k]``. The user's form of it is a list of dicts."""

    @staticmethod
    def table(keys: Tensor, rows: Tensor) -> MapsTensor:
        return MapsTensor(rows.dtype, rows.shape[:1], items=(keys, rows))

    def assemble(self, parts: Sequence[object]) -> object:
        keys, rows = (np.asarray(p) for p in parts)
        names = keys.tolist()
        return [dict(zip(names, row, strict=True)) for row in rows.tolist()]


def _map(b: Builder, inputs: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    found = operand(b, inputs, 0)
    if not isinstance(found, MapTensor) or found.items is None:
        raise ShapeError(f"{b.where}: input 0 must be a map (a dict), found {found}")
    return found.items[0], found.items[1]


@register("ZipMap")
class ZipMap(Operator):
    """Scores ``[n, k]`` (or ``[k]``) to one map for each row, from ``labels`` (an array of k strings or integers)."""

    in_mnn = False
    attributes = {"labels": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, labels = operand(b, inputs, 0), np.asarray(self.attr(node, "labels")).reshape(-1)
        if x.rank not in (1, 2) or x.shape[-1] != labels.size:
            raise ShapeError(f"{b.where}: {labels.size} labels do not fit scores of shape {list(x.shape)}")
        return [MapsTensor.table(b.const(labels), b.reshape(x, (-1, labels.size)) if x.rank == 1 else x)]


@register("DictVectorizer")
class DictVectorizer(Operator):
    """A map to ``[1, n]``: the value of each key of ``vocabulary`` (an array), zero (or an empty string) without."""

    in_mnn = False
    attributes = {"vocabulary": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        keys, values = _map(b, inputs)
        known = np.asarray(self.attr(node, "vocabulary")).reshape(-1)
        if DType.of(known) is not keys.dtype and keys.shape != (0,):
            raise ShapeError(
                f"{b.where}: the map has keys of {keys.dtype.value}, the vocabulary of {DType.of(known).value}"
            )
        wanted = known.tolist()
        missing: object = "" if values.dtype is DType.STR else 0

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            given = dict(zip(arrays[0].tolist(), arrays[1].tolist(), strict=True))
            return [np.array([[given.get(k, missing) for k in wanted]], values.dtype.numpy)]

        return b.host("dict vectorizer", run, [keys, values], (values.dtype, (1, known.size)))


@register("CastMap")
class CastMap(Operator):
    """A map with integer keys to ``[1, n]`` of ``outputDataType``: the values in the order of the keys, or, with
    ``width`` above 0, each in the column that its key says, zero elsewhere."""

    in_mnn = False
    attributes = {"outputDataType": "DT_FLOAT", "width": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        keys, values = _map(b, inputs)
        if keys.dtype is not DType.I64:
            raise ShapeError(f"{b.where}: the map's keys must be integers, found {keys.dtype.value}")
        dtype, width = from_data_type(self.str_attr(node, "outputDataType"), b.where), self.int_attr(node, "width")
        if not 0 <= width <= MAX_WIDTH:
            raise ShapeError(f"{b.where}: a map of {width} columns")
        where, convert = b.where, _CONVERT.get(dtype, str)

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            pairs = sorted(zip(arrays[0].tolist(), arrays[1].tolist(), strict=True))
            found = [convert(v) for _, v in pairs]
            if not width:
                return [np.array([found], dtype.numpy).reshape(1, -1)]
            outside = [k for k, _ in pairs if not 0 <= k < width]
            if outside:
                raise RunError(f"{where}: key {outside[0]} is outside a map of {width} columns")
            row = np.full((1, width), "" if dtype is DType.STR else 0, dtype.numpy)
            for (key, _), value in zip(pairs, found, strict=True):
                row[0, key] = value
            return [row]

        return b.host("cast map", run, [keys, values], (dtype, (1, width or keys.shape[0])))


def _float(value: object) -> float:
    return float(cast(str, value))


def _int(value: object) -> int:
    return int(float(value)) if isinstance(value, float) else int(cast(str, value))


_CONVERT = {DType.F32: _float, DType.I64: _int}
