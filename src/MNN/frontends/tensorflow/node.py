"""One TensorFlow node as a handler sees it: typed access to operands and attributes, with errors that name the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.format_node import FormatNode
from MNN.frontends.tensorflow.handles import Handle, ListHandle
from MNN.frontends.tensorflow.messages import Proto, new
from MNN.frontends.tensorflow.types import CODES, COMPLEX, array_of, dtype_of, known_dtype, parts_of, shape_of, text_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape

_REQUIRED: Any = object()
_HARMLESS = {"use_cudnn_on_gpu", "use_locking", "validate_shape", "container", "shared_name", "swap_memory"}
"""Attributes that mean nothing to results here, of any operator."""


class TfNode(FormatNode):
    """``op``, ``name`` and ``inputs``.

    Attributes that a handler does not read are reported as unsupported, so that no meaning is lost silently. Element
    types (they follow from the operands) and names that begin with an underscore are not meant by this.
    """

    def __init__(self, proto: Proto, name: str, inputs: Sequence[Value]) -> None:
        self.proto = proto
        self.op: str = proto.op
        self.name = name
        self.inputs = list(inputs)
        self._read: set[str] = set()

    # -- operands ---------------------------------------------------------------------------------------------------

    def input(self, index: int) -> Value:
        """A tensor operand. Raises :class:`FormatError` when it is missing or no tensor."""
        value = self.any_input(index)
        if isinstance(value, Handle):
            raise FormatError(f"{self.where}: input {index} is {value.what}, expected a tensor")
        return value

    def any_input(self, index: int) -> Value:
        """An operand of whatever kind."""
        if not -len(self.inputs) <= index < len(self.inputs):
            raise FormatError(f"{self.where}: input {index} is missing")
        return self.inputs[index]

    def tensors(self, start: int = 0, stop: int | None = None) -> list[Value]:
        """Several operands, all of them tensors."""
        return [self.input(i) for i in range(*slice(start, stop).indices(len(self.inputs)))]

    def list_input(self, index: int) -> ListHandle:
        """An operand that is a list of tensors."""
        value = self.any_input(index)
        if not isinstance(value, ListHandle):
            raise FormatError(f"{self.where}: input {index} is no list of tensors")
        return value

    # -- attributes -------------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        return key in self.proto.attr

    def ignore(self, *keys: str) -> None:
        """Declares attributes that change nothing here."""
        self._read.update(keys)

    def unread(self) -> list[str]:
        """Attributes that are present, mean something and have not been looked at."""
        found = []
        for key, value in self.proto.attr.items():
            kind = value.WhichOneof("value")
            plain = kind in ("type", None) or (kind == "list" and (value.list.type or not value.list.ListFields()))
            if key not in self._read and not plain and key not in _HARMLESS and not key.startswith("_"):
                found.append(key)
        return sorted(found)

    def _get(self, key: str, default: Any, convert: Callable[[Any], Any], kind: str) -> Any:
        self._read.add(key)
        if key not in self.proto.attr:
            if default is _REQUIRED:
                raise FormatError(f"{self.where}: attribute '{key}' is missing")
            return default
        attribute = self.proto.attr[key]
        found = attribute.WhichOneof("value")
        if found != kind:
            raise FormatError(f"{self.where}: attribute '{key}' is of kind '{found}', expected '{kind}'")
        return convert(getattr(attribute, kind))

    def int_attr(self, key: str, default: int = _REQUIRED) -> int:
        return self._get(key, default, int, "i")  # type: ignore[no-any-return]

    def bool_attr(self, key: str, default: bool = _REQUIRED) -> bool:
        return self._get(key, default, bool, "b")  # type: ignore[no-any-return]

    def float_attr(self, key: str, default: float = _REQUIRED) -> float:
        return self._get(key, default, float, "f")  # type: ignore[no-any-return]

    def str_attr(self, key: str, default: str = _REQUIRED) -> str:
        return self._get(key, default, text_of, "s")  # type: ignore[no-any-return]

    def ints_attr(self, key: str, default: Sequence[int] = _REQUIRED) -> list[int]:
        return list(self._get(key, default, lambda v: [int(x) for x in v.i], "list"))

    def floats_attr(self, key: str, default: Sequence[float] = _REQUIRED) -> list[float]:
        return list(self._get(key, default, lambda v: [float(x) for x in v.f], "list"))

    def strs_attr(self, key: str, default: Sequence[str] = _REQUIRED) -> list[str]:
        return list(self._get(key, default, lambda v: [text_of(x) for x in v.s], "list"))

    def dtype_attr(self, key: str, default: DType | None = _REQUIRED) -> DType:
        """An element type. Raises :class:`UnsupportedError` for those that tensors cannot have here."""
        return self._get(key, default, lambda v: dtype_of(v, self.where), "type")  # type: ignore[no-any-return]

    def known_dtype(self, key: str) -> DType | None:
        """An element type, None where it is absent or tensors cannot have it."""
        self._read.add(key)
        return known_dtype(self.proto.attr[key].type) if self.has(key) else None

    def shape_attr(self, key: str, name: str) -> Shape | None:
        """A shape, whose open sizes are called after ``name``; None when its rank is unknown or it is absent."""
        return self._get(key, None, lambda v: shape_of(v, name), "shape")  # type: ignore[no-any-return]

    def tensor_attr(self, key: str) -> np.ndarray:
        where = f"{self.where}, attribute '{key}'"
        return self._get(key, _REQUIRED, lambda t: array_of(t, where), "tensor")  # type: ignore[no-any-return]

    def complex_attr(self, key: str) -> tuple[np.ndarray, np.ndarray] | None:
        """The real and the imaginary numbers of a complex tensor; None for a real one."""
        if not self.has(key) or self.proto.attr[key].tensor.dtype not in COMPLEX:
            return None
        return self._get(key, None, lambda t: parts_of(t, f"{self.where}, attribute '{key}'"), "tensor")  # type: ignore[no-any-return]

    def is_complex(self, key: str) -> bool:
        """Whether an element type is a complex one."""
        return self.has(key) and self.proto.attr[key].type in COMPLEX

    def function_attr(self, key: str) -> str:
        """The name of a function."""
        return self._get(key, _REQUIRED, lambda f: str(f.name), "func")  # type: ignore[no-any-return]

    def functions_attr(self, key: str) -> list[str]:
        return self._get(key, _REQUIRED, lambda v: [str(f.name) for f in v.func], "list")  # type: ignore[no-any-return]

    def choice_attr(self, key: str, default: str, *allowed: str) -> str:
        """A string out of ``allowed``. Raises :class:`UnsupportedError` naming any other."""
        value = self.str_attr(key, default)
        if value not in allowed:
            raise self.unsupported(f"attribute {key}='{value}'", f"use one of {', '.join(allowed)}")
        return value


def made_node(op: str, name: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> TfNode:
    """A node that no file has; attributes are bools, ints, floats, texts, element types and lists of ints."""
    proto = new("NodeDef")
    proto.op, proto.name = op, name
    for key, value in attrs.items():
        made = proto.attr[key]
        if isinstance(value, DType):
            made.type = CODES[value]
        elif isinstance(value, bool):
            made.b = value
        elif isinstance(value, int):
            made.i = value
        elif isinstance(value, float):
            made.f = value
        elif isinstance(value, str):
            made.s = value.encode()
        else:
            made.list.i.extend(value)
    return TfNode(proto, name, inputs)
