"""Ratios: for every setting, number of threads and batch, how this engine stands beside the best of its peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .architectures.catalog import FURTHER, MAIN
from .records import Record, Row
from .settings import SETTINGS, WRONG, Setting

KINDS = {
    "main": "the 13 networks of the benchmark",
    "further": "networks outside that list",
    "other": "trained models (`real:`) and files given by name",
}


@dataclass(frozen=True)
class Standing:
    """One model in one setting: ``ratio`` is the best peer's minimum over ours (above 1: ours is faster)."""

    record: Record
    ours: Row
    best: Row
    ratio: float
    in_bounds: bool | None


@dataclass(frozen=True)
class Line:
    """One line of the summary."""

    setting: Setting
    threads: int
    batch: int
    kind: str
    standings: tuple[Standing, ...]
    missing: tuple[str, ...]
    """Models on which this engine, or every peer, gave no result."""

    @property
    def mean(self) -> float:
        """Geometric mean of the ratios."""
        return math.exp(statistics.fmean(math.log(s.ratio) for s in self.standings))

    @property
    def lowest(self) -> Standing:
        return min(self.standings, key=lambda s: s.ratio)

    @property
    def worst_error(self) -> Standing:
        return max(self.standings, key=lambda s: s.ours.error or 0.0)


def kind_of(model: str) -> str:
    return "main" if model in MAIN else "further" if model in FURTHER else "other"


def newest(records: Sequence[Record]) -> dict[tuple[str, int, int, str], Record]:
    """By setting, threads, batch and model the newest record that answers for it. ``records``: the newest last."""
    found = {(s, r.threads, r.batch, r.model): r for r in records for s in r.settings}
    order = [*MAIN, *FURTHER]
    place = {m: k for k, m in enumerate(order)}
    settings = list(SETTINGS)
    return dict(
        sorted(found.items(), key=lambda i: (i[0][1], i[0][2], settings.index(i[0][0]), place.get(i[0][3], len(order))))
    )


def standing(record: Record, setting: Setting) -> Standing | None:
    """None when ours has no result, or no peer has a right one. A wrong one of ours counts, out of bounds."""
    ours = record.row(setting.ours)
    peers = [r for r in (record.row(p) for p in setting.peers) if r is not None and r.min_ms and _right(r)]
    if ours is None or not ours.min_ms or ours.error is None or not peers:
        return None
    best = min(peers, key=lambda r: r.min_ms or math.inf)
    assert best.min_ms is not None
    onnxruntime = record.row("onnxruntime")
    bounds = setting.in_bounds(ours.error, onnxruntime.error if onnxruntime else None)
    return Standing(record, ours, best, best.min_ms / ours.min_ms, bounds)


def _right(row: Row) -> bool:
    return row.error is not None and row.error < WRONG


def summary(records: Sequence[Record]) -> list[Line]:
    """All lines for which there are records."""
    lines: dict[tuple[str, int, int, str], list[Standing | str]] = {}
    for (name, threads, batch, model), record in newest(records).items():
        key = (name, threads, batch, kind_of(model))
        lines.setdefault(key, []).append(standing(record, SETTINGS[name]) or model)
    ordered = sorted(lines.items(), key=lambda item: list(KINDS).index(item[0][3]))
    return [
        Line(
            SETTINGS[n],
            t,
            b,
            kind,
            tuple(s for s in found if isinstance(s, Standing)),
            tuple(m for m in found if isinstance(m, str)),
        )
        for (n, t, b, kind), found in ordered
    ]


def scaling(records: Sequence[Record], engine: str = "") -> list[tuple[str, str, float, float]]:
    """(setting, model, one thread's ms, speed-up of two) of an engine, this one at first, wherever both were
    measured."""
    found = newest(records)
    result = []
    for (name, threads, batch, model), record in found.items():
        two = found.get((name, 2, batch, model))
        if threads != 1 or batch != 1 or two is None:
            continue
        a, b = (r.row(engine or SETTINGS[name].ours) for r in (record, two))
        if a and b and a.min_ms and b.min_ms:
            result.append((name, model, a.min_ms, a.min_ms / b.min_ms))
    return result
