"""``mnn bench --asm``: the code of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.program import Command
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import CodeRange, Listing, examine
from MNN.backends.cpu.targets.base import host_target
from MNN.cli.display.output import console
from MNN.cli.measuring.measure import Job, first_run, prepare
from MNN.errors import MNNError
from MNN.formatting import plural
from MNN.runtime.profile.profiler import details, kernel_kind
from MNN.runtime.session import Session

_LISTED = 12
SHOWN = 120
"""Instructions of a hot loop that are shown apart from the whole listing."""


@dataclass(frozen=True)
class Found:
    """A kernel of a program, and the first command (its number in a profile) that uses it."""

    number: int
    command: Command
    spec: KernelSpec
    uses: int

    def name(self) -> str:
        kind = type(self.spec).__name__.removesuffix("Spec").lower()
        return f"{kind} {details(self.spec)}".strip()


def show_kernels(job: Job, wanted: str) -> None:
    """Prints the kernel that ``wanted`` means: IR, assembly, and what it consists of."""
    opened, feeds = prepare(job)
    first_run(job, opened.session, feeds)
    chosen = _choose(kernels_of(opened.session), wanted)
    target, screen = host_target(), console()
    for found in chosen:
        text = found.spec.emit(target)
        code = toolchain.assembly(text, target, shaped=found.spec.shaped)
        others = f", and {plural(found.uses - 1, 'more command')}" if found.uses > 1 else ""
        print(f"; {found.name()}")
        print(f"; command {found.number}, {found.command.origin}{others}")
        print(f"; {found.spec.key()}")
        print("\n; ---- LLVM IR\n")
        print(text)
        print("; ---- assembly\n")
        print(code)
        listing = examine(code, target.family)
        screen.print(mix_table(listing, found.name()))
        if listing.hot is not None:
            _print_hot(code, listing.hot)


def kernels_of(session: Session) -> list[Found]:
    """Every kernel of the session's last run, once each, under the number of the first command that uses it."""
    commands = [
        c for p in session.plans_used() for part in p.bound.parts() for c in part.program.commands
    ]  # fmt: skip
    first: dict[str, Found] = {}
    for number, command in enumerate(commands):
        for spec in command.kernels():
            old = first.get(spec.key())
            start = (number, command) if old is None else (old.number, old.command)
            first[spec.key()] = Found(*start, spec, 1 if old is None else old.uses + 1)
    numbered = [
        Found(n, c, spec, first[spec.key()].uses)
        for n, c in enumerate(commands)
        for spec in c.kernels()
        if first[spec.key()].number != n
    ]
    return [*first.values(), *numbered]


def _choose(kernels: list[Found], wanted: str) -> list[Found]:
    """By number: the kernels of that command. By text: the one kernel whose name, spec or node holds it."""
    if wanted.isdecimal():
        chosen = [k for k in kernels if k.number == int(wanted)]
        if not chosen:
            last = max((k.number for k in kernels), default=0)
            raise MNNError(f"--asm {wanted}: no command of that number has a kernel; --profile has them up to {last}")
        return chosen
    fitting: dict[str, Found] = {}
    for k in kernels:
        kind = kernel_kind(k.command)
        if any(wanted.lower() in text.lower() for text in (k.name(), k.spec.key(), k.command.origin, kind)):
            fitting.setdefault(k.spec.key(), k)
    if len(fitting) == 1:
        return list(fitting.values())
    some = list(fitting.values()) or list({k.spec.key(): k for k in kernels}.values())
    lines = [f"  {k.number}: {k.name()}, {k.command.origin}" for k in some[:_LISTED]]
    more = [f"  and {len(some) - _LISTED} more"] if len(some) > _LISTED else []
    how = "several kernels have" if fitting else "no kernel has"
    first = f"--asm {wanted}: {how} this in name, spec or node; choose one by number:"
    raise MNNError("\n".join([first, *lines, *more]))


def mix_table(listing: Listing, title: str) -> Table:
    """How many instructions of each kind there are, in all and in the hottest loop, and the spills."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("instructions")
    table.add_column("whole kernel", justify="right")
    table.add_column("hottest loop", justify="right")
    parts = [listing.whole, listing.hot]

    def row(name: str, count: Callable[[CodeRange], int], last: bool = False) -> None:
        table.add_row(name, *("-" if p is None else str(count(p)) for p in parts), end_section=last)

    for kind in listing.whole.kinds:
        row(kind, lambda p, kind=kind: p.kinds.get(kind, 0))  # type: ignore[misc]
    row("all", lambda p: p.count, last=True)
    row("vector registers spilled or reloaded", lambda p: p.vector_spills)
    row("general registers spilled or reloaded", lambda p: p.general_spills)
    return table


def _print_hot(code: str, hot: CodeRange) -> None:
    lines = code.splitlines()
    print(f"; ---- hottest loop, from line {hot.lines[0] + 1} of the assembly on\n")
    print("\n".join(lines[n] for n in hot.lines[:SHOWN]))
    if len(hot.lines) > SHOWN:
        print(f"; ... {len(hot.lines) - SHOWN} more instructions")
