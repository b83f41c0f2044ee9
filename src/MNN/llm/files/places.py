"""What lies at a path: a GGUF file, safetensors, or a folder with either."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.files.gguf.reader import GGUF, read_gguf
from MNN.llm.files.mapped import read_json

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
SHARDS = 1000


@dataclass(frozen=True)
class Place:
    """A model's files. ``folder``: where configs and tokenizers lie. One of ``gguf``, ``index``, ``safetensors``."""

    folder: Path
    gguf: Path | None = None
    index: Path | None = None
    safetensors: tuple[Path, ...] = ()

    @property
    def weights(self) -> tuple[Path, ...]:
        """The files that the tensors are in, all shards of them; those that are there."""
        if self.gguf is not None:
            return tuple(file for file in shards_of(self.gguf) if file.is_file())
        if self.index is not None:
            told = read_json(self.index).get("weight_map")
            names = {name for name in told.values() if isinstance(name, str)} if isinstance(told, dict) else set()
            files = (self.index.parent / name for name in sorted(names) if Path(name).name == name)
            return tuple(file for file in files if file.is_file())
        return self.safetensors


def find(path: str | os.PathLike[str]) -> Place:
    """Looks at a path. MNNError where there is nothing, UnsupportedError for files of other kinds."""
    place = Path(path)
    if place.is_file():
        if place.suffix == ".gguf":
            return Place(place.parent, gguf=place)
        if place.suffix == ".safetensors":
            return Place(place.parent, safetensors=(place,))
        if place.name.endswith(".safetensors.index.json"):
            return Place(place.parent, index=place)
        raise UnsupportedError(f"{place} is neither a .gguf nor a .safetensors file, nor a folder with some")
    if not place.is_dir():
        raise MNNError(f"there is no file or folder {place}")
    return _in_folder(place)


def _in_folder(folder: Path) -> Place:
    whole = folder / "model.safetensors"
    if whole.is_file():
        return Place(folder, safetensors=(whole,))
    for kind, field in ((".safetensors.index.json", "index"), (".gguf", "gguf")):
        files = sorted(file for file in folder.iterdir() if file.name.endswith(kind) and _first_shard(file))
        if len(files) > 1:
            raise MNNError(f"{folder} holds {len(files)} models, {files[0].name} and others; name one of the files")
        if files:
            return Place(folder, index=files[0]) if field == "index" else Place(folder, gguf=files[0])
    loose = tuple(sorted(file for file in folder.iterdir() if file.suffix == ".safetensors"))
    if loose:
        return Place(folder, safetensors=loose)
    if any(folder.glob("pytorch_model*.bin")):
        raise UnsupportedError(
            f"{folder} holds pickled weights, which can run programs when they are read; "
            "save them as safetensors: model.save_pretrained(folder)"
        )
    return Place(folder)


def _first_shard(file: Path) -> bool:
    match = _SHARD.fullmatch(file.name)
    return match is None or int(match["number"]) == 1


def shards_of(path: Path) -> list[Path]:
    """A GGUF file, and the others where its name says that it is the first of several."""
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match["number"]) != 1 or not 1 < int(match["count"]) <= SHARDS:
        return [path]
    count = int(match["count"])
    return [path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]


def read_gguf_shards(path: Path) -> GGUF:
    """A GGUF file, with its other shards if it is the first of several."""
    first = read_gguf(path)
    shards, files = first.get("split.count", int, 1), shards_of(path)
    if shards <= 1:
        return first
    if len(files) != shards:
        raise FormatError(f"{path} is one of {shards} files; name the first, which ends in -00001-of-{shards:05}.gguf")
    tensors = dict(first.tensors)
    for file in files[1:]:
        part = read_gguf(file)
        twice = tensors.keys() & part.tensors.keys()
        if twice:
            raise FormatError(f"{part.path} has the tensor {sorted(twice)[0]!r}, which another shard has as well")
        tensors |= part.tensors
    return GGUF(path, first.metadata, tensors)
