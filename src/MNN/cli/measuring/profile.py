"""``mnn bench --profile``: tables of a profile, and its JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from MNN.backends.base.machine import Machine
from MNN.cli.display.output import console, write_json
from MNN.cli.display.progress import progress
from MNN.cli.display.tables import add_row, number, show, words
from MNN.cli.measuring.machine import machine_for_profiles, measured_again
from MNN.cli.measuring.measure import Job, first_run, prepare
from MNN.formatting import plural
from MNN.runtime.profile.profiler import CommandProfile, Profile, profile

GROUPS = {"kernel": "by kernel", "operator": "by operator"}


def show_profiles(jobs: Sequence[Job], top: int, html: Path | None, out: Path | None) -> None:
    """Profiles in this process, one after the other; prints each, and writes the page and the JSON file if asked to."""
    machine = machine_for_profiles(jobs[0].cache)
    screen, found = console(), []
    for job in jobs:
        result = take_profile(job, machine, traced=html is not None)
        if any(c.impossible for c in result.commands):
            machine = measured_again(machine)
            result = take_profile(job, machine, traced=html is not None)
        print_profile(screen, job, result, top)
        found.append({"model": Path(job.model).name, "settings": asdict(job), **profile_dict(result)})
        if html is not None:
            from MNN.cli.report import write_report

            write_report(html, job, result, machine)
            screen.print(f"wrote {escape(str(html))}", highlight=False)
    if out is not None:
        write_json(out, {"machine": asdict(machine), "profiles": found})


def take_profile(job: Job, machine: Machine | None, traced: bool) -> Profile:
    """The profile of a job, in this process."""
    with progress(Path(job.model).name) as report_progress:
        report_progress("opening and compiling")
        opened, feeds = prepare(job)
        first_run(job, opened.session, feeds)
        return profile(opened.session, feeds, job.runs, machine, traced, report_progress)


def profile_dict(found: Profile) -> dict[str, object]:
    """A profile as JSON can hold it, with the numbers that follow from others."""
    fields = asdict(found)
    del fields["spans"], fields["blocks"]
    for entry, command in zip(fields["commands"], found.commands, strict=True):
        entry |= {"gflops": command.gflops, "intensity": command.intensity, "roofline": command.roofline}
    return fields


def print_profile(screen: Console, job: Job, found: Profile, top: int) -> None:
    """Slow spots first, then sums by kernel and operator, then the total."""
    screen.print(f"[bold]{escape(Path(job.model).name)}[/], {job.settings()}, {found.runs} runs", highlight=False)
    _commands(screen, found, top)
    for attribute, title in GROUPS.items():
        _sums(screen, found, attribute, title)
    screen.print()
    screen.print(total_line(found), highlight=False)


def total_line(found: Profile) -> str:
    """What the commands add up to, beside the same call without clocks and the whole call from Python."""
    arena = sum(found.arena_bytes) / 2**20
    return (
        f"total {found.sum_ns / 1e6:.3f} ms in {plural(len(found.commands), 'command')} (best run); without clocks "
        f"{found.native_ns / 1e6:.3f} ms, a call from Python {found.api_ns / 1e6:.3f} ms, arena {arena:.1f} MiB"
    )


def _commands(screen: Console, found: Profile, top: int) -> None:
    shown = sorted(found.commands, key=lambda c: -c.min_ns)[:top]
    hidden = len(found.commands) - len(shown)
    columns = [number("no")]
    for heading in ("min\nus", "median\nus", "share", "GFLOP/s", "kB", "ops/\nbyte", "% of roof"):
        columns.append(number(heading, "times"))
    columns += [words("node", "code", 20), words("kernel", "code", 20), words("algorithm, and why", "code", 28)]
    for c in shown:
        add_row(
            columns, str(c.number), *numbers(c), roof(c), escape(c.origin or "-"), escape(f"{c.kernel} {c.detail}"),
            escape(f"{c.algorithm}: {c.reason}" if c.algorithm else "-"),
        )  # fmt: skip
    show(screen, columns, f"slowest commands{f' ({hidden} more not shown: --top)' if hidden else ''}")


def numbers(c: CommandProfile) -> list[str]:
    """The measured cells of a command's row."""
    rate = f"{c.gflops:.1f}" if c.flops else "-"
    size = f"{'' if c.exact else '~'}{c.bytes / 1e3:,.0f}" if c.bytes >= 1e4 else f"{c.bytes / 1e3:.1f}"
    return [
        f"{c.min_ns / 1e3:.1f}", f"{c.median_ns / 1e3:.1f}", f"{c.share:.1%}", rate, size,
        f"{c.intensity:.1f}" if c.flops else "-",
    ]  # fmt: skip


def roof(c: CommandProfile) -> str:
    """How near a command is to what this machine can do, and what the limit is: ``82 f32``."""
    if c.roofline is None:
        return "-"
    colour = "green" if c.roofline >= 0.7 else "yellow" if c.roofline >= 0.35 else "red"
    return f"[{colour}]{c.roofline:.0%}[/] {c.bound_by}"


def _sums(screen: Console, found: Profile, attribute: str, title: str) -> None:
    groups: dict[str, list[CommandProfile]] = {}
    for c in found.commands:
        groups.setdefault(getattr(c, attribute), []).append(c)
    columns = [words(attribute)]
    columns += [number(heading, "sums") for heading in ("commands", "min us", "share", "GFLOP/s", "kB", "% of roof")]
    for name, members in sorted(groups.items(), key=lambda item: -sum(c.min_ns for c in item[1])):
        spent, work = sum(c.min_ns for c in members), sum(c.flops for c in members)
        bounds = [c.bound_ns for c in members if c.bound_ns is not None]
        add_row(
            columns, escape(name), str(len(members)), f"{spent / 1e3:.1f}", f"{sum(c.share for c in members):.1%}",
            f"{work / spent:.1f}" if work and spent else "-", f"{sum(c.bytes for c in members) / 1e3:,.0f}",
            f"{sum(bounds) / spent:.0%}" if len(bounds) == len(members) and spent and sum(bounds) <= spent else "-",
        )  # fmt: skip
    screen.print()
    show(screen, columns, title)
