"""Programs on disk: what planning a model found, so that a process which runs it again need not read and plan it.

A model file is known by its place and by its identity (``MNN.schema.files.identity``): as long as nobody has written
to it, what was planned for it holds; so for files of weights beside it. The name of an entry adds everything else that
a plan depends on: the sizes of the inputs, the session's settings, the processor, and the engine's own files.

Entries lie in the cache folder beside the compiled kernels, under the same rules: private folder, owner, hash.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from MNN.backends.base.backend import GoneError, NotPortableError
from MNN.backends.base.open_words import OpenSizes
from MNN.backends.base.program import Buffer, Program
from MNN.backends.base.registry import backend
from MNN.cache.entries import Cache
from MNN.cache.packed import Checks, PackedStore
from MNN.cache.sources import llvm_version
from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.info import TensorInfo
from MNN.runtime.storage.form import Elsewhere, Unfit, dump, parse
from MNN.runtime.storage.tuned_choices import choices_mark
from MNN.schema.files import MappedFile, identity, open_regular

PART = "programs"
MOST = 16
"""Programs that one session writes: a model fed with ever new sizes must not fill the disk."""
_NOTED = ("states", "caches", "recurrent", "embeddings", "adapters")
"""What a graph notes of itself that is written as JSON."""
_HARMLESS = ("<f4", "<f8", "<f2")
"""Element types of constants that are only computed with: damaged ones give wrong numbers and nothing worse."""

Shapes = tuple[tuple[str, str, tuple[int, ...]], ...]
"""Name, element type (numpy's) and sizes of every input."""

Kinds = tuple[tuple[str, str, int], ...]
"""Name, element type and rank of every input."""
Stretch = tuple[Kinds, OpenSizes, str]
"""What inputs are like, the sizes that their program leaves open, and the key of its entry."""


@dataclass(frozen=True)
class Card:
    """What a model takes and gives, and what its file says of itself."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    formats: Mapping[str, str] = field(default_factory=dict)
    """The formats (NCHW, NHWC, NC4HW4) in which inputs and outputs list their sizes, by name."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """``version`` of the format, ``bizCode`` and ``uuid``, as far as the file has them; and ``states`` that
    operators keep by themselves: outputs by the inputs that they become, as JSON; ``caches`` of a language model: the
    states of layers by the window that these have, as JSON; ``embeddings``: the name of its table of these, as JSON;
    ``adapters``: where those of a language model change it, as JSON; ``sizes``: conditions on sizes of inputs and the
    names of these (see :mod:`MNN.ops.arranging.size_conditions`), as JSON."""

    @staticmethod
    def of(graph: Graph) -> Card:
        """That of a graph."""
        given = [v for v in graph.inputs if not v.is_const]
        takes, gives = ([TensorInfo(v.name, v.dtype, v.shape) for v in part] for part in (given, graph.outputs))
        noted = graph.meta.get("formats")
        known = noted if isinstance(noted, dict) else {}
        formats = {info.name: str(known.get(info.name, "NCHW")) for info in (*takes, *gives)}
        facts = {k: str(graph.meta[k]) for k in ("version", "bizCode", "uuid") if graph.meta.get(k)}
        facts |= {k: json.dumps(graph.meta[k]) for k in _NOTED if graph.meta.get(k)}
        asked = next((node for node in graph.nodes if node.op == "SizeConditions"), None)
        if asked is not None:
            facts["sizes"] = json.dumps([asked.attrs.get("conditions", ""), asked.attrs.get("names", "")])
        return Card(takes, gives, formats, facts)


@dataclass(frozen=True)
class StoredProgram:
    """A program, and the names of its inputs and of its results in its order."""

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    checks: Checks | None = None
    """What still has to be known of its constants before its results can be believed."""

    def result_types(self, shapes: Shapes) -> list[tuple[DType, tuple[int, ...]]]:
        """Element types and sizes of the results for such inputs."""
        program = self.program
        if program.open_sizes is None:
            return [(t.dtype, t.shape) for t in program.outputs]
        given = {name: shape for name, _, shape in shapes}
        found = program.open_sizes.results([given[name] for name in self.inputs])
        return [(t.dtype, shape) for t, shape in zip(program.outputs, found, strict=True)]


class StoredPrograms:
    """The programs of one model file (or a part of it) as it is now, for one session's settings."""

    def __init__(self, path: Path, mark: str, part: object, config: Config, cache: Cache) -> None:
        self._path, self._mark, self._cache = path, mark, cache
        self._store = PackedStore.shared()
        self._files: dict[str, MappedFile] = {}
        self._left = MOST
        self._backend = backend(config.backend, config.cache)
        settings = (config, self._backend.usable_threads(config.threads), choices_mark(config))
        self._file = (os.path.abspath(path), mark, part, package_stamp())
        self._base = (*self._file, settings, self._backend.device())

    @staticmethod
    def of(
        source: object,
        config: Config,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        states: Mapping[str, str] | None = None,
        signature: str | None = None,
    ) -> StoredPrograms | None:
        """Those of a model file given by its path, or of the part of it between tensors, with these ``states``, of its
        entry ``signature``; None where nothing can be stored or found."""
        if not isinstance(source, (str, os.PathLike)) or not config.cache or config.reference or Cache.is_off():
            return None
        path = Path(source)
        try:
            mark = identity(path.stat())
        except (OSError, ValueError):  # whoever opens it will say what is wrong
            return None
        cache = Cache.default(PART)
        part = (tuple(inputs), tuple(outputs), *((states or {}).items()), signature)
        return StoredPrograms(path, mark, part, config, cache) if mark and cache.folder is not None else None

    def card(self) -> Card | None:
        """What the model takes and gives, when some program of it is stored, for whatever settings."""
        try:
            inputs, outputs, formats, facts, files = self._read(self._card_key())
            self._check(files)
        except (Unfit, OSError):  # a file that it came from may be gone
            return None
        return Card(inputs, outputs, formats, facts)

    def files(self) -> dict[str, str] | None:
        """The identities of the files that were mapped when the model was read, by their paths, if something of it is
        stored."""
        try:
            *_, files = self._read(self._card_key())
        except Unfit:
            return None
        return dict(files)

    def find(self, shapes: Shapes) -> StoredProgram | None:
        """The program for such inputs, when it is stored: its kernels loaded, its large constants mapped."""
        return self._bring(self._key(shapes))

    def find_range(self, shapes: Shapes) -> StoredProgram | None:
        """The program for a range of sizes in which those of such inputs are, when there is one."""
        for kinds, sizes, key in self._ranges():
            if kinds == kinds_of(shapes) and sizes.match([shape for _, _, shape in shapes]):
                return self._bring(key)
        return None

    def _ranges(self) -> list[Stretch]:
        """The programs for ranges of sizes."""
        try:
            found: list[Stretch] = self._read(self._key("ranges"))
        except Unfit:
            return []
        return found

    def _bring(self, key: str) -> StoredProgram | None:
        try:
            program, inputs, outputs, files = self._read(key)
            self._check(files)
            used = dict.fromkeys([ref.buffer for c in program.commands for ref in c.refs()])
            used.update(dict.fromkeys([t.place.buffer for t in (*program.inputs, *program.outputs)]))
            checks = Checks()
            for buffer in used:
                if isinstance(buffer.source, Elsewhere):
                    self._fetch(buffer, buffer.source, checks)
            checks.begin()
            self._backend.load(program)
        except (Unfit, MNNError, OSError, GoneError):
            return None
        return StoredProgram(program, inputs, outputs, checks)

    def save(
        self,
        shapes: Shapes,
        found: StoredProgram,
        card: Card,
        files: Mapping[str, str],
    ) -> bool:
        """Stores a program that is bound, and so has its constants filled; False where that is impossible.

        ``files``: the identities of all files that were mapped while the model was read, by their paths.
        """
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            if not all(files.values()) or identity(self._path.stat()) != self._mark:
                return False  # written a moment ago
            entry = (self._backend.portable(found.program), found.inputs, found.outputs, dict(files))
            sizes = found.program.open_sizes
            key = self._key(shapes if sizes is None else (kinds_of(shapes), sizes.inputs, sizes.least, sizes.most))
            self._cache.put(key, dump(entry, self._store))
            if sizes is not None:
                ranges = [(kinds_of(shapes), sizes, key), *[s for s in self._ranges() if s[2] != key]]
                self._cache.put(self._key("ranges"), dump(ranges[:MOST], self._store))
            about = (card.inputs, card.outputs, dict(card.formats), dict(card.facts), dict(files))
            self._cache.put(self._card_key(), dump(about, self._store))
        except (Unfit, NotPortableError, OSError):
            return False
        finally:
            self._backend.release()
        return True

    def _key(self, shapes: object) -> str:
        return hashlib.sha256(repr(("program", self._base, shapes)).encode()).hexdigest()

    def _card_key(self) -> str:
        return hashlib.sha256(repr(("card", self._file)).encode()).hexdigest()

    def _read(self, key: str) -> Any:
        data = self._cache.get(key)
        if data is None:
            raise Unfit("there is no such entry")
        return parse(data, self._backend)

    def _check(self, files: Mapping[str, str]) -> None:
        if any(identity(os.stat(path)) != mark for path, mark in files.items()):
            raise Unfit("a file of weights has changed")

    def _fetch(self, buffer: Buffer, where: Elsewhere, checks: Checks) -> None:
        """Brings in the numbers of a large constant: an entry of the store, or a place in a mapped file.

        Those that no address follows from may be checked while they are in use."""
        numbers: np.ndarray | None
        if where.offset < 0:
            numbers = self._store.find(where.name, checks if where.kind in _HARMLESS else None)
            buffer.stored = where.name
        else:
            whole = np.frombuffer(self._mapped(where.name), np.uint8)
            numbers = whole[where.offset : where.offset + buffer.nbytes]
        if numbers is None or numbers.nbytes != buffer.nbytes:
            raise Unfit("a constant is gone")
        buffer.const = numbers.view(where.kind)

    def _mapped(self, path: str) -> MappedFile:
        if path not in self._files:
            with open_regular(Path(path)) as file:
                self._files[path] = MappedFile.of(file, path)
        return self._files[path]


def kinds_of(shapes: Shapes) -> Kinds:
    """What inputs are like whatever their sizes."""
    return tuple([(name, kind, len(shape)) for name, kind, shape in shapes])


@functools.cache
def package_stamp() -> str:
    """A text that changes with the engine's own files, and with what runs them."""
    total = hashlib.sha256(repr((platform.python_version(), np.__version__, llvm_version())).encode())
    root = os.fspath(Path(__file__).parents[2])
    for path, info in sorted(_sources(root)):
        total.update(repr((path[len(root) :], info.st_size, info.st_mtime_ns)).encode())
    return total.hexdigest()


def _sources(folder: str) -> Sequence[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found += _sources(entry.path) if entry.name != "__pycache__" else ()
            elif entry.name.endswith(".py"):
                found.append((entry.path, entry.stat()))
    return found
