"""What this processor can do at most, measured once with generated kernels (see :mod:`MNN.backends.base.machine`)."""

from __future__ import annotations

import pathlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.host_memory import machine_memory
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.machine import LEVELS, Machine, Rates
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.measuring.probe import MeetSpec, ProductSpec, ReadSpec, products
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.pool import available_threads
from MNN.backends.cpu.targets.base import Target
from MNN.cache.notes import note_key, read_note, write_note
from MNN.formatting import plural

VERSION = 2
"""Of what is measured and how; part of the note's name."""
_RUN_NS = 2e6
"""About how long one timed call takes: long against a call, short against the scheduler's slices."""
_TRIES = 8
_ROUNDS = 3
"""Everything is measured so many times, seconds apart: others may use the machine for a moment."""
_MOST_BYTES = 512 << 20
_SLEEP_S = 0.02
"""After this long all workers sleep."""


def machine_note(target: Target) -> str:
    """Where a machine's numbers are kept: it depends on the processor's features, caches and number of cores."""
    sizes = f"{target.l1_bytes} {target.l2_bytes} {l3_bytes()}"
    return note_key("machine", (str(VERSION), target.key(), sizes, str(available_threads()), _processor_name()))


def known_machine(target: Target) -> Machine | None:
    """This machine as it was measured before, None when it was not."""
    note = read_note(machine_note(target))
    return None if note is None else _from_note(note)


def measure_machine(target: Target, report_progress: Callable[[str], None] = lambda text: None) -> Machine:
    """Measures this machine (a few seconds) and remembers the result. Nothing else should be running."""
    cores = available_threads()
    sizes = {"L1": target.l1_bytes, "L2": target.l2_bytes} | ({"L3": l3_bytes()} if l3_bytes() else {})
    library = Library(target)
    counts = sorted({1, cores})
    rounds = [[_rates(library, n, sizes, report_progress) for n in counts] for _ in range(_ROUNDS)]
    best = [_highest(found) for found in zip(*rounds, strict=True)]
    report_progress("waking workers")
    wake, spinning = (0.0, 0.0) if cores == 1 else _waking(library, cores)
    found = Machine(_processor_name(), target.name, target.features, cores, sizes, best[0], best[-1], wake, spinning)
    write_note(machine_note(target), asdict(found))
    return found


def higher(target: Target, one: Machine, other: Machine) -> Machine:
    """The same machine measured twice: the higher rates count, as something else may run at any time. Remembered."""
    found = replace(one, one=_highest([one.one, other.one]), all=_highest([one.all, other.all]))
    write_note(machine_note(target), asdict(found))
    return found


def _from_note(note: Mapping[str, Any]) -> Machine | None:
    try:
        fields = dict(note)
        fields["features"] = tuple(fields["features"])
        fields["one"], fields["all"] = Rates(**fields["one"]), Rates(**fields["all"])
        return Machine(**fields)
    except (KeyError, TypeError):  # of another version of this class
        return None


def _rates(library: Library, threads: int, sizes: Mapping[str, int], report_progress: Callable[[str], None]) -> Rates:
    target, label = library.target, plural(threads, "thread")
    compute, read = {}, {}
    for name, kind in products(target).items():
        report_progress(f"{label}: {name} products")
        spec = ProductSpec(name)
        per_turn = spec.steps(target) * kind.operations
        data = aligned_bytes(4 * target.vector_bytes, zero=True)
        best = _best(library, spec, {"data": data.ctypes.data}, "n", threads, data)
        compute[name] = best * per_turn * threads
    for level in LEVELS:
        amount = _amount(level, sizes, threads, ReadSpec.unit(target))
        if amount:
            report_progress(f"{label}: reading {level}")
            data = aligned_bytes(threads * amount, 4096)
            data[:] = 1  # every page its own: pages that were never written are all the same one
            args = {"data": data.ctypes.data, "region": amount, "bytes": amount}
            read[level] = _best(library, ReadSpec(), args, "repeat", threads, data) * amount * threads
    return Rates(threads, compute, read)


def _highest(found: Sequence[Rates]) -> Rates:
    compute = {k: max(r.compute[k] for r in found) for k in found[0].compute}
    return Rates(found[0].threads, compute, {k: max(r.read[k] for r in found) for k in found[0].read})


def _amount(level: str, sizes: Mapping[str, int], threads: int, unit: int) -> int:
    """Bytes that each thread reads so that they come from this level; 0 when there is no such level."""
    if level in ("L1", "L2"):
        wanted = sizes[level] // 2
    elif level == "L3":
        wanted = min(sizes.get("L3", 0) // 2 // available_threads(), 8 * sizes["L2"])
        if wanted < 2 * sizes["L2"]:  # what the second level holds of it would count
            wanted = 0
    else:
        wanted = min(max(4 * sizes.get("L3", sizes["L2"]), 64 << 20), _MOST_BYTES, machine_memory() // 8) // threads
    return wanted // unit * unit


def _program(library: Library, spec: KernelSpec, args: Mapping[str, int], threads: int, keep: object) -> NativeProgram:
    address = library.load([spec])[0]
    values = [args.get(slot, 1) for slot in spec.slots()]
    scratch = spec.scratch(library.target, args)
    return NativeProgram([Command(address, values, threads, 1, type(spec).__name__)], scratch_bytes=scratch, keep=keep)


def _best(
    library: Library, spec: KernelSpec, args: Mapping[str, int], counter: str, threads: int, keep: object
) -> float:
    """The highest rate seen, in counts of ``counter`` per nanosecond and thread, one block per thread."""
    program = _program(library, spec, args, threads, keep)
    slot = spec.slots().index(counter)
    count, spent = 1, 0.0
    while True:
        program.args(0)[slot] = count
        spent = float(program.profile(threads)[0])
        if spent >= _RUN_NS / 4 or count >= 1 << 30:
            break
        count = max(2 * count, int(count * _RUN_NS / max(spent, 1e3)))
    return count / min(float(program.profile(threads)[0]) for _ in range(_TRIES))


def _waking(library: Library, threads: int) -> tuple[float, float]:
    """Microseconds (medians) until all threads have met in a command: with workers asleep, and with them spinning."""
    counter = aligned_bytes(64, zero=True)
    program = _program(library, MeetSpec(), {"counter": counter.ctypes.data, "patience": 1 << 18}, threads, counter)
    wanted = MeetSpec().slots().index("wanted")

    def meet() -> float:
        program.args(0)[wanted] += threads
        return float(program.profile(threads)[0]) / 1e3

    program.args(0)[wanted] = 0
    meet()
    spinning = sorted(meet() for _ in range(41))
    asleep = []
    for _ in range(15):
        time.sleep(_SLEEP_S)
        asleep.append(meet())
    return sorted(asleep)[len(asleep) // 2], spinning[len(spinning) // 2]


def l3_bytes() -> int:
    """Bytes of the third-level cache as Linux tells them, 0 when it does not or there is none."""
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "level").read_text().strip() == "3":
                text = (index / "size").read_text().strip()
                return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)
        except (OSError, ValueError):  # not every kernel or container shows these files
            continue
    return 0


def _processor_name() -> str:
    """What the processor calls itself; for people, and to tell apart machines that look alike."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))), "")
    return found or platform.processor() or platform.machine()
