"""What was measured, on disk: one JSON file for each model, number of threads and batch, so that runs can be merged."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .driver import Measurement
from .setup_peers import REPOSITORY

# instruction sets that decide how fast fp32, 16-bit and int8 arithmetic is
FEATURES = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
FEATURES_ARM = ("asimd", "asimdhp", "asimddp", "sve", "i8mm", "bf16")


@dataclass(frozen=True)
class Row:
    """One engine on one model; times are None where ``note`` says why. ``spread``: worst round's best / best of all."""

    engine: str
    version: str = ""
    min_ms: float | None = None
    median_ms: float | None = None
    spread: float | None = None
    load_ms: float | None = None
    first_ms: float | None = None
    peak_mb: float | None = None
    error: float | None = None
    overhead_ms: float | None = None
    runs: int = 0
    details: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @staticmethod
    def of(found: Measurement, error: float | None) -> Row:
        times = found.times_ms
        if not times:
            return Row(found.engine, found.version, note=found.note or "no result")
        best = [min(turn) for turn in found.rounds_ms]
        return Row(
            found.engine,
            found.version,
            min(times),
            statistics.median(times),
            max(best) / min(best),
            found.load_ms,
            found.first_ms,
            found.peak_mb,
            error,
            found.overhead_ms,
            len(times),
            found.details,
            found.note,
        )

    def line(self) -> str:
        if self.min_ms is None:
            return f"  {self.engine:17} - ({self.note})"
        error = "?" if self.error is None else f"{self.error:.1e}"
        extra = "" if self.overhead_ms is None else f"  API {self.overhead_ms * 1e3:+.0f} us"
        return (
            f"  {self.engine:17} min {self.min_ms:8.3f}  median {self.median_ms:8.3f} ms  spread {self.spread:.2f}  "
            f"error {error}  first {self.first_ms:6.0f} ms  peak {self.peak_mb:5.0f} MB{extra}"
        )


@dataclass(frozen=True)
class Record:
    """One interleaved run: all its rows may be compared with each other, and with no other's.

    ``settings``: names of the settings that it answers for.
    """

    model: str
    threads: int
    batch: int
    settings: tuple[str, ...]
    when: float
    machine: dict[str, Any]
    rows: tuple[Row, ...]

    def row(self, engine: str) -> Row | None:
        return next((r for r in self.rows if r.engine == engine), None)

    @property
    def file_name(self) -> str:
        model = "".join(c if c.isalnum() or c in "_-." else "-" for c in self.model)
        return f"{model}-t{self.threads}-b{self.batch}-{'+'.join(self.settings)}.json"


def save(record: Record, folder: Path) -> Path:
    """Writes a record under its name; the file is whole or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / record.file_name
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    os.replace(partial, target)
    return target


def load(places: Iterable[Path]) -> list[Record]:
    """All records of some folders, or of published files (``docs/benchmarks.json``), the newest last."""
    found = []
    for place in places:
        for file in [place] if place.is_file() else sorted(place.glob("*.json")):
            data = json.loads(file.read_text(encoding="utf-8"))
            found += [_record(one) for one in data.get("records", [data])]
    return sorted(found, key=lambda r: r.when)


def _record(data: dict[str, Any]) -> Record:
    rows = tuple(Row(**row) for row in data["rows"])
    return Record(**{**data, "settings": tuple(data["settings"]), "rows": rows})


def combined(records: Iterable[Record], costs: Iterable[Record] = ()) -> list[Record]:
    """One record for each network, threads and batch: of each engine the row of the run that it was fastest in, with
    the least of all runs for what else it costs. For machines with neighbours, where no single run is calm from
    beginning to end, and runs of which the first finds no kernels cached; it favours no engine.

    Of ``costs`` nothing else counts, so that not all engines need to be in them."""
    groups: dict[tuple[str, int, int], list[Record]] = {}
    beside: dict[tuple[str, int, int], list[Row]] = {}
    for record in records:
        groups.setdefault((record.model, record.threads, record.batch), []).append(record)
    for record in costs:
        beside.setdefault((record.model, record.threads, record.batch), []).extend(record.rows)
    found = []
    for key, group in groups.items():
        rows: dict[str, Row] = {}
        for row in (row for record in group for row in record.rows):
            had = rows.get(row.engine, row)
            rows[row.engine] = _cheaper(min(had, row, key=lambda r: r.min_ms or math.inf), (had, row))
        for row in beside.get(key, ()):
            if row.engine in rows:
                rows[row.engine] = _cheaper(rows[row.engine], (rows[row.engine], row))
        commits = sorted({r.machine["commit"] for r in group if r.machine["commit"]})
        about = {**group[-1].machine, "commit": ", ".join(commits), "runs": len(group)}
        settings = tuple(dict.fromkeys(s for record in group for s in record.settings))
        found.append(replace(group[-1], settings=settings, machine=about, rows=tuple(rows.values())))
    return found


def _cheaper(row: Row, runs: Sequence[Row]) -> Row:
    """A row with the least of ``runs`` for all but its time."""
    names = ("load_ms", "first_ms", "peak_mb", "overhead_ms")
    given = {name: [v for r in runs if (v := getattr(r, name)) is not None] for name in names}
    return replace(row, **{name: min(values, default=None) for name, values in given.items()})


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, its features, cores, system, commit, and the command."""
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
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d"),
        "command": re.sub(
            r"--(out|merge) \S+", r"--\1 results", shlex.join(["python", "-m", "benchmarks.compare", *sys.argv[1:]])
        ),
    }


def _commit() -> str:
    """The commit of this checkout; empty outside of one."""
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or a copy without history: the report goes without
        return ""
