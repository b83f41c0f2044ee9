"""The Markdown tables of the report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from .architectures.catalog import MAIN
from .peers.catalog import PEERS
from .records import Record, Row
from .settings import NOTES, SETTINGS, WRONG
from .summary import KINDS, Line, kind_of, scaling, standing

LONG_MS = 20.0  # two threads are asked to pay on models above this


def machines(records: Sequence[Record]) -> str:
    """One sentence for each machine that records come from."""
    pythons: dict[str, set[str]] = {}
    for m in (r.machine for r in records):
        one = f"{m['processor']} ({', '.join(m['features'])}), {m['cores']} cores, {m['system']}"
        pythons.setdefault(one, set()).add(m["python"])
    lines = [f"Processor: {one}, Python {' and '.join(sorted(found))}.\n" for one, found in pythons.items()]
    dates = sorted({r.machine["date"] for r in records})
    commits = sorted({commit for r in records for commit in r.machine["commit"].split(", ") if commit})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return "\n".join(lines) + f"\nMeasured {span} at commit {', '.join(commits) or 'unknown'}.\n"


def processors(records: Sequence[Record]) -> str:
    """The processors and when they were measured, in one line."""
    names = dict.fromkeys(f"{r.machine['processor']}, {r.machine['cores']} cores" for r in records)
    dates = sorted({r.machine["date"] for r in records})
    return f"{'; '.join(names)}; measured {dates[0]}{f' to {dates[-1]}' * (len(dates) > 1)}.\n"


def summary_table(lines: Sequence[Line]) -> str:
    """The comparison in one table: mean and lowest ratio, and the largest error."""
    head = "| setting | threads | batch | models | geometric mean | lowest | errors in bounds, largest |"
    rows = [head, "| --- | ---: | ---: | --- | ---: | --- | --- |"]
    lines = [line for line in lines if line.standings]
    for line in lines:
        lowest, worst = line.lowest, line.worst_error
        judged = [s.in_bounds for s in line.standings if s.in_bounds is not None]
        bounds = f"{sum(judged)} of {len(judged)}, " if judged else ""
        rows.append(
            f"| `{line.setting.name}` | {line.threads} | {line.batch} | {line.kind} ({_count(line)}) | "
            f"**{line.mean:.2f}** | {lowest.ratio:.2f} {lowest.record.model} "
            f"({PEERS[lowest.best.engine].label}) | {bounds}{_power(worst.ours.error)} {worst.record.model} |"
        )
    used = [line.setting for line in lines]
    measured = {r.engine for line in lines for s in line.standings for r in s.record.rows}
    explained = [
        f"`{s.name}`: {s.title}, against {_labels([p for p in s.peers if p in measured])}.  "
        for s in dict.fromkeys(used)
    ]
    kinds = [f"{kind}: {KINDS[kind]}.  " for kind in dict.fromkeys(line.kind for line in lines)]
    return "\n".join([*rows, "", *explained, *kinds, ""])


def small_table(lines: Sequence[Line]) -> str:
    """Of the main networks at batch 1, a row a setting: mean and lowest ratio by number of threads, largest error."""
    chosen = [line for line in lines if line.kind == "main" and line.batch == 1 and line.standings]
    counts = sorted({line.threads for line in chosen})
    heads = [f"{n} thread{'s' * (n > 1)}: mean | lowest" for n in counts]
    rows = [f"| setting | {' | '.join(heads)} | largest error |", "| --- |" + " ---: |" * (2 * len(counts) + 1)]
    against: dict[str, list[str]] = {}
    for setting in dict.fromkeys(line.setting for line in chosen):
        here = {line.threads: line for line in chosen if line.setting is setting}
        cells = [f"**{here[n].mean:.2f}** | {here[n].lowest.ratio:.2f}" if n in here else " | " for n in counts]
        worst = max(line.worst_error.ours.error or 0.0 for line in here.values())
        rows.append(f"| `{setting.name}` | {' | '.join(cells)} | {_power(worst)} |")
        measured = {r.engine for line in here.values() for s in line.standings for r in s.record.rows}
        against.setdefault(_labels([p for p in setting.peers if p in measured]), []).append(f"`{setting.name}`")
    peers = [f"{', '.join(names)}: against {labels}" for labels, names in against.items()]
    return "\n".join([*rows, "", f"{'. '.join(peers)}.", ""])


def promises(lines: Sequence[Line]) -> str:
    """Targets and whether they are met, for batch 1 on the main networks."""
    rows = [
        "## Targets\n",
        "| setting | threads | geometric mean | asked | lowest | asked | |",
        "| --- |" + " ---: |" * 6,
    ]
    for line in lines:
        if line.kind != "main" or line.batch != 1 or not line.standings:
            continue
        target = line.setting.target
        met = not line.missing and line.mean >= target.mean and line.lowest.ratio >= target.lowest
        few = f" by the {len(line.standings)} measured" if len(line.standings) < len(MAIN) else ""
        rows.append(
            f"| `{line.setting.name}` | {line.threads} | {line.mean:.2f} | {target.mean:.2f} | "
            f"{line.lowest.ratio:.2f} | {f'{target.lowest:.2f}' if target.lowest else '-'} | "
            f"{'met' if met else 'not met'}{few} |"
        )
    return "\n".join([*rows, ""]) if len(rows) > 3 else ""


def times(records: Sequence[Record], name: str) -> str:
    """Minimum times with errors, one row a model, of one setting at one number of threads and one batch."""
    setting, first = SETTINGS[name], records[0]
    engines = [setting.ours, *(p for p in setting.peers if any(r.row(p) for r in records))]
    versions = {e: next((r.version for x in records if (r := x.row(e)) and r.version), "") for e in engines}
    heads = [f"{PEERS[e].label} {versions[e] if e != setting.ours else ''}".strip() for e in engines]
    plural = "s" if first.threads > 1 else ""
    unit = "minimum ms" if first.batch == 1 else f"minimum ms of a batch of {first.batch}"
    lines = [
        f"## `{name}`, {first.threads} thread{plural}, batch {first.batch}\n",
        f"{setting.title[:1].upper()}{setting.title[1:]}; {unit}, in brackets the error. {NOTES.get(name, '')}\n",
        f"| model | {' | '.join(heads)} | ratio | error / {PEERS[setting.yardstick].label}'s |",
        "| --- |" + " ---: |" * (len(engines) + 2),
    ]
    notes: list[str] = []
    for kind in KINDS:
        chosen = [r for r in records if kind_of(r.model) == kind]
        lines += [_times_row(r, name, engines, notes) for r in chosen]
        found = [s for s in (standing(r, setting) for r in chosen) if s]
        if len(found) > 1:
            means = [_mean([_against(r, setting.ours, e) for r in chosen]) for e in engines]
            ratio = math.exp(statistics.fmean(math.log(s.ratio) for s in found))
            lines.append(f"| *mean time / ours, {kind}* | {' | '.join(means)} | **{ratio:.2f}** | |")
    return "\n".join([*lines, "", *(f"[{k}] {note}  " for k, note in enumerate(notes, 1)), ""])


def _times_row(record: Record, name: str, engines: Sequence[str], notes: list[str]) -> str:
    known = [r.min_ms for e in engines if (r := record.row(e)) and r.min_ms]
    cells = [_cell(record.row(e), min(known, default=None), notes) for e in engines]
    found = standing(record, SETTINGS[name])
    ratio = f"{found.ratio:.2f}" if found else "-"
    ours, reference = record.row(SETTINGS[name].ours), record.row(SETTINGS[name].yardstick)
    share = f"{ours.error / reference.error:.2g}" if ours and reference and ours.error and reference.error else "-"
    if found and found.in_bounds is False:
        share += " (out of bounds)"
    return f"| {record.model} | {' | '.join(cells)} | {ratio} | {share} |"


def _cell(row: Row | None, best: float | None, notes: list[str]) -> str:
    if row is None:
        return ""
    if row.min_ms is None:
        note = f"{PEERS[row.engine].label}: {row.note}".replace("|", "/")
        if note not in notes:
            notes.append(note)
        return f"- [{notes.index(note) + 1}]"
    time = f"{row.min_ms:.3g}" if row.min_ms < 100 else f"{row.min_ms:.0f}"
    return f"{f'**{time}**' if row.min_ms == best else time} ({_power(row.error)})"


def _against(record: Record, ours: str, engine: str) -> float | None:
    mine, other = record.row(ours), record.row(engine)
    return other.min_ms / mine.min_ms if mine and other and mine.min_ms and other.min_ms else None


def _mean(ratios: Sequence[float | None]) -> str:
    found = [math.log(r) for r in ratios if r]
    return f"{math.exp(statistics.fmean(found)):.2f} ({len(found)})" if found else "-"


def threads(records: Sequence[Record]) -> str:
    """What two threads bring this engine, and its peers on the same machine."""
    found = scaling(records)
    if not found:
        return ""
    settings = list(dict.fromkeys(setting for setting, *_ in found))
    columns = {f"`{s}`": {model: up for setting, model, _, up in found if setting == s} for s in settings}
    for engine in SETTINGS["high"].peers:
        columns[PEERS[engine].label] = {model: up for s, model, _, up in scaling(records, engine) if s == "high"}
    columns = {name: cells for name, cells in columns.items() if cells}
    rows = ["## Two threads\n", "Time of one thread / time of two: of this engine by setting, of its peers in fp32.\n"]
    rows += ["| model | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for model in dict.fromkeys(model for _, model, *_ in found):
        cells = [f"{up[model]:.2f}" if model in up else "" for up in columns.values()]
        rows.append(f"| {model} | {' | '.join(cells)} |")
    for s in settings:
        long = [up for name, _, ms, up in found if name == s and ms >= LONG_MS]
        if long:
            rows.append(f"\n`{s}`: at least {min(long):.2f} on models above {LONG_MS:.0f} ms.")
    return "\n".join([*rows, ""])


def costs(records: Sequence[Record]) -> str:
    """Start, memory, and what the Python API adds, of the runs with one thread and batch 1 by the clock on the wall:
    beside neighbours a start says nothing."""
    chosen = [r for r in records if r.threads == 1 and r.batch == 1 and r.machine.get("clock", "wall") == "wall"]
    engines = [e for e in PEERS if any((x := r.row(e)) and x.min_ms for r in chosen)]
    if not chosen:
        return ""
    lines = [
        "## Start, memory, cost of the API\n",
        "Milliseconds from a started process, engine imported, to the first result (kernels and converted models "
        "cached) / peak resident MB.\n",
        "| model | " + " | ".join(PEERS[e].label for e in engines) + " | API adds, us |",
        "| --- |" + " ---: |" * (len(engines) + 1),
    ]
    for record in chosen:
        cells = [f"{r.first_ms:.0f} / {r.peak_mb:.0f}" if (r := record.row(e)) and r.first_ms else "" for e in engines]
        added = [r.overhead_ms * 1e3 for r in record.rows if r.overhead_ms is not None]
        lines.append(f"| {record.model} | {' | '.join(cells)} | {max(added):.0f} |" if added else
                     f"| {record.model} | {' | '.join(cells)} | - |")  # fmt: skip
    return "\n".join([*lines, ""])


def details(records: Sequence[Record]) -> str:
    """What engines say of themselves: precision, kernels."""
    said: dict[str, dict[str, None]] = {}
    for record in records:
        for row in record.rows:
            for key, value in row.details.items():
                if key != "kernels":
                    said.setdefault(PEERS[row.engine].label, {})[f"{key} {value}"] = None
                else:  # the first few models are enough
                    known = said.setdefault(PEERS[row.engine].label, {})
                    if sum(k.startswith("kernels") for k in known) < 2:
                        known[f"kernels of {record.model}: {value}"] = None
    lines = [f"- {label}: {'; '.join(facts)}" for label, facts in said.items()]
    return "\n".join(["## What engines report of themselves\n", *lines, ""]) if lines else ""


def commands(records: Sequence[Record]) -> str:
    """The commands that made the records."""
    made = dict.fromkeys(r.machine["command"] for r in records)
    setup = ["python -m pip install -e '.[benchmark]'", "python -m benchmarks.setup_peers"]
    return "\n".join(["## To reproduce\n", "```", *setup, *made, "```", ""])


def _count(line: Line) -> str:
    missing = f", none on {', '.join(line.missing)}" if line.missing else ""
    return f"{len(line.standings)}{missing}"


def _labels(names: Sequence[str]) -> str:
    return ", ".join(PEERS[n].label for n in names)


def _power(error: float | None) -> str:
    if error is None:
        return "?"
    return f"{error:.0e}" if error < WRONG else "wrong"
