"""One program for a range: at how many sizes it is compiled, and what is found out of those between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from MNN.backends.base.program import Buffer, Located, Place, Program
from MNN.compiler import strides as st
from MNN.compiler import verify_program
from MNN.compiler.lower import Stage
from MNN.compiler.open.errors import NotOpenError
from MNN.compiler.open.plan import Lowered, SizeRange, open_program
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.traced import Trace
from MNN.ir.verify_primitives import ProgramError

RANGE = SizeRange(3, 31, (14, 3, 31), 40)


def planned(result: Callable[[int], int], monkeypatch: pytest.MonkeyPatch, verified: bool = False) -> list[int]:
    """The sizes at which a stage is compiled whose output is as large as ``result`` says of its input."""
    monkeypatch.setenv(verify_program.VARIABLE, str(int(verified)))
    compiled: list[int] = []
    memory = Buffer(4 * RANGE.room)

    def lower(trace: Trace) -> Lowered:
        x = Tensor(DType.F32, (trace.size("s0"),))
        return Lowered(Stage([], {}, {}, 0, None), [x], [x])

    def compile_stage(lowered: Lowered) -> Program:
        n = lowered.inputs[0].shape[0]
        compiled.append(int(n))
        given, made = (Located(DType.F32, (m,), Place(memory, 0, (1,))) for m in (n, result(n)))
        return Program([], [given], [made], 0, Buffer(8))

    open_program({"s0": RANGE}, lower, compile_stage)
    return compiled


def test_both_ends_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned(lambda n: n * 2 + 1, monkeypatch) == [3, 31]
    assert sorted(planned(lambda n: n * 2 + 1, monkeypatch, verified=True)) == [3, 14, 31]
    assert planned(lambda n: max(n, 20) * 0 + 5, monkeypatch) == [3, 31]  # other branches are taken at its ends


def test_a_comparison_that_parts_between_the_ends_is_tried_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(planned(lambda n: 7 + 0 * (n % 2 == 1), monkeypatch)) == [3, 14, 31]
    with pytest.raises(NotOpenError, match="no formula"):
        planned(lambda n: 7 if n % 2 == 1 else 8, monkeypatch)
    with pytest.raises(NotOpenError, match="at the sizes tried"):  # nor is it tried at any such size
        planned(lambda n: 7 if n // 4 == 2 else 8, monkeypatch)


def test_what_is_lost_between_the_ends_is_found_where_programs_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramError, match="does not between them"):
        planned(lambda n: 7 + (int(n) == 14), monkeypatch, verified=True)


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
