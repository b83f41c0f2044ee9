"""The pictures of a comparison: ratios of all settings, and times and errors of all engines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .peers.catalog import PEERS
from .records import Record
from .settings import SETTINGS
from .summary import newest, summary


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install 'mnn-py[benchmark]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_summary(records: Sequence[Record], path: Path) -> None:
    """Best peer / ours for each model, one panel for each setting and number of threads; the line at 1 is a draw."""
    pyplot = _pyplot()
    lines = [line for line in summary(records) if line.batch == 1 and line.standings]
    panels = list(dict.fromkeys((line.setting.name, line.threads) for line in lines))
    if not panels:
        return
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(11, 2.6 * len(panels)), squeeze=False)
    for axis, (name, threads) in zip(axes[:, 0], panels, strict=True):
        here = [line for line in lines if (line.setting.name, line.threads) == (name, threads)]
        found = [(line, s) for line in here for s in line.standings]
        colours = [PEERS[line.setting.ours].colour if line.kind == "main" else "#999999" for line, _ in found]
        axis.bar(range(len(found)), [s.ratio - 1 for _, s in found], bottom=1, color=colours)
        axis.axhline(1, color="black", linewidth=0.8)
        for k, (_, s) in enumerate(found):
            axis.annotate(f"{s.ratio:.2f}", (k, max(s.ratio, 1)), ha="center", va="bottom", fontsize=6)
        models = [s.record.model for _, s in found]
        axis.set_xticks(range(len(found)), models, rotation=30, ha="right", fontsize="x-small")
        means = ", ".join(f"{line.kind} {line.mean:.2f}" for line in here)
        axis.set_title(f"{name}, {threads} thread{'s' * (threads > 1)}: geometric mean {means}", fontsize="small")
        axis.set_ylabel("best peer / ours", fontsize="x-small")
        ratios = [s.ratio for _, s in found]
        axis.set_ylim(min(0.8, min(ratios) - 0.05), max(1.5, max(ratios) * 1.1))
        axis.set_xlim(-0.8, max(len(found), 12) - 0.2)
        axis.grid(axis="y", alpha=0.25)
        axis.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_overview(records: Sequence[Record], path: Path) -> None:
    """Small: best peer / ours of the main networks at batch 1, a row a setting, a panel a number of threads. A dot is a
    network, a bar their geometric mean, the line at 1 a draw."""
    pyplot = _pyplot()
    lines = [line for line in summary(records) if line.kind == "main" and line.batch == 1 and line.standings]
    counts = sorted({line.threads for line in lines})
    names = list(dict.fromkeys(line.setting.name for line in lines))
    if not counts:
        return
    size = (4.6 * len(counts) + 0.6, 0.45 * len(names) + 1.0)
    figure, axes = pyplot.subplots(1, len(counts), figsize=size, squeeze=False, sharex=True, sharey=True)
    for axis, threads in zip(axes[0], counts, strict=True):
        for line in (line for line in lines if line.threads == threads):
            y, colour = names.index(line.setting.name), PEERS[line.setting.ours].colour
            axis.barh(y, line.mean - 1, left=1, height=0.6, color=colour, alpha=0.35)
            axis.plot([s.ratio for s in line.standings], [y] * len(line.standings), "o", color=colour, markersize=3.5)
            axis.annotate(f"{line.mean:.2f}", (line.mean, y - 0.42), ha="center", va="bottom", fontsize=7)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(f"{threads} thread{'s' * (threads > 1)}", fontsize="small")
        axis.set_xlabel("time of the best other engine / this engine's", fontsize="x-small")
        axis.tick_params(labelsize="small")
        axis.set_yticks(range(len(names)), names)
        axis.grid(axis="x", alpha=0.25)
        axis.set_axisbelow(True)
    axes[0][0].set_ylim(len(names) - 0.5, -0.85)
    axes[0][0].set_xlim(left=min(0.95, min(s.ratio for line in lines for s in line.standings) - 0.05))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_models(records: Sequence[Record], path: Path) -> None:
    """Grouped bars on logarithmic axes: times and, below, errors, for each number of threads at batch 1."""
    pyplot = _pyplot()
    found = {key: r for key, r in newest(records).items() if key[2] == 1}
    counts = sorted({key[1] for key in found})
    if not counts:
        return
    models_by = {n: list(dict.fromkeys(key[3] for key in found if key[1] == n)) for n in counts}
    settings = [s for s in SETTINGS.values() if any(key[0] == s.name for key in found)]
    engines = list(dict.fromkeys(e for s in settings for e in (s.ours, *s.peers)))
    size = (max(9.0, 1.3 * max(map(len, models_by.values())) + 2), 6.0 * len(counts))
    figure, axes = pyplot.subplots(2 * len(counts), 1, figsize=size, squeeze=False, height_ratios=[2, 1] * len(counts))
    width = 0.84 / len(engines)
    for k, (threads, models) in enumerate(models_by.items()):
        times, errors = axes[2 * k][0], axes[2 * k + 1][0]
        for e, engine in enumerate(engines):
            rows = [_row(found, threads, model, engine) for model in models]
            at = [m + (e - (len(engines) - 1) / 2) * width for m in range(len(models))]
            peer = PEERS[engine]
            heights = [r.min_ms if r and r.min_ms else math.nan for r in rows]
            times.bar(at, heights, width, color=peer.colour, label=peer.label)
            wrong = [r.error if r and r.error and math.isfinite(r.error) else math.nan for r in rows]
            errors.bar(at, wrong, width, color=peer.colour)
        _finish(times, models, f"minimum ms, {threads} thread{'s' if threads > 1 else ''}")
        _finish(errors, models, "error / largest output")
        times.legend(ncols=4, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _row(found: dict[tuple[str, int, int, str], Record], threads: int, model: str, engine: str) -> Any:
    for name, setting in SETTINGS.items():
        record = found.get((name, threads, 1, model))
        if engine in (setting.ours, *setting.peers) and record and record.row(engine):
            return record.row(engine)
    return None


def _finish(axis: Any, models: list[str], label: str) -> None:
    axis.set_yscale("log")
    axis.set_ylabel(label)
    axis.set_xticks(range(len(models)), models, rotation=20, ha="right", fontsize="small")
    axis.grid(axis="y", which="both", alpha=0.25)
    axis.set_axisbelow(True)
