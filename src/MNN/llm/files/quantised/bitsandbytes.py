"""Checkpoints quantised by bitsandbytes: NF4 and FP4 (Dettmers et al. 2023, arXiv:2305.14314), whose blocks may have
scales that are quantised themselves, and LLM.int8 (Dettmers et al. 2022, arXiv:2208.07339).

The layouts: ``QuantState.as_dict`` and ``Linear8bitLt`` of https://github.com/bitsandbytes-foundation/bitsandbytes.
Numbers of 4 bits are places in a table of levels, which lie two in a byte, the first in its upper half; blocks follow
each other along the rows, one row after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import parse_object
from MNN.llm.files.quantised.grouped import Array, GroupedTensor, Groups, halves, wrong
from MNN.llm.files.tensors import Rows, WeightTensor, chosen

METHOD = "bitsandbytes"
_STATE = ".quant_state.bitsandbytes__"
_KINDS = ("nf4", "fp4")
_OF_FOUR = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")
"""What lies beside a weight of 4 bits."""
_LARGEST = np.float32(127)


class LeveledTensor(WeightTensor):
    """A matrix ``[out, in]`` of levels from a table, each times the scale of its block. Its levels are no multiples of
    each other, so that it has no form in small integers."""

    def __init__(self, parts: Mapping[str, WeightTensor], kind: str, name: str) -> None:
        """``parts``: ``weight``, :data:`_OF_FOUR` and ``state``, a text in JSON."""
        self._parts, self._name = parts, name
        self._rows: Rows | None = None
        self.dtype, self.format = np.dtype(np.float32), kind.upper()
        state = parse_object(parts["state"].numpy().tobytes().decode("utf-8", "replace"), f"tensor {name!r}: its state")
        shape, block = state.get("shape"), state.get("blocksize")
        if not isinstance(shape, list) or len(shape) != 2 or not all(map(_size, shape)) or not _size(block):
            raise FormatError(f"tensor {name!r}: its state tells the shape {shape!r:.40} and blocks of {block!r:.40}")
        self.shape = (shape[0], shape[1])
        self._block = int(str(block))
        total, held = shape[0] * shape[1], parts["weight"]
        if held.size * held.dtype.itemsize != -(-total // 2) or parts["quant_map"].size != 16:
            raise wrong(name, f"makes no matrix {shape} of 4 bits", *parts.values())
        if parts["absmax"].size != -(-total // self._block):
            raise wrong(name, f"has scales that are not those of blocks of {self._block}", *parts.values())
        self._nested, self._offset = state.get("nested_blocksize"), float(state.get("nested_offset", 0.0))
        if self._nested is not None:
            lacking = next((part for part in _OF_FOUR[2:] if part not in parts), None)
            if not _size(self._nested) or lacking or parts["nested_quant_map"].size != 256:
                raise wrong(name, f"has quantised scales without {lacking or 'a table of 256'}", *parts.values())
            if parts["nested_absmax"].size != -(-parts["absmax"].size // int(self._nested)):
                raise wrong(name, f"has scales that are not quantised by {self._nested}", *parts.values())

    def take(self, rows: Rows, shape: tuple[int, ...]) -> LeveledTensor:
        taken = copy(self)
        taken._rows, taken.shape = chosen(self._rows, rows), shape
        return taken

    def numpy(self) -> Array:
        data = np.ascontiguousarray(self._parts["weight"].numpy()).reshape(-1).view(np.uint8)
        codes = halves(data, high_first=True)
        cols = self.shape[-1]
        whole = codes[: codes.size // cols * cols].reshape(-1, cols)
        rows: Rows = slice(None) if self._rows is None else self._rows
        places = np.arange(len(whole), dtype=np.int64)[rows]
        levels = self._parts["quant_map"].float32().reshape(-1)[whole[rows]]
        block = (places[:, None] * cols + np.arange(cols)) // self._block
        with np.errstate(all="ignore"):  # a file may hold any scale
            levels *= self._scales()[block]
        return levels.reshape(self.shape)

    def _scales(self) -> Array:
        held = self._parts["absmax"]
        if self._nested is None:
            return held.float32().reshape(-1)
        codes = held.numpy().reshape(-1)
        if codes.dtype != np.uint8:
            raise wrong(self._name, "has quantised scales that are no bytes", held)
        levels = self._parts["nested_quant_map"].float32().reshape(-1)[codes]
        with np.errstate(all="ignore"):
            levels *= self._parts["nested_absmax"].float32().reshape(-1)[np.arange(codes.size) // int(self._nested)]
            levels += np.float32(self._offset)
        return levels


class VectorTensor(GroupedTensor):
    """A matrix of bytes with the largest size of each row, which 127 stands for."""

    def __init__(self, weight: WeightTensor, largest: WeightTensor, name: str) -> None:
        if len(weight.shape) != 2 or largest.shape != weight.shape[:1]:
            raise wrong(name, "has scales that do not fit its rows", weight, largest)
        super().__init__(name, (weight.shape[0], weight.shape[1]), 8, "INT8")
        self._weight, self._largest = weight, largest

    def _read(self, rows: Rows) -> Groups:
        return Groups(self._weight.numpy()[rows], (self._largest.float32() / _LARGEST)[rows][:, None])


def unite(tensors: Mapping[str, WeightTensor], where: str) -> dict[str, WeightTensor]:
    """The same tensors with what lies beside a weight in it. FormatError for parts that are missing or do not fit."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if name.endswith(".weight"):
            found[name] = _united(tensors, name, where)
        elif not _beside(tensors, module, part):
            found[name] = tensor
    return found


def _beside(tensors: Mapping[str, WeightTensor], module: str, part: str) -> bool:
    """Whether a tensor belongs to a weight."""
    if part in ("SCB", "weight_format"):
        return f"{module}.weight" in tensors
    return (part in _OF_FOUR and module in tensors) or part.startswith("bitsandbytes__")


def _united(tensors: Mapping[str, WeightTensor], name: str, where: str) -> WeightTensor:
    held = tensors[name]
    kind = next((kind for kind in _KINDS if f"{name}{_STATE}{kind}" in tensors), None)
    if kind is not None:
        parts = {part: tensors[f"{name}.{part}"] for part in _OF_FOUR if f"{name}.{part}" in tensors}
        lacking = next((part for part in _OF_FOUR[:2] if part not in parts), None)
        if lacking:
            raise FormatError(f"{where} lacks the tensor '{name}.{lacking}'")
        return LeveledTensor({"weight": held, **parts, "state": tensors[f"{name}{_STATE}{kind}"]}, kind, name)
    scales = name.removesuffix("weight") + "SCB"
    form = tensors.get(name.removesuffix("weight") + "weight_format")
    if form is not None and form.numpy().any():
        raise UnsupportedError(f"{where}: tensor {name!r} is laid out for one kind of GPU; save it row by row again")
    if held.dtype == np.int8 and scales in tensors:
        return VectorTensor(held, tensors[scales], name)
    if held.dtype.itemsize == 1:
        raise UnsupportedError(f"{where}: tensor {name!r} has bytes, and nothing beside it that says what they are")
    return held


def _size(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 40


__all__ = ["METHOD", "LeveledTensor", "VectorTensor", "unite"]
