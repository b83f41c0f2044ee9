"""Kernels compiled on several processors at once.

llvmlite lets one thread into LLVM at a time. Turning a module into machine code, which is most of the work, needs no
such care: every module is in a context of its own here, and every thread has a code generator of its own, which is how
LLVM wants to be used by several threads. So that one function is called past llvmlite's lock; everything else goes
through it.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import llvmlite.binding as llvm

MOST = 4
"""Threads: beyond, they would wait for Python, which writes the kernels' text."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers() -> int:
    """How many threads may compile at once: the processors that there are for this process, at most a few."""
    if _emission() is None:
        return 1
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, MOST)


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``work(item)`` of every item, in their order, by the calling thread and others. What one raises is raised here,
    when all have stopped."""
    results: list[Any] = [None] * len(items)
    failures: list[BaseException] = []
    left = iter(range(len(items)))
    lock = threading.Lock()

    def take() -> Iterator[int]:
        while not failures:
            with lock:
                index = next(left, None)
            if index is None:
                return
            yield index

    def run() -> None:
        try:
            for index in take():
                results[index] = work(items[index])
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    count = min(workers(), len(items)) - 1
    helpers = [threading.Thread(target=contextvars.copy_context().run, args=(run,)) for _ in range(count)]
    started = []
    try:
        for helper in helpers:
            helper.start()
            started.append(helper)
    except RuntimeError:  # no more threads to be had: the others do it
        pass
    run()
    for helper in started:
        helper.join()
    if failures:
        raise failures[0]
    return results


def emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The module's object file, by a code generator that no other thread uses."""
    import llvmlite.binding as llvm

    function = _emission()
    if function is None:
        data: bytes = machine.emit_object(module)
        return data
    with llvm.ffi.OutputString() as message:
        buffer = function(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        start, size = llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _emission() -> Callable[..., Any] | None:
    """LLVM's emission of objects without llvmlite's lock; None where this version of llvmlite has no such function."""
    import llvmlite.binding as llvm

    try:
        guarded = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory
        free = ctypes.CDLL(llvm.ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
        free.argtypes, free.restype = guarded.argtypes, guarded.restype
    except (AttributeError, OSError):
        return None
    return free if free.argtypes and free.restype is not None else None
