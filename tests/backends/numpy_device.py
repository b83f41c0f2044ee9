"""A second machine, for tests: numpy computes groups of primitives in a memory of its own.

Its tensors are :class:`DeviceArray`, which nothing of the host can read, and the host's arrays mean nothing to it, so
that a copy that was left out is an error. Programs come from the compiler's own parts: orders, fusion, memory plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from MNN.backends.base import registry
from MNN.backends.base.backend import Backend, Filled, TimedBound
from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.kernel import KernelSpec, Kind
from MNN.backends.base.options import Options
from MNN.backends.base.poison import fill
from MNN.backends.base.program import Buffer, Command, Located, Place, Program, Ref
from MNN.backends.base.space import MemorySpace
from MNN.compiler import arena, usage
from MNN.compiler.fuse import Fuser
from MNN.compiler.layout import assign_layouts, natural
from MNN.compiler.strides import dense
from MNN.compiler.verify_program import verify_groups, verify_program
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.reference.primitives import evaluate

DEVICE = MemorySpace("numpy device")
Able = Callable[[Prim], bool]


class DeviceArray:
    """Numbers in the device's memory: no array, and none can be made of it but by a copy."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers = numbers

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("the host reads the device's memory")


@dataclasses.dataclass(frozen=True)
class GroupSpec(KernelSpec):
    """A group, run by the reference. ``ins`` are its operands, slots ``in0`` and so on; ``outs`` its results."""

    kind: ClassVar[Kind] = Kind.LAUNCH
    prims: tuple[Prim, ...]
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]

    def slots(self) -> tuple[str, ...]:
        return (*(f"in{i}" for i in range(len(self.ins))), *(f"out{i}" for i in range(len(self.outs))))

    def emit(self, target: Any) -> str:
        raise NotImplementedError("numpy needs no code")

    def launch(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = dict(zip(self.ins, operands, strict=True))
        for prim in self.prims:
            values = [found.get(t, t.const) for t in prim.inputs]
            results = evaluate(prim, values, [(t.dtype, t.shape) for t in prim.outputs])
            found.update(zip(prim.outputs, results, strict=True))
        return [found[t] for t in self.outs]


class DeviceProgram(TimedBound):
    """A program with an arena in the device's memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._arena = np.empty(program.arena_bytes, np.uint8)

    def memory(self) -> dict[Any, int]:
        return {id(self): self._arena.nbytes}

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        fill(self._arena)
        for located, value in zip(self.program.inputs, values, strict=True):
            assert isinstance(value, DeviceArray), "the device reads the host's memory"
            self._at(located.place, located.dtype.numpy, located.shape)[...] = value._numbers
        self.compute(threads)
        outputs = self.program.outputs
        return [DeviceArray(self._at(o.place, o.dtype.numpy, o.shape).copy()) for o in outputs]

    def compute(self, threads: int) -> None:
        for command in self.program.commands:
            spec = command.kernel
            assert isinstance(spec, GroupSpec)
            at = [command.args[slot] for slot in spec.slots()]
            tensors = (*spec.ins, *spec.outs)
            views = [self._of(ref, t) for ref, t in zip(at, tensors, strict=True)]
            for to, numbers in zip(views[len(spec.ins) :], spec.launch(views[: len(spec.ins)]), strict=True):
                to[...] = numbers

    def profile(self, threads: int) -> np.ndarray:
        self.compute(threads)
        return np.ones(len(self.program.commands))

    def _of(self, ref: int | Ref, tensor: Tensor) -> np.ndarray:
        assert isinstance(ref, Ref)
        if ref.buffer.const is not None:
            return ref.buffer.const
        return self._at(Place(ref.buffer, ref.offset, ()), tensor.dtype.numpy, tensor.shape)

    def _at(self, place: Place, kind: np.dtype, shape: Sequence[int]) -> np.ndarray:
        assert place.buffer.space == DEVICE
        start, nbytes = place.buffer.offset + place.offset, elements(shape) * kind.itemsize
        return self._arena[start : start + nbytes].view(kind).reshape(shape)


class NumpyDevice(Backend):
    """Does what ``able`` says, at ``speed`` times the cost of the host."""

    name = "numpy device"
    space = DEVICE
    able: Able = staticmethod(lambda prim: True)
    speed = 1e-3
    latency = 0.0

    def __init__(self, cache: bool = True) -> None:
        self.copies = [0, 0]
        """To the device, and back."""

    def device(self) -> str:
        return np.__version__

    def generators(self) -> str:
        return ""

    def cost(self, prim: Prim) -> float | None:
        if isinstance(prim, p.Host) or not self.able(prim):
            return None
        return self.speed * (registry.backend("cpu", True).cost(prim) or 0.0)

    def transfer_cost(self, nbytes: int) -> float:
        return self.latency

    def constants(self) -> ConstantPool:
        return ConstantPool()

    def receive(self, array: np.ndarray) -> DeviceArray:
        self.copies[0] += 1
        return DeviceArray(array.copy())

    def send(self, value: DeviceArray) -> np.ndarray:
        self.copies[1] += 1
        return value._numbers.copy()

    def compile(
        self,
        prims: Sequence[Prim],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        options: Options,
        pool: ConstantPool,
    ) -> Program:
        kept = usage.live(prims, outputs)
        uses = usage.consumers(kept)
        groups = Fuser(kept, uses, assign_layouts(kept, inputs, uses), outputs).groups()
        verify_groups(groups, kept, inputs)
        position = {prim: i for i, prim in enumerate(kept)}
        work = [((*([g.anchor] if g.anchor else []), *g.prims)) for g in groups]
        work += [(prim,) for prim in kept if isinstance(prim, usage.VIEWS)]
        buffers: dict[Tensor, Buffer] = {}

        def at(tensor: Tensor, pinned: bool = False) -> Buffer:
            if tensor not in buffers:
                buffers[tensor] = Buffer(max(elements(tensor.shape), 1) * tensor.dtype.size, tensor.const, space=DEVICE)
            buffers[tensor].pinned |= pinned
            return buffers[tensor]

        def located(tensor: Tensor) -> Located:
            return Located(
                tensor.dtype, tensor.shape, Place(at(tensor, True), 0, dense(tensor.shape, natural(tensor.rank)))
            )

        commands = []
        for chosen in sorted(work, key=lambda part: position[part[-1]]):
            own = {t for prim in chosen for t in prim.outputs}
            ins = tuple(dict.fromkeys(t for prim in chosen for t in prim.inputs if t not in own))
            needed = {t for prim in kept if prim not in set(chosen) for t in prim.inputs} | set(outputs)
            outs = tuple(t for prim in chosen for t in prim.outputs if t in needed)
            spec = GroupSpec(tuple(chosen), ins, outs)
            args: dict[str, int | Ref] = {
                slot: Ref(at(t), 0) for slot, t in zip(spec.slots(), (*ins, *outs), strict=True)
            }
            commands.append(Command(spec, args, 1, 1, chosen[-1].origin))
        program = Program(
            commands, [located(t) for t in inputs], [located(t) for t in outputs], 0, Buffer(0), space=DEVICE
        )
        program.arena_bytes = arena.plan(commands, [b for b in buffers.values() if b.const is None])
        verify_program(program)
        return program

    def bind(self, program: Program, threads: int, filled: Filled | None = None, room: Any = None) -> DeviceProgram:
        assert program.space == self.space
        return DeviceProgram(program)


@contextmanager
def numpy_device(able: Able = lambda prim: True, latency: float = 0.0) -> Iterator[NumpyDevice]:
    """Within this context there is such a back end, which computes what it is ``able`` to; every copy of a tensor
    costs ``latency`` seconds."""
    device = NumpyDevice()
    device.able, device.latency = able, latency  # type: ignore[method-assign]
    registry.register(NumpyDevice.name, lambda cache: device)
    try:
        yield device
    finally:
        registry._MAKERS.pop(NumpyDevice.name)
