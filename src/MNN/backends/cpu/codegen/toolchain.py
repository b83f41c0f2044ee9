"""From LLVM IR text to machine code: optimise, emit an object, load it, and look at the assembly.

LLVM is only loaded when something has to be compiled, or loaded that :mod:`MNN.backends.cpu.codegen.loader` leaves to
it. Kernels arrive already shaped (registers tiled, loops vectorised), so the pass pipeline is short: it cleans up
addresses and redundancy and leaves the loops alone. Objects use the small, position-independent code model: JITLink
keeps each object's code and constants together, and the same object can be linked into a shared library."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import pathlib
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from MNN.backends.base.forks import PATIENCE, when_forked
from MNN.backends.base.kernel import ENTRY
from MNN.backends.cpu.codegen import loader
from MNN.backends.cpu.codegen.parallel import emit_object
from MNN.backends.cpu.targets.base import Target

if TYPE_CHECKING:
    import llvmlite.binding as llvm

CODEGEN_LEVEL = 2
_LEFT_OUT = "-disable-lsr", "-x86-machine-combiner=false"
"""Kernels step through memory by pointers and offsets that suit x86's addresses already. Loop strength reduction finds
nothing in them and takes a third of the time (half of it in Strassen's kernels): ResNet-50, BERT-base, InceptionV3,
EfficientNetV2, ViT-tiny and MobileNetV2 are as fast without it, to 1 % (AVX512).

The machine combiner adds up integers in another order, so that fewer wait for one another: ``(a + b) + (c + d)``. Tiles
have sums enough beside each other, and hold all registers: where products are added to them one by one, the others'
order spills (8 of 104 instructions of a word of 4-bit weights for a tile of 4 rows). Networks in fp32 are as fast or
faster (AVX2, one thread, before and now, among other changes: MobileNetV2 8.6 and 8.3 ms, ShuffleNetV2 5.5 and 5.4,
ResNet-18 22.0 and 21.9)."""
LOCK = threading.RLock()
"""Held around everything that touches LLVM's shared state, and by a thread that forks: nobody is in LLVM then."""
_ENTRY = re.compile(rf"^(define\b[^@\n]*@){ENTRY}\(", re.MULTILINE)
_COUNTER = itertools.count()
_OWN = threading.local()
"""The code generator of a thread that compiles beside others."""
_READ_ONLY = ("r-xp", "r--p")
_RELEASE_SHARE = 0.02
"""The share of a process's time, at most, that goes into giving back LLVM's memory after one plan of many."""


class _Releases:
    """When memory is given back: every time would take longer than what most further plans compile."""

    next = 0.0
    """The time from which on it is worth its time again."""
    owed = False
    """Whether something was compiled, or loaded, since it was given back."""


def _llvmlite_lock() -> Any:
    """llvmlite's own, which it holds while it is in LLVM; None where it is not loaded, or has none like it."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    found = getattr(library, "_lock", None)
    return found if hasattr(getattr(found, "_lock", None), "acquire") else None


def _before_fork() -> None:
    held, other = [LOCK], _llvmlite_lock()
    if other is not None:
        held.append(other._lock)
    _OWN.held = [lock for lock in held if lock.acquire(timeout=PATIENCE)]


def _after_fork_in_parent() -> None:
    for lock in _OWN.__dict__.pop("held", ()):
        lock.release()


def _after_fork() -> None:
    """What could not be had before is made anew: a thread that is not there holds it."""
    global LOCK
    held, other = _OWN.__dict__.get("held", ()), _llvmlite_lock()
    _after_fork_in_parent()
    if LOCK not in held:
        LOCK = threading.RLock()
    if other is not None and other._lock not in held:
        other._lock = threading.RLock()


when_forked(_after_fork, before=_before_fork, after_in_parent=_after_fork_in_parent)


def _set_options(triple: str) -> None:
    """Options hold for all that the process compiles: one that never compiles for x86 has none of x86's."""
    if triple.startswith("x86_64"):
        _leave_out()


@functools.cache
def _leave_out() -> None:
    import llvmlite.binding as llvm

    for option in _LEFT_OUT:
        llvm.set_option("", option)


@functools.cache
def _initialize(native: bool) -> None:
    import llvmlite.binding as llvm

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
    import llvmlite.binding as llvm

    _initialize(True)
    _set_options(triple)
    if triple.split("-")[0] != llvm.get_process_triple().split("-")[0]:
        _initialize(False)
    found = llvm.Target.from_triple(triple)
    return found.create_target_machine(cpu, features, CODEGEN_LEVEL, reloc="pic", codemodel="small", jit=True)


def machine(target: Target) -> llvm.TargetMachine:
    """LLVM's code generator for a target; made once."""
    return _machine(target.triple, target.cpu, target.feature_string)


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
    import llvmlite.binding as llvm

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


def inlined(ir: str, target: Target) -> str:
    """A module with its functions marked ``alwaysinline`` in those that call them, and tidied up: for code that is
    written as many small functions."""
    import llvmlite.binding as llvm

    with LOCK:
        module = optimize(ir, target, shaped=True)
        builder = llvm.create_pass_builder(machine(target), llvm.create_pipeline_tuning_options(speed_level=2))
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, builder)
        return str(module)


def compile_object(ir: str, target: Target, shaped: bool = False) -> bytes:
    """A relocatable object of the module, in the target's native format."""
    with LOCK:
        data: bytes = machine(target).emit_object(optimize(ir, target, shaped))
        return data


def compile_in_thread(ir: str, target: Target, shaped: bool = False) -> bytes:
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
    import llvmlite.binding as llvm

    del process  # a forked child gets its own
    _initialize(True)
    _set_options(triple)
    tm = llvm.Target.from_triple(triple).create_target_machine(
        cpu, features, CODEGEN_LEVEL, reloc="pic", codemodel="small", jit=True
    )
    return llvm.create_lljit_compiler(tm, use_jit_link=os.name != "nt", suppress_errors=False)


def link(objects: Mapping[str, bytes], target: Target) -> dict[str, int]:
    """Loads objects, each defining the symbol it is listed under; gives addresses, valid for the process's life."""
    if not objects:
        return {}
    placed = loader.place(objects)
    if placed is not None:
        return placed
    import llvmlite.binding as llvm

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


def release_memory_sometimes() -> None:
    """As :func:`release_memory`, unless that was done a moment ago: then it is left to :func:`release_rest`, or to the
    next time. It takes as long as compiling several small kernels, and once more when LLVM is needed again."""
    _Releases.owed = True
    if time.monotonic() < _Releases.next:
        return
    begin = time.thread_time()
    release_memory()
    _Releases.next = time.monotonic() + (time.thread_time() - begin) / _RELEASE_SHARE


def release_rest() -> None:
    """Gives back what :func:`release_memory_sometimes` has left, and what was freed since."""
    if _Releases.owed:
        release_memory()
    else:
        trim()


def release_memory() -> None:
    """Gives back the memory of shared libraries that is as it is in their files, and what LLVM has freed (Linux only).

    After compiling, most of it is LLVM's code and tables, which stay idle; of others the same goes for what only their
    start needed. Whatever is needed again is read again, mostly from memory.
    """
    _Releases.owed = False
    if not sys.platform.startswith("linux") or "llvmlite.binding" not in sys.modules:
        return
    libc = ctypes.CDLL(None)
    try:
        maps = [line.split(maxsplit=5) for line in _about_memory("maps").split("\n")]
        held = {words[5] for words in maps if len(words) == 6 and ".so" in words[5] and _stays(words[5])}
        parts = list(_unchanged(_about_memory("smaps")))
    except OSError:  # no /proc here, or no more files may be opened
        held, parts = set(), []
    for path, begin, end in parts:
        if path in held:
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)
    trim()


def _about_memory(name: str) -> str:
    """A file of /proc/self that names other files, as any of them may be called."""
    return os.fsdecode(pathlib.Path("/proc/self", name).read_bytes())


@functools.cache
def _stays(path: str) -> bool:
    """Sees to it that a library which is loaded stays so, for nothing else may come to lie in its place meanwhile."""
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _unchanged(smaps: str) -> Iterator[tuple[str, int, int]]:
    """Files, and from where to where they lie in memory that holds nothing but their pages: none that the loader has
    filled addresses in, or a debugger breakpoints. ``smaps`` is the text of /proc/self/smaps."""
    path = place = ""
    for line in smaps.rstrip("\n").split("\n"):  # names may have what else ends a line
        words = line.split(maxsplit=5)
        if "-" in words[0]:
            place, path = words[0], words[5] if len(words) == 6 and words[1] in _READ_ONLY else ""
        elif path and words[0] == "Anonymous:":
            if words[1] == "0":
                begin, end = place.split("-")
                yield path, int(begin, 16), int(end, 16)
            path = ""


def trim() -> None:
    """Gives back memory that was freed but kept for later by the C library, where that has a way to (glibc)."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if function is not None:
        function(ctypes.c_size_t(0))
