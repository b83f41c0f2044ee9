"""Weights of a file as families take them, quantised while they are read where that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from MNN.errors import MNNError
from MNN.ir.quant import ROW_BITS, QuantizedArray
from MNN.llm.files.mapped import give_back
from MNN.llm.models.weights import Array

BITS = (4, 8)
"""What weights may be quantised to: with fewer bits, rounding alone leaves nothing of a model."""
BLOCK = 32
"""Neighbouring weights of a row that share a scale."""
_ENDS = re.compile(
    r"embed|lm_head|wte\.|wpe\.|^(?:\w+\.)?(?:output(?:_layer)?\.weight$|(?:score|(?:pre_)?classifier|pooler|head)\.)"
)
"""Names of tables, and of layers behind the last one."""

ROUTERS = (".gate.weight", "shared_expert_gate.weight", "router.layer.weight", ".router.weight", "router.proj.weight",
           ".gate.wg.weight")  # fmt: skip
"""Ends of names: layers that choose experts, which stay as they are. They are small, and a choice has no rounding."""

EXACT = (
    "q_proj",
    "k_proj",
    "v_proj",
    "qkv",
    "query_key_value",
    "W_pack",
    "q_a_proj",
    "q_b_proj",
    "kv_a_proj",
    "kv_b_proj",
    "c_attn",
    "Wqkv",
    "in_proj_qkv",
)
"""Parts of names: layers that queries, keys and values come from, whose rows get 12 bits where others have fewer. They
are a sixth of the work and cause half of the error (of logits of SmolLM2-135M, .028 of the largest with them, .020
without). Of layers of the delta rule (Qwen3-Next and 3.5) they are a third of a random model's work and 35 to 50 % of
its squared error, gates and shares of the state nothing that can be measured. Mamba's one projection is most of its
layer: two thirds of the work for half of the error, so it is none of these."""
_WHOLE = 32
"""Bits of activations that are not rounded."""
_ROW_BITS = {"high": 0, "normal": 10, "low": 8}
LARGEST = 64
"""Neighbours of a row that may be rounded with one scale: with whole rows, SmolLM2-135M's perplexity rises by 1.3 %."""


class Tensor(Protocol):
    """A tensor of a file, of which nothing is read before it is asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def quantized(self) -> QuantizedArray | None: ...

    def float32(self) -> np.ndarray: ...


class LoadedWeights:
    """The tensors of a file by Hugging Face's names; matrices of floats get ``bits``, where told. ``row_bits``: what
    low-bit weights are multiplied by may be rounded to so many (:class:`~MNN.ir.quant.QuantizedArray`)."""

    def __init__(self, tensors: Mapping[str, Tensor], bits: int | None = None, row_bits: int = 0) -> None:
        check_bits(bits)
        self._tensors, self._bits, self._row_bits = tensors, bits, row_bits

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def __getitem__(self, name: str) -> Array:
        found = self._read(name)
        give_back()
        if not isinstance(found, QuantizedArray):
            return found
        return with_rounding(found, name, self._row_bits)

    def _read(self, name: str) -> Array:
        tensor = self._tensors[name]
        held = tensor.quantized()
        if held is not None:
            return held
        data = np.ascontiguousarray(tensor.float32())
        if self._bits is None or data.ndim not in (2, 3) or data.shape[-1] % BLOCK or name.endswith(ROUTERS):
            return data
        data = data.reshape(-1, data.shape[-1])  # of a stack of experts, one above the other
        return quantize(data, max(self._bits, 8) if at_an_end(name) else self._bits)


def at_an_end(name: str) -> bool:
    """Whether a weight lies at an end of its network: such keep eight bits at least."""
    return _ENDS.search(name) is not None


def check_bits(bits: int | None) -> None:
    if bits is not None and bits not in BITS:
        raise MNNError(f"weights can be quantised to {', '.join(map(str, BITS))} bits, not to {bits!r}")


def with_rounding(weight: QuantizedArray, name: str, row_bits: int) -> QuantizedArray:
    """A weight whose products may round what they multiply it by to ``row_bits`` (0: not at all), where that loses
    little; in any case, that is finite in a language model."""
    size = weight.cols // max(weight.scale.shape[1], 1)
    if size > LARGEST:
        row_bits = 0
    elif row_bits and any(part in name for part in EXACT):
        row_bits = ROW_BITS[-1]
    return replace(weight, row_bits=row_bits, finite_rows=True)


def row_bits_of(precision: str, activation_bits: int | None) -> int:
    """To how many bits what low-bit weights are multiplied by is rounded, 0 where it is not; by default 10 (12, or
    8 where numbers of a prompt are small), and 8 at the precision ``low``: words of small models are often so near each
    other that 8 bits choose another answer, with no more perplexity."""
    if activation_bits is None:
        return _ROW_BITS[precision]
    if activation_bits not in (*ROW_BITS, _WHOLE):
        few = ", ".join(map(str, ROW_BITS))
        raise MNNError(f"activations can have {few} or {_WHOLE} bits, not {activation_bits!r}")
    return activation_bits % _WHOLE


def quantize(weight: np.ndarray, bits: int, block: int = BLOCK, symmetric: bool = False) -> QuantizedArray:
    """A matrix f32 ``[rows, cols]`` with one scale for each ``block`` neighbours of a row: from the smallest number of
    a block to its largest, or, where ``symmetric``, from minus its largest size to that."""
    rows, cols = weight.shape
    blocks, half = weight.reshape(rows, cols // block, block), 1 << (bits - 1)
    if symmetric:
        scale = np.abs(blocks).max(2) / np.float32(half - 1)
        codes = np.rint(blocks / _nonzero(scale)[:, :, None])
        offset = None
    else:
        low = blocks.min(2)
        scale = (blocks.max(2) - low) / np.float32((1 << bits) - 1)
        codes = np.rint((blocks - low[:, :, None]) / _nonzero(scale)[:, :, None]) - np.float32(half)
        offset = (low + np.float32(half) * scale).astype(np.float32)
    values = np.clip(codes, -half, half - 1).astype(np.int8).reshape(rows, cols)
    return QuantizedArray.of(values, scale.astype(np.float32), offset, bits, (rows, cols))


def _nonzero(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0, scale, np.float32(1))


__all__ = [
    "BITS", "BLOCK", "LoadedWeights", "Tensor", "at_an_end", "check_bits", "quantize", "row_bits_of", "with_rounding",
]  # fmt: skip
