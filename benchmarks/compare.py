"""Measures engines side by side: ``python -m benchmarks.compare [--models a,b] [--threads 1] [--precision high] ...``.

Each engine runs in a process of its own, pinned to the same cores; the engines take turns over several rounds, so that
a change of the machine's mood meets all of them. Inputs are seeded noise of the model's own range, never zeros. Every
time stands beside the error against a float64 run of the same graph. Writes ``compare.md``, ``compare.json`` and
``compare.png`` to ``--out``. Set up the other engines first: ``python -m benchmarks.setup_peers``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .architectures.catalog import ARCHITECTURES
from .driver import Measurement, Settings, measure
from .models import Model, find
from .peers.catalog import PEERS, PRECISIONS, Peer
from .peers.convert import converted
from .peers.interface import UnavailableError
from .reference import error, reference
from .report import Report, Row, machine, write
from .setup_peers import work_folder


def cores_for(threads: int, chosen: str | None) -> tuple[int, ...]:
    """The cores to pin to: those given, else the first that this process may use."""
    if chosen:
        return tuple(int(c) for c in chosen.split(","))
    if not hasattr(os, "sched_getaffinity"):
        return ()
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < threads:
        raise SystemExit(f"{threads} threads asked for, but this process may use {len(allowed)} cores")
    return tuple(allowed[:threads])


def compare_model(model: Model, peers: list[Peer], settings: Settings, work: Path) -> list[Row]:
    """Convert, measure and judge one model in every engine."""
    candidates, missing = [], {}
    for peer in peers:
        if settings.precision not in peer.precisions:
            missing[peer.name] = f"has no {settings.precision} precision"
            continue
        try:
            candidates.append((peer, converted(peer, model, work)))
        except UnavailableError as reason:
            missing[peer.name] = str(reason)
    found = {m.engine: m for m in measure(model, candidates, settings, work)}
    for name, reason in missing.items():
        found[name] = Measurement(name, note=reason)
    expected = reference(model, work)
    return [
        Row.of(
            model.name,
            settings,
            found[p.name],
            error(found[p.name].outputs, expected) if found[p.name].outputs else None,
        )
        for p in peers
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help=f"names or .onnx files; default all of {', '.join(ARCHITECTURES)}")
    parser.add_argument("--engines", help=f"default all of {', '.join(PEERS)}")
    parser.add_argument("--threads", default="1", help="numbers of threads, such as 1,2")
    parser.add_argument("--precision", default="high", choices=PRECISIONS)
    parser.add_argument("--runs", type=int, default=10, help="timed runs of each engine a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", help="cores to pin to, such as 0,1; default the first ones")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128, help="tokens, for text models")
    parser.add_argument(
        "--shape", action="append", default=[], help="input:1x3x224x224, for a file with open dimensions"
    )
    parser.add_argument("--work", type=Path, help="folder of setup_peers")
    parser.add_argument("--out", type=Path, required=True, help="folder for the report")
    return parser.parse_args()


def _shapes(given: list[str]) -> dict[str, tuple[int, ...]]:
    pairs = (item.rsplit(":", 1) for item in given)
    return {name: tuple(int(d) for d in extents.split("x")) for name, extents in pairs}


def main() -> None:
    options = arguments()
    work = work_folder(options.work)
    names = options.models.split(",") if options.models else list(ARCHITECTURES)
    engines = options.engines.split(",") if options.engines else list(PEERS)
    unknown = [e for e in engines if e not in PEERS]
    if unknown:
        raise SystemExit(f"unknown engine {', '.join(unknown)}; known: {', '.join(PEERS)}")
    peers = [PEERS[e] for e in engines]
    report = Report(machine(), [])
    for threads in [int(t) for t in options.threads.split(",")]:
        settings = Settings(threads, options.precision, cores_for(threads, options.cores), options.runs, options.rounds)
        for name in names:
            model = find(name, work, shapes=_shapes(options.shape), batch=options.batch, sequence=options.sequence)
            rows = compare_model(model, peers, settings, work)
            report.rows += rows
            for row in rows:
                print(row.line(), flush=True)
            write(report, options.out)  # after each model, so that a long run leaves something if stopped
    print(f"wrote {options.out / 'compare.md'}, compare.json and compare.png")


if __name__ == "__main__":
    main()
