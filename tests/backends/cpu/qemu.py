"""Runs AArch64 kernels on any machine: a tiny static program around the kernel's object, under qemu-user.

The program, itself made by our toolchain, maps a file at a fixed address and calls the kernel with pointers into it, so
that results come back through the file. It is linked by the ``ziglang`` package's linker or by a cross gcc.
On Debian: ``apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross`` (the last two, or
``pip install ziglang``). Where the tools are missing a test is skipped, except in CI (``CI`` set), where it fails.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.targets import Target, host_target
from tests.backends.cpu import util

BASE = 0x40_0000_0000
_PAGE = 1 << 16
_PROGRAM = f"""
declare i32 @open(ptr, i32, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare void @kernel(ptr, i64, i64, ptr)
define i32 @main(i32 %argc, ptr %argv) {{
  %pathp = getelementptr ptr, ptr %argv, i64 1
  %path = load ptr, ptr %pathp
  %fd = call i32 (ptr, i32, ...) @open(ptr %path, i32 2)
  %at = inttoptr i64 {BASE} to ptr
  %head = call ptr @mmap(ptr %at, i64 {_PAGE}, i32 3, i32 17, i32 %fd, i64 0)
  %sizep = getelementptr i64, ptr %head, i64 4
  %size = load i64, ptr %sizep
  %image = call ptr @mmap(ptr %at, i64 %size, i32 3, i32 17, i32 %fd, i64 0)
  %placed = icmp eq ptr %image, %at
  br i1 %placed, label %run, label %fail
run:
  %args = load ptr, ptr %image
  %beginp = getelementptr i64, ptr %image, i64 1
  %begin = load i64, ptr %beginp
  %endp = getelementptr i64, ptr %image, i64 2
  %end = load i64, ptr %endp
  %scratchp = getelementptr i64, ptr %image, i64 3
  %scratch = load ptr, ptr %scratchp
  call void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  ret i32 0
fail:
  ret i32 3
}}
"""


@functools.cache
def _linker() -> list[str] | None:
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
    found = shutil.which("aarch64-linux-gnu-gcc")
    return [found, "-static"] if found else None


@functools.cache
def _emulator() -> str | None:
    return shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


def need_tools() -> None:
    """Skips the test, or fails it in CI, where qemu-user or a linker for AArch64 is missing."""
    missing = [n for n, t in (("qemu-user", _emulator()), ("an AArch64 linker", _linker())) if t is None]
    if missing:
        message = f"missing {' and '.join(missing)}; see {pathlib.Path(__file__).name}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@functools.cache
def _executable(spec: KernelSpec, target: Target) -> pathlib.Path:
    """The linked program, kept until the process ends."""
    folder = pathlib.Path(_folder().name)
    linker = _linker()
    assert linker is not None
    name = f"p{len(list(folder.iterdir()))}"
    kernel, program, result = (folder / f"{name}{end}" for end in (".k.o", ".m.o", ".bin"))
    kernel.write_bytes(toolchain.compile_object(spec.emit(target), target, spec.shaped))
    program.write_bytes(toolchain.compile_object(_PROGRAM, target))
    subprocess.run([*linker, str(program), str(kernel), "-o", str(result)], check=True, capture_output=True)
    return result


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mnn-qemu-")


def call(
    spec: KernelSpec,
    target: Target,
    slots: Mapping[str, int],
    blocks: int,
    arrays: Sequence[np.ndarray],
    checked: bool = False,
) -> None:
    """Like :func:`tests.backends.cpu.util.call`, for any target: foreign ones run emulated (and never as checked
    builds).

    ``arrays`` are contiguous and hold all memory that the slots point into.
    """
    if target.family == host_target().family:
        util.call(spec, target, slots, blocks, arrays, checked)
        return
    need_tools()
    places: list[int] = []
    end = 4096
    for array in arrays:
        assert array.flags.c_contiguous
        places.append(end)
        end += -(-array.nbytes // 64) * 64 + 64
    args_at = end
    scratch_at = args_at + -(-8 * len(slots) // 64) * 64
    size = -(-(scratch_at + spec.scratch(target, slots) + 64) // _PAGE) * _PAGE
    image = np.zeros(size, np.uint8)
    head = [BASE + args_at, 0, blocks, BASE + scratch_at, size]
    image[: 8 * len(head)] = np.array(head, np.int64).view(np.uint8)

    def moved(value: int) -> int:
        for array, place in zip(arrays, places, strict=True):
            if array.nbytes and array.ctypes.data <= value < array.ctypes.data + array.nbytes:
                return BASE + place + value - array.ctypes.data
        return value

    values = np.array([moved(slots[s]) for s in spec.slots()], np.int64)
    image[args_at : args_at + values.nbytes] = values.view(np.uint8)
    for array, place in zip(arrays, places, strict=True):
        image[place : place + array.nbytes] = array.reshape(-1).view(np.uint8)
    with tempfile.NamedTemporaryFile(dir=_folder().name, suffix=".mem") as file:
        image.tofile(file.name)
        emulator = _emulator()
        assert emulator is not None
        command = [emulator, str(_executable(spec, target)), file.name]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr.decode()}"
        image = np.fromfile(file.name, np.uint8)
    for array, place in zip(arrays, places, strict=True):
        array.reshape(-1).view(np.uint8)[:] = image[place : place + array.nbytes]
