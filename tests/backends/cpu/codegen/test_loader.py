"""Kernels in memory without LLVM."""

from __future__ import annotations

import ctypes
import pathlib
import platform
import struct
import sys

import numpy as np
import pytest

from MNN.backends.cpu.codegen import loader, toolchain
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.targets import Target, host_target
from MNN.cache.entries import Cache
from tests.backends.cpu.codegen.test_library import ScaleSpec, call

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not sys.platform.startswith("linux"), reason="LLVM loads kernels here"
)

TABLE = """
@table = private unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %to = load ptr, ptr %args
  %i = and i64 %begin, 3
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %at
  %f = uitofp i64 %v to double
  %r = fmul double %f, 2.5
  store double %r, ptr %to
  ret void
}
"""
CALLING = """
declare double @sin(double)
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %to = load ptr, ptr %args
  %v = load double, ptr %to
  %r = call double @sin(double %v)
  store double %r, ptr %to
  ret void
}
"""


def target() -> Target:
    return host_target()


def compiled(ir: str, symbol: str) -> bytes:
    return toolchain.compile_object(toolchain.rename_entry(ir, symbol), target())


def run(address: int, begin: int, number: float = 0.0) -> float:
    out = np.full(1, number)
    args = np.array([out.ctypes.data], np.int64)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    kernel(args.ctypes.data, begin, begin + 1, None)
    return float(out[0])


def rights(address: int) -> str:
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    raise AssertionError


def test_code_and_numbers() -> None:
    objects = {f"mnn_{i}": compiled(TABLE.replace("2.5", f"{i}.5"), f"mnn_{i}") for i in range(3)}
    found = loader.place(objects)
    assert found is not None
    for i in range(3):
        address = found[f"mnn_{i}"]
        assert address % 64 == 0
        assert rights(address) == "r-xp"
        assert [run(address, b) for b in range(4)] == [n * (i + 0.5) for n in (3, 5, 7, 11)]


def test_numbers_cannot_be_written() -> None:
    """Pages behind the code are neither writable nor executable."""
    found = loader.place({"mnn_t": compiled(TABLE, "mnn_t")})
    assert found is not None
    assert rights(found["mnn_t"] + 4096)[:3] == "r--"


def test_what_needs_other_libraries_is_left_to_llvm() -> None:
    data = compiled(CALLING, "mnn_sin")
    assert loader.place({"mnn_sin": data}) is None
    assert run(toolchain.link({"mnn_sin": data}, target())["mnn_sin"], 0, 1.0) == pytest.approx(np.sin(1.0))


def test_damaged_objects_are_refused() -> None:
    data = compiled(TABLE, "mnn_t")
    assert loader.place({"mnn_other": data}) is None
    for size in range(0, len(data), 7):
        assert loader.place({"mnn_t": data[:size]}) is None
    refused = 0
    for at in range(0, len(data) - 8, 4):  # never a crash, whatever stands there
        for number in (0xFFFFFFFFFFFFFFFF, 0x7FFFFFFF00000001):
            damaged = data[:at] + struct.pack("<Q", number) + data[at + 8 :]
            refused += loader.place({"mnn_t": damaged}) is None
    assert refused > 100


def test_libraries_need_no_llvm_to_load(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from MNN.backends.cpu.codegen import library

    monkeypatch.setattr(library, "_LOADED", {})
    Library(target(), Cache(tmp_path)).load([ScaleSpec(2), ScaleSpec(3)])
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(toolchain, "_jit", None)
    again = Library(target(), Cache(tmp_path))
    two, three = again.load([ScaleSpec(2), ScaleSpec(3)])
    assert again.compiled == 0
    call(two, 2)
    call(three, 3)
