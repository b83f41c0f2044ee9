"""The drawings of the report: timeline, roofline plot, memory plan. Positions in per cent scale with the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from MNN.backends.base.machine import LEVELS, Machine, Span
from MNN.cli.report.markup import nice_ticks, si, tag, text
from MNN.formatting import nbytes
from MNN.runtime.profile.profiler import Profile

LANE = 34
_GAP_NS = 400.0
"""Spans of one command on one thread that are nearer than this are drawn as one."""
_WIDTH, _HEIGHT = 1080, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 176, 16, 44
_MEMORY_HEIGHT = 300
_FEWEST = 1e-3
_STAGGER = 70


def timeline(found: Profile, colours: Mapping[str, int]) -> str:
    """One lane per thread; without a trace one lane in which the commands follow one another."""
    spans = _merged(found.spans) or _in_sequence(found)
    end = max((s.end_ns for s in spans), default=1.0) or 1.0
    threads = sorted({s.thread for s in spans})
    parts: list[str] = []
    for tick in nice_ticks(end / 1e6, 10):
        at = f"{tick * 1e8 / end:.3f}%"
        parts.append(tag("line", x1=at, x2=at, y1=0, y2=LANE * len(threads) + 4, class_="grid"))
        parts.append(tag("text", text(f"{tick:g} ms"), x=at, y=LANE * len(threads) + 18, dx=3, class_="tick"))
    kinds = {c.number: colours[c.kernel] for c in found.commands}
    for span in spans:
        parts.append(
            tag(
                "rect", x=f"{span.begin_ns * 100 / end:.4f}%", y=threads.index(span.thread) * LANE + 3,
                width=f"{max((span.end_ns - span.begin_ns) * 100 / end, 0.01):.4f}%", height=LANE - 6,
                class_=f"f{kinds[span.command]}", data_c=span.command,
            )
        )  # fmt: skip
    height = LANE * len(threads) + 26
    drawing = tag("svg", "".join(parts), height=height, width="100%", class_="zoomed", role="img")
    names = "".join(tag("div", text(f"thread {t}"), style=f"height:{LANE}px") for t in threads)
    return tag("div", tag("div", names, class_="lanes") + tag("div", drawing, class_="scroll grow"), class_="timeline")


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbouring chunks of the same command on the same thread as one."""
    last: dict[int, Span] = {}
    found: list[Span] = []
    for span in spans:
        old = last.get(span.thread)
        if old is not None and old.command == span.command and span.begin_ns - old.end_ns < _GAP_NS:
            last[span.thread] = Span(old.command, old.thread, old.begin_ns, span.end_ns)
            continue
        if old is not None:
            found.append(old)
        last[span.thread] = span
    return sorted([*found, *last.values()], key=lambda s: s.begin_ns)


def _in_sequence(found: Profile) -> list[Span]:
    spans: list[Span] = []
    at = 0.0
    for c in found.commands:
        spans.append(Span(c.number, 0, at, at + c.min_ns))
        at += c.min_ns
    return spans


def roofline(found: Profile, machine: Machine, colours: Mapping[str, int]) -> str:
    """Operations a second over operations per byte, both logarithmic; a dot per command, its area is its time."""
    rates = machine.rates(found.threads)
    dots = [c for c in found.commands if c.flops and c.bytes and c.min_ns]
    if not dots:
        return tag("p", "No command of this model multiplies and adds.", class_="note")
    used = {c.arithmetic for c in dots} | {"f32"}
    peaks = {k: v for k, v in rates.compute.items() if k in used}
    most = max([*peaks.values(), *(c.gflops for c in dots)]) * 1.6
    least = min(min(c.gflops for c in dots) / 1.6, rates.compute["f32"] / 20)
    low = min(0.1, *(c.intensity / 1.5 for c in dots))
    high = max(most / rates.read["DRAM"] * 2, *(c.intensity * 1.5 for c in dots))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(intensity: float) -> float:
        return _LEFT + width * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return _TOP + height * (1 - math.log(max(rate, least) / least) / math.log(most / least))

    parts = [tag("rect", x=_LEFT, y=_TOP, width=width, height=height, class_="frame")]
    for value in _decades(low, high):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=_TOP, y2=_TOP + height, class_="grid"))
        parts.append(tag("text", text(si(value)), x=x(value), y=_TOP + height + 16, class_="tick middle"))
    for value in _decades(least, most):
        parts.append(tag("line", x1=_LEFT, x2=_LEFT + width, y1=y(value), y2=y(value), class_="grid"))
        parts.append(tag("text", text(si(value)), x=_LEFT - 8, y=y(value) + 4, class_="tick end"))
    parts.append(tag("text", "operations per byte", x=_LEFT + width / 2, y=_HEIGHT - 8, class_="axis middle"))
    turned = f"rotate(-90 14 {_TOP + height / 2:.0f})"
    parts.append(tag("text", "GFLOP/s", x=14, y=_TOP + height / 2, transform=turned, class_="axis middle"))
    top = max(peaks.values())
    for kind, peak in peaks.items():
        parts.append(tag("line", x1=x(low), x2=_LEFT + width, y1=y(peak), y2=y(peak), class_="roof"))
        label = f"{kind} {si(peak)} GFLOP/s"
        parts.append(tag("text", text(label), x=_LEFT + width + 8, y=y(peak) + 4, class_="roofname"))
    for level in LEVELS:
        if level in rates.read:
            speed = rates.read[level]
            left, right = max(low, least / speed), min(high, top / speed)
            line = {"x1": x(left), "y1": y(left * speed), "x2": x(right), "y2": y(right * speed)}
            parts.append(tag("line", class_="roof slant", **line))
            angle = math.degrees(math.atan2(line["y2"] - line["y1"], line["x2"] - line["x1"]))
            along = 8 + _STAGGER * LEVELS.index(level)  # lines may lie close together
            at = (
                line["x1"] + along,
                line["y1"] + along * math.tan(math.radians(angle)) + (16 if level == "L3" else -6),
            )
            turn = f"rotate({angle:.1f} {at[0]:.1f} {at[1]:.1f})"
            label = f"{level} {si(speed)} GB/s"
            parts.append(tag("text", text(label), x=at[0], y=at[1], transform=turn, class_="roofname"))
    longest = max(c.min_ns for c in dots)
    for c in sorted(dots, key=lambda c: -c.min_ns):
        size = 3 + 13 * math.sqrt(c.min_ns / longest)
        parts.append(
            tag(
                "circle",
                cx=x(c.intensity),
                cy=y(c.gflops),
                r=size,
                class_=f"f{colours[c.kernel]} ball",
                data_c=c.number,
            )
        )
    return tag("svg", "".join(parts), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width="100%", class_="plot", role="img")


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; with their halves where there are few."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    found = [10.0**e for e in range(first, last + 1)]
    if len(found) < 3:
        found = sorted(v for e in range(first - 1, last + 1) for v in (10.0**e, 2 * 10.0**e, 5 * 10.0**e))
    return [v for v in found if low <= v <= high]


def memory(found: Profile, stage: int) -> str:
    """The arena of a stage: every block as long as it is needed (commands run to the right), where it lies."""
    arena = found.arena_bytes[stage]
    own = [c.number for c in found.commands if c.stage == stage]
    if not arena or not own:
        return tag("p", "This stage needs no working memory.", class_="note")
    start, count = own[0], len(own)
    parts: list[str] = []
    for tick in nice_ticks(arena, 4):
        at = f"{100 - tick * 100 / arena:.3f}%"
        parts.append(tag("line", x1="0", x2="100%", y1=at, y2=at, class_="grid"))
    largest = sorted((b for b in found.blocks if b.stage == stage), key=lambda b: -b.nbytes)
    for order, block in enumerate(largest):
        height = block.nbytes * 100 / arena
        parts.append(
            tag(
                "rect", x=f"{block.first * 100 / count:.3f}%", y=f"{100 - block.offset * 100 / arena - height:.3f}%",
                width=f"{(block.last - block.first + 1) * 100 / count:.3f}%", height=f"{max(height, _FEWEST):.3f}%",
                class_=f"block b{order % 3}", data_c=start + block.first,
                data_note=f"{nbytes(block.nbytes)} for {block.origin or 'a copy'}, commands {start + block.first} to "
                f"{start + block.last}, at byte {block.offset:,}",
            )
        )  # fmt: skip
    drawing = tag("svg", "".join(parts), width="100%", height=_MEMORY_HEIGHT, class_="memory", role="img")
    ticks = nice_ticks(arena, 4)[::-1]
    labels = "".join(
        tag("span", text(nbytes(t)), style=f"top:{100 - t * 100 / arena:.2f}%") for t in ticks
    )  # fmt: skip
    scale = tag("div", labels, class_="scale", style=f"height:{_MEMORY_HEIGHT}px")
    below = tag(
        "div", tag("span", text(f"command {start}")) + tag("span", text(f"command {start + count - 1}")), class_="ends"
    )
    return tag("div", scale + tag("div", drawing + below, class_="grow"), class_="timeline")


def bars(shares: Sequence[tuple[str, float, str, int]]) -> str:
    """A bar for every (name, share, note, colour)."""
    most = max((share for _, share, _, _ in shares), default=1.0) or 1.0
    rows = []
    for name, share, note, colour in shares:
        bar = tag("i", class_=f"bar c{colour}", style=f"width:{share / most * 100:.2f}%")
        rows.append(
            tag("span", text(name), class_="name") + tag("span", bar, class_="track")
            + tag("span", text(f"{share:.1%}"), class_="n") + tag("span", text(note), class_="n soft")
        )  # fmt: skip
    return tag("div", "".join(rows), class_="bars")
