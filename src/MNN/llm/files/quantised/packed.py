"""Checkpoints quantised by GPTQ and AWQ: integers packed into 32-bit words, with scales and zero points in groups.

The layouts: GPTQ (Frantar 2022) as AutoGPTQ and GPTQModel write it, AWQ (Lin 2023) as AutoAWQ's ``gemm`` version does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.quant import QuantizedArray, pack_codes
from MNN.llm.files.tensors import Rows, WeightTensor, chosen

Array = np.ndarray[Any, np.dtype[Any]]
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word AWQ keeps each of eight neighbours."""
PARTS = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True)
class Packing:
    """How a checkpoint is packed. ``group``: inputs that share a scale; -1: all. ``from_one``: zero points less one."""

    method: str
    bits: int
    group: int
    from_one: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> Packing | None:
        """From ``quantization_config``; None where there is none. UnsupportedError for other methods."""
        found = config.get("quantization_config")
        if not isinstance(found, Mapping):
            return None
        method, bits = found.get("quant_method"), found.get("bits", found.get("w_bit", 4))
        group = found.get("group_size", found.get("q_group_size", 128))
        widths = {"gptq": (2, 3, 4, 8), "awq": (4,)}
        if method not in widths:
            raise UnsupportedError(
                f"{where}: weights quantised by {method!r} cannot be read; GPTQ, AWQ, bitsandbytes, HQQ, torchao, "
                "compressed-tensors, FP8, MXFP4, NVFP4, GGUF and plain floats can"
            )
        if bits not in widths[method] or not isinstance(group, int) or not (group == -1 or group > 0):
            raise UnsupportedError(f"{where}: {method} with {bits} bits in groups of {group} cannot be read")
        if method == "awq" and str(found.get("version", "gemm")).lower() != "gemm":
            raise UnsupportedError(
                f"{where}: AWQ of version {found['version']!r} cannot be read, only gemm, gemv and gemv_fast"
            )
        return cls(method, bits, group, method == "gptq" and found.get("checkpoint_format", "gptq") != "gptq_v2")


class PackedTensor(WeightTensor):
    """A matrix ``[out, in]`` in packed words, which are unpacked when it is asked for."""

    def __init__(
        self, parts: Mapping[str, WeightTensor], packing: Packing, name: str, rows: Rows | None = None
    ) -> None:
        self._parts, self._packing, self._name, self._rows = parts, packing, name, rows
        self.dtype, self.format = np.dtype(np.float32), packing.method.upper()
        self.shape = self._checked()

    def _checked(self) -> tuple[int, int]:
        """The shape, if those of the parts fit each other. FormatError otherwise."""
        bits, group = self._packing.bits, self._packing.group
        shapes = {part: self._parts[part].shape for part in self._parts}
        weight, zeros, scales = (shapes.get(part, ()) for part in PARTS[:3])
        if not len(weight) == len(zeros) == len(scales) == 2:
            raise FormatError(f"tensor {self._name!r} lacks one of {', '.join(PARTS[:3])} of two dimensions: {shapes}")
        outputs, along = scales[1], weight[0]
        inputs = along if self._packing.method == "awq" else along * 32 // bits
        groups = 1 if group == -1 else -(-inputs // group)
        words = (outputs * bits + 31) // 32
        expected = (inputs, words) if self._packing.method == "awq" else (inputs * bits // 32, outputs)
        index = shapes.get("g_idx", (inputs,))
        if weight != expected or zeros != (groups, words) or scales != (groups, outputs) or index != (inputs,):
            raise FormatError(
                f"tensor {self._name!r}: parts of shapes {shapes} make no matrix of {bits} bits in groups of {group}"
            )
        if any(self._parts[part].dtype.kind != "i" or self._parts[part].dtype.itemsize != 4 for part in PARTS[:2]):
            raise FormatError(f"tensor {self._name!r}: its packed numbers are not 32-bit integers")
        return outputs, inputs

    def take(self, rows: Rows, shape: tuple[int, ...]) -> PackedTensor:
        taken = PackedTensor(self._parts, self._packing, self._name, chosen(self._rows, rows))
        taken.shape = (shape[0], self.shape[1])
        return taken

    def numpy(self) -> Array:
        codes, scale, zero, index = self._unpacked()
        wide = codes.astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            wide -= zero[:, index]
            wide *= scale[:, index]
        return wide

    def quantized(self) -> QuantizedArray | None:
        """As low-bit weights; None where inputs of a group do not lie side by side (act-order), or groups differ."""
        codes, scale, zero, index = self._unpacked()
        inputs, groups = self.shape[1], scale.shape[1]
        if inputs % groups or not np.array_equal(index, np.arange(inputs) // (inputs // groups)):
            return None
        bits = self._packing.bits
        width = next(w for w in (2, 4, 8) if bits <= w)
        half = 1 << (bits - 1)
        offset = None
        if (zero != half).any():
            with np.errstate(all="ignore"):
                offset = (np.float32(half) - zero) * scale
        values = codes.view(np.int8) - np.int8(half) if bits < 8 else (codes ^ np.uint8(128)).view(np.int8)
        return QuantizedArray(pack_codes(values, width), scale, offset, bits, self.shape, width)

    def _unpacked(self) -> tuple[Array, Array, Array, Array]:
        """Codes uint8 ``[out, in]``, scales and zero points float32 ``[out, groups]``, and the group of each input."""
        bits, awq = self._packing.bits, self._packing.method == "awq"
        outputs, inputs = self._parts["scales"].shape[1], self.shape[1]
        words = self._parts["qweight"].numpy()
        if awq:
            codes = unpack(words, bits)[:, _awq_places(outputs)]
        else:
            codes = np.ascontiguousarray(unpack(np.ascontiguousarray(words.T), bits)[:, :inputs].T)
        zero = unpack(self._parts["qzeros"].numpy(), bits)
        zero = zero[:, _awq_places(outputs)] if awq else zero[:, :outputs]
        if self._packing.from_one:
            zero = (zero + np.uint8(1)) & np.uint8((1 << bits) - 1)
        scale = self._parts["scales"].float32()
        if "g_idx" in self._parts:
            index = self._parts["g_idx"].numpy().astype(np.int64)
            if index.size and not 0 <= int(index.min()) <= int(index.max()) < len(scale):
                raise FormatError(f"tensor {self._name!r}: its g_idx names groups that it does not have")
        else:
            index = np.arange(inputs) // (inputs if self._packing.group == -1 else self._packing.group)
        rows: Rows = slice(None) if self._rows is None else self._rows
        return (
            np.ascontiguousarray(codes.T[rows]),
            np.ascontiguousarray(scale.T[rows]),
            np.ascontiguousarray(zero.T[rows]).astype(np.float32),
            index,
        )


def unpack(words: Array, bits: int) -> Array:
    """Rows of 32-bit words as rows of numbers, the lowest bits first: uint8 ``[rows, words * 32 // bits]``."""
    rows = len(words)
    data = np.ascontiguousarray(words).view(np.uint8).reshape(rows, -1)
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        numbers = (data[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)
        return np.asarray(numbers.reshape(rows, -1))
    flags = np.unpackbits(data, axis=1, bitorder="little")
    whole = flags.shape[1] // bits
    each = flags[:, : whole * bits].reshape(rows, whole, bits)
    return np.asarray((each << np.arange(bits, dtype=np.uint8)).sum(axis=2, dtype=np.uint8))


def _awq_places(outputs: int) -> Array:
    return np.asarray((np.arange(0, outputs, 8)[:, None] + np.array(AWQ_ORDER)).reshape(-1)[:outputs])


def unite(tensors: dict[str, WeightTensor], packing: Packing, where: str) -> dict[str, WeightTensor]:
    """The same tensors with ``X.qweight``, ``X.qzeros``, ``X.scales`` and ``X.g_idx`` as one ``X.weight``."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part == "qweight":
            parts = {p: tensors[f"{module}.{p}"] for p in PARTS if f"{module}.{p}" in tensors}
            weight = f"{module}.weight"
            if weight in tensors:
                raise FormatError(f"{where} has both {weight!r} and {name!r}")
            found[weight] = PackedTensor(parts, packing, weight)
        elif part not in PARTS or f"{module}.qweight" not in tensors:
            found[name] = tensor
    return found
