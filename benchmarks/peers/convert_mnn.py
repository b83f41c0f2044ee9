"""The official MNN converter, run in the peers' environment: ``-m benchmarks.peers.convert_mnn SRC.onnx DST.mnn``."""

from __future__ import annotations

import os
import sys

import _tools

import MNN  # noqa: F401 - the converter needs the engine's library loaded first

# Its converter says success for empty files, so the file itself is looked at.
LEAST_BYTES = 512


def main() -> None:
    source, target = sys.argv[1:]
    arguments = ["mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", target, "--bizCode", "benchmark"]
    _tools.mnnconvert(arguments)
    if not os.path.isfile(target) or os.path.getsize(target) < LEAST_BYTES:
        raise SystemExit(f"the official converter wrote no model for {source}")


if __name__ == "__main__":
    main()
