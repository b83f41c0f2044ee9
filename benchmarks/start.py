"""What comes before and beside speed: start-up, memory, and changes of the input's size, beside ONNX Runtime and
OpenVINO.

    python -m benchmarks.start                      # the 13 networks of the benchmark
    python -m benchmarks.start --models resnet50 --threads 2 --json start.json
    python -m benchmarks.start --models --json start.json --publish    # what was measured before, to docs/start.md
    python -m benchmarks.start --models --json start.json --publish --page amx    # to docs/start-amx.md

Every figure comes from a fresh process, which this file is as well (``start.py --child ...``). "First result" counts
from the start of the process to the numbers of the first inference, less what a process takes that runs nothing; cold
is with an empty cache folder, warm is a start after that. A change of size is the first run at a new size less a usual
run at it: over sizes that are new, then over as many changes among them as asked for. Networks for one size of images
change the batch. All is measured in several rounds, engines in turns: the minimum time counts, and the most memory.

The networks are named on the command line, and what was measured in ``--json`` is kept for those that are not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the parent's modules: what a child imports counts as its engine's memory
    import argparse

TOKENS = [128, 200, *range(136, 168, 8), *range(32, 128, 8), 224, 256]
SIZES = {
    "bert_base": TOKENS,
    "distilbert": TOKENS,
    "vit_tiny": [1, 2, 3, 4, 5, 6],
    "vit_b16": [1, 2, 3, 4],
    "yolov8n_like": [1, 2, 3, 4],
}
PICTURES = {"vit_tiny": 224, "vit_b16": 224, "yolov8n_like": 640}
"""Networks for one size of images, and that: their batch changes."""
IMAGES = [224, 320, *range(128, 224, 32), *range(232, 320, 8), 192, 352, 384, 416]


def sizes(model: str, count: int) -> list[int]:
    """At most 20 sizes; the first two are those that models are usually measured at."""
    return list(dict.fromkeys(SIZES.get(model, IMAGES)))[:count]


def resident(peak: bool) -> float:
    """MB (10^6 bytes) resident now, or the most ever."""
    wanted = "VmHWM" if peak else "VmRSS"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"no {wanted} in /proc/self/status; this benchmark needs Linux")


# -- the child: one engine, one model, one process ------------------------------------------------------------------


def child(engine: str, model: str, path: str, threads: int, changes: int, count: int) -> dict[str, Any]:
    """Runs in a process of its own; imports nothing before it needs it."""
    import numpy as np

    def noise(count: int) -> Any:
        """Numbers from 0 to 1, by multiplicative hashing: numpy.random would add to what is measured."""
        mixed = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(2654435761)
        return ((mixed ^ (mixed >> 15)) * np.uint32(2246822519) >> 8) / 2.0**24

    def feeds(size: int) -> dict[str, Any]:
        if "bert" in model:
            ids = (noise(size) * 1000).astype(np.int64).reshape(1, size)
            names = ("input_ids", "attention_mask", "token_type_ids")[: 2 if model == "distilbert" else 3]
            return dict(zip(names, (ids, np.ones((1, size), np.int64), np.zeros((1, size), np.int64)), strict=False))
        if model in PICTURES:
            pixels = 4 * noise(size * 3 * PICTURES[model] ** 2) - 2
            return {"input": pixels.reshape(size, 3, PICTURES[model], PICTURES[model]).astype(np.float32)}
        return {"input": (4 * noise(3 * size * size) - 2).reshape(1, 3, size, size).astype(np.float32)}

    begin = time.perf_counter()
    run, note = {"ours": _ours, "onnxruntime": _onnxruntime, "openvino": _openvino}[engine](path, threads)
    first = feeds(sizes(model, 1)[0])
    run(first)
    found: dict[str, Any] = {"at": time.time(), "peak": resident(True), "engine_s": time.perf_counter() - begin}
    if changes < 0:
        return found
    usual: dict[int, float] = {}
    fresh: dict[int, float] = {}
    compiled: dict[int, int] = {}
    data = {size: feeds(size) for size in sizes(model, count)}
    for size, arrays in data.items():
        before = note()
        fresh[size] = _timed(run, arrays)
        compiled[size] = note() - before
        usual[size] = min(_timed(run, arrays) for _ in range(2))
    found.update(fresh_s=fresh, usual_s=usual, compiled=compiled)
    start, before = resident(False), note()
    order = np.resize(sizes(model, count), changes)[np.argsort(noise(changes))]
    for size in order:
        run(data[int(size)])
    found.update(grown=resident(False) - start, changes=int(changes), compiled_again=note() - before)
    return found


def _timed(run: Any, arrays: dict[str, Any]) -> float:
    start = time.perf_counter()
    run(arrays)
    return time.perf_counter() - start


def _ours(path: str, threads: int) -> tuple[Any, Any]:
    import MNN

    model = MNN.load(path, threads=threads)

    def compiled() -> int:
        from MNN.backends.cpu.codegen.library import shared_library

        return shared_library(True).compiled

    return model.run, compiled


def _onnxruntime(path: str, threads: int) -> tuple[Any, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda arrays: session.run(None, arrays), lambda: 0


def _openvino(path: str, threads: int) -> tuple[Any, Any]:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if "MNN_CACHE_DIR" in os.environ:
        settings["CACHE_DIR"] = os.environ["MNN_CACHE_DIR"] + "-openvino"
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    return request.infer, lambda: 0


# -- the parent -----------------------------------------------------------------------------------------------------


def prepare(name: str, work: Path, onnx_path: Path) -> dict[str, Path]:
    """The model with open sizes as .onnx and .mnn in the work folder."""
    import onnx

    from MNN.converter import Options, convert

    paths = {"onnxruntime": work / f"{name}_open.onnx", "ours": work / f"{name}_open.mnn"}
    paths["openvino"] = paths["onnxruntime"]
    if not paths["onnxruntime"].exists():
        model = onnx.load(onnx_path)
        for value in model.graph.input:
            dims = value.type.tensor_type.shape.dim
            if len(dims) == 4 and name not in PICTURES:
                dims[2].dim_param, dims[3].dim_param = "height", "width"
        onnx.save(model, paths["onnxruntime"])
    if not paths["ours"].exists():
        convert(paths["onnxruntime"], paths["ours"], Options())
    return paths


def spawn(python: str, arguments: list[str], cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds since before the process was started until the time that it says, and what it says."""
    import subprocess

    root = Path(__file__).parents[1]
    environment = {**os.environ, "MNN_CACHE_DIR": str(cache), "PYTHONPATH": str(root / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(cache.parent / "pycache"))
    start = time.time()
    done = subprocess.run([python, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    return said["at"] - start, said


def bare(python: str, cache: Path, statement: str = "pass") -> float:
    """Seconds of a process that does next to nothing, at the least."""
    code = f"{statement}\nimport time; print('{{\"at\": %r}}' % time.time())"
    return min(spawn(python, ["-c", code], cache)[0] for _ in range(7))


def measure(
    name: str, paths: dict[str, Path], pythons: dict[str, str], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """One row per engine; raises ``SystemExit`` where a process of one fails."""
    import tempfile

    from benchmarks.records import machine

    here = machine()
    first: dict[str, list[tuple[float, dict[str, Any]]]] = {engine: [] for engine in pythons}
    later: dict[str, list[tuple[float, dict[str, Any]]]] = {engine: [] for engine in pythons}
    many: dict[str, list[dict[str, Any]]] = {engine: [] for engine in pythons}
    with tempfile.TemporaryDirectory() as folder:
        starts = {engine: bare(python, Path(folder) / "none") for engine, python in pythons.items()}
        turns = [(turn, engine, python) for turn in range(-1, args.rounds) for engine, python in pythons.items()]
        for turn, engine, python in turns:
            words = [__file__, "--child", engine, name, str(paths[engine]), str(args.threads)]
            caches = [Path(folder) / f"{kind}{turn}" for kind in ("start", "sizes")]
            once = spawn(python, [*words, "-1", "1"], caches[0])
            if turn < 0:  # byte code is compiled when a package is installed, not when it starts
                continue
            first[engine].append(once)
            later[engine] += [spawn(python, [*words, "-1", "1"], caches[0]) for _ in range(args.repeats)]
            many[engine].append(spawn(python, [*words, str(args.changes), str(args.sizes)], caches[1])[1])
    return [
        {
            "model": name, "engine": engine, "weights_mb": paths[engine].stat().st_size / 1e6,
            "cold_s": min(t for t, _ in first[engine]) - starts[engine],
            "warm_s": min(t for t, _ in later[engine]) - starts[engine],
            "cold_mb": max(said["peak"] for _, said in first[engine]),
            "warm_mb": max(said["peak"] for _, said in later[engine]),
            **changes(many[engine]),
            "processor": f"{here['processor']} ({', '.join(here['features'])})", "commit": here["commit"],
        }
        for engine in pythons
    ]  # fmt: skip


def changes(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What changes of size cost, of the same in several processes: the minimum time of each size, else the most."""
    import statistics

    first, *later = rounds[0]["usual_s"]
    least = {
        kind: {size: min(said[kind][size] for said in rounds) for size in later} for kind in ("fresh_s", "usual_s")
    }
    new = [1e3 * (least["fresh_s"][size] - least["usual_s"][size]) for size in later]
    compiled = [max(said["compiled"][size] for said in rounds) for size in (first, *later)]
    return {
        "second_size_ms": new[0], "new_size_ms": statistics.median(new),
        "compiled": sum(compiled), "compiled_later": sum(compiled[1:]),
        "compiled_again": max(said["compiled_again"] for said in rounds),
        "grown_mb": max(said["grown"] for said in rounds), "changes": rounds[0]["changes"],
    }  # fmt: skip


HEADS = {
    "model": "model", "engine": "engine", "cold_s": "cold s", "warm_s": "warm s", "cold_mb": "peak MB cold",
    "warm_mb": "peak MB warm", "second_size_ms": "2nd size ms", "new_size_ms": "new size ms (median)",
    "compiled_later": "compiled", "grown_mb": "MB grown",
}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = ["| " + " | ".join(HEADS.values()) + " |", "|" + " --- |" * len(HEADS)]
    for row in rows:
        cells = [f"{row[k]:.3g}" if isinstance(row[k], float) and row[k] < 100 else f"{row[k]:.0f}"
                 if isinstance(row[k], float) else str(row[k]) for k in HEADS]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(rows: list[dict[str, Any]], name: str) -> str:
    """docs/start.md, or that of a processor of its own."""
    from benchmarks.architectures.catalog import ARCHITECTURES

    order = list(ARCHITECTURES)
    rows = sorted(rows, key=lambda row: order.index(row["model"]))
    notes = (
        "cold: empty cache folder; warm: a later start, of OpenVINO with its model cache. Both are seconds until the "
        "first result, beyond what Python itself needs. Peak: the most that was ever resident, in MB "
        "(10^6 bytes). 2nd size: what the first run at 320 instead of 224 pixels, or 200 instead of 128 tokens (ViT "
        "and YOLO: 2 samples instead of 1), takes longer than later runs there; new size: the median of the same "
        "over more sizes. Compiled: kernels that sizes after the first needed anew; MB grown: "
        "resident memory over random changes among these sizes. Kernels are compiled on all processors. Of several "
        "rounds the minimum time counts, for each size, and the most memory: measured on a virtual machine of two "
        "processors, on which everything takes up to twice as long for seconds at a time."
    )
    written = f"Written by `python -m benchmarks.start --publish{f' --page {name}' if name else ''}`."
    said = [f"{r['processor']}, at commit {r['commit']}." for r in rows if "processor" in r]
    networks = (
        f"{len({r['model'] for r in rows})} networks, batch 1, one thread; this engine with its default precision."
    )
    parts = ["# Start, memory and changes of size", written, networks, *dict.fromkeys(said), table(rows), notes]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    import tempfile

    from benchmarks.models import find
    from benchmarks.setup_peers import interpreter, work_folder

    args = arguments()
    work = work_folder(args.work)
    peer = interpreter(work, "peers")
    pythons = {"ours": sys.executable}
    pythons |= {name: str(peer) for name in ("onnxruntime", "openvino") if peer.is_file() and name in args.peers}
    with tempfile.TemporaryDirectory() as folder:
        empty = bare(sys.executable, Path(folder))
        print(f"import MNN: {1e3 * (bare(sys.executable, Path(folder), 'import MNN') - empty):.0f} ms", flush=True)
        everything = "import MNN.runtime.executor"
        print(f"the whole engine: {1e3 * (bare(sys.executable, Path(folder), everything) - empty):.0f} ms", flush=True)
    kept = Path(args.json) if args.json else None
    rows: list[dict[str, Any]] = json.loads(kept.read_text()) if kept is not None and kept.exists() else []
    (work / "start").mkdir(parents=True, exist_ok=True)
    for name in args.models:
        paths = prepare(name, work / "start", find(name, work).path)
        rows = [r for r in rows if r["model"] != name] + measure(name, paths, pythons, args)
        print(table(rows[-len(pythons) :]), flush=True)
        if kept is not None:
            kept.write_text(json.dumps(rows, indent=1))
    if args.publish:
        file = f"start-{args.page}.md" if args.page else "start.md"
        (Path(__file__).parents[1] / "docs" / file).write_text(page(rows, args.page))


def arguments() -> argparse.Namespace:
    import argparse

    from benchmarks.architectures.catalog import MAIN

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MAIN), help="architectures of the benchmarks' catalog")
    parser.add_argument("--peers", nargs="*", default=["onnxruntime", "openvino"])
    parser.add_argument("--sizes", type=int, default=20, help="sizes of the input, at most 20")
    parser.add_argument("--publish", action="store_true", help="write docs/start.md")
    parser.add_argument("--page", default="", help="of the documentation, for a processor of its own: amx")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="cold starts, and processes that change the size")
    parser.add_argument("--repeats", type=int, default=2, help="warm starts after each cold one")
    parser.add_argument("--changes", type=int, default=100, help="changes of size after every size was seen")
    parser.add_argument("--work", type=Path, help="as for benchmarks.setup_peers")
    parser.add_argument("--json", help="write the figures to this file too")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3], sys.argv[4], *map(int, sys.argv[5:]))))
    else:
        main()
