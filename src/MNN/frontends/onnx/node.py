"""One ONNX node as a handler sees it: typed access to operands and attributes, with errors that name the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from MNN.errors import FormatError
from MNN.frontends.common.format_node import OperandNode
from MNN.frontends.onnx.tensors import array_of
from MNN.ir.graph import Value
from MNN.schema.external import ExternalSource

_KINDS: dict[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}
_REQUIRED: Any = object()


class OnnxNode(OperandNode):
    """``op``, ``domain``, ``opset`` (of the node's domain), ``name``, ``inputs`` (None where left out) and the names of
    its ``outputs`` (empty where left out).

    Attributes that a handler does not read are reported as unsupported, so that no meaning is lost silently.
    """

    def __init__(
        self, proto: NodeProto, name: str, opset: int, inputs: Sequence[Value | None], external: ExternalSource | None
    ) -> None:
        self.op: str = proto.op_type
        self.domain: str = proto.domain
        self.name = name
        self.opset = opset
        self.inputs = list(inputs)
        self.outputs: list[str] = list(proto.output)
        self.proto = proto
        self._external = external
        self._attributes: dict[str, AttributeProto] = {a.name: a for a in proto.attribute}
        self._read: set[str] = set()

    # -- operands ---------------------------------------------------------------------------------------------------

    def wants(self, index: int) -> bool:
        """Whether the model uses this output."""
        return index < len(self.outputs) and bool(self.outputs[index])

    # -- attributes -------------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        return key in self._attributes

    def ignore(self, *keys: str) -> None:
        """Declares attributes that change nothing here."""
        self._read.update(keys)

    def unread(self) -> list[str]:
        """Attributes that are present and have not been looked at."""
        return sorted(set(self._attributes) - self._read)

    def _get(self, key: str, default: Any, convert: Callable[[Any], Any], *kinds: int) -> Any:
        self._read.add(key)
        attribute = self._attributes.get(key)
        if attribute is None:
            if default is _REQUIRED:
                raise FormatError(f"{self.where}: attribute '{key}' is missing")
            return default
        if attribute.type not in kinds:
            names = " or ".join(AttributeProto.AttributeType.Name(k) for k in kinds)
            raise FormatError(f"{self.where}: attribute '{key}' has type number {attribute.type}, expected {names}")
        return convert(getattr(attribute, _KINDS[attribute.type]))

    def int_attr(self, key: str, default: int = _REQUIRED) -> int:
        return self._get(key, default, int, AttributeProto.INT)  # type: ignore[no-any-return]

    def bool_attr(self, key: str, default: bool = _REQUIRED) -> bool:
        return self._get(key, default, bool, AttributeProto.INT)  # type: ignore[no-any-return]

    def float_attr(self, key: str, default: float = _REQUIRED) -> float:
        return self._get(key, default, float, AttributeProto.FLOAT)  # type: ignore[no-any-return]

    def str_attr(self, key: str, default: str = _REQUIRED) -> str:
        return self._get(key, default, _text, AttributeProto.STRING)  # type: ignore[no-any-return]

    def ints_attr(self, key: str, default: Sequence[int] | None = _REQUIRED) -> list[int] | None:
        """A list of integers; ``default`` when absent."""
        found = self._get(key, default, lambda v: [int(x) for x in v], AttributeProto.INTS)
        return None if found is None else list(found)

    def ints_or(self, key: str, default: Sequence[int]) -> list[int]:
        """A list of integers, never None."""
        return self.ints_attr(key, default) or list(default if not self.has(key) else ())

    def floats_attr(self, key: str, default: Sequence[float] | None = _REQUIRED) -> list[float] | None:
        found = self._get(key, default, lambda v: [float(x) for x in v], AttributeProto.FLOATS)
        return None if found is None else list(found)

    def strs_attr(self, key: str, default: Sequence[str] | None = _REQUIRED) -> list[str] | None:
        found = self._get(key, default, lambda v: [_text(x) for x in v], AttributeProto.STRINGS)
        return None if found is None else list(found)

    def tensor_attr(self, key: str, default: np.ndarray | None = _REQUIRED) -> np.ndarray | None:
        where = f"{self.where}, attribute '{key}'"
        return self._get(  # type: ignore[no-any-return]
            key, default, lambda t: array_of(t, self._external, where), AttributeProto.TENSOR
        )

    def graph_attr(self, key: str) -> GraphProto:
        """The protobuf of a subgraph; turn it into a graph with ``ctx.subgraph``."""
        return self._get(key, _REQUIRED, lambda g: g, AttributeProto.GRAPH)

    def any_attr(self, key: str) -> object:
        """An attribute of whatever type it has: numbers, strings, lists of those, or an array."""
        kind = self._attributes[key].type
        readers: dict[int, Callable[[str], object]] = {
            AttributeProto.FLOAT: self.float_attr,
            AttributeProto.INT: self.int_attr,
            AttributeProto.STRING: self.str_attr,
            AttributeProto.TENSOR: self.tensor_attr,
            AttributeProto.FLOATS: self.floats_attr,
            AttributeProto.INTS: self.ints_attr,
            AttributeProto.STRINGS: self.strs_attr,
        }
        if kind not in readers:
            raise self.unsupported(f"attribute '{key}' of type number {kind}", "use numbers, strings or tensors")
        return readers[kind](key)

    def choice_attr(self, key: str, default: str, *allowed: str) -> str:
        """A string out of ``allowed``. Raises :class:`UnsupportedError` naming any other."""
        value = self.str_attr(key, default)
        if value not in allowed:
            raise self.unsupported(f"attribute {key}='{value}'", f"use one of {', '.join(allowed)}")
        return value


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
