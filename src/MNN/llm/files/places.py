"""What lies at a path: a GGUF file, safetensors, or a folder with either."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.files.gguf.reader import GGUF, read_gguf

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
SHARDS = 1000


@dataclass(frozen=True)
class Place:
    """A model's files. ``folder``: where configs and tokenizers lie. One of ``gguf``, ``index``, ``safetensors``."""

    folder: Path
    gguf: Path | None = None
    index: Path | None = None
    safetensors: tuple[Path, ...] = ()


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


def read_gguf_shards(path: Path) -> GGUF:
    """A GGUF file, with its other shards if it is the first of several."""
    first = read_gguf(path)
    match = _SHARD.fullmatch(path.name)
    shards = first.get("split.count", int, 1)
    if shards <= 1:
        return first
    if match is None or int(match["number"]) != 1 or int(match["count"]) != shards or shards > SHARDS:
        raise FormatError(f"{path} is one of {shards} files; name the first, which ends in -00001-of-{shards:05}.gguf")
    tensors = dict(first.tensors)
    for number in range(2, shards + 1):
        part = read_gguf(path.with_name(f"{match['stem']}-{number:05}-of-{shards:05}.gguf"))
        twice = tensors.keys() & part.tensors.keys()
        if twice:
            raise FormatError(f"{part.path} has the tensor {sorted(twice)[0]!r}, which another shard has as well")
        tensors |= part.tensors
    return GGUF(path, first.metadata, tensors)
