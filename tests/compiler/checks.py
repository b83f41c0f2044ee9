"""Compiles small primitive programs and compares every output with the numpy meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.compiler.compile import compile_stage
from MNN.compiler.constants import ConstantPool
from MNN.compiler.options import Options
from MNN.compiler.program import Program
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.builder import Builder
from MNN.ops.meaning import evaluate
from MNN.runtime.bind import BoundProgram
from MNN.runtime.executor import shared_library

Build = Callable[..., Tensor | Sequence[Tensor]]


def check(
    build: Build,
    *arrays: np.ndarray,
    tol: float = 1e-5,
    threads: int = 1,
    hosts: int = 0,
    precision: str = "normal",
) -> Program:
    """Builds with ``build(builder, *inputs)``, runs it compiled and by meaning, and compares.

    ``hosts`` is how many host calls the program may hold; more mean that a kernel is missing.
    """
    b = Builder()
    inputs = [Tensor(DType.of(a), a.shape, name=f"x{i}") for i, a in enumerate(arrays)]
    made = build(b, *inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    numbers: dict[Tensor, np.ndarray] = dict(zip(inputs, arrays, strict=True))
    for prim in b.prims:
        values = [t.const if t.const is not None else numbers[t] for t in prim.inputs]
        results = evaluate(prim, values, [(t.dtype, t.shape) for t in prim.outputs])
        numbers.update(zip(prim.outputs, results, strict=True))
    library = shared_library(cache=True)
    program = compile_stage(b.prims, inputs, outputs, library.target, Options(threads, precision), ConstantPool())
    bound = BoundProgram(program, library)
    for _ in range(2):  # the second run finds the arena dirty
        found = bound.run(list(arrays), threads)
        for tensor, array in zip(outputs, found, strict=True):
            want = numbers[tensor]
            assert array.shape == want.shape
            scale = max(float(np.abs(want.astype(np.float64)).max(initial=0)), 1e-30) if want.size else 1.0
            np.testing.assert_allclose(array.astype(np.float64), want.astype(np.float64), rtol=0, atol=tol * scale)
    assert sum(c.host is not None for c in program.commands) <= hosts
    return program
