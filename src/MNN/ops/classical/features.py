"""Operators of ONNX-ML that prepare features: numbers and categories to numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.classical.encoding import lookup
from MNN.ops.classical.scores import rows
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank


def _array(op: Operator, node: Node, key: str) -> np.ndarray:
    found = op.attr(node, key)
    return np.zeros(0) if found is None else np.asarray(found).reshape(-1)


def _per_column(b: Builder, x: Tensor, values: np.ndarray, what: str) -> Tensor:
    """One number for all columns, or one for each."""
    if values.size not in (1, x.shape[-1]):
        raise ShapeError(f"{b.where}: {values.size} {what} do not fit {x.shape[-1]} columns")
    return b.const(values, x.dtype)


@register("Scaler")
class Scaler(Operator):
    """``(x - offset) * scale`` in single precision; each has one number or one for each of the last dimension."""

    in_mnn = False
    attributes = {"offset": None, "scale": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        if not x.rank or x.dtype is DType.STR:
            raise ShapeError(f"{b.where}: needs rows of numbers, found {x}")
        x = b.cast(x, DType.F32)
        offset = _per_column(b, x, _array(self, node, "offset"), "offsets")
        scale = _per_column(b, x, _array(self, node, "scale"), "factors")
        return [b.op("mul", b.op("sub", x, offset), scale)]


@register("Normalizer")
class Normalizer(Operator):
    """Rows over their largest element (MAX), the sum of magnitudes (L1) or their length (L2); rows where that is zero
    stay as they are."""

    in_mnn = False
    attributes = {"norm": "MAX"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        given = operand(b, inputs, 0)
        x = b.cast(rows(b, given), DType.F32)
        norm = self.str_attr(node, "norm")
        if norm == "MAX":
            size = b.reduce("max", x, [1])
        elif norm == "L1":
            size = b.reduce("sum", b.op("abs", x), [1])
        elif norm == "L2":
            size = b.op("sqrt", b.reduce("sum", b.op("mul", x, x), [1]))
        else:
            raise ShapeError(f"{b.where}: norm '{norm}' is not one of MAX, L1, L2")

        def body(m: BodyBuilder, a: int, s: int) -> int:
            return m("select", m("eq", s, m.const(0.0, DType.F32)), a, m("div", a, s))

        return [b.reshape(b.map(body, x, size), given.shape)]


@register("Imputer")
class Imputer(Operator):
    """``x`` with ``values`` (one, or one a column) wherever it is ``replaced``; NaN stands for missing floats."""

    in_mnn = False
    attributes = {"values": None, "replaced": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 1, 2)
        replaced, dtype = self.float_attr(node, "replaced"), x.dtype
        if not (dtype.is_float or dtype is DType.I64):
            raise ShapeError(f"{b.where}: takes floats or 64-bit integers, found {dtype.value}")
        values = _per_column(b, x, _array(self, node, "values"), "values")

        def body(m: BodyBuilder, a: int, v: int) -> int:
            if replaced != replaced:
                return m("select", m("isnan", a), v, a) if dtype.is_float else a
            return m("select", m("eq", a, m.const(replaced if dtype.is_float else int(replaced), dtype)), v, a)

        return [b.map(body, x, values)]


@register("OneHotEncoder")
class OneHotEncoder(Operator):
    """Each element as a row of floats, 1 at its place among ``categories`` (an array of strings or integers).

    Unknown elements give zeros, or with ``zeros`` False a :class:`~MNN.errors.RunError`. Numbers are cut to integers.
    """

    in_mnn = False
    attributes = {"categories": None, "zeros": True}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, categories = operand(b, inputs, 0), _array(self, node, "categories")
        zeros, texts, where = self.bool_attr(node, "zeros"), categories.dtype == object, b.where
        if texts != (x.dtype is DType.STR):
            raise ShapeError(f"{where}: its categories are {DType.of(categories).value}, its input {x.dtype.value}")
        shape = (*x.shape, categories.size)
        numbers = x if texts else b.cast(x, DType.I64)
        if zeros and not texts:
            one = b.op("eq", b.unsqueeze(numbers, [x.rank]), b.const(categories.astype(np.int64)))
            return [b.cast(one, DType.F32)]
        places = {c: i for i, c in enumerate(categories.tolist())}

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            flat = arrays[0].reshape(-1).tolist()
            at = np.array([places.get(v, -1) for v in flat], np.int64)
            if not zeros and at.size and at.min() < 0:
                raise RunError(f"{where}: {flat[int(at.argmin())]!r} is none of its {categories.size} categories")
            out = np.zeros((at.size, categories.size), np.float32)
            known = np.flatnonzero(at >= 0)
            out[known, at[known]] = 1
            return [out.reshape(shape)]

        return b.host("one hot", run, [numbers], (DType.F32, shape))


@register("CategoryMapper")
class CategoryMapper(Operator):
    """Strings to the integers beside them, or integers to the strings; others to a default."""

    in_mnn = False
    attributes = {"strings": None, "integers": None, "defaultInt": -1, "defaultString": "_Unused"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, strings = operand(b, inputs, 0), _array(self, node, "strings").astype(object)
        integers = _array(self, node, "integers").astype(np.int64)
        if strings.size != integers.size:
            raise ShapeError(f"{b.where}: {strings.size} strings and {integers.size} integers are no pairs")
        if x.dtype is DType.STR:
            return lookup(b, x, strings, integers, np.array([self.int_attr(node, "defaultInt")], np.int64))
        other = np.array([self.str_attr(node, "defaultString")], object)
        return lookup(b, b.cast(x, DType.I64), integers, strings, other)


@register("FeatureVectorizer")
class FeatureVectorizer(Operator):
    """Matrices (a vector is one row) beside each other as floats; each is cut or filled with zeros to its ``sizes``."""

    in_mnn = False
    attributes = {"sizes": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        sizes = list(self.ints_attr(node, "sizes"))
        parts = []
        for i in range(len(inputs)):
            x = b.cast(rows(b, operand(b, inputs, i)), DType.F32)
            want = sizes[i] if i < len(sizes) else x.shape[1]
            b.require(max(want, 0) * x.shape[0], "columns")
            if want < 0:
                raise ShapeError(f"{b.where}: input {i} has {want} columns")
            x = b.slice(x, [0, 0], [x.shape[0], min(want, x.shape[1])])
            parts.append(b.pad(x, [0, 0], [0, want - x.shape[1]]))
        return [b.concat(parts, 1)]
