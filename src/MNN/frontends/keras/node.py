"""One call of a layer as a handler sees it: its configuration, operands and variables, with errors that name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.format_node import FormatNode
from MNN.frontends.keras.part import Part
from MNN.ir.graph import Value

_REQUIRED: Any = object()


class KerasNode(FormatNode):
    """``op`` is the layer's class, ``args`` and ``kwargs`` what it is called with: tensors, numbers, and lists of
    them; ``masks`` are those of its inputs, None for one that has none."""

    def __init__(
        self, part: Part, args: Sequence[Any], kwargs: Mapping[str, Any], masks: Sequence[Value | None] = ()
    ) -> None:
        self.part = part
        self.op, self.name = part.kind, part.name
        self.config = part.config
        self.args, self.kwargs = list(args), dict(kwargs)
        self.masks = list(masks)

    # -- operands ---------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Value]:
        """All tensors that it is called with by position."""
        return list(tensors(self.args))

    def input(self, index: int) -> Value:
        """A tensor operand. Raises :class:`FormatError` when it is missing."""
        inputs = self.inputs
        if not 0 <= index < len(inputs):
            raise FormatError(f"{self.where}: input {index} is missing")
        return inputs[index]

    def tensor_kwarg(self, key: str) -> Value | None:
        """A tensor that is given by name, or None."""
        value = self.kwargs.get(key)
        return value if isinstance(value, Value) else None

    def argument(self, index: int, key: str, default: Any = _REQUIRED) -> Any:
        """What a call gives by position or by name."""
        if index < len(self.args):
            return self.args[index]
        if key in self.kwargs:
            return self.kwargs[key]
        if default is _REQUIRED:
            raise FormatError(f"{self.where}: its argument '{key}' is missing")
        return default

    # -- configuration ----------------------------------------------------------------------------------------------

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """An entry of the configuration; None counts as absent where there is a default."""
        value = self.config.get(key)
        if value is None:
            if default is _REQUIRED:
                raise FormatError(f"{self.where}: '{key}' is missing in its configuration")
            return default
        return value

    def int_attr(self, key: str, default: Any = _REQUIRED) -> int:
        value = self.get(key, default)
        if not isinstance(value, int):
            raise FormatError(f"{self.where}: '{key}' is {value!r:.80}, expected a whole number")
        return value

    def bool_attr(self, key: str, default: bool = False) -> bool:
        return bool(self.get(key, default))

    def float_attr(self, key: str, default: Any = _REQUIRED) -> float:
        value = self.get(key, default)
        if isinstance(value, Mapping):  # a number of numpy's, as Keras 2 writes it
            value = value.get("config", {}).get("value", value)
        if not isinstance(value, int | float):
            raise FormatError(f"{self.where}: '{key}' is {value!r:.80}, expected a number")
        return float(value)

    def ints_attr(self, key: str, count: int, default: Any = _REQUIRED) -> list[int]:
        """``count`` whole numbers; one stands for all."""
        value = self.get(key, default)
        listed = [value] * count if isinstance(value, int) else value
        if not isinstance(listed, list | tuple) or len(listed) != count or not all(isinstance(v, int) for v in listed):
            raise FormatError(f"{self.where}: '{key}' is {value!r:.80}, expected {count} whole numbers")
        return list(listed)

    def choice_attr(self, key: str, default: str, *allowed: str) -> str:
        """A text out of ``allowed``. Raises :class:`UnsupportedError` naming any other."""
        value = self.get(key, default)
        if value not in allowed:
            raise self.unsupported(f"{key}={value!r:.80}", f"use one of {', '.join(allowed)}")
        return str(value)

    def channels_first(self) -> bool:
        return self.choice_attr("data_format", "channels_last", "channels_last", "channels_first") == "channels_first"

    # -- variables --------------------------------------------------------------------------------------------------

    def array(self, name: str) -> np.ndarray | None:
        """A variable's numbers; None for one that the layer is configured to be without."""
        if name not in self.part.variables:
            return None
        if name not in self.part.arrays:
            raise FormatError(
                f"{self.where}: the file has no numbers for its variable '{name}'; was it saved without its weights, "
                "or is the layer used in two models of which one holds them?"
            )
        found = self.part.arrays[name]
        if found.dtype == np.int8 and not self.part.quantized:  # as in attention, whose file does not say by what scale
            raise self.unsupported(f"'{name}' kept as 8-bit integers", "save the model before it is quantised")
        return found


def tensors(tree: Any) -> list[Value]:
    """All tensors in nested lists and dictionaries, in order."""
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, list | tuple):
        return [v for item in tree for v in tensors(item)]
    if isinstance(tree, Mapping):
        return [v for key in sorted(tree) for v in tensors(tree[key])]
    return []
