"""Checkpoints of half-quadratic quantisation (Badri and Shaji 2023), as ``HQQLinear`` stores its layers: numbers of 8,
4, 3, 2 or 1 bits with scales and zero points that are no whole numbers, in groups along the inputs (``axis`` 1) or
across the matrix (0).

The layouts: ``hqq/core/bitpack.py`` of https://github.com/mobiusml/hqq. A word holds numbers of rows that lie far
apart: those of the first part of all rows in its upper bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.quant import QuantizedArray
from MNN.llm.files.quantised.grouped import Array, GroupedTensor, Groups, wrong
from MNN.llm.files.tensors import Rows, WeightTensor, count

METHOD = "hqq"
_PACKINGS = {"8bit_u8": (8, 1), "4bit_u8": (4, 2), "3bit_32": (3, 10), "2bit_u8": (2, 4), "1bit_u8": (1, 8)}
"""Bits of a number, and how many numbers a word has."""
_PARTS = ("W_q", "scale", "zero", "shape", "axis", "group_size", "packing")
_NOTES = (
    "nbits", "unpack_view_dtype", "view_as_float", "quant_scale", "quant_zero", "compute_dtype", "offload_meta",
    "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero",
)  # fmt: skip


class HalfQuadraticTensor(GroupedTensor):
    """A matrix ``[out, in]``; ``parts``: tensors by :data:`_PARTS`."""

    def __init__(self, parts: Mapping[str, WeightTensor], name: str) -> None:
        packing = parts["packing"].numpy().tobytes().decode("ascii", "replace")
        shape = tuple(int(n) for n in parts["shape"].numpy().reshape(-1))
        axis, group = (int(parts[part].numpy().reshape(-1)[0]) for part in ("axis", "group_size"))
        if packing not in _PACKINGS or axis not in (0, 1):
            raise UnsupportedError(f"tensor {name!r}: numbers packed as {packing!r:.40} along {axis} are not known")
        bits, each = _PACKINGS[packing]
        total = count(shape)
        if len(shape) != 2 or min(shape) < 1 or group < 1 or total % group:
            raise wrong(name, f"has groups of {group} in a matrix {list(shape)}", *parts.values())
        super().__init__(name, (shape[0], shape[1]), bits, f"HQQ{bits}")
        self._whole, self._inner = (shape[0], shape[1]), axis == 1 and shape[1] % group == 0
        self._grid = (total // group, group) if axis == 1 else (group, total // group)
        sizes = (self._grid[0], 1) if axis == 1 else (1, self._grid[1])
        words = -(-self._grid[0] // each) * self._grid[1]
        held = parts["W_q"].size * parts["W_q"].dtype.itemsize
        if parts["scale"].shape != sizes or parts["zero"].shape != sizes or held != words * (4 if bits == 3 else 1):
            raise wrong(name, f"makes no matrix of {bits} bits in groups of {group}", *parts.values())
        self._parts, self._each = parts, each

    def _grid_codes(self) -> Array:
        """All codes, in the rows and columns that they were packed in, uint8."""
        kind = np.dtype("<u4") if self.bits == 3 else np.dtype("u1")
        words = np.ascontiguousarray(self._parts["W_q"].numpy()).reshape(-1).view(kind).reshape(-1, self._grid[1])
        if self._each == 1:
            return words
        mask = kind.type((1 << self.bits) - 1)
        parts = [(words >> kind.type(self.bits * (self._each - 1 - i))) & mask for i in range(self._each)]
        return np.concatenate(parts)[: self._grid[0]].astype(np.uint8)

    def _read(self, rows: Rows) -> Groups:
        codes = self._grid_codes().reshape(self._whole)[rows]
        scale, zero = (self._parts[part].float32().reshape(self._whole[0], -1)[rows] for part in ("scale", "zero"))
        return Groups(np.ascontiguousarray(codes), np.ascontiguousarray(scale), np.ascontiguousarray(zero))

    def numpy(self) -> Array:
        if self._inner:
            return super().numpy()
        wide = self._grid_codes().astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            wide -= self._parts["zero"].float32()
            wide *= self._parts["scale"].float32()
        rows: Rows = slice(None) if self._rows is None else self._rows
        return wide.reshape(self._whole)[rows].reshape(self.shape)

    def quantized(self) -> QuantizedArray | None:
        """As low-bit weights; None where neighbours of a row have scales of their own."""
        return super().quantized() if self._inner else None


def unite(tensors: Mapping[str, WeightTensor], where: str) -> dict[str, WeightTensor]:
    """The same tensors with ``X.W_q`` and what lies beside it as ``X.weight``."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        packed = f"{module}.W_q" in tensors
        if part == "W_q":
            found[f"{module}.weight"] = _united(tensors, module, where)
        elif not packed or part not in (*_PARTS, *_NOTES):
            found[name] = tensor
    return found


def _united(tensors: Mapping[str, WeightTensor], module: str, where: str) -> HalfQuadraticTensor:
    lacking = next((part for part in _PARTS if f"{module}.{part}" not in tensors), None)
    if lacking:
        raise FormatError(f"{where} lacks the tensor '{module}.{lacking}'")
    if any(_on(tensors, f"{module}.{part}") for part in ("quant_scale", "quant_zero")):
        raise UnsupportedError(f"{where}: '{module}' has scales or zero points that are quantised, which is not known")
    return HalfQuadraticTensor({part: tensors[f"{module}.{part}"] for part in _PARTS}, f"{module}.weight")


def _on(tensors: Mapping[str, WeightTensor], name: str) -> bool:
    return name in tensors and bool(tensors[name].numpy().any())


__all__ = ["METHOD", "HalfQuadraticTensor", "unite"]
