"""Quantised models beside their float forms and ONNX Runtime: ``python -m benchmarks.quantized --models DIR``.

``DIR`` holds what ``benchmarks.quantize`` made. Both engines run in this process and take turns; the minimum counts.
Prints a Markdown table, and writes it to ``docs/quantized-speed.md`` with ``--publish``. With ``MNN_TARGET=avx2`` this
engine's part is what a processor without VNNI gives; ONNX Runtime still uses what the processor has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

from MNN import model
from MNN.backends.cpu.targets.base import host_target

from .quantize import MATRIX, feeds, float_model
from .setup_peers import REPOSITORY, work_folder

_HEAD = """| model | quantiser | ms | float ms | ONNX Runtime ms | largest difference |
| --- | --- | ---: | ---: | ---: | ---: |"""

_NOISE = (
    "Where transformers differ by a few per cent, nobody's arithmetic is wrong. ONNX Runtime with its optimisations "
    "differs as much from ONNX Runtime without (ViT-tiny `qdq-u8s8`: 0.10, this engine from either: 0.10 and 0.07). "
    "Given ONNX Runtime's own tensors, operator by operator, this engine's results are the same: of 28 million "
    "quantised numbers of that model none differs as it was loaded, and on integers 43 of the 6 million that products "
    "give, by one step, where a value lies on a tie of the rounding; floats agree to 2e-6. Such a step of an 8-bit "
    "scale then runs through all layers behind it, which the random weights of these networks do not damp "
    "(`tests/onnx/test_quantized_transformer.py` keeps the bounds)."
)

_HOW = (
    "`u16` activations are computed in floating point, rounded to their steps on the way; the GRU's own weights are "
    "left in floating point by the quantiser. An LSTM's state is quantised in every step, each sequence by itself. On "
    "processors without products of bytes (`MNN_TARGET=avx2`) convolutions with windows of three are Winograd's "
    "F(2,3) on 16-bit integers, exactly: ResNet-18 `qdq-u8s8` 15.8 ms (float 19.1), YOLOv8n 49.7 (60.3), ViT-tiny "
    "25.5 (25.8), MobileNetV2 5.9 (6.7)."
)

_LENGTHS: dict[str, tuple[int | None, ...]] = {"decoder": (1, 16, 128)}
"""Numbers of tokens at which a model is measured; one is how texts are generated."""
_WEIGHTS = (
    "`nbits` are weights of 4 and 8 bits in blocks of 32 or 128 that have a scale and, with 4 bits, a zero point "
    "(MatMulNBits). They stay so in files, in memory and in kernels; what they are multiplied by stays f32, unless the "
    "model says `accuracy_level` 4 or precision is `low`: then rows are rounded to 8 bits block by block, as ONNX "
    "Runtime does it, and multiplied as integers where the processor sums products of bytes. In f32, with few rows "
    "their bytes bound the time, with many they are expanded panel by panel on the way into the product, and the float "
    "model may be ahead where it has Strassen's method, which takes expanded weights."
)


_PAGE = REPOSITORY / "docs" / "quantized-speed.md"
_PEERS = "## Beside OpenVINO"
"""Where the page's part begins that other benchmarks and people write (``python -m benchmarks.in_turns``)."""


def _turns(runs: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least milliseconds of each."""
    best, end = [float("inf")] * len(runs), time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start)
    return [1e3 * t for t in best]


def line(
    folder: Path, name: str, quantiser: str, threads: int, seconds: float, work: Path, tokens: int | None = None
) -> str | None:
    """The table's row of one model, at a number of tokens; None where its file is not there."""
    path = folder / f"{name}-{quantiser}.onnx"
    data = feeds(name) if tokens is None else feeds(name, sequence=tokens)
    if not path.is_file():
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ours = model.load(str(path), threads=threads)
    plain = model.load(str(float_model(name, work, folder)), threads=threads)
    wanted = dict(zip([o.name for o in theirs.get_outputs()], theirs.run(None, data), strict=True))
    found = ours.run(data)
    plain.run(data)  # plans, outside of what is timed
    away = max(float(np.abs(found[n] - w).max() / max(np.abs(w).max(), 1e-30)) for n, w in wanted.items())
    times = _turns([lambda: ours.run(data), lambda: plain.run(data), lambda: theirs.run(None, data)], seconds)
    shown = name if tokens is None else f"{name}, {tokens} token{'s' if tokens > 1 else ''}"
    return f"| {shown} | {quantiser} | {times[0]:.2f} | {times[1]:.2f} | {times[2]:.2f} | {away:.0e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="folder that benchmarks.quantize filled")
    parser.add_argument("--only", help=f"of {', '.join(MATRIX)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="per engine and model")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--work", type=Path, help="folder of setup_peers")
    options = parser.parse_args()
    rows = [
        "# Quantised models", "",
        f"Target {host_target().name}, {options.threads} thread(s), batch 1, ONNX Runtime {onnxruntime.__version__}. "
        "Differences are from ONNX Runtime on the quantised model, relative to the largest output. "
        "Written by `python -m benchmarks.quantized`.", "", _HEAD,
    ]  # fmt: skip
    for name in options.only.split(",") if options.only else MATRIX:
        for tokens in _LENGTHS.get(name, (None,)):
            for quantiser in MATRIX[name]:
                where = work_folder(options.work)
                row = line(options.models, name, quantiser, options.threads, options.seconds, where, tokens)
                rows += [row] if row else []
    page = _PAGE.read_text(encoding="utf-8")
    text = "\n".join([*rows, "", _HOW, "", _WEIGHTS, "", _NOISE, "", page[page.index(_PEERS) :]])
    print(text)
    if options.publish:
        _PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
