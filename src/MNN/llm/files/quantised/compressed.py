"""Checkpoints with scales beside integers or 8-bit floats: compressed-tensors (``pack-quantized``, ``int-quantized``,
``float-quantized``, as vLLM's llm-compressor writes them) and those of DeepSeek-V3 and Qwen3 in FP8, whose scales are
of blocks of 128 by 128 (``weight_scale_inv``).

The layouts: https://github.com/vllm-project/compressed-tensors. Integers lie in 32-bit words along the inputs, the
lowest bits first, with half of their range added; zero points of groups lie in such words along the outputs. Scales of
activations, where a checkpoint has them, are not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.quant import QuantizedArray
from MNN.llm.files.quantised.packed import unpack
from MNN.llm.files.tensors import Rows, WeightTensor, chosen

Array = np.ndarray[Any, np.dtype[Any]]
METHODS = ("compressed-tensors", "fp8")
FORMS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense", "mixed-precision")
BITS = (8, 4, 2)
"""Of packed numbers: those that fill words."""
PACKED, INVERSE = "weight_packed", "weight_scale_inv"
_BESIDE = (
    "weight_scale", INVERSE, "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale", "input_zero_point",
    "output_scale", "k_scale", "v_scale",
)  # fmt: skip
"""Ends of names that belong to a weight, and those of activations."""


class ScaledTensor(WeightTensor):
    """A matrix ``[out, in]``: codes times scales. ``parts``: tensors by the ends of their names."""

    def __init__(self, parts: Mapping[str, WeightTensor], name: str, block: tuple[int, int], rows: Rows | None) -> None:
        self._parts, self._name, self._block, self._rows = parts, name, block, rows
        self.dtype, self.bits = np.dtype(np.float32), 8
        if PACKED in parts:
            self.shape = self._packed_shape()
            self.format = f"INT{self.bits}"
        else:
            self.shape = parts["weight"].shape
            self.format = "INT8" if parts["weight"].dtype == np.int8 else "FP8"
        if len(self.shape) != 2:
            raise self._wrong("is no matrix")
        self._groups = self._grouped()

    def _wrong(self, what: str) -> FormatError:
        told = {part: list(tensor.shape) for part, tensor in self._parts.items()}
        return FormatError(f"tensor {self._name!r} {what}: {told}")

    def _packed_shape(self) -> tuple[int, ...]:
        packed = self._parts[PACKED]
        if "weight_shape" not in self._parts or self._parts["weight_shape"].size != 2:
            raise self._wrong("does not tell its shape")
        if packed.dtype != np.int32:
            raise self._wrong("is not packed in 32-bit integers")
        shape = tuple(int(n) for n in self._parts["weight_shape"].numpy().reshape(-1))
        for bits in BITS:
            if min(shape) > 0 and packed.shape == (shape[0], -(-shape[1] * bits // 32)):
                self.bits = bits
                return shape
        raise self._wrong(f"makes no matrix of {', '.join(map(str, sorted(BITS)))} bits")

    def _grouped(self) -> int:
        """How many groups of inputs have scales of their own; 0 where scales are of two-dimensional blocks."""
        scale = self._parts.get(INVERSE, self._parts.get("weight_scale"))
        if scale is None:
            raise self._wrong("has no scales")
        outputs, inputs = self.shape
        if INVERSE in self._parts or (self._block[0] > 1 and len(scale.shape) == 2):
            if scale.shape != (-(-outputs // self._block[0]), -(-inputs // self._block[1])):
                raise self._wrong(f"has scales that are not those of blocks of {self._block[0]} by {self._block[1]}")
            return 0
        if scale.size == 1 or scale.shape in ((outputs,), (outputs, 1)):
            return 1
        if len(scale.shape) != 2 or scale.shape[0] != outputs or not scale.shape[1] or inputs % scale.shape[1]:
            raise self._wrong("has scales that do not fit it")
        return scale.shape[1]

    def take(self, rows: Rows, shape: tuple[int, ...]) -> ScaledTensor:
        taken = ScaledTensor(self._parts, self._name, self._block, chosen(self._rows, rows))
        taken.shape = shape
        return taken

    def numpy(self) -> Array:
        codes, scale, zero, index = self._read()
        wide = codes.astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            if zero is not None:
                wide -= zero[:, index]
            wide *= scale[:, index]
        return wide.reshape(self.shape)

    def quantized(self) -> QuantizedArray | None:
        """As low-bit weights; None for floats, and where inputs of a group do not lie side by side."""
        if self.format == "FP8":
            return None
        codes, scale, zero, index = self._read()
        inputs, groups = codes.shape[1], scale.shape[1]
        if not np.array_equal(index, np.arange(inputs) // (inputs // groups)):
            return None
        with np.errstate(all="ignore"):
            offset = None if zero is None or not zero.any() else -zero * scale
        found = QuantizedArray.of(codes, scale, offset, self.bits, (len(codes), inputs))
        return found

    def _read(self) -> tuple[Array, Array, Array | None, Array]:
        """Codes ``[rows, in]``, scales and zero points f32 ``[rows, groups]``, and the group of each input."""
        rows: Rows = slice(None) if self._rows is None else self._rows
        whole = self._parts[PACKED if PACKED in self._parts else "weight"].numpy()
        outputs, inputs = len(whole), self.shape[1]
        if PACKED in self._parts:
            codes = _signed(unpack(np.ascontiguousarray(whole[rows]), self.bits)[:, :inputs], self.bits)
        else:
            codes = whole[rows]
        held = self._parts.get(INVERSE, self._parts.get("weight_scale"))
        assert held is not None  # looked at when this was made
        scale = held.float32()
        if not self._groups:
            at = (np.arange(outputs) // self._block[0])[rows]
            return codes, scale[at], None, np.arange(inputs) // self._block[1]
        scale = np.broadcast_to(scale.reshape(-1, self._groups), (outputs, self._groups))[rows]
        return codes, np.ascontiguousarray(scale), self._zero(outputs, rows), self._index(inputs)

    def _zero(self, outputs: int, rows: Rows) -> Array | None:
        if "weight_zero_point" not in self._parts:
            return None
        held = self._parts["weight_zero_point"].numpy()
        if held.dtype == np.int32 and PACKED in self._parts:
            held = _signed(unpack(np.ascontiguousarray(held.T), self.bits).T[:outputs], self.bits)
        if held.size not in (1, outputs * self._groups):
            raise self._wrong("has zero points that do not fit its scales")
        found = np.broadcast_to(held.astype(np.float32).reshape(-1, self._groups), (outputs, self._groups))
        return np.ascontiguousarray(found[rows])

    def _index(self, inputs: int) -> Array:
        if "weight_g_idx" not in self._parts:
            return np.arange(inputs) // (inputs // self._groups)
        index = self._parts["weight_g_idx"].numpy().astype(np.int64)
        if index.shape != (inputs,) or not 0 <= int(index.min()) <= int(index.max()) < self._groups:
            raise self._wrong("has a weight_g_idx that names groups that it does not have")
        return index


def _signed(codes: Array, bits: int) -> Array:
    """Numbers from 0 on as those around 0, int8."""
    return np.asarray(codes.astype(np.int16) - np.int16(1 << (bits - 1)), np.int8)


def unite(tensors: Mapping[str, WeightTensor], config: Mapping[str, Any], where: str) -> dict[str, WeightTensor]:
    """The same tensors with ``X.weight`` or ``X.weight_packed``, and what lies beside it, as one ``X.weight``.

    ``config``: the ``quantization_config``. UnsupportedError for forms that are not known, FormatError for parts that
    do not fit.
    """
    form = config.get("format", FORMS[2])
    if config.get("quant_method") == METHODS[0] and form not in FORMS:
        raise UnsupportedError(
            f"{where}: compressed-tensors of the form {form!r:.60} cannot be read, only {', '.join(FORMS)}"
        )
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part == PACKED or (part == "weight" and tensor.dtype.itemsize == 1):
            parts = {p: tensors[f"{module}.{p}"] for p in (part, *_BESIDE[:5]) if f"{module}.{p}" in tensors}
            weight = f"{module}.weight"
            if weight in found or (part == PACKED and weight in tensors):
                raise FormatError(f"{where} has both {weight!r} and {name!r}")
            found[weight] = ScaledTensor(parts, weight, _block(config, INVERSE in parts, where), None)
        elif part not in _BESIDE:
            found[name] = tensor
    return found


def _block(config: Mapping[str, Any], inverse: bool, where: str) -> tuple[int, int]:
    """Rows and columns of a block that shares a scale; (1, 1) where there are none."""
    block = config.get("weight_block_size")
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        told = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(told, Mapping) and told.get("strategy") == "block":
            block = told.get("block_structure")
    if block is None:
        return (128, 128) if inverse else (1, 1)
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(n, int) and n > 0 for n in block):
        raise FormatError(f"{where}: blocks of {block!r:.60} are no two sizes")
    return block[0], block[1]


__all__ = ["METHODS", "ScaledTensor", "unite"]
