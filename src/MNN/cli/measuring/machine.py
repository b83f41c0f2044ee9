"""``mnn bench --machine``: what this machine can do at most."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from MNN.backends.base.machine import LEVELS, Machine
from MNN.backends.cpu.measuring.machine import higher, known_machine, measure_machine
from MNN.backends.cpu.targets.base import host_target, vector_features
from MNN.cache.entries import Cache
from MNN.cli.display.output import console, progress_console
from MNN.formatting import plural


def show_machine(cache: bool) -> Machine:
    """Measures anew, prints and remembers it."""
    if not cache:
        Cache.switch_off()
    found = _measured()
    screen = console()
    features = ", ".join(vector_features(found.features))
    caches = ", ".join(f"{level} {_size(size)}" for level, size in found.sizes.items())
    screen.print(
        f"[bold]{escape(found.name)}[/], {plural(found.cores, 'core')}, target {found.target}", highlight=False
    )
    screen.print(f"{escape(features or 'no vector features')}; {caches}", highlight=False)
    screen.print(_table(found))
    return found


def machine_for_profiles(cache: bool) -> Machine:
    """What is remembered of this machine; measured now if nothing is."""
    if not cache:
        Cache.switch_off()
    return known_machine(host_target()) or _measured()


def measured_again(before: Machine) -> Machine:
    """The higher rates of those ``before`` and of new ones."""
    return higher(host_target(), before, _measured())


def _measured() -> Machine:
    with progress_console().status("measuring this machine") as status:
        return measure_machine(host_target(), lambda text: status.update(f"measuring this machine: {text}"))


def _table(found: Machine) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("at most")
    both = [found.one] if found.cores == 1 else [found.one, found.all]
    for rates in both:
        table.add_column(plural(rates.threads, "thread"), justify="right")
    for kind in found.one.compute:
        unit = "GOP/s" if kind == "int8" else "GFLOP/s"
        table.add_row(f"{kind} multiply-adds", *(f"{r.compute[kind]:,.0f} {unit}" for r in both))
    for level in LEVELS:
        if level in found.one.read:
            table.add_row(f"reading {level}", *(f"{r.read[level]:,.1f} GB/s" for r in both))
    if found.cores > 1:
        table.add_row("sharing a command, workers awake", "", f"{found.spinning_us:.2f} us")
        table.add_row("sharing a command, workers asleep", "", f"{found.wake_us:.0f} us")
    return table


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
