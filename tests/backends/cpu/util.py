"""Running kernels on numpy arrays in tests, plainly or as checked builds with exact bounds."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Mapping, Sequence

import llvmlite.binding as llvm
import numpy as np

from MNN.backends.base import poison
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.lang.declarations import checked_build
from MNN.backends.cpu.targets.base import Target, families, host_target

ENTRY_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def host_targets() -> list[Target]:
    """Every target of this machine's family that this machine can run, weakest first."""
    host = host_target()
    found = {name for name, on in llvm.get_host_cpu_features().items() if on} | {"neon"}
    family = families()[host.family]
    usable = [t for t in family.targets.values() if found.issuperset(t.features)]
    return [dataclasses.replace(t, triple=host.triple) for t in usable]


TARGETS = host_targets()


def ranges(arrays: Sequence[np.ndarray]) -> list[int]:
    """First and past byte of every array's memory, for views the part that they reach."""
    table = []
    for a in arrays:
        reach = [(n - 1) * step for n, step in zip(a.shape, a.strides, strict=True)]
        low = a.ctypes.data + sum(r for r in reach if r < 0)
        table += [low, a.ctypes.data + sum(r for r in reach if r > 0) + a.itemsize] if a.size else [0, 0]
    return table


def address(spec: KernelSpec, target: Target, checked: bool = False) -> int:
    with checked_build() if checked else contextlib.nullcontext():
        return Library(target).load([spec])[0]


def call(
    spec: KernelSpec,
    target: Target,
    slots: Mapping[str, int],
    blocks: int,
    arrays: Sequence[np.ndarray],
    checked: bool = False,
) -> None:
    """Calls the kernel on all blocks, in two parts. ``arrays`` are all memory that it may touch."""
    names = spec.slots()
    assert set(names) == set(slots), set(names) ^ set(slots)
    size = max(spec.scratch(target, slots), 64)
    memory = np.empty(size + 64, np.uint8)
    poison.fill(memory[: memory.size & ~1])  # what nobody writes is NaN
    offset = -memory.ctypes.data % 64
    scratch = memory[offset : offset + size]
    table = np.array([0, len(arrays) + 1, *ranges([*arrays, scratch])], np.int64)
    args = np.array([*[slots[n] for n in names], table.ctypes.data], np.int64)
    function = ENTRY_TYPE(address(spec, target, checked))
    for begin, end in ((0, blocks // 3), (blocks // 3, blocks)):
        function(args.ctypes.data, begin, end, scratch.ctypes.data)
    assert table[0] == 0, f"access number {table[0]} of {spec} is out of bounds"


def element_strides(a: np.ndarray) -> list[int]:
    """Strides in elements."""
    return [s // a.itemsize for s in a.strides]
