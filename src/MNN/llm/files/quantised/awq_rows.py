"""AWQ checkpoints (Lin et al. 2023, arXiv:2306.00978) whose words lie along the inputs: AutoAWQ's ``gemv`` and
``gemv_fast`` versions (the latter is llm-awq's layout).

The layouts: ``awq/modules/linear`` of https://github.com/casper-hansen/AutoAWQ. ``gemv`` keeps eight neighbours in a
32-bit word, the first in the lowest bits; scales and zero points are padded to whole words. ``gemv_fast`` keeps four
rows in 16-bit words, neighbours of each 32 in the order of its kernel, and zero points times scales, negated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import UnsupportedError
from MNN.llm.files.quantised.grouped import Array, GroupedTensor, Groups, wrong
from MNN.llm.files.quantised.packed import unpack
from MNN.llm.files.tensors import Rows, WeightTensor

VERSIONS = ("gemv", "gemv_fast")
_PARTS = ("qweight", "qzeros", "scales")
_ROWS, _STRIDE = 4, 64
"""Rows that share words of ``gemv_fast``, and how many inputs of one lie together."""


class RowTensor(GroupedTensor):
    """A matrix of the version ``gemv``."""

    def __init__(self, parts: Mapping[str, WeightTensor], group: int, name: str) -> None:
        weight, zeros, scales = (parts[part] for part in _PARTS)
        if any(len(part.shape) != 2 for part in parts.values()) or weight.dtype != np.int32 or zeros.dtype != np.int32:
            raise wrong(name, "is not packed in 32-bit integers", *parts.values())
        outputs, inputs = weight.shape[0], 8 * weight.shape[1]
        group = inputs if group == -1 else group
        words = zeros.shape[1]
        fits = inputs % group == 0 and zeros.shape[0] == outputs and scales.shape == (outputs, 8 * words)
        if not fits or 8 * words < inputs // group:
            raise wrong(name, f"makes no matrix of 4 bits in groups of {group}", *parts.values())
        super().__init__(name, (outputs, inputs), 4, "AWQ")
        self._parts, self._groups = parts, inputs // group

    def _read(self, rows: Rows) -> Groups:
        weight, zeros, scales = (self._parts[part].numpy()[rows] for part in _PARTS)
        zero = unpack(np.ascontiguousarray(zeros), 4)[:, : self._groups].astype(np.float32)
        scale = np.ascontiguousarray(scales[:, : self._groups].astype(np.float32))
        return Groups(unpack(np.ascontiguousarray(weight), 4), scale, zero)


class InterleavedTensor(GroupedTensor):
    """A matrix of the version ``gemv_fast``."""

    def __init__(self, parts: Mapping[str, WeightTensor], group: int, name: str) -> None:
        weight, zeros, scales = (parts[part] for part in _PARTS)
        if any(len(part.shape) != 2 for part in parts.values()) or weight.dtype != np.int16:
            raise wrong(name, "is not packed in 16-bit integers", *parts.values())
        outputs, inputs = _ROWS * weight.shape[0], weight.shape[1]
        group = inputs if group == -1 else group
        fits = inputs % group == 0 and inputs % _STRIDE == 0 and scales.shape[1] == outputs
        if not fits or zeros.shape != scales.shape or scales.shape[0] < inputs // group:
            raise wrong(name, f"makes no matrix of 4 bits in groups of {group}", *parts.values())
        super().__init__(name, (outputs, inputs), 4, "AWQ")
        self._parts, self._groups = parts, inputs // group

    def _codes(self) -> Array:
        """All codes, uint8 ``[out, in]``: back from the order in which they were packed, step by step."""
        words = np.ascontiguousarray(self._parts["qweight"].numpy()).view(np.uint16)
        high, wide = words.shape
        each = (words[:, :, None] >> np.arange(0, 16, 4, dtype=np.uint16)) & np.uint16(15)
        rows = each.astype(np.uint8).reshape(high, wide // _STRIDE, _ROWS, _STRIDE).swapaxes(1, 2)
        pairs = rows.reshape(high * _ROWS, wide // 32, 4, 2, 4).swapaxes(3, 4)
        return np.ascontiguousarray(pairs.reshape(-1, wide // 32, 4, 4, 2).swapaxes(2, 3)).reshape(-1, wide)

    def _read(self, rows: Rows) -> Groups:
        scale, offset = (self._parts[part].float32()[: self._groups].T[rows] for part in ("scales", "qzeros"))
        return Groups(self._codes()[rows], np.ascontiguousarray(scale), None, np.ascontiguousarray(offset))


def unite(tensors: Mapping[str, WeightTensor], config: Mapping[str, object], where: str) -> dict[str, WeightTensor]:
    """The same tensors with ``X.qweight``, ``X.qzeros`` and ``X.scales`` as ``X.weight``."""
    bits, group = (
        config.get(kind, config.get(short)) for kind, short in (("bits", "w_bit"), ("group_size", "q_group_size"))
    )
    if bits not in (None, 4) or not isinstance(group, int) or not (group == -1 or group > 0):
        raise UnsupportedError(f"{where}: AWQ with {bits} bits in groups of {group} cannot be read")
    kind = RowTensor if str(config.get("version")).lower() == VERSIONS[0] else InterleavedTensor
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        parts = {p: tensors[f"{module}.{p}"] for p in _PARTS if f"{module}.{p}" in tensors}
        if part == _PARTS[0]:
            if len(parts) < len(_PARTS):
                raise wrong(f"{module}.weight", f"lacks one of {', '.join(_PARTS)}", *parts.values())
            found[f"{module}.weight"] = kind(parts, group, f"{module}.weight")
        elif part not in _PARTS or _PARTS[0] not in parts:
            found[name] = tensor
    return found


__all__ = ["VERSIONS", "InterleavedTensor", "RowTensor", "unite"]
