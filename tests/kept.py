"""What other engines gave is kept, in the folder of test models, and found again while nothing that decides it changes:
the engine's version, the program that asks it, what that is given, the processor. Delete ``answers`` there to have
everything computed anew."""

from __future__ import annotations

import functools
import hashlib
import io
import mmap
import os
import re
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from MNN.backends.cpu.targets.host import processor
from tests import export_env, zoo

ROOT = Path(__file__).resolve().parents[1]
WORTH = 0.02
"""Seconds: what is computed in less is not kept."""
DAYS = 60
"""What was not asked for in so long is deleted."""
LARGEST = 64 << 20
"""Bytes: larger answers are not kept."""
_IMPORT = re.compile(rb"^\s*(?:from|import) ((?:tests|benchmarks)[\w.]*)(?: import \(?([\w,\s]+))?", re.MULTILINE)
_ELSEWHERE = b"\x0a\x08location"
"""How an ONNX file says that numbers lie in another file: an entry of that name."""
Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def place(*parts: bytes) -> Path:
    """Where answers that ``parts`` decide are kept, on a processor like this one."""
    digest = hashlib.sha256(repr((sorted(processor()[0]), processor()[1])).encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return zoo.cache_folder() / "answers" / digest.hexdigest()[:32]


def keep(path: Path, data: bytes) -> None:
    """Writes a file, whole or not at all: several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _forget(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


@functools.cache
def _forget(folder: Path) -> None:
    """Deletes, once in a process, what has not been asked for since long."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process did
            if time.time() - path.stat().st_mtime > DAYS * 86400:
                path.unlink()


def numbers(path: Path) -> dict[str, np.ndarray] | None:
    """Arrays that :func:`keep_numbers` has written."""
    try:
        os.utime(path)
        with np.load(path, allow_pickle=False) as found:
            return {name.removeprefix("."): found[name] for name in found.files}
    except FileNotFoundError:
        return None


def keep_numbers(path: Path, arrays: Arrays) -> None:
    """Keeps arrays of numbers, if they are not too large."""
    plain = all(isinstance(a, np.ndarray) and a.dtype.kind in "biuf" for a in arrays.values())
    if plain and sum(a.nbytes for a in arrays.values()) <= LARGEST:
        file = io.BytesIO()
        np.savez(file, **{f".{name}": a for name, a in arrays.items()})  # type: ignore[arg-type]  # "file" is a name too
        keep(path, file.getvalue())


def files(path: Path, folder: Path) -> bool:
    """Whether there are files that :func:`keep_files` has kept; they are in ``folder`` then."""
    try:
        os.utime(path)
        with zipfile.ZipFile(path) as kept:
            kept.extractall(folder)
            return True
    except FileNotFoundError:
        return False


def keep_files(path: Path, folder: Path, given: Mapping[str, bytes]) -> None:
    """Keeps the files of a folder but for those ``given``, if they are not too large."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as kept:
        for file in _files(folder):
            name = file.relative_to(folder).as_posix()
            if (data := file.read_bytes()) != given.get(name):
                kept.writestr(name, data)
    if written.tell() <= LARGEST:
        keep(path, written.getvalue())


def asked(interpreter: Path, requirements: Sequence[str], program: str, folder: Path, *arguments: str) -> None:
    """Leaves in ``folder`` the files that ``interpreter -m program *arguments``, run from the repository's root, writes
    there.

    These have to depend on nothing but the files of ``folder``, the ``requirements`` (packages with their versions),
    the arguments, and what the module ``program`` imports of the tests and benchmarks. Raises
    :class:`tests.zoo.ZooError` with what a program says that fails."""
    words = [str(interpreter), "-m", program, *arguments]
    given = {file.relative_to(folder).as_posix(): file.read_bytes() for file in _files(folder)}
    asking = [word.replace(str(folder), "").removeprefix(str(zoo.cache_folder())) for word in words]
    parts = [repr((asking, *requirements)).encode(), sources(ROOT / f"{program.replace('.', '/')}.py")]
    path = place(*parts, *[part for name in sorted(given) for part in (name.encode(), given[name])])
    if files(path, folder):
        return
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise zoo.ZooError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    keep_files(path, folder, given)


def torch(program: str, folder: Path, *arguments: str) -> None:
    """As :func:`asked`, of the environment that has torch."""
    interpreter = export_env.python(zoo.cache_folder())
    asked(interpreter, export_env.REQUIREMENTS, program, folder, *arguments)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sources(program: Path) -> bytes:
    """The text of a Python file, and of all files of tests and benchmarks that it imports by ``from``."""
    found: dict[Path, bytes] = {}

    def visit(path: Path) -> None:
        if path in found or (path != program and not path.is_file()):
            return
        found[path] = path.read_bytes()
        for module, names in _IMPORT.findall(found[path]):
            folder = ROOT / module.decode().replace(".", "/")
            visit(folder.with_suffix(".py"))
            for name in ["__init__", *re.findall(r"\w+", names.decode())]:
                visit(folder / f"{name}.py")

    visit(program)
    return b"\0".join(found.values())


def whole(path: Path) -> bytes | None:
    """A hash of an ONNX file; None where it has numbers in other files."""
    stat = path.stat()
    return _whole(path, stat.st_size, stat.st_mtime_ns)


def content(path: Path) -> bytes:
    """A hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


@functools.cache
def _whole(path: Path, size: int, changed: int) -> bytes | None:
    del size, changed
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return None if data.find(_ELSEWHERE) >= 0 else hashlib.sha256(data).digest()


def kept_run(model: Path, tag: str, make: Callable[[], Run]) -> Run:
    """``make()`` as a function from inputs of an ONNX file to its outputs, with answers that are kept. It is only
    called when one is missing. ``tag``: the engine, its version and its options.

    A model that has numbers in other files is computed each time."""
    digest, made = whole(model), functools.cache(make)

    def run(feeds: Arrays) -> Arrays:
        plain = all(a.dtype.kind in "biuf" for a in feeds.values())
        if digest is None or not plain:
            return made()(feeds)
        parts = [part for name, a in feeds.items() for part in (f"{name} {a.dtype} {a.shape}".encode(), a.tobytes())]
        path = place(tag.encode(), digest, *parts)
        kept = numbers(path)
        if kept is not None:
            return kept
        begin = time.monotonic()
        outputs = made()(feeds)
        if time.monotonic() - begin > WORTH:
            keep_numbers(path, outputs)
        return outputs

    return run


__all__ = [
    "asked",
    "content",
    "files",
    "keep",
    "keep_files",
    "keep_numbers",
    "kept_run",
    "numbers",
    "place",
    "sources",
    "torch",
    "whole",
]
