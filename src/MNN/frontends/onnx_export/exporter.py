"""What a handler of the way back works with: appends ONNX nodes, makes constants, reads attributes and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from MNN.errors import UnsupportedError
from MNN.frontends.common.handlers import Handlers
from MNN.frontends.onnx.tensors import DTYPES
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import operators
from MNN.ops.core.datatypes import from_data_type

OPSET = 21
"""What models need at least; some operators raise it."""
CODES = {dtype: code for code, dtype in DTYPES.items()}
Handler = Callable[["Exporter", Node], "str | Sequence[str]"]
table: Handlers[Handler] = Handlers("MNN.frontends.onnx_export.operators", "ONNX export")
exports = table.handles


class Shared:
    """What all graphs of a model share: names, initializers, the opset."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.initializers: list[TensorProto] = []
        self.constants: dict[int, str] = {}
        self.kept: list[object] = []
        self.lists: set[int] = set()
        """Values that are lists of tensors, by ``id``."""
        self.opset = OPSET
        self.convert: Callable[[Graph, Exporter], GraphProto] | None = None

    def unique(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name


class Exporter:
    """One graph being written."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.nodes: list[NodeProto] = []
        self.base = ""

    # -- making -----------------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attrs: object) -> str:
        """Appends a node with one output and returns its name. Attributes that are None are left out."""
        return self.emit(kind, inputs, 1, **attrs)[0]

    def emit(self, kind: str, inputs: Iterable[str], outputs: int, **attrs: object) -> list[str]:
        """Appends a node; an operand left out is an empty name."""
        names = [self.shared.unique(f"{self.base}/{kind}") for _ in range(outputs)]
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        node = NodeProto(op_type=kind, name=self.shared.unique(f"{self.base}/{kind}/node"))
        node.input.extend(given)
        node.output.extend(names)
        for key, value in attrs.items():
            if isinstance(value, np.ndarray):
                value = numpy_helper.from_array(value)
            if value is not None:
                node.attribute.append(_attribute(key, value))
        self.nodes.append(node)
        return names

    def const(self, array: object, dtype: DType | None = None) -> str:
        """A constant. Python ints become i64, floats f32, unless ``dtype`` says otherwise."""
        data = np.asarray(array)
        if dtype is not None:
            data = data.astype(dtype.numpy)
        elif not isinstance(array, np.ndarray) and data.dtype.kind == "f":
            data = data.astype(np.float32)
        name = self.shared.unique(f"{self.base}/const")
        self.shared.initializers.append(_tensor(data, name))
        return name

    def like(self, number: float, x: Value) -> str:
        """A scalar in the element type of ``x``."""
        return self.const(np.asarray(number), self.dtype(x))

    def need(self, opset: int) -> None:
        """Raises the model's opset."""
        self.shared.opset = max(self.shared.opset, opset)
        if self.shared.opset > onnx.defs.onnx_opset_version():
            raise UnsupportedError(f"it needs ONNX opset {opset}, which the installed onnx package does not know")

    def subgraph(self, graph: Graph) -> GraphProto:
        assert self.shared.convert is not None
        return self.shared.convert(graph, self)

    # -- knowing ----------------------------------------------------------------------------------------------------

    def name(self, value: Value | None) -> str:
        """What a value is called in the model; a constant is put there when it is first asked for."""
        if value is None:
            return ""
        if value.data is not None:
            return self._constant(value)
        key = id(value)
        if key not in self.shared.names:
            self.shared.names[key] = self.shared.unique(value.name or "value")
            self.shared.kept.append(value)
        return self.shared.names[key]

    def _constant(self, value: Value) -> str:
        data = value.data
        key = id(data)
        if key not in self.shared.constants:
            array = data.dequantize() if isinstance(data, QuantizedArray) else value.array()
            name = self.shared.unique(value.name or "const")
            self.shared.initializers.append(_tensor(array, name))
            self.shared.constants[key] = name
            self.shared.kept.append(data)
        return self.shared.constants[key]

    def input(self, node: Node, index: int) -> str:
        """The name of an operand; empty where it is left out."""
        return self.name(self.value(node, index))

    def value(self, node: Node, index: int) -> Value | None:
        """An operand, None where it is left out."""
        return node.inputs[index] if index < len(node.inputs) else None

    def required(self, node: Node, index: int) -> Value:
        value = self.value(node, index)
        if value is None:
            raise UnsupportedError(f"{node.op} '{node.name}': operand {index} is missing")
        return value

    def numbers(self, value: Value | None) -> np.ndarray | None:
        """The numbers of a constant, else None."""
        return None if value is None or value.data is None else value.array()

    def ints(self, value: Value | None) -> list[int] | None:
        found = self.numbers(value)
        return None if found is None else [int(v) for v in found.reshape(-1)]

    def dtype(self, value: Value | None) -> DType:
        """The element type. Raises :class:`UnsupportedError` where it is unknown."""
        if value is None or value.dtype is None:
            raise UnsupportedError(f"the element type of '{value.name if value else ''}' is not known")
        return value.dtype

    def rank(self, value: Value | None) -> int:
        """The number of dimensions. Raises :class:`UnsupportedError` where it is unknown."""
        if value is None or value.shape is None:
            raise UnsupportedError(f"the number of dimensions of '{value.name if value else ''}' is not known")
        return len(value.shape)

    def attr(self, node: Node, key: str) -> object:
        """An attribute, or what it is when it is left out."""
        found = node.attrs.get(key)
        return operators()[node.op].attributes.get(key) if found is None else found

    def number(self, node: Node, key: str) -> float:
        found = self.attr(node, key)
        return float(found) if isinstance(found, (int, float)) else 0.0

    def integer(self, node: Node, key: str) -> int:
        return int(self.number(node, key))

    def flag(self, node: Node, key: str) -> bool:
        return bool(self.attr(node, key))

    def text(self, node: Node, key: str) -> str:
        return str(self.attr(node, key) or "")

    def list_of(self, node: Node, key: str) -> list[int]:
        found = self.attr(node, key)
        return [int(v) for v in np.asarray(found).reshape(-1)] if found is not None else []

    def type_attr(self, node: Node, key: str) -> DType | None:
        """An element type that an attribute names, None for none."""
        name = self.text(node, key)
        return None if name in ("", "DT_INVALID") else from_data_type(name)

    def unsupported(self, node: Node, what: str, advice: str = "") -> UnsupportedError:
        """The error for what ONNX has no form for; raise it."""
        return UnsupportedError(f"{node.op} '{node.name}': ONNX has no {what}" + (f"; {advice}" if advice else ""))

    # -- spellings --------------------------------------------------------------------------------------------------

    def cast(self, x: str, dtype: DType) -> str:
        return self.op("Cast", x, to=CODES[dtype])

    def i64(self, node: Node, index: int) -> str:
        """An operand of sizes or places as ONNX wants it."""
        value = self.required(node, index)
        known = self.ints(value)
        if known is not None and value.shape is not None:
            return self.const(np.asarray(known, np.int64).reshape([int(d) for d in value.shape]))
        return self.name(value) if value.dtype is DType.I64 else self.cast(self.name(value), DType.I64)

    def line(self, node: Node, index: int) -> str:
        """The same as a vector, also of a single number."""
        known = self.ints(self.value(node, index))
        if known is not None:
            return self.const(np.asarray(known, np.int64))
        value = self.required(node, index)
        flat = value.shape is not None and len(value.shape) == 1
        return self.i64(node, index) if flat else self.op("Reshape", self.i64(node, index), self.const([-1]))


def _attribute(key: str, value: object) -> AttributeProto:
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if isinstance(value, (list, tuple)) and not value:
        return AttributeProto(name=key, type=AttributeProto.INTS)
    return helper.make_attribute(key, value)


def _tensor(array: np.ndarray, name: str) -> TensorProto:
    if array.dtype == object:
        made = TensorProto(name=name, data_type=TensorProto.STRING, dims=list(array.shape))
        made.string_data.extend(str(s).encode("utf-8", "surrogateescape") for s in array.reshape(-1))
        return made
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
