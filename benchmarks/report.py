"""Tables, JSON and plot of a comparison."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .driver import Measurement, Settings
from .peers.catalog import PEERS

# instruction sets that decide how fast fp32, 16-bit and int8 arithmetic is
FEATURES = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
FEATURES_ARM = ("asimd", "asimdhp", "asimddp", "sve", "i8mm", "bf16")


@dataclass(frozen=True)
class Row:
    """One engine on one model; times are None where ``note`` says why. ``spread``: worst round's best / best of all."""

    model: str
    engine: str
    version: str
    threads: int
    precision: str
    min_ms: float | None
    median_ms: float | None
    spread: float | None
    load_ms: float | None
    first_ms: float | None
    peak_mb: float | None
    error: float | None
    note: str

    @staticmethod
    def of(model: str, settings: Settings, found: Measurement, error: float | None) -> Row:
        times = found.times_ms
        if not times:
            note = found.note or "no result"
            return Row(model, found.engine, found.version, settings.threads, settings.precision, *[None] * 7, note)
        best = [min(turn) for turn in found.rounds_ms]
        return Row(
            model,
            found.engine,
            found.version,
            settings.threads,
            settings.precision,
            min(times),
            statistics.median(times),
            max(best) / min(best),
            found.load_ms,
            found.first_ms,
            found.peak_mb,
            error,
            found.note,
        )

    def line(self) -> str:
        start = f"{self.model:20} {self.threads} thread(s) {self.engine:14}"
        if self.min_ms is None:
            return f"{start} - ({self.note})"
        return (
            f"{start} min {self.min_ms:8.2f} ms  median {self.median_ms:8.2f} ms  error {_power(self.error)}  "
            f"first {self.first_ms:7.0f} ms  peak {self.peak_mb:5.0f} MB"
        )


@dataclass
class Report:
    machine: dict[str, Any]
    rows: list[Row]


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, its features, cores, system, and the command."""
    features: list[str] = []
    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        values = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        keys = {k.strip(): v.strip() for k, v in values.items()}
        name = keys.get("model name", name)
        present = set((keys.get("flags") or keys.get("Features") or "").split())
        features = [f for f in (*FEATURES, *FEATURES_ARM) if f in present]
    return {
        "processor": name,
        "features": features,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": shlex.join(["python", "-m", "benchmarks.compare", *sys.argv[1:]]),
    }


def write(report: Report, folder: Path) -> None:
    """``compare.json``, ``compare.md`` and ``compare.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"machine": report.machine, "rows": [asdict(r) for r in report.rows]}
    (folder / "compare.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (folder / "compare.md").write_text(markdown(report), encoding="utf-8")
    from .plot import draw

    draw(report.rows, folder / "compare.png")


def markdown(report: Report) -> str:
    """One table for each number of threads, errors under the times, footnotes for what could not be measured."""
    m = report.machine
    parts = [
        f"Processor: {m['processor']} ({', '.join(m['features'])}), {m['cores']} cores, {m['system']}. "
        f"Made by `{m['command']}`.\n"
    ]
    for threads in sorted({r.threads for r in report.rows}):
        parts.append(_table([r for r in report.rows if r.threads == threads], threads))
    return "\n".join(parts)


def _table(rows: list[Row], threads: int) -> str:
    engines = list(dict.fromkeys(r.engine for r in rows))
    models = list(dict.fromkeys(r.model for r in rows))
    cell = {(r.model, r.engine): r for r in rows}
    notes: list[str] = []
    versions = {r.engine: r.version for r in rows if r.version}
    heads = [f"{PEERS[e].label} {versions.get(e, '')}".strip() for e in engines]
    lines = [
        f"### {threads} thread{'s' if threads > 1 else ''}, precision `{rows[0].precision}`: "
        "minimum ms (largest error / largest output, against float64)\n",
        "| model | " + " | ".join(heads) + " |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for model in models:
        known = [cell[model, e].min_ms for e in engines if (model, e) in cell]
        best = min((t for t in known if t is not None), default=None)
        cells = [_cell(cell.get((model, e)), best, notes) for e in engines]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    base = engines[0]
    means = [_mean_ratio(cell, models, base, e) for e in engines]
    lines.append(f"| geometric mean, relative to {PEERS[base].label} | " + " | ".join(means) + " |")
    lines += ["", *(f"[{k}] {note}  " for k, note in enumerate(notes, 1)), ""]
    return "\n".join(lines)


def _cell(row: Row | None, best: float | None, notes: list[str]) -> str:
    if row is None:
        return ""
    if row.min_ms is None:
        note = f"{PEERS[row.engine].label}: {row.note}"
        if note not in notes:
            notes.append(note)
        return f"- [{notes.index(note) + 1}]"
    time = f"{row.min_ms:.3g}" if row.min_ms < 100 else f"{row.min_ms:.0f}"
    return f"{f'**{time}**' if row.min_ms == best else time} ({_power(row.error)})"


def _mean_ratio(cell: dict[tuple[str, str], Row], models: list[str], base: str, engine: str) -> str:
    """Geometric mean of time / time of ``base`` over the models that both ran."""
    logs = []
    for model in models:
        mine, other = cell.get((model, base)), cell.get((model, engine))
        if mine and other and mine.min_ms and other.min_ms:
            logs.append(math.log(other.min_ms / mine.min_ms))
    return f"{math.exp(statistics.fmean(logs)):.2f} ({len(logs)})" if logs else "-"


def _power(error: float | None) -> str:
    if error is None:
        return "?"
    return f"{error:.0e}" if math.isfinite(error) else "wrong"
