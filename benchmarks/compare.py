"""Measures engines side by side: ``python -m benchmarks.compare --out DIR [--models main] [--threads 1,2] ...``.

Each engine runs in a process of its own, pinned to the same cores; the engines take turns over several rounds, so that
a change of the machine's mood meets all of them. Inputs are seeded noise of the model's own range, or images, sound
and text for trained models (``real:NAME``), never zeros. Every time stands beside the error against a float64 run of
the same graph.

One model with one number of threads and one batch is one record in ``DIR/records``; with ``--resume`` those that are
there are kept, so that a run can be made in pieces (``--limit`` ends one in time), and the records of several folders
can be merged (``--merge``; with ``--least``, runs of the same network too, engine by engine; ``--costs`` folders then
say what a start and a run cost besides time). Tables, plot and numbers are written to DIR after each record, and into
the documentation with ``--publish``. ``--prepare`` does beforehand what needs no quiet machine: exports, conversions,
references and compiled kernels. Set up the other engines first: ``python -m benchmarks.setup_peers``.

``--report --merge docs/benchmarks.json --publish`` writes the pages again without measuring.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from .architectures.catalog import ARCHITECTURES, GROUPS
from .driver import Conditions, Measurement, measure, outputs_of
from .models import Model, find, real_names
from .peers.catalog import PEERS, PLAIN, Peer
from .peers.convert import converted
from .peers.interface import UnavailableError
from .peers.worker import CLOCKS
from .records import Record, Row, combined, load, machine, save
from .reference import error, reference
from .report import publish, write
from .settings import SETTINGS, USUAL, engines_of
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


def compare_model(model: Model, peers: list[Peer], conditions: Conditions, work: Path) -> list[Row]:
    """Convert, measure and judge one model in every engine."""
    candidates, missing = [], {}
    for peer in peers:
        try:
            candidates.append((peer, converted(peer, model, work)))
        except UnavailableError as reason:
            missing[peer.name] = str(reason)
    found = {m.engine: m for m in measure(model, candidates, conditions, work)}
    for name, reason in missing.items():
        found[name] = Measurement(name, note=reason)
    if model.in_double:
        expected = reference(model, work)
    else:
        expected = {n: a.astype(np.float64) for n, a in outputs_of(model, PLAIN, work).items()}
    measured = [found[p.name] for p in peers]
    return [Row.of(m, error(m.outputs, expected, model.rows) if m.outputs else None) for m in measured]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", default="main", help=f"names, files, real:NAME, real, or {', '.join(GROUPS)}; known: "
        + ", ".join(ARCHITECTURES),
    )  # fmt: skip
    parser.add_argument(
        "--settings", default=",".join(USUAL), help=f"of {', '.join(SETTINGS)}, measured together; default %(default)s"
    )
    parser.add_argument("--engines", help=f"keep only these peers: {', '.join(PEERS)}, or families of them")
    parser.add_argument("--threads", default="1", help="numbers of threads, such as 1,2")
    parser.add_argument("--batch", default="1", help="batch sizes, such as 8,32")
    parser.add_argument("--sequence", type=int, default=128, help="tokens, for text models")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--turn", type=float, default=250.0, help="ms of a turn (two runs at least); default %(default)s"
    )
    parser.add_argument(
        "--clock", choices=sorted(CLOCKS), default="wall",
        help="time that passes, or time of the processor, for one thread on a machine with neighbours",
    )  # fmt: skip
    parser.add_argument("--cores", help="cores to pin to, such as 0,1; default the first ones")
    parser.add_argument(
        "--shape", action="append", default=[], help="input:1x3x224x224, for a file with open dimensions"
    )
    parser.add_argument("--resume", action="store_true", help="keep the records that DIR has")
    parser.add_argument("--limit", type=float, help="seconds after which no further record is begun")
    parser.add_argument("--prepare", action="store_true", help="export, convert, compute references; measure nothing")
    parser.add_argument("--report", action="store_true", help="only write tables and plot from the records")
    parser.add_argument("--least", action="store_true", help="of several runs, the minimum time of each engine counts")
    parser.add_argument("--merge", action="append", default=[], type=Path,
                        help="another DIR, or a published .json file, whose records count too")  # fmt: skip
    parser.add_argument(
        "--costs", action="append", default=[], type=Path, help="a DIR of which all but times counts, with --least"
    )
    parser.add_argument("--publish", action="store_true", help="write the tables into README.md and docs as well")
    parser.add_argument("--page", default="", help="of the documentation to publish, for a processor of its own: amx")
    parser.add_argument("--work", type=Path, help="folder of setup_peers")
    parser.add_argument("--out", type=Path, required=True, help="folder for records and report")
    return parser.parse_args()


def _shapes(given: list[str]) -> dict[str, tuple[int, ...]]:
    pairs = (item.rsplit(":", 1) for item in given)
    return {name: tuple(int(d) for d in extents.split("x")) for name, extents in pairs}


def _known(given: str, known: dict[str, object], what: str) -> list[str]:
    names = given.split(",")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SystemExit(f"unknown {what} {', '.join(unknown)}; known: {', '.join(known)}")
    return names


def _models(given: str) -> list[str]:
    groups = {**{k: list(v) for k, v in GROUPS.items()}, **({"real": real_names()} if "real" in given else {})}
    return [n for name in given.split(",") for n in groups.get(name, [name])]


def _prepare(model: Model, peers: list[Peer], conditions: Conditions, work: Path) -> None:
    """What takes long once: kernels and torch's code are compiled by one short run."""
    for row in compare_model(model, peers, conditions, work):
        if row.min_ms is None:
            print(row.line(), flush=True)


def _measure(options: argparse.Namespace, settings: list[str], folder: Path) -> None:
    chosen = None
    if options.engines:
        families: dict[str, object] = {n: None for p in PEERS.values() for n in (p.name, p.family)}
        chosen = set(_known(options.engines, families, "engine"))
    peers = engines_of([SETTINGS[s] for s in settings], chosen)
    work = work_folder(options.work)
    counts = [int(t) for t in options.threads.split(",")]
    if options.clock == "processor" and max(counts) > 1:
        raise SystemExit("--clock processor counts the time of all threads together: it measures one thread only")
    about = {**machine(), "clock": options.clock}
    end = time.monotonic() + options.limit if options.limit else float("inf")
    for threads in counts:
        conditions = Conditions(
            threads, cores_for(threads, options.cores), options.turn, options.rounds, clock=options.clock
        )
        for batch in [int(b) for b in options.batch.split(",")]:
            for name in _models(options.models):
                label = Path(name).stem if name.endswith(".onnx") else name
                empty = Record(label, threads, batch, tuple(settings), time.time(), about, ())
                if options.resume and not options.prepare and (folder / empty.file_name).is_file():
                    continue
                if time.monotonic() > end:
                    print("the limit is reached: go on with --resume")
                    return
                model = find(name, work, shapes=_shapes(options.shape), batch=batch, sequence=options.sequence)
                print(f"{name}, {threads} thread(s), batch {batch}", flush=True)
                if options.prepare:
                    _prepare(model, peers, Conditions(threads, conditions.cores, 0, 1), work)
                    continue
                rows = compare_model(model, peers, conditions, work)
                for row in rows:
                    print(row.line(), flush=True)
                save(Record(label, threads, batch, tuple(settings), time.time(), about, tuple(rows)), folder)


def main() -> None:
    options = arguments()
    settings = _known(options.settings, dict(SETTINGS), "setting")
    folder = options.out / "records"
    if not options.report:
        _measure(options, settings, folder)
    if options.prepare:
        return
    records = load([folder, *(m if m.is_file() else m / "records" for m in options.merge)])
    if not records:
        raise SystemExit(f"{folder} holds no records")
    if options.costs and not options.least:
        raise SystemExit("--costs goes with --least: what a start costs is the least of several runs")
    if options.least:
        records = combined(records, load([c / "records" for c in options.costs]))
    print(write(records, options.out))
    if options.publish:
        publish(records, page=options.page)


if __name__ == "__main__":
    main()
