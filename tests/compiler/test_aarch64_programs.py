"""Whole programs for AArch64 in low precision, executed command by command under qemu-user."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Buffer, Command, Program, Ref
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.low_precision import storage
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.reference.primitives import evaluate
from tests.backends.cpu import qemu
from tests.backends.cpu.test_compile import conv_block, randn

FP16 = named_target("neon-fp16")
BF16 = dataclasses.replace(FP16, features=tuple(sorted({*FP16.features, "bf16"})))


class Emulated:
    """A program's memory, and its commands run one after the other."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.arena = np.zeros(program.arena_bytes + 64, np.uint8)
        self.kept: dict[int, np.ndarray] = {}
        for command in program.commands:
            self.fill(command)

    def fill(self, command: Command) -> None:
        """Runs what fills the constants that a command uses."""
        for ref in command.args.values():
            if isinstance(ref, Ref) and ref.buffer.setup:
                setup, ref.buffer.setup = ref.buffer.setup, []
                for step in setup:
                    self.fill(step)
                    self.run(step)

    def memory(self, buffer: Buffer) -> np.ndarray:
        if buffer.const is None:
            return self.arena[buffer.offset :]
        return buffer.const.reshape(-1).view(np.uint8)

    def run(self, command: Command) -> None:
        assert command.kernel is not None
        assert not command.stages
        arrays: dict[int, np.ndarray] = {}
        slots: dict[str, int] = {}
        for name, value in command.args.items():
            if not isinstance(value, Ref):
                slots[name] = value
                continue
            whole = self.arena if value.buffer.const is None else self.memory(value.buffer)
            arrays[whole.ctypes.data] = whole
            slots[name] = self.memory(value.buffer).ctypes.data + value.offset
        qemu.call(command.kernel, self.target, slots, command.blocks, list(arrays.values()))

    def view(self, located) -> np.ndarray:
        place, dtype = located.place, np.dtype(located.dtype.numpy)
        data = self.memory(place.buffer)[place.offset * dtype.itemsize :]
        steps = tuple(s * dtype.itemsize for s in place.strides)
        return np.lib.stride_tricks.as_strided(data.view(dtype), located.shape, steps)


@pytest.mark.parametrize(("target", "dtype"), [(FP16, DType.F16), (BF16, DType.BF16)], ids=["fp16", "bf16"])
def test_a_small_network(target: Target, dtype: DType) -> None:
    qemu.need_tools()
    assert storage(target, "low") is dtype
    assert storage(target, "normal") is None
    b = Builder()
    x = Tensor(DType.F32, (1, 3, 18, 18), name="x")
    y = conv_block(b, x, 24, 3, stride=2)
    y = conv_block(b, y, 24, 3, groups=24)
    y = conv_block(b, y, 65, 1)
    y = b.matmul(y, b.const(randn(y.shape[-1], 12)))
    values = {x: randn(*x.shape)}
    for prim in b.prims:
        given = [t.const if t.const is not None else values[t] for t in prim.inputs]
        values.update(zip(prim.outputs, evaluate(prim, given, [(t.dtype, t.shape) for t in prim.outputs]), strict=True))
    program = compile_stage(b.prims, [x], [y], target, Options(1, "low"), ConstantPool())
    assert {getattr(c.kernel, "a", None) for c in program.commands} >= {dtype}
    emulated = Emulated(program, target)
    emulated.view(program.inputs[0])[...] = values[x]
    for command in program.commands:
        emulated.run(command)
    found, want = emulated.view(program.outputs[0]), values[y]
    assert np.abs(found - want).max() <= (0.005 if dtype is DType.F16 else 0.02) * np.abs(want).max()
