"""Which training step it is: a number that expressions may depend on, as dropout does."""

from __future__ import annotations

import numpy as np

from MNN.expr.node import Expr
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.ir.dtype import DType

STEP = Expr.leaf("Input", DType.I64, (), np.asarray(0, np.int64))
"""Counted by optimisers; programs of steps get it as an operand."""


def step_number() -> Var:
    """The number of the step as a Var."""
    return Var(STEP, 0, NCHW)


__all__ = ["STEP", "step_number"]
