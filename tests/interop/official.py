"""The official engine in an environment of its own, never part of the product.

The environment is the folder ``MNN_OFFICIAL_ENV`` if set, else one made once in the user's cache folder. Only the
converter's native entry point is called: the wheel's console scripts and its ``MNN.tools`` package install a logging
package elsewhere and report usage, so that package's logger is deleted after installing.

What it answered is kept (:mod:`tests.kept`); what it failed at is not.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.schema import read_net
from tests import kept

REQUIREMENTS = ("MNN==3.6.1", "numpy>=2")
DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 600


class OfficialError(Exception):
    """The official engine cannot be had, refused a model, crashed, or gave no result."""


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str], *flags: str) -> None:
    """Converts an ONNX file with the official converter (flags such as ``--fp16``, ``--weightQuantBits 8``)."""
    digest = kept.whole(Path(source))
    place = digest and _place(["convert", Path(target).name, *flags], digest)
    if place and kept.files(place, Path(target).parent):
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / Path(target).name
        said = _call("convert", str(Path(source).absolute()), str(made), *flags)
        if not made.is_file() or made.stat().st_size < 64:
            raise OfficialError(f"no model came out of {source}:\n{said[-2000:]}")
        if place:
            kept.keep_files(place, Path(folder), {})
        for file in Path(folder).iterdir():
            shutil.move(file, Path(target).parent / file.name)


def run(model: str | os.PathLike[str], feeds: Mapping[str, np.ndarray], outputs: Sequence[str]) -> list[np.ndarray]:
    """Outputs of a .mnn file in the order of ``outputs``; integers of all widths are given as 32-bit ones."""
    path, formats, names = Path(model), _formats(model, feeds), [f"out{i}" for i in range(len(outputs))]
    shapes = [f"{name} {a.dtype} {a.shape}" for name, a in feeds.items()]
    beside = sorted(path.parent.glob(f"{glob.escape(path.name)}*"))  # weights may lie in a file of their own
    told = ["run", *outputs, formats, *[file.suffix for file in beside], *shapes]
    place = _place(told, *map(kept.content, beside), *[a.tobytes() for a in feeds.values()])
    found = kept.numbers(place)
    if found is not None:
        return [found[name] for name in names]
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "feeds.npz", Path(folder) / "result.npz"
        np.savez(given, **{f"in{i}": array for i, array in enumerate(feeds.values())})
        said = _call(
            "run", str(Path(model).absolute()), str(given), str(result),
            "\x1f".join(feeds), "\x1f".join(outputs), formats,
        )  # fmt: skip
        if not result.is_file():
            raise OfficialError(f"no result for {model}:\n{said[-2000:]}")
        with np.load(result) as arrays:
            found = {name: arrays[name] for name in names}
        kept.keep_numbers(place, found)
        return list(found.values())


def decode(folder: str | os.PathLike[str], program: Sequence[tuple[str, Any]]) -> np.ndarray:
    """Runs a language model's folder step by step (:mod:`tests.interop.caches`): the logits behind every one."""
    with tempfile.TemporaryDirectory() as place:
        listed, result = Path(place) / "program.json", Path(place) / "result.npy"
        listed.write_text(json.dumps(program))
        said = _call("decode", str(Path(folder).absolute()), str(listed), str(result))
        if not result.is_file():
            raise OfficialError(f"no result for {folder}:\n{said[-2000:]}")
        found: np.ndarray = np.load(result)
        return found


def _formats(model: str | os.PathLike[str], feeds: Mapping[str, np.ndarray]) -> str:
    """The formats in which the model's inputs are given, as the file declares them."""
    net = read_net(model)
    declared = {
        net.tensorName[int(op.outputIndexes[0])]: str(op.main.dformat)
        for op in net.oplists
        if op.type == "Input" and op.main is not None
    }
    return "\x1f".join(declared.get(name, "NCHW") for name in feeds)


@dataclass(frozen=True)
class Job:
    """One model to run."""

    model: Path
    feeds: Mapping[str, np.ndarray]
    outputs: Sequence[str]


def run_many(jobs: Mapping[str, Job]) -> dict[str, list[np.ndarray] | str]:
    """Outputs of many small models, or what went wrong; a crash costs only the model that caused it."""
    names = list(jobs)
    results: dict[str, list[np.ndarray] | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        for i, name in enumerate(names):
            job, given = jobs[name], Path(folder) / f"{i}.in.npz"
            np.savez(given, **{f"in{k}": array for k, array in enumerate(job.feeds.values())})
            result = Path(folder) / f"{i}.out.npz"
            listed.append(
                [
                    str(job.model.absolute()),
                    str(given),
                    str(result),
                    "\x1f".join(job.feeds),
                    "\x1f".join(job.outputs),
                    _formats(job.model, job.feeds),
                ]
            )
        todo, start = Path(folder) / "todo.json", 0
        todo.write_text(json.dumps(listed))
        said: dict[int, str] = {}
        while start < len(names):
            start = _run_from(todo, start, said)
        for i, name in enumerate(names):
            result = Path(folder) / f"{i}.out.npz"
            if result.is_file():
                with np.load(result) as arrays:
                    results[name] = [arrays[f"out{k}"] for k in range(len(jobs[name].outputs))]
            else:
                results[name] = said.get(i, "no result").strip()[-200:]
    return results


def _place(told: Sequence[str], *given: bytes) -> Path:
    """Where an answer of the engine is kept to what it is ``told`` and ``given``."""
    asking = repr((told, REQUIREMENTS, os.environ.get("MNN_OFFICIAL_ENV", "")))
    return kept.place(asking.encode(), DRIVER.read_bytes(), *given)


def _run_from(todo: Path, start: int, said: dict[int, str]) -> int:
    """Runs the list from ``start`` on in one process; returns where to go on after a crash."""
    done = _driver("many", str(todo), str(start))
    current = start
    for line in done.stdout.splitlines():
        if line.startswith("AT "):
            current = int(line[3:])
        else:
            said[current] = f"{said.get(current, '')} {line}"
    if done.returncode == 0:
        return 1 << 30
    said[current] = f"crashed the official engine ({done.returncode})"
    return current + 1


def _call(*arguments: str) -> str:
    done = _driver(*arguments)
    said = done.stdout + done.stderr
    if done.returncode:
        raise OfficialError(f"{' '.join(arguments[:2])} ended with {done.returncode}:\n{said[-2000:]}")
    return said


def _driver(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the driver says; paths are absolute, since it works in a folder of its own: the converter leaves files."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    command = [str(interpreter().absolute()), str(DRIVER.absolute()), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            command, cwd=folder, env=environment,
            capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip


def interpreter() -> Path:
    """The environment's Python, installing the engine first where there is none."""
    chosen = os.environ.get("MNN_OFFICIAL_ENV")
    folder = Path(chosen) if chosen else _cache() / f"official-{REQUIREMENTS[0].replace('==', '-')}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            _make(folder, python)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return python


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mnn-py-tests"


def _make(folder: Path, python: Path) -> None:
    venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OfficialError(f"the official engine could not be installed; set MNN_OFFICIAL_ENV:\n{done.stderr[-2000:]}")
    for logger in folder.glob("**/MNN/tools/utils/log.py"):
        logger.unlink()
