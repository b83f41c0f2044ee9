"""``mnn bench --tune``: measures the candidates for every piece of work, and remembers the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from MNN.cli.display.output import console, write_json
from MNN.cli.display.progress import progress
from MNN.cli.display.tables import add_row, number, show, words
from MNN.cli.measuring.measure import Job, first_run, prepare
from MNN.formatting import plural
from MNN.runtime.profile.tuning import Tuned, Tuner, Tuning

_LISTED = 4
"""Candidates that the table lists: the fastest, and the estimated one."""


def tune_models(jobs: Sequence[Job], top: int, out: Path | None) -> None:
    """Tunes one job after the other, in this process; ``--runs`` are the rounds in which candidates take turns."""
    screen, found = console(), []
    for job in jobs:
        result = _tune(job)
        name = Path(job.model).name
        screen.print(f"[bold]{escape(name)}[/], {job.settings()}", highlight=False)
        if result.signatures:
            _show(screen, result.signatures, top)
        screen.print(_summary(result, job.cache), highlight=False)
        found.append({"model": name, "settings": asdict(job), **asdict(result)})
    if out is not None:
        write_json(out, found)


def _tune(job: Job) -> Tuning:
    with progress(f"tuning {Path(job.model).name}") as report_progress:
        report_progress("opening and compiling")
        opened, feeds = prepare(job)
        session = opened.session
        first_run(job, session, feeds)
        values = {v: feeds[v.name] for v in session.graph.inputs if not v.is_const}
        return Tuner(session.graph, session.config, values, job.runs, report_progress).run()


def _show(screen: Console, signatures: Sequence[Tuned], top: int) -> None:
    """Signatures with several candidates, the most to win first."""
    ordered = sorted(signatures, key=_gain, reverse=True)
    hidden = len(ordered) - top
    columns = [
        words("work", least=24),
        number("uses"),
        words("estimated", "choice", 16),
        words("measured", "choice", 16),
    ]
    columns.append(words("candidates", "candidates", 30))
    for t in ordered[:top]:
        best = sorted(t.times, key=lambda name: t.times[name])
        listed = [n for i, n in enumerate(best) if i < _LISTED or n == t.estimated]
        times = ", ".join(f"{name} {t.times[name] / 1e3:.1f}" for name in listed)
        times += ", ..." if len(listed) < len(best) else ""
        chosen = "the same" if t.chosen == t.estimated else f"[green]{escape(t.chosen)}[/]"
        add_row(columns, escape(t.signature), str(t.uses), escape(t.estimated), chosen, escape(times))
    show(screen, columns, f"microseconds per use{f' ({hidden} more not shown: --top)' if hidden > 0 else ''}")


def _gain(t: Tuned) -> float:
    return t.uses * (t.times.get(t.estimated, 0.0) - t.times.get(t.chosen, 0.0))


def _summary(found: Tuning, cache: bool) -> str:
    if not found.signatures:
        return "there is only one way to compute every part of this model; nothing to tune"
    changed = sum(t.chosen != t.estimated for t in found.signatures)
    first = f"{changed} of {plural(len(found.signatures), 'choice')} changed"
    if not changed:
        first += ", as nothing was faster by more than the noise"
    if found.alone:
        first += f" for the whole model ({found.alone} by {'itself' if found.alone == 1 else 'themselves'})"
    whole = f"{found.before_ns / 1e6:.3f} ms before, {found.after_ns / 1e6:.3f} ms after"
    if not changed:
        return f"{first}; {found.before_ns / 1e6:.3f} ms"
    ending = "remembered for this processor" if found.kept else "not remembered"
    if not cache:
        ending += " (--no-cache)"
    return f"{first}; {whole}; {ending}"
