"""Checkpoints of families whose matrices lie the other way round, ``[in, out]``: turned as they are read, so that rows
are quantised, and merged with adapters, as everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from MNN.llm.files.quantised.mxfp4 import TURNED, Array
from MNN.llm.files.tensors import Rows, WeightTensor, chosen

_EXPERTS = re.compile(r".*\.experts\.(?:gate_up_proj|down_proj)")
_FAMILIES = {
    "gpt2": (re.compile(r"(?:transformer\.)?h\.\d+\.(?:attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight"), ""),
    **dict.fromkeys(("gpt_oss", "llama4", "llama4_text"), (_EXPERTS, TURNED)),
}
"""By ``model_type``: names of such weights, and what is put behind them where their shape does not tell it."""


class TurnedTensor(WeightTensor):
    """The last two dimensions of another tensor exchanged; stacks of matrices lie one above the other."""

    def __init__(self, base: WeightTensor, rows: Rows | None = None) -> None:
        self._base, self._rows = base, rows
        *stack, inputs, outputs = base.shape
        self.shape = (int(np.prod(stack, dtype=np.int64)) * outputs, inputs)
        self.dtype, self.format = np.dtype(np.float32), base.format

    def numpy(self) -> Array:
        whole = self._base.float32().swapaxes(-1, -2).reshape(-1, self._base.shape[-2])
        return np.ascontiguousarray(whole if self._rows is None else whole[self._rows]).reshape(self.shape)

    def take(self, rows: Rows, shape: tuple[int, ...]) -> TurnedTensor:
        taken = TurnedTensor(self._base, chosen(self._rows, rows))
        taken.shape = shape
        return taken


def turned(tensors: Mapping[str, WeightTensor], family: object) -> dict[str, WeightTensor]:
    """The tensors of a checkpoint of a ``family``, with all matrices ``[out, in]``."""
    pattern, mark = _FAMILIES.get(str(family), (None, ""))
    if pattern is None:
        return dict(tensors)
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        if pattern.fullmatch(name) and len(tensor.shape) >= 2:
            found[name + mark] = TurnedTensor(tensor)
        else:
            found[name] = tensor
    return found


__all__ = ["TurnedTensor", "turned"]
