"""Where the time of an inference goes: every command timed in place, with its bytes, its bound and why it is there."""

from __future__ import annotations

import dataclasses
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.backends.base.backend import TimedBound
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.machine import Machine, Span
from MNN.backends.base.program import Buffer, Command, Program, Ref
from MNN.errors import RunError
from MNN.ir.dtype import DType
from MNN.progress import ReportProgress, silent
from MNN.runtime.profile.roofline import Access, bound, sources
from MNN.runtime.session import Session

WARM_UP = 3
_FEWER = ("Winograd", "Strassen", "inner products")
_FEWER_KERNELS = ("winograd", "strassen", "inner")
"""How algorithms and kernels are called that need fewer multiplications than the plain method, whose are counted."""
_SURE_NS = 2000
_OFF = 1.02
"""Commands from this time on are measured to this factor."""
_APART = 1 << 44
"""Distance between blocks of memory in the address space of the cache model."""


@dataclass(frozen=True)
class CommandProfile:
    """A command, in all slices of a batch that is cut into some. Times in nanoseconds over the runs, of one thread
    where several are at different commands; ``share`` of the sum of the commands' minima.

    ``bytes`` of all operands, each byte once in a slice; ``exact`` where the kernel says so itself, else the operands'
    whole buffers are counted. ``levels``: where these bytes come from (see :mod:`MNN.runtime.profile.roofline`).
    ``bound_ns``: the minimum time on this machine, set by ``bound_by``; None when it was never measured."""

    number: int
    stage: int
    origin: str
    operator: str
    kernel: str
    detail: str
    min_ns: float
    median_ns: float
    share: float
    flops: int
    bytes: int
    exact: bool
    blocks: int
    threads: int
    arithmetic: str
    levels: Mapping[str, int]
    bound_ns: float | None
    bound_by: str
    signature: str
    algorithm: str
    reason: str
    rejected: tuple[str, ...]

    @property
    def gflops(self) -> float:
        """1e9 operations a second at the minimum."""
        return self.flops / self.min_ns if self.min_ns else 0.0

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def roofline(self) -> float | None:
        """The bound as a part of the minimum: 1 means as fast as this machine can. None where it is unknown: it was
        not measured, or would be above 1, as for algorithms that do with fewer operations than are counted."""
        if self.bound_ns is None or not self.min_ns or self.bound_ns > self.min_ns:
            return None
        return self.bound_ns / self.min_ns

    @property
    def impossible(self) -> bool:
        """Whether it was faster than the machine can be, by more than clocks are off, though it does all operations
        that are counted: the machine was measured while it did other things."""
        if self.bound_ns is None or self.min_ns < _SURE_NS or self.algorithm.startswith(_FEWER):
            return False
        return self.bound_ns > _OFF * self.min_ns and not any(name in self.kernel for name in _FEWER_KERNELS)


@dataclass(frozen=True)
class Block:
    """A piece of a stage's arena: its bytes, the commands ``first`` to ``last`` that need it, and who fills it."""

    stage: int
    offset: int
    nbytes: int
    first: int
    last: int
    origin: str


@dataclass(frozen=True)
class Profile:
    """A profile of one model with one setting. Times in nanoseconds.

    ``sum_ns``: the minimum sum of all commands in one run. ``native_ns``: the minimum time of the same commands without
    clocks. ``api_ns``: the minimum time of a whole call from Python, which copies inputs and outputs besides.
    """

    threads: int
    precision: str
    runs: int
    commands: list[CommandProfile]
    sum_ns: float
    native_ns: float
    api_ns: float
    api_median_ns: float
    arena_bytes: tuple[int, ...]
    blocks: list[Block]
    spans: list[Span] = field(default_factory=list)
    """Of the stage that takes longest, one slice of a batch that is cut into some; empty unless asked for."""


def profile(
    session: Session,
    feeds: Mapping[str, np.ndarray],
    runs: int,
    machine: Machine | None = None,
    traced: bool = False,
    report_progress: ReportProgress = silent,
) -> Profile:
    """Runs the session ``runs`` times in three ways, turn by turn: whole calls, native calls, and with clocks.

    Raises :class:`RunError` when nothing of the model is computed by kernels.
    """
    threads = session.config.threads
    for _ in range(WARM_UP):
        session.run(feeds)
    plans = session.plans_used()
    stages = [part for p in plans for part in p.bound.parts() if part.program.commands]
    if not stages:
        raise RunError("no part of this model is computed by kernels, so that there is nothing to profile")
    api: list[float] = []
    native: list[float] = []
    times: list[np.ndarray] = []
    for turn in range(runs):
        report_progress("profiling", turn, runs)
        begin = time.perf_counter_ns()
        session.run(feeds)
        api.append(time.perf_counter_ns() - begin)
        native.append(sum(_timed(s, threads) for s in stages))
        times.append(np.concatenate([s.profile(threads) for s in stages]))
    measured = np.stack(times)
    commands = _commands(stages, measured, threads, machine)
    spans: list[Span] = []
    if traced:
        longest = max(range(len(stages)), key=lambda i: sum(c.min_ns for c in commands if c.stage == i))
        first = next(c.number for c in commands if c.stage == longest)
        spans = [dataclasses.replace(s, command=s.command + first) for s in stages[longest].trace(threads)]
    return Profile(
        threads=threads,
        precision=session.config.precision,
        runs=runs,
        commands=commands,
        sum_ns=float(measured.sum(axis=1).min()),
        native_ns=min(native),
        api_ns=min(api),
        api_median_ns=statistics.median(api),
        arena_bytes=tuple(s.program.arena_bytes for s in stages),
        blocks=[b for i, s in enumerate(stages) for b in _memory(s.program, i)],
        spans=spans,
    )


def _timed(stage: TimedBound, threads: int) -> float:
    begin = time.perf_counter_ns()
    stage.compute(threads)
    return time.perf_counter_ns() - begin


def _commands(
    stages: Sequence[TimedBound], times: np.ndarray, threads: int, machine: Machine | None
) -> list[CommandProfile]:
    steps = [(i, c) for i, s in enumerate(stages) for c in s.program.commands]
    sizes = [s.program.slice_bytes() for s in stages]
    touched = [touched_by(c, s, sizes[s]) for s, c in steps]
    levels: list[dict[str, int]] = [{} for _ in steps]
    if machine is not None:
        alone = any(s.program.slices is not None for s in stages)  # every thread has its own
        levels = sources([accesses for accesses, _ in touched], machine, 1 if alone else threads)
    least, middle = times.min(axis=0), np.median(times, axis=0)
    total = float(least.sum()) or 1.0
    found: list[CommandProfile] = []
    for number, (stage, c) in enumerate(steps):
        slices = stages[stage].program.slices
        again, shares = (1, -(-c.blocks // c.grain)) if slices is None else (slices.count, slices.hands)
        hands = max(1, min(threads, shares))
        kind = stages[stage].arithmetic(c)
        flops, origins = again * c.flops, {name: again * nbytes for name, nbytes in levels[number].items()}
        limit = None
        if machine is not None and c.kernel is not None:
            limit = bound(flops, kind, origins, machine.rates(hands))
        accesses, exact = touched[number]
        choice = c.choices[0] if c.choices else None
        around = [f"{o.name}: {o.reason}" for o in c.choices[1:]]
        found.append(
            CommandProfile(
                number=number,
                stage=stage,
                origin=c.origin,
                operator=operator_of(c.origin),
                kernel=kernel_kind(c),
                detail=details(c.kernel) if c.kernel is not None else "numpy",
                min_ns=float(least[number]),
                median_ns=float(middle[number]),
                share=float(least[number]) / total,
                flops=flops,
                bytes=again * sum(a.nbytes for a in accesses),
                exact=exact,
                blocks=again * c.blocks,
                threads=hands,
                arithmetic=kind,
                levels=origins,
                bound_ns=None if limit is None else limit.ns,
                bound_by="" if limit is None else limit.by,
                signature=choice.signature if choice else "",
                algorithm=choice.name if choice else "",
                reason="; in ".join([choice.reason, *around]) if choice else "",
                rejected=choice.rejected if choice else (),
            )
        )
    return found


def touched_by(command: Command, stage: int, sizes: Mapping[Buffer, int]) -> tuple[list[Access], bool]:
    """The memory that a command reads and writes, operand by operand, and whether its kernel said how much. ``sizes``:
    bytes of the buffers of which it sees a part only."""
    if command.stages:
        parts = [_chained(command, i, stage, sizes) for i in range(len(command.stages))]
        return [a for part in parts for a in part], False
    found: dict[str, int] | None = None
    refs = {slot: ref for slot, ref in command.args.items() if isinstance(ref, Ref) and ref.buffer.nbytes}
    if command.kernel is not None:
        found = command.kernel.traffic(command.values())
    if command.host is not None:
        located = (*command.host.inputs, *command.host.outputs)
        refs = {f"{i}": Ref(t.place.buffer, 0) for i, t in enumerate(located)}
    if found is None:  # the operands' whole buffers, tables left out
        kept = {s: r for s, r in refs.items() if not _is_table(r)}
        whole = {r.buffer: (s, sizes.get(r.buffer, r.buffer.nbytes) - r.offset) for s, r in kept.items()}
        found = dict(whole.values())
    return [Access(s, _start(refs[s], stage), n) for s, n in found.items() if s in refs], bool(command.kernel)


def _chained(command: Command, index: int, stage: int, sizes: Mapping[Buffer, int]) -> list[Access]:
    """Of a stage of a chain: what is patched moves on with every block, the rest is read once; local memory stays."""
    call = command.stages[index]
    inner = call.command
    accesses, _ = touched_by(inner, stage, sizes)
    moved = {patch.slot: patch.base for patch in call.patches}
    found: list[Access] = []
    for access in accesses:
        base = moved.get(access.slot, inner.args.get(access.slot))
        if isinstance(base, Ref):
            times = command.blocks if access.slot in moved else 1
            room = sizes.get(base.buffer, base.buffer.nbytes) - base.offset
            found.append(Access(access.slot, _start(base, stage), min(access.nbytes * times, room)))
    return found


def _is_table(ref: Ref) -> bool:
    return ref.buffer.const is not None and ref.buffer.const.dtype in (np.int32, np.int64)


def _start(ref: Ref, stage: int) -> int:
    buffer = ref.buffer
    if buffer.const is not None:
        return int(buffer.const.ctypes.data) + ref.offset
    return -(stage + 1) * _APART + buffer.offset + ref.offset


def _memory(program: Program, stage: int) -> list[Block]:
    life: dict[Buffer, list[int]] = {}
    filled: dict[Buffer, str] = {}
    for located in program.inputs:
        life[located.place.buffer] = [0, len(program.commands) - 1]
        filled[located.place.buffer] = "input"
    for index, command in enumerate(program.commands):
        for buffer in command.buffers():
            life.setdefault(buffer, [index, index])[1] = index
            filled.setdefault(buffer, command.origin)
    for located in program.outputs:
        if located.place.buffer in life:
            life[located.place.buffer][1] = len(program.commands) - 1
    return [
        Block(stage, b.offset, b.nbytes, first, last, filled[b])
        for b, (first, last) in life.items()
        if b.offset >= 0 and b.nbytes
    ]


def operator_of(origin: str) -> str:
    """``Convolution`` of the origin ``Convolution 'node'``; fused ones are kept: ``Convolution + UnaryOp``."""
    return re.sub(r" '[^']*'", "", origin) or "-"


def kernel_kind(command: Command) -> str:
    """``contract`` of a ``ContractSpec``; of a chain also what it runs; ``host`` for Python functions."""
    if command.kernel is None:
        return f"host {command.host.label}" if command.host is not None else "host"
    kind = type(command.kernel).__name__.removesuffix("Spec").lower()
    if command.stages:
        return f"{kind} {' + '.join(dict.fromkeys(kernel_kind(s.command) for s in command.stages))}"
    return kind


def details(spec: KernelSpec) -> str:
    """The fields of a spec that say most: numbers, names and element types other than f32; bodies are left out."""
    parts: list[str] = []
    for f in dataclasses.fields(spec):
        value = getattr(spec, f.name)
        if isinstance(value, DType):
            if value is not DType.F32:
                parts.append(f"{f.name}={value.value}")
        elif isinstance(value, (bool, int, str)) and value != f.default:
            parts.append(f"{f.name}={value}")
    return " ".join(parts)
