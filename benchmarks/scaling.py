"""What a second thread brings: this engine and its peers with one thread and with two, all of them taking turns.

    python -m benchmarks.scaling --models resnet50,bert_base
    python -m benchmarks.scaling --json scaling.json --publish    # to docs/threads.md
    python -m benchmarks.scaling --json scaling.json --publish --page amx    # to docs/threads-amx.md

Runs of one thread and of two that were made at different times are hardly comparable where a machine has neighbours.
Here both are in one run: every round has a turn of each, in rotating order, and the processes that wait are stopped.
What was measured in ``--json`` is kept for networks that are not named, and counts with those that are: the minimum
of several runs counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from .architectures.catalog import ARCHITECTURES
from .compare import cores_for
from .driver import Conditions, Measurement, measure
from .models import find
from .peers.catalog import PEERS, Peer
from .peers.convert import converted
from .peers.interface import UnavailableError
from .records import machine
from .setup_peers import REPOSITORY, work_folder
from .tables import LONG_MS

MODELS = ("resnet50", "inception_v3", "yolov8n_like", "vit_b16", "bert_base")
"""Networks of the benchmark that take some 20 ms or more with one thread."""
ENGINES = ("mnn-high", "mnn-normal", "mnn-low", "mnn-avx2", "onnxruntime", "openvino", "openvino-default")
TEAMS = (1, 2)


def measure_model(name: str, engines: list[Peer], work: Path, turn_ms: float, rounds: int) -> list[dict[str, Any]]:
    """The rows of one network: of each engine, what :func:`row` says."""
    model, candidates, each = find(name, work), [], []
    for peer in engines:
        try:
            file = converted(peer, model, work)
        except UnavailableError as reason:
            print(f"  {peer.label}: {reason}")
            continue
        for threads in TEAMS:
            candidates.append((peer, file))
            each.append(Conditions(threads, cores_for(threads, None), turn_ms, rounds))
    found = measure(model, candidates, each[0], work, each)
    pairs = [(a, b) for a, b in zip(found[::2], found[1::2], strict=True) if a.times_ms and b.times_ms]
    return [row(name, one, two) for one, two in pairs]


def row(name: str, one: Measurement, two: Measurement) -> dict[str, Any]:
    """Minimum times in ms, and the ratios of the minimum times of each round."""
    ratios = [min(a) / min(b) for a, b in zip(one.rounds_ms, two.rounds_ms, strict=True)]
    here = machine()
    return {
        "model": name, "engine": one.engine, "one_ms": min(one.times_ms), "two_ms": min(two.times_ms),
        "rounds": ratios, "commit": here["commit"],
        "processor": f"{here['processor']} ({', '.join(here['features'])})",
    }  # fmt: skip


def together(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Two runs of the same engine on the same network."""
    least = {key: min(old[key], new[key]) for key in ("one_ms", "two_ms")}
    commits = dict.fromkeys([*old["commit"].split(", "), new["commit"]])
    return {**new, **least, "rounds": old["rounds"] + new["rounds"], "commit": ", ".join(commits)}


def ratio(found: dict[str, Any]) -> float:
    return float(found["one_ms"] / found["two_ms"])


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| model | engine | one thread, ms | two, ms | ratio | rounds: quartiles |",
        "| --- | --- |" + " ---: |" * 4,
    ]
    for found in rows:
        low, _, high = statistics.quantiles(found["rounds"], n=4) if len(found["rounds"]) > 1 else [ratio(found)] * 3
        lines.append(
            f"| {found['model']} | {PEERS[found['engine']].label} | {found['one_ms']:.2f} | {found['two_ms']:.2f} | "
            f"**{ratio(found):.2f}** | {low:.2f} to {high:.2f} |"
        )
    return "\n".join(lines)


def page(rows: list[dict[str, Any]], name: str) -> str:
    """docs/threads.md, or that of a processor of its own."""
    order = list(ARCHITECTURES)
    rows = sorted(rows, key=lambda r: (order.index(r["model"]), list(PEERS).index(r["engine"])))
    written = f"Written by `python -m benchmarks.scaling --publish{f' --page {name}' if name else ''}`."
    commits = ", ".join(dict.fromkeys(c for r in rows for c in r["commit"].split(", ")))
    said = [f"{p}, at commit {commits}." for p in dict.fromkeys(r["processor"] for r in rows)]
    ours = [r for r in rows if PEERS[r["engine"]].family == "mnn-py" and r["one_ms"] >= LONG_MS]
    least = [
        f"{PEERS[engine].label}: at least {min(ratio(r) for r in ours if r['engine'] == engine):.2f} on networks above "
        f"{LONG_MS:.0f} ms."
        for engine in dict.fromkeys(r["engine"] for r in ours)
    ]
    notes = (
        "Time with one thread / time with two, batch 1: of minimum times, and the quartiles of the same in each round "
        "of turns. One thread is pinned to one core, two to two; processes take turns within one run. Measured on a "
        "virtual machine of two processors with neighbours: two threads only show what they can when both are calm, "
        "which is why rounds differ."
    )
    return "\n\n".join(["# One thread and two", written, *said, table(rows), "  \n".join(least), notes]) + "\n"


def main() -> None:
    options = arguments()
    work = work_folder(options.work)
    kept: Path | None = options.json
    rows = {(r["model"], r["engine"]): r for r in json.loads(kept.read_text())} if kept and kept.exists() else {}
    engines = [PEERS[e] for e in options.engines.split(",")]
    for name in filter(None, options.models.split(",")):
        print(name, flush=True)
        for found in measure_model(name, engines, work, options.turn, options.rounds):
            key = found["model"], found["engine"]
            rows[key] = together(rows[key], found) if key in rows else found
            print(table([found]).splitlines()[-1], flush=True)
        if kept is not None:
            kept.write_text(json.dumps(list(rows.values()), indent=1), encoding="utf-8")
    if options.publish and not rows:
        raise SystemExit("nothing was measured: name networks, or a file of --json that has them")
    if options.publish:
        file = f"threads-{options.page}.md" if options.page else "threads.md"
        (REPOSITORY / "docs" / file).write_text(page(list(rows.values()), options.page), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="default: %(default)s; may be empty")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--turn", type=float, default=300.0, help="ms of a turn; default %(default)s")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    parser.add_argument("--publish", action="store_true", help="write docs/threads.md")
    parser.add_argument("--page", default="", help="of the documentation, for a processor of its own: amx")
    parser.add_argument("--work", type=Path, help="folder of setup_peers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
