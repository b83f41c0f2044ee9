"""Exports the benchmark architectures to ONNX: ``python -m benchmarks.export [--only NAME,...] --out DIR``.

Needs torch (``pip install torch onnx numpy``). Weights are seeded, so the same torch version writes the same model.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import torch

from .architectures.catalog import Architecture, select

OPSET = 17


def export(architecture: Architecture, folder: Path) -> Path:
    """Write ``<folder>/<name>.onnx`` and return its path."""
    return write_onnx(
        architecture.build(),
        tuple(torch.from_numpy(a) for a in architecture.feeds().values()),
        folder / f"{architecture.name}.onnx",
        [i.name for i in architecture.inputs],
        list(architecture.outputs),
        architecture.dynamic_axes(),
    )


def write_onnx(
    model: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    path: Path,
    inputs: list[str],
    outputs: list[str],
    dynamic_axes: dict[str, dict[int, str]],
) -> Path:
    """Trace ``model`` on ``example`` and write it; the file appears under its name only once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # deprecation of the tracing exporter, constants in the trace
        torch.onnx.export(
            model,
            example,
            str(partial),
            input_names=inputs,
            output_names=outputs,
            dynamic_axes=dynamic_axes,
            opset_version=OPSET,
            dynamo=False,  # the tracing exporter writes the graphs that most published models have
        )
    os.replace(partial, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="comma-separated names; default all")
    parser.add_argument("--out", type=Path, required=True, help="folder for the .onnx files")
    options = parser.parse_args()
    for architecture in select(options.only):
        start = time.perf_counter()
        path = export(architecture, options.out)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB  {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
