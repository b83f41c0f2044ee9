"""The picture of a comparison: times of all engines, and their errors below."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from .peers.catalog import PEERS

if TYPE_CHECKING:
    from .report import Row


def draw(rows: list[Row], path: Path) -> None:
    """Grouped bars on logarithmic axes, one pair of panels for each number of threads."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install 'mnn-py[benchmark]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({r.threads for r in rows})
    models = list(dict.fromkeys(r.model for r in rows))
    engines = list(dict.fromkeys(r.engine for r in rows))
    size = (max(8.0, 1.2 * len(models) + 2), 6.0 * len(counts))
    figure, axes = pyplot.subplots(2 * len(counts), 1, figsize=size, squeeze=False, height_ratios=[2, 1] * len(counts))
    width = 0.8 / len(engines)
    for k, threads in enumerate(counts):
        cell = {(r.model, r.engine): r for r in rows if r.threads == threads}
        times, errors = axes[2 * k][0], axes[2 * k + 1][0]
        for e, engine in enumerate(engines):
            at = [m + (e - (len(engines) - 1) / 2) * width for m in range(len(models))]
            found = [cell.get((m, engine)) for m in models]
            peer = PEERS[engine]
            times.bar(
                at,
                [r.min_ms if r and r.min_ms else math.nan for r in found],
                width,
                color=peer.colour,
                label=peer.label,
            )
            finite = [r.error if r and r.error and math.isfinite(r.error) else math.nan for r in found]
            errors.bar(at, finite, width, color=peer.colour)
        _finish(
            times, models, f"minimum ms, {threads} thread{'s' if threads > 1 else ''}, {rows[0].precision} precision"
        )
        _finish(errors, models, "error / largest output")
        times.legend(ncols=3, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _finish(axis, models: list[str], label: str) -> None:  # type: ignore[no-untyped-def]
    axis.set_yscale("log")
    axis.set_ylabel(label)
    axis.set_xticks(range(len(models)), models, rotation=20, ha="right", fontsize="small")
    axis.grid(axis="y", which="both", alpha=0.25)
    axis.set_axisbelow(True)
