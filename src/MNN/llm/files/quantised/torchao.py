"""Checkpoints quantised by torchao: integers of 8 bits and fewer, a byte each, of 4 bits, two in a byte, and floats
of 8 bits.

The layouts: ``torchao/quantization/quantize_/workflows`` of https://github.com/pytorch/ao. A weight ``M.weight`` lies
in tensors ``M._weight_qdata``, ``M._weight_scale`` and ``M._weight_zero_point``; which kind it is, and how large its
blocks are, stands in the metadata of the file, under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import parse_object
from MNN.llm.files.quantised.compressed import ScaledTensor
from MNN.llm.files.quantised.grouped import GroupedTensor, Groups, halves, wrong
from MNN.llm.files.tensors import Rows, WeightTensor

METHOD = "torchao"
_BYTES, _HALVES, _FLOATS = ("Int8Tensor", "IntxUnpackedToInt8Tensor"), "Int4Tensor", "Float8Tensor"
_KINDS = (*_BYTES, _HALVES, _FLOATS)
_PARTS = ("qdata", "scale", "zero_point")


class ByteTensor(GroupedTensor):
    """A matrix of integers, a byte each; blocks may have several rows."""

    def __init__(self, parts: Mapping[str, WeightTensor], bits: int, name: str) -> None:
        codes, scale = parts["qdata"], parts["scale"]
        zero = parts.get("zero_point", scale)
        fits = len(codes.shape) == len(scale.shape) == 2 and min(scale.shape) > 0 and zero.shape == scale.shape
        if not fits or codes.dtype != np.int8 or codes.shape[0] % scale.shape[0] or codes.shape[1] % scale.shape[1]:
            raise wrong(name, "has scales that do not fit its integers", *parts.values())
        super().__init__(name, (codes.shape[0], codes.shape[1]), bits, f"INT{bits}")
        self._parts = parts

    def _read(self, rows: Rows) -> Groups:
        codes, scale = self._parts["qdata"].numpy(), self._parts["scale"].float32()
        block = len(codes) // len(scale)
        zero = self._parts["zero_point"].float32().repeat(block, 0)[rows] if "zero_point" in self._parts else None
        return Groups(codes[rows], scale.repeat(block, 0)[rows], zero)


class HalfByteTensor(GroupedTensor):
    """A matrix of integers around 0, two in a byte, the first in the lower half; scales ``[groups, out]``, and what is
    added to a group."""

    def __init__(self, parts: Mapping[str, WeightTensor], name: str) -> None:
        codes, scale, zero = (parts[part] for part in _PARTS)
        if len(codes.shape) != 2 or len(scale.shape) != 2 or codes.dtype.itemsize != 1 or zero.shape != scale.shape:
            raise wrong(name, "is no matrix of 4 bits", *parts.values())
        outputs, inputs = codes.shape[0], 2 * codes.shape[1]
        if scale.shape[1] != outputs or not scale.shape[0] or inputs % scale.shape[0]:
            raise wrong(name, "has scales that do not fit its integers", *parts.values())
        super().__init__(name, (outputs, inputs), 4, "INT4")
        self._parts = parts

    def _read(self, rows: Rows) -> Groups:
        data = np.ascontiguousarray(self._parts["qdata"].numpy()[rows]).view(np.uint8)
        codes = ((halves(data) ^ np.uint8(8)).view(np.int8)) - np.int8(8)
        scale, offset = (np.ascontiguousarray(self._parts[part].float32().T[rows]) for part in _PARTS[1:])
        return Groups(codes, scale, None, offset)


def unite(
    tensors: Mapping[str, WeightTensor], notes: Mapping[str, object], where: str
) -> dict[str, WeightTensor]:  # fmt: skip
    """The same tensors with the parts of a weight as one. ``notes``: the metadata of the files. UnsupportedError for
    kinds that are laid out for one processor, FormatError for parts that do not fit."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part == "_weight_qdata":
            weight = f"{module}.weight"
            found[weight] = _united(tensors, notes.get(weight), module, where)
        elif not part.startswith("_weight_"):
            found[name] = tensor
    return found


def _united(tensors: Mapping[str, WeightTensor], note: object, module: str, where: str) -> WeightTensor:
    weight, prefix = f"{module}.weight", f"{module}._weight_"
    if not isinstance(note, str):
        raise FormatError(f"{where}: the metadata of its files does not say how '{weight}' is quantised")
    told = parse_object(note, f"{where}: the metadata of '{weight}'")
    kind, data = told.get("_type"), told.get("_data")
    if kind not in _KINDS:
        raise UnsupportedError(
            f"{where}: '{weight}' is quantised as torchao's {kind!r:.60}, which cannot be read; {', '.join(_KINDS)} can"
        )
    if f"{prefix}act_pre_scale" in tensors:
        raise UnsupportedError(f"{where}: '{weight}' has scales for what it is multiplied by, which cannot be read")
    parts = {part: tensors[prefix + part] for part in _PARTS if prefix + part in tensors}
    lacking = next((part for part in _PARTS[: 3 if kind == _HALVES else 2] if part not in parts), None)
    if lacking:
        raise FormatError(f"{where} lacks the tensor '{prefix}{lacking}'")
    if kind == _FLOATS:
        block = (1, 1)
        sizes = data.get("block_size") if isinstance(data, Mapping) else None
        if isinstance(sizes, list) and len(sizes) == 2 and all(isinstance(n, int) and n > 0 for n in sizes):
            block = (sizes[0], sizes[1]) if min(sizes) > 1 and tuple(sizes) != parts["qdata"].shape else block
        return ScaledTensor({"weight": parts["qdata"], "weight_scale": parts["scale"]}, weight, block, None)
    return HalfByteTensor(parts, weight) if kind == _HALVES else ByteTensor(parts, _bits(data), weight)


def _bits(data: Any) -> int:
    """How many bits of a byte are used."""
    target = data.get("target_dtype") if isinstance(data, Mapping) else None
    name = str(target.get("_data", "")) if isinstance(target, Mapping) else ""
    found = name.removeprefix("int")
    return int(found) if found in ("1", "2", "3", "4", "5", "6", "7") else 8


__all__ = ["METHOD", "ByteTensor", "HalfByteTensor", "unite"]
