"""What layers ask about a training step: which one it is, a number that expressions may depend on, as dropout does; and
whether there is anything to normalise by."""

from __future__ import annotations

import math

import numpy as np

from MNN.errors import ShapeError
from MNN.expr.node import Expr
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.ir.dtype import DType

STEP = Expr.leaf("Input", DType.I64, (), np.asarray(0, np.int64))
"""Counted by optimisers; programs of steps get it as an operand."""


def step_number() -> Var:
    """The number of the step as a Var."""
    return Var(STEP, 0, NCHW)


def check_batch(x: Var) -> None:
    """Raises :class:`ShapeError` where a batch has one number for each channel (axis 1): less its mean that is 0."""
    shape = list(x.shape)
    if len(shape) > 1 and math.prod(shape[:1] + shape[2:]) == 1:
        raise ShapeError(
            f"a batch normalisation that is trained takes more than one value for each channel, found {shape}; make "
            "the batch larger (drop_last=True of a DataLoader leaves out the last one), or train(False) the layer"
        )


__all__ = ["STEP", "check_batch", "step_number"]
