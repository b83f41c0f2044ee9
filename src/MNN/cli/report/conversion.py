"""The report of a conversion as one page that needs nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from MNN.cli.report.drawing import draw
from MNN.cli.report.markup import section, table, tag, text, tile
from MNN.cli.report.skeleton import document
from MNN.comparison import Comparison
from MNN.conversion_report import Outline, Report, fusions
from MNN.formatting import dims, nbytes, plural
from MNN.frontends.mnn.support import COMPOSED, NATIVE, REFUSED, Support, needs_this_engine
from MNN.passes.manager import passes

_LISTED = 40
_NAMED = 8
_WIDEST = 160
_GRADES = {NATIVE: "good", COMPOSED: "fair", REFUSED: "poor"}


def page(report: Report, drawings: bool) -> str:
    """The page; ``drawings`` adds the graph before and after."""
    files = "".join(tag("p", "→ " + _code(p), class_="note") for p in report.files)
    body = [
        tag("header", tag("div", tag("h1", text(report.source or "a model from memory")) + files)),
        _tiles(report),
        section("Where it runs", _verdict(report), _support(report.support), "support"),
        _check(report.check),
        section("Inputs and outputs", "", _interface(report.after), "interface"),
        section("Operators", "Before and after the passes.", _operators(report), "operators"),
        _fused(report),
        section("Passes", "What each rewriting did, in the order in which they run.", _passes(report), "passes"),
        *(_drawings(report) if drawings else ()),
    ]
    return document(f"Conversion of {report.source}", "".join(body))


def _code(value: object) -> str:
    return tag("code", text(value))


def _tiles(report: Report) -> str:
    change = report.size / report.source_bytes - 1 if report.source_bytes else 0.0
    tiles = [
        tile("Operators", f"{report.nodes_before} → {report.nodes_after}", "of the graph, before and after"),
        tile("Size", f"{nbytes(report.source_bytes)} → {nbytes(report.size)}", f"{change:+.0%}".replace("-0%", "+0%")),
        tile("Parameters", f"{report.after.parameters:,}", f"in {plural(report.after.constants, 'constant')}"),
    ]
    own = sum(report.own.values())
    tiles.append(tile("Official MNN", "runs it" if not own else "cannot run it", *_officially(report.support)))
    if report.check is not None and report.check.differences:
        worst = max(d.error for d in report.check.differences)
        grade = "poor" if report.check.first else "good"
        tiles.append(tile("Largest error", f"{worst:.1e}", f"against {report.check.reference}", grade))
    return tag("div", "".join(tiles), class_="tiles")


def _officially(found: Sequence[Support]) -> tuple[str, str]:
    counts = {kind: sum(s.count for s in found if s.official == kind) for kind in _GRADES}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return said, "poor" if counts[REFUSED] else "good"


def _verdict(report: Report) -> str:
    lacking = needs_this_engine(report.support)
    if lacking:
        return lacking[0].upper() + lacking[1:] + ". It refuses the file with a message; nothing is computed wrongly."
    return "This engine and the official MNN 3.6 both run every operator of the file."


def _support(found: Sequence[Support]) -> str:
    rows = []
    for s in found:
        official = tag("span", text(s.official), class_=_GRADES[s.official])
        note = ""
        if s.parts:
            note = "written as " + ", ".join(f"{op} ({count})" for op, count in s.parts.most_common())
        elif s.official == REFUSED:
            named = [n for n in s.nodes if n]
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            note = s.advice + (f"; in {', '.join(named[:_NAMED])}{more}" if named else "")
        rows.append((text(s.operator), str(s.count), text(s.here), official, text(note)))
    return table(("operator", "count", "this engine", "official MNN", "what that means"), rows, (1,))


def _check(check: Comparison | None) -> str:
    if check is None:
        return ""
    worst = sorted(check.differences, key=lambda d: -d.error)[:_LISTED]
    rows = [(text(d.tensor), text(d.op), dims(d.shape), f"{d.error:.2e}") for d in worst]
    first = tag("p", "It begins at " + _code(check.first.tensor) + ".", class_="poor") if check.first else ""
    body = first + (table(("tensor", "operator", "shape", "error"), rows, (3,)) if rows else "")
    count = len(check.differences)
    note = check.note or (f"The worst {_LISTED} of {count}; --report with .json lists all." if count > _LISTED else "")
    return section(f"Check against {check.reference}, tensor by tensor", note, body, "check")


def _interface(part: Outline) -> str:
    rows = [
        (role, _code(name), text(kind))
        for role, values in (("input", part.inputs), ("output", part.outputs))
        for name, kind in values.items()
    ]
    return table(("", "name", "type and shape"), rows)


def _operators(report: Report) -> str:
    names = dict.fromkeys([*report.after.operators, *report.before.operators])
    most = max([*report.after.operators.values(), *report.before.operators.values(), 1])
    rows = []
    for name in names:
        before, after = report.before.operators.get(name, 0), report.after.operators.get(name, 0)
        bar = tag("i", class_="bar c0", style=f"width:{12 * after / most:.2f}em")
        rows.append((text(name), str(before), str(after), bar))
    return table(("operator", "before", "after", ""), rows, (1, 2))


def _fused(report: Report) -> str:
    found = fusions(report.before, report.after)
    rows = []
    for what, count in found.items():
        parts, made = what.split(" → ")
        shown = parts if len(parts) <= _WIDEST else f"{parts[:_WIDEST]}… ({plural(parts.count(' + ') + 1, 'operator')})"
        rows.append((text(shown), text(made), str(count)))
    said = "Operators of the source that became one." if rows else "No operators became one."
    return section("What was fused", said, table(("operators", "became", "times"), rows, (2,)) if rows else "", "fused")


def _passes(report: Report) -> str:
    known = passes()
    rows = [
        (text(name), str(count), text(_purpose(known[name].run) if name in known else ""))
        for name, count in report.changes.items()
        if count
    ]
    idle = [name for name, count in report.changes.items() if not count]
    rest = tag("p", text(f"Without anything to do: {', '.join(idle)}."), class_="note") if idle else ""
    return (table(("pass", "changes", "what it does"), rows, (1,)) if rows else "") + rest


def _purpose(run: object) -> str:
    """The first sentence of what the pass's file says about it."""
    module = sys.modules.get(getattr(run, "__module__", ""))
    words = " ".join((module.__doc__ or "").split()) if module is not None else ""
    return words.split(". ")[0].rstrip(".") + "." if words else ""


def _drawings(report: Report) -> list[str]:
    kept = frozenset(name for step in report.before.steps for name in step.outputs)
    made = frozenset(name for step in report.after.steps for name in step.outputs) - kept
    parts = []
    for title, part, marked in (("before", report.before, frozenset[str]()), ("after", report.after, made)):
        inner = tag("summary", f"The graph {title}") + tag("div", draw(part, marked), class_="pan")
        parts.append(tag("details", inner, class_="card"))
    return parts
