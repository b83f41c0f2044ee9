"""Numbers of layers that ``model.quantize`` has changed in Keras: 8-bit integers, or 4-bit ones in blocks.

A layer says so by its policy (``QuantizedDTypePolicy``, ``Int4DTypePolicy``; ``int8_from_float32`` in older files).
Integers stand for ``q / scale``, or ``(q - zero) * scale`` in blocks along a kernel's first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import Config
from MNN.ir.quant import QuantizedArray

_ADVICE = "save the model before it is quantised, or quantise it with 'int8' or 'int4'"
_EPSILON = 1e-7


def policy_mode(config: Config) -> str:
    """How the layer's numbers are kept: "" for plain ones, or as in ``int8``, ``int4/128``, ``float8``."""
    policy = config.get("dtype")
    if isinstance(policy, Mapping):
        inner = policy.get("config")
        return str(inner.get("mode") or "") if isinstance(inner, Mapping) else ""
    return policy.partition("_from_")[0] if isinstance(policy, str) and "_from_" in policy else ""


def names_of(config: Config, main: str, others: Sequence[str] = ()) -> list[str]:
    """The variables of a layer: its numbers, others as the bias, and what quantised numbers have beside them."""
    kind, _, block = policy_mode(config).partition("/")
    beside = {"int8": ("scale",), "int4": ("scale", "zero") if _blocks(config, block) else ("scale",)}.get(kind, ())
    groups = ["g_idx"] if kind == "int4" and _blocks(config, block) else []
    return [main, *others, *(f"{main}_{name}" for name in beside), *groups]


def _blocks(config: Config, told: str) -> bool:
    quantization = config.get("quantization_config")
    inner = quantization.get("config") if isinstance(quantization, Mapping) else None
    size = told or (inner.get("block_size") if isinstance(inner, Mapping) else None)
    return size not in (None, "", "-1", -1, "None")


@dataclass(frozen=True)
class Integers:
    """``values``: int8 of the kernel's shape, or flat to two axes; floats are ``(values - zero) * scale``, where both
    have one row, or one for each of ``groups`` (the block that a row of ``values`` is in)."""

    values: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None = None
    groups: np.ndarray | None = None
    packed: bool = False
    """Of 4 bits each: the kernel is flat, of two axes."""

    def floats(self) -> np.ndarray:
        wide = self.values.astype(np.float32)
        scale, zero = self.scale, self.zero
        if self.groups is not None:
            scale, zero = scale[self.groups], None if zero is None else zero[self.groups]
        found: np.ndarray = (wide if zero is None else wide - zero) * scale
        return found

    def compressed(self) -> QuantizedArray | None:
        """``[columns, rows]`` for a product, where each block is as long as the others and in order."""
        rows, columns = self.values.shape
        scale = np.broadcast_to(self.scale.reshape(-1, columns), (self.scale.size // columns, columns))
        count = len(scale)
        regular = rows % count == 0 and (
            self.groups is None or np.array_equal(self.groups, np.arange(rows) // (rows // count))
        )
        if not regular:
            return None
        offset = None if self.zero is None else np.ascontiguousarray((-self.zero.astype(np.float32) * scale).T)
        told = np.ascontiguousarray(scale.T, np.float32)
        return QuantizedArray.of(np.ascontiguousarray(self.values.T), told, offset, 8, (columns, rows))


def integers(node: KerasNode, main: str, columns: int | None = None) -> Integers | None:
    """A layer's quantised numbers; None for plain ones. ``columns``: how long the last axis is before two numbers share
    a byte. Raises :class:`UnsupportedError` for other kinds, and :class:`FormatError` for what does not fit."""
    kind = policy_mode(node.config).partition("/")[0]
    if not kind:
        return None
    if kind not in ("int8", "int4"):
        raise node.unsupported(f"a layer quantised as {kind}", _ADVICE)
    values, scale = node.array(main), node.array(f"{main}_scale")
    if values is None or scale is None or values.dtype != np.int8 or scale.dtype.kind != "f" or values.ndim < 2:
        raise FormatError(f"{node.where}: its '{main}' is not kept as {kind}")
    scale = scale.astype(np.float32)
    if kind == "int8":
        return Integers(values, _inverse(scale))
    if columns is None or values.ndim != 2 or values.shape[1] != -(-columns // 2):
        raise node.unsupported(f"4-bit numbers {list(values.shape)} for {columns} columns", "save it with Keras 3.15")
    both = values.view(np.uint8)
    nibbles = np.stack([both & 15, both >> 4], -1).reshape(len(values), -1)[:, :columns]
    unpacked = np.asarray((nibbles ^ 8).astype(np.int8) - np.int8(8), np.int8)
    zero, groups = node.array(f"{main}_zero"), node.array("g_idx")
    if zero is None or groups is None:
        return Integers(unpacked, _inverse(scale), packed=True)
    if zero.shape != scale.shape or scale.ndim != 2 or groups.ndim != 1 or not np.isfinite(groups).all():
        raise FormatError(f"{node.where}: scales {list(scale.shape)} and zeros {list(zero.shape)} do not fit")
    blocks = groups.astype(np.int64)
    along = scale.shape[1] if main == "embeddings" else scale.shape[0]
    if len(blocks) and not 0 <= blocks.min() <= blocks.max() < along:
        raise FormatError(f"{node.where}: its numbers are in {along} blocks, and one is in block {blocks.max()}")
    return Integers(unpacked, scale, zero.astype(np.float32), blocks, True)


def _inverse(scale: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):  # a file may hold any scale
        return np.asarray(np.float32(1) / scale, np.float32)


def activation_range(node: KerasNode) -> tuple[float, float] | None:
    """The largest integer that inputs are rounded to, row by row, and what is added to their largest number; None where
    inputs stay as they are."""
    quantization = node.config.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return 127.0, _EPSILON
    inner = quantization.get("config")
    quantizer = inner.get("activation_quantizer") if isinstance(inner, Mapping) else None
    if quantizer is None:
        return None
    told = quantizer.get("config") if isinstance(quantizer, Mapping) else None
    if not isinstance(told, Mapping) or quantizer.get("class_name") != "AbsMaxQuantizer":
        raise node.unsupported("inputs that are quantised by a class of the program's own", _ADVICE)
    low, high = told.get("value_range") or (-127, 127)
    if told.get("output_dtype", "int8") != "int8" or not -low <= high <= 127 or high <= 0 or low < -128:
        raise node.unsupported(f"inputs that are rounded to integers from {low} to {high}", _ADVICE)
    return float(high), float(told.get("epsilon", _EPSILON))
