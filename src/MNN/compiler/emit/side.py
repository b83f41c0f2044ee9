"""How contraction kernels walk an operand, and what they are told of the operands of their epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.compiler.emitter import Emitter
from MNN.compiler.program import Place, Ref
from MNN.ir.dtype import DType


@dataclass
class Side:
    """How one operand is walked: offsets of the rows, and its step from batch to batch."""

    place: Place
    dtype: DType
    rows: np.ndarray | None
    batch: np.ndarray


def operand_args(e: Emitter, operands: Sequence[tuple[str, Side]]) -> dict[str, int | Ref]:
    """The arguments of an epilogue's operands; see :func:`MNN.kernels.epilogue.operand_slots`."""
    args: dict[str, int | Ref] = {}
    for i, (kind, side) in enumerate(operands):
        args[f"op{i}"] = e.ref(side.place, side.dtype)
        if kind in ("m", "mn"):
            assert side.rows is not None
            args[f"rows{i}"] = e.offsets(side.rows)
    return args
