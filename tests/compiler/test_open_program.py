"""One program for a range: what is found out at the sizes at which it is compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from MNN.backends.base.program import Buffer, Located, Place, Program
from MNN.compiler import strides as st
from MNN.compiler.lower import Stage
from MNN.compiler.open.errors import NotOpenError
from MNN.compiler.open.plan import Lowered, SizeRange, open_program
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.traced import Trace

RANGE = SizeRange(3, 31, (14, 3, 31), 40)


def plan(result: Callable[[int], int]) -> None:
    """Plans a stage whose output is as large as ``result`` says of its input."""
    memory = Buffer(4 * RANGE.room)

    def lower(trace: Trace) -> Lowered:
        x = Tensor(DType.F32, (trace.size("s0"),))
        return Lowered(Stage([], {}, {}, 0, None), [x], [x])

    def compile_stage(lowered: Lowered) -> Program:
        n = lowered.inputs[0].shape[0]
        given, made = (Located(DType.F32, (m,), Place(memory, 0, (1,))) for m in (n, result(n)))
        return Program([], [given], [made], 0, Buffer(8))

    open_program({"s0": RANGE}, lower, compile_stage)


def test_results_are_formulas_of_sizes() -> None:
    plan(lambda n: n * 2 + 1)
    plan(lambda n: max(n, 20) * 0 + 5)  # other branches are taken at the ends
    with pytest.raises(NotOpenError, match="no formula"):
        plan(lambda n: 7 if n % 2 == 1 else 8)
    with pytest.raises(NotOpenError, match="no formula"):
        plan(lambda n: 7 + (int(n) == 14))  # what no comparison tells shows at the sizes that are tried
    with pytest.raises(NotOpenError, match="at the sizes tried"):  # nor is it tried at any such size
        plan(lambda n: 7 if n // 4 == 2 else 8)


def test_what_one_trace_found_is_not_taken_for_another() -> None:
    """It may hang on comparisons, which each trace has to note."""
    noted = []
    for _ in range(2):
        trace = Trace({"s0": 24}, {"s0": 40})
        n = trace.size("s0")
        assert st.order_of((n // 8, 4), (4, 1)) == (0, 1)
        assert st.reshape_strides((n, 4), (4, 1), (n // 2, 8)) == (8, 1)
        noted.append(trace.compared)
    assert noted[0] == noted[1] != {}
