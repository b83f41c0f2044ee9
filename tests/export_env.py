"""Runs this repository's torch exports in an environment of their own, so that tests need no torch installed.

The interpreter is ``MNN_EXPORT_PYTHON`` if set, else a virtual environment made once in the test models' cache folder
with the versions pinned below. Exported files are cached under a hash of their sources. Fails loudly (ZooError).
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.zoo import ZooError

# torch 2.13.0 is the newest release with the tracing exporter whose CPU build is widely mirrored; numpy must suit it.
REQUIREMENTS = ("torch==2.13.0", "numpy>=2", "onnx>=1.17", "onnxscript", "safetensors")
REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = ("benchmarks/architectures", "benchmarks/export.py", "benchmarks/export_trained.py")


def architecture(name: str, cache: Path) -> Path:
    """``<cache>/exported-<hash>/<name>.onnx`` of a benchmark architecture."""
    target = cache / f"exported-{_source_hash()}" / f"{name}.onnx"
    if not target.is_file():
        try:
            _run(cache, "benchmarks.export", "--only", name, "--out", str(target.parent))
        except ZooError:  # another process may have been first
            if not target.is_file():
                raise
        _require(target)
    return target


def trained(name: str, weights: Path, cache: Path) -> Path:
    """``<cache>/exported-<hash>/trained-<name>.onnx`` from the given weights."""
    target = cache / f"exported-{_source_hash()}" / f"trained-{name}.onnx"
    if not target.is_file():
        _run(cache, "benchmarks.export_trained", name, str(weights), str(target))
        _require(target)
    return target


@functools.cache
def _source_hash() -> str:
    digest = hashlib.sha256("\n".join(REQUIREMENTS).encode())
    for source in SOURCES:
        path = REPOSITORY / source
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _require(target: Path) -> None:
    if not target.is_file():
        raise ZooError(f"the export ended without an error but did not write {target}")


def _run(cache: Path, module: str, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    command = [str(python(cache)), "-m", module, *arguments]
    result = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ZooError(f"{' '.join(command)} failed:\n{result.stderr[-3000:]}")


def python(cache: Path) -> Path:
    """The interpreter that has torch, making its environment first if there is none."""
    return environment(cache, "export-env", REQUIREMENTS, "MNN_EXPORT_PYTHON")


def environment(cache: Path, name: str, requirements: Sequence[str], variable: str) -> Path:
    """The interpreter that has ``requirements``: what ``variable`` says, else that of a virtual environment in
    ``cache``, which is made first if there is none. Raises :class:`ZooError` where that fails."""
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen)
    tag = hashlib.sha256("\n".join([*requirements, sys.version]).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{tag}"
    if not folder.is_dir():
        # made aside and renamed, so that it is whole or absent; started as "python -m", it works from its new place
        cache.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=cache, prefix=f"{name}-making-"))
        try:
            _make(making, requirements, variable)
            making.rename(folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return _interpreter(folder)


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _make(folder: Path, requirements: Sequence[str], variable: str) -> None:
    venv.create(folder, with_pip=True)
    command = [str(_interpreter(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ZooError(
            f"{', '.join(requirements)} could not be installed into an environment of their own (set {variable} to an "
            f"interpreter that has them):\n{result.stderr[-3000:]}"
        )
