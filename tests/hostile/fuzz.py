"""Coverage-guided fuzzing of the loaders with atheris (an extra: ``pip install atheris``).

    python -m tests.hostile.fuzz onnx|mnn [--seconds 120] [--corpus FOLDER]

Starts from the small models of :mod:`tests.hostile.models` and :mod:`tests.hostile.operators`, mutates what reaches
new code of the front ends, the file format and the lowering, and stops at the first file that ends in anything but a
right load or an MNNError. That file is kept as ``crash-...``; put it into ``tests/hostile/finds`` (``.onnx`` or
``.mnn``) with the mend, so that :mod:`tests.hostile.test_finds` watches over it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["MNN.frontends", "MNN.schema", "MNN.ops", "MNN.passes", "MNN.ir"]):
    from tests.hostile.attempt import attempt

from tests.hostile.models import MODELS, model
from tests.hostile.operators import files

WAYS = ("meaning", "convert")


def seeds(form: str, folder: Path) -> None:
    """Undamaged files to begin with."""
    for name in MODELS:
        (folder / f"{name}.{form}").write_bytes(model(name, form))
    if form == "onnx":
        for name, data in files():
            (folder / f"{name[:60].replace('/', '_')}.onnx").write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzzes a loader.")
    parser.add_argument("form", choices=("onnx", "mnn"))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--corpus", type=Path, help="where inputs that reach new code are kept")
    chosen = parser.parse_args()
    turn = 0

    def one(data: bytes) -> None:
        nonlocal turn
        turn += 1
        attempt(data, chosen.form, WAYS[turn % len(WAYS)])

    with tempfile.TemporaryDirectory() as folder:
        seeds(chosen.form, Path(folder))
        corpus = [str(chosen.corpus)] if chosen.corpus else []
        limits = [f"-max_total_time={chosen.seconds}", "-max_len=20000", "-timeout=20", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *limits, *corpus, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
