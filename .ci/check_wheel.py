"""Checks what is inside of a wheel: all modules and data files, and nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
DATA = {
    "MNN/py.typed",
    "MNN/schema/tables.json",
    "MNN/frontends/caffe/schema.json",
    "MNN/frontends/tflite/tables.json",
    "MNN/assets/digits.onnx",
    "MNN/assets/digits_samples.npz",
    "MNN/assets/gguf_codebooks.npz",
    "MNN/assets/chat.html",
    "MNN/assets/report.css",
    "MNN/assets/report.js",
}
MOST_BYTES = 3_500_000
"""A guard against data that slips in; nearly all of a wheel is source text."""


def main(path: str) -> None:
    """Exits with a message when the wheel at ``path`` is not what the source tree says."""
    with zipfile.ZipFile(path) as wheel:
        names = {n for n in wheel.namelist() if ".dist-info/" not in n}
    modules = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py")}
    missing = sorted((modules | DATA) - names)
    strange = sorted(names - modules - DATA)
    size = Path(path).stat().st_size
    if missing or strange or size > MOST_BYTES:
        sys.exit(f"{path}: missing {missing}, not expected {strange}, {size} bytes")
    if not path.endswith("-py3-none-any.whl"):
        sys.exit(f"{path}: expected a wheel for any Python 3 and platform")
    print(f"{Path(path).name}: {len(names)} files, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1])
