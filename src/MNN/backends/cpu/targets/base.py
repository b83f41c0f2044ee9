"""What generators need to know about a processor: its registers, lanes and throughput, and its features for LLVM.

Targets are chosen by features, never by a processor's name: the name may be masked or wrong in a virtual machine.
A family (one file per family in this package) registers its targets here.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import platform
from collections.abc import Callable, Iterable, Mapping

from MNN.backends.cpu.targets import emulation
from MNN.backends.cpu.targets.host import processor
from MNN.backends.cpu.targets.instructions.base import Instruction
from MNN.backends.cpu.targets.instructions.capability import ARITHMETIC_F16, Capability
from MNN.backends.cpu.targets.instructions.table import find
from MNN.discovery import import_modules
from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType


@dataclasses.dataclass(frozen=True)
class Target:
    """A processor as code generators see it.

    ``features`` are LLVM feature names without ``+``. Throughput numbers (``fma_per_cycle``, ``loads_per_cycle`` in
    full vectors, ``fma_latency`` in cycles, what adders and split vectors do to them) and cache sizes feed cost models
    only; they never change the code that a given spec produces, and so are not part of :meth:`key`.
    """

    name: str
    family: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    """What kernels are chosen by."""
    vector_bytes: int
    vector_registers: int
    general_registers: int
    has_fma: bool
    has_masks: bool
    """Masked vector loads and stores are single instructions for every element size."""
    broadcast_operand: bool
    """An FMA can take a scalar from memory, broadcast, as its operand (AVX512)."""
    lane_operand: bool
    """An FMA can take one lane of a register, broadcast, as its operand (NEON)."""
    tune: str = ""
    """The processor whose pipeline LLVM orders instructions for, by LLVM's name; empty: that of ``cpu``."""
    tune_switches: tuple[str, ...] = ()
    """How LLVM should pick instructions, as its names of switches with ``+`` or ``-``: nothing that a processor has or
    lacks."""
    fetches_ahead: bool = False
    """The processor brings streams of whole lines from far away in time, so that kernels need not ask for them."""
    asks_in_vain: bool = False
    """Asking for a line of weights time and again costs more than is gained (196 rows, depth 1024, 512 columns: 31
    GFLOP/s, not asked for 38; Strassen's 22 and 40; with 12 rows, asked for once 36, not at all 32)."""
    fma_per_cycle: float = 2.0
    loads_per_cycle: float = 2.0
    fma_latency: int = 4
    separate_adders: bool = False
    """Additions do not take the units that FMAs need."""
    split_vectors: bool = False
    """A full vector takes two passes, so that half of one costs half."""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    emulated: tuple[str, ...] = ()
    """Features that the processor lacks: plain code stands in for their instructions
    (:mod:`MNN.backends.cpu.targets.emulation`)."""

    def lanes(self, dtype: DType) -> int:
        """Elements of ``dtype`` in one vector register."""
        return max(1, self.vector_bytes // dtype.size)

    def narrowed(self) -> Target:
        """The same processor with vectors of half the width, of which it takes twice as many a cycle."""
        return self._narrowed

    @functools.cached_property
    def _narrowed(self) -> Target:
        rate = self.fma_per_cycle * 2
        return dataclasses.replace(self, vector_bytes=self.vector_bytes // 2, split_vectors=False, fma_per_cycle=rate)

    def has(self, feature: str) -> bool:
        """For the files of families; kernels ask :meth:`can`."""
        return feature in self.features

    def can(self, does: Capability, bits: int | None = None) -> bool:
        """Whether the processor does something with vectors of ``bits`` (the target's own width), be it emulated."""
        return self.instruction(does, bits) is not None

    def has_instruction(self, does: Capability, bits: int | None = None) -> bool:
        """Whether the processor itself does it."""
        found = self.instruction(does, bits)
        return found is not None and found.is_there(self.instructions)

    def instruction(self, does: Capability, bits: int | None = None) -> Instruction | None:
        """How it is done; None where it cannot be."""
        return find(self._feature_set, does, self.vector_bytes * 8 if bits is None else bits)

    @functools.cached_property
    def _feature_set(self) -> frozenset[str]:
        return frozenset(self.features)

    @property
    def multiplies_f16(self) -> bool:
        """Whether vectors of f16 are multiplied and added as such."""
        return self.lane_operand and self.can(ARITHMETIC_F16)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The features whose instructions the processor has."""
        return tuple(f for f in self.features if f not in self.emulated) if self.emulated else self.features

    @property
    def feature_string(self) -> str:
        """Features and switches as LLVM takes them: ``+avx2,+fma``."""
        return ",".join([*["+" + f for f in self.instructions], *self.tune_switches])

    def key(self) -> str:
        """A text that is equal exactly for targets that get the same code."""
        code = (
            self.name,
            self.triple,
            self.cpu,
            self.feature_string,
            self.vector_bytes,
            self.vector_registers,
            self.tune,
            self.fetches_ahead,
            self.asks_in_vain,
            *self.emulated,
        )
        return "|".join(map(str, code))


@dataclasses.dataclass(frozen=True)
class Family:
    """One processor family: its targets by name, weakest first, and the choice for given host features."""

    name: str
    machines: tuple[str, ...]
    """What ``platform.machine()`` says, lower case."""
    targets: Mapping[str, Target]
    choose: Callable[[frozenset[str], str | None], Target | None]
    """From the features found and an optional upper bound (a target's name) to the target; None when too weak."""
    granted: Callable[[frozenset[str]], frozenset[str]] = lambda found: found
    """Of the features found on this machine, those that this process may use; asks the system where that is needed."""


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> None:
    """Called by each family's file when it is imported."""
    _FAMILIES[family.name] = family


@functools.cache
def families() -> Mapping[str, Family]:
    """All families, found by importing every file of this package."""
    for _ in import_modules(__package__):
        pass
    return _FAMILIES


_VECTORS = ("avx", "amx", "fma", "neon", "dotprod", "fullfp16", "bf16", "i8mm")
"""How the names of features that are worth showing begin."""


def vector_features(features: Iterable[str]) -> list[str]:
    """Those that say what is done with vectors."""
    return [f for f in features if f.startswith(_VECTORS)]


def target_names() -> list[str]:
    return [name for family in families().values() for name in family.targets]


def named_target(name: str) -> Target:
    """The target of this name with the least features it may have. Raises ``UnsupportedError`` for unknown names."""
    for family in families().values():
        if name in family.targets:
            return family.targets[name]
    raise UnsupportedError(f"unknown target '{name}'; known targets: {', '.join(target_names())}")


def host_target() -> Target:
    """The best target for this machine; the environment variable ``MNN_TARGET`` lowers it, for example ``avx2``, or
    ``avx512,-amx-tile`` to do without a feature, or lends it one by emulation: ``avx512,+amx-tile,+amx-bf16``. Whatever
    else the target needs is then emulated, too.

    Raises ``UnsupportedError`` when the machine is of no known family, is too weak, or ``MNN_TARGET`` names something
    that this machine cannot run.
    """
    return _host_target(os.environ.get("MNN_TARGET") or None)


@functools.cache
def _host_target(given: str | None) -> Target:
    machine = platform.machine().lower()
    family = next((f for f in families().values() if machine in f.machines), None)
    if family is None:
        known = ", ".join(m for f in families().values() for m in f.machines)
        raise UnsupportedError(f"no code generator for the processor '{machine}'; known: {known}")
    bound, *changes = (given or "").split(",")
    if given and not (bound in family.targets and all(f.startswith(("-", "+")) for f in changes)):
        names = ", ".join(family.targets)
        raise UnsupportedError(
            f"MNN_TARGET is '{given}', which is no target of this machine; use one of {names}, if need be with "
            "features to do without, such as 'avx512,-amx-tile', or to emulate, such as 'avx512,+avx512vnni'"
        )
    features, triple = processor()
    found = family.granted(features)
    without, lent = ([f[1:] for f in changes if f.startswith(sign)] for sign in "-+")
    absent = [feature for feature in without if feature not in found]
    if absent:  # a wrong name would go unnoticed
        raise UnsupportedError(f"MNN_TARGET is '{given}', but this machine has no {', '.join(absent)} to do without")
    strange = [feature for feature in lent if feature not in emulation.FEATURES]
    if strange:
        known = ", ".join(sorted(emulation.FEATURES))
        raise UnsupportedError(f"MNN_TARGET is '{given}', but {', '.join(strange)} cannot be emulated; known: {known}")
    found -= set(without)
    own = emulation.FEATURES.intersection(family.targets[bound].features) if lent else frozenset[str]()
    emulated = own.union(lent) - found
    found |= emulated
    target = family.choose(found, bound or None)
    if target is None:
        need = bound or next(iter(family.targets))
        missing = sorted(set(family.targets[need].features) - found)
        raise UnsupportedError(f"target '{need}' needs processor features that this machine lacks: {missing}")
    if "windows" in triple:  # LLVM's in-memory loader reads ELF objects on Windows, not COFF
        triple += "-elf"
    l1, l2 = _cache_sizes(target)
    lacking = tuple(sorted(emulated.intersection(target.features)))
    return dataclasses.replace(target, triple=triple, l1_bytes=l1, l2_bytes=l2, emulated=lacking)


def _cache_sizes(target: Target) -> tuple[int, int]:
    """Bytes of the first core's L1 data and L2 cache as Linux tells them, else the target's defaults."""
    sizes = {1: target.l1_bytes, 2: target.l2_bytes}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
            if level in sizes and (index / "type").read_text().strip() != "Instruction":
                sizes[level] = int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)
        except (OSError, ValueError):  # not every kernel or container shows these files; the defaults hold
            continue
    return sizes[1], sizes[2]
