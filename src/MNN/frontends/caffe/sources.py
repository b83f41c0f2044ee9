"""Caffe's files: which of them is the network, which holds the weights, and where the other one lies."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.frontends.caffe import text, wire
from MNN.frontends.caffe.blobs import array_of
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe_files import is_text
from MNN.schema.files import MappedFile, open_regular

Source = str | os.PathLike[str] | bytes
TEXT, BINARY = (".prototxt", ".pbtxt", ".prototext"), (".caffemodel",)


@dataclass(frozen=True)
class Files:
    """A network's description, and its weights: None where there are no weights, the same where one file is both."""

    net: Message
    weights: Message | None
    beside: str = ""
    """Where weights were looked for in vain."""


def open_files(source: Source, prototxt: str | os.PathLike[str] | None = None) -> Files:
    """What belongs to a source: the description ``prototxt`` or the one beside a caffemodel, the caffemodel beside a
    description. Raises MNNError for files that cannot be read, :class:`FormatError` for damaged ones."""
    if isinstance(source, bytes):
        if is_text(source[:65536]) or not _binary_at_heart(source):
            return Files(text.parse(source, "the data"), None)
        net = wire.parse(source, "NetParameter", "the data")
        given = net if prototxt is None else _description(Path(prototxt))
        return Files(given, net)
    path = Path(source)
    data = _mapped(path)
    if _is_description(path, data):
        if prototxt is not None:
            raise MNNError(f"'{path}' is a description itself; give --prototxt with a caffemodel")
        net = text.parse(bytes(data), f"'{path}'")
        found = _beside(path, BINARY)
        looked = f"'{path.with_suffix(BINARY[0])}', and no other caffemodel is the only one in its folder"
        return Files(net, None if found is None else _weights(found), "" if found else looked)
    weights = wire.parse(memoryview(data), "NetParameter", f"'{path}'")
    description = Path(prototxt) if prototxt is not None else _beside(path, TEXT)
    return Files(weights if description is None else _description(description), weights)


def read_mean(source: Source) -> np.ndarray:
    """The mean of pictures in a ``.binaryproto`` file, ``[1, C, H, W]`` f32: what is subtracted from inputs,
    in the order of channels that it was trained with (BGR as a rule). Raises :class:`FormatError` for other files."""
    name, data = ("the data", source) if isinstance(source, bytes) else (f"'{source}'", _mapped(Path(source)))
    mean = array_of(wire.parse(memoryview(data), "BlobProto", name))
    if not mean.size:
        raise FormatError(f"{name} holds no numbers; is it a mean file?")
    return mean.reshape((1,) * (4 - mean.ndim) + mean.shape) if mean.ndim < 4 else mean


def _is_description(path: Path, data: bytes | MappedFile) -> bool:
    return path.suffix.lower() in TEXT or (path.suffix.lower() not in BINARY and is_text(data[:65536]))


def _binary_at_heart(data: bytes) -> bool:
    """Whether damaged data is rather binary: it has bytes that no text has."""
    return bool(re.search(rb"[\x00-\x08\x0e-\x1f]", data[:65536]))


def _description(path: Path) -> Message:
    return text.parse(bytes(_mapped(path)), f"'{path}'")


def _weights(path: Path) -> Message:
    return wire.parse(memoryview(_mapped(path)), "NetParameter", f"'{path}'")


def _mapped(path: Path) -> MappedFile | bytes:
    try:
        with open_regular(path) as file:
            return MappedFile.of(file, path) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise MNNError(f"cannot read '{path}': {error.strerror or error}") from error


def _beside(path: Path, suffixes: tuple[str, ...]) -> Path | None:
    """The other half of a network: of the same name, called deploy, or the only one of its kind in the folder."""
    folder = path.parent
    named = [folder / f"{stem}{s}" for stem in (path.stem, f"{path.stem}_deploy", "deploy") for s in suffixes]
    found = next((p for p in named if p.is_file()), None)
    if found is not None:
        return found
    try:
        others = [p for p in folder.iterdir() if p.suffix.lower() in suffixes and p.is_file()]
    except OSError:
        return None
    deploys = [p for p in others if "deploy" in p.stem.lower()]
    chosen = deploys if len(deploys) == 1 else [p for p in others if "solver" not in p.stem.lower()]
    return chosen[0] if len(chosen) == 1 else None
