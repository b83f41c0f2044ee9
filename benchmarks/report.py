"""The report of a comparison: Markdown, JSON and plots, in a folder or in the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from . import tables
from .records import Record
from .setup_peers import REPOSITORY
from .summary import Line, newest, summary

BEGIN, END = "<!-- benchmarks{}: written by benchmarks.compare --publish -->", "<!-- end of benchmarks{} -->"
"""Marks in the README, by page."""

PREFACE = """# Beside other engines

Made by `python -m benchmarks.compare`; nothing here is typed by hand. A ratio is the best peer's minimum time divided
by this engine's: above 1, this engine is faster.
"""

METHOD = """## How it is measured

- Each engine runs in a process of its own, pinned to the same cores (`sched_setaffinity`, what `taskset` does): one
  core for one thread, two for two, so that the system does not move threads between cores and every engine has the
  same caches.
- The engines take turns, all of them in every round, in rotating order, and the ones that wait are stopped (SIGSTOP),
  so that a spinning thread pool costs the others nothing. Each turn begins with an untimed run. Times are minima over
  all rounds; medians and spread are in the JSON. Ratios are only formed inside one such run.
- Inputs are seeded noise of mean 0 and deviation 1 for networks with random weights (which are scaled so that
  activations stay in the range of a trained net), images, sound and text for trained models; never zeros, which make
  some engines faster than they are.
- Times of this engine are those of the public Python API, `session.run(feeds)` with numpy arrays in and out: input
  checks and copies count. The peers run through their own Python APIs with inputs set beforehand.
- Errors are the largest difference of any output divided by the largest value of that output, against the same ONNX
  graph computed in float64 by onnx's reference evaluator. Of large batches the first and the last sample are checked.
  Trained models (`real:`) are checked against ONNX Runtime without optimisations, since that evaluator cannot run all
  of them.
"""

LEAST = """\
- The exception on this page: the machine had neighbours, and no run was calm from beginning to end, so of networks
  that were measured in several runs (up to {}) each engine counts with its minimum time of all of them.
"""

PROCESSOR_TIME = """\
- Times on this page are of the processor, not of the clock on the wall, as others used the machine: what a run of an
  engine's process had of it, all of its threads together. What others leave of the caches and of the memory's
  bandwidth is still part of them: in a calm machine every engine is faster.
"""


def write(records: Sequence[Record], folder: Path) -> str:
    """``compare.md``, ``compare.json`` and plots; returns the summary as text."""
    from .plot import draw_models, draw_summary

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compare.md").write_text(markdown(records), encoding="utf-8")
    (folder / "compare.json").write_text(_json(records), encoding="utf-8")
    draw_summary(records, folder / "summary.png")
    draw_models(records, folder / "latency.png")
    return tables.summary_table(summary(records))


def markdown(records: Sequence[Record], images: str = "", page: str = "") -> str:
    """The whole report. ``images``: where the plots lie, seen from the file; ``page`` is part of their names."""
    found = newest(records)
    used = list({id(r): r for r in found.values()}.values())
    parts = [PREFACE, tables.machines(used), "## Summary\n", tables.summary_table(summary(records))]
    parts += [f"![ratios]({images}summary{page}.png)\n", f"![times and errors]({images}latency{page}.png)\n"]
    parts += [tables.promises(summary(records)), METHOD + _exceptions(used)]
    for setting, threads, batch in dict.fromkeys((s, t, b) for s, t, b, _ in found):
        here = [r for (s, t, b, _), r in found.items() if (s, t, b) == (setting, threads, batch)]
        parts.append(tables.times(here, setting))
    parts += [tables.threads(records), tables.costs(used), tables.details(used), tables.commands(used)]
    return "\n".join(p for p in parts if p)


def _json(records: Sequence[Record]) -> str:
    used = list({id(r): r for r in newest(records).values()}.values())
    data = {"summary": [_line(line) for line in summary(records)], "records": [asdict(r) for r in used]}
    return json.dumps(data, indent=1) + "\n"


def _line(line: Line) -> dict[str, object]:
    ratios = {s.record.model: round(s.ratio, 3) for s in line.standings}
    where = {"setting": line.setting.name, "threads": line.threads, "batch": line.batch, "models": line.kind}
    mean = round(line.mean, 3) if line.standings else None
    return {**where, "geometric_mean": mean, "ratios": ratios, "without_result": list(line.missing)}


def publish(records: Sequence[Record], root: Path = REPOSITORY, page: str = "") -> None:
    """Writes ``docs/benchmarks.md``, ``docs/benchmarks.json``, the plots, and the part of the README between marks.

    A processor of its own has a ``page`` of its own: ``docs/benchmarks-<page>.md`` and so on.
    """
    from .plot import draw_models, draw_overview, draw_summary

    page = f"-{page}" if page else ""
    docs = root / "docs"
    (docs / "images").mkdir(parents=True, exist_ok=True)
    draw_overview(records, docs / "images" / f"overview{page}.png")
    draw_summary(records, docs / "images" / f"summary{page}.png")
    draw_models(records, docs / "images" / f"latency{page}.png")
    (docs / f"benchmarks{page}.md").write_text(markdown(records, "images/", page), encoding="utf-8")
    (docs / f"benchmarks{page}.json").write_text(_json(records), encoding="utf-8")
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    begin, end = BEGIN.format(page), END.format(page)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{readme} has no marks for the benchmarks: {begin} ... {end}")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    readme.write_text(f"{before}{begin}\n{_readme(records, page)}{end}{after}", encoding="utf-8")


def _exceptions(records: Sequence[Record]) -> str:
    """What was measured in another way than usual: as the minimum of several runs, by another clock."""
    runs = max(r.machine.get("runs", 1) for r in records)
    clocks = {r.machine.get("clock", "wall") for r in records}
    return (LEAST.format(runs) if runs > 1 else "") + (PROCESSOR_TIME if "processor" in clocks else "")


def _readme(records: Sequence[Record], page: str) -> str:
    """The small table, one picture, and where everything else is."""
    used = list({id(r): r for r in newest(records).values()}.values())
    link = f"[docs/benchmarks{page}.md](docs/benchmarks{page}.md)"
    parts = [tables.small_table(summary(records)), f"![ratio of every network](docs/images/overview{page}.png)\n"]
    return "\n".join([tables.processors(used), *parts, f"All networks, times, errors and versions: {link}.\n"])
