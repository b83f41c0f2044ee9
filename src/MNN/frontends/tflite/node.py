"""One operation as a handler sees it: operands, options, and how its tensors are quantised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.format_node import OperandNode
from MNN.frontends.tflite import flexbuffers
from MNN.frontends.tflite.file import Operation, Quantization, Tensor
from MNN.ir.graph import Value


class TfliteNode(OperandNode):
    """``op``, ``name`` (of its first result), ``inputs`` (None where left out; numbers as they are stored) and the
    names of its ``outputs``. ``tensors_in`` and ``tensors_out`` are what the file says of them,
    ``variables`` the names of operands that keep their numbers from run to run, ``intermediates`` tensors that say how
    what is computed in between is quantised."""

    def __init__(
        self,
        operation: Operation,
        name: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[str],
        tensors_in: Sequence[Tensor | None],
        tensors_out: Sequence[Tensor],
        variables: Sequence[str | None],
        intermediates: Sequence[Tensor] = (),
    ) -> None:
        self.operation = operation
        self.op = operation.op
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.tensors_in = list(tensors_in)
        self.tensors_out = list(tensors_out)
        self.variables = list(variables)
        self.intermediates = list(intermediates)

    # -- operands ---------------------------------------------------------------------------------------------------

    def rank(self, index: int) -> int:
        """An operand's number of dimensions, as found or as the file says."""
        shape = self.input(index).shape
        tensor = self.tensors_in[index]
        assert tensor is not None
        return len(tensor.sizes) if shape is None else len(shape)

    def quantization(self, index: int) -> Quantization | None:
        """How an operand is quantised, None for plain numbers."""
        tensor = self.tensors_in[index] if index < len(self.tensors_in) else None
        return None if tensor is None else quantization_of(tensor)

    def result_quantization(self, index: int = 0) -> Quantization | None:
        """How a result is quantised, None for plain numbers."""
        return quantization_of(self.tensors_out[index])

    # -- options ----------------------------------------------------------------------------------------------------

    def option(self, key: str, default: Any = None) -> Any:
        """An option, the schema's default where the file leaves it out, ``default`` where it has no options at all."""
        options = self.operation.options
        if options is None or key not in options.table.fields:
            return default
        return getattr(options, key)

    def number(self, key: str, default: int = 0) -> int:
        return int(self.option(key, default))

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self.option(key, default))

    def ints(self, key: str) -> list[int]:
        """A list of integers; empty when absent."""
        found = self.option(key)
        return [] if found is None else [int(v) for v in found]

    def custom(self) -> dict[str, Any]:
        """The options of a custom operator, written as a FlexBuffer's map."""
        found = flexbuffers.read(self.operation.custom_options, self.where)
        if not isinstance(found, dict):
            raise FormatError(f"{self.where}: its options are {type(found).__name__}, expected a map")
        return found

    # -- errors -----------------------------------------------------------------------------------------------------

    def malformed(self, problem: str) -> FormatError:
        """The error for what makes no sense; raise it."""
        return FormatError(f"{self.where}: {problem}; is the model damaged?")


_QUANTIZED = {"INT8", "UINT8", "INT16", "INT32", "INT64", "INT4", "UINT4", "INT2"}


def quantization_of(tensor: Tensor) -> Quantization | None:
    """How a tensor is quantised; integers with a scale of 0 are plain numbers."""
    found = tensor.quantization
    if found is None or tensor.type not in _QUANTIZED or not np.any(found.scale):
        return None
    return found
