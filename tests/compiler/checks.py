"""Compiles small primitive programs and compares every output with the reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.lowbit import emit_strips
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.reference.primitives import evaluate

Build = Callable[..., Tensor | Sequence[Tensor]]


def built(build: Build, *arrays: np.ndarray) -> tuple[Builder, list[Tensor], list[Tensor], dict[Tensor, np.ndarray]]:
    """What ``build(builder, *inputs)`` makes: builder, inputs, outputs, and the numbers of all tensors by meaning."""
    b = Builder()
    inputs = [Tensor(DType.of(a), a.shape, name=f"x{i}") for i, a in enumerate(arrays)]
    made = build(b, *inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    numbers: dict[Tensor, np.ndarray] = dict(zip(inputs, arrays, strict=True))
    for prim in b.prims:
        values = [t.const if t.const is not None else numbers[t] for t in prim.inputs]
        results = evaluate(prim, values, [(t.dtype, t.shape) for t in prim.outputs])
        numbers.update(zip(prim.outputs, results, strict=True))
    return b, inputs, outputs, numbers


def cheap_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrix units for bf16 everywhere (in plain code where there are none), cheaper than anything else."""
    real = amx._Job._cycles
    monkeypatch.setattr(amx, "available", lambda target: True)
    monkeypatch.setattr(amx, "splits_in_fp16", lambda target: False)
    monkeypatch.setattr(amx._Job, "_cycles", lambda self, cycles: real(self, cycles) * 1e-6)
    monkeypatch.setattr(emit_strips, "_cycles", lambda *_: 1.0)


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
    b, inputs, outputs, numbers = built(build, *arrays)
    library = shared_library(cache=True)
    program = compile_stage(b.prims, inputs, outputs, library.target, Options(threads, precision), ConstantPool())
    bound = BoundProgram(program, library)
    for _ in range(2):  # the second run finds the arena dirty
        found = bound.run(list(arrays), threads)
        for tensor, array in zip(outputs, found, strict=True):
            want = numbers[tensor].astype(np.float64)
            assert array.shape == want.shape
            scale = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
            np.testing.assert_allclose(array.astype(np.float64), want, rtol=0, atol=tol * scale)
    assert sum(c.host is not None for c in program.commands) <= hosts
    return program
