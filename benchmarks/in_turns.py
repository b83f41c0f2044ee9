"""Engines in one process that take turns: ``python -m benchmarks.in_turns --models DIR [--only NAMES] [--json FILE]``.

For machines where little can be installed: needs ``onnxruntime`` and ``openvino`` beside this engine, nothing else.
``DIR`` holds what ``benchmarks.export`` wrote, or ``benchmarks.quantize``; files named ``<model>-<quantiser>.onnx`` are
quantised ones, which this engine runs at its default precision alone. Every engine has its turn in every round, each
turn begins with an untimed run, and the minimum CPU time counts. Pin the process to a core (``taskset``). Differences
are from ONNX Runtime without optimisations, relative to the largest output. Prints rows of a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime

import MNN

from .peers import openvino_py
from .quantize import feeds

LEVELS = ("high", "normal", "low")
HEAD = {
    False: "| model | high | normal | low | ONNX Runtime | OpenVINO f32 | OpenVINO bf16 | high | normal | low |",
    True: "| model | ms | ONNX Runtime | OpenVINO | OpenVINO / this | ONNX Runtime / this | difference |",
}
Arrays = dict[str, np.ndarray]
Run = Callable[[], Arrays]


def _onnxruntime(path: Path, data: Arrays, plain: bool) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, data), strict=True))


def _openvino(path: Path, data: Arrays, names: list[str], precision: str) -> Run:
    engine = openvino_py.Engine(1, precision)
    engine.load(path, data, names)
    engine.set_inputs(data)

    def run() -> Arrays:
        engine.run()
        return engine.outputs()

    return run


def _this(path: Path, data: Arrays, precision: str) -> Run:
    session = MNN.load(str(path), threads=1, precision=precision)
    return lambda: session.run(data)


def engines(path: Path, data: Arrays, names: list[str], quantised: bool) -> Iterator[tuple[str, Run]]:
    """The engines that can run a model, by name; what one refuses is said and left out."""
    makers: dict[str, Callable[[], Run]] = {
        level: lambda level=level: _this(path, data, level) for level in (LEVELS[1:2] if quantised else LEVELS)
    }
    makers |= {
        "ONNX Runtime": lambda: _onnxruntime(path, data, False),
        "OpenVINO f32": lambda: _openvino(path, data, names, "high"),
        "OpenVINO bf16": lambda: _openvino(path, data, names, "low"),
    }
    for name, make in makers.items():
        try:
            run = make()
            run()
        except Exception as reason:  # noqa: BLE001 - an engine may raise anything, and the others go on
            print(f"{path.name}: {name}: {str(reason).splitlines()[0]}", flush=True)
            continue
        yield name, run


def in_turns(runs: dict[str, Run], seconds: float, rounds: int = 8) -> dict[str, float]:
    """The minimum CPU time of each in milliseconds, with so many ``seconds`` for each."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            end = time.process_time() + seconds / rounds
            while True:
                start = time.process_time()
                run()
                now = time.process_time()
                best[name] = min(best[name], 1e3 * (now - start))
                if 2 * now - start > end:
                    break
    return best


def plain_outputs(path: Path, data: Arrays) -> Arrays:
    """What ONNX Runtime gives without optimisations."""
    return _onnxruntime(path, data, True)()


def measure(path: Path, seconds: float) -> dict[str, object]:
    """Times and differences of one model by engine."""
    model, _, quantiser = path.stem.partition("-")
    data = feeds(model)
    plain = plain_outputs(path, data)
    runs = dict(engines(path, data, list(plain), bool(quantiser)))
    away = {
        name: max(float(np.abs(found[n] - w).max() / max(np.abs(w).max(), 1e-30)) for n, w in plain.items())
        for name, run in runs.items()
        for found in [run()]
    }
    return {"model": path.stem, "quantised": bool(quantiser), "ms": in_turns(runs, seconds), "difference": away}


def row(found: dict[str, object]) -> str:
    """A row of the table under :data:`HEAD`."""
    ms: dict[str, float] = found["ms"]  # type: ignore[assignment]
    away: dict[str, float] = found["difference"]  # type: ignore[assignment]
    none = float("nan")
    ort, f32, bf16 = (ms.get(n, none) for n in ("ONNX Runtime", "OpenVINO f32", "OpenVINO bf16"))
    if found["quantised"]:
        ours, openvino = ms["normal"], float(np.nanmin([f32, bf16]))
        cells = f"**{ours:.3g}** | {ort:.3g} | {openvino:.3g} | **{openvino / ours:.2f}** | {ort / ours:.2f}"
        return f"| {found['model']} | {cells} | {away['normal']:.0e} |"
    ours3 = " | ".join(f"**{ms[level]:.3g}** ({away[level]:.0e})" for level in LEVELS)
    best = float(np.nanmin([ort, f32]))
    ratios = f"{best / ms['high']:.2f} | {best / ms['normal']:.2f} | {bf16 / ms['low']:.2f}"
    return f"| {found['model']} | {ours3} | {ort:.3g} | {f32:.3g} | {bf16:.3g} | {ratios} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="folder of .onnx files")
    parser.add_argument("--only", help="names of files without .onnx; default all")
    parser.add_argument("--seconds", type=float, default=1.5, help="per engine and model")
    parser.add_argument("--json", type=Path, help="what was found, one model a line, is added to this file")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else sorted(p.stem for p in options.models.glob("*.onnx"))
    for name in names:
        found = measure(options.models / f"{name}.onnx", options.seconds)
        print(HEAD[bool(found["quantised"])], row(found), sep="\n", flush=True)
        if options.json is not None:
            with options.json.open("a", encoding="utf-8") as out:
                out.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
