"""From LLVM IR text to machine code: optimise, emit an object, load it, and look at the assembly.

Kernels arrive already shaped (registers tiled, loops vectorised), so the pass pipeline is short: it cleans up addresses
and redundancy and leaves the loops alone. Objects use the small, position-independent code model: JITLink keeps each
object's code and constants together, and the same object can be linked into a shared library.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import pathlib
import re
import struct
import sys
import threading
from collections.abc import Mapping

import llvmlite
import llvmlite.binding as llvm

from MNN.kernels.parallel import emit_object
from MNN.kernels.spec import ENTRY
from MNN.targets.base import Target

CODEGEN_LEVEL = 2
LOCK = threading.RLock()
"""Held around everything that touches LLVM's shared state. Re-made in a forked child."""
_ENTRY = re.compile(rf"^(define\b[^@\n]*@){ENTRY}\(", re.MULTILINE)
_COUNTER = itertools.count()
_OWN = threading.local()
"""The code generator of a thread that compiles beside others."""
_ELF = b"\x7fELF\2\1"  # of 64 bits, the lower byte first
_LOADED_SEGMENT, _WRITABLE = 1, 2  # in ELF program headers


def _after_fork() -> None:
    global LOCK
    LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _initialize(native: bool) -> None:
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # for inline assembly
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.cache
def _machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    return _new_machine(triple, cpu, features)


def _new_machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    _initialize(True)
    if triple.split("-")[0] != llvm.get_process_triple().split("-")[0]:
        _initialize(False)
    found = llvm.Target.from_triple(triple)
    return found.create_target_machine(cpu, features, CODEGEN_LEVEL, reloc="pic", codemodel="small", jit=True)


def machine(target: Target) -> llvm.TargetMachine:
    """LLVM's code generator for a target; made once."""
    return _machine(target.triple, target.cpu, target.feature_string)


def version() -> str:
    """The versions of LLVM and llvmlite, as part of the key of everything they produced."""
    return f"llvm {'.'.join(map(str, llvm.llvm_version_info))} llvmlite {llvmlite.__version__}"


def rename_entry(ir: str, symbol: str) -> str:
    """The module with its ``@kernel`` called ``@symbol``, so that many kernels can be linked together."""
    renamed, count = _ENTRY.subn(rf"\g<1>{symbol}(", ir)
    if count != 1:
        raise ValueError(f"a kernel module must define @{ENTRY} exactly once, this one does {count} times")
    return renamed


def optimize(ir: str, target: Target, shaped: bool = False, own: llvm.TargetMachine | None = None) -> llvm.ModuleRef:
    """Parses, verifies and (unless it is ``shaped`` already) optimises a module.

    Raises ``RuntimeError`` with LLVM's message for malformed IR.
    """
    tm = own or machine(target)
    module = llvm.parse_assembly(f'target triple = "{target.triple}"\n{ir}', llvm.create_context())
    module.data_layout = str(tm.target_data)
    module.verify()
    if shaped:
        return module
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def compile_object(ir: str, target: Target, shaped: bool = False) -> bytes:
    """A relocatable object of the module, in the target's native format."""
    with LOCK:
        data: bytes = machine(target).emit_object(optimize(ir, target, shaped))
        return data


def compile_beside(ir: str, target: Target, shaped: bool = False) -> bytes:
    """The same by one of several threads, while the one that they work for holds the lock."""
    if getattr(_OWN, "target", None) != target:
        new = _machine if _OWN.__dict__.get("leads") else _new_machine
        _OWN.machine = new(target.triple, target.cpu, target.feature_string)
        _OWN.target = target
    return emit_object(_OWN.machine, optimize(ir, target, shaped, _OWN.machine))


def lead(target: Target) -> None:
    """The calling thread has others compile beside it: the usual code generator, made before they start, is its own."""
    machine(target)
    _OWN.leads = True


def assembly(ir: str, target: Target, shaped: bool = False) -> str:
    """The assembly text of the module, for people and for tests that count spills."""
    with LOCK:
        text: str = machine(target).emit_assembly(optimize(ir, target, shaped))
        return text


@functools.cache
def _jit(triple: str, cpu: str, features: str, process: int) -> llvm.LLJIT:
    del process  # a forked child gets its own
    _initialize(True)
    tm = llvm.Target.from_triple(triple).create_target_machine(
        cpu, features, CODEGEN_LEVEL, reloc="pic", codemodel="small", jit=True
    )
    return llvm.create_lljit_compiler(tm, use_jit_link=os.name != "nt", suppress_errors=False)


def link(objects: Mapping[str, bytes], target: Target) -> dict[str, int]:
    """Loads objects, each defining the symbol it is listed under; gives addresses, valid for the process's life."""
    if not objects:
        return {}
    with LOCK:
        builder = llvm.JITLibraryBuilder()
        for symbol, data in objects.items():
            builder.add_object_img(data)
            builder.export_symbol(symbol)
        builder.add_current_process()  # memcpy and memset
        jit = _jit(target.triple, target.cpu, target.feature_string, os.getpid())
        tracker = builder.link(jit, f"kernels{next(_COUNTER)}")
        addresses = {symbol: int(tracker[symbol]) for symbol in objects}
        tracker.detach()  # never unloaded: workers may still stand in this code when Python shuts down
        return addresses


def let_go() -> None:
    """Gives back the memory that LLVM takes while it is not at work: its code and tables, and what it has freed (Linux
    only).

    They are unchanged pages of a file, which are read again when they are needed.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) != 6 or words[1] not in ("r-xp", "r--p") or "llvmlite" not in words[5]:
            continue
        begin, end = (int(word, 16) for word in words[0].split("-"))
        place = int(words[2], 16)
        filled = words[1] == "r--p" and any(a < place + end - begin and place < b for a, b in _filled_in(words[5]))
        if not filled:
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)
    trim()


def trim() -> None:
    """Gives back memory that was freed but kept for later by the C library, where that has a way to (glibc)."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if function is not None:
        function(ctypes.c_size_t(0))


@functools.cache
def _filled_in(path: str) -> list[tuple[int, int]]:
    """From where to where in a shared library's file (in whole pages) its writable segments lie: memory that the loader
    has filled addresses in, part of which it makes read-only afterwards. All of it where that cannot be told."""
    everything = [(0, sys.maxsize)]
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:6] != _ELF:
                return everything
            (table,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
            file.seek(table)
            rows = file.read(size * count)
    except OSError:
        return everything
    if size < 56 or len(rows) < size * count:
        return everything
    headers = [struct.unpack_from("<IIQQQQ", rows, at) for at in range(0, size * count, size)]
    page = mmap.PAGESIZE
    return [
        (offset // page * page, -(-(offset + length) // page) * page)
        for kind, flags, offset, _, _, length in headers
        if kind == _LOADED_SEGMENT and flags & _WRITABLE
    ]
