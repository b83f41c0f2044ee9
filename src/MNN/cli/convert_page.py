"""The report of a conversion as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from MNN.cli.drawing import draw
from MNN.comparison import Comparison
from MNN.conversion_report import Outline, Report

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #2e7d32; --bad: #c62828; --accent: #3f6fd8 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p.sub { opacity: .75; margin: .2rem 0 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600; background: var(--soft) } td.n, th.n { text-align: right }
.cards { display: flex; gap: .8rem; flex-wrap: wrap; margin: 1rem 0 }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem; min-width: 8rem }
.card b { display: block; font-size: 1.3rem } .good { color: var(--good) } .bad { color: var(--bad) }
.bar { display: inline-block; height: .7em; background: var(--accent); border-radius: 2px; vertical-align: baseline }
.pan { overflow: auto; max-height: 40rem; border: 1px solid var(--line); border-radius: 8px; background: #fff }
details summary { cursor: pointer; font-weight: 600; margin: .8rem 0 .4rem }
code { font-size: .9em; word-break: break-all }
"""
_LISTED = 40


def page(report: Report, drawings: bool) -> str:
    """The page; ``drawings`` adds the graph before and after."""
    files = "".join(f"<p class=sub>→ <code>{escape(str(p))}</code></p>" for p in report.files)
    parts = [
        f"<h1>{escape(report.source or 'a model from memory')}</h1>{files}",
        _cards(report),
        _own(report),
        _check(report.check),
        "<h2>Inputs and outputs</h2>" + _interface(report.after),
        "<h2>Operators</h2>" + _operators(report),
        "<h2>Passes</h2>" + _passes(report),
    ]
    if drawings:
        kept = frozenset(name for step in report.before.steps for name in step.outputs)
        made = frozenset(name for step in report.after.steps for name in step.outputs) - kept
        for title, part, marked in (("before", report.before, frozenset[str]()), ("after", report.after, made)):
            parts.append(
                f"<details><summary>The graph {title}</summary><div class=pan>{draw(part, marked)}</div></details>"
            )
    title = f"Conversion of {escape(report.source)}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _cards(report: Report) -> str:
    change = report.size / report.source_bytes - 1 if report.source_bytes else 0.0
    cards = [
        ("operators", f"{report.nodes_before} → {report.nodes_after}"),
        ("size", f"{_size(report.source_bytes)} → {_size(report.size)}"),
        ("change", f"{change:+.0%}"),
        ("parameters", f"{report.after.parameters:,}"),
    ]
    if report.check is not None:
        worst = max((d.error for d in report.check.differences), default=0.0)
        colour = "bad" if report.check.first else "good"
        cards.append(("largest error", f"<span class={colour}>{worst:.1e}</span>"))
    return f"<div class=cards>{''.join(f'<div class=card>{name}<b>{text}</b></div>' for name, text in cards)}</div>"


def _own(report: Report) -> str:
    if not report.own:
        return "<p class=good>Every operator of the file is one that the official MNN engine has.</p>"
    listed = ", ".join(f"{escape(op)} ({count})" for op, count in report.own.items())
    return f"<p class=bad>The file needs this engine: the official one does not have {listed}.</p>"


def _check(check: Comparison | None) -> str:
    if check is None:
        return ""
    rows = [
        (escape(d.tensor), escape(d.op), "x".join(map(str, d.shape)), f"{d.error:.2e}")
        for d in sorted(check.differences, key=lambda d: -d.error)[:_LISTED]
    ]
    first = f"<p class=bad>It begins at <code>{escape(check.first.tensor)}</code>.</p>" if check.first else ""
    note = f"<p class=sub>{escape(check.note)}</p>" if check.note else ""
    head = f"<h2>Check against {escape(check.reference)}, tensor by tensor</h2>"
    return head + first + note + _table(("tensor", "operator", "shape", "error"), rows, numbers=(3,))


def _interface(part: Outline) -> str:
    rows = [
        (role, f"<code>{escape(name)}</code>", escape(kind))
        for role, values in (("input", part.inputs), ("output", part.outputs))
        for name, kind in values.items()
    ]
    return _table(("", "name", "type and shape"), rows)


def _operators(report: Report) -> str:
    names = dict.fromkeys([*report.after.operators, *report.before.operators])
    most = max([*report.after.operators.values(), *report.before.operators.values(), 1])
    rows = []
    for name in names:
        before, after = report.before.operators.get(name, 0), report.after.operators.get(name, 0)
        bar = f"<span class=bar style='width:{12 * after / most:.2f}em'></span>"
        rows.append((escape(name), str(before), str(after), bar))
    return _table(("operator", "before", "after", ""), rows, numbers=(1, 2))


def _passes(report: Report) -> str:
    rows = [(escape(name), str(count)) for name, count in report.changes.items() if count]
    idle = [escape(name) for name, count in report.changes.items() if not count]
    rest = f"<p class=sub>Without anything to do: {', '.join(idle)}.</p>" if idle else ""
    return (_table(("pass", "changes"), rows, numbers=(1,)) if rows else "") + rest


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if i in numbers else ''}>{c}</{tag}>" for i, c in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>{body}</table>"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
