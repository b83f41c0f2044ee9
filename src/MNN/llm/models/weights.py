"""Weights and configurations as families see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from MNN.cache.scratch import apart
from MNN.errors import FormatError
from MNN.ir.quant import QuantizedArray

Array = np.ndarray | QuantizedArray
LARGEST = 1 << 24
"""What no size of a model reaches."""
_UNHEARD = 1e30
"""No number of a configuration is as large."""


class Weights(Protocol):
    """Tensors by the names that a family's Hugging Face checkpoint has for them."""

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> Array:
        """An array of floats ``[out, in]``, or one in blocks of small integers."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape; nothing is read."""
        ...


class Unprefixed:
    """Weights of a decoder that was stored without its last layer: names lack the ``model.`` in front."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.removeprefix("model.") in self._weights

    def __getitem__(self, name: str) -> Array:
        return self._weights[name.removeprefix("model.")]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name.removeprefix("model."))


def stacked(parts: Sequence[Array]) -> Array:
    """Matrices ``[out, in]`` one above the other; compressed where all are so in the same way. Raises
    :class:`FormatError` where they are none, or of different widths."""
    if len(parts) == 1:
        return parts[0]
    shapes = [tuple(p.shape) for p in parts]
    if any(len(shape) < 2 or shape[1:] != shapes[0][1:] for shape in shapes):
        told = ", ".join(map(str, map(list, shapes[:4])))
        raise FormatError(f"weights of the shapes {told} cannot lie side by side; expected are matrices of one width")
    quantized = [part for part in parts if isinstance(part, QuantizedArray)]
    if len(quantized) < len(parts) or not alike(quantized):
        return np.concatenate([p.dequantize() if isinstance(p, QuantizedArray) else p for p in parts])
    one = quantized[0]
    codes, scale = (np.concatenate([getattr(p, kind) for p in quantized]) for kind in ("codes", "scale"))
    offsets = [p.offset for p in quantized if p.offset is not None]
    rows = sum(p.shape[0] for p in quantized)
    offset = np.concatenate(offsets) if offsets else None
    finite, row_bits = all(p.finite_rows for p in quantized), [p.row_bits for p in quantized]
    most = max(row_bits) if all(row_bits) else 0
    return QuantizedArray(codes, scale, offset, one.bits, (rows, *one.shape[1:]), one.width, most, finite)


def joined(names: Sequence[str], biases: Sequence[np.ndarray | None], rows: Sequence[int]) -> np.ndarray:
    """Biases of layers side by side; zeros for the ``rows`` of one that has none. Raises :class:`FormatError` for one
    of another length."""
    parts = [np.zeros(n, np.float32) if bias is None else bias for bias, n in zip(biases, rows, strict=True)]
    for name, part, n in zip(names, parts, rows, strict=True):
        if part.shape != (n,):
            raise FormatError(f"the weight '{name}.bias' has the shape {list(part.shape)}; expected is [{n}]")
    found: np.ndarray = np.concatenate(parts)
    return found


def alike(parts: Sequence[Array]) -> bool:
    """Whether matrices are all of floats, or all compressed in the same way."""
    kinds = {
        (p.width, p.scale.shape[1], p.shape[1:], p.offset is None) if isinstance(p, QuantizedArray) else None
        for p in parts
    }
    return len(kinds) == 1


def ordered(weight: Array, order: np.ndarray) -> Array:
    """Rows of a matrix in another order."""
    if not isinstance(weight, QuantizedArray):
        picked: np.ndarray = weight[order]
        return picked
    offset = None if weight.offset is None else weight.offset[order]
    shape = (len(order), *weight.shape[1:])
    return replace(weight, codes=weight.codes[order], scale=weight.scale[order], offset=offset, shape=shape)


def laid_apart(weight: QuantizedArray) -> QuantizedArray:
    """A weight whose numbers lie where they take no memory once they are packed (:mod:`MNN.cache.scratch`)."""
    offset = None if weight.offset is None else apart(weight.offset)
    return replace(weight, codes=apart(weight.codes), scale=apart(weight.scale), offset=offset)


def required(config: Mapping[str, object], key: str) -> int:
    """A whole number above 0 of a configuration. Raises :class:`FormatError` where it is missing or no such number, or
    so large that no model has it."""
    found = config.get(key)
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= LARGEST:
        raise FormatError(
            f"the model's configuration has {key} = {found!r}; expected is a whole number from 1 to {LARGEST}"
        )
    return found


def as_number(found: object, key: str, default: float) -> float:
    """A number of a configuration; ``default`` where it is missing, or none. Raises :class:`FormatError` for what is no
    finite number."""
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        return default
    if not -_UNHEARD < found < _UNHEARD:
        raise FormatError(f"the model's configuration has {key} = {found!r}; expected is a number")
    return float(found)


def as_list(found: object, key: str, least: int = 0) -> list[Any] | None:
    """A list of a configuration; None where it is missing. Raises :class:`FormatError` for what is none, and for one of
    fewer than ``least`` entries."""
    if found is None:
        return None
    if not isinstance(found, (list, tuple)):
        raise FormatError(f"the model's configuration has {key} = {found!r:.60}; expected is a list")
    if len(found) < least:
        raise FormatError(f"{key} of the model's configuration has {len(found)} entries; expected are {least}")
    return list(found)


__all__ = [
    "LARGEST", "Array", "Unprefixed", "Weights", "alike", "as_list", "as_number", "joined", "laid_apart", "ordered",
    "required", "stacked",
]  # fmt: skip
