"""Generated code calls nothing outside of itself, on any target: no C library, no compiler runtime."""

from __future__ import annotations

import re

import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.loops.fold import FoldSpec
from MNN.backends.cpu.loops.gather import GatherSpec
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.loops.rows import RowSpec
from MNN.backends.cpu.loops.scan import ScanSpec
from MNN.backends.cpu.loops.scatter import ScatterSpec
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.backends.cpu.targets.base import named_target, target_names
from MNN.ir.dtype import DType
from MNN.ir.scalar import BINARY, COMPARE, UNARY, BodyBuilder, body_of
from tests.backends.cpu.loops.test_rows import layer_norm, softmax

F32, F16 = DType.F32, DType.F16
CALL = re.compile(r"^\s+(?:callq?|bl|jmp|b)\s+([A-Za-z_][\w.@]*)", re.MULTILINE)
ALL = tuple(d for d in DType if d not in (DType.STR, DType.BF16X2) and not d.is_narrow)


def outside_calls(spec: KernelSpec, name: str) -> set[str]:
    text = toolchain.assembly(spec.emit(named_target(name)), named_target(name))
    labels = set(re.findall(r"^([\w.$\"]+):", text, re.MULTILINE))
    return {c.split("@")[0] for c in CALL.findall(text)} - {lb.strip('"') for lb in labels}


def test_the_check_sees_calls() -> None:
    class Spec(MapSpec):
        def emit(self, target: object) -> str:
            calls = "call void @outside()\n" * 2  # one alone would become a jump
            return "declare void @outside()\ndefine void @kernel() {\n" + calls + "ret void\n}"

    body = body_of([F32], lambda b, x: x)
    for name in target_names():
        assert outside_calls(Spec(body, 1, ("1",), ("1",)), name) == {"outside"}


@pytest.mark.parametrize("name", target_names())
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.U32, DType.I64])
def test_operations(dtype: DType, name: str) -> None:
    b = BodyBuilder()
    x, y = b.arg(dtype), b.arg(dtype)
    ops = [*UNARY, *BINARY, *COMPARE]
    if dtype.is_float:
        ops = [o for o in ops if o not in ("not", "and", "or", "xor", "shl", "shr")]
    else:
        ops = "neg abs sign not add sub mul div floordiv mod rem pow min max and or xor shl shr lt eq".split()
    results = [b(op, x) if op in UNARY else b(op, x, y) for op in ops]
    results += [b.cast(x, d) for d in ALL if d is not dtype]
    body = b.build(*results)
    spec = MapSpec(body, 2, ("1", "1"), ("1",) * len(results))
    assert outside_calls(spec, name) == set()


@pytest.mark.parametrize("name", target_names())
def test_generators(name: str) -> None:
    same = body_of([F16], lambda b, x: b.cast(x, F32))
    specs: list[KernelSpec] = [
        RowSpec(softmax(F16), 3, ("1",), ("1",)),
        RowSpec(layer_norm(F32), 2, ("s", "1", "1", "0"), ("1", "0")),
        FoldSpec("sum", same, None, 1, 2, ("1",), (), ("1",)),
        *(TransposeSpec(size, 2) for size in (1, 2, 4, 8)),
        GatherSpec(F16, (DType.I64,), 2, "1", ("0",), "1"),
        GatherSpec(F32, (DType.I32,), 2, "0", ("1",), "1"),
        ScatterSpec(F16, "add", (DType.I64,), 2, "1", ("0",), "1"),
        ScanSpec("add", F16, False, False, 2, True),
    ]
    for spec in specs:
        assert outside_calls(spec, name) == set(), spec
