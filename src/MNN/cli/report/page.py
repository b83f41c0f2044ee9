"""The report's page: sections put together with the style and the script that lie in ``MNN/assets``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from MNN.backends.base.machine import LEVELS, Machine
from MNN.cli.measuring.measure import Job
from MNN.cli.report.charts import bars, memory, roofline, timeline
from MNN.cli.report.markup import legend, palette, section, si, table, tag, text, tile
from MNN.cli.report.skeleton import document
from MNN.formatting import nbytes, plural
from MNN.runtime.profile.profiler import CommandProfile, Profile
from MNN.schema.files import replacing

_MOST_GROUPS = 12
_GOOD, _FAIR = 0.7, 0.35


def write_report(path: Path, job: Job, found: Profile, machine: Machine) -> None:
    """Writes the page, whole or not at all."""
    with replacing(path) as file:
        file.write(render(job, found, machine).encode())


def render(job: Job, found: Profile, machine: Machine) -> str:
    """The whole page."""
    by_kernel = _groups(found, lambda c: c.kernel)
    colours = palette(name for name, _ in by_kernel)
    name = Path(job.model).name
    stages = range(len(found.arena_bytes))
    body = [
        _header(name, job, machine),
        _tiles(found, machine),
        section("Timeline", _timeline_note(found), _zoom() + legend(colours) + timeline(found, colours), "timeline"),
        section(
            "Roofline",
            "A dot per command, its area is its time. The nearer to a line above it, the nearer to what this machine "
            "can do; left of the bend memory sets the limit, right of it arithmetic.",
            legend({k: v for k, v in colours.items() if any(c.flops for c in found.commands if c.kernel == k)})
            + roofline(found, machine, colours),
            "roofline",
        ),
        section("Where the time goes", "", _shares(found, colours), "shares"),
        section(
            "Commands",
            "Click a heading to sort. Roof: the minimum time on this machine as a part of the time taken, and what "
            "sets it.",
            tag("input", id="filter", type="search", placeholder="filter by node, kernel, algorithm")
            + tag("button", "show all", id="all", type="button")
            + _commands(found, colours),
            "commands",
        ),
        section(
            "Memory plan",
            "What lies where in the working memory while the commands run, planned before the first of them.",
            "".join((tag("h3", text(f"stage {s}")) if len(stages) > 1 else "") + memory(found, s) for s in stages),
            "memory",
        ),
        section("Algorithms", "What was chosen for equal pieces of work, and why.", _choices(found), "algorithms"),
        section("Machine", "Measured with generated kernels: the best rates seen.", _machine(machine), "machine"),
    ]  # fmt: skip
    data = json.dumps({str(c.number): _tip(c) for c in found.commands}).replace("<", "\\u003c")
    return document(f"{name}: profile", "".join(body), data)


def _header(name: str, job: Job, machine: Machine) -> str:
    settings = f"{job.settings()}, {job.runs} runs"
    where = f"{machine.name}, {machine.cores} cores, target {machine.target}"
    theme = tag("button", "light / dark", id="theme", type="button")
    words = tag("h1", text(name)) + tag("p", text(f"{settings} on {where}"), class_="note")
    return tag("header", tag("div", words) + theme)


def _tiles(found: Profile, machine: Machine) -> str:
    flops = sum(c.flops for c in found.commands)
    peak = machine.rates(found.threads).compute["f32"]
    rate = flops / found.native_ns
    known = [c for c in found.commands if c.roofline is not None]
    bounds, spent = sum(c.bound_ns or 0.0 for c in known), sum(c.min_ns for c in known)
    share = f"{rate / peak:.0%} of the f32 peak" if rate <= peak else "operations of the plain methods"
    tiles = [
        ("Latency", f"{found.api_ns / 1e6:.2f} ms", f"from Python; median {found.api_median_ns / 1e6:.2f} ms"),
        ("Native call", f"{found.native_ns / 1e6:.2f} ms", f"commands add up to {found.sum_ns / 1e6:.2f} ms"),
        ("Rate", f"{si(rate)} GFLOP/s", share),
        ("Of the roofline", f"{bounds / spent:.0%}" if spent else "-", "minimum time over time taken"),
        ("Working memory", nbytes(sum(found.arena_bytes)), plural(len(found.commands), "command")),
    ]
    return tag("div", "".join(tile(*t) for t in tiles), class_="tiles")


def _timeline_note(found: Profile) -> str:
    if found.spans:
        return "The fastest of some traced runs: a box is a thread at work on a command. Gaps are threads that wait."
    return "The minimum time of every command, one after the other (this processor has no clock for traces)."


def _zoom() -> str:
    buttons = "".join(tag("button", f"x{z}", type="button", data_zoom=z) for z in (1, 4, 16, 64))
    return tag("div", buttons, class_="zoom")


def _groups(found: Profile, key: Callable[[CommandProfile], str]) -> list[tuple[str, list[CommandProfile]]]:
    groups: dict[str, list[CommandProfile]] = {}
    for c in found.commands:
        groups.setdefault(key(c), []).append(c)
    return sorted(groups.items(), key=lambda item: -sum(c.min_ns for c in item[1]))


def _shares(found: Profile, colours: dict[str, int]) -> str:
    parts = []
    for title, key in (("by kernel", lambda c: c.kernel), ("by operator", lambda c: c.operator)):
        rows = [
            (name, sum(c.share for c in members), f"{sum(c.min_ns for c in members) / 1e3:,.0f} us, {len(members)}x",
             colours.get(name, 0))
            for name, members in _groups(found, key)[:_MOST_GROUPS]
        ]  # fmt: skip
        parts.append(tag("div", tag("h3", title) + bars(rows)))
    return tag("div", "".join(parts), class_="columns")


def _commands(found: Profile, colours: dict[str, int]) -> str:
    headings = ["no", "us", "share", "GFLOP/s", "kB", "ops/byte", "roof", "node", "kernel", "algorithm"]
    rows = [
        [
            str(c.number), f"{c.min_ns / 1e3:.1f}", f"{c.share * 100:.1f}%", f"{c.gflops:.1f}" if c.flops else "-",
            f"{'' if c.exact else '~'}{c.bytes / 1e3:,.1f}", f"{c.intensity:.1f}" if c.flops else "-", _roof(c),
            text(c.origin or "-"),
            tag("i", class_=f"dot c{colours[c.kernel]}") + text(c.kernel) + tag("small", text(f" {c.detail}")),
            text(c.algorithm or "-"),
        ]
        for c in sorted(found.commands, key=lambda c: -c.min_ns)
    ]  # fmt: skip
    return table(headings, rows, range(7), "kernels")


def _roof(c: CommandProfile) -> str:
    if c.roofline is None:
        return "-"
    grade = "good" if c.roofline >= _GOOD else "fair" if c.roofline >= _FAIR else "poor"
    return tag("span", text(f"{c.roofline:.0%}"), class_=grade) + tag("small", text(f" {c.bound_by}"))


def _choices(found: Profile) -> str:
    groups: dict[tuple[str, str, str], list[CommandProfile]] = {}
    for c in found.commands:
        if c.signature:
            groups.setdefault((c.signature, c.algorithm, c.reason), []).append(c)
    ordered = sorted(groups.items(), key=lambda item: -sum(c.min_ns for c in item[1]))
    rows = [
        [text(signature), text(name), text(reason), f"{len(members)}", f"{sum(c.min_ns for c in members) / 1e3:,.1f}"]
        for (signature, name, reason), members in ordered
    ]
    if not rows:
        return tag("p", "There was nothing to choose in this model.", class_="note")
    return table(["work", "algorithm", "why", "commands", "us"], rows, (3, 4), "choices")


def _machine(machine: Machine) -> str:
    columns = [machine.one] if machine.cores == 1 else [machine.one, machine.all]
    headings = ["at most", *(plural(r.threads, "thread") for r in columns)]
    rows = [[text(f"{k} multiply-adds"), *(f"{r.compute[k]:,.0f} G/s" for r in columns)] for k in machine.one.compute]
    for level in LEVELS:
        if level in machine.one.read:
            size = f" ({nbytes(machine.sizes[level])})" if level in machine.sizes else ""
            rows.append([text(f"reading {level}{size}"), *(f"{r.read[level]:,.1f} GB/s" for r in columns)])
    if machine.cores > 1:
        rows.append(["sharing a command with workers awake", "", f"{machine.spinning_us:.2f} us"])
        rows.append(["sharing a command with workers asleep", "", f"{machine.wake_us:.0f} us"])
    return table(headings, rows, range(1, len(headings))) + tag("p", text(" ".join(machine.features)), class_="note")


def _tip(c: CommandProfile) -> list[str]:
    """What is shown over a command: a title, then lines."""
    work = f"{c.gflops:.1f} GFLOP/s, {c.intensity:.1f} operations per byte" if c.flops else "no multiply-adds"
    levels = ", ".join(f"{nbytes(v)} from {k}" for k, v in c.levels.items())
    lines = [
        f"{c.number}: {c.origin or 'copy'}",
        f"{c.kernel} {c.detail}",
        f"{c.min_ns / 1e3:.1f} us, {c.share:.1%} of the whole",
        work,
        f"{nbytes(c.bytes)}{f': {levels}' if levels else ''}",
    ]
    if c.roofline is not None:
        lines.append(f"{c.roofline:.0%} of the roof, set by {c.bound_by}")
    return [*lines, c.algorithm] if c.algorithm else lines
